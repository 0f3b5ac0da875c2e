"""A block: one batch for each open arm, whose turns are dealt by the same odds, and which close at the same instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from croupier.checks import InvalidParameter, integer

MOST_BATCHES = 1024
LARGEST = 2**53 - 1
AHEAD = 2
"""Where every batch must be full, the reports by which one may be ahead of the others of its block."""
GUESSED = 20
"""What is guessed of how many turns are reported counts like so many reports."""
LEAST_REPORTING = 0.25
"""However few report, no more than four turns are given out for a report that is missing."""


@dataclass(frozen=True)
class Block:
    """What every offer of a block says of it, as both servers sign it.

    An `epoch` is a stretch of turns that are dealt by the same odds; later ones have larger numbers, and turns are
    dealt in the newest. `batches` are those that close together. `users` is how many reports close it, in all batches;
    `left`, how many more the experiment wants, this block's included: None for any number.

    >>> Block(3, 1, (6, 7), users=64)
    Block(number=3, epoch=1, batches=(6, 7), users=64, left=None)
    """

    number: int
    epoch: int
    batches: tuple[int, ...]
    users: int
    left: int | None = None

    def __post_init__(self) -> None:
        for name in ("number", "epoch"):
            integer(f"block {name}", getattr(self, name), 0, 2**32 - 1)
        for batch in self.batches:
            integer("batch", batch, 0, 2**32 - 1)
        if not 1 <= len({*self.batches}) == len(self.batches) <= MOST_BATCHES:
            raise InvalidParameter("block batches", self.batches, f"1 to {MOST_BATCHES} different ones")
        integer("block users", self.users, 1, LARGEST)
        if self.left is not None:
            integer("block left", self.left, 1, LARGEST)

    def to_dict(self) -> dict[str, Any]:
        """As it is signed."""
        return {
            "number": self.number,
            "epoch": self.epoch,
            "batches": list(self.batches),
            "users": self.users,
        } | ({} if self.left is None else {"left": self.left})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Block:
        return cls(**data | {"batches": tuple(data["batches"])})


def due(received: Sequence[int], users: Sequence[int], out: Sequence[float] | None = None) -> list[bool]:
    """Which batches of a block are dealt turns now, where each must have so many users: none that is ahead of the rest.

    Who is ahead waits until the others have caught up. So the batches of a block fill side by side, and whatever
    changes with time changes for all of them alike, however few report. `out` is how many more reports each may expect
    of turns that were dealt: without them arms would take turns in long rows, since reports come late.

    >>> due([7, 3], [32, 32]), due([7, 5], [32, 32]), due([32, 30], [32, 32]), due([16, 7], [64, 32])
    ([False, True], [True, True], [False, True], [True, True])
    >>> due([7, 3], [32, 32], [0.0, 4.0])
    [True, True]
    """
    coming = received if out is None else [came + more for came, more in zip(received, out, strict=True)]
    least = min([sure / wanted for sure, wanted in zip(coming, users, strict=True)], default=0.0)
    return [
        came < wanted and sure - wanted * least <= AHEAD
        for came, sure, wanted in zip(received, coming, users, strict=True)
    ]


def reporting_share(reported: int, over: int, ahead: float) -> float:
    """The share of turns that is reported, as far as is known of those that are over; at first one in `ahead`.

    >>> round(reporting_share(0, 0, 1.5), 3), round(reporting_share(700, 1000, 1.5), 3), reporting_share(0, 1000, 1.5)
    (0.667, 0.699, 0.25)
    """
    return min(1.0, max(LEAST_REPORTING, (reported + GUESSED) / (over + ahead * GUESSED)))


def room(users: int, came: int, out: int, ahead: float, spare: int) -> int:
    """How many more turns a batch that must be full has to give: `ahead` times as many as users, and `spare` more.

    >>> room(32, 10, 20, 1.5, 2), room(32, 10, 45, 1.5, 2)
    (20, -5)
    """
    return int(ahead * users) + spare - came - out
