"""Whom the front deals which turn: by chance, with the odds that a program gives the turns that are open together."""

from __future__ import annotations

from collections.abc import Mapping

from croupier.noise import Source
from croupier.noise.source import below

PARTS = 2**40
"""Odds are taken in whole parts of one, and no turn has less than one part."""


def deal(odds: Mapping[int, float], source: Source) -> int | None:
    """One of these turns, each in proportion to its odds; None where there are none.

    Those of turns that are over are left out, and the others' odds stand to each other as they did.

    >>> from croupier.noise import seeded
    >>> source = seeded(7)
    >>> [deal({4: 0.25, 5: 0.75}, source) for _ in range(8)]
    [5, 5, 5, 5, 5, 5, 4, 5]
    """
    parts = {turn: max(1, round(PARTS * share)) for turn, share in odds.items()}
    if not parts:
        return None
    at = below(sum(parts.values()), source)
    for turn, width in parts.items():
        if at < width:
            return turn
        at -= width
    raise AssertionError("a number below the sum is below a part of it")
