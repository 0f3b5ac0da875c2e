"""What is known of one parameter of a linear model: an estimate, and how far the truth can be from it, whichever way.

With V = Σ vᵢqᵢqᵢᵀ the noisy second moments and θ̂ the estimate, every x has

    |⟨x, θ̂ - θ⟩| <= c·√Σᵢ⟨x, qᵢ⟩²(vᵢ + l)/vᵢ² + b·√Σᵢ⟨x, qᵢ⟩²/vᵢ²:

the first term is what the chance of rewards leaves open, the second what the noise does. With l = b = 0 it is the
ellipsoid of [APS11], as [TKMS23] has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter
from croupier.search import bracket

Floats = NDArray[np.float64]
Row = tuple[float, ...]

NEAR = 1e-6
"""Numbers that differ by less are the same, computed by two machines."""


@dataclass(frozen=True)
class Belief:
    """An estimate θ̂ with its axes qᵢ (columns of `axes`) and values vᵢ; c is `radius`, b is `push` and l is `lift`."""

    theta: Row
    axes: tuple[Row, ...]
    values: Row
    radius: float
    push: float = 0.0
    lift: float = 0.0

    def __post_init__(self) -> None:
        d = len(self.theta)
        if len(self.values) != d or len(self.axes) != d or any(len(row) != d for row in self.axes):
            raise InvalidParameter("axes", f"{len(self.axes)} rows", f"{d} rows of {d} numbers, and {d} values")
        numbers = (*self.theta, *self.values, *(x for row in self.axes for x in row))
        if not all(map(math.isfinite, (*numbers, self.radius, self.push, self.lift))):
            raise InvalidParameter("belief", "an infinite number or none", "finite numbers")
        if not all(value > 0.0 for value in self.values):
            raise InvalidParameter("values", min(self.values), "numbers > 0")
        if self.radius < 0.0 or self.push < 0.0 or self.lift < 0.0:
            raise InvalidParameter("radius", (self.radius, self.push, self.lift), "numbers >= 0")

    @property
    def dimension(self) -> int:
        return len(self.theta)

    @property
    def root(self) -> tuple[Row, ...]:
        """A root of V⁻¹: its columns give ‖x‖_{V⁻¹} as a length."""
        return as_rows(np.asarray(self.axes) / np.sqrt(np.asarray(self.values)))

    @cached_property
    def half_widths(self) -> tuple[Floats, Floats]:
        """How wide the set is along each axis, for either term."""
        v = np.asarray(self.values)
        return self.radius * np.sqrt(v + self.lift) / v, self.push / v

    def estimates(self, features: ArrayLike) -> Floats:
        """⟨x, θ̂⟩ of feature vectors (the last axis)."""
        x = np.asarray(features)
        return np.asarray(x @ _as_type(self, x.dtype)[0])

    def reach(self, features: ArrayLike) -> Floats:
        """How far ⟨x, θ⟩ can be from ⟨x, θ̂⟩, for any vectors."""
        x = np.asarray(features)
        _, axes, squares = _as_type(self, x.dtype)
        along = x @ axes
        np.square(along, out=along)
        parts = along @ squares
        np.sqrt(parts, out=parts)
        return np.asarray(parts[..., 0] + parts[..., 1])

    def near(self, other: Belief) -> bool:
        """Whether it is the same but for the last digits."""
        if self.dimension != other.dimension:
            return False

        def numbers(belief: Belief) -> Floats:
            axes, values = np.asarray(belief.axes), np.asarray(belief.values)
            matrix = (axes * values) @ axes.T / max(float(values.max()), 1.0)
            scalars = (belief.radius, belief.push / math.sqrt(float(values.max())), belief.lift / float(values.max()))
            return np.concatenate((belief.theta, scalars, matrix.ravel()))

        return bool(np.allclose(numbers(self), numbers(other), rtol=NEAR, atol=NEAR))

    def holds(self, theta: ArrayLike) -> bool:
        """Whether a parameter lies in the set: a sum of two ellipsoids with the same axes.

        The gap e is split into what the second ellipsoid takes, eᵢq²/(q² + sp²) with s such that it is on its edge, and
        the rest, which the first must hold; p and q are the half-widths.
        """
        gap = np.asarray(self.axes).T @ (np.asarray(theta, dtype=np.float64) - np.asarray(self.theta))
        first, second = self.half_widths
        if not self.push:
            return bool(np.linalg.norm(gap / first) <= 1.0)
        if np.linalg.norm(gap / second) <= 1.0:
            return True
        if not self.radius:
            return False

        def share(s: float) -> Floats:
            return np.asarray(gap * second**2 / (second**2 + s * first**2))

        most = 1.0
        while np.linalg.norm(share(most) / second) > 1.0:
            most *= 4.0
        _, edge = bracket(lambda s: bool(np.linalg.norm(share(s) / second) <= 1.0), 0.0, most, relative=1e-12)
        return bool(np.linalg.norm((gap - share(edge)) / first) <= 1.0 + 1e-9)


def as_rows(matrix: Floats) -> tuple[Row, ...]:
    """A matrix as plain numbers."""
    return tuple(tuple(row) for row in matrix.tolist())


@lru_cache(maxsize=256)
def _as_type(belief: Belief, dtype: np.dtype[np.float64]) -> tuple[Floats, Floats, Floats]:
    """θ̂, the axes, and the squared half-widths as two columns; a device asks again and again."""
    squares = np.stack(belief.half_widths, axis=1) ** 2
    return tuple(np.asarray(array, dtype=dtype) for array in (belief.theta, belief.axes, squares))  # type: ignore[return-value]
