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

from croupier.checks import InvalidParameter, Number, positive
from croupier.noise.base import Noise, multiply, settle, split, to_arb
from croupier.noise.likelihoods import directed_pair, renyi_divergence
from croupier.noise.precision import precise
from croupier.noise.ratio import RatioNoise
from croupier.noise.rests import exp_rest
from croupier.noise.source import Source, residues
from croupier.noise.target import Target
from croupier.noise.window import DEEP, EPSILON, SHALLOW, Floats, Integers, Window, check_width


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
        return (self._log_mass(self.mode, arb.lgamma) - to_arb(self.rate)).exp()

    def _log_mass(self, x: int, log_gamma: Callable[[arb], arb]) -> arb:
        return x * to_arb(self.rate).log() - log_gamma(arb(x + 1))

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        return real(self.rate) / (x + 1)

    def cumulant(self, t: Floats) -> Floats:
        return float(self.rate) * exp_rest(t)

    def share(self, users: int) -> Poisson:
        return Poisson(split("rate", self.rate, users))

    def times(self, users: int) -> Poisson:
        return Poisson(multiply(self.rate, users))

    @property
    def counted(self) -> bool:
        return True

    def spread(self, labels: int, lengths: Integers, source: Source) -> Integers:
        """Uniformly: given their number, the messages of independent Poisson counts are."""
        return residues(labels, (int(lengths.sum()),), source)

    @classmethod
    def calibrated(cls, target: Target) -> Poisson:
        return Poisson(target.least(lambda rate: target.met(Poisson(rate)), target.gaussian_variance))

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return generator.poisson(float(self.rate), count)


@dataclass(frozen=True, repr=False)
class Skellam(Noise):
    """P(x) = e^{-σ²} I_x(σ²), mean 0: the difference of two Poisson(σ²/2) ([CZ23] Def. 5).

    Parameters
    ----------
    sigma2 : σ², the variance.

    Examples
    --------
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

    @property
    def cumulant_rises(self) -> bool:
        return True

    def cumulant(self, t: Floats) -> Floats:
        return np.asarray(2.0 * float(self.sigma2) * np.sinh(np.asarray(t) / 2.0) ** 2)

    def share(self, users: int) -> Skellam:
        return Skellam(multiply(split("sigma2", self.sigma2, users), 1))

    def times(self, users: int) -> Skellam:
        return Skellam(multiply(self.sigma2, users))

    def window(self, floor: float = SHALLOW) -> Window:
        return _skellam_window(self, floor)

    def divergence(self, shift: int, order: float) -> float:
        """The sum over the deepest table there is, or [CZ23] Lemma 3, which gives away less than a wide table errs."""
        published = skellam_divergence(self.sigma2, order, abs(shift))
        for floor in (DEEP, SHALLOW):
            if self.extent(floor) <= WIDEST_SKELLAM:
                return min(renyi_divergence(directed_pair(self, shift, floor), order), published)
        return published

    def concentrated(self, shift: int) -> float:
        """sup over α > 1 of D_α/α. Between two orders a < b it is at most D_b/a, since D grows with the order."""
        orders = [1.0 + 0.02 * 1.1**k for k in range(90)]
        within = max(self.divergence(shift, high) / low for low, high in zip([1.0, *orders], orders, strict=False))
        # Beyond the last order Lemma 3's second branch takes over; a ceiling adds at most one to the order.
        step, v = abs(shift), float(self.sigma2)
        beyond = step**2 / (2.0 * v) * (1.0 + 1.0 / orders[-1]) + 3.0 * step / (2.0 * v * orders[-1])
        return max(within, beyond)

    def vector_divergence(self, order: float, l2: float, l1: float) -> float:
        return skellam_divergence(self.sigma2, order, l2, l1)

    def vector_concentrated(self, l2: float, l1: float) -> float:
        # Between whole orders a-1 and a the divergence is at most D_a, and D_a/(a-1) is largest at a = 2.
        return self.vector_divergence(2.0, l2, l1)

    @classmethod
    def calibrated(cls, target: Target) -> Skellam:
        return Skellam(target.least(lambda sigma2: target.met(Skellam(sigma2)), target.gaussian_variance))

    @property
    def _largest(self) -> float:
        return self.part._largest

    def _draw(self, count: int, source: Source) -> Integers:
        return self.part._draw(count, source) - self.part._draw(count, source)

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return self.part._simulate(count, generator) - self.part._simulate(count, generator)


WIDEST_SKELLAM = 2**23
"""So many points are tabulated at most: half of them take a step of Python each."""


@lru_cache(maxsize=64)
def _skellam_window(noise: Skellam, floor: float) -> Window:
    """Ratios I_{x+1}/I_x by the backward recurrence, which contracts its own errors, then products from I_0."""
    check_width(noise, noise.extent(floor), WIDEST_SKELLAM)
    z = float(noise.sigma2)
    depth = -math.log(floor)
    # Both a Gaussian and a Poisson tail end well before this.
    top = math.ceil(math.sqrt(2.0 * z * depth) + 2.0 * depth) + 16
    ratios, errors = [0.0] * (top + 1), [0.0] * (top + 1)
    ratio, drift = z / (2.0 * (top + 1)), 1.0
    for x in reversed(range(len(ratios))):
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


def skellam_divergence(sigma2: Number, order: float, l2: float, l1: float | None = None) -> float:
    """Rényi divergence of Skellam noise of variance σ² per coordinate ([CZ23] Lemma 3).

    αΔ₂²/2σ² + min{((2α-1)Δ₂² + 6Δ₁)/4σ⁴, 3Δ₁/2σ²} for whole α >= 2; other orders take the next whole one, since the
    divergence grows with the order. A scalar has Δ₁ = Δ₂.

    >>> round(skellam_divergence(100, order=5, l2=3), 5), round(5 * 3**2 / 200, 5)
    (0.22748, 0.225)
    """
    if order <= 1:
        raise InvalidParameter("order", order, "a number > 1")
    alpha, v = max(2, math.ceil(order)), float(positive("sigma2", sigma2))
    l1 = l2 if l1 is None else l1
    excess = min(((2 * alpha - 1) * l2**2 + 6 * l1) / (4 * v**2), 3 * l1 / (2 * v))
    return alpha * l2**2 / (2 * v) + excess
