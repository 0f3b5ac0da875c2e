"""The sizes of an arm's batches, one after another, and the mechanism of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from croupier.bandits.chernoff import TILTS, Floats, noise_cumulants
from croupier.checks import InvalidParameter, integer
from croupier.protocols import Mechanism, Protocol

SMALLEST = 32
"""No batch of a tight policy is smaller: privacy in a crowd of a few is not worth having."""


@dataclass
class Ladder:
    """Batch sizes from `first` on, each `growth` times the one before; growth 1 keeps the size.

    >>> [Ladder(None, first=32, growth=1.3).size(j) for j in range(5)]
    [32, 42, 55, 71, 92]
    """

    protocol: Protocol | None
    first: int
    growth: float
    _sizes: list[int] = field(default_factory=list, repr=False)
    _cumulants: list[tuple[Floats, Floats]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        integer("first", self.first, 1)
        if not self.growth >= 1:
            raise InvalidParameter("growth", self.growth, "a number >= 1")
        if self.protocol is not None:
            self.first = max(self.first, self.protocol.smallest)

    def size(self, step: int) -> int:
        """The size of the batch after `step` earlier ones."""
        while len(self._sizes) <= step:
            exact = self.first * self.growth ** len(self._sizes)
            self._sizes.append(min(math.ceil(exact - 1e-9), 2**50))
        return self._sizes[step]

    def sizes(self, steps: np.ndarray) -> np.ndarray:
        """The same for an array of steps."""
        known, places = np.unique(steps, return_inverse=True)
        return np.array([self.size(int(step)) for step in known], dtype=np.int64)[places]

    def mechanism(self, size: int) -> Mechanism | None:
        """How a batch of this size is made private; None without privacy."""
        return None if self.protocol is None else self.protocol.plan(size)

    def cumulants(self, step: int) -> tuple[Floats, Floats]:
        """K(-l) and K(l) of the noise in the batch after `step` earlier ones, in units of a reward."""
        while len(self._cumulants) <= step:
            known = len(self._cumulants)
            mechanism = self.mechanism(self.size(known))
            if known and self.size(known) == self.size(known - 1):
                self._cumulants.append(self._cumulants[-1])
            elif mechanism is None:
                silent = np.zeros_like(TILTS)
                self._cumulants.append((silent, silent))
            else:
                unit = mechanism.unit / mechanism.values.span
                self._cumulants.append(noise_cumulants(mechanism.noise, unit))
        return self._cumulants[step]

    def tables(self, steps: int, *, accumulate: bool) -> tuple[Floats, Floats]:
        """K(-l) and K(l) after 0, 1, ..., `steps` batches: of all of them, or of the last alone."""
        rows = [self.cumulants(step) for step in range(steps)]
        tables = []
        for side in (0, 1):
            table = np.stack([np.zeros_like(TILTS), *(row[side] for row in rows)])
            tables.append(np.cumsum(table, axis=0) if accumulate else table)
        return tables[0], tables[1]
