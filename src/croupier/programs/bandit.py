"""A bandit policy as a program: every open batch is a turn of its own.

Batches are released or expire in any order. Those of one phase are applied together, arms in order, so the state does
not depend on the order in which they arrive. What an operator asks for (pause, resume, retire, add) takes effect
between phases, and a stop at once. A batch of an arm that is to be paused or retired may be let expire meanwhile, and
is then not opened again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from croupier.checks import InvalidParameter
from croupier.programs.policy_program import FILLED, PolicyProgram
from croupier.programs.program import Dealt, Wanted
from croupier.programs.sections import MOST_USERS, Check, Section, smallest_batch, summing, text, whole, within
from croupier.protocols.sums.several import Sums


@dataclass(frozen=True)
class Open:
    """A batch that wants users, for one arm."""

    batch: int
    arm: int
    mechanism: Sums
    odds: float


class BanditProgram(PolicyProgram):
    """A policy, given by its configuration.

    >>> bandit = BanditProgram({"name": "dp-klucb", "arms": 2, "horizon": 1000, "epsilon": 1.0, "binary": True})
    >>> [(batch.batch, batch.arm, batch.mechanism.users) for batch in bandit.open]
    [(0, 0, 32)]
    >>> bandit.released(0, 20)
    >>> [(batch.batch, batch.arm, batch.mechanism.users) for batch in bandit.open]
    [(1, 1, 32)]
    """

    kind = "bandit"
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
        self._run(parameters)
        self._open: dict[int, Open] = {}
        self._phase: dict[int, tuple[Sums, int]] = {}
        self._assigned = np.zeros((1, self.policy.arms), dtype=np.int64)
        self._short: list[int] = []
        """How many users the batches of this phase had that their deadlines closed."""
        self._most = MOST_USERS
        """So many users come before a batch's deadline, where one did not fill in time."""
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

    @property
    def open(self) -> list[Open]:
        """The batches that want users now, in order of their numbers."""
        return [self._open[number] for number in sorted(self._open)]

    @property
    def wanted(self) -> list[Wanted]:
        return [Wanted(one.batch, one.arm, ((one.batch, one.mechanism),), one.odds) for one in self.open]

    def released(self, batch: int, decoded: Any, users: int | None = None, dealt: Dealt | None = None) -> None:
        number, full = int(decoded), self._taken(batch)
        users = users or full.mechanism.users
        self._phase[full.arm] = (full.mechanism.for_users(users), number)
        self._assigned[0, full.arm] = users
        self._reports[full.arm] += users
        if users < full.mechanism.users and full.arm not in self.leaving:
            self._short.append(users)
        self._over()

    def expired(self, batch: int, received: int | None = None, turns: int | None = None) -> None:
        gone = self._taken(batch)
        if gone.arm in self.leaving:
            self._assigned[0, gone.arm] = 0
        else:
            if received is not None:
                self._most = max(self.policy.ladder.first, int(FILLED * received))
            size = min(gone.mechanism.users, self._most)
            self._assigned[0, gone.arm] = size
            self._open_batch(gone.arm, self._mechanism(size), gone.odds)
        self._over()

    def _taken(self, batch: int) -> Open:
        if batch not in self._open:
            raise InvalidParameter("batch", batch, f"an open batch: {sorted(self._open)}")
        return self._open.pop(batch)

    def _over(self) -> None:
        if not self._open:
            self._end_phase()

    # What an operator asks

    def stop(self) -> None:
        self.policy.stop()
        self._open.clear()

    def heard(self) -> None:
        if not self._open:
            self._begin_phase()

    @property
    def unwanted(self) -> set[int]:
        leaving = self.leaving
        return {batch.batch for batch in self._open.values() if batch.arm in leaving}

    @property
    def finished(self) -> bool:
        """Whether the horizon is reached, the run stopped, or one arm is left."""
        return bool(self.policy.finished[0] or self.policy.settled[0])

    # Phases

    def _begin_phase(self) -> None:
        self._grant()
        self._phase.clear()
        if self.finished:
            return
        odds = self.policy.odds()[0]
        self._assigned, released = self.policy.assign(np.minimum(self.policy.wanted(), self._most))
        for arm in np.flatnonzero(released[0]).tolist():
            self._open_batch(arm, self._mechanism(int(self._assigned[0, arm])), float(odds[arm]))
        if not self._open and self._assigned.any():
            # Only users whose batch the horizon cuts short are left: they play, and nothing is released.
            self._end_phase()

    def _open_batch(self, arm: int, mechanism: Sums, odds: float) -> None:
        self._open[self._next] = Open(self._next, arm, mechanism, odds)
        self._next += 1

    def _end_phase(self) -> None:
        sums = np.zeros(self._assigned.shape)
        released = np.zeros(self._assigned.shape, dtype=bool)
        for arm, (mechanism, decoded) in self._phase.items():
            sums[0, arm] = float(mechanism.unit_sums(decoded))
            released[0, arm] = True
        self.policy.observe(sums, self._assigned, released)
        # Where all filled in time, more may come by now. Else later ones want no more than come in time: larger ones
        # would be cut short, in the end by the horizon.
        self._most = max(self.policy.ladder.first, *self._short) if self._short else min(2 * self._most, MOST_USERS)
        self._short.clear()
        self._begin_phase()
