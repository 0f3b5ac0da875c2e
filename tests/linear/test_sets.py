"""Confidence sets of growing batches, by linear algebra: whatever noise and rewards do within their bounds, θ stays in.

The events are built by hand. With G = Σxxᵀ, noise N, h and S = Σxη, the sums are G + N and Gθ + S + h. At every ρ of
the list ‖S‖_{(G+ρI)⁻¹} <= σ√(2 log(1/α') + log det(G/ρ + I)), and the adversary may sit on the tightest of these.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.checks import InvalidParameter
from croupier.linear import NoiseBounds, Sets
from croupier.linear.sets import LEVELS, chance_at

FEW = settings(derandomize=True, deadline=None, max_examples=150)
SETS = Sets(0.1, norm=0.8)


def gram_of(generator, dimension, users):
    """Σxxᵀ of unit vectors that favour some directions."""
    x = generator.normal(size=(users, dimension)) * np.geomspace(1.0, generator.uniform(0.01, 1.0), dimension)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x.T @ x


def unit(generator, dimension):
    raw = generator.normal(size=dimension)
    return raw / np.linalg.norm(raw)


def loudest(gram, direction, sets=SETS):
    """The largest Σxη along a direction that the self-normalised bounds allow, all at once."""
    d, found = len(gram), []
    for place, rho in enumerate(LEVELS, start=1):
        odds = 2.0 * math.log(place * (place + 1) / sets.part)
        growth = np.linalg.slogdet(gram / rho + np.eye(d))[1]
        size = math.sqrt(direction @ np.linalg.solve(gram + rho * np.eye(d), direction))
        found.append(sets.reward_noise * math.sqrt(odds + growth) / size)
    return min(found) * direction


@given(st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([10, 400, 50_000]), st.floats(0.0, 60.0))
@FEW
def test_whatever_stays_within_the_bounds_leaves_the_parameter_in_the_set(dimension, seed, users, noise):
    generator = np.random.default_rng(seed)
    gram, theta = gram_of(generator, dimension, users), 0.8 * unit(generator, dimension)
    worst = np.linalg.eigh(gram)[1][:, 0]
    raw = generator.normal(size=(dimension, dimension))
    raw = raw + raw.T
    n = (-noise * np.outer(worst, worst), noise * raw / np.abs(np.linalg.eigvalsh(raw)).max())[seed % 2]
    joint = generator.uniform(0.0, 80.0)
    push = joint * (worst, unit(generator, dimension), -theta / 0.8)[seed % 3]
    s = loudest(
        gram, (worst, unit(generator, dimension), np.linalg.solve(gram + np.eye(dimension), push + 1e-9))[seed % 3]
    )
    # h - Nθ = push, so h = push + Nθ.
    belief = SETS.belief(gram @ theta + s + push + n @ theta, gram + n, NoiseBounds(noise, joint))
    assert belief.holds(theta)
    for x in generator.normal(size=(10, dimension)):
        assert abs(x @ (np.asarray(belief.theta) - theta)) <= float(belief.reach(x)) * (1.0 + 1e-9)


def test_in_one_dimension_the_noise_s_part_is_attained():
    users, noise, joint, theta = 5_000.0, 40.0, 90.0, np.asarray([0.8])
    gram = np.asarray([[users]])
    pushed = SETS.belief(gram @ theta + joint - noise * theta, gram - noise, NoiseBounds(noise, joint))
    gap = abs(pushed.theta[0] - 0.8)
    ridge = pushed.values[0] - (users - noise)
    # Without rewards' chance: θ̂ - θ = (b - λθ)/V, and the set allows (b + λS)/V.
    assert math.isclose(gap, (joint - ridge * 0.8) / pushed.values[0], rel_tol=1e-9)
    assert math.isclose(pushed.push, joint + ridge * 0.8, rel_tol=1e-12)


def test_the_narrowest_set_is_taken_and_every_candidate_holds_its_formula():
    generator = np.random.default_rng(3)
    gram, bounds = gram_of(generator, 3, 2_000), NoiseBounds(20.0, 30.0)
    belief = SETS.belief(np.ones(3), gram, bounds)

    def width(values, ridge, place, rho):
        lift = max(bounds.matrix + rho - ridge, 0.0)
        growth = float(np.log((values + lift) / rho).sum())
        radius = SETS.reward_noise * math.sqrt(2.0 * math.log(place * (place + 1) / SETS.part) + max(growth, 0.0))
        heard = radius * math.sqrt(float(((values + lift) / values**2).sum()))
        return heard + (bounds.joint + ridge * SETS.norm) * math.sqrt(float((values**-2.0).sum()))

    eigenvalues = np.linalg.eigvalsh(gram)
    tried = min(
        width(eigenvalues + ridge, ridge, place, rho)
        for ridge in np.append(0.0, np.geomspace(0.02, 40.0, 300))
        for place, rho in enumerate(LEVELS, start=1)
    )
    first, second = belief.half_widths
    assert np.linalg.norm(first) + np.linalg.norm(second) <= 1.02 * tried


def test_the_price_of_noise_goes_as_users_come():
    ratios = []
    for users in (1e3, 1e5, 1e7):
        gram = users / 3.0 * np.eye(3)
        noisy, clean = (SETS.belief(np.zeros(3), gram, bounds) for bounds in (NoiseBounds(60, 80), NoiseBounds(0, 0)))
        ratios.append(float(noisy.reach(np.ones(3)) / clean.reach(np.ones(3))))
    assert ratios[0] > 1.5
    assert ratios[0] > ratios[1] > ratios[2] > 0.99
    assert ratios[2] < 1.05


def test_the_chances_that_a_part_of_the_set_misses_add_up_to_the_failure():
    sets = Sets(0.3, parameters=4)
    levels = sum(1.0 / (place * (place + 1)) for place in range(1, len(LEVELS) + 1))
    times = sum(chance_at(batch) for batch in range(1, 10_000))
    assert 4 * (sets.part * levels + 2 * sets.part * times) <= 0.3


ENTRIES = st.floats(-1e60, 1e60) | st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1e-300, -1e60])


@given(st.lists(ENTRIES, min_size=9, max_size=9), st.floats(1e-3, 1e4))
@FEW
def test_a_rule_comes_of_any_sums_whatever(entries, noise):
    matrix = np.zeros((3, 3))
    matrix[np.triu_indices(3)] = entries[3:]
    matrix = matrix + matrix.T
    belief = SETS.belief(np.asarray(entries[:3]), matrix, NoiseBounds(noise, 2.0 * noise))
    assert min(belief.values) > 0.0
    assert np.isfinite(belief.reach(np.eye(3))).all()


def test_before_anything_is_known_the_norm_is():
    belief = SETS.nothing(3)
    assert belief.theta == (0.0, 0.0, 0.0)
    assert math.isclose(float(belief.reach(np.asarray([0.6, 0.0, 0.8]))), 0.8)
    assert belief.holds([0.0, 0.79, 0.0])
    assert not belief.holds([0.0, 0.81, 0.0])


@pytest.mark.parametrize(
    ("name", "change"),
    [("failure", {"failure": 0.0}), ("norm", {"norm": 0.0}), ("reward_noise", {"reward_noise": -1.0})],
)
def test_senseless_sets_are_refused_by_name(name, change):
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        replace(SETS, **change)
