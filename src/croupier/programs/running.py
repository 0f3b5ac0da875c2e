"""A block that is not over: its batches that are open, and what came of the others."""

from __future__ import annotations

from collections.abc import Iterable
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

    batch: int

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


class Unheard:
    """Where batches must be full: released ones of which it is not known yet how many of their turns stayed silent."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[int, int, int]] = {}
        """The block, the arm and the reports of each."""

    def ask(self, block: Running) -> None:
        """All batches of a block came."""
        for arm, came in block.came.items():
            self._batches[came.batch] = block.block.number, arm, came.mechanism.users

    def hear(self, told: Iterable[tuple[int, int]]) -> list[dict[int, tuple[int, int]]]:
        """For each block, the silent turns and the reports of its arms. Of batches that nothing came of none is heard.

        `told` are batches, each with how many turns stayed silent.
        """
        blocks: dict[int, dict[int, tuple[int, int]]] = {}
        for batch, silent in told:
            if batch in self._batches:
                number, arm, reports = self._batches.pop(batch)
                blocks.setdefault(number, {})[arm] = silent, reports
        return list(blocks.values())
