"""Rényi and zero-concentrated privacy against direct sums, the papers' lemmas, and their conversions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from cases.exact_losses import exact_delta, exact_divergence, law, mp, root
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
from croupier.privacy import (
    advanced_composition,
    concentrated_to_approximate,
    gaussian_sum_concentrated,
    privacy_loss,
    pure_to_concentrated,
    pure_to_renyi,
    renyi_to_approximate,
    skellam_divergence,
    vector_loss,
)

ORDERS = (1.1, 1.5, 2, 3.7, 8, 32)
CALM = settings(derandomize=True, deadline=None, max_examples=60)


@pytest.mark.parametrize(
    ("noise", "sensitivity"),
    [
        (Skellam(1), 1),
        (Skellam(10), 1),
        (Skellam(Fraction(81, 2)), 5),
        (DiscreteGaussian(10), 1),
        (DiscreteGaussian(50), 4),
        (DiscreteLaplace(3), 1),
        (DiscreteLaplace(5), 3),
        (PolyaDifference(2, 1), 1),
    ],
    ids=str,
)
def test_divergence_is_the_direct_sum_rounded_up(noise, sensitivity):
    # Far out the summands are the law times a power of its ratios, so the list must go further than for δ.
    own, loss = law(noise, 400.0), privacy_loss(noise, sensitivity)
    for order in ORDERS:
        exact = float(exact_divergence(own, sensitivity, order))
        assert exact * (1 - 1e-13) <= loss.rdp(order) <= exact * (1 + 1e-8), order


def lemma_3(sigma2: float, order: int, l2: float, l1: float) -> float:
    return order * l2**2 / (2 * sigma2) + min(
        ((2 * order - 1) * l2**2 + 6 * l1) / (4 * sigma2**2), 3 * l1 / (2 * sigma2)
    )


@pytest.mark.parametrize("sigma2", [1, 10, 400])
@pytest.mark.parametrize("sensitivity", [1, 5])
def test_skellam_divergence_is_within_lemma_3(sigma2, sensitivity):
    loss = privacy_loss(Skellam(sigma2), sensitivity)
    for order in (2, 3, 5, 10, 40):
        bound = lemma_3(sigma2, order, sensitivity, sensitivity)
        assert loss.rdp(order) <= bound * (1 + 1e-9)
        assert skellam_divergence(sigma2, order, sensitivity) == pytest.approx(bound, rel=1e-12)
    # Between whole orders the next one is taken.
    assert skellam_divergence(sigma2, 2.5, sensitivity) == skellam_divergence(sigma2, 3, sensitivity)


@pytest.mark.parametrize("sigma2", [20_972_832_400, 10**14], ids=["no deep table", "no table at all"])
def test_skellam_noise_too_wide_for_a_table_has_its_divergence_by_lemma_3(sigma2):
    """Batches of 2^21 users at ε = 0.1 and s = 100, as in [CZ23] Figures 1(c) and 3."""
    step = math.isqrt(sigma2 // 100)
    for order in (2, 5, 46):
        gaussian = order * step**2 / (2 * sigma2)
        assert gaussian <= privacy_loss(Skellam(sigma2), step).rdp(order) <= gaussian * (1 + 1e-9)


@pytest.mark.parametrize(
    ("noise", "sensitivity"),
    [
        (Binomial(10**4, 0.5), 1),
        (SparseBits(1000, 0.5), 2),
        (SparseBits(1000, 1), 2),
        (Poisson(99), 1),
        (Polya(9, 0.5), 1),
    ],
    ids=str,
)
def test_noise_with_an_end_has_no_renyi_guarantee(noise, sensitivity):
    loss = privacy_loss(noise, sensitivity)
    assert loss.rdp(1.01) == loss.rdp(2) == loss.zcdp == loss.pure == math.inf
    assert (loss + privacy_loss(DiscreteGaussian(9))).rdp(2) == math.inf


@pytest.mark.parametrize("noise", [Skellam(2), Skellam(50), DiscreteGaussian(7), DiscreteLaplace(3)], ids=str)
def test_concentrated_privacy_bounds_every_order(noise):
    loss, own = privacy_loss(noise, 2), law(noise, 400.0)
    steepest = max(float(exact_divergence(own, 2, order)) / order for order in (1.001, 1.05, 1.4, 2, 4, 10, 40))
    assert loss.zcdp >= steepest * (1 - 1e-12)
    assert (7 * loss).zcdp == pytest.approx(7 * loss.zcdp, rel=1e-12)


def test_concentrated_privacy_is_about_what_a_gaussian_has():
    assert privacy_loss(DiscreteGaussian(50), 3).zcdp == pytest.approx(0.09, rel=1e-9)
    assert privacy_loss(Skellam(400), 3).zcdp <= 1.12 * 9 / 800
    assert privacy_loss(DiscreteLaplace(4)).zcdp == pytest.approx(1 / 32, rel=1e-12)


@CALM
@given(st.floats(1e-6, 100.0), st.floats(1e-12, 0.5))
def test_concentrated_converts_by_lemma_10(rho, delta):
    def converted(log_order):
        order = 1.0 + math.exp(log_order)
        return rho * order + math.log(1 / (order * delta)) / (order - 1) + math.log1p(-1 / order)

    centre = 0.5 * math.log(math.log(1 / delta) / rho)
    least = minimize_scalar(converted, bounds=(centre - 2, centre + 2), method="bounded", options={"xatol": 1e-10}).fun
    found = concentrated_to_approximate(rho, delta)
    assert max(least, 0.0) * (1 - 1e-9) - 1e-12 <= found <= max(least, 0.0) * (1 + 1e-3) + 1e-9
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
def test_renyi_converts_by_lemma_10(delta):
    # A curve known at a single order leaves no choice.
    for order in (1.5, 2, 17, 1024):
        known = {order: 0.3}
        found, chosen = renyi_to_approximate(lambda a, k=known: k.get(a, math.inf), delta)
        by_hand = 0.3 + math.log(1 / (order * delta)) / (order - 1) + math.log(1 - 1 / order)
        assert (found, chosen) == (pytest.approx(max(by_hand, 0.0), rel=1e-12), order)
    assert renyi_to_approximate(lambda a: math.inf, delta)[0] == math.inf


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("noise", [Skellam(30), DiscreteGaussian(30), DiscreteLaplace(4)], ids=str)
def test_what_the_conversions_promise_holds_exactly(noise, delta):
    loss, exact = privacy_loss(noise, 2), root(lambda e: exact_delta(noise, 2, e), delta)
    for promised in (renyi_to_approximate(loss.rdp, delta)[0], concentrated_to_approximate(loss.zcdp, delta)):
        assert promised >= exact


def test_pure_privacy_implies_renyi_and_concentrated():
    loss, epsilon = privacy_loss(DiscreteLaplace(4), 3), 0.75
    assert pure_to_concentrated(epsilon) == pytest.approx(epsilon**2 / 2, rel=1e-15)
    for order in (1.01, 2, 5, 100):
        assert pure_to_renyi(epsilon, order) == pytest.approx(min(epsilon**2 / 2 * order, epsilon), rel=1e-15)
        assert loss.rdp(order) <= pure_to_renyi(epsilon, order) * (1 + 1e-12)


@pytest.mark.parametrize("count", [1, 10, 100, 1000])
def test_advanced_composition_keeps_what_theorem_7_promises(count):
    each = advanced_composition(0.9, 1e-6, count)
    assert each == pytest.approx(0.9 / (2 * math.sqrt(2 * count * math.log(1e6))), rel=1e-12)
    assert (count * privacy_loss(DiscreteLaplace(1 / each))).epsilon(1e-6) <= 0.9


@pytest.mark.parametrize(("sigma2", "count"), [(Fraction(1, 4), 3), (1, 3), (2, 4)])
def test_a_sum_of_gaussians_is_within_lemma_4(sigma2, count):
    noise, shift = DiscreteGaussianSum(sigma2, count), 1
    own, rho = law(noise), gaussian_sum_concentrated(noise, shift)
    xi = 10 * sum(math.exp(-2 * math.pi**2 * sigma2 * k / (k + 1)) for k in range(1, count))
    base = shift**2 / (count * sigma2)
    assert rho == pytest.approx(0.5 * min(math.sqrt(base + xi / 2), math.sqrt(base) + xi) ** 2, rel=1e-6)
    assert privacy_loss(noise).zcdp == rho
    for order in (1.5, 2, 4):
        assert (
            float(exact_divergence(own, shift, order)) <= order * rho == pytest.approx(privacy_loss(noise).rdp(order))
        )
    # The exact law is better than its certificate.
    for delta in (1e-6, 1e-3):
        assert privacy_loss(noise).epsilon(delta) <= concentrated_to_approximate(rho, delta)
        assert exact_delta(noise, shift, concentrated_to_approximate(rho, delta)) <= delta


def test_narrow_gaussian_shares_have_no_certificate():
    assert privacy_loss(DiscreteGaussianSum(0.2, 5)).rdp(2) == math.inf
    assert privacy_loss(DiscreteGaussianSum(0.2, 5)).zcdp == math.inf


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(("sigma2", "shift"), [(50, 1), (400, 5)])
def test_a_vector_of_one_coordinate_costs_no_less_than_the_number(sigma2, shift, delta):
    vector, scalar = vector_loss(Skellam(sigma2), l2=shift, l1=shift), privacy_loss(Skellam(sigma2), shift)
    assert scalar.epsilon(delta) <= vector.epsilon(delta) <= 2 * scalar.epsilon(delta)
    assert vector.rdp(4) == pytest.approx(lemma_3(sigma2, 4, shift, shift), rel=1e-12)
    assert vector.zcdp >= scalar.rdp(1.01) / 1.01
    assert vector.pure == math.inf
    assert vector.bounds(delta)[0] <= scalar.epsilon(delta)


@pytest.mark.parametrize(("moved", "count"), [((3, 4), 1), ((5, 0), 1), ((2, -1), 1), ((2, 1), 2)])
def test_a_vector_of_two_coordinates_costs_no_less_than_the_listed_outcomes(moved, count):
    sigma2 = 30
    pmf = law(Skellam(sigma2))
    side = [x for x, mass in pmf.masses.items() if mass > mp.mpf(10) ** -25]
    parts = []
    for shift in moved:
        own = np.array([float(pmf.masses[x]) for x in side])
        other = np.array([float(pmf.masses.get(x - shift, 0)) for x in side])
        parts += count * [(own, other)]
    loss = count * vector_loss(Skellam(sigma2), l2=math.hypot(*moved), l1=sum(map(abs, moved)))
    if count == 1:
        (a, b), (c, d) = parts
        joint, joined = np.multiply.outer(a, c), np.multiply.outer(b, d)
    else:
        # Two copies of two coordinates: shifts of equal coordinates add up, which is a function of what is seen.
        both = law(Skellam(2 * sigma2))
        side = [x for x, mass in both.masses.items() if mass > mp.mpf(10) ** -25]
        own = np.array([float(both.masses[x]) for x in side])
        first, second = (np.array([float(both.masses.get(x - 2 * s, 0)) for x in side]) for s in moved)
        joint, joined = np.multiply.outer(own, own), np.multiply.outer(first, second)
    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0, 4.0):
        truth = float(np.maximum(joint - math.exp(epsilon) * joined, 0.0).sum())
        assert loss.delta(epsilon) >= truth
        assert loss.delta(loss.epsilon(1e-6)) <= 1e-6 * (1 + 1e-9)
