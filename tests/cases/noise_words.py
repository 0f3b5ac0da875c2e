"""Sources of words for the tests: a script that is read out, and a seeded stream that is no simulation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

ONES = 2**64 - 1


class Script:
    """Hands out the given words in order, and fails when asked for more."""

    def __init__(self, words: Iterable[int]) -> None:
        self._words = np.asarray(list(words), dtype=np.uint64)
        self.used = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        assert self.used + count <= len(self._words), "more words were drawn than the script holds"
        self.used += count
        return self._words[self.used - count : self.used].copy()


class Stream:
    """Repeatable words that take the exact path, as those of a cryptographic source do."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)
