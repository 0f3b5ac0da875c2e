"""A policy in blocks as a program: arms side by side in time, so that their differences may be claimed.

A *block* has one batch for each open arm, and they close at the same instant; its records apply together. An *epoch*
is a stretch of turns dealt by the same odds. Between two servers a report counts in its arm's next block of the same
epoch, whenever it comes. So when odds change, a block of the old epoch stays open beside the new one, for reports of
turns that were dealt before; it ends when none of them can come any more. Until then odds do not change again, unless
an operator asks. Where batches must be full a report fits its own batch only, and no epoch outlives its blocks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from croupier.bandits.concurrent import Concurrent
from croupier.checks import InvalidParameter, positive
from croupier.comparisons.tails import Floats
from croupier.messages.block import Block
from croupier.programs.policy_program import FILLED, PolicyProgram, Wish
from croupier.programs.program import Dealt, Operation, Wanted
from croupier.programs.running import Came, Open, Running, Unheard
from croupier.programs.sections import MOST_USERS, Check, Section, measuring, smallest_batch, text, whole, within
from croupier.programs.thinned import Thinned
from croupier.protocols.sums.values import whole_numbers

MINIMUM_RUN = 7 * 86_400.0
"""Seconds that an experiment runs at least before anything is decided: a week has every day once."""

POINTS = 128
"""Points of the curves that are shown, at most."""


class ComparisonProgram(PolicyProgram):
    """A policy in blocks, given by its configuration.

    >>> split = ComparisonProgram({"name": "split", "arms": 2, "epsilon": 1.0, "binary": True, "trust": "two-servers"})
    >>> [(turn.number, turn.arm, turn.odds, turn.block.users) for turn in split.wanted]
    [(0, 0, 0.5, 118), (1, 1, 0.5, 118)]
    """

    kind = "comparison"
    decides = True
    operations: ClassVar[Mapping[str, Operation]] = {
        **PolicyProgram.operations,
        "ramp": Operation("dealt anew", lambda program, shares: program.ramp(shares), "shares"),
    }
    schema: ClassVar[dict[str, Check]] = {
        "policy": text,
        "horizon": whole(1, MOST_USERS),
        "growth": within(1.0, 100.0),
        "shares": lambda name, value: value,
    }
    needed = None
    policy: Concurrent

    def __init__(self, parameters: dict[str, Any]) -> None:
        given = {"horizon": None} | parameters
        self.minimum_run = given.pop("minimum_run", MINIMUM_RUN)
        self._run(given)
        self._blocks: dict[int, Running] = {}
        self._epoch = -1
        self._odds: Floats = np.zeros(0)
        self._turns: Counter[tuple[int, int]] = Counter()
        """Turns that are over, by epoch and arm."""
        self._unheard = Unheard()
        self._next = self._next_block = 0
        self._most: int | None = None
        """So many reports come before a block's deadline, where one did not fill."""
        self._begun: float | None = None
        self.curve = Thinned(POINTS)
        self._go_on()

    @classmethod
    def parameters(cls, sections: dict[str, Section], arms: list[str]) -> Section:
        given, decision = dict(sections["program"]), dict(sections["decision"])
        if len(arms) < 2:
            raise InvalidParameter("arms", arms, "at least two names")
        name, options = measuring(sections)
        chosen: Section = {"name": given.pop("policy", "split"), "arms": len(arms), "protocol_name": name}
        chosen["minimum_run"] = decision.pop("minimum_run", MINIMUM_RUN)
        control = decision.pop("control", arms[0])
        if control not in arms:
            raise InvalidParameter("control", control, f"one of the arms: {', '.join(arms)}")
        if "shares" in given:
            decision["shares"] = given.pop("shares")
        chosen["decision"] = {"control": arms.index(control)} | decision
        return chosen | given | options | smallest_batch(sections, name, options)

    # What is wanted

    @property
    def wanted(self) -> list[Wanted]:
        turns = [
            Wanted(one.batch, one.arm, ((one.batch, one.mechanism),), one.odds, running.block)
            for running in self._blocks.values()
            for one in running.open.values()
        ]
        return sorted(turns, key=lambda turn: turn.number)

    @property
    def smallest(self) -> int:
        return self.policy.least

    @property
    def finished(self) -> bool:
        return self._done and not self._blocks

    @property
    def chosen(self) -> int | None:
        exploited = self.finished and bool(self.policy.exploiting[0])
        return int(self.policy.winner[0]) if exploited else None

    @property
    def ending(self) -> bool:
        return self._done and bool(self._blocks)

    @property
    def _done(self) -> bool:
        """Whether it was decided or stopped, or the users who are left would not fill a block."""
        policy = self.policy
        exploited = policy.exploiting[0] and policy.settled[0]
        return bool(policy.finished[0] or exploited) or self._left < self._smallest_block

    @property
    def _left(self) -> float:
        horizon = self.policy.horizon
        return math.inf if horizon is None else horizon - int(self.policy.users[0])

    @property
    def _smallest_block(self) -> int:
        return self.policy.least * max(1, int((self._odds > 0).sum()))

    @property
    def _any_batch(self) -> bool:
        """Whether a report fits any batch of its arm, as between two servers."""
        return self._mechanism(self.policy.least).fits_any_batch

    # What comes of it

    def released(self, batch: int, decoded: Any, users: int | None = None, dealt: Dealt | None = None) -> None:
        running = self._running(batch)
        mechanism = running.open[batch].mechanism
        mechanism = mechanism.for_users(users or mechanism.users)
        numbers = whole_numbers("decoded", decoded)
        if numbers.shape != (() if mechanism.outputs is None else (mechanism.outputs,)):
            raise InvalidParameter("decoded", decoded, f"{mechanism.outputs or 'one'} whole numbers, one a metric")
        sums = np.atleast_1d(mechanism.unit_sums(numbers))
        one = running.open.pop(batch)
        running.came[one.arm] = Came(batch, mechanism, sums, dealt)
        self._reports[one.arm] += mechanism.users
        self._over(running)

    def expired(self, batch: int, received: int | None = None, turns: int | None = None) -> None:
        running = self._running(batch)
        one = running.open.pop(batch)
        if turns is not None:
            self._turns[running.block.epoch, one.arm] = turns
        if received is not None:
            running.gone[one.arm] = received
        self._over(running)

    def _running(self, batch: int) -> Running:
        for running in self._blocks.values():
            if batch in running.open:
                return running
        known = sorted(number for running in self._blocks.values() for number in running.open)
        raise InvalidParameter("batch", batch, f"an open batch: {known}")

    def _over(self, running: Running) -> None:
        """When nothing of a block is open any more the policy is told of it, and the next one opens."""
        if running.open:
            return
        del self._blocks[running.block.number]
        if running.came:
            self._tell(running)
        elif running.received and not self._any_batch:
            self._most = int(FILLED * running.received)
        if running.block.epoch == self._epoch and not self._done:
            self._go_on()
        elif self._more_may_come(running):
            # Those who had a turn before, or who have reported meanwhile, count in one more.
            self._open_block(running.block.epoch, running.odds)
        if self._done and not self._any_batch:
            self._blocks.clear()

    def _more_may_come(self, last: Running) -> bool:
        """Whether reports of an epoch that is not dealt any more may come, after a block of it."""
        dealt = [came.dealt for came in last.came.values()]
        return self._any_batch and bool(dealt) and all(one is not None and not one.over for one in dealt)

    def _tell(self, running: Running) -> None:
        policy = self.policy
        metrics = 1 + len(policy.watched.others)
        sums, assigned = np.zeros((1, policy.arms, metrics)), np.zeros((1, policy.arms), dtype=np.int64)
        for arm, came in running.came.items():
            sums[0, arm], assigned[0, arm] = came.sums, came.mechanism.users
            if came.dealt is not None:
                at = (running.block.epoch, arm)
                self._turns[at] = came.dealt.turns if self._any_batch else self._turns[at] + came.dealt.turns
        self._hear_silent(running)
        turns = np.zeros_like(assigned)
        for (_, arm), dealt in self._turns.items():
            turns[0, arm] += dealt
        policy.may_decide = self._begun is not None and self.now - self._begun >= self.minimum_run
        policy.observe_turns(turns)
        odds = self._padded(running.odds)
        # Nobody reported an arm that was given up with no report; of others that are missing nothing is known.
        known = running.came.keys() | {arm for arm, received in running.gone.items() if not received}
        odds[:, [arm for arm in range(policy.arms) if arm not in known]] = 0.0
        policy.observe(sums[..., 0], assigned, assigned > 0, odds, beside=sums[..., 1:])
        if self._most is not None:
            # It filled in time: more may come by now.
            self._most *= 2
        self._note(running)

    def _hear_silent(self, running: Running) -> None:
        """Tell the policy of blocks of which it is known by now how many turns stayed silent: of this, or earlier."""
        if self._any_batch:
            return
        self._unheard.ask(running)
        told = [pair for came in running.came.values() if came.dealt is not None for pair in came.dealt.silent]
        for block in self._unheard.hear(told):
            tables = np.zeros((2, 1, self.policy.arms), dtype=np.int64)
            for arm, numbers in block.items():
                tables[:, 0, arm] = numbers
            self.policy.hear_silent(*tables)

    def _padded(self, odds: Floats) -> Floats:
        """Odds of a block, with those of arms that came later: none."""
        return np.asarray(np.pad(odds, (0, self.policy.arms - len(odds)))[None, :])

    # Operators

    def ramp(self, shares: Any) -> None:
        """Split users otherwise from now on, as when a new arm is first shown to few: a new epoch."""
        policy = self.policy
        if policy.shares is None:
            raise InvalidParameter("operation", "ramp", f"one for split: {policy.name} chooses its odds by itself")
        if not isinstance(shares, list) or len(shares) != self._arms_to_be:
            raise InvalidParameter("shares", shares, f"{self._arms_to_be} numbers, one an arm")
        wanted = np.asarray([float(positive("shares", share)) for share in shares])
        self._ask(Wish(lambda: policy.split_anew(wanted)))

    def pause(self, arm: int | None) -> None:
        self._check_two_left(arm)
        super().pause(arm)

    def retire(self, arm: int | None) -> None:
        self._check_two_left(arm)
        super().retire(arm)

    def _check_two_left(self, arm: int | None) -> None:
        """An arm alone is compared with nothing."""
        compared = self.policy.active[0] & self.policy.open_to_users
        left = set(np.flatnonzero(compared).tolist()) - self.leaving - {arm}
        if len(left) < 2:
            raise InvalidParameter("arm", arm, "such that two are left to compare; or pause or stop the experiment")

    def stop(self) -> None:
        self.policy.stop()
        self._blocks.clear()

    def heard(self) -> None:
        """Between two servers nothing waits: those who had a turn report to the old epoch, others are dealt anew."""
        if self._any_batch:
            self._grant()
            if not self._done and not np.array_equal(self.policy.odds()[0], self._odds):
                self._begin_epoch(self.policy.odds()[0])
        elif not self._blocks:
            self._go_on()

    @property
    def unwanted(self) -> set[int]:
        """Where batches must be full, those of an arm that is to leave: the others of the block go on."""
        leaving = self.leaving
        return {one.batch for running in self._blocks.values() for one in running.open.values() if one.arm in leaving}

    # Blocks

    def _go_on(self) -> None:
        """Open the next block of the epoch that is dealt, or begin another where the policy wants other odds."""
        self._grant()
        if self._done:
            return
        odds = self.policy.odds()[0]
        late = any(running.block.epoch < self._epoch for running in self._blocks.values())
        if np.array_equal(odds, self._odds) or (late and self._odds.any()):
            self._open_block(self._epoch, self._odds)
            return
        before = self._odds
        self._begin_epoch(odds)
        if before.any() and self._any_batch:
            self._open_block(self._epoch - 1, before)

    def _begin_epoch(self, odds: Floats) -> None:
        """Deal by other odds from now on. What is open of the epoch before stays so for late reports."""
        self._epoch, self._odds = self._epoch + 1, odds
        self._open_block(self._epoch, odds)

    def _open_block(self, epoch: int, odds: Floats) -> None:
        arms = np.flatnonzero(odds).tolist()
        if not arms:
            return
        least, left = self.policy.least, self._left
        total = max(int(self.policy.block_users()[0]), math.ceil(least / odds[arms].min()))
        if self._most is not None:
            total = max(min(total, self._most), math.ceil(least / odds[arms].min()))
        if left - total < self._smallest_block:
            # What would be left for a next one is too little for it.
            total = max(int(min(left, MOST_USERS)), 1)
        sizes = {arm: max(least, round(total * float(odds[arm]))) for arm in arms}
        numbers = range(self._next, self._next + len(arms))
        block = Block(self._next_block, epoch, tuple(numbers), total, None if math.isinf(left) else max(int(left), 1))
        opened = {
            number: Open(number, arm, self._mechanism(sizes[arm]), float(odds[arm]))
            for number, arm in zip(numbers, arms, strict=True)
        }
        self._blocks[block.number] = Running(block, odds, opened)
        self._next, self._next_block = self._next + len(arms), self._next_block + 1

    # What people see

    def begin(self) -> None:
        self._begun = self.now

    @property
    def decision(self) -> dict[str, Any] | None:
        return finite(self.policy.decision().to_dict()) if self.policy.decided[0] else None

    def _note(self, running: Running) -> None:
        """One more point of the curves: every arm's difference to the control, with its interval, and the block."""
        policy, control = self.policy, self.policy.control
        lower, upper = policy.comparison.intervals(policy.levels.pair)
        self.curve.append(
            {
                "at": self.now,
                "reports": self._reports.total(),
                "block": {str(arm): came.mechanism.users for arm, came in sorted(running.came.items())},
                "odds": self._odds.tolist(),
                "difference": policy.comparison.differences[0, :, control].tolist(),
                "lower": lower[0, :, control].tolist(),
                "upper": upper[0, :, control].tolist(),
            }
        )

    def show(self) -> dict[str, Any]:
        shown = super().show() | {
            "control": self.policy.control,
            "decision": self.policy.decision().to_dict(),
            "decided": bool(self.policy.decided[0]),
            "may_decide": bool(self.policy.may_decide),
            "minimum_run": self.minimum_run,
            "odds": self._odds.tolist(),
            "epoch": self._epoch,
            "turns": [sum(turns for (_, at), turns in self._turns.items() if at == arm) for arm in range(self._arms)],
            "curve": list(self.curve),
        }
        if self.policy.watched.metrics is not None:
            shown["metric"] = self.policy.watched.metrics.names[0]
        if self.policy.watched.others:
            shown["metrics"] = self.policy.metric_rows()
        return shown | ({} if self.policy.shares is None else {"shares": self.policy.shares.tolist()})

    @property
    def _arms(self) -> int:
        return self.policy.arms


def finite(told: Any) -> Any:
    """Plain values as a record has them: JSON has no infinity.

    >>> finite({"lift": [0.1, float("inf")]})
    {'lift': [0.1, None]}
    """
    if isinstance(told, dict):
        return {key: finite(value) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return [finite(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told
