"""The shuffle itself: a uniformly random order from a cryptographic source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from croupier.noise import Source

T = TypeVar("T")


def random_order(count: int, source: Source) -> NDArray[np.int64]:
    """A uniformly random order of range(count), exactly: sorted by random words, drawn again while any two are equal.

    Given that the words differ, each order of them is equally likely.

    >>> from croupier.noise import seeded
    >>> sorted(random_order(5, seeded(1)).tolist())
    [0, 1, 2, 3, 4]
    """
    while True:
        words = source.words(count)
        order = np.argsort(words)
        if count < 2 or np.all(np.diff(words[order]) > 0):
            return order


def mixed(things: Sequence[T], source: Source) -> list[T]:
    """The same things in a uniformly random order."""
    return [things[i] for i in random_order(len(things), source).tolist()]
