"""What is known of a parameter: widths by linear algebra, and a set that is the sum of two ellipsoids."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.checks import InvalidParameter
from croupier.personal import Belief
from croupier.personal.belief import as_rows

FEW = settings(derandomize=True, deadline=None, max_examples=60)


def belief_of(seed, dimension, radius=1.3, push=4.0, lift=2.0):
    generator = np.random.default_rng(seed)
    axes = np.linalg.qr(generator.normal(size=(dimension, dimension)))[0]
    values = generator.uniform(1.0, 40.0, dimension)
    return Belief(
        tuple(generator.normal(size=dimension).tolist()), as_rows(axes), tuple(values.tolist()), radius, push, lift
    )


@given(st.integers(1, 6), st.integers(0, 10**6))
@FEW
def test_widths_are_their_formula(dimension, seed):
    belief = belief_of(seed, dimension)
    axes, values = np.asarray(belief.axes), np.asarray(belief.values)
    inverse = axes @ np.diag(1.0 / values) @ axes.T
    v = axes @ np.diag(values) @ axes.T
    for x in np.random.default_rng(seed).normal(size=(5, dimension)):
        pulled = inverse @ x
        naive = belief.radius * math.sqrt(pulled @ (v + belief.lift * np.eye(dimension)) @ pulled)
        naive += belief.push * float(np.linalg.norm(pulled))
        assert math.isclose(float(belief.reach(x)), naive, rel_tol=1e-9)
        assert math.isclose(float(belief.estimates(x)), float(x @ np.asarray(belief.theta)), abs_tol=1e-12)
    np.testing.assert_allclose(np.asarray(belief.root) @ np.asarray(belief.root).T, inverse, atol=1e-12)


@given(st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([0.0, 4.0]), st.sampled_from([0.0, 1.3]))
@FEW
def test_a_set_holds_what_no_direction_tells_apart(dimension, seed, push, radius):
    """θ is in it if and only if ⟨x, θ - θ̂⟩ <= width(x) for every x; an edge is a sum of two edges."""
    if push == radius == 0.0:
        return
    belief = belief_of(seed, dimension, radius, push)
    generator = np.random.default_rng(seed)
    first, second = belief.half_widths
    axes, centre = np.asarray(belief.axes), np.asarray(belief.theta)
    for x in generator.normal(size=(5, dimension)):
        along = axes.T @ x
        edge = np.zeros(dimension)
        for half in (first, second):
            if half.any():
                edge += half**2 * along / np.linalg.norm(half * along)
        touching = centre + axes @ edge
        assert math.isclose(float(x @ (touching - centre)), float(belief.reach(x)), rel_tol=1e-9)
        assert belief.holds(centre + 0.999 * (touching - centre))
        assert not belief.holds(centre + 1.001 * (touching - centre))
    assert belief.holds(centre)


def test_an_ellipsoid_holds_what_it_should():
    # V = diag(4, 100): half-axes ½ and 1/10.
    belief = Belief((1.0, 0.0), ((1.0, 0.0), (0.0, 1.0)), (4.0, 100.0), 1.0)
    assert belief.holds([1.499, 0.0])
    assert belief.holds([1.0, 0.0999])
    assert not belief.holds([1.501, 0.0])
    assert not belief.holds([1.0, 0.1001])


def test_single_precision_gives_the_same_choice_nearly():
    belief = belief_of(1, 5)
    x = np.random.default_rng(2).normal(size=(50, 5))
    assert belief.reach(x.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(belief.reach(x.astype(np.float32)), belief.reach(x), rtol=1e-5)


BAD = {
    "too few axes": {"axes": ((1.0, 0.0),)},
    "a value of zero": {"values": (0.0, 1.0)},
    "an infinite estimate": {"theta": (math.inf, 0.0)},
    "no radius": {"radius": math.nan},
    "a negative push": {"push": -1.0},
}


@pytest.mark.parametrize("case", BAD)
def test_a_senseless_belief_is_refused(case):
    sound = {"theta": (0.0, 0.0), "axes": ((1.0, 0.0), (0.0, 1.0)), "values": (1.0, 1.0), "radius": 1.0}
    with pytest.raises(InvalidParameter):
        Belief(**sound | BAD[case])
