"""What every program is: it says which turns users can take now, is told what full batches decode to, shows its state.

A program is deterministic: told the same it wants the same turns, which is what restarting and verifying rest on. Its
kind answers for itself: what its file may hold, which operations it knows, what it promises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from croupier.checks import one_of
from croupier.programs.sections import Check, Section
from croupier.protocols import Mechanism


@dataclass(frozen=True)
class Wanted:
    """A turn that the program wants users to take: an arm, and the batches that its report goes to.

    `odds` are those of a user who comes while everything is open that was opened with it.
    """

    number: int
    arm: int | None
    batches: tuple[tuple[int, Mechanism], ...]
    odds: float = 1.0


@dataclass(frozen=True)
class Operation:
    """What an operator may ask of a program: this line, in the table of its kind, is all that anybody knows of it."""

    done: str
    """How the dashboard says it: "The operator `paused` red"."""
    act: Callable[[Any, int | None], None]
    """Does it, or refuses it and leaves everything as it was."""
    takes: str | None = None
    """What it names: an "arm", the "name" of a new arm, or nothing."""


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

    needed: ClassVar[str]
    """What that section must hold: how many users there are at most."""

    @abstractmethod
    def __init__(self, parameters: dict[str, Any]) -> None:
        """Start with these parameters."""

    @classmethod
    @abstractmethod
    def parameters(cls, sections: dict[str, Section], arms: list[str]) -> Section:
        """The parameters that a file's sections come to."""

    def check_read(self, asked: Section) -> None:  # noqa: B027
        """Refuse what was asked for in the section `program` and would be left unread."""

    @property
    @abstractmethod
    def wanted(self) -> list[Wanted]:
        """The turns that can be taken now, by number."""

    @property
    def epsilon(self) -> float:
        """The ε that one of these turns is planned for, at `delta`."""
        return max(mechanism.guarantee.epsilon for turn in self.wanted for _, mechanism in turn.batches)

    @property
    def delta(self) -> float:
        """The δ that one of these turns is planned for."""
        return max(mechanism.guarantee.delta for turn in self.wanted for _, mechanism in turn.batches)

    @abstractmethod
    def released(self, batch: int, decoded: Any, users: int | None = None) -> None:
        """A batch's view decodes to this, and so many users are in it: None for as many as were wanted."""

    @abstractmethod
    def expired(self, batch: int, received: int | None = None) -> None:
        """A batch did not fill in time, or was refused; the program wants it again, or goes on without it.

        `received` is how many reports had come, where it did not fill: later batches may follow the traffic.
        """

    def operate(self, operation: str, arm: int | None = None) -> None:
        """Do what an operator asks."""
        one_of("operation", operation, tuple(self.operations))
        self.operations[operation].act(self, arm)

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
    @abstractmethod
    def finished(self) -> bool:
        """Whether nothing more will be asked."""

    @abstractmethod
    def show(self) -> dict[str, Any]:
        """The state as people see it."""
