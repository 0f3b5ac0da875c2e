"""The noises that are in a sum of batches, and how far they may have pushed it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.protocols import SumMechanism

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NoiseSum:
    """The noises that are in a sum: each mechanism with how often, and how many users were rounded."""

    mechanisms: tuple[tuple[SumMechanism, int], ...] = ()
    users: int = 0

    @property
    def batches(self) -> int:
        return sum(count for _, count in self.mechanisms)

    def plus(self, mechanism: SumMechanism) -> NoiseSum:
        """With one more batch; batches of the same noise are one entry."""
        alone = mechanism.for_users(1) if mechanism.fits_any_batch else mechanism
        counts = dict(self.mechanisms)
        same = next((known for known in counts if known.noise == alone.noise and known.unit == alone.unit), alone)
        counts[same] = counts.get(same, 0) + 1
        return NoiseSum(tuple(counts.items()), self.users + mechanism.users)

    @property
    def variance(self) -> float:
        """Of one number of the sum, in its own units, rounding included at its most."""
        noise = math.fsum(count * mechanism.variance for mechanism, count in self.mechanisms)
        return noise + self.users * self._step**2 / 4.0

    @property
    def wrap_probability(self) -> float:
        """The chance that any number of any batch wrapped around."""
        return math.fsum(count * m.dimension * m.wrap_probability for m, count in self.mechanisms)

    @property
    def _step(self) -> float:
        first = self.mechanisms[0][0]
        return first.values.span / first.precision

    def cumulant(self, slopes: Floats, most: float, squares: float) -> Floats:
        """log E e^{l·error} of a combination of numbers: coefficients of at most `most`, their squares add up so.

        The cumulant K of Skellam and Laplace noise has K(l)/l² rising, so a coefficient c has at most (c/most)² of
        that of `most`. Rounding moves each user's number by less than one step: Hoeffding's cumulant.
        """
        total = self.users * squares * (slopes * self._step) ** 2 / 8.0
        for mechanism, count in self.mechanisms:
            noise = np.asarray(mechanism.noise.cumulant(most * mechanism.unit * slopes))
            total = total + count * squares / most**2 * np.where(np.isnan(noise), np.inf, noise)
        return np.asarray(total)
