"""Discrete Gaussian noise, and the sum of several, which is close to one but not equal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, ctx

from croupier.checks import InvalidParameter, Number, between, integer
from croupier.noise.base import Noise, multiply, settle, split, to_arb
from croupier.noise.inversion import run
from croupier.noise.precision import precise
from croupier.noise.ratio import RatioNoise
from croupier.noise.source import Source
from croupier.noise.tails import CONVOLUTION_BITS, convolve
from croupier.noise.target import Target
from croupier.noise.window import LARGEST_WINDOW, SHALLOW, Floats, Integers, Window

LEAST_SIGMA2 = 1 / 1024
"""Below this e^{-1/2σ²} is no double: there is no noise to speak of."""


@dataclass(frozen=True, repr=False)
class DiscreteGaussian(RatioNoise):
    """P(x) ∝ e^{-x²/2σ²} on the integers, for the parameter σ² [CKS20].

    Parameters
    ----------
    sigma2 : σ². The variance is at most that.

    Examples
    --------
    >>> DiscreteGaussian(sigma2=100).share(25)
    DiscreteGaussian(sigma2=4)
    >>> DiscreteGaussian(sigma2=4).times(25)
    DiscreteGaussianSum(sigma2=4, count=25)
    """

    sigma2: Number

    def __post_init__(self) -> None:
        settle(self, sigma2=between("sigma2", self.sigma2, LEAST_SIGMA2, math.inf, "[)"))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        if self.extent(SHALLOW) > LARGEST_WINDOW:
            return float(self.sigma2)  # to the last digit: they differ by a factor of 1 - O(σ² e^{-2π²σ²})
        window = self.window()
        x = np.arange(window.start, window.stop, dtype=float)
        return float(np.dot(x * x, window.pmf))

    def _mass(self) -> arb:
        return 1 / theta(to_arb(self.sigma2))

    def _log_mass(self, x: int, log_gamma: Callable[[arb], arb]) -> arb:
        # The square of a large x is a longer number, and would take longer.
        return -x * (x / (2 * to_arb(self.sigma2)))

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        if real is float:
            return np.exp(-(2.0 * np.asarray(x) + 1.0) / (2.0 * float(self.sigma2)))
        return (-arb(2 * x + 1) / (2 * to_arb(self.sigma2))).exp()

    def extent(self, floor: float) -> float:
        # The variance itself is summed over the table.
        return 2.0 * math.sqrt(-2.0 * float(self.sigma2) * math.log(floor))

    def cumulant(self, t: Floats) -> Floats:
        """At most σ²t²/2: the discrete Gaussian is sub-Gaussian."""
        return np.asarray(0.5 * float(self.sigma2) * np.asarray(t) ** 2)

    def divergence(self, shift: int, order: float) -> float:
        return order * shift**2 / (2.0 * float(self.sigma2)) * (1.0 + 1e-12)

    def concentrated(self, shift: int) -> float:
        return shift**2 / (2.0 * float(self.sigma2)) * (1.0 + 1e-12)

    @classmethod
    def calibrated(cls, target: Target) -> DiscreteGaussian:
        return DiscreteGaussian(
            target.least(lambda sigma2: target.met(DiscreteGaussian(sigma2)), target.gaussian_variance, LEAST_SIGMA2)
        )

    def cells(self) -> Iterator[tuple[int, arb]]:
        """Both sides at once, by ratios that fall by one factor: no exponential but the first."""
        mass = self._mass()
        yield 0, mass
        ratio = (-1 / (2 * to_arb(self.sigma2))).exp()
        fall, x = ratio * ratio, 0
        while True:
            mass, ratio, x = mass * ratio, ratio * fall, x + 1
            yield x, mass
            yield -x, mass

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        if self.extent(SHALLOW) > LARGEST_WINDOW:
            # So wide that a rounded Gaussian has the same probabilities, up to one part in 10^11.
            return np.rint(generator.normal(0.0, math.sqrt(float(self.sigma2)), count)).astype(np.int64)
        return super()._simulate(count, generator)

    def share(self, users: int) -> DiscreteGaussian:
        """Return what each of `users` users draws; their sum is `DiscreteGaussianSum`, close to this law."""
        return DiscreteGaussian(multiply(split("sigma2", self.sigma2, users), 1))

    def times(self, users: int) -> Noise:
        return self if integer("users", users, 1) == 1 else DiscreteGaussianSum(self.sigma2, users)


@dataclass(frozen=True, repr=False)
class DiscreteGaussianSum(Noise):
    """The sum of `count` independent discrete Gaussians of parameter σ² ([CZ23] Lemma 4)."""

    sigma2: Number
    count: int
    part: DiscreteGaussian = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        part = DiscreteGaussian(self.sigma2)
        settle(self, part=part, sigma2=part.sigma2, count=integer("count", self.count, 1))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        return self.count * self.part.variance

    def extent(self, floor: float) -> float:
        return DiscreteGaussian(self.count * Fraction(self.sigma2)).extent(floor)

    @property
    def distance(self) -> float:
        """ξ = 10 Σ_{k<count} e^{-2π²σ² k/(k+1)}: a bound on |log P(x)/P'(x)| against DiscreteGaussian(count σ²)."""
        if self.sigma2 < 0.25:
            return math.inf  # the lemma is for σ >= 1/2
        rate = 2.0 * math.pi**2 * float(self.sigma2)
        terms = np.arange(1, min(self.count, 10_001), dtype=float)
        total = float(np.exp(-rate * terms / (terms + 1.0)).sum()) if self.count > 1 else 0.0
        rest = max(self.count - 10_001, 0) * math.exp(-rate * 10_000 / 10_001)
        return 10.0 * (total + rest) * (1.0 + 1e-9)

    def divergence(self, shift: int, order: float) -> float:
        return order * self.concentrated(shift)

    def concentrated(self, shift: int) -> float:
        return gaussian_sum_concentrated(self, abs(shift)) if self.sigma2 >= 0.25 else math.inf

    def cumulant(self, t: Floats) -> Floats:
        return self.count * self.part.cumulant(t)

    def share(self, users: int) -> Noise:
        if integer("users", users, 1) == self.count:
            return self.part
        raise InvalidParameter("users", users, f"{self.count}: a sum of that many parts has no other shares")

    def times(self, users: int) -> DiscreteGaussianSum:
        return DiscreteGaussianSum(self.sigma2, self.count * integer("users", users, 1))

    def window(self, floor: float = SHALLOW) -> Window:
        return _sum_window(self, floor)

    def _draw(self, count: int, source: Source) -> Integers:
        total = np.zeros(count, dtype=np.int64)
        if not count:
            return total
        rows = max(1, 2**22 // max(count, 1))
        for done in range(0, self.count, rows):
            total += self.part._draw(min(rows, self.count - done) * count, source).reshape(-1, count).sum(axis=0)
        return total

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        near = DiscreteGaussian(self.count * Fraction(self.sigma2))
        if near.extent(SHALLOW) > LARGEST_WINDOW and self.distance <= CLOSE:
            return near._simulate(count, generator)
        return super()._simulate(count, generator)


def gaussian_sum_concentrated(noise: DiscreteGaussianSum, sensitivity: float) -> float:
    """ρ of a sum of discrete Gaussians ([CZ23] Lemma 4): ½ min{√(Δ²/nσ² + ξ/2), Δ/√nσ + ξ}², for σ >= 1/2."""
    between("sigma2", noise.sigma2, 0.25, math.inf, "[)")
    exact, xi = sensitivity / math.sqrt(noise.count * float(noise.sigma2)), noise.distance
    return 0.5 * min(math.sqrt(exact**2 + 0.5 * xi), exact + xi) ** 2 * (1.0 + 1e-12)


def theta(sigma2: arb) -> arb:
    """Σ_x e^{-x²/2σ²} over the integers, by the sum or by its Poisson dual, whichever converges sooner."""
    direct = bool(sigma2 < 0.16)
    rate = 1 / (2 * sigma2) if direct else 2 * arb.pi() ** 2 * sigma2
    total, k = arb(1), 1
    while True:
        term = 2 * (-rate * k * k).exp()
        total += term
        if term < arb(2) ** (-ctx.prec - 8):
            # Later terms fall faster than a halving series.
            total += arb(0, term)
            return total if direct else total * (2 * arb.pi() * sigma2).sqrt()
        k += 1


CLOSE = 1e-13
"""Below this distance the sum's window is that of one discrete Gaussian, with the distance in its error."""


@lru_cache(maxsize=32)
def _sum_window(noise: DiscreteGaussianSum, floor: float) -> Window:
    """The n-fold convolution in ball arithmetic, by repeated squaring; near-equal to one Gaussian it takes that."""
    if noise.distance <= CLOSE:
        near = DiscreteGaussian(noise.count * Fraction(noise.sigma2)).window(floor)
        slack = 1.0 + 2.0 * noise.distance
        return Window(near.start, near.pmf, near.below * slack, near.above * slack, near.error + 2.0 * noise.distance)
    total: list[arb] | None = None
    start = total_start = 0
    outside = 0.0
    with precise(CONVOLUTION_BITS):
        held = noise.part.window(1e-100)
        square, start = run(noise.part, held.start, held.stop), held.start
        outside = noise.count * (held.below + held.above)
        bits = noise.count
        while bits:
            if bits & 1:
                if total is None:
                    total, total_start = square, start
                else:
                    total, total_start = _multiply(total, total_start, square, start)
            bits >>= 1
            if bits:
                square, start = _multiply(square, start, square, start)
        assert total is not None
    # What trimming dropped is at most 1e-100 a coefficient, once a user.
    outside += noise.count * len(total) * 1e-100
    return convolve(total, total_start, [arb(1)], 0, floor, outside)


def _multiply(left: list[arb], left_start: int, right: list[arb], right_start: int) -> tuple[list[arb], int]:
    from flint import arb_poly

    product = (arb_poly(left) * arb_poly(right)).coeffs()
    middle = len(product) // 2
    keep = next((i for i in range(middle, -1, -1) if product[i] < 1e-100), -1) + 1
    return product[keep : len(product) - keep], left_start + right_start + keep
