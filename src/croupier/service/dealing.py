"""Whom the front deals which turn: by chance, with the odds that a program gives the turns that are open together.

In blocks turns come in *deals*: so many of each arm as the odds say, in a secret random order. Then every stretch of
time has its share of every arm. Only what is left of a deal is kept, so nothing tells the order before it is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from croupier.noise import Source
from croupier.noise.source import below

PARTS = 2**40
"""Odds are taken in whole parts of one, and no turn has less than one part."""

SMALLEST_DEAL = 16


def deal(odds: Mapping[int, float], source: Source) -> int | None:
    """One of these turns, each in proportion to its odds; None where there are none.

    Those of turns that are over are left out, and the others' odds stand to each other as they did.

    >>> from croupier.noise import seeded
    >>> source = seeded(7)
    >>> [deal({4: 0.25, 5: 0.75}, source) for _ in range(8)]
    [5, 5, 5, 5, 5, 5, 4, 5]
    """
    return drawn({turn: max(1, round(PARTS * share)) for turn, share in odds.items()}, source)


def drawn(parts: Mapping[int, int], source: Source) -> int | None:
    """One of these, each in proportion to its parts; None where there are none."""
    if not any(parts.values()):
        return None
    at = below(sum(parts.values()), source)
    for turn, width in parts.items():
        if at < width:
            return turn
        at -= width
    raise AssertionError("a number below the sum is below a part of it")


def fresh_deal(odds: Mapping[int, float], source: Source) -> Counter[int]:
    """How many turns of each arm a deal has: its odds times the deal's size, or the whole number below or above that.

    Which of the two is drawn so that the mean is exact. The size is the least at which all are whole, where there is
    one, from 16 turns on.

    >>> from croupier.noise import seeded
    >>> fresh_deal({0: 1 / 3, 1: 2 / 3}, seeded(7)) == {0: 6, 1: 12}
    True
    """
    ends = list(accumulate(odds.values()))
    shares = {arm: share / ends[-1] for arm, share in odds.items()}
    size = deal_size(shares)
    edges = [0, *(round(size * PARTS * (end / ends[-1])) for end in ends)]
    # Points one whole apart, the first at random: as many fall on an arm as its width says, or one more or less.
    first = below(PARTS, source)
    before = [-(-(edge - first) // PARTS) for edge in edges]
    return Counter({arm: before[at + 1] - before[at] for at, arm in enumerate(shares)})


def deal_size(shares: Mapping[int, float]) -> int:
    """How many turns a deal has: at least 16, and two an arm where the odds are not the same."""
    least = max(SMALLEST_DEAL, len(shares))
    for size in range(least, 4 * least):
        if all(abs(size * share - round(size * share)) < 1e-9 and size * share > 0.5 for share in shares.values()):
            return size
    return max(SMALLEST_DEAL, 2 * len(shares))


@dataclass
class ByOdds:
    """Turns that are dealt each by itself, in proportion to the odds of the offers that have some to give.

    `offers` have `odds`, and `turns`: how many they have to give.
    """

    offers: dict[int, Any]
    left: Counter[int] = field(default_factory=Counter)
    epoch: int | None = None

    def next(self, source: Source) -> int | None:
        """Deal a turn: the number of its offer, None where no offer has one."""
        number = deal({at: offer.odds for at, offer in self.offers.items() if offer.turns > 0}, source)
        if number is not None:
            self.offers[number].turns -= 1
        return number


@dataclass
class ByDeals:
    """Turns of a block, dealt in deals.

    `places` are the block's offers in order. `left` is what is left of the deal, by place. `turns` is how many they
    have to give together.
    """

    offers: dict[int, Any]
    places: Mapping[int, int]
    left: Counter[int]
    turns: int
    epoch: int | None

    def next(self, source: Source) -> int | None:
        """Deal a turn: the number of its offer, None where no offer has one. A fresh deal follows the last turn.

        Where an arm has none to give, the turns of the others are dealt without it.
        """
        odds = {at: self.offers[number].odds for at, number in self.places.items() if self.offers[number].turns > 0}
        if not odds or self.turns <= 0:
            return None
        if not any(self.left[at] for at in odds):
            self.left = fresh_deal(odds, source)
        at = drawn({at: self.left[at] for at in odds}, source)
        assert at is not None
        self.left[at] -= 1
        self.turns -= 1
        self.offers[self.places[at]].turns -= 1
        return self.places[at]
