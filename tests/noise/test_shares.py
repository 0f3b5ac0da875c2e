"""Shares add up to the total: exactly, or within the bound that is stated."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from cases.noise_laws import BITS, exact_floats, exact_pmf, table
from cases.noises import THIRD
from croupier.checks import InvalidParameter
from croupier.noise import (
    Binomial,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
)

TOTALS: tuple[tuple[Noise, tuple[int, ...]], ...] = (
    (Binomial(120, 0.5), (1, 2, 5, 120)),
    (Binomial(1000, THIRD), (4, 100)),
    (SparseBits(120), (2, 40)),
    (SparseBits(300, Fraction(1, 5)), (1, 3, 100)),
    (DiscreteLaplace(2), (1, 2, 7, 1000)),
    (DiscreteLaplace(20), (3, 1000)),
    (Polya(THIRD, beta=0.75), (2, 50)),
    (Polya(12, scale=3), (1, 5, 100)),
    (PolyaDifference(THIRD, 2), (2, 30)),
    (PolyaDifference(Fraction(9, 2), 3), (3, 40)),
    (PolyaDifference(40, 2), (1, 2, 20)),
    (Poisson(0.01), (3,)),
    (Poisson(300), (1, 2, 17, 1000)),
    (Skellam(0.5), (2, 9)),
    (Skellam(10_000), (1, 4, 500)),
)
CASES = [(total, users) for total, counts in TOTALS for users in counts]

every_split = pytest.mark.parametrize(("total", "users"), CASES, ids=[f"{t!r}/{n}" for t, n in CASES])


def on_a_circle(noise: Noise, size: int) -> np.ndarray:
    """The law modulo `size`, which holds all of it that matters."""
    window = noise.window()
    law = np.zeros(size)
    np.add.at(law, np.arange(window.start, window.stop) % size, window.pmf)
    return law


@every_split
def test_shares_add_up_to_the_total(total: Noise, users: int) -> None:
    start, masses, _, _ = table(total)
    size = 1 << (2 * len(masses)).bit_length()
    spectrum = np.fft.rfft(on_a_circle(total.share(users), size)) ** users
    summed = np.roll(np.fft.irfft(spectrum, size), -start)[: len(masses)]
    assert np.abs(summed - exact_floats(total, start, start + len(masses))).max() < 1e-12


@every_split
def test_moments_of_shares_add_up(total: Noise, users: int) -> None:
    share = total.share(users)
    assert users * share.mean == pytest.approx(total.mean, rel=1e-13)
    assert users * share.variance == pytest.approx(total.variance, rel=1e-13)


@every_split
def test_share_and_times_are_inverse(total: Noise, users: int) -> None:
    share = total.share(users)
    assert share.times(users) == total
    assert hash(share.times(users)) == hash(total)
    assert total.share(1) == total == total.times(1)


@pytest.mark.parametrize("total", [total for total, _ in TOTALS], ids=repr)
def test_copies_split_again(total: Noise) -> None:
    assert total.times(6).share(3) == total.times(2)
    assert total.times(2).times(3) == total.times(6)


@pytest.mark.parametrize("total", [DiscreteLaplace(2), PolyaDifference(5, 2), Skellam(4), Poisson(3)], ids=repr)
def test_a_share_of_copies_is_one_copy(total: Noise) -> None:
    assert total.times(3).share(3) == total


def test_shares_of_doubles_are_exact() -> None:
    assert Poisson(0.1).share(3).rate == Fraction(0.1) / 3
    assert Skellam(0.3).share(7).sigma2 == Fraction(0.3) / 7
    assert DiscreteLaplace(0.3).share(10) == PolyaDifference(Fraction(1, 10), 0.3)
    assert DiscreteGaussian(0.3).share(7) == DiscreteGaussian(Fraction(0.3) / 7)


@pytest.mark.parametrize("total", [Binomial(120, 0.5), SparseBits(120, 0.5)], ids=repr)
@pytest.mark.parametrize("users", [7, 121, 1000])
def test_a_bit_is_not_split(total: Noise, users: int) -> None:
    with pytest.raises(InvalidParameter, match="divisor") as refusal:
        total.share(users)
    assert refusal.value.name == "users"


@pytest.mark.parametrize("sigma2", [0.25, 0.3, Fraction(1, 2), 1, 2])
@pytest.mark.parametrize("count", [2, 3, 10, 40])
def test_a_sum_of_gaussians_is_as_close_as_stated(sigma2: float | Fraction, count: int) -> None:
    parts = DiscreteGaussianSum(sigma2, count)
    whole = DiscreteGaussian(count * Fraction(sigma2))
    reach = round(12 * whole.sigma2**0.5)
    with ctx.workprec(BITS):
        gap = max(abs((exact_pmf(parts, x) / exact_pmf(whole, x)).log()) for x in range(reach + 1))
        assert gap <= arb(parts.distance)
    # The bound is no mere large number: it falls as the gap does.
    assert parts.distance < 10 * count * np.exp(-9.8 * float(sigma2))


def test_a_narrow_sum_of_gaussians_is_not_said_to_be_close() -> None:
    parts, whole = DiscreteGaussianSum(0.01, 2), DiscreteGaussian(2 * Fraction(0.01))
    with ctx.workprec(BITS):
        gap = abs((exact_pmf(parts, 1) / exact_pmf(whole, 1)).log())
        assert gap <= arb(parts.distance)


@pytest.mark.parametrize("count", [1, 2, 10_000, 10_001, 10_002, 50_000])
def test_distance_is_the_sum_of_lemma_4(count: int) -> None:
    noise = DiscreteGaussianSum(Fraction(3, 10), count)
    rate = 2 * np.pi**2 * 0.3
    k = np.arange(1, count)
    exact = 10.0 * float(np.exp(-rate * k / (k + 1)).sum())
    assert exact * (1 - 1e-12) <= noise.distance <= exact * (1 + 1e-3)


@pytest.mark.parametrize(("sigma2", "users"), [(100, 25), (0.3, 7), (Fraction(7, 3), 1)])
def test_shares_of_a_gaussian_add_up_to_a_sum_of_gaussians(sigma2: float, users: int) -> None:
    total = DiscreteGaussian(sigma2)
    share = total.share(users)
    assert share == DiscreteGaussian(Fraction(sigma2) / users)
    summed = share.times(users)
    assert summed == (total if users == 1 else DiscreteGaussianSum(Fraction(sigma2) / users, users))
    assert summed.share(users) == share
    assert summed.times(3) == DiscreteGaussianSum(Fraction(sigma2) / users, 3 * users)


def test_a_sum_of_gaussians_has_as_many_shares_as_parts() -> None:
    with pytest.raises(InvalidParameter) as refusal:
        DiscreteGaussianSum(2, 4).share(3)
    assert refusal.value.name == "users"
