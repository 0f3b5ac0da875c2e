"""A block by the way of every single user: dealt in permuted rows, with an outcome, silent or not, heard now or later.

Turns are dealt by the rules of the front, of which those for batches that must be full are the same functions
(`croupier.messages.block`).
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from croupier.bandits.concurrent import Concurrent
from croupier.bandits.policy import Bools, Integers
from croupier.messages.block import due, reporting_share, room
from croupier.noise import SeededSource
from croupier.simulation.blocks import shares
from croupier.simulation.player import Floats, Played, Player

DEAL = 16
"""Turns are dealt in permuted rows of so many."""
TURNS_AHEAD, SPARE = 1.5, 2
"""As a front has them unless it is told otherwise: turns that are given out for each user of a batch, and more."""
DRAWN = 64
"""For so many users who come after one another chance is drawn at once."""


class Event(NamedTuple):
    """A turn is over: when, its number, of which block or epoch and arm, and what was reported, if anything."""

    time: int
    turn: int
    of: int
    arm: int
    outcome: list[float] | None


@dataclass
class Line:
    """Those who come to one run, one after another, and what is under way of them."""

    arms: int
    now: int
    of: int = 0
    """The epoch or the block that is dealt."""
    dealt: int = 0
    reported: int = 0
    events: list[Event] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    """Of each arm, what is left of the deal."""
    out: list[int] = field(default_factory=list)
    over: list[int] = field(default_factory=list)
    """Of each arm, the turns that are over since the last block."""
    values: dict[int, list[list[list[float]]]] = field(default_factory=dict)
    """Of each epoch or block, and arm, what was reported and is not released."""

    def __post_init__(self) -> None:
        self.left, self.out, self.over = [0] * self.arms, [0] * self.arms, [0] * self.arms

    def next_over(self) -> Event | None:
        """The next turn that is over by now."""
        if not self.events or self.events[0].time > self.now:
            return None
        event = heappop(self.events)
        self.over[event.arm] += 1
        if event.of == self.of:
            self.out[event.arm] -= 1
        return event

    def came(self, of: int) -> list[list[list[float]]]:
        return self.values.setdefault(of, [[] for _ in range(self.arms)])

    def open_now(self, users: Sequence[int]) -> list[bool]:
        """Which arms have turns to give, where each batch must have so many users."""
        values, out = self.values[self.of], self.out
        arms = [arm for arm, count in enumerate(users) if count]
        came, wanted = [len(values[arm]) for arm in arms], [users[arm] for arm in arms]
        share = reporting_share(self.reported, self.dealt - len(self.events), TURNS_AHEAD)
        found = [False] * self.arms
        for arm, here, count, now in zip(
            arms, came, wanted, due(came, wanted, [share * out[arm] for arm in arms]), strict=True
        ):
            found[arm] = now and room(count, here, out[arm], TURNS_AHEAD, SPARE) > 0
        return found

    def draw(
        self, odds: Floats, open_now: Sequence[bool], uniform: float, generator: np.random.Generator
    ) -> int | None:
        """An arm for the next turn, from what is left of the deal, or from a fresh one; None where none has any."""
        ends = list(accumulate(count if here else 0 for count, here in zip(self.left, open_now, strict=True)))
        if not ends[-1]:
            if not any(open_now):
                return None
            self.left = _row(shares((odds * open_now)[None])[0], generator)
            ends = list(accumulate(self.left))
        arm = bisect(ends, uniform * ends[-1])
        self.left[arm] -= 1
        return arm

    def begin(self, of: int) -> None:
        """Deal another block or epoch."""
        self.of, self.left, self.out = of, [0] * self.arms, [0] * self.arms


class EachUser(Player):
    """Every run by itself."""

    def _prepare(self) -> None:
        self.lines = [Line(self.policy.arms, int(now)) for now in self.now]
        self._drawn: dict[int, tuple[int, list[tuple[list[list[float]], list[bool], int, float]]]] = {}

    def block(self) -> Played:
        policy = self.policy
        assigned, released = self._wanted()
        reports, silent = np.zeros_like(assigned), np.zeros_like(assigned)
        turns, sums = assigned.copy(), np.zeros((*assigned.shape, 1 + len(self.beside)))
        start, odds = self.now.copy(), self.odds.copy()
        for run, line in enumerate(self.lines):
            if not released[run].any():
                reports[run] = assigned[run]
                line.now += int(assigned[run].sum())
            elif policy.ladder.any_size:
                values, late = self._cut(run, int(assigned[run].sum()))
                odds[run] = self.before[run] if late else self.odds[run]
                counts = np.array([len(each) for each in values])
                released[run] = counts > 0
                reports[run] = counts
            else:
                values, silent[run] = self._filled(run, assigned[run])
                reports[run] = assigned[run]
            for arm in np.flatnonzero(released[run]).tolist():
                sums[run, arm] = _one_batch(policy, np.asarray(values[arm]), self.source)
            if released[run].any():
                turns[run], line.over = line.over, [0] * policy.arms
            self.now[run] = line.now
        if not policy.ladder.any_size:
            self._ask(self.now + self.latest, np.where(released, silent, 0), np.where(released, reports, 0))
        (world,) = self._met(start, np.maximum(self.now, start + 1.0), (self.world,))
        return Played(turns, reports, released, odds, sums[..., 0], world, sums[..., 1:], self._hear())

    def _change(self, runs: Bools) -> None:
        for run in np.flatnonzero(runs).tolist():
            self.lines[run].begin(self.lines[run].of + 1)

    def _cut(self, run: int, total: int) -> tuple[list[list[list[float]]], bool]:
        """What each arm's users have reported when a block has so many reports, or a late one ends, and which it is."""
        line, odds = self.lines[run], self.odds[run]
        everybody = [bool(share > 0) for share in odds]
        count = sum(map(len, line.came(line.of)))
        while True:
            while count < total and (event := line.next_over()) is not None:
                if event.outcome is not None:
                    line.came(event.of)[event.arm].append(event.outcome)
                    count += event.of == line.of
            if line.now >= self.until[run]:
                self.until[run] = np.inf
                return line.values.pop(line.of - 1, [[] for _ in odds]), True
            if count >= total:
                return line.values.pop(line.of), False
            self._deal(run, line, odds, everybody)
            line.now += 1

    def _filled(self, run: int, wanted: Integers) -> tuple[list[list[list[float]]], Integers]:
        """What each arm's users report until all batches are full, and its silent turns.

        Those are counted in the order of dealing, up to the turn that brings the last report that is wanted.
        """
        line, users, odds = self.lines[run], wanted.tolist(), self.odds[run]
        line.begin(line.of + 1)
        values, missing, silent = line.came(line.of), list(users), [0] * len(users)
        while True:
            while (event := line.next_over()) is not None:
                if event.of == line.of and event.outcome is not None and len(values[event.arm]) < users[event.arm]:
                    values[event.arm].append(event.outcome)
                    line.reported += 1
            if all(len(each) == count for each, count in zip(values, users, strict=True)):
                return line.values.pop(line.of), np.asarray(silent)
            dealt = self._deal(run, line, odds, line.open_now(users))
            if dealt is None:
                # Nobody is dealt a turn until one is over.
                line.now = max(line.now, line.events[0].time)
                continue
            if missing[dealt.arm]:
                missing[dealt.arm] -= dealt.outcome is not None
                silent[dealt.arm] += dealt.outcome is None
            line.now += 1

    def _deal(self, run: int, line: Line, odds: Floats, open_now: list[bool]) -> Event | None:
        """Who comes now is dealt a turn, if any arm has one to give."""
        outcomes, heard, delays, uniform = self._chance(run, line.now)
        arm = line.draw(odds, open_now, uniform, self.source.generator)
        if arm is None:
            return None
        outcome = outcomes[arm] if heard[arm] else None
        event = Event(line.now + (self.latest if outcome is None else delays), line.dealt, line.of, arm, outcome)
        heappush(line.events, event)
        line.dealt += 1
        line.out[arm] += 1
        return event

    def _chance(self, run: int, now: int) -> tuple[list[list[float]], list[bool], int, float]:
        """For who comes now, with every arm: outcomes, and whether they are reported; when, and a number to deal by."""
        first, drawn = self._drawn.get(run, (-DRAWN, []))
        if not first <= now < first + DRAWN:
            first, generator, arms = now, self.source.generator, self.policy.arms
            which, times = np.tile(np.arange(arms), DRAWN), np.repeat(now + np.arange(DRAWN), arms)
            worlds = (self.world, *self.beside)
            outcomes = np.stack([world.outcomes(run, which, times, generator) for world in worlds], axis=-1)
            heard = generator.random(len(which)) < self.world.reporting_chances(which, outcomes[:, 0])
            delays = generator.integers(self.soonest, self.latest + 1, DRAWN)
            shaped = outcomes.reshape(DRAWN, arms, -1).tolist(), heard.reshape(DRAWN, arms).tolist()
            drawn = list(zip(*shaped, delays.tolist(), generator.random(DRAWN).tolist(), strict=True))
            self._drawn[run] = first, drawn
        return drawn[now - first]


def _row(odds: Floats, generator: np.random.Generator) -> list[int]:
    """How often each arm is in one row: as its odds say; what is left over is drawn."""
    sure = np.floor(DEAL * odds + 1e-9).astype(np.int64)
    rest = DEAL - int(sure.sum())
    drawn = generator.multinomial(rest, shares((DEAL * odds - sure).clip(0.0)[None])[0]) if rest else 0
    return [int(count) for count in sure + drawn]


def _one_batch(policy: Concurrent, values: Floats, source: SeededSource) -> Floats:
    """What one batch of reports adds up to, all metrics: a row a user."""
    metrics = policy.watched.metrics
    if metrics is not None:
        scaled = values * [metric.span for metric in metrics] + [metric.low for metric in metrics]
        reports = [dict(zip(metrics.names, row, strict=True)) for row in scaled.tolist()]
        several = metrics.plan(len(reports))
        return several.unit_sums(several.run(reports, source))
    mechanism = policy.ladder.mechanism(len(values))
    if mechanism is None:
        return np.asarray(values.sum(axis=0))
    low, span = mechanism.values.low, mechanism.values.span
    view = mechanism.collect(mechanism.randomize(low + span * values[:, 0], source))
    return np.atleast_1d(mechanism.unit_sums(mechanism.analyze_many(view, source)))
