"""What every program is: it says which turns users can take now, is told what full batches decode to, shows its state.

A program is deterministic: told the same it wants the same turns, which is what restarting and verifying rest on. Its
kind answers for itself: what its file may hold, which operations it knows, what it promises.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from croupier.checks import one_of
from croupier.messages.block import Block
from croupier.programs.sections import Check, Section
from croupier.protocols import Mechanism


@dataclass(frozen=True)
class Wanted:
    """A turn that the program wants users to take: an arm, and the batches that its report goes to.

    `odds` are those of a user who comes while everything is open that was opened with it. `block` says which batches
    close at the same instant, where any do. `rule` is the text of the rule that devices choose by, where they do.
    """

    number: int
    arm: int | None
    batches: tuple[tuple[int, Mechanism], ...]
    odds: float = 1.0
    block: Block | None = None
    rule: str | None = None

    @property
    def rule_hash(self) -> bytes | None:
        """What an offer names the rule by."""
        return None if self.rule is None else hashlib.sha256(self.rule.encode()).digest()


@dataclass(frozen=True)
class Dealt:
    """What the front signs of the turns whose reports a released batch of a block has, and of others like them.

    `turns` is how many were over when the block closed: reported, or overdue. `over` is whether no report can come any
    more. Where batches must be full, `silent` has batches of blocks whose turns are all over by now, each with how many
    of its turns, in the order they were dealt, stayed silent before the one that brought its last report.
    """

    turns: int
    over: bool
    silent: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Operation:
    """What an operator may ask of a program: this line, in the table of its kind, is all that anybody knows of it."""

    done: str
    """How the dashboard says it: "The operator `paused` red"."""
    act: Callable[[Any, Any], None]
    """Does it, or refuses it and leaves everything as it was."""
    takes: str | None = None
    """What it names: an "arm", the "name" of a new arm, "shares" of all arms, or nothing."""


class Program(ABC):
    """One experiment's program."""

    kind: ClassVar[str]

    operations: ClassVar[Mapping[str, Operation]] = {
        "stop": Operation("stopped", lambda program, _: program.stop()),
    }

    expires: ClassVar[bool] = True
    """Whether a batch that does not fill in time may be given up."""

    schema: ClassVar[dict[str, Check]]
    """What the section `program` of its file may hold beside `kind`, and how each value is checked."""

    needed: ClassVar[str | None]
    """What that section must hold, if anything: how many users there are at most."""

    decides: ClassVar[bool] = False
    """Whether its file may name a control and have a section `decision`."""

    now: float = 0.0
    """The time of the newest record, in seconds of Unix time; it never falls."""

    @abstractmethod
    def __init__(self, parameters: dict[str, Any]) -> None:
        """Start with these parameters."""

    @classmethod
    @abstractmethod
    def parameters(cls, sections: dict[str, Section], arms: list[str]) -> Section:
        """The parameters that a file's sections come to."""

    @property
    @abstractmethod
    def wanted(self) -> list[Wanted]:
        """The turns that can be taken now, by number."""

    @property
    def smallest(self) -> int:
        """The least batch that it ever wants."""
        return min(mechanism.users for turn in self.wanted for _, mechanism in turn.batches)

    @property
    def epsilon(self) -> float:
        """The ε that one of these turns is planned for, at `delta`."""
        return max(mechanism.guarantee.epsilon for turn in self.wanted for _, mechanism in turn.batches)

    @property
    def delta(self) -> float:
        """The δ that one of these turns is planned for."""
        return max(mechanism.guarantee.delta for turn in self.wanted for _, mechanism in turn.batches)

    @property
    def least_outcome(self) -> Any:
        """The least that can come of a turn: what is reported where nothing was recorded, unless a file says so."""
        return self.wanted[0].batches[0][1].extremes[0]

    def check_outcome(self, outcome: object) -> None:
        """Refuse what cannot come of a turn."""
        self.wanted[0].batches[0][1].check_value(outcome)

    @abstractmethod
    def released(self, batch: int, decoded: Any, users: int | None = None, dealt: Dealt | None = None) -> None:
        """A batch's view decodes to this, and so many users are in it: None for as many as were wanted.

        `dealt` is what the front says of its turns, in a block.
        """

    @abstractmethod
    def expired(self, batch: int, received: int | None = None, turns: int | None = None) -> None:
        """A batch did not fill in time, or was refused; the program wants it again, or goes on without it.

        `received` is how many reports had come, where it did not fill: later batches may follow the traffic. `turns` is
        how many were over of an arm that nobody reported, in a block between two servers.
        """

    def operate(self, operation: str, about: Any = None) -> None:
        """Do what an operator asks, about what the operation takes."""
        one_of("operation", operation, tuple(self.operations))
        self.operations[operation].act(self, about)

    @abstractmethod
    def stop(self) -> None:
        """Ask for nothing more."""

    @property
    def unwanted(self) -> set[int]:
        """The open batches that an operator's wish has made pointless: nobody more should be sent there."""
        return set()

    @property
    def out(self) -> set[int]:
        """The arms that are out of play for good."""
        return set()

    @property
    def retired(self) -> set[int]:
        """Those of them that an operator took out."""
        return set()

    @property
    def chosen(self) -> int | None:
        """The arm that everybody is to be shown from now on, without a turn, once it has ended with one."""
        return None

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether nothing more will be asked."""

    @property
    def ending(self) -> bool:
        """Whether nothing more will be asked, and what users have given already is still to be counted."""
        return False

    def begin(self) -> None:  # noqa: B027 - few programs mind
        """The first turn is open to users from now on."""

    @property
    def decision(self) -> dict[str, Any] | None:
        """What was decided, once anything is."""
        return None

    @abstractmethod
    def show(self) -> dict[str, Any]:
        """The state as people see it."""
