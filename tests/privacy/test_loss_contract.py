"""What every loss promises, whatever its noise: a falling profile, a safe inverse, and composition as arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.noises import DRAWN
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
from croupier.privacy import Loss, privacy_loss, vector_loss

CALM = settings(derandomize=True, deadline=None, max_examples=10)
EPSILONS = (0.0, 0.01, 0.1, 0.3, 0.7, 1.2, 2.0, 4.0, 9.0, 30.0)

EXAMPLES = {
    "fair bits": privacy_loss(Binomial(268, 0.5)),
    "biased bits": privacy_loss(Binomial(400, 0.1), 2),
    "Poisson": privacy_loss(Poisson(33)),
    "Polya": privacy_loss(Polya(60, 0.4)),
    "one way": privacy_loss(Poisson(33), direction="up"),
    "Skellam": privacy_loss(Skellam(40), 3),
    "Gaussian": privacy_loss(DiscreteGaussian(50)),
    "Gaussian sum": privacy_loss(DiscreteGaussianSum(1, 50)),
    "Laplace": privacy_loss(DiscreteLaplace(7)),
    "Polya difference": privacy_loss(PolyaDifference(2, 7)),
    "sparse bits": privacy_loss(SparseBits(400, 0.5), 2),
    "bounded Laplace": privacy_loss(BoundedLaplace(5, 60)),
    "table": privacy_loss(Table.proportional([0, 1, 9, 30, 44, 28, 30, 9, 2]), 2),
    "vector": vector_loss(Skellam(400), l2=2.5, l1=4.0),
    "imperfect carrier": replace(privacy_loss(DiscreteLaplace(7)), distance=2.0**-40),
    # This distance is not a sum of few powers of two, so the order of adding could show.
    "uneven carrier": replace(privacy_loss(DiscreteLaplace(7)), distance=1e-12),
}


def release(family: str):
    step = 2 if family == "sparse bits" else 1
    return st.builds(privacy_loss, DRAWN[family], st.integers(1, 4).map(lambda steps: step * steps))


@pytest.mark.parametrize("family", DRAWN)
def test_delta_is_a_probability_that_never_rises_with_epsilon(family):
    @CALM
    @given(release(family))
    def holds(loss):
        deltas = [loss.delta(epsilon) for epsilon in EPSILONS]
        assert all(0.0 <= delta <= 1.0 for delta in deltas)
        assert deltas == sorted(deltas, reverse=True)

    holds()


@pytest.mark.parametrize("family", DRAWN)
def test_epsilon_inverts_delta_on_the_safe_side(family):
    @CALM
    @given(release(family), st.sampled_from([1e-12, 1e-9, 1e-6, 1e-3, 0.1]))
    def holds(loss, delta):
        epsilon = loss.epsilon(delta)
        if math.isinf(epsilon):
            assert loss.delta(60.0) > delta
            return
        assert loss.delta(epsilon) <= delta
        assert epsilon == 0.0 or loss.delta(epsilon * (1.0 - 1e-8)) > delta

    holds()


@pytest.mark.parametrize("family", DRAWN)
def test_bounds_close_in_on_the_epsilon_of_one_release(family):
    @CALM
    @given(release(family), st.sampled_from([1e-9, 1e-6, 1e-3]))
    def holds(loss, delta):
        lower, upper = loss.bounds(delta)
        assert upper == loss.epsilon(delta)
        assert lower <= upper
        assert math.isinf(upper) or upper - lower <= 1e-6 * (1.0 + upper)

    holds()


@pytest.mark.parametrize("family", DRAWN)
def test_either_direction_costs_the_larger_of_the_two(family):
    step = 2 if family == "sparse bits" else 1

    @CALM
    @given(DRAWN[family], st.floats(0.0, 3.0))
    def holds(noise, epsilon):
        both, up, down = (privacy_loss(noise, step, direction=way).delta(epsilon) for way in ("both", "up", "down"))
        # A mirrored law is summed the other way round, which shows in the last digit.
        assert both == pytest.approx(max(up, down), rel=1e-12, abs=1e-35)

    holds()


@pytest.mark.parametrize("family", DRAWN)
def test_moving_further_never_costs_less(family):
    step = 2 if family == "sparse bits" else 1

    @CALM
    @given(DRAWN[family], st.floats(0.0, 3.0))
    def holds(noise, epsilon):
        deltas = [privacy_loss(noise, step * steps).delta(epsilon) for steps in (1, 2, 3)]
        # Deep and shallow tables charge different dust.
        assert deltas[0] <= deltas[1] * (1 + 1e-9) + 1e-25
        assert deltas[1] <= deltas[2] * (1 + 1e-9) + 1e-25

    holds()


@pytest.mark.parametrize("loss", EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("count", [2, 7])
def test_composing_a_count_equals_composing_as_often(loss, count):
    product, added = count * loss, loss
    for _ in range(count - 1):
        added = added + loss
    listed = Loss.total([loss] * count)
    assert product == added == listed == loss * count
    assert hash(product) == hash(added)
    for other in (added, listed):
        assert product.pure == other.pure
        assert product.zcdp == other.zcdp
        assert product.rdp(4) == other.rdp(4)
        assert product.delta(1.0) == other.delta(1.0)
        assert product.epsilon(1e-5) == other.epsilon(1e-5)


@pytest.mark.parametrize("loss", EXAMPLES.values(), ids=EXAMPLES)
def test_composing_more_never_costs_less(loss):
    twice, thrice = 2 * loss, 3 * loss
    assert loss.epsilon(1e-5) <= twice.epsilon(1e-5) <= thrice.epsilon(1e-5) <= 3 * loss.epsilon(1e-5 / 3) + 1e-2
    assert loss.delta(0.4) <= twice.delta(0.4) <= thrice.delta(0.4) <= 1.0


@pytest.mark.parametrize("loss", EXAMPLES.values(), ids=EXAMPLES)
def test_composed_epsilon_inverts_composed_delta_on_the_safe_side(loss):
    composed = 5 * loss
    for delta in (1e-9, 1e-6, 1e-3):
        epsilon = composed.epsilon(delta)
        if math.isfinite(epsilon):
            # Two tilts round differently in the last digits.
            assert composed.delta(epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("loss", EXAMPLES.values(), ids=EXAMPLES)
def test_composed_delta_never_rises_with_epsilon(loss):
    deltas = [(4 * loss).delta(epsilon) for epsilon in EPSILONS]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(deltas))


def test_the_order_of_composing_does_not_matter():
    losses = [EXAMPLES["Laplace"], EXAMPLES["Skellam"], EXAMPLES["Poisson"]]
    forth, back = Loss.total(losses), Loss.total(reversed(losses))
    assert forth == back
    assert forth.pure == back.pure
    assert forth.epsilon(1e-6) == pytest.approx(back.epsilon(1e-6), rel=1e-9)


def test_losses_are_worth_reading():
    assert str(3 * privacy_loss(DiscreteLaplace(20), 2)) == "3 × DiscreteLaplace(scale=20), sensitivity 2"
    assert "L2 sensitivity 2.5" in str(EXAMPLES["vector"])
