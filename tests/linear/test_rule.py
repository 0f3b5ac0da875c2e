"""What a user chooses by: optimism over the actions they were offered, on their own device."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.checks import InvalidParameter
from croupier.linear import SCALE, Confidence, NoiseBounds, Rule

FEW = settings(derandomize=True, deadline=None, max_examples=60)


def rule_of(seed, dimension, exploration=1.0):
    """The rule after random sums."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(50, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    matrix = x.T @ x
    vector = x.T @ generator.random(50)
    sums = np.concatenate((vector, matrix[np.triu_indices(dimension)])) / SCALE
    level = Confidence(dimension, 8.0, NoiseBounds(2.0, 2.0, 4.0), 0.1, exploration=exploration)
    return level.rule(sums, 50)


def offered(seed, *shape):
    raw = np.random.default_rng(seed).normal(size=shape)
    return 0.999 * raw / np.linalg.norm(raw, axis=-1, keepdims=True)


def naive_scores(rule, actions):
    """⟨x, θ̂⟩ + β√(xᵀV⁻¹x), from V⁻¹ itself and one action at a time."""
    inverse = np.asarray(rule.root) @ np.asarray(rule.root).T
    width = rule.exploration * rule.radius
    return [float(x @ np.asarray(rule.theta)) + width * math.sqrt(x @ inverse @ x) for x in actions]


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 10**6), st.sampled_from([1.0, 0.1]))
@FEW
def test_the_choice_is_the_naive_best(dimension, actions, seed, exploration):
    rule, features = rule_of(seed, dimension, exploration), offered(seed, actions, dimension)
    naive = naive_scores(rule, features)
    np.testing.assert_allclose(rule.scores(features), naive, rtol=1e-9)
    assert naive[int(rule.choose(features))] >= max(naive) - 1e-12


def test_many_users_choose_as_one_by_one():
    rule, features = rule_of(1, 4), offered(1, 30, 6, 4)
    together = rule.choose(features)
    assert together.shape == (30,)
    assert len(set(together.tolist())) > 2
    assert together.tolist() == [int(rule.choose(own)) for own in features]
    grouped = rule.choose(features.reshape(5, 6, 6, 4))
    assert np.array_equal(grouped, together.reshape(5, 6))


def test_everyone_may_be_offered_other_actions():
    rule = rule_of(2, 3)
    for actions in (1, 2, 7):
        features = offered(actions, actions, 3)
        assert int(rule.choose(features)) == int(np.argmax(naive_scores(rule, features)))
    # What is not offered is not chosen: without the best action the best of the rest.
    features = offered(9, 8, 3)
    order = np.argsort(naive_scores(rule, features))
    rest = np.delete(features, order[-1], axis=0)
    assert np.array_equal(rest[int(rule.choose(rest))], features[order[-2]])


def test_exploration_scales_the_width_and_nothing_else():
    bold, timid = rule_of(3, 3), rule_of(3, 3, exploration=0.25)
    features = offered(3, 5, 3)
    plain = features @ np.asarray(bold.theta)
    np.testing.assert_allclose(timid.scores(features) - plain, 0.25 * (bold.scores(features) - plain))
    assert (bold.theta, bold.root, bold.radius) == (timid.theta, timid.root, timid.radius)


BAD = {
    "another dimension": np.zeros((4, 2)),
    "norm above one": np.asarray([[1.1, 0.0, 0.0]]),
    "one bad of many": np.stack((np.zeros((4, 3)), np.full((4, 3), 0.6))),
    "not a number": np.asarray([[math.nan, 0.0, 0.0]]),
    "infinite": np.asarray([[0.0, -math.inf, 0.0]]),
    "a bare number": np.asarray(0.5),
}


@pytest.mark.parametrize("case", BAD)
def test_features_that_no_mechanism_would_take_are_refused(case):
    rule = rule_of(1, 3)
    for ask in (rule.scores, rule.choose):
        with pytest.raises(InvalidParameter, match="^features = "):
            ask(BAD[case])


@pytest.mark.parametrize("features", [np.zeros((0, 3)), np.zeros(3)], ids=["no action", "one vector, not a list"])
def test_there_must_be_actions_to_choose_from(features):
    with pytest.raises(InvalidParameter, match="^features = "):
        rule_of(1, 3).choose(features)


def test_a_rule_is_a_value():
    assert rule_of(1, 3) == rule_of(1, 3)
    assert rule_of(1, 3) != rule_of(2, 3)
    assert hash(rule_of(1, 3)) == hash(rule_of(1, 3))
    assert Rule((0.0,), ((1.0,),), 1.0).choose([[0.2], [0.7]]) == 1
