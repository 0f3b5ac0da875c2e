"""Plans of linear bandits: their trees, their budgets, and what is refused."""

import math

import numpy as np
import pytest

from croupier.checks import CroupierError, InvalidParameter
from croupier.continual import shuffler_tree
from croupier.linear import DIAMETER, LinearServer, balanced_batch, linear_bandit, sequential_linear_bandit, statistics
from croupier.noise import seeded


@pytest.fixture(scope="module")
def published():
    return linear_bandit(64, 2, 1, epsilon=0.9, constants="published")


def test_a_plan_says_what_it_is_for():
    plan = linear_bandit(2_000, 3, 1, epsilon=1.0)
    assert (plan.users, plan.dimension, plan.counter.dimension) == (2_000, 3, 9)
    assert plan.confidence.failure == 1 / 2_000
    assert plan.confidence.reward_noise == 0.5
    assert not plan.confidence.published
    assert linear_bandit(200, 2, 1, epsilon=1.0, failure=0.1, reward_noise=0.2).confidence.reward_noise == 0.2


def test_shufflers_are_levels_and_none_is_a_binary_tree():
    assert linear_bandit(300, 2, 2, epsilon=4.0, smallest=32).counter.tree.sizes == (32, 128)
    assert linear_bandit(300, 2, None, epsilon=4.0, smallest=32).counter.tree.sizes == (32, 64, 128, 256)


def test_the_sequential_model_has_one_shuffler_and_batches_of_the_three_fifths_power():
    tree = sequential_linear_bandit(1_000, 2, epsilon=1.0).counter.tree
    assert (tree.levels, tree.smallest) == (1, round(1_000**0.6))


def test_a_balanced_batch_is_a_doubling_that_grows_with_the_noise():
    found = [balanced_batch(100_000, 3, 1, epsilon=epsilon, delta=1e-6) for epsilon in (10.0, 1.0, 0.1)]
    assert found[0] < found[1] < found[2]
    assert all(math.log2(low / 32).is_integer() for low in found)
    assert balanced_batch(200, 3, 1, epsilon=0.1, delta=1e-6) == 32, "no more than the users allow"


@pytest.mark.parametrize(("users", "shufflers"), [(300, 4), (600, 5), (1_000, 4)])
def test_a_balanced_batch_leaves_room_for_all_shufflers(users, shufflers):
    # Batches of 32 do, so whoever asks for these shufflers must not be refused for the sake of larger ones.
    assert shuffler_tree(users, shufflers, 32).levels == shufflers
    low = balanced_batch(users, 2, shufflers, epsilon=0.1, delta=1e-6)
    assert shuffler_tree(users, shufflers, low).levels == shufflers


@pytest.mark.parametrize("shufflers", [1, 2])
def test_a_generous_budget_can_be_planned(shufflers):
    plan = linear_bandit(2_000, 2, shufflers, epsilon=100.0)
    assert plan.counter.loss.delta(100.0) <= 1e-6
    assert plan.counter.noise_std < linear_bandit(2_000, 2, shufflers, epsilon=10.0).counter.noise_std


def test_published_constants_run_as_a_demonstrator(published):
    counter, level = published.counter, published.confidence
    assert (counter.tree.smallest, counter.tree.levels) == (4, 1)
    assert counter.mechanisms[0].values.diameter == DIAMETER
    assert counter.loss.delta(0.9) <= 1e-6
    assert level.published
    assert math.isclose(level.ridge, 4.0 * math.sqrt(2.0) * counter.deviation(1 / 128, directions=5.0))
    server, mechanism = LinearServer(published), counter.mechanisms[0]
    values = statistics([[0.6, 0.8]] * 4, [1.0, 0.0, 1.0, 1.0])
    batch = server.open[0].number
    before = server.rule
    server.arrive(4)
    server.release(batch, mechanism.simulate(values, seeded(1)).decoded)
    # Noise of a hundred thousand users' worth: proven, and useless.
    assert server.rule.radius > 1_000.0
    assert server.rule.holds([0.6, 0.8])
    assert server.rule.theta != before.theta
    assert np.isfinite(server.rule.theta).all()


BAD = {
    "no shuffler": ("shufflers", {"shufflers": 0}),
    "no shuffler for many users": ("shufflers", {"users": 5_000, "shufflers": 0}),
    "half a shuffler": ("shufflers", {"shufflers": 1.5}),
    "too many shufflers": ("shufflers", {"shufflers": 9, "smallest": 32}),
    "too few users": ("users", {"users": 20}),
    "no dimension": ("dimension", {"dimension": 0}),
    "half a dimension": ("dimension", {"dimension": 2.5}),
    "no epsilon": ("epsilon", {"epsilon": 0.0}),
    "delta of one": ("delta", {"delta": 1.0}),
    "no failure": ("failure", {"failure": 0.0}),
    "certain failure": ("failure", {"failure": 1.0}),
    "no reward noise": ("reward_noise", {"reward_noise": 0.0}),
    "no exploration": ("exploration", {"exploration": 0.0}),
    "unknown constants": ("constants", {"constants": "best"}),
    "too small a batch": ("smallest", {"smallest": 5}),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_plans_are_refused_by_name(case):
    name, change = BAD[case]
    asked = {"users": 200, "dimension": 2, "shufflers": 1, "epsilon": 1.0} | change
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        linear_bandit(**asked)


def test_too_few_users_for_the_sequential_model_are_named():
    # Batches of n^{3/5} users are too small for the carrier; the caller gave users, not batches.
    with pytest.raises(CroupierError, match="^users = 100 "):
        sequential_linear_bandit(100, 2, epsilon=1.0)
