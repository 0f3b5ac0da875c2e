"""What a user may report: the declared range of values and their encoding as whole numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, between, finite
from croupier.noise import Noise
from croupier.privacy import Loss, privacy_loss
from croupier.protocols.sums.encoding import Floats, Integers, KindOfValues
from croupier.protocols.sums.encoding import encode as encode
from croupier.protocols.sums.moments import Moments

FARTHEST = 1e100
"""How far from zero a value can be: the squares of a batch's sums must still be numbers."""


@dataclass(frozen=True)
class Values(KindOfValues):
    """Numbers in [low, high], which users may report.

    Parameters
    ----------
    low, high : the ends of the range.
    binary : whether only the two ends are allowed.
    clip : whether outliers are moved to the nearer end. Otherwise they are refused.

    Examples
    --------
    >>> Values(0, 5).unit([0, 2.5, 5]).tolist()
    [0.0, 0.5, 1.0]
    >>> Values(0, 5).unit(7)
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: value = 7.0 is not allowed: it must be a number in [0, 5]
    """

    kind: ClassVar[str] = "range"
    coordinates: ClassVar[int] = 0
    dimension: ClassVar[int] = 1  # type: ignore[misc]
    low: float = 0.0
    high: float = 1.0
    binary: bool = False
    clip: bool = False

    def __post_init__(self) -> None:
        between("low", self.low, -FARTHEST, FARTHEST, "[]")
        between("high", self.high, -FARTHEST, FARTHEST, "[]")
        if not isinstance(self.binary, bool) or not isinstance(self.clip, bool):
            raise InvalidParameter("binary", (self.binary, self.clip), "true or false, and so must clip be")
        if not self.span > 0.0:
            raise InvalidParameter("high", self.high, f"above low = {self.low!r}")

    @property
    def diameter(self) -> float:
        """How far two users' values can be apart."""
        return self.span

    def along(self, number: float) -> Floats:
        """The value that is this number."""
        return np.asarray(number, dtype=np.float64)

    def loss(self, noise: Noise, precision: int) -> Loss:
        """For a number, with the noise of any family."""
        return privacy_loss(noise, precision)

    def reach(self, precision: int) -> tuple[float, float]:
        """How far two users' encoded values can be apart; for vectors by length, and by the sum of differences."""
        return float(precision), float(precision)

    def unit(self, values: ArrayLike) -> Floats:
        """Map values to [0, 1], or refuse them."""
        numbers = _numbers(values, f"a number in [{self.low:g}, {self.high:g}]")
        if np.isnan(numbers).any():
            raise InvalidParameter("value", float("nan"), f"a number in [{self.low:g}, {self.high:g}]")
        if self.clip:
            numbers = np.clip(numbers, self.low, self.high)
        outside = (numbers < self.low) | (numbers > self.high)
        if self.binary:
            outside |= (numbers != self.low) & (numbers != self.high)
        if outside.any():
            allowed = f"{self.low:g} or {self.high:g}" if self.binary else f"a number in [{self.low:g}, {self.high:g}]"
            raise InvalidParameter("value", float(numbers[outside].flat[0]), allowed)
        return np.clip((numbers - self.low) / self.span, 0.0, 1.0)


@dataclass(frozen=True)
class Ball(KindOfValues):
    """Vectors with Euclidean norm at most one, which users may report.

    Parameters
    ----------
    dimension : how many numbers a vector has.
    clip : whether longer vectors are scaled down. Otherwise they are refused.
    diameter : how far two users' vectors can be apart, where less than 2 is known to hold. No device can check it.

    Examples
    --------
    >>> Ball(dimension=2).unit([3.0, 4.0])
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: value = 'a vector of norm 5' is not allowed: it must be a vector of norm at most 1
    """

    kind: ClassVar[str] = "ball"
    checkable: ClassVar[bool] = False
    dimension: int
    clip: bool = False
    diameter: float = 2.0

    low, high, binary = -1.0, 1.0, False

    def __post_init__(self) -> None:
        if not isinstance(self.dimension, int) or self.dimension < 1:
            raise InvalidParameter("dimension", self.dimension, "a whole number >= 1")
        if not 0 < finite("diameter", self.diameter) <= 2:
            raise InvalidParameter("diameter", self.diameter, "a number in (0, 2]")

    def along(self, number: float) -> Floats:
        """The vector of this length on the first axis."""
        vector = np.zeros(self.dimension)
        vector[0] = number
        return vector

    def reach(self, precision: int) -> tuple[float, float]:
        """How far two users' encoded vectors can be apart, by length and by the sum of absolute differences.

        Couple the two roundings: the whole vectors differ by at most g‖x-x'‖ plus one in each coordinate.
        """
        root = math.sqrt(self.dimension)
        l2 = precision / self.span * self.diameter + root
        return l2, root * l2

    def unit(self, values: ArrayLike) -> Floats:
        """Map each coordinate from [-1, 1] to [0, 1], or refuse the vector."""
        vectors = _numbers(values, f"a vector of {self.dimension} coordinates")
        if vectors.ndim == 0 or vectors.shape[-1] != self.dimension:
            raise InvalidParameter("value", f"shape {vectors.shape}", f"a vector of {self.dimension} coordinates")
        norms = np.linalg.norm(vectors, axis=-1)
        if self.clip and np.isfinite(norms).all():
            vectors = vectors / np.maximum(norms, 1.0)[..., None]
        elif not np.all(norms <= 1.0 + 1e-12):
            worst = float(norms[~(norms <= 1.0 + 1e-12)].flat[0])
            raise InvalidParameter("value", f"a vector of norm {worst:.6g}", "a vector of norm at most 1")
        # Rounding may leave a norm a hair above one: the guarantee is for the ball itself.
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=-1), 1.0)[..., None]
        return np.asarray(np.clip((vectors + 1.0) / 2.0, 0.0, 1.0))


AnyValues = Values | Ball | Moments

RANGES: dict[str, type[Values] | type[Ball] | type[Moments]] = {kind.kind: kind for kind in (Values, Ball, Moments)}
"""What users may report, by kind."""


def values_to_dict(values: AnyValues) -> dict[str, Any]:
    return {"kind": values.kind} | asdict(values)


def values_from_dict(data: dict[str, Any]) -> AnyValues:
    """Read a range of values back."""
    body = dict(data)
    return RANGES[body.pop("kind")](**body)


def _numbers(values: ArrayLike | None, allowed: str) -> Floats:
    if values is None:  # which NumPy takes for NaN
        raise InvalidParameter("value", None, allowed)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter("value", values, allowed) from None


def array_of(values: object) -> NDArray[Any]:
    """What NumPy makes of something; of lists of different lengths nothing, which no check lets through."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.empty(0)


def whole_numbers(name: str, values: ArrayLike) -> Integers:
    """Return `values` as an array of whole numbers, or refuse them.

    >>> whole_numbers("view", [1, 2.5])
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: view = [1, 2.5] is not allowed: it must be whole numbers of at most 64 bits
    """
    numbers = array_of(values)
    if not np.issubdtype(numbers.dtype, np.integer):
        raise InvalidParameter(name, values, "whole numbers of at most 64 bits")
    return numbers.astype(np.int64)
