"""What a way of admitting people has to answer for; `croupier.messages.admission` has the table of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from croupier.checks import CroupierError


class NotAdmitted(CroupierError):
    """What was shown does not admit its holder, and why."""


@dataclass(frozen=True)
class Door:
    """Where something is shown, and when: an experiment, the front's signing key, the time, and its memory in seconds.

    `memory` is how long a name that was spent is known, where what is shown has an end.
    """

    experiment: str
    front: bytes
    now: float = 0.0
    memory: float = 0.0


class Kind(ABC):
    """One way of admitting people: the form of its issuer's key, and what is shown at the door."""

    name: ClassVar[str]
    key: ClassVar[str]
    """What its issuer's key is, in words; empty where there is no issuer."""
    key_length: ClassVar[int] = 0
    shortest_memory: ClassVar[int] = 1
    """With a shorter memory, in seconds, a front would refuse what is good."""
    lasting: ClassVar[bool] = False
    """What is shown has no end: a spent name is remembered for good."""

    def fits(self, issuer: bytes | None) -> bool:
        """Whether this is the key of an issuer of this kind, or rightly none."""
        return issuer is None if not self.key else issuer is not None and len(issuer) == self.key_length

    @abstractmethod
    def words(self, issuer: bytes) -> str:
        """Who is admitted, in words."""

    @abstractmethod
    def check(self, issuer: bytes, shown: bytes, door: Door) -> bytes | None:
        """The name under which what was shown is spent, or a refusal; None where nothing is."""
