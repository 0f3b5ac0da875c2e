"""Bounded Laplace noise: discrete Laplace noise that is surely no larger than a bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from croupier.checks import Number, integer, positive
from croupier.noise.base import one_party, settle, to_arb
from croupier.noise.laplace import DiscreteLaplace
from croupier.noise.ratio import RatioNoise
from croupier.noise.target import Target
from croupier.noise.window import Floats
from croupier.search import least_passing_integer


@dataclass(frozen=True, repr=False)
class BoundedLaplace(RatioNoise):
    """P(x) ∝ e^{-|x|/scale} for |x| <= bound: discrete Laplace noise that is surely no larger.

    >>> BoundedLaplace(scale=2, bound=26).support
    (-26, 26)
    """

    scale: Number
    bound: int

    def __post_init__(self) -> None:
        settle(self, scale=positive("scale", self.scale), bound=integer("bound", self.bound, 1))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        x = np.arange(-self.bound, self.bound + 1, dtype=np.float64)
        weights = np.exp(-np.abs(x) / float(self.scale))
        return float(np.dot(weights, x * x) / weights.sum())

    @property
    def affordable(self) -> bool:
        return self.bound <= 2**24

    def extent(self, floor: float) -> float:
        return min(2.0 * self.bound, -2.0 * math.log(floor) * float(self.scale))

    @property
    def support(self) -> tuple[int | None, int | None]:
        return (-self.bound, self.bound)

    @property
    def symmetric(self) -> bool:
        return True

    def _mass(self) -> arb:
        beta = (-1 / to_arb(self.scale)).exp()
        return (1 - beta) / (1 + beta - 2 * beta ** (self.bound + 1))

    def _log_mass(self, x: int, log_gamma: Callable[[arb], arb]) -> arb:
        return -abs(x) / to_arb(self.scale)

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        return DiscreteLaplace(self.scale)._growth(x, real)

    def cumulant(self, t: Floats) -> Floats:
        """E[e^{tX}] is 1 + 4 Σ P(x) sinh²(tx/2) over x > 0, and what exceeds one is what counts."""
        x = np.arange(1, self.bound + 1)
        return np.asarray(np.log1p(4.0 * np.sinh(np.multiply.outer(np.asarray(t), x / 2.0)) ** 2 @ self.pmf(x)))

    def share(self, users: int) -> BoundedLaplace:
        return one_party(self, users)

    def times(self, users: int) -> BoundedLaplace:
        return one_party(self, users)

    @classmethod
    def calibrated(cls, target: Target) -> BoundedLaplace:
        """The scale of pure DP and the least bound: only a count at its bound tells two inputs apart by more than ε."""
        # A hair more scale than that makes room for the rounding errors of the exact loss, which grow with the bound.
        exact = Fraction(target.epsilon)
        hair = 1 + Fraction(1, 10**9) + Fraction(1, 10**11) / exact + Fraction(1, 10**12) / exact**2
        scale = Fraction(target.loss(DiscreteLaplace(1)).pure) / exact * hair
        guess = math.ceil(float(scale) * math.log(1.0 / target.delta))
        bound = least_passing_integer(lambda bound: target.met(BoundedLaplace(scale, bound)), 0, max(guess, 1))
        return BoundedLaplace(scale, bound)
