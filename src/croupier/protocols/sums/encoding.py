"""What every kind of values answers for: how a value becomes whole numbers, how far two users' can be apart, and back.

A kind of values is a frozen class with `kind` in `croupier.protocols.sums.values.RANGES`. A mechanism asks it for all
that follows from what users may report: `encode` on the device, `levels` for a proof that a report is in range, `reach`
and `loss` for the guarantee, `decode` for the sum that is told. A kind that computes its own `reach` from its constants
is `checkable`: a device then believes nothing about how far apart values are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.noise import Noise
from croupier.noise.source import Source, bernoulli
from croupier.privacy import Loss, vector_loss

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class KindOfValues(ABC):
    """Numbers or vectors of which every coordinate lies in [low, high], divided into as many steps; a kind may say
    otherwise.
    """

    kind: ClassVar[str]
    """Its name in a serialized mechanism."""
    coordinates: ClassVar[int] = 1
    """The number of axes of one user's value."""
    checkable: ClassVar[bool] = True
    """Whether a device can check all that is said of the values."""
    # Plain names: a kind has them as fields, or as constants.
    dimension: int
    low: float
    high: float
    binary: bool

    @property
    def span(self) -> float:
        return float(self.high) - float(self.low)

    @property
    def extremes(self) -> tuple[Any, Any]:
        """Two values of a user, as different as can be, as they are reported."""
        ends = self.along(self.low).tolist(), self.along(self.high).tolist()
        return ends if self.coordinates else (self.low, self.high)

    @abstractmethod
    def unit(self, values: ArrayLike) -> Floats:
        """Map every coordinate to [0, 1], or refuse the values."""

    @abstractmethod
    def reach(self, precision: int) -> tuple[float, float]:
        """How far two users' encoded values can be apart; for vectors by length, and by the sum of differences."""

    @abstractmethod
    def along(self, number: float) -> Floats:
        """The value that is this number, or a vector that goes so far."""

    def levels(self, precision: int) -> tuple[int, ...]:
        """The largest encoded number of each coordinate; zero is the least. This is what a proof is about."""
        return (precision,) * self.dimension

    def encode(self, values: ArrayLike, precision: int, source: Source) -> Integers:
        """Whole numbers that are the values on average, each in 0 to its level."""
        return encode(self.unit(values), precision, source)

    def decode(self, steps: Floats, users: int, precision: int) -> Floats:
        """The sum of so many users' values, in their own units, from that of the encoded ones."""
        return np.asarray(users * self.low + steps * (self.span / precision))

    def loss(self, noise: Noise, precision: int) -> Loss:
        """The loss of one user's change in a sum of encoded values that carries this noise in every coordinate."""
        l2, l1 = self.reach(precision)
        return vector_loss(noise, l2=l2, l1=l1)


def encode(unit_values: Floats, precision: int, source: Source) -> Integers:
    """Round x·g up with probability its fraction, else down ([CZ23] Alg. 1): unbiased, whole, in 0..g."""
    scaled = unit_values * precision
    whole = np.floor(scaled)
    fraction = scaled - whole
    encoded = whole.astype(np.int64)
    if np.any(fraction > 0):
        encoded += bernoulli(fraction, source)
    return encoded
