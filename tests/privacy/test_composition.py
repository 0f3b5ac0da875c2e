"""Composed losses against every combination of outcomes listed, against closed forms, and against each direction."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from cases.exact_losses import atoms, joint, joint_delta, root
from croupier.noise import (
    Binomial,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
)
from croupier.noise.likelihoods import directed_pair, upper_envelope, worst_pair
from croupier.privacy import Loss, privacy_loss

EVEN = [
    (Binomial(12, 0.5), 1),
    (Binomial(20, 0.5), 3),
    (Skellam(3), 1),
    (DiscreteGaussian(4), 1),
    (DiscreteGaussian(6), 3),
    (DiscreteGaussianSum(1, 3), 1),
    (DiscreteLaplace(2), 3),
    (PolyaDifference(2, 1), 1),
    (SparseBits(12, 0.5), 2),
]
UNEVEN = [
    (Binomial(30, 0.2), 1),
    (Binomial(14, Fraction(9, 10)), 2),
    (Poisson(6), 1),
    (Poisson(8), 3),
    (Polya(4, 0.5), 1),
    (Polya(0.5, 0.6), 2),
]
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 3.5)


def mixes(noise, sensitivity, count):
    """Every way in which `count` values can rise or fall; their order does not matter."""
    up, down = atoms(noise, sensitivity), atoms(noise, -sensitivity)
    return [joint(rising * [up] + (count - rising) * [down]) for rising in range(count + 1)]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(("noise", "sensitivity"), EVEN, ids=str)
def test_balanced_noise_composes_to_the_listed_outcomes(noise, sensitivity, count):
    loss = count * privacy_loss(noise, sensitivity)
    seen = joint(count * [atoms(noise, sensitivity)])
    for epsilon in EPSILONS:
        truth = joint_delta(seen, epsilon)
        # The grid may add what moving ε by its tolerance adds, and no more.
        nearby = joint_delta(seen, max(epsilon - 0.01, 0.0)) if epsilon else truth + 0.005
        assert truth * (1 - 1e-9) <= loss.delta(epsilon) <= nearby * (1 + 1e-6) + 1e-15


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
@pytest.mark.parametrize(("noise", "sensitivity"), EVEN, ids=str)
def test_both_sides_of_the_error_enclose_the_truth(noise, sensitivity, delta, count):
    lower, upper = (count * privacy_loss(noise, sensitivity)).bounds(delta)
    seen = joint(count * [atoms(noise, sensitivity)])
    if joint_delta(seen, 60.0) > delta:
        assert upper == math.inf
        return
    truth = root(lambda epsilon: joint_delta(seen, epsilon), delta)
    assert lower - 1e-6 <= truth <= upper + 1e-8
    assert upper - truth <= 0.01


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(("noise", "sensitivity"), UNEVEN, ids=str)
def test_uneven_noise_is_charged_for_every_mix_of_rising_and_falling(noise, sensitivity, count):
    loss, ways = count * privacy_loss(noise, sensitivity), mixes(noise, sensitivity, count)
    for epsilon in EPSILONS:
        worst = max(joint_delta(way, epsilon) for way in ways)
        assert loss.delta(epsilon) >= worst * (1 - 1e-9)
    for delta in (1e-4, 1e-2):
        lower, upper = loss.bounds(delta)
        if max(joint_delta(way, 60.0) for way in ways) <= delta:
            truth = max(root(lambda e, w=way: joint_delta(w, e), delta) for way in ways)
            assert lower - 1e-6 <= truth <= upper + 1e-8
        else:
            assert upper == math.inf


@pytest.mark.parametrize("ways", [("up", "up"), ("up", "down"), ("down", "down"), ("up", "down", "down")], ids=str)
@pytest.mark.parametrize(("noise", "sensitivity"), UNEVEN, ids=str)
def test_known_directions_compose_to_the_listed_outcomes(noise, sensitivity, ways):
    loss = Loss.total(privacy_loss(noise, sensitivity, direction=way) for way in ways)
    seen = joint(atoms(noise, {"up": sensitivity, "down": -sensitivity}[way]) for way in ways)
    for epsilon in EPSILONS:
        truth = joint_delta(seen, epsilon)
        nearby = joint_delta(seen, max(epsilon - 0.01, 0.0)) if epsilon else truth + 0.005
        assert truth * (1 - 1e-9) <= loss.delta(epsilon) <= nearby * (1 + 1e-6) + 1e-15


def test_distinct_releases_compose_to_the_listed_outcomes():
    releases = [(DiscreteLaplace(2), 1), (Skellam(3), 2), (DiscreteGaussian(5), 1)]
    for order in itertools.permutations(releases):
        loss = Loss.total(privacy_loss(*release) for release in order)
        seen = joint(atoms(*release) for release in order)
        truth = joint_delta(seen, 1.0)
        assert truth * (1 - 1e-9) <= loss.delta(1.0) <= joint_delta(seen, 0.99)
        lower, upper = loss.bounds(1e-5)
        assert lower <= root(lambda epsilon, s=seen: joint_delta(s, epsilon), 1e-5) <= upper <= lower + 0.01


def laplace_delta(scale: float, count: int, epsilon: float) -> float:
    """Discrete Laplace noise and shift 1 is randomized response: each loss is ±1/scale."""
    p = 1.0 / (1.0 + math.exp(-1.0 / scale))
    return math.fsum(
        math.comb(count, k) * p**k * (1.0 - p) ** (count - k) * -math.expm1(epsilon - (2 * k - count) / scale)
        for k in range(count + 1)
        if (2 * k - count) / scale > epsilon
    )


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize(("scale", "count"), [(0.5, 2), (1, 3), (2, 5), (7, 12), (20, 10), (20, 50), (5, 200)])
def test_laplace_noise_composes_to_randomized_response(scale, count, delta):
    truth = root(lambda epsilon: laplace_delta(scale, count, epsilon), delta)
    lower, upper = (count * privacy_loss(DiscreteLaplace(scale))).bounds(delta)
    assert lower - 1e-8 <= truth <= upper + 1e-8
    assert upper - truth <= 0.01
    assert truth - lower <= 0.02


@pytest.mark.parametrize(("trials", "count"), [(268, 3), (100, 20), (1000, 200)])
def test_composed_bits_cost_no_less_than_their_sum_shows(trials, count):
    # Who adds up the releases sees Binomial(count·trials), moved by count.
    shown = privacy_loss(Binomial(count * trials, 0.5), count)
    composed = count * privacy_loss(Binomial(trials, 0.5))
    for delta in (1e-9, 1e-6, 1e-3):
        assert composed.epsilon(delta) >= shown.bounds(delta)[0]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """ε of μ-Gaussian DP."""
    return root(lambda e: norm.cdf(-e / mu + mu / 2) - math.exp(e) * norm.cdf(-e / mu - mu / 2), delta)


@pytest.mark.parametrize("count", [10, 1000, 10_000])
@pytest.mark.parametrize("delta", [1e-8, 1e-6, 1e-3])
def test_many_gaussians_compose_as_gaussian_differential_privacy(count, delta):
    # The losses of one release lie 1/σ² apart, which bounds what continuous noise could change.
    lower, upper = (count * privacy_loss(DiscreteGaussian(10 * count))).bounds(delta)
    lattice = 1.0 / (10 * count)
    truth = gaussian_epsilon(math.sqrt(0.1), delta)
    assert lower - lattice <= truth <= upper + lattice
    assert upper - lower <= 0.01


@pytest.mark.parametrize(
    "loss",
    [
        privacy_loss(DiscreteGaussian(10_000)),
        privacy_loss(Skellam(10_000)),
        privacy_loss(Binomial(40_000, 0.5)),
        privacy_loss(DiscreteLaplace(200)),
        privacy_loss(Poisson(10_000), direction="up"),
        pytest.param(privacy_loss(SparseBits(10_000, 0.5), 2), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_ten_thousand_equal_releases_are_known_to_a_hundredth(loss):
    lower, upper = (10_000 * loss).bounds(1e-6)
    assert 0.0 < lower <= upper <= lower + 0.01


@pytest.mark.parametrize(("noise", "sensitivity"), UNEVEN, ids=str)
def test_the_worst_pair_has_the_larger_of_both_profiles(noise, sensitivity):
    up, down = directed_pair(noise, sensitivity), directed_pair(noise, -sensitivity)
    for worst in (worst_pair(noise, (sensitivity, -sensitivity)), upper_envelope(up, down), upper_envelope(down, up)):
        assert math.fsum(worst.masses) + worst.infinite == pytest.approx(1.0, abs=1e-9)
        assert float(np.dot(worst.masses, np.exp(-worst.losses))) <= 1.0 + 1e-9
        # Below zero too: composition reads the whole profile.
        for epsilon in np.linspace(-6.0, 6.0, 241):
            larger = max(up.delta(epsilon), down.delta(epsilon))
            assert larger * (1 - 1e-9) <= worst.delta(epsilon) <= larger * (1 + 1e-9) + 1e-11


def test_a_shift_beyond_the_support_hides_nothing_however_composed():
    for noise in (Binomial(3, 0.5), Binomial(3, 0.25), SparseBits(3, 0.5)):
        loss = privacy_loss(noise, 10)
        assert loss.delta(1.0) == 1.0
        assert (2 * loss).delta(1.0) == 1.0
        assert (2 * loss).epsilon(0.5) == math.inf


def test_bounds_at_no_delta_are_the_pure_epsilon():
    lower, upper = (3 * privacy_loss(DiscreteLaplace(2))).bounds(0.0)
    assert lower <= 1.5 <= upper <= 1.5 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("noise", "truth"),
    # Wide laws: continuous Gaussian noise of the same variance is as good as exact here.
    [(Binomial(10**11, 0.5), 2.5e10), (PolyaDifference(1000, 20), 1000 * PolyaDifference(1, 20).variance)],
    ids=str,
)
def test_bounds_of_a_wide_law_enclose_its_own_epsilon(noise, truth):
    lower, upper = privacy_loss(noise).bounds(1e-6)
    assert lower <= gaussian_epsilon(1.0 / math.sqrt(truth), 1e-6) * (1 + 1e-3)
    assert upper >= gaussian_epsilon(1.0 / math.sqrt(truth), 1e-6) * (1 - 1e-3)
