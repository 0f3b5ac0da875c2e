"""Poisson noise, and Skellam: the difference of two."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb

from croupier.checks import Number, positive
from croupier.noise.base import (
    EPSILON,
    SHALLOW,
    Floats,
    Integers,
    Noise,
    RatioNoise,
    Window,
    multiply,
    settle,
    split,
    to_arb,
)
from croupier.noise.precision import precise
from croupier.noise.source import Source


@dataclass(frozen=True, repr=False)
class Poisson(RatioNoise):
    """P(x) = e^{-λ} λ^x / x!, with rate λ.

    >>> Poisson(rate=6).share(4)
    Poisson(rate=3/2)
    """

    rate: Number

    def __post_init__(self) -> None:
        settle(self, rate=positive("rate", self.rate))

    @property
    def mean(self) -> float:
        return float(self.rate)

    @property
    def variance(self) -> float:
        return float(self.rate)

    @property
    def affordable(self) -> bool:
        return self.std <= 2.0**17

    @property
    def support(self) -> tuple[int | None, int | None]:
        return (0, None)

    @property
    def mode(self) -> int:
        return math.floor(self.rate)

    def _mass(self) -> arb:
        rate, k = to_arb(self.rate), self.mode
        return (k * rate.log() - rate - arb(k + 1).lgamma()).exp()

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        return real(self.rate) / (x + 1)

    def cumulant(self, t: Floats) -> Floats:
        return np.asarray(float(self.rate) * (np.expm1(t) - t))

    def share(self, users: int) -> Poisson:
        return Poisson(split("rate", self.rate, users))

    def times(self, users: int) -> Poisson:
        return Poisson(multiply(self.rate, users))

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return generator.poisson(float(self.rate), count)


@dataclass(frozen=True, repr=False)
class Skellam(Noise):
    """P(x) = e^{-σ²} I_x(σ²), mean 0: the difference of two Poisson(σ²/2) ([CZ23] Def. 5).

    >>> Skellam(sigma2=400).share(100)
    Skellam(sigma2=4)
    """

    sigma2: Number
    part: Poisson = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sigma2 = positive("sigma2", self.sigma2)
        settle(self, sigma2=sigma2, part=Poisson(Fraction(sigma2) / 2))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        return float(self.sigma2)

    def cumulant(self, t: Floats) -> Floats:
        return np.asarray(2.0 * float(self.sigma2) * np.sinh(np.asarray(t) / 2.0) ** 2)

    def share(self, users: int) -> Skellam:
        return Skellam(multiply(split("sigma2", self.sigma2, users), 1))

    def times(self, users: int) -> Skellam:
        return Skellam(multiply(self.sigma2, users))

    def window(self, floor: float = SHALLOW) -> Window:
        return _skellam_window(self, floor)

    def _draw(self, count: int, source: Source) -> Integers:
        return self.part._draw(count, source) - self.part._draw(count, source)

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return self.part._simulate(count, generator) - self.part._simulate(count, generator)


@lru_cache(maxsize=64)
def _skellam_window(noise: Skellam, floor: float) -> Window:
    """Ratios I_{x+1}/I_x by the backward recurrence, which contracts its own errors, then products from I_0."""
    z = float(noise.sigma2)
    depth = -math.log(floor)
    # Both a Gaussian and a Poisson tail end well before this.
    top = math.ceil(math.sqrt(2.0 * z * depth) + 2.0 * depth) + 16
    ratios, errors = [0.0] * (top + 1), [0.0] * (top + 1)
    ratio, drift = z / (2.0 * (top + 1)), 1.0
    for x in range(top, -1, -1):
        following = ratio
        ratio = 1.0 / (2.0 * (x + 1) / z + following)
        drift = drift * ratio * following + 2.0 * EPSILON
        ratios[x], errors[x] = ratio, drift
    with precise(256):
        peak = float(to_arb(noise.sigma2).bessel_i(arb(0), scaled=True))
    tail = peak * np.cumprod(np.asarray(ratios))
    end = int(np.flatnonzero(tail < floor)[0])
    outside = float(tail[end] * ratios[end + 1] / (1.0 - ratios[end + 1])) * (1.0 + 1e-6)
    side = tail[: end + 1]
    error = math.fsum(errors[: end + 1]) + EPSILON * (end + 2)
    return Window(-len(side), np.concatenate((side[::-1], [peak], side)), outside, outside, error)
