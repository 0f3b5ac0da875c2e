"""A bandit policy as a program: every open batch is a turn of its own.

Batches are released or expire in any order. Those of one phase are applied together, arms in order, so the state does
not depend on the order in which they arrive. What an operator asks for (pause, resume, retire, add) takes effect
between phases, and a stop at once. A batch of an arm that is to be paused or retired may be let expire meanwhile, and
is then not opened again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from croupier.bandits import Policy, policy
from croupier.checks import InvalidParameter, integer
from croupier.programs.program import Operation, Program, Wanted
from croupier.programs.sections import MOST_USERS, Check, Section, smallest_batch, summing, text, whole, within
from croupier.protocols import SumMechanism

FILLED = 0.75
"""After a batch did not fill in time, the next one has this share of the reports that had come."""
SOME_READ = ("failure", "exploration", "seed")
"""Options of some policies only: others would leave them unread."""


@dataclass(frozen=True)
class Open:
    """A batch that wants users, for one arm."""

    batch: int
    arm: int
    mechanism: SumMechanism
    odds: float


@dataclass(frozen=True)
class Wish:
    """What an operator asked for and what waits for the end of the phase."""

    then: Callable[[], object]
    arm: int | None = None
    leaves: bool = False
    """Whether the arm is to leave; else it stays, or comes back."""


class BanditProgram(Program):
    """A policy, given by its configuration.

    >>> bandit = BanditProgram({"name": "dp-klucb", "arms": 2, "horizon": 1000, "epsilon": 1.0, "binary": True})
    >>> [(batch.batch, batch.arm, batch.mechanism.users) for batch in bandit.open]
    [(0, 0, 32)]
    >>> bandit.released(0, 20)
    >>> [(batch.batch, batch.arm, batch.mechanism.users) for batch in bandit.open]
    [(1, 1, 32)]
    """

    kind = "bandit"
    operations: ClassVar[Mapping[str, Operation]] = {
        "pause": Operation("paused", lambda program, arm: program.pause(arm), "arm"),
        "resume": Operation("resumed", lambda program, arm: program.resume(arm), "arm"),
        "retire": Operation("retired", lambda program, arm: program.retire(arm), "arm"),
        "add": Operation("added", lambda program, _: program.add(), "name"),
        **Program.operations,
    }
    schema: ClassVar[dict[str, Check]] = {
        "policy": text,
        "horizon": whole(1, MOST_USERS),
        "growth": within(1.0, 100.0),
        "failure": within(0.0, 1.0, "()"),
        "exploration": within(0.0, 100.0, "(]"),
        "seed": whole(0, 2**53),
    }
    needed = "horizon"

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.policy: Policy = policy(**parameters)
        if self.policy.ladder.protocol is None:
            raise InvalidParameter("policy", parameters.get("name"), "a private one: this one reports plain values")
        self._open: dict[int, Open] = {}
        self._phase: dict[int, tuple[SumMechanism, int]] = {}
        self._assigned = np.zeros((1, self.policy.arms), dtype=np.int64)
        self._wishes: list[Wish] = []
        self._retired: set[int] = set()
        self._reports: Counter[int] = Counter()
        self._most: int | None = None
        """So many users come before a batch's deadline, where one did not fill."""
        self._next = 0
        self._begin_phase()

    @classmethod
    def parameters(cls, sections: dict[str, Section], arms: list[str]) -> Section:
        given = sections["program"]
        if len(arms) < 2:
            raise InvalidParameter("arms", arms, "at least two names")
        name, options = summing(sections)
        chosen = {"name": given.pop("policy", "dp-klucb"), "arms": len(arms), "protocol_name": name}
        return chosen | given | options | smallest_batch(sections, name, options)

    def check_read(self, asked: Section) -> None:
        for key in SOME_READ:
            if key in asked and key not in self.policy.reads:
                raise InvalidParameter(f"program.{key}", asked[key], f"left out: {self.policy.name} does not use it")

    @property
    def open(self) -> list[Open]:
        """The batches that want users now, in order of their numbers."""
        return [self._open[number] for number in sorted(self._open)]

    @property
    def wanted(self) -> list[Wanted]:
        return [Wanted(one.batch, one.arm, ((one.batch, one.mechanism),), one.odds) for one in self.open]

    def released(self, batch: int, decoded: Any, users: int | None = None) -> None:
        number, full = int(decoded), self._taken(batch)
        users = users or full.mechanism.users
        self._phase[full.arm] = (full.mechanism.for_users(users), number)
        self._assigned[0, full.arm] = users
        self._reports[full.arm] += users
        if self._most is not None:
            # It filled in time: more may come by now.
            self._most *= 2
        self._over()

    def expired(self, batch: int, received: int | None = None) -> None:
        gone = self._taken(batch)
        if gone.arm in self.leaving:
            self._assigned[0, gone.arm] = 0
        else:
            if received is not None:
                self._most = max(self.policy.ladder.first, int(FILLED * received))
            size = self._fitting(gone.mechanism.users)
            self._assigned[0, gone.arm] = size
            self._open_batch(gone.arm, self._mechanism(size), gone.odds)
        self._over()

    def _fitting(self, size: int) -> int:
        """A batch of this size, or as many users as come in time."""
        return size if self._most is None else min(size, self._most)

    def _mechanism(self, size: int) -> SumMechanism:
        mechanism = self.policy.ladder.mechanism(size)
        assert mechanism is not None
        return mechanism

    def _taken(self, batch: int) -> Open:
        if batch not in self._open:
            raise InvalidParameter("batch", batch, f"an open batch: {sorted(self._open)}")
        return self._open.pop(batch)

    def _over(self) -> None:
        if not self._open:
            self._end_phase()

    # What an operator asks

    def pause(self, arm: int | None) -> None:
        """Offer an arm to nobody for now."""
        arm = self._in_play(arm)
        self._ask(Wish(lambda: self.policy.pause(arm), arm, leaves=True))

    def resume(self, arm: int | None) -> None:
        """Offer a paused arm again."""
        arm = self._in_play(arm)
        self._ask(Wish(lambda: self.policy.resume(arm), arm))

    def retire(self, arm: int | None) -> None:
        """Take an arm out for good."""
        arm = self._in_play(arm)
        if self.policy.active.sum() <= 1:
            raise InvalidParameter("arm", arm, "not the last arm in play")
        self._ask(Wish(lambda: self._retire(arm), arm, leaves=True))

    def add(self) -> None:
        """Add a fresh arm."""
        self._ask(Wish(lambda: self.policy.add_arm()))

    def stop(self) -> None:
        self.policy.stop()
        self._open.clear()

    def _in_play(self, arm: int | None) -> int:
        """An arm that is in play, or will be once those are added that were asked for."""
        added = sum(wish.arm is None for wish in self._wishes)
        number = integer("arm", arm, 0, self.policy.arms - 1 + added)
        if number < self.policy.arms and not self.policy.active[0, number]:
            raise InvalidParameter("arm", number, "one that is in play")
        return number

    def _retire(self, arm: int) -> None:
        # Since it was asked for, the others may have been eliminated: the last arm in play stays.
        if self.policy.active.sum() > 1:
            self.policy.retire(arm)
            self._retired.add(arm)

    def _ask(self, wish: Wish) -> None:
        self._wishes.append(wish)
        if not self._open:
            self._begin_phase()

    @property
    def leaving(self) -> set[int]:
        """The arms that an operator has asked to pause or retire, and that are not yet."""
        last = {wish.arm: wish.leaves for wish in self._wishes if wish.arm is not None}
        return {arm for arm, leaves in last.items() if leaves}

    @property
    def unwanted(self) -> set[int]:
        leaving = self.leaving
        return {batch.batch for batch in self._open.values() if batch.arm in leaving}

    @property
    def out(self) -> set[int]:
        return set(np.flatnonzero(~self.policy.active[0]).tolist())

    @property
    def retired(self) -> set[int]:
        return self._retired

    @property
    def finished(self) -> bool:
        """Whether the horizon is reached, the run stopped, or one arm is left."""
        return bool(self.policy.finished[0] or self.policy.settled[0])

    # Phases

    def _begin_phase(self) -> None:
        for wish in self._wishes:
            wish.then()
        self._wishes.clear()
        self._phase.clear()
        if self.finished:
            return
        odds = self.policy.odds()[0]
        self._assigned, released = self.policy.assign(self.policy.wanted())
        for arm in np.flatnonzero(released[0]).tolist():
            size = self._fitting(int(self._assigned[0, arm]))
            self._assigned[0, arm] = size
            self._open_batch(arm, self._mechanism(size), float(odds[arm]))
        if not self._open and self._assigned.any():
            # Only users whose batch the horizon cuts short are left: they play, and nothing is released.
            self._end_phase()

    def _open_batch(self, arm: int, mechanism: SumMechanism, odds: float) -> None:
        self._open[self._next] = Open(self._next, arm, mechanism, odds)
        self._next += 1

    def _end_phase(self) -> None:
        sums = np.zeros(self._assigned.shape)
        released = np.zeros(self._assigned.shape, dtype=bool)
        for arm, (mechanism, decoded) in self._phase.items():
            sums[0, arm] = float(mechanism.unit_sums(decoded))
            released[0, arm] = True
        self.policy.observe(sums, self._assigned, released)
        self._begin_phase()

    def show(self) -> dict[str, Any]:
        rows = self.policy.table()
        for row in rows:
            row["paused"] = not bool(self.policy.open_to_users[row["arm"]]) or row["arm"] in self.leaving
            # Not those whom the policy counts as playing at the end, when nothing more is asked of them.
            row["users"] = self._reports[row["arm"]]
        return {
            "policy": self.policy.name,
            "horizon": self.policy.horizon,
            "planned": self.policy.horizon,
            "users": self._reports.total(),
            "best_arm": int(self.policy.best_arm[0]),
            "arms": rows,
        }
