"""A carrier that is only statistically secure: its distance is charged to δ, and to nothing else."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from croupier.noise import DiscreteGaussian, DiscreteLaplace, Skellam
from croupier.privacy import privacy_loss, vector_loss

DISTANCE = 2.0**-40
IDEAL = {
    "pure": privacy_loss(DiscreteLaplace(7)),
    "Skellam": privacy_loss(Skellam(20)),
    "composed": 5 * privacy_loss(Skellam(40)),
    "vector": vector_loss(Skellam(400), l2=2.5, l1=4.0),
}


@pytest.mark.parametrize("ideal", IDEAL.values(), ids=IDEAL)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 2.0])
def test_delta_is_charged_for_the_distance_on_both_sides(ideal, epsilon):
    # An event is likelier by at most the distance on one side, and less likely by it, times e^ε, on the other.
    real = replace(ideal, distance=DISTANCE)
    assert real.delta(epsilon) <= ideal.delta(epsilon) + (1.0 + math.exp(epsilon)) * DISTANCE * (1 + 1e-9)
    assert real.delta(epsilon) >= ideal.delta(epsilon) + DISTANCE


def test_distances_add_up():
    real = replace(privacy_loss(DiscreteLaplace(7)), distance=DISTANCE)
    assert (5 * real).distance == 5 * DISTANCE
    assert (real + 2 * real).distance == 3 * DISTANCE
    assert (5 * real).delta(5 / 7) == pytest.approx((1 + math.exp(5 / 7)) * 5 * DISTANCE, rel=1e-9)


@pytest.mark.parametrize("ideal", IDEAL.values(), ids=IDEAL)
def test_a_distance_leaves_no_pure_renyi_or_concentrated_guarantee(ideal):
    real = replace(ideal, distance=DISTANCE)
    assert real.pure == real.zcdp == real.rdp(2) == real.epsilon(0) == math.inf


@pytest.mark.parametrize("ideal", IDEAL.values(), ids=IDEAL)
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_a_tiny_distance_hardly_moves_epsilon(ideal, delta):
    real = replace(ideal, distance=DISTANCE)
    perfect = ideal.epsilon(delta)
    charge = (1.0 + math.exp(perfect)) * DISTANCE
    assert perfect <= real.epsilon(delta) * (1 + 1e-6) + 0.005
    assert real.epsilon(delta) <= ideal.epsilon(delta - 2 * charge) * (1 + 1e-6) + 0.005


@pytest.mark.parametrize("ideal", IDEAL.values(), ids=IDEAL)
def test_delta_never_rises_with_epsilon_for_a_larger_distance(ideal):
    # What holds at a smaller ε holds at a larger one, so the charge e^ε need never be paid in full.
    real = replace(ideal, distance=2.0**-20)
    deltas = [real.delta(epsilon) for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 50.0)]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(deltas))


@pytest.mark.parametrize(
    ("ideal", "distance"),
    # The pure ε, 20, lies where e^ε times the distance is beyond δ; far less than the pure ε suffices.
    [(200 * privacy_loss(DiscreteLaplace(10)), 200 * DISTANCE), (2000 * privacy_loss(DiscreteLaplace(100)), 1e-12)],
    ids=str,
)
def test_many_releases_over_an_imperfect_carrier_have_a_finite_epsilon(ideal, distance):
    real = replace(ideal, distance=distance)
    assert ideal.epsilon(1e-6) <= real.epsilon(1e-6) + 0.005
    assert real.epsilon(1e-6) <= ideal.epsilon(2e-7) + 0.005


def test_an_epsilon_between_two_guesses_is_found():
    # With the charge, δ is within 1e-6 between 4.5 and 6.9 only: doubling from below jumps over that.
    ideal = privacy_loss(DiscreteGaussian(1.2))
    real = replace(ideal, distance=2.0**-30)
    assert 4.0 < ideal.epsilon(1e-6) < 6.0
    assert real.epsilon(1e-6) == pytest.approx(ideal.epsilon(1e-6), abs=0.5)
