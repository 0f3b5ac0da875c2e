"""Discrete Laplace noise, whose shares are differences of Pólya variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from croupier.checks import Number, positive
from croupier.noise.base import Integers, RatioNoise, to_arb
from croupier.noise.polya import PolyaDifference


@dataclass(frozen=True, repr=False)
class DiscreteLaplace(RatioNoise):
    """P(x) = (e^{1/b} - 1)/(e^{1/b} + 1) e^{-|x|/b} with scale b (003 Def. 4).

    >>> DiscreteLaplace(scale=20).share(1000)
    PolyaDifference(r=1/1000, scale=20)
    """

    scale: Number

    def __post_init__(self) -> None:
        positive("scale", self.scale)

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        x = 1.0 / float(self.scale)
        return 2.0 * math.exp(-x) / math.expm1(-x) ** 2

    @property
    def log_ratio_bound(self) -> float:
        return math.nextafter(float(1 / Fraction(self.scale)), math.inf)

    def _mass(self) -> arb:
        return (1 / to_arb(self.scale) / 2).tanh()

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        if real is float:
            beta = math.exp(-1.0 / float(self.scale))
            return np.where(np.asarray(x) >= 0, beta, 1.0 / beta)
        beta = (-1 / to_arb(self.scale)).exp()
        return beta if x >= 0 else 1 / beta

    @property
    def _growth_limit(self) -> float:
        return math.nextafter(math.exp(-1.0 / float(self.scale)), 1.0)

    def share(self, users: int) -> PolyaDifference:
        return self.as_difference().share(users)

    def times(self, users: int) -> PolyaDifference:
        return PolyaDifference(users, scale=self.scale)

    def as_difference(self) -> PolyaDifference:
        """The same law as a difference of two geometric (Pólya with r = 1) variables."""
        return PolyaDifference(1, scale=self.scale)

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        success = -math.expm1(-1.0 / float(self.scale))
        return generator.geometric(success, count) - generator.geometric(success, count)
