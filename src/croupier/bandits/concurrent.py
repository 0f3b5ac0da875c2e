"""Policies for decisions: arms side by side in blocks, so that time of day and arm are never confounded.

A block has one batch for each arm in it. Its batches open together and close at the same instant, and users are dealt
to its arms by odds that stay the same within it. So two batches of a block meet the same times, and their difference
is one of the arms alone. Odds depend on earlier blocks' totals only.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import permutations
from typing import Any, ClassVar

import numpy as np

from croupier.bandits.batch_sizes import SMALLEST, Ladder
from croupier.bandits.elimination import EVERYONE
from croupier.bandits.metrics import Metrics
from croupier.bandits.policy import Bools, Integers, Policy
from croupier.bandits.terms import Terms
from croupier.bandits.watched import Watched
from croupier.checks import InvalidParameter, between, integer
from croupier.comparisons.bets import stakes
from croupier.comparisons.claims import Claims, Levels, claim
from croupier.comparisons.comparison import Comparison
from croupier.comparisons.decision import KINDS, Decision
from croupier.comparisons.guardrails import Guarded
from croupier.comparisons.lift import ratio
from croupier.comparisons.silence import Silence, tipping_point
from croupier.comparisons.tails import Floats
from croupier.protocols.sums.several import Sums

TYPICAL = 8
"""After so many blocks a batch has a typical size: bets are chosen for it."""


class Concurrent(Policy):
    """K arms in blocks, compared pair by pair. A subclass says how the arms share the users: `allocation`."""

    in_blocks: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("decision",)
    shares: Floats | None = None
    """How users are split, where that changes only when it is told to."""

    def __init__(
        self,
        arms: int,
        horizon: int | None,
        ladder: Ladder,
        terms: Terms,
        *,
        runs: int = 1,
        name: str = "",
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__(arms, horizon, ladder, runs=runs, name=name)
        self.terms, self.control = terms, integer("control", terms.control, 0, arms - 1)
        self.least = SMALLEST if ladder.protocol is None else ladder.first
        """Reports that each batch needs when a deadline closes its block."""
        typical = ladder.size(TYPICAL)
        bets = stakes(ladder.cumulants(typical), typical, terms.smallest_effect, terms.rate)
        reserve = Levels(arms, terms.confidence).reserve
        self.comparison = Comparison(arms, runs, bets, ladder.cumulants, terms.rate, reserve)
        self.watched = Watched(metrics, arms, runs, ladder, typical, reserve)
        self.silence = Silence(arms, runs)
        self.blocks: Integers = np.zeros(runs, dtype=np.int64)
        self.turns: Integers = np.zeros((runs, arms), dtype=np.int64)
        # Where batches must be full: in blocks whose turns are over.
        self._silent: Integers = np.zeros((runs, arms), dtype=np.int64)
        self._answered: Integers = np.zeros((runs, arms), dtype=np.int64)
        self.may_decide = True
        """Whether a decision may be taken yet: not before a minimum run is over."""
        self.verdict: Integers = np.full(runs, KINDS.index("leading"))
        """What was decided, as a place in `KINDS`."""
        self.winner: Integers = np.full(runs, -1, dtype=np.int64)
        """The arm that a decision is for; -1 while there is none."""
        self.rival: Integers = np.full(runs, -1, dtype=np.int64)
        """The arm that the winner was compared with when it was decided."""
        self.alike: Bools = np.zeros((runs, arms), dtype=bool)
        """The arms that were found to be alike."""

    def mechanism(self, size: int) -> Sums | None:
        """With all metrics that a report has."""
        return super().mechanism(size) if self.watched.metrics is None else self.watched.metrics.plan(size)

    def split_anew(self, shares: Floats) -> None:
        """Split users by these shares from the next block on."""
        raise InvalidParameter("shares", shares.tolist(), f"left out: {self.name} chooses its odds by itself")

    @abstractmethod
    def allocation(self) -> Floats:
        """How the arms that are in play share the users, in every run: any numbers >= 0, zero for arms set aside."""

    def odds(self) -> Floats:
        """As the allocation says, on the arms in play; once a winner is exploited, the winner's and the control's."""
        return self._dealt(self.playable)

    def _dealt(self, playable: Bools) -> Floats:
        """The odds, were these the arms in play."""
        shares = np.where(self.exploiting[:, None], self._after(), self._allocation())
        shares = np.where(playable, shares, 0.0)
        # An operator may have paused all arms that the allocation is about.
        shares = np.where(shares.any(axis=1, keepdims=True), shares, playable)
        return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), np.finfo(float).tiny))

    def _allocation(self) -> Floats:
        """While only the leader's guardrails are open, the leader and the control; a split stays as it is."""
        if self.shares is not None or not self.waiting.any():
            return self.allocation()
        pair = self._is(self.claims.leader) | (np.arange(self.arms) == self.control)
        return np.where(self.waiting[:, None], pair, self.allocation())

    def _after(self) -> Floats:
        """Everybody gets the winner, but for the control's share."""
        control = self.terms.control_share * (np.arange(self.arms) == self.control)
        return np.where(self._is(self.winner), 1.0 - self.terms.control_share, control)

    @property
    def levels(self) -> Levels:
        """How much evidence a claim takes."""
        return Levels(max(self.arms, self.terms.most_arms), self.terms.confidence, self.watched.guardrails)

    @cached_property
    def claims(self) -> Claims:
        """What the evidence so far lets one claim."""
        return claim(self.comparison, self.levels, self.control, self.active, self.terms.smallest_effect)

    @cached_property
    def guarded(self) -> list[Guarded]:
        """What it lets one say of every guardrail."""
        return self.watched.guarded(self.levels, self.control)

    @property
    def shippable(self) -> Bools:
        """The arms that may be decided for: the control, and those that are safe in every guardrail."""
        return np.asarray(self.watched.safe(self.guarded) | (np.arange(self.arms) == self.control))

    @property
    def waiting(self) -> Bools:
        """In which runs all is shown of the leader, but that it is safe in every guardrail."""
        claims = self.claims
        return np.asarray(~self.decided & claims.won & ~self.shippable[np.arange(self.runs), claims.leader])

    @property
    def decided(self) -> Bools:
        """In which runs a decision stands."""
        return self.winner >= 0

    @property
    def verdicts(self) -> list[str]:
        return [KINDS[verdict] for verdict in self.verdict]

    @property
    def alarmed(self) -> Bools:
        return self.silence.alarm

    def wrong(self, gaps: Floats, beside: Sequence[Floats] = ()) -> Bools:
        """Those for an arm that is no better, or that harms, or for no difference where there is a larger one.

        Only arms that harm no guardrail can be best. Where one was said to harm that does not, that is wrong too.
        """
        runs, violated = np.arange(self.runs), self.watched.violated(beside, self.control)
        gaps = np.where(violated, np.inf, gaps - np.where(violated, np.inf, gaps).min(axis=1, keepdims=True))
        best = gaps <= 1e-12
        # What it is better than: where another arm ties with it, it is better than the rest at most.
        better = best[runs, self.winner] & (best.sum(axis=1) < self.arms)
        control = np.where(self.winner == self.control, -1, self.control)
        better &= (control < 0) | ~best[runs, control]
        harmful = self.verdict == KINDS.index("harmful")
        near = np.where(self.alike, gaps, 0.0).max(axis=1) <= (self.terms.smallest_effect or 0.0) + 1e-12
        right = np.where(self.verdict == KINDS.index("better"), better, near | harmful)
        return np.asarray((self.decided & ~right) | (self.watched.out & ~violated).any(axis=1))

    @property
    def exploiting(self) -> Bools:
        """In which runs everybody gets the winner."""
        return self.decided & (self.terms.then == "exploit")

    @property
    def frozen(self) -> Bools:
        """In which runs the comparison ended with its decision: nobody is dealt to two arms any more."""
        side_by_side = self.exploiting & ((self._after() > 0).sum(axis=1) > 1)
        return np.asarray(self.decided & ~side_by_side)

    @property
    def finished(self) -> Bools:
        return super().finished | (self.decided & (self.terms.then == "stop"))

    @property
    def settled(self) -> Bools:
        """Nothing is left to learn where a single arm is open."""
        alone = (self.active & self.open_to_users).sum(axis=1) == 1
        return np.asarray(alone | (self.exploiting & ((self._after() > 0).sum(axis=1) == 1)))

    @property
    def best_arm(self) -> Integers:
        """The winner, or else the arm that leads."""
        return np.where(self.decided, self.winner, self.claims.leader)

    def block_users(self) -> Integers:
        """How many reports the next block wants in all: enough for the smallest of its batches."""
        odds = self.odds()
        smallest = np.where(odds > 0, odds, 1.0).min(axis=1)
        wanted = self.ladder.sizes(self.blocks) * (odds > 0).sum(axis=1)
        wanted = np.where(self.settled, EVERYONE, np.maximum(wanted, np.ceil(self.least / smallest).astype(np.int64)))
        if self.horizon is not None and self.ladder.any_size:
            wanted = np.minimum(wanted, np.maximum(self.horizon - self.users, 0))
        return np.asarray(np.where(odds.any(axis=1), wanted, 0), dtype=np.int64)

    def sizes(self, runs: Integers, arms: Integers) -> Integers:
        """The batches of a block by its odds, where each must be full; they add up to the block."""
        upto = np.rint(np.cumsum(self.odds(), axis=1) * self.block_users()[:, None]).astype(np.int64)
        return np.asarray(np.maximum(np.diff(upto, axis=1, prepend=0)[runs, arms], 1))

    def assign(self, wanted: Integers, limit: int | None = None) -> tuple[Integers, Bools]:
        """A block is released whole or not at all."""
        assigned, released = super().assign(wanted, limit)
        # A block wants enough for its smallest batch, which rounding may make smaller by one.
        whole = (released & (assigned >= self.least - 1)) == (wanted > 0)
        return assigned, released & whole.all(axis=1, keepdims=True)

    def observe(
        self,
        sums: Floats,
        assigned: Integers,
        released: Bools,
        odds: Floats | None = None,
        beside: Floats | None = None,
    ) -> None:
        """Be told a block: the sums of its batches, how many reports each has, and the odds it was dealt by.

        Without `odds` they are those of now. A block of late reports was dealt by earlier ones. Where a decision ended
        the comparison they change nothing of what was decided. An arm with odds that is not released had no report,
        which tells who is silent, too. `beside` has the sums of the other metrics, on the last axis.
        """
        dealt = self.odds() if odds is None else odds
        # Few reports, as in late blocks, say less beside their noise than a bet on them costs.
        telling = released & (2 * assigned >= self.least)
        compared = telling & ~self.frozen[:, None]
        self.watched.tell(beside, assigned, compared)
        self.comparison.tell(sums, assigned, compared)
        if self.ladder.any_size:
            self.silence.hear_reports(np.where(released, assigned, 0), dealt)
        self.blocks = self.blocks + telling.any(axis=1)
        self._forget()
        super().observe(sums, assigned, released)

    def hear_silent(self, silent: Integers, reports: Integers) -> None:
        """Be told how many turns of a block stayed without a report before each arm's last of so many reports.

        Where batches must be full, only they tell arms apart. They are known when all turns of the block are over.
        """
        self.silence.hear_silent(silent, reports)
        self._silent, self._answered = self._silent + silent, self._answered + reports

    def observe_turns(self, turns: Integers) -> None:
        """Be told how many turns of each arm are over so far, before the block that they led to."""
        self.turns = np.asarray(turns, dtype=np.int64)

    def _reported(self, run: int, arms: Sequence[int]) -> float:
        """The share of these arms' turns that were reported, of those that are over."""
        if self.ladder.any_size:
            came, over = self.pulls, self.turns
        else:
            came, over = self._answered, self._answered + self._silent
        return float(came[run, arms].sum() / max(int(over[run, arms].sum()), 1))

    def learn(self, released: Bools) -> None:
        """Decide, where the claims suffice, no guardrail is in the way, and all arms report alike."""
        self._take_out(released)
        claims, runs, shippable = self.claims, np.arange(self.runs), self.shippable
        left = claims.left[runs, self.control]
        kept = np.where(left, self.control, claims.leader)
        for kind, held, arm in (("better", claims.won, claims.leader), ("no difference", claims.alike, kept)):
            now = self.may_decide & held & shippable[runs, arm]
            now &= released.any(axis=1) & ~self.decided & ~self.silence.alarm
            self.winner = np.where(now, arm, self.winner)
            self.rival = np.where(now, claims.reference, self.rival)
            self.alike = np.where(now[:, None], claims.left, self.alike)
            self.verdict = np.where(now, KINDS.index(kind), self.verdict)

    def _take_out(self, released: Bools) -> None:
        """Show arms that harm a guardrail to nobody any more, at once; where only the control is left, it stays."""
        told = released.any(axis=1) & ~self.decided & ~self.silence.alarm
        found = self.watched.take_out(self.guarded, self.active & told[:, None])
        if not found.any():
            return
        self.active = self.active & ~found
        self._forget()
        alone = found.any(axis=1) & (self.active.sum(axis=1) == 1) & self.active[:, self.control]
        self.winner = np.where(alone, self.control, self.winner)
        self.rival = np.where(alone, np.argmax(found, axis=1), self.rival)
        self.verdict = np.where(alone, KINDS.index("harmful"), self.verdict)

    def decision(self, run: int = 0) -> Decision:
        """What may be said of a run now."""
        kind = KINDS[self.verdict[run]]
        if kind in ("better", "harmful"):
            pair = int(self.winner[run]), int(self.rival[run])
        else:
            pair = int(self.claims.leader[run]), int(self.claims.reference[run])
        if self.comparison.weight[run][pair] == 0:
            return Decision("no decision", confidence=self.terms.confidence)
        lower, upper = (float(each[run][pair]) for each in self.comparison.intervals(self.levels.pair))
        lift = ratio(self.comparison, run, *pair, self.levels.pair)
        alike = tuple(np.flatnonzero(self.alike[run]).tolist()) if kind == "no difference" else ()
        alarm = bool(self.silence.alarm[run])
        return Decision(
            "no decision" if alarm else kind,
            *pair,
            float(self.comparison.differences[run][pair]),
            lower,
            upper,
            None if lift is None else tuple(each - 1.0 for each in lift),
            margin=self.terms.smallest_effect,
            alike=alike,
            confidence=self.terms.confidence,
            silent=alarm,
            tipping=tipping_point(lower, self._reported(run, pair)),
            waits=self._waits(run),
            harms=self.watched.harms(run),
            more=self._more(run) if kind == "leading" and not alarm else None,
        )

    def _more(self, run: int) -> int | None:
        """About how many more reports would decide it by the odds of now, if what was found stays; None: too many.

        At an experiment's end they are the odds by which it would go on.
        """
        claims, odds, levels = self.claims, self._dealt(self.active & self.open_to_users)[run], self.levels
        leader, reference = int(claims.leader[run]), int(claims.reference[run])
        left = np.flatnonzero(claims.left[run]).tolist()

        def reports(better: int, worse: int, level: float, margin: float = 0.0) -> float:
            share = min(odds[better], odds[worse])
            wanted = self.comparison.reports_needed(run, better, worse, level, margin)
            # What is shown already needs no more of an arm that was set aside.
            return wanted / share if share else (math.inf if wanted else 0.0)

        ways = [[reports(leader, reference, levels.pair)]]
        ways[0] += [reports(leader, other, levels.best) for other in left if other != leader]
        if (margin := self.terms.smallest_effect) is not None and len(left) > 1:
            ways.append([reports(*pair, levels.pair, -margin) for pair in permutations(left, 2)])
        soonest = min(max(way) for way in ways)
        return None if math.isinf(soonest) else math.ceil(soonest)

    def metric_rows(self, run: int = 0) -> list[dict[str, Any]]:
        """Every metric of every arm against the control, a row each; none where the reward is the only one."""
        return self.watched.rows(self.comparison, self.levels, self.control, run)

    def _waits(self, run: int) -> tuple[str, ...]:
        """The leader's guardrails that keep it from being decided for."""
        if not self.waiting[run]:
            return ()
        leader = self.claims.leader[run]
        guards = zip(self.watched.guards, self.guarded, strict=True)
        return tuple(metric.name for metric, guard in guards if not guard.safe[run, leader])

    def intervals(self, failure: float = 0.05) -> tuple[Floats, Floats]:
        """Bounds on every arm's mean outcome so far, at all looks together; arms are compared by `comparison` alone."""
        level = np.log(2.0 * self.arms / float(between("failure", failure, 0, 1)))
        return self.comparison.mean_intervals(float(level))

    def add_arm(self) -> int:
        for name in ("turns", "_silent", "_answered"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, 1))))
        self.alike = np.pad(self.alike, ((0, 0), (0, 1)))
        self.watched.add_arm()
        self.comparison.add_arm()
        self.silence.add_arm()
        self._forget()
        return super().add_arm()

    def retire(self, arm: int) -> None:
        super().retire(arm)
        self._forget()

    def _is(self, arm: Integers) -> Bools:
        """Where each run's arm is, arms on the last axis."""
        return np.asarray(np.arange(self.arms) == arm[:, None])

    def _forget(self) -> None:
        for name in ("claims", "guarded"):
            self.__dict__.pop(name, None)
