"""What a device sends for a linear bandit: nothing is lost, it fits the unit ball, and two users differ by DIAMETER."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from croupier.checks import InvalidParameter
from croupier.linear import DIAMETER, SCALE, moments, statistics, statistics_dimension
from croupier.personal import check_features
from croupier.protocols.sums.values import Ball

FEW = settings(derandomize=True, deadline=None, max_examples=60)
HAIR = 1e-12
"""What rounding may add to a norm or a distance."""


@st.composite
def users(draw, dimension=None):
    """A feature vector in the unit ball, often on its edge or on an axis, and a reward."""
    d = draw(st.integers(1, 6)) if dimension is None else dimension
    raw = np.asarray(draw(st.lists(st.sampled_from([0.0, 1.0, -1.0]) | st.floats(-1, 1), min_size=d, max_size=d)))
    length = draw(st.just(1.0) | st.floats(0, 1))
    norm = np.linalg.norm(raw)
    x = length * raw / norm if norm > 1e-6 else np.zeros(d)
    return x, draw(st.sampled_from([0.0, 1.0]) | st.floats(0, 1))


@st.composite
def pairs(draw):
    """Two users of one dimension."""
    d = draw(st.integers(1, 5))
    return draw(users(dimension=d)), draw(users(dimension=d))


@pytest.mark.slow
@given(st.lists(users(dimension=3), min_size=1, max_size=8))
@FEW
def test_moments_of_the_sums_are_the_moments_of_the_users(sample):
    x, y = np.asarray([user[0] for user in sample]), np.asarray([user[1] for user in sample])
    vector, matrix = moments(statistics(x, y).sum(axis=0), 3)
    np.testing.assert_allclose(vector, x.T @ y, atol=HAIR)
    np.testing.assert_allclose(matrix, x.T @ x, atol=HAIR)
    assert np.array_equal(matrix, matrix.T)


@given(users())
@FEW
def test_the_vector_lies_in_the_unit_ball(user):
    x, y = user
    sent = statistics(x, y)
    assert sent.shape == (statistics_dimension(len(x)),)
    assert np.linalg.norm(sent) <= 1.0 + HAIR
    # By hand: y²‖x‖² and every product of the triangle once.
    triangle = sum((x[i] * x[j]) ** 2 for i in range(len(x)) for j in range(i + 1))
    assert math.isclose(2.0 * np.linalg.norm(sent) ** 2, y**2 * float(x @ x) + triangle, abs_tol=HAIR)


def test_the_unit_ball_is_filled():
    assert math.isclose(np.linalg.norm(statistics([0.0, 1.0, 0.0], 1.0)), 1.0, rel_tol=HAIR)


@given(pairs())
@FEW
def test_no_two_users_are_further_apart_than_the_diameter(pair):
    (x, y), (other, reward) = pair
    assert np.linalg.norm(statistics(x, y) - statistics(other, reward)) <= DIAMETER + HAIR


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, 3])
def test_the_farthest_users_that_a_search_finds_are_a_diameter_apart(dimension):
    def user(free):
        # Any numbers, squeezed into the ball and [0, 1].
        x = free[:-1]
        return x / max(1.0, float(np.linalg.norm(x))), math.sin(free[-1]) ** 2

    def distance(free):
        left, right = user(free[: dimension + 1]), user(free[dimension + 1 :])
        return float(np.linalg.norm(statistics(*left) - statistics(*right)))

    generator = np.random.default_rng(dimension)
    starts = generator.normal(size=(6, 2 * dimension + 2))
    found = [minimize(lambda free: -distance(free), start, method="BFGS") for start in starts]
    best = min(found, key=lambda result: result.fun)
    assert all(-result.fun <= DIAMETER + HAIR for result in found)
    assert -best.fun >= DIAMETER - 1e-6
    (x, y), (other, reward) = user(best.x[: dimension + 1]), user(best.x[dimension + 1 :])
    assert math.isclose(float(x @ other), -0.5, abs_tol=1e-2)
    assert min(y, reward, float(np.linalg.norm(x)), float(np.linalg.norm(other))) > 0.999


def test_the_diameter_is_attained_where_the_features_meet_at_minus_one_half():
    # sin 2α = -½ makes both ⟨x, x'⟩ = -½ and the off-diagonal products equal, so the triangle loses nothing.
    angle = -math.pi / 12
    x, other = [math.cos(angle), math.sin(angle)], [math.sin(angle), math.cos(angle)]
    assert math.isclose(np.dot(x, other), -0.5)
    assert math.isclose(np.linalg.norm(statistics(x, 1.0) - statistics(other, 1.0)), DIAMETER, rel_tol=HAIR)


def test_the_diameter_is_rounded_to_the_safe_side():
    # The squared distance of two users reaches 9/2 before it is divided by SCALE, so DIAMETER·SCALE >= √4.5, exactly.
    assert (Fraction(DIAMETER) * Fraction(SCALE)) ** 2 >= Fraction(9, 2)


@pytest.mark.parametrize("excess", [0.0, 1e-13, 1e-11, 4e-10])
def test_what_the_device_measures_its_mechanism_takes(excess):
    # Rounding leaves norms a hair above one; a feature that is accepted must not be refused one step later.
    features = np.asarray([1.0 + excess, 0.0])
    assert check_features(features).shape == (2,)
    assert Ball(statistics_dimension(2), diameter=DIAMETER).unit(statistics(features, 1.0)).shape == (5,)


def test_many_users_at_once_are_the_users_one_by_one():
    generator = np.random.default_rng(1)
    x = generator.normal(size=(4, 3, 5))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    y = generator.random((4, 3))
    together = statistics(x, y)
    assert together.shape == (4, 3, 20)
    for place in np.ndindex(4, 3):
        assert np.array_equal(together[place], statistics(x[place], y[place]))


BAD = {
    "norm above one": (lambda: statistics([0.9, 0.9], 0.5), "features", "norm 1.27"),
    "one bad of many": (lambda: statistics([[0.5, 0.5], [2.0, 0.0]], [0.1, 0.1]), "features", "norm 2"),
    "not a number": (lambda: statistics([math.nan, 0.0], 0.5), "features", "nan"),
    "infinite": (lambda: statistics([math.inf, 0.0], 0.5), "features", "inf"),
    "a bare number": (lambda: statistics(0.5, 0.5), "features", "vectors"),
    "wrong dimension": (lambda: check_features([0.1, 0.2], 3), "features", "vectors of 3"),
    "reward above one": (lambda: statistics([0.5, 0.5], 1.01), "rewards", "1.01"),
    "reward below zero": (lambda: statistics([[0.5, 0.5]] * 2, [0.5, -0.25]), "rewards", "-0.25"),
    "reward not a number": (lambda: statistics([0.5, 0.5], math.nan), "rewards", "nan"),
    "too few rewards": (lambda: statistics([[0.5, 0.5]] * 2, 0.5), "rewards", r"\(2,\)"),
    "sums of another dimension": (lambda: moments(np.zeros(5), 3), "sums", r"\(9,\)"),
    "no dimension": (lambda: statistics_dimension(0), "dimension", ">= 1"),
    "half a dimension": (lambda: statistics_dimension(2.5), "dimension", "whole"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case):
    call, name, words = BAD[case]
    with pytest.raises(InvalidParameter, match=f"(?s)^{name} = .*{words}"):
        call()
