"""The laws once more, by roads the library does not take: closed forms in balls and exact integer polynomials."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, lru_cache, singledispatch
from itertools import accumulate

import numpy as np
from flint import arb, ctx, fmpz_poly
from numpy.typing import NDArray

from croupier.noise import (
    Binomial,
    BoundedLaplace,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
    Table,
)

BITS = 400
FIXED, SUM_FIXED = 1200, 700
"""Bits after the point in the integer convolutions of two parts and of many."""

DEPTH = arb("1e-120")
"""Tables end where a term falls below this."""


def ball(value: object) -> arb:
    """An exact parameter as a ball at the current precision."""
    exact = Fraction(value)  # type: ignore[arg-type]
    return arb(exact.numerator) / arb(exact.denominator)


def exact_pmf(noise: Noise, x: int) -> arb:
    """P(X = x) as a ball."""
    with ctx.workprec(BITS):
        return _pmf(noise, int(x))


def exact_tail(noise: Noise, x: int) -> arb:
    """P(X > x) as a ball, up to what lies beyond the table."""
    start, _, _, above = table(noise)
    return above[min(max(x + 1 - start, 0), len(above) - 1)]


def exact_cdf(noise: Noise, x: int) -> arb:
    """P(X <= x), summed from its own end."""
    start, _, below, _ = table(noise)
    return below[min(max(x + 1 - start, 0), len(below) - 1)]


def exact_floats(noise: Noise, start: int, stop: int) -> NDArray[np.float64]:
    """P(X = start), ..., P(X = stop - 1), each correctly rounded."""
    first, masses, _, _ = table(noise)
    last = first + len(masses)
    return np.asarray([float(masses[x - first]) if first <= x < last else 0.0 for x in range(start, stop)])


@cache
def table(noise: Noise) -> tuple[int, list[arb], list[arb], list[arb]]:
    """The start, the masses, and the sums below and from each point on: from near the mean out to DEPTH."""
    low, high = noise.support
    centre = round(noise.mean)
    with ctx.workprec(BITS):

        def outward(x: int, step: int, end: int | None) -> list[arb]:
            found: list[arb] = []
            while end is None or (end - x) * step >= 0:
                found.append(_pmf(noise, x))
                assert len(found) < 10**5, "a law too wide for a table, or one that its formula does not reach"
                if 0 < found[-1] < DEPTH:
                    break
                x += step
            return found

        up, down = outward(centre, 1, high), outward(centre - 1, -1, low)
        masses = down[::-1] + up
        below = list(accumulate(masses, initial=arb(0)))
        above = list(accumulate(masses[::-1], initial=arb(0)))[::-1]
    return centre - len(down), masses, below, above


@singledispatch
def _pmf(noise: Noise, x: int) -> arb:
    raise TypeError(f"no exact law is written for {type(noise).__name__}")


@_pmf.register
def _(noise: Binomial, x: int) -> arb:
    if not 0 <= x <= noise.trials:
        return arb(0)
    p = ball(noise.p)
    return math.comb(noise.trials, x) * p**x * (1 - p) ** (noise.trials - x)


@lru_cache
def _trinomial(noise: SparseBits) -> tuple[fmpz_poly, int]:
    """A slot adds +1, 0, -1 with weights a, 2(b-a), a over 2b for the rate a/b: an exact integer polynomial."""
    a, b = Fraction(noise.rate).as_integer_ratio()
    return fmpz_poly([a, 2 * (b - a), a]) ** noise.slots, (2 * b) ** noise.slots


@_pmf.register
def _(noise: SparseBits, x: int) -> arb:
    ways, whole = _trinomial(noise)
    return arb(ways[x + noise.slots]) / arb(whole) if abs(x) <= noise.slots else arb(0)


@_pmf.register
def _(noise: DiscreteLaplace, x: int) -> arb:
    rate = 1 / ball(noise.scale)
    return (rate.exp() - 1) / (rate.exp() + 1) * (-abs(x) * rate).exp()


@_pmf.register
def _(noise: BoundedLaplace, x: int) -> arb:
    rate = 1 / ball(noise.scale)
    weights = [(-abs(y) * rate).exp() for y in range(-noise.bound, noise.bound + 1)]
    return weights[x + noise.bound] / sum(weights, arb(0)) if abs(x) <= noise.bound else arb(0)


@_pmf.register
def _(noise: Table, x: int) -> arb:
    inside = noise.start <= x < noise.start + len(noise.probabilities)
    return ball(noise.probabilities[x - noise.start]) if inside else arb(0)


@_pmf.register
def _(noise: Polya, x: int) -> arb:
    if x < 0:
        return arb(0)
    r, beta = ball(noise.r), ball(noise.beta) if noise.beta is not None else (-1 / ball(noise.scale)).exp()
    return (r + x).gamma() / (arb(x + 1).gamma() * r.gamma()) * beta**x * (1 - beta) ** r


@lru_cache
def _difference(noise: PolyaDifference) -> tuple[fmpz_poly, int]:
    """The law in whole multiples of 4^-FIXED: the parts, rounded down, multiplied exactly."""
    with ctx.workprec(FIXED + 64):
        r, beta = ball(noise.r), (-1 / ball(noise.scale)).exp()
        mass, masses, x = (1 - beta) ** r, [], 0
        while x < noise.part.mean or mass * arb(2) ** FIXED > 1:
            masses.append((mass * arb(2) ** FIXED).floor().unique_fmpz())
            mass *= beta * (x + r) / (x + 1)
            x += 1
    return fmpz_poly(masses) * fmpz_poly(masses[::-1]), x - 1


@_pmf.register
def _(noise: PolyaDifference, x: int) -> arb:
    law, middle = _difference(noise)
    return arb(law[abs(x) + middle]) / arb(4) ** FIXED if abs(x) <= middle else arb(0)


def gauss(noise: PolyaDifference, x: int) -> arb:
    """Sum_b P(A = b + x) P(B = b) by Gauss's series, for x >= 0; it loses digits far out."""
    with ctx.workprec(4 * BITS):
        r, beta = ball(noise.r), (-1 / ball(noise.scale)).exp()
        series = (beta**2).hypgeom_2f1(r, r + x, arb(x + 1))
        return (1 - beta) ** (2 * r) * beta**x * r.rising(x) / arb(x + 1).gamma() * series


@_pmf.register
def _(noise: Poisson, x: int) -> arb:
    rate = ball(noise.rate)
    return (-rate).exp() * rate**x / arb(x + 1).gamma() if x >= 0 else arb(0)


@lru_cache
def _bessels(sigma2: Fraction, top: int) -> list[arb]:
    """e^{-z} I_k(z) for k <= top, downward from two certified values by I_{k-1} = I_{k+1} + (2k/z) I_k."""
    z = ball(sigma2)
    found = [z.bessel_i(arb(top + 1), scaled=True), z.bessel_i(arb(top), scaled=True)]
    for k in range(top, 0, -1):
        found.append(found[-2] + 2 * k / z * found[-1])
    return found[:0:-1]


@_pmf.register
def _(noise: Skellam, x: int) -> arb:
    top = 64 + 64 * (math.ceil(40 * noise.std + 250) // 64)
    if abs(x) > top:
        return ball(noise.sigma2).bessel_i(arb(abs(x)), scaled=True)
    return _bessels(Fraction(noise.sigma2), top)[abs(x)]


@lru_cache
def _theta(sigma2: Fraction, bits: int) -> arb:
    half = 2 + math.isqrt(math.ceil(2 * sigma2 * bits))
    return 1 + 2 * sum(((-k * k / (2 * ball(sigma2))).exp() for k in range(1, half + 1)), arb(0))


@_pmf.register
def _(noise: DiscreteGaussian, x: int) -> arb:
    return (-x * x / (2 * ball(noise.sigma2))).exp() / _theta(Fraction(noise.sigma2), ctx.prec)


@lru_cache
def _power(noise: DiscreteGaussianSum) -> tuple[fmpz_poly, int]:
    """The n-fold convolution of the law in whole multiples of 2^-SUM_FIXED, multiplied exactly."""
    part = DiscreteGaussian(noise.sigma2)
    half = 2 + math.isqrt(math.ceil(2 * Fraction(noise.sigma2) * math.ceil(SUM_FIXED * math.log(2))))
    with ctx.workprec(SUM_FIXED + 64):
        masses = [(_pmf(part, x) * arb(2) ** SUM_FIXED).floor().unique_fmpz() for x in range(-half, half + 1)]
    return fmpz_poly(masses) ** noise.count, half * noise.count


@_pmf.register
def _(noise: DiscreteGaussianSum, x: int) -> arb:
    law, half = _power(noise)
    return arb(law[x + half]) / arb(2) ** (SUM_FIXED * noise.count) if abs(x) <= half else arb(0)
