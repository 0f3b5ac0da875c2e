"""What programs that run a policy have in common: the policy, and what operators ask of it.

Pausing, resuming, retiring and adding arms are wishes that are granted between batches; a stop takes effect at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from croupier.bandits import POLICIES, Policy, policy
from croupier.checks import InvalidParameter, integer
from croupier.programs.program import Operation, Program
from croupier.protocols.sums.several import Sums

FILLED = 0.75
"""After a batch did not fill in time, the next one has this share of the reports that had come."""


SHOWN = {
    True: "one in blocks: this one's arms are shown one at a time",
    False: "one whose arms are shown one at a time: it is a comparison",
}
"""What a policy must be for a program that decides, and for one that does not."""


@dataclass(frozen=True)
class Wish:
    """What an operator asked for and what waits for its moment."""

    then: Callable[[], object]
    arm: int | None = None
    leaves: bool = False
    """Whether the arm is to leave; else it stays, or comes back."""
    adds: bool = False
    """Whether there will be one arm more."""


class PolicyProgram(Program):
    """A program that runs a policy; `heard` is called when there is something to grant."""

    policy: Policy
    operations: ClassVar[Mapping[str, Operation]] = {
        "pause": Operation("paused", lambda program, arm: program.pause(arm), "arm"),
        "resume": Operation("resumed", lambda program, arm: program.resume(arm), "arm"),
        "retire": Operation("retired", lambda program, arm: program.retire(arm), "arm"),
        "add": Operation("added", lambda program, _: program.add(), "name"),
        **Program.operations,
    }

    def _run(self, parameters: dict[str, Any]) -> None:
        """Begin with the policy that these describe."""
        entry = POLICIES.find(parameters["name"])
        if entry.in_blocks != self.decides:
            raise InvalidParameter("policy", entry.name, SHOWN[self.decides])
        plain = InvalidParameter("policy", entry.name, "a private one: this one reports plain values")
        try:
            self.policy = policy(**parameters)
        except InvalidParameter as error:
            raise (plain if entry.protocol is None and error.name == "protocol_name" else error) from None
        if self.policy.ladder.protocol is None:
            raise plain
        self._wishes: list[Wish] = []
        self._retired: set[int] = set()
        self._reports: Counter[int] = Counter()

    @abstractmethod
    def heard(self) -> None:
        """An operator has asked for something."""

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
        self._ask(Wish(lambda: self.policy.add_arm(), adds=True))

    def _in_play(self, arm: int | None) -> int:
        """An arm that is in play, or will be once those are added that were asked for."""
        number = integer("arm", arm, 0, self._arms_to_be - 1)
        if number < self.policy.arms and not self.policy.active[0, number]:
            raise InvalidParameter("arm", number, "one that is in play")
        return number

    @property
    def _arms_to_be(self) -> int:
        """How many arms there are once those are added that were asked for."""
        return self.policy.arms + sum(wish.adds for wish in self._wishes)

    def _retire(self, arm: int) -> None:
        # Since it was asked for, the others may have been eliminated: the last arm in play stays.
        if self.policy.active.sum() > 1:
            self.policy.retire(arm)
            self._retired.add(arm)

    def _ask(self, wish: Wish) -> None:
        self._wishes.append(wish)
        self.heard()

    def _grant(self) -> None:
        """Do what operators have asked for."""
        for wish in self._wishes:
            wish.then()
        self._wishes.clear()

    @property
    def leaving(self) -> set[int]:
        """The arms that an operator has asked to pause or retire, and that are not yet."""
        last = {wish.arm: wish.leaves for wish in self._wishes if wish.arm is not None}
        return {arm for arm, leaves in last.items() if leaves}

    @property
    def out(self) -> set[int]:
        return set(np.flatnonzero(~self.policy.active[0]).tolist())

    @property
    def retired(self) -> set[int]:
        return self._retired

    def _mechanism(self, size: int) -> Sums:
        mechanism = self.policy.mechanism(size)
        assert mechanism is not None
        return mechanism

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
