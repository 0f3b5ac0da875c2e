"""Pólya (negative binomial) noise with any real shape, and the difference of two."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, ctx

from croupier.checks import InvalidParameter, Number, between, positive
from croupier.noise.base import (
    SHALLOW,
    Floats,
    Integers,
    Noise,
    RatioNoise,
    Window,
    multiply,
    split,
    to_arb,
)
from croupier.noise.inversion import run
from croupier.noise.source import Source
from croupier.noise.wide import CONVOLUTION_BITS, convolve, fourier_tail, least_tail_quantile

MANY = 16
"""From this shape on the characteristic function falls fast enough for Fourier inversion."""


@dataclass(frozen=True, repr=False)
class Polya(RatioNoise):
    """P(x) = Γ(x+r)/(x! Γ(r)) β^x (1-β)^r: Poisson with a Gamma(r, scale β/(1-β)) rate (003 Fact 1).

    NumPy's and SciPy's negative binomial take 1-β where this takes β. Give `beta`, or `scale` b for β = e^{-1/b}
    exactly.

    >>> Polya(r=2, beta=0.75).mean
    6.0
    >>> Polya(r=1, scale=20).share(1000)
    Polya(r=1/1000, scale=20)
    """

    r: Number
    beta: Number | None = None
    scale: Number | None = None

    def __post_init__(self) -> None:
        positive("r", self.r)
        if (self.beta is None) == (self.scale is None):
            raise InvalidParameter("beta", self.beta, "given if and only if scale is not")
        if self.beta is not None:
            between("beta", self.beta, 0, 1)
        if self.scale is not None:
            positive("scale", self.scale)

    def _beta(self, real: Callable[[Number], Any]) -> Any:
        if self.beta is not None:
            return real(self.beta)
        assert self.scale is not None
        return math.exp(-1.0 / float(self.scale)) if real is float else (-1 / to_arb(self.scale)).exp()

    @property
    def odds(self) -> float:
        """β/(1-β): the mean for r = 1, and the scale of the Gamma mixture."""
        if self.beta is not None:
            return float(Fraction(self.beta) / (1 - Fraction(self.beta)))
        assert self.scale is not None
        return 1.0 / math.expm1(1.0 / float(self.scale))

    @property
    def mean(self) -> float:
        return float(self.r) * self.odds

    @property
    def variance(self) -> float:
        return float(self.r) * self.odds * (1.0 + self.odds)

    @property
    def support(self) -> tuple[int | None, int | None]:
        return (0, None)

    @property
    def mode(self) -> int:
        return max(0, math.floor((float(self.r) - 1.0) * self.odds)) if self.r > 1 else 0

    def _mass(self) -> arb:
        r, k, beta = to_arb(self.r), self.mode, self._beta(to_arb)
        ways = (r + k).lgamma() - arb(k + 1).lgamma() - r.lgamma()
        return (ways + k * beta.log() + r * (1 - beta).log()).exp()

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        return (x + real(self.r)) * self._beta(real) / (x + 1)

    @property
    def _growth_limit(self) -> float:
        return math.nextafter(self._beta(float), 1.0)

    def share(self, users: int) -> Polya:
        return Polya(split("r", self.r, users), self.beta, self.scale)

    def times(self, users: int) -> Polya:
        return Polya(multiply(self.r, users), self.beta, self.scale)

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return generator.poisson(generator.gamma(float(self.r), self.odds, count))


@dataclass(frozen=True, repr=False)
class PolyaDifference(Noise):
    """A - B for independent A, B ~ Pólya(r, e^{-1/scale}): the shares of discrete Laplace noise, and their sums.

    r = 1 is the discrete Laplace law itself. For r >= 1 it is discrete Laplace plus independent noise.

    >>> PolyaDifference(r=Fraction(1, 50), scale=3).times(50)
    PolyaDifference(r=1, scale=3)
    """

    r: Number
    scale: Number
    part: Polya = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", Polya(self.r, scale=self.scale))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        return 2.0 * self.part.variance

    @property
    def log_ratio_bound(self) -> float:
        # With r >= 1 the ratios are a mixture of those of discrete Laplace; below, the law peaks more sharply.
        return math.nextafter(float(1 / Fraction(self.scale)), math.inf) if self.r >= 1 else math.inf

    def share(self, users: int) -> PolyaDifference:
        return PolyaDifference(split("r", self.r, users), self.scale)

    def times(self, users: int) -> PolyaDifference:
        return PolyaDifference(multiply(self.r, users), self.scale)

    def window(self, floor: float = SHALLOW) -> Window:
        return _difference_window(self, floor)

    def tail_quantile(self, probability: float) -> int:
        if not 0.0 < probability < 0.5:
            return super().tail_quantile(probability)
        return least_tail_quantile(self._tail_at, probability, math.ceil(self.std))

    def _tail_at(self, x: int) -> float:
        """P(X > x) for x >= 0: by Fourier inversion for many parts, else by summing over one part."""
        if self.r >= MANY:
            return fourier_tail(self._log_characteristic, self.std, float(self.scale), x)
        window = self.part.window()
        beyond = self.part.tail(np.arange(window.start, window.stop) + x)
        return float(np.dot(window.pmf, beyond)) + window.above

    def _log_characteristic(self, theta: Floats) -> Floats:
        odds = self.part.odds
        return -float(self.r) * np.log1p(4.0 * odds * (1.0 + odds) * np.sin(theta / 2.0) ** 2)

    def _draw(self, count: int, source: Source) -> Integers:
        return self.part._draw(count, source) - self.part._draw(count, source)

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return self.part._simulate(count, generator) - self.part._simulate(count, generator)


@lru_cache(maxsize=32)
def _difference_window(noise: PolyaDifference, floor: float) -> Window:
    """Convolve the two parts in ball arithmetic; a deeper part keeps the difference accurate down to `floor`."""
    part = noise.part
    held = part.window(max(floor * floor, 1e-300))
    with ctx.workprec(CONVOLUTION_BITS):
        masses = run(part, held.start, held.stop)
    return convolve(masses, held.start, masses[::-1], 1 - held.stop, floor, 2.0 * (held.below + held.above))
