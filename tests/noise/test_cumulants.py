"""Cumulants and mirror symmetry against sums over the exact law."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from flint import arb, ctx

from cases.noise_laws import BITS, table
from cases.noises import MEMBERS
from croupier.noise import (
    Binomial,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Noise,
    Polya,
    PolyaDifference,
)

every_member = pytest.mark.parametrize("noise", MEMBERS, ids=repr)


def exact_cumulant(noise: Noise, t: float) -> float:
    """log E[e^{t(X - mean)}] over the table; t must leave its ends negligible."""
    start, masses, _, _ = table(noise)
    with ctx.workprec(BITS):
        # Horner's scheme, from the highest value down.
        step, total = arb(t).exp(), arb(0)
        for mass in reversed(masses):
            total = total * step + mass
        return float(total.log() + arb(t) * (start - exact_mean(noise)))


@cache
def exact_mean(noise: Noise) -> arb:
    """The mean over the table, once for every t."""
    start, masses, _, _ = table(noise)
    with ctx.workprec(BITS):
        return sum((x * mass for x, mass in enumerate(masses, start)), arb(0))


def highest(noise: Noise) -> float:
    """Where the expectation begins to be infinite."""
    if isinstance(noise, DiscreteLaplace | PolyaDifference):
        return 1.0 / float(noise.scale)
    if isinstance(noise, Polya):
        return -math.log(noise.beta) if noise.beta is not None else 1.0 / float(noise.scale)
    return math.inf


@every_member
def test_cumulant_is_that_of_the_law(noise: Noise) -> None:
    for share in (-0.5, 0.01, 0.7):
        t = share * min(highest(noise), 1.5 / noise.std, 1.0)
        found, exact = float(noise.cumulant(np.asarray([t]))[0]), exact_cumulant(noise, t)
        if isinstance(noise, DiscreteGaussian | DiscreteGaussianSum):
            # Only an upper bound is promised, and it is one that a wide law attains.
            assert found >= exact * (1 - 1e-12)
            assert found <= exact * (1.01 if noise.sigma2 >= 1 else 1.5)
        else:
            assert found == pytest.approx(exact, rel=1e-9)


@every_member
@pytest.mark.parametrize("t", [1e-7, -1e-5, 1e-3])
def test_cumulant_keeps_its_digits_where_it_is_hardly_above_zero(noise: Noise, t: float) -> None:
    """Bets are sized with it there, by `croupier.comparisons.tails`, which adds 10⁻¹² of it for rounding."""
    t *= min(highest(noise), 1.0)
    assert float(noise.cumulant(np.asarray([t]))[0]) >= exact_cumulant(noise, t) * (1 - 1e-12)


@every_member
def test_cumulant_is_zero_at_zero_and_infinite_past_its_range(noise: Noise) -> None:
    end = highest(noise)
    assert noise.cumulant(np.zeros(2)).tolist() == [0.0, 0.0]
    if math.isfinite(end):
        assert np.isfinite(noise.cumulant(np.asarray([end * (1 - 1e-6)]))).all()
        assert np.isinf(noise.cumulant(np.asarray([end * (1 + 1e-6), 2 * end]))).all()


@every_member
def test_balanced_means_a_mirror_image_about_the_mean(noise: Noise) -> None:
    start, masses, _, _ = table(noise)
    twice = Fraction(2 * noise.mean).limit_denominator(10**6)
    mirrored = twice.denominator == 1
    if mirrored:
        pairs = ((x, int(twice) - x) for x in range(start, start + len(masses), max(1, len(masses) // 30)))
        law = {start + i: mass for i, mass in enumerate(masses)}
        mirrored = all(
            float(law[x]) == pytest.approx(float(law.get(y, arb(0))), rel=1e-12, abs=1e-100) for x, y in pairs
        )
    assert noise.balanced == mirrored


def test_only_fair_bits_are_balanced() -> None:
    assert Binomial(7, 0.5).balanced
    assert Binomial(7, Fraction(1, 2)).balanced
    assert not Binomial(8, 0.25).balanced
