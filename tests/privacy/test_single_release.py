"""The exact δ of one release against direct summation in 60 digits, and the figures published for the papers' noise."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from cases.exact_losses import closed_form, exact_delta, hockey_stick, law, mp
from croupier.noise import (
    Binomial,
    BoundedLaplace,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
    Table,
)
from croupier.privacy import privacy_loss

CASES = [
    (Binomial(40, 0.5), 1),
    (Binomial(268, 0.5), 1),
    (Binomial(300, 0.5), 5),
    (Binomial(500, 0.1), 1),
    (Binomial(200, Fraction(3, 4)), 3),
    (Binomial(400, Fraction(9_999, 10_000)), 1),
    (Poisson(33), 1),
    (Poisson(Fraction(61, 7)), 2),
    (Poisson(0.3), 1),
    (Polya(2.5, 0.75), 1),
    (Polya(30, Fraction(1, 2)), 3),
    (Polya(0.5, scale=4), 1),
    (Skellam(1), 1),
    (Skellam(40), 3),
    (Skellam(Fraction(100, 3)), 1),
    (DiscreteGaussian(10), 1),
    (DiscreteGaussian(100), 5),
    (DiscreteGaussian(0.3), 1),
    (DiscreteGaussian(0.05), 1),
    (DiscreteGaussianSum(1, 3), 1),
    (DiscreteGaussianSum(4, 3), 2),
    (DiscreteLaplace(2), 1),
    (DiscreteLaplace(8), 6),
    (DiscreteLaplace(Fraction(1, 7)), 1),
    (PolyaDifference(3, 2), 1),
    (PolyaDifference(Fraction(1, 3), 2), 2),
    (SparseBits(60, 0.4), 2),
    (SparseBits(60, Fraction(1, 4)), 6),
    (SparseBits(50, 1), 2),
    (BoundedLaplace(2, 9), 1),
    (BoundedLaplace(Fraction(7, 3), 40), 3),
    (Table.proportional([1, 3, 9, 20, 9, 5, 1], start=-3), 1),
    (Table.proportional([0.1, 0.2, 0.35, 0.2, 1e-200], start=4), 2),
    (Table([0.25, 0, 0.5, 0, 0.25]), 1),
]
EPSILONS = (0.0, 0.05, 0.3, 0.5, 0.9, 1.5, 3.0)


@pytest.mark.parametrize(("noise", "sensitivity"), CASES, ids=str)
def test_delta_is_the_direct_sum_rounded_up(noise, sensitivity):
    loss = {way: privacy_loss(noise, sensitivity, direction=way) for way in ("up", "down", "both")}
    for epsilon in EPSILONS:
        truth = {
            "up": exact_delta(noise, sensitivity, epsilon),
            "down": exact_delta(noise, -sensitivity, epsilon),
        }
        truth["both"] = max(truth.values())
        for way, exact in truth.items():
            found = loss[way].delta(epsilon)
            # The slack is the last of the 60 digits; doubles get none.
            assert mp.mpf(found) >= exact * (1 - mp.mpf("1e-55")) - mp.mpf("1e-58"), (way, epsilon)
            # What is cut from a table may be charged; where laws are not mixed or convolved it is next to nothing.
            charged = {SparseBits: 1e-26, PolyaDifference: 1e-30, DiscreteGaussianSum: 1e-30}.get(type(noise), 1e-285)
            assert found <= exact * (1 + mp.mpf("1e-6")) + charged, (way, epsilon)


@pytest.mark.parametrize("sensitivity", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("direction", ["up", "down", "both"])
def test_a_law_of_several_peaks_is_charged_for_its_worst_shift(sensitivity, direction):
    noise = Table.proportional([4, 1, 8, 1, 16, 2, 8, 1, 1, 6])
    loss = privacy_loss(noise, sensitivity, direction=direction)
    signs = {"up": (1,), "down": (-1,), "both": (1, -1)}[direction]
    for epsilon in EPSILONS:
        exact = max(exact_delta(noise, s * x, epsilon) for s in signs for x in range(1, sensitivity + 1))
        assert exact * (1 - mp.mpf("1e-55")) <= loss.delta(epsilon) <= exact * (1 + mp.mpf("1e-9"))
        # Composed, one pair stands for all shifts.
        assert (2 * loss).delta(epsilon) >= loss.delta(epsilon) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("noise", "epsilon"),
    [(DiscreteGaussian(10), 5.0), (DiscreteGaussian(10), 8.0), (Skellam(5), 3.0), (Binomial(2000, 0.5), 1.0)],
    ids=str,
)
def test_delta_far_below_any_in_use_is_still_exact(noise, epsilon):
    exact = max(exact_delta(noise, shift, epsilon, depth=500.0) for shift in (1, -1))
    assert exact < 1e-30
    found = privacy_loss(noise).delta(epsilon)
    assert exact <= found <= exact * (1 + mp.mpf("1e-6"))


@pytest.mark.parametrize(
    ("noise", "epsilons"),
    # Between these ε the true δ passes 1e-30, where a deeper table takes over.
    [(PolyaDifference(5, 2), (0.4, 0.45, 0.47, 0.48, 0.49)), (DiscreteGaussianSum(1, 40), (0.5, 1.0, 1.5, 1.9, 2.5))],
    ids=str,
)
def test_delta_keeps_falling_where_it_is_tiny(noise, epsilons):
    loss = privacy_loss(noise)
    deltas = [loss.delta(epsilon) for epsilon in epsilons]
    assert deltas == sorted(deltas, reverse=True)


def test_a_share_of_laplace_noise_has_the_epsilon_of_its_direct_sum():
    noise = PolyaDifference(Fraction(1, 2), 3)
    own, loss = law(noise), privacy_loss(noise)
    found = loss.epsilon(1e-6)
    # At x = 0 the law peaks, and that ratio bounds all others: pure DP in truth, and close to the answer.
    assert found <= float(mp.log(own.masses[0] / own.masses[1])) * (1 + 1e-6)
    assert hockey_stick(own, 1, found) <= 1e-6


def test_sparse_bits_moved_further_than_their_noise_reaches_hide_nothing():
    # Given m ≈ 10,000 fair bits, a shift of 1,150 ones is 23 standard deviations.
    loss = privacy_loss(SparseBits(20_000, 0.5), 2 * 1_150)
    assert loss.delta(1.0) > 0.999


@pytest.mark.parametrize("steps", [1_200, 4_000])
def test_sparse_bits_moved_beyond_every_table_hide_nothing(steps):
    assert privacy_loss(SparseBits(20_000, 0.5), 2 * steps).delta(1.0) > 0.999


@pytest.mark.parametrize(("trials", "p"), [(96, 0.5), (268, 0.5), (1000, 0.1), (1000, 0.9), (50_000, 0.002)])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.9, 2.0])
def test_binomial_delta_is_the_closed_form(trials, p, epsilon):
    exact = closed_form(trials, p, epsilon)
    assert exact <= privacy_loss(Binomial(trials, p)).delta(epsilon) <= exact * (1 + mp.mpf("1e-6"))


@pytest.mark.parametrize(("trials", "epsilon"), [(3_900_000, 0.003), (4_100_000, 0.003), (10_000_000, 0.002)])
def test_many_bits_are_no_less_exact(trials, epsilon):
    exact = closed_form(trials, 0.5, epsilon)
    assert exact <= privacy_loss(Binomial(trials, 0.5)).delta(epsilon) <= exact * (1 + mp.mpf("1e-6"))


@pytest.mark.parametrize(
    ("epsilon", "published", "delta", "least"),
    [(0.1, 139_296, 2e-81, 5_279), (0.5, 5_600, 8e-79, 268), (0.9, 1_728, 1e-73, 96)],
)
def test_shuffled_bits_have_the_published_figures(epsilon, published, delta, least):
    exact = closed_form(published, 0.5, epsilon)
    found = privacy_loss(Binomial(published, 0.5)).delta(epsilon)
    assert exact <= found <= exact * (1 + mp.mpf("1e-6"))
    assert float(f"{found:.0e}") == delta
    assert closed_form(least, 0.5, epsilon) <= 1e-6 < closed_form(least - 1, 0.5, epsilon)
    assert privacy_loss(Binomial(least, 0.5)).delta(epsilon) <= 1e-6
    assert privacy_loss(Binomial(least - 1, 0.5)).delta(epsilon) > 1e-6


def test_the_published_negative_binomial_has_the_published_figures():
    noise = Polya(3 * (1 + math.log(1e6)), math.exp(-0.2))
    assert (round(noise.mean), round(noise.variance)) == (201, 1107)
    exact = max(exact_delta(noise, shift, 1.0) for shift in (1, -1))
    found = privacy_loss(noise).delta(1.0)
    assert exact <= found <= exact * (1 + mp.mpf("1e-6"))
    assert float(f"{found:.0e}") == 3e-21
