"""The least noise: it meets its target, and a little less would not."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from cases.exact_losses import closed_form, exact_delta
from croupier.checks import InvalidParameter
from croupier.noise import (
    Binomial,
    DiscreteGaussian,
    DiscreteLaplace,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
)
from croupier.privacy import calibrate, privacy_loss

TARGETS = [(0.1, 1e-6), (0.5, 1e-6), (1.0, 1e-9), (2.0, 1e-3)]
SLIGHTLY = 0.999
LESS = {
    Binomial: lambda noise: Binomial(noise.trials - 1, 0.5),
    Poisson: lambda noise: Poisson(noise.rate * SLIGHTLY),
    Polya: lambda noise: Polya(noise.r * SLIGHTLY, noise.beta),
    Skellam: lambda noise: Skellam(noise.sigma2 * SLIGHTLY),
    DiscreteGaussian: lambda noise: DiscreteGaussian(noise.sigma2 * SLIGHTLY),
    DiscreteLaplace: lambda noise: DiscreteLaplace(noise.scale * Fraction(999, 1000)),
}


def spent(noise, sensitivity, target):
    """δ at the target's ε, by the reference where the law is short enough to list."""
    if noise.variance < 400 and not isinstance(noise, SparseBits):
        return max(exact_delta(noise, shift, target[0]) for shift in (sensitivity, -sensitivity))
    return privacy_loss(noise, sensitivity).delta(target[0])


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("family", [Binomial, Poisson, Polya, Skellam, DiscreteGaussian], ids=lambda f: f.__name__)
def test_noise_meets_its_target_and_slightly_less_does_not(family, sensitivity, target):
    epsilon, delta = target
    noise = calibrate(family, epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    assert isinstance(noise, family)
    assert spent(noise, sensitivity, target) <= delta
    assert privacy_loss(noise, sensitivity).delta(epsilon) <= delta
    assert privacy_loss(LESS[family](noise), sensitivity).delta(epsilon) > delta


@pytest.mark.parametrize("epsilon", [0.1, 0.5, Fraction(1, 3), 2])
@pytest.mark.parametrize("sensitivity", [1, 10])
def test_laplace_noise_is_exactly_pure(epsilon, sensitivity):
    noise = calibrate(DiscreteLaplace, epsilon=epsilon, sensitivity=sensitivity)
    assert sensitivity / Fraction(noise.scale) == pytest.approx(float(epsilon), rel=1e-15)
    assert privacy_loss(noise, sensitivity).epsilon(0) <= float(epsilon) * (1 + 1e-15)
    assert privacy_loss(LESS[DiscreteLaplace](noise), sensitivity).epsilon(0) > epsilon


@pytest.mark.parametrize(("epsilon", "trials"), [(0.1, 5279), (0.5, 268), (0.9, 96)])
def test_fair_bits_are_as_few_as_the_spec_says(epsilon, trials):
    assert calibrate(Binomial, epsilon=epsilon, delta=1e-6) == Binomial(trials, 0.5)


@pytest.mark.slow
def test_fair_bits_are_found_for_a_very_small_epsilon():
    noise = calibrate(Binomial, epsilon=0.0025, delta=1e-6)
    assert closed_form(noise.trials, 0.5, 0.0025) <= 1e-6 < closed_form(noise.trials - 1, 0.5, 0.0025)


@pytest.mark.parametrize("users", [1, 32, 100, 268, 1000, 20_000])
def test_bits_divide_among_users(users):
    noise = calibrate(Binomial, epsilon=0.5, delta=1e-6, users=users)
    share = noise.share(users)
    assert share.trials * users == noise.trials
    assert privacy_loss(noise).delta(0.5) <= 1e-6
    if noise.p < 0.5:
        assert privacy_loss(Binomial(noise.trials, float(noise.p) * SLIGHTLY)).delta(0.5) > 1e-6


@pytest.mark.parametrize("sensitivity", [2, 6])
@pytest.mark.parametrize("users", [32, 100, 1000, 20_000])
def test_sparse_bits_divide_among_users_and_beat_biased_bits(users, sensitivity):
    noise = calibrate(SparseBits, epsilon=0.5, delta=1e-6, sensitivity=sensitivity, users=users)
    assert noise.share(users).slots * users == noise.slots
    assert privacy_loss(noise, sensitivity).delta(0.5) <= 1e-6
    if noise.rate < 1:
        less = SparseBits(noise.slots, float(noise.rate) * SLIGHTLY)
        assert privacy_loss(less, sensitivity).delta(0.5) > 1e-6
    # Ones minus zeros is in units of half a bit, hence the four.
    biased = calibrate(Binomial, epsilon=0.5, delta=1e-6, sensitivity=sensitivity // 2, users=users)
    assert noise.variance <= 4 * biased.variance * (1 + 1e-4)


@pytest.mark.parametrize("failure", [0.05, 1e-3, 1e-9])
@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
def test_the_best_polya_errs_no_more_than_poisson(target, failure):
    epsilon, delta = target
    polya = calibrate(Polya, epsilon=epsilon, delta=delta, failure=failure)
    poisson = calibrate(Poisson, epsilon=epsilon, delta=delta)
    assert polya.tail_quantile(failure) <= poisson.tail_quantile(failure)


def test_the_best_polya_is_far_below_the_published_one():
    # [GKM21] Theorem 39 at ε = 1, δ = 1e-6 has mean 201 and variance 1107.
    noise = calibrate(Polya, epsilon=1.0, delta=1e-6)
    assert noise.mean < 40
    assert noise.variance < 60


def buckets(noise):
    """One user leaves a bucket and enters another."""
    return privacy_loss(noise, direction="up") + privacy_loss(noise, direction="down")


@pytest.mark.parametrize("family", [Binomial, Poisson, Skellam, DiscreteGaussian], ids=lambda f: f.__name__)
def test_a_larger_use_of_the_noise_is_what_is_calibrated(family):
    noise = calibrate(family, epsilon=1.0, delta=1e-6, loss=buckets)
    assert buckets(noise).delta(1.0) <= 1e-6 < buckets(LESS[family](noise)).delta(1.0)


def test_laplace_noise_is_calibrated_to_a_larger_use_too():
    noise = calibrate(DiscreteLaplace, epsilon=1.0, loss=buckets)
    assert buckets(noise).epsilon(0) <= 1.0 + 1e-12


def test_sparse_bits_are_calibrated_to_a_larger_use_too():
    def twice(noise):
        return 2 * privacy_loss(noise, 2)

    # One release needs a fair bit from each of these users, so two need more than that.
    noise = calibrate(SparseBits, epsilon=0.5, delta=1e-6, sensitivity=2, users=268, loss=twice)
    assert twice(noise).delta(0.5) <= 1e-6


@pytest.mark.parametrize(
    ("family", "arguments", "name"),
    [
        (Binomial, {"epsilon": 0, "delta": 1e-6}, "epsilon"),
        (Binomial, {"epsilon": math.inf, "delta": 1e-6}, "epsilon"),
        (Binomial, {"epsilon": 0.5, "delta": 1}, "delta"),
        (Binomial, {"epsilon": 0.5, "delta": -1e-9}, "delta"),
        (Binomial, {"epsilon": 0.5}, "delta"),
        (Skellam, {"epsilon": 0.5}, "delta"),
        (Binomial, {"epsilon": 0.5, "delta": 1e-6, "sensitivity": 0}, "sensitivity"),
        (Binomial, {"epsilon": 0.5, "delta": 1e-6, "sensitivity": 1.5}, "sensitivity"),
        (Binomial, {"epsilon": 0.5, "delta": 1e-6, "users": 0}, "users"),
        (SparseBits, {"epsilon": 0.5, "delta": 1e-6, "sensitivity": 2}, "users"),
        (SparseBits, {"epsilon": 0.5, "delta": 1e-6, "sensitivity": 3, "users": 9}, "sensitivity"),
        (PolyaDifference, {"epsilon": 0.5, "delta": 1e-6}, "family"),
        (Polya, {"epsilon": 0.5, "delta": 1e-6, "failure": 0}, "failure"),
        (Polya, {"epsilon": 0.5, "delta": 1e-6, "failure": 1.5}, "failure"),
    ],
)
def test_a_target_that_cannot_be_met_is_refused_by_name(family, arguments, name):
    with pytest.raises(InvalidParameter) as refusal:
        calibrate(family, **arguments)
    assert refusal.value.name == name
