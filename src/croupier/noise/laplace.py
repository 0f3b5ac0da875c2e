"""Discrete Laplace noise, and the differences of Pólya variables that are its shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike

from croupier.checks import Number, between, integer
from croupier.noise.base import Noise, multiply, settle, split, to_arb, whole
from croupier.noise.inversion import inverter, run
from croupier.noise.likelihoods import Pair, directed_pair
from croupier.noise.polya import Polya, decay
from croupier.noise.precision import precise
from croupier.noise.ratio import RatioNoise
from croupier.noise.source import Source
from croupier.noise.tails import (
    CONVOLUTION_BITS,
    convolve,
    fourier_correlate,
    fourier_tail,
    least_tail_quantile,
    saddle_tail,
)
from croupier.noise.target import Target
from croupier.noise.window import DEEP, LARGEST_WINDOW, SHALLOW, Floats, Integers, Window, check_width

LEAST_SCALE = 1 / 512
"""Below this, e^{-1/scale} is no double: there is no noise to speak of."""

DIGITS = 256
"""Above this scale noise is drawn digit by digit: a table would take long to make."""

RATIO_BITS = (192, 2**14)
"""What the ratio of two masses is computed with at first, and at most: it takes some four bits a scale between them."""

MANY = 16
"""From this shape on the characteristic function falls fast enough for Fourier inversion."""


@dataclass(frozen=True, repr=False)
class DiscreteLaplace(RatioNoise):
    """P(x) = (e^{1/b} - 1)/(e^{1/b} + 1) e^{-|x|/b} with scale b ([CZ23] Def. 4).

    Parameters
    ----------
    scale : b. A number that one user can move by Δ is then Δ/b-DP.

    Examples
    --------
    >>> DiscreteLaplace(scale=20).share(1000)
    PolyaDifference(r=1/1000, scale=20)
    """

    scale: Number

    def __post_init__(self) -> None:
        settle(self, scale=between("scale", self.scale, LEAST_SCALE, math.inf, "[)"))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        b = float(self.scale)
        if b > 1e100:
            return 2.0 * b * b  # to the last digit, and infinite where no double holds it
        return 2.0 * math.exp(-1.0 / b) / math.expm1(-1.0 / b) ** 2

    purely_private = True

    def log_ratio(self, shift: int) -> Number:
        return abs(shift) / Fraction(self.scale)

    @classmethod
    def calibrated(cls, target: Target) -> DiscreteLaplace:
        """Pure DP needs scale sensitivity/ε and no more; δ buys next to nothing here."""
        scale = Fraction(target.loss(DiscreteLaplace(1)).pure) / Fraction(target.epsilon)
        return DiscreteLaplace(int(scale) if scale.denominator == 1 else scale)

    widest_search = math.inf

    def extent(self, floor: float) -> float:
        return -2.0 * math.log(floor) * float(self.scale)

    def _mass(self) -> arb:
        return (1 / to_arb(self.scale) / 2).tanh()

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        if real is float:
            beta = math.exp(-1.0 / float(self.scale))
            return np.where(np.asarray(x) >= 0, beta, 1.0 / beta)
        ball = decay(self.scale, ctx.prec)
        return ball if x >= 0 else 1 / ball

    @property
    def _growth_limit(self) -> float:
        return math.nextafter(math.exp(-1.0 / float(self.scale)), math.inf)

    @property
    def cumulant_rises(self) -> bool:
        return True

    def cumulant(self, t: Floats) -> Floats:
        return PolyaDifference(1, self.scale).cumulant(t)

    def share(self, users: int) -> Noise:
        """The difference of two Pólya variables of 1/users each ([CZ23] Fact 1).

        >>> DiscreteLaplace(2).share(10).times(10) == DiscreteLaplace(2)
        True
        """
        return self if integer("users", users, 1) == 1 else PolyaDifference(split("r", 1, users), self.scale)

    def times(self, users: int) -> Noise:
        return self if integer("users", users, 1) == 1 else PolyaDifference(int(users), self.scale)

    def tail(self, x: ArrayLike) -> Any:
        """Where a table would not fit, the closed form of `tail_quantile`, rounded up."""
        points = whole(x)
        if self.extent(SHALLOW) <= LARGEST_WINDOW or np.any(points < 0):
            return super().tail(x)
        b = float(self.scale)
        bound = np.exp(-(points + 1.0) / b) / (1.0 + math.exp(-1.0 / b)) * (1.0 + 1e-12)
        return bound if points.ndim else float(bound)

    def tail_quantile(self, probability: float) -> int:
        """P(X > x) = e^{-(x+1)/b}/(1 + e^{-1/b}) for x >= 0, so the quantile has a closed form."""
        if not 0.0 < probability < 0.4:
            return super().tail_quantile(probability)
        b = float(self.scale)
        x = max(math.ceil(-b * math.log(probability * (1.0 + math.exp(-1.0 / b))) - 1.0) - 1, 0)
        while math.exp(-(x + 1) / b) / (1.0 + math.exp(-1.0 / b)) > probability:
            x += 1 + (x >> 50)  # a step that doubles of this size still see
        return x

    def _draw(self, count: int, source: Source) -> Integers:
        return self._by_digits(count, source) if self.scale > DIGITS else super()._draw(count, source)

    def _by_digits(self, count: int, source: Source) -> Integers:
        """The difference of two geometric variables, whose binary digits are independent: as many steps for any value.

        P(x) ∝ β^x on x >= 0 is a product over the digits of x: digit j is one with odds β^{2^j}, and what lies above
        the first k digits has the same law with β^{2^k}.
        """
        scale = Fraction(self.scale)
        digits = max(0, math.floor(scale).bit_length() - DIGITS.bit_length())
        rest = Polya(1, scale=scale / 2**digits)
        total = (rest._draw(count, source) - rest._draw(count, source)) << digits
        for j in range(digits):
            digit = LogisticBit(2**j / scale)
            total += (digit._draw(count, source) - digit._draw(count, source)) << j
        return total

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        success = -math.expm1(-1.0 / float(self.scale))
        return generator.geometric(success, count) - generator.geometric(success, count)


@dataclass(frozen=True)
class LogisticBit:
    """A bit that is one with probability 1/(1 + e^rate)."""

    rate: Fraction

    def cells(self) -> Iterator[tuple[int, arb]]:
        chance = 1 / (1 + to_arb(self.rate).exp())
        return iter(((0, 1 - chance), (1, chance)))

    def extent(self, floor: float) -> float:
        return 2.0

    def _draw(self, count: int, source: Source) -> Integers:
        return inverter(self).sample(count, source)


@dataclass(frozen=True, repr=False)
class PolyaDifference(Noise):
    """A - B for independent A, B ~ Pólya(r, e^{-1/scale}): the shares of discrete Laplace noise, and their sums.

    r = 1 is the discrete Laplace law itself. For r >= 1 it is discrete Laplace plus independent noise.

    >>> PolyaDifference(r=Fraction(1, 50), scale=3).times(50)
    DiscreteLaplace(scale=3)
    """

    r: Number
    scale: Number
    part: Polya = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        part = Polya(self.r, scale=self.scale)
        settle(self, part=part, r=part.r, scale=part.scale)

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        return 2.0 * self.part.variance

    @property
    def affordable(self) -> bool:
        return self.part.odds <= 2.0**14 and self.std <= 2.0**24

    def log_ratio(self, shift: int) -> Number:
        """With r >= 1 the ratios are mixtures of those of discrete Laplace; below, the law peaks more sharply.

        With r < 1 the masses of a Pólya variable are moments of a measure on [0, 1], and so are those of the
        difference from 0 on: they fall, ever more slowly by the step, and P(0)/P(shift) is the largest ratio.
        """
        return abs(shift) / Fraction(self.scale) if self.r >= 1 or shift == 0 else _peak_ratio(self, abs(shift))

    def pair(self, shift: int, floor: float = SHALLOW) -> Pair:
        """With r > 1 the noise is discrete Laplace plus more, and where it is too wide to tabulate that bounds it."""
        if self.r > 1 and self.std > 200:
            return replace(directed_pair(DiscreteLaplace(self.scale), shift, floor), substitute=True)
        return super().pair(shift, floor)

    @property
    def cumulant_rises(self) -> bool:
        return True

    def cumulant(self, t: Floats) -> Floats:
        odds = self.part.odds
        argument = 4.0 * odds * (1.0 + odds) * np.sinh(np.asarray(t) / 2.0) ** 2
        with np.errstate(divide="ignore"):
            return np.where(argument < 1.0, -float(self.r) * np.log1p(-np.minimum(argument, 1.0)), np.inf)

    def _cumulant(self, z: Any) -> Any:
        """The same at complex numbers, within reach."""
        odds = self.part.odds
        return -float(self.r) * np.log1p(-4.0 * odds * (1.0 + odds) * np.sinh(z / 2.0) ** 2)

    def share(self, users: int) -> Noise:
        r = split("r", self.r, users)
        return DiscreteLaplace(self.scale) if r == 1 else PolyaDifference(r, self.scale)

    def times(self, users: int) -> Noise:
        r = multiply(self.r, users)
        return DiscreteLaplace(self.scale) if r == 1 else PolyaDifference(r, self.scale)

    def window(self, floor: float = SHALLOW) -> Window:
        return _difference_window(self, floor)

    def tail(self, x: ArrayLike) -> Any:
        point = whole(x)
        return super().tail(x) if point.ndim or point < 0 else self._tail_at(int(point))

    def tail_quantile(self, probability: float) -> int:
        if not 0.0 < probability < 0.5:
            return super().tail_quantile(probability)
        return _difference_quantile(self, probability)

    def _tail_at(self, x: int) -> float:
        """P(X > x) for x >= 0: by Fourier inversion for many parts, else by summing over one part."""
        if self.r >= MANY:
            tail = fourier_tail(self._log_characteristic, self.std, float(self.scale), x)
            if tail > 1e-8:
                return tail
            return saddle_tail(self._cumulant, 1.0 / float(self.scale), self.std, float(self.scale), x)
        tail = self._summed_tail(x, SHALLOW)
        return tail if tail > 1e-30 else self._summed_tail(x, DEEP)

    def _summed_tail(self, x: int, floor: float) -> float:
        """Σ_b P(B = b) P(A > x + b)."""
        window = self.part.window(floor)
        beyond = self.part.tail(np.arange(window.start, window.stop) + x)
        return float(np.dot(window.pmf, beyond)) + window.above

    def bulk(self, reach: int) -> Floats:
        if self.r < MANY:
            pmf = self.part.window().pmf
            law = fourier_correlate(pmf)
            middle = len(pmf) - 1
            law = np.pad(law, max(0, reach - middle))
            middle = max(middle, reach)
            return law[middle - reach : middle + reach + 1]
        size = 2 * (reach + math.ceil(14.0 * self.std + 60.0 * float(self.scale)))
        theta = 2.0 * math.pi / size * np.arange(size // 2 + 1)
        law = np.fft.irfft(np.exp(self._log_characteristic(theta)), size)
        return np.concatenate((law[-reach:], law[: reach + 1])) if reach else law[:1]

    def _log_characteristic(self, theta: Floats) -> Floats:
        odds = self.part.odds
        return np.asarray(-float(self.r) * np.log1p(4.0 * odds * (1.0 + odds) * np.sin(theta / 2.0) ** 2))

    @property
    def _largest(self) -> float:
        return self.part._largest

    def _draw(self, count: int, source: Source) -> Integers:
        return self.part._draw(count, source) - self.part._draw(count, source)

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return self.part._simulate(count, generator) - self.part._simulate(count, generator)


@lru_cache(maxsize=256)
def _peak_ratio(noise: PolyaDifference, shift: int) -> float:
    """log P(0)/P(shift), rounded up, where P(x) = (1-β)^{2r} β^x Γ(r+x)/(Γ(r) x!) ₂F₁(r, r+x; 1+x; β²)."""
    bits, most = RATIO_BITS
    while bits <= most:
        with precise(bits):
            r, rate = to_arb(noise.r), 1 / to_arb(noise.scale)
            squared = (-2 * rate).exp()
            peak, there = (squared.hypgeom_2f1(r, r + x, arb(1 + x)).log() for x in (0, shift))
            chosen = (r + shift).lgamma() - r.lgamma() - arb(1 + shift).lgamma()
            ratio = peak - there - chosen + shift * rate
            if ratio.rad() <= 1e-16 * ratio.abs_lower():
                return math.nextafter(float(ratio.upper()), math.inf)
        bits *= 2
    return math.inf


@lru_cache(maxsize=256)
def _difference_quantile(noise: PolyaDifference, probability: float) -> int:
    """Looked up for every batch that is released or replayed, most of which have the same noise."""
    return least_tail_quantile(noise._tail_at, probability, math.ceil(noise.std))


@lru_cache(maxsize=32)
def _difference_window(noise: PolyaDifference, floor: float) -> Window:
    """Convolve the two parts in ball arithmetic; a deeper part keeps the difference accurate down to `floor`."""
    part = noise.part
    check_width(noise, part.extent(floor), 2**20)
    held = part.window(max(floor * floor, 1e-300))
    with precise(CONVOLUTION_BITS):
        masses = run(part, held.start, held.stop)
    return convolve(masses, held.start, masses[::-1], 1 - held.stop, floor, 2.0 * (held.below + held.above))
