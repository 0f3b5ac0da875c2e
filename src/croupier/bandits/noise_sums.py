"""The noise in estimates: what is known of the very batches that each one is made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from croupier.bandits.chernoff import Numbers
from croupier.comparisons.tails import TILTS, Tails


class NoiseSums:
    """Sums of batches' noises, by number; number 0 is no noise at all.

    An estimate keeps the number of its sum. Estimates of the same batches share a number, so thousands of runs need no
    more memory than one. `noise_of` tells the noise of a batch of so many users. It is asked only when somebody asks
    for tails, which published radii never do.

    >>> sums = NoiseSums(lambda users: Tails(np.full_like(TILTS, users), np.full_like(TILTS, users)))
    >>> first = sums.added(np.array([0, 0]), np.array([32, 50]))
    >>> both = sums.added(first, np.array([50, 32]))
    >>> sums.tails.low_side[both, 0].tolist()
    [82.0, 82.0]
    """

    def __init__(self, noise_of: Callable[[int], Tails]) -> None:
        self._noise_of = noise_of
        self._batches: dict[int, Tails] = {}
        self._numbers: dict[tuple[int, int], int] = {(0, 0): 0}
        self._before = [0]
        self._last, self._next = np.zeros(8, dtype=np.int64), np.zeros(8, dtype=np.int64)
        self._rows = Tails(np.zeros((8, len(TILTS))), np.zeros((8, len(TILTS))), np.zeros(8))
        self._known = 1

    def added(self, numbers: Numbers, users: Numbers) -> Numbers:
        """The numbers of these sums with one more batch each, of so many users."""
        # Most often the next batch of a sum is what it was in the runs before.
        sums = self._next[numbers]
        while (other := self._last[sums] != users).any():
            first = int(np.argmax(other))
            pair = int(numbers[first]), int(users[first])
            sums[(numbers == pair[0]) & (users == pair[1])] = self._number(*pair)
        return sums

    def _number(self, before: int, users: int) -> int:
        number = self._numbers.setdefault((before, users), len(self._before))
        if number == len(self._before):
            self._before.append(before)
            if number == len(self._last):
                self._last, self._next, *rows = (_doubled(array) for array in (self._last, self._next, *self._rows))
                self._rows = Tails(*rows)
            self._last[number] = users
        self._next[before] = number
        return number

    @property
    def tails(self) -> Tails:
        """What is known of every sum, a row each."""
        for number in range(self._known, len(self._before)):
            users = int(self._last[number])
            if users not in self._batches:
                self._batches[users] = self._noise_of(users)
            for rows, batch in zip(self._rows, self._batches[users], strict=True):
                rows[number] = rows[self._before[number]] + batch
        self._known = len(self._before)
        return self._rows


def _doubled(rows: Numbers) -> Numbers:
    return np.concatenate((rows, np.zeros_like(rows)))
