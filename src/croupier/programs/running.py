"""A block that is not over: its batches that are open, and what came of the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from croupier.comparisons.tails import Floats
from croupier.messages.block import Block
from croupier.programs.program import Dealt
from croupier.protocols.sums.several import Sums


@dataclass(frozen=True)
class Open:
    """A batch that wants reports, for one arm."""

    batch: int
    arm: int
    mechanism: Sums
    odds: float


@dataclass(frozen=True)
class Came:
    """What came out of a batch."""

    mechanism: Sums
    sums: Floats
    """In units of a reward: a number for each metric."""
    dealt: Dealt | None


@dataclass
class Running:
    """A block that is not over: its batches that are open, and what came of the others."""

    block: Block
    odds: Floats
    open: dict[int, Open]
    came: dict[int, Came] = field(default_factory=dict)
    """By arm."""
    gone: dict[int, int] = field(default_factory=dict)
    """By arm, the reports that had come to batches that were given up, where it is known."""

    @property
    def received(self) -> int:
        return sum(self.gone.values())
