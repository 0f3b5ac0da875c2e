"""What a user chooses by: optimism over the actions they were offered, on their own device."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.checks import InvalidParameter
from croupier.linear import SCALE, Confidence
from croupier.linear.ellipsoid import NoiseBounds
from croupier.noise import seeded
from croupier.personal import Belief, Rule

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
    assert Rule(((Belief((0.0,), ((1.0,),), (1.0,), 1.0),),)).choose([[0.2], [0.7]]) == 1


def own_rule(**options):
    """Three actions with parameters of their own, in two dimensions; of the first least is known."""
    axes = ((1.0, 0.0), (0.0, 1.0))
    beliefs = tuple(
        (Belief((0.02 * action, 0.2), axes, (3.0 + action, 5.0 + action), 0.5, 0.4),) for action in range(3)
    )
    return Rule(beliefs, **options)


def test_actions_with_their_own_parameters_are_scored_by_one_vector():
    rule, x = own_rule(), offered(1, 20, 2)
    scores = rule.scores(x)
    assert scores.shape == (20, 3)
    for action, (belief,) in enumerate(rule.beliefs):
        np.testing.assert_allclose(scores[:, action], belief.estimates(x) + belief.reach(x))
        np.testing.assert_allclose(rule.estimates(x)[:, action], belief.estimates(x))
    assert rule.choose(x).tolist() == scores.argmax(axis=1).tolist()
    assert int(rule.choose(x[0])) == int(scores[0].argmax())
    with pytest.raises(InvalidParameter, match="^beliefs = 3 "):
        _ = rule.theta


def test_a_pessimist_plays_what_is_surely_good_and_neither_loses_more_than_twice_the_optimist_s_width():
    generator = np.random.default_rng(5)
    rule = rule_of(5, 3)
    belief = rule.beliefs[0][0]
    for _ in range(200):
        features = offered(int(generator.integers(10**6)), 6, 3)
        # A parameter on the edge of the set: the worst that the proof allows.
        direction = generator.normal(size=3)
        edge = np.asarray(belief.axes) @ (belief.half_widths[0] * direction / np.linalg.norm(direction))
        truth = np.asarray(belief.theta) + 0.999999 * edge
        assert rule.holds(truth)
        means = features @ truth
        hopeful = int(rule.choose(features))
        careful = int(rule.scores(features, hopeful=False).argmax())
        width = float(belief.reach(features[hopeful]))
        assert means.max() - means[hopeful] <= 2.0 * width + 1e-9
        assert means.max() - means[careful] <= 2.0 * width + 1e-9


def test_of_several_sets_the_one_counts_that_leaves_an_action_the_least():
    axes = ((1.0, 0.0), (0.0, 1.0))
    wide, narrow = (Belief((0.0, 0.0), axes, (4.0, 4.0), radius) for radius in (2.0, 1.0))
    tilted = Belief((0.3, 0.0), axes, (4.0, 1e4), 1.0)
    both = Rule(((wide, narrow, tilted),))
    x = offered(3, 10, 2)
    expected = np.minimum.reduce([belief.estimates(x) + belief.reach(x) for belief in (wide, narrow, tilted)])
    np.testing.assert_allclose(both.scores(x), expected)
    lowest = np.maximum.reduce([belief.estimates(x) - belief.reach(x) for belief in (wide, narrow, tilted)])
    np.testing.assert_allclose(both.scores(x, hopeful=False), lowest)
    assert both.holds([0.1, 0.0])
    assert not both.holds([0.1, 0.4]), "what one of them excludes is excluded"


def test_a_device_draws_by_itself_in_the_shares_that_the_rule_says():
    rule = own_rule(control=0.2, single=1, optimists=0.25)
    x = np.broadcast_to(offered(2, 2), (20_000, 2))
    actions, control = rule.play(x, seeded(1))
    # A share of 20,000 deviates by at most 0.0035; eight of those: false alarms below 1e-14.
    assert abs(control.mean() - 0.2) < 0.028
    assert (actions[control] == 1).all()
    best, surely = int(rule.choose(x[0])), int(rule.scores(x[0], hopeful=False).argmax())
    assert best != surely
    assert abs((actions[~control] == best).mean() - 0.25) < 0.035
    assert set(actions[~control].tolist()) == {best, surely}


def test_while_nothing_is_known_every_action_is_as_likely_and_nobody_is_in_control():
    rule = own_rule(blank=True)
    actions, control = rule.play(offered(1, 9_000, 2), seeded(1))
    assert not control.any()
    assert np.abs(np.bincount(actions) / 9_000 - 1 / 3).max() < 0.04
    shared = Rule((rule.beliefs[0],), blank=True)
    assert set(shared.play(offered(1, 400, 4, 2), seeded(1)).actions.tolist()) == {0, 1, 2, 3}


def test_one_user_at_a_time_draws_as_many_do():
    rule, x = own_rule(optimists=0.5), offered(4, 60, 2)
    together = rule.play(x, seeded(3)).actions
    source = seeded(3)
    assert together.tolist() == [int(rule.play(own, source).actions) for own in x]


@pytest.mark.parametrize("rule", [rule_of(1, 3), own_rule(control=0.1, single=1, optimists=0.5)], ids=["shared", "own"])
def test_a_published_rule_is_read_back_to_the_last_bit(rule):
    text = rule.to_json()
    assert "\n" not in text
    assert Rule.from_json(text) == rule


BROKEN = {
    "another version": ('"version":1', '"version":2'),
    "an unknown key": ('"version":1', '"version":1,"extra":0'),
    "an infinite number": ('"radius":0.5', '"radius":Infinity'),
    "a missing part": ('"push":0.4,', '"pull":0.4,'),
    "no such action": ('"single":1', '"single":3'),
    "a share above one": ('"control":0.1', '"control":1.5'),
    "words": ('"exploration":1.0', '"exploration":"much"'),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_rule_that_is_not_whole_is_refused_in_one_line(case):
    text = own_rule(control=0.1, single=1).to_json()
    assert BROKEN[case][0] in text
    with pytest.raises(InvalidParameter) as refused:
        Rule.from_json(text.replace(*BROKEN[case]))
    assert "\n" not in str(refused.value)


def test_a_control_share_needs_its_action():
    with pytest.raises(InvalidParameter, match="^single = None"):
        own_rule(control=0.1)
    lonely = Rule((own_rule().beliefs[0],), control=0.5, single=7)
    with pytest.raises(InvalidParameter, match="^single = 7 "):
        lonely.play(offered(1, 3, 2), seeded(1))
