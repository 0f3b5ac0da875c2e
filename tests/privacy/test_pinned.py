"""Constants that published figures rest on: the papers' lemmas evaluated again, and margins that must not shrink."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cases.exact_losses import mp
from croupier.noise import DiscreteGaussianSum, DiscreteLaplace, Skellam
from croupier.noise.likelihoods import Pair
from croupier.noise.target import RESOLUTION
from croupier.privacy import (
    advanced_composition,
    composition,
    concentrated_to_approximate,
    gaussian_sum_concentrated,
    grid,
    privacy_loss,
    pure_to_concentrated,
    pure_to_renyi,
    renyi_to_approximate,
    skellam_divergence,
    told_loss,
    vector_loss,
)
from croupier.privacy.guarantee import ORDERS
from croupier.privacy.loss import carrier_delta


def lemma_3(v, alpha, l2, l1):
    """[CZ23] Lemma 3 in 60 digits."""
    v, alpha, l2, l1 = map(mp.mpf, (v, alpha, l2, l1))
    first = ((2 * alpha - 1) * l2**2 + 6 * l1) / (4 * v**2)
    return alpha * l2**2 / (2 * v) + min(first, 3 * l1 / (2 * v))


@pytest.mark.parametrize("v", [0.5, 3, 400, 1e6])
@pytest.mark.parametrize("order", [1.5, 2, 7, 7.25, 300])
@pytest.mark.parametrize(("l2", "l1"), [(1, 1), (2.5, 4.0), (10, 30)])
def test_lemma_3_is_evaluated_at_the_next_whole_order(v, order, l2, l1):
    exact = lemma_3(v, max(2, math.ceil(order)), l2, l1)
    assert skellam_divergence(v, order, l2, l1) == pytest.approx(float(exact), rel=1e-14)
    assert Skellam(v).vector_divergence(order, l2, l1) == skellam_divergence(v, order, l2, l1)


@pytest.mark.parametrize(("sigma2", "count"), [(0.25, 2), (0.5, 7), (1, 100), (4, 20_000), (0.3, 30_000)])
def test_lemma_4_is_rounded_up(sigma2, count):
    s = mp.mpf(sigma2)
    xi = 10 * mp.fsum(mp.exp(-2 * mp.pi**2 * s * mp.mpf(k) / (k + 1)) for k in range(1, count))
    for shift in (1, 5):
        exact = mp.mpf(shift) / mp.sqrt(count * s)
        rho = min(mp.sqrt(exact**2 + xi / 2), exact + xi) ** 2 / 2
        found = gaussian_sum_concentrated(DiscreteGaussianSum(sigma2, count), shift)
        assert rho <= found <= rho * (1 + mp.mpf("1e-3" if count > 10_001 else "1e-8"))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
def test_lemma_10_from_pure(epsilon):
    assert pure_to_concentrated(epsilon) == epsilon**2 / 2
    for order in (1.1, 2, 64):
        assert pure_to_renyi(epsilon, order) == min(epsilon**2 / 2 * order, epsilon)
    assert privacy_loss(DiscreteLaplace(1 / epsilon)).zcdp == pytest.approx(epsilon**2 / 2, rel=1e-14)


@pytest.mark.parametrize("rho", [1e-4, 0.1, 2.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_lemma_10_to_approximate_at_the_orders_looked_at(rho, delta):
    def epsilon(order):
        a = mp.mpf(order)
        return mp.mpf(rho) * a + mp.log(1 / (a * mp.mpf(delta))) / (a - 1) + mp.log(1 - 1 / a)

    best = min(map(epsilon, ORDERS))
    found, order = renyi_to_approximate(lambda order: rho * order, delta)
    assert found == pytest.approx(max(float(best), 0.0), rel=1e-12)
    assert float(epsilon(order)) == pytest.approx(float(best), rel=1e-12)
    finer = min(epsilon(1 + mp.mpf(2) ** (mp.mpf(k) / 20)) for k in range(-600, 600))
    assert float(max(finer, 0)) * (1 - 1e-3) <= concentrated_to_approximate(rho, delta) <= float(max(best, 0)) + 1e-3
    # The closed form that the paper states is never better.
    assert concentrated_to_approximate(rho, delta) <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


def test_theorem_7():
    exact = mp.mpf("0.9") / (2 * mp.sqrt(2 * 100 * mp.log(10**6)))
    assert advanced_composition(0.9, 1e-6, 100) == pytest.approx(float(exact), rel=1e-15)


def test_the_orders_are_those_that_figures_were_made_with():
    assert ORDERS[:10] == (1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2)
    assert (len(ORDERS), ORDERS[70], ORDERS[-1]) == (80, 63, 2**14)


def test_margins_of_error_are_those_that_the_proofs_use():
    # A looser tolerance widens the gap between the two sides; a tighter one needs larger tables.
    assert (composition.TOLERANCE, grid.NEGLIGIBLE, composition.LARGEST_TABLE) == (4e-3, 1e-13, 2**23)
    assert composition._step(100) == 4e-3 / math.sqrt(100 * math.log(1e10) / 2)
    assert RESOLUTION == 1e-5


def test_delta_is_charged_for_the_errors_of_its_table():
    pair = Pair(np.array([1.0]), np.array([0.25]), impossible=0.125, cut=0.125, error=1e-6)
    true = mp.mpf("0.25") * (1 - mp.exp(mp.mpf("0.5") - 1)) + mp.mpf("0.25")
    charged = (mp.mpf("0.25") * (1 - mp.exp(mp.mpf("0.5") - mp.mpf("1e-6") - 1)) + mp.mpf("0.25")) * (
        1 + mp.mpf("1e-6")
    )
    assert pair.delta(0.5) == pytest.approx(float(charged), rel=1e-12)
    assert pair.delta(0.5) > true
    assert pair.least_delta(0.5) < true - 0.12


def test_a_carrier_costs_its_distance_times_one_plus_e_to_the_epsilon():
    exact = (1 + mp.exp(1)) * mp.mpf(2) ** -40
    assert exact < carrier_delta(1.0, 2.0**-40) <= exact * (1 + mp.mpf("3e-12"))
    assert carrier_delta(701.0, 2.0**-40) == math.inf


def hockey_stick_of_laplace(scale, epsilon):
    """Σ max(0, P(x) - e^ε P(x - 1)) of discrete Laplace noise, term by term."""
    q = mp.exp(-1 / mp.mpf(scale))
    law = {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-400, 401)}
    return mp.fsum(max(mp.mpf(0), law[x] - mp.exp(epsilon) * law[x - 1]) for x in range(-399, 401))


@pytest.mark.parametrize("chance", [1e-6, 0.3, 0.75])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.49, 0.6])
def test_what_is_told_by_chance_is_a_mixture(chance, epsilon):
    """With probability `chance` the view has an infinite loss; else it is the release's."""
    found = told_loss(privacy_loss(DiscreteLaplace(2)), chance).delta(epsilon)
    exact = mp.mpf(chance) + (1 - mp.mpf(chance)) * hockey_stick_of_laplace(2, epsilon)
    assert exact * (1 - mp.mpf("1e-15")) <= found <= exact * (1 + mp.mpf("1e-9"))


@pytest.mark.parametrize(("epsilon", "chance"), [(0.5, 0.3), (0.9, 1e-3)])
def test_two_views_told_by_chance_are_two_mixtures(epsilon, chance):
    """Both private with probability (1 - chance)², and then two releases as they compose; else an infinite loss."""
    release = privacy_loss(DiscreteLaplace(2))
    kept = (1.0 - chance) ** 2
    lower, upper = ((2 * release).delta(epsilon) * (1.0 + side * 1e-3) for side in (-1.0, 1.0))
    found = (2 * told_loss(release, chance)).delta(epsilon)
    assert 1.0 - kept + kept * lower <= found <= 1.0 - kept + kept * upper + 1e-3 * chance


@pytest.mark.parametrize("chance", [1e-9, 0.3])
@pytest.mark.parametrize("epsilon", [0.5, 0.6, 5.0])
def test_from_the_epsilon_of_a_release_on_nothing_is_left_but_the_chance(epsilon, chance):
    found = told_loss(privacy_loss(DiscreteLaplace(2)), chance).delta(epsilon)
    assert chance <= found <= chance * (1.0 + 1e-14)


def test_noise_without_a_bound_on_its_losses_has_no_epsilon_without_delta():
    for loss in (vector_loss(Skellam(400), l2=3.0, l1=4.0), privacy_loss(Skellam(400))):
        assert loss.epsilon(0.0) == (2 * loss).epsilon(0.0) == math.inf
        assert (2 * loss).epsilon(1e-6) < math.inf
