"""Linear bandits on simulated users: sets that hold the parameter, regret in the order that trust pays, and structure.

Everything is seeded. A confidence set of failure α is taken as broken when more of R runs miss than a binomial of
(R, α) does with probability 1e-12. Orders of regret are stated with margins well inside what was measured.
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from croupier.checks import InvalidParameter
from croupier.linear import confidence, linear_bandit, sequential_linear_bandit
from croupier.noise import seeded
from croupier.privacy import gaussian_scale
from croupier.simulation import linear_runner
from croupier.simulation.linear_runner import (
    MODELS,
    LinearRun,
    LocalSums,
    Setting,
    TrueSums,
    TrustedTree,
    exponent,
    simulate_linear,
)
from croupier.simulation.linear_worlds import LinearWorld, Offers, Sphere, Table

ALPHA, RUNS = 0.1, 40
WORLD = Sphere(3, 5, seed=1)
CASES = {
    "linucb": ("linucb", None),
    "central": ("central", None),
    "one shuffler": ("concurrent", 1),
    "two shufflers": ("concurrent", 2),
    "binary tree": ("concurrent", None),
    "sequential": ("sequential", None),
    "local": ("local", None),
}
EVERY = pytest.mark.parametrize("case", CASES)


LEVELS = {}
PLANNED, SEQUENTIAL = cache(linear_bandit), cache(sequential_linear_bandit)


@pytest.fixture(autouse=True)
def planned_once(monkeypatch):
    """Many runs of one plan: plans, sets and budgets are worked out by the real code, once."""
    real = Setting.level

    def level(setting, sums):
        key = (setting, type(sums))
        if key not in LEVELS:
            LEVELS[key] = real(setting, sums)
        return LEVELS[key]

    monkeypatch.setattr(linear_runner, "linear_bandit", PLANNED)
    monkeypatch.setattr(linear_runner, "sequential_linear_bandit", SEQUENTIAL)
    monkeypatch.setattr(Setting, "level", level)


def runs_of(case, runs, users=1280, **options):
    model, shufflers = CASES[case]
    options = {"epsilon": 4.0, "failure": ALPHA} | options
    return [simulate_linear(model, WORLD, users, seed=seed, shufflers=shufflers, **options) for seed in range(runs)]


def most_misses(runs):
    return int(binom.isf(1e-12, runs, ALPHA))


@pytest.mark.slow
@EVERY
def test_the_set_holds_the_parameter_at_all_times_as_often_as_it_says(case):
    runs = runs_of(case, RUNS)
    assert sum(not run.held for run in runs) <= most_misses(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["central", "two shufflers", "local"])
def test_a_set_that_forgets_the_noise_misses_most_of_the_time(case, monkeypatch):
    model = CASES[case][0]
    real = MODELS[model]

    def careless(setting, source):
        sums, _ = real(setting, source)
        return sums, confidence(None, setting.dimension, failure=setting.failure)

    monkeypatch.setitem(MODELS, model, careless)
    assert sum(not run.held for run in runs_of(case, RUNS)) > most_misses(RUNS)


@pytest.mark.slow
def test_a_set_a_quarter_as_wide_misses_too_often_without_noise(monkeypatch):
    real = linear_runner.Rule.holds

    def narrow(rule, theta):
        return real(linear_runner.Rule(rule.theta, rule.root, rule.radius / 4.0), theta)

    monkeypatch.setattr(linear_runner.Rule, "holds", narrow)
    assert sum(not run.held for run in runs_of("linucb", RUNS)) > most_misses(RUNS)


def per_user(case, users, epsilon=1.0, world=WORLD):
    model, shufflers = CASES[case]
    return float(simulate_linear(model, world, users, seed=1, shufflers=shufflers, epsilon=epsilon).regret[-1]) / users


@pytest.mark.slow
def test_local_noise_costs_far_more_than_shuffled():
    users = 40_000
    shuffled = max(per_user(case, users) for case in ("one shuffler", "two shufflers"))
    assert per_user("local", users) > 2.0 * shuffled
    assert shuffled > 2.0 * per_user("linucb", users), "and privacy has a price"


@pytest.mark.slow
def test_shuffled_sums_approach_no_privacy_as_the_budget_grows():
    users = 20_000
    free = per_user("linucb", users)
    found = [per_user("one shuffler", users, epsilon) for epsilon in (1.0, 10.0, 100.0)]
    assert found[0] > 1.5 * found[1]
    assert found[1] > 1.5 * found[2]
    assert found[2] < free + 0.005


@pytest.mark.slow
def test_shuffled_sums_approach_no_privacy_as_users_come():
    few, many = ((per_user("one shuffler", users) - per_user("linucb", users)) for users in (2_000, 40_000))
    assert few > 4.0 * many > 0.0


@pytest.mark.slow
def test_published_constants_explore_for_ever_on_a_tiny_case():
    world = Sphere(2, 3, seed=1)
    run = simulate_linear("concurrent", world, 64, seed=1, shufflers=1, epsilon=0.9, constants="published")
    assert run.vacuous == 1.0
    assert run.held
    assert run.rule.radius > 1_000.0


@pytest.mark.slow
@EVERY
def test_choosing_one_by_one_is_choosing_at_once(case):
    model, shufflers = CASES[case]
    first, second = (
        simulate_linear(model, WORLD, 320, seed=3, shufflers=shufflers, epsilon=4.0, each=each)
        for each in (False, True)
    )
    assert np.array_equal(first.regret, second.regret)
    assert first.rule == second.rule


@EVERY
def test_a_run_accounts_for_every_user(case):
    model, shufflers = CASES[case]
    users, told = 330, []
    run = simulate_linear(model, WORLD, users, seed=1, shufflers=shufflers, epsilon=4.0, progress=told.append)
    assert run.users[-1] == users
    assert (np.diff(np.append(0, run.users)) > 0).all()
    assert (np.diff(np.append(0.0, run.regret)) >= 0.0).all()
    assert run.regret[-1] <= users
    assert 0.0 <= run.vacuous <= 1.0
    assert math.isclose(sum(told), 1.0)


def test_the_same_seed_is_the_same_run_and_another_is_not():
    again = [runs_of("two shufflers", 2)[0].regret for _ in range(2)]
    assert np.array_equal(*again)
    first, second = runs_of("two shufflers", 2)
    assert not np.array_equal(first.regret, second.regret)


class OneAction(LinearWorld):
    """Everyone is offered the same single action, whose mean is known: nothing can go wrong."""

    dimension, actions, theta = 2, 1, np.asarray([0.5, 0.0])

    def offer(self, users, generator):
        return Offers(np.broadcast_to(np.asarray([1.0, 0.0]), (users, 1, 2)), np.full((users, 1), 0.5))


def test_regret_is_measured_against_the_best_action_offered():
    run = simulate_linear("linucb", OneAction(), 640, seed=1)
    assert run.regret[-1] == 0.0
    # The one direction played is known by then, as √n says; the other not at all.
    assert abs(run.rule.theta[0] - 0.5) < 0.15
    assert run.rule.theta[1] == 0.0
    worst = Sphere(3, 5, seed=1)
    offers = worst.offer(5_000, np.random.default_rng(1))
    blind = float((offers.means.max(axis=1) - offers.means[:, 0]).mean())
    assert simulate_linear("linucb", worst, 5_000, seed=1).regret[-1] / 5_000 < blind / 10.0


def test_a_run_is_vacuous_while_not_even_the_best_known_direction_is_known():
    run = simulate_linear("linucb", OneAction(), 640, seed=1)
    widths = run.rule.radius * np.linalg.norm(np.asarray(run.rule.root), axis=0)
    assert widths.min() < 1.0 < widths.max()
    assert 0.0 < run.vacuous < 0.2
    assert simulate_linear("local", OneAction(), 640, seed=1).vacuous == 1.0


def test_a_world_without_a_parameter_has_no_set_to_miss():
    run = simulate_linear("linucb", Table("iris"), 320, seed=1)
    assert run.held is None
    # Better than guessing one of three classes, where regret is 2/3.
    late = np.diff(run.at(np.asarray([160, 320])))[0] / 160
    assert late < 0.5


def test_regret_between_blocks_is_straight():
    run = LinearRun(np.asarray([10, 20]), np.asarray([4.0, 5.0]), None, None, 0.0)
    assert run.at(np.asarray([0, 5, 10, 15, 20])).tolist() == [0.0, 2.0, 4.0, 4.5, 5.0]


def test_an_exponent_is_that_of_a_power_law():
    users = np.arange(10, 10_000, 10)
    assert math.isclose(exponent(users, 3.0 * users**0.6), 0.6)
    # Only the late part counts.
    bent = np.where(users < 1_000, 50.0, 50.0 * (users / 1_000) ** 0.5)
    assert math.isclose(exponent(users, bent, first=0.2), 0.5)
    with pytest.raises(InvalidParameter, match="^first = 1.0 "):
        exponent(users, bent, first=1.0)


@pytest.mark.slow
def test_a_trusted_tree_adds_fresh_noise_to_each_node_and_as_many_as_bits():
    # Without users what comes out is noise alone; equal noise means the same nodes.
    runs, blocks, std = 4_000, 8, 2.0
    found = np.asarray(
        [[tree.extend(np.zeros((1, 1)))[0] for _ in range(blocks)] for tree in (_tree(seed) for seed in range(runs))]
    )
    levels = 3
    bits = [1, 1, 2, 1, 2, 2, 3, 2]
    # Eight blocks and three levels: block 4 is one node of the top level, block 8 two.
    variances = np.asarray(bits) * levels * std**2
    # A sample variance of normals has relative deviation √(2/R) = 2.2 %; 18 % is eight of them.
    np.testing.assert_allclose(found.var(axis=0), variances, rtol=0.18)
    # Blocks 4 and 6 share the node of the first four, so their covariance is one node's variance; 3 and 4 share none.
    covariance = np.cov(found.T)
    assert abs(covariance[3, 5] - levels * std**2) < 0.25 * levels * std**2
    assert abs(covariance[2, 3]) < 0.25 * levels * std**2


def _tree(seed):
    return TrustedTree(8, 1, 1, 2.0, seeded(seed))


def test_local_noise_grows_with_every_user():
    runs = 3_000
    found = np.asarray(
        [[sums.extend(np.zeros((4, 1)))[0] for _ in range(3)] for sums in (_local(s) for s in range(runs))]
    )
    # As above, eight standard deviations.
    np.testing.assert_allclose(found.var(axis=0), 4.0 * 9.0 * np.asarray([1, 2, 3]), rtol=8.0 * math.sqrt(2.0 / runs))


def _local(seed):
    return LocalSums(12, 4, 1, 3.0, seeded(seed))


def test_true_sums_have_no_noise():
    sums = TrueSums(2, 3)
    sums.extend(np.ones((2, 3)))
    assert sums.extend(np.full((2, 3), 0.5)).tolist() == [3.0, 3.0, 3.0]


def test_reference_noise_is_the_least_gaussian_for_the_budget():
    from scipy.special import ndtr

    setting = Setting(1000, 3, 1.5, 1e-5, "tight", 0.1, 1.0, None, 32)
    # Two users differ by 1.5 at most; δ of a Gaussian by its closed form.
    scale = setting.gaussian() / 1.5
    delta = ndtr(0.5 / scale - 1.5 * scale) - math.exp(1.5) * ndtr(-0.5 / scale - 1.5 * scale)
    assert math.isclose(delta, 1e-5, rel_tol=1e-6)
    assert math.isclose(scale, gaussian_scale(1.5, 1e-5), rel_tol=1e-12)


BAD = {
    "unknown model": ("model", {"model": "magic"}),
    "too few users": ("users", {"users": 40}),
    "no block": ("block", {"block": 0}),
    "no shuffler": ("shufflers", {"shufflers": 0}),
    "unknown constants": ("constants", {"constants": "best"}),
    "no epsilon": ("epsilon", {"epsilon": 0.0}),
    "no failure": ("failure", {"failure": 0.0}),
    "no exploration": ("exploration", {"exploration": -1.0}),
    "negative seed": ("seed", {"seed": -1}),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_runs_are_refused_by_name(case):
    name, change = BAD[case]
    asked = {"model": "concurrent", "world": WORLD, "users": 640, "seed": 1, "shufflers": 1} | change
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        simulate_linear(**asked)


def test_regret_that_starts_at_zero_has_an_exponent_too():
    found = exponent(np.asarray([1, 2, 4, 8]), np.asarray([0.0, 1.0, 2.0, 4.0]))
    assert math.isclose(found, 1.0)
