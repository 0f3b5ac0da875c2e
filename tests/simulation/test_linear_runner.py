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
from croupier.continual import binary_tree
from croupier.linear import growing_bandit, linear_bandit, sequential_linear_bandit
from croupier.linear.sets import NoiseBounds
from croupier.noise import seeded
from croupier.personal import Belief
from croupier.privacy import gaussian_scale
from croupier.protocols import Moments
from croupier.simulation import linear_players
from croupier.simulation.linear_players import Needs, summed
from croupier.simulation.linear_runner import LinearRun, exponent, says_nothing, simulate_linear
from croupier.simulation.linear_sums import LocalSums, TrustedTree
from croupier.simulation.linear_worlds import LinearWorld, Offers, Sphere, class_table

ALPHA, RUNS = 0.1, 40
WORLD = Sphere(3, 5, seed=1)
CASES = {
    "linucb": {"model": "linucb"},
    "central": {"model": "central"},
    "central tree": {"model": "central-tree"},
    "growing": {"model": "growing"},
    "growing, two servers": {"model": "growing", "trust": "two-servers"},
    "one shuffler": {"model": "concurrent", "shufflers": 1},
    "two shufflers": {"model": "concurrent", "shufflers": 2},
    "binary tree": {"model": "concurrent"},
    "sequential": {"model": "sequential"},
    "local": {"model": "local"},
}
EVERY = pytest.mark.parametrize("case", CASES)


LEVELS = {}
PLANNED = {plan: cache(plan) for plan in (linear_bandit, sequential_linear_bandit, growing_bandit)}


@pytest.fixture(autouse=True)
def planned_once(monkeypatch):
    """Many runs of one plan: plans, sets and budgets are worked out by the real code, once."""
    real = Needs.level

    def level(needs, sums):
        key = (needs.world.wide, needs.users, needs.epsilon, needs.failure, needs.exploration, type(sums))
        if key not in LEVELS:
            LEVELS[key] = real(needs, sums)
        return LEVELS[key]

    for plan, cached in PLANNED.items():
        monkeypatch.setattr(linear_players, plan.__name__, cached)
    monkeypatch.setattr(Needs, "level", level)


def runs_of(case, runs, users=1280, **options):
    options = CASES[case] | {"epsilon": 4.0, "failure": ALPHA} | options
    return [simulate_linear(world=WORLD, users=users, seed=seed, **options) for seed in range(runs)]


def most_misses(runs):
    return int(binom.isf(1e-12, runs, ALPHA))


@pytest.mark.slow
@EVERY
def test_the_set_holds_the_parameter_at_all_times_as_often_as_it_says(case):
    runs = runs_of(case, RUNS)
    assert sum(not run.held for run in runs) <= most_misses(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["central tree", "two shufflers", "local"])
def test_a_set_that_forgets_the_noise_misses_most_of_the_time(case, monkeypatch):
    real = Needs.level
    monkeypatch.setattr(Needs, "level", lambda needs, sums: real(needs, None))
    monkeypatch.setattr(linear_players, "_shuffled", _careless)
    assert sum(not run.held for run in runs_of(case, RUNS)) > most_misses(RUNS)


def _careless(needs, plan, source):
    sums = linear_players.ShuffledSums(plan.counter, source)
    return linear_players.StatisticsPlayer(needs, sums, needs.level(None))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["central", "growing"])
def test_a_growing_set_that_forgets_the_noise_misses_most_of_the_time(case, monkeypatch):
    plan = type(growing_bandit(1280, 3, epsilon=4.0))
    monkeypatch.setattr(plan, "noise_bounds", lambda self, sums, sets=None: NoiseBounds(1e-3, 0.0))
    assert sum(not run.held for run in runs_of(case, RUNS, epsilon=1.0)) > most_misses(RUNS)


@pytest.mark.slow
def test_a_set_a_quarter_as_wide_misses_too_often_without_noise(monkeypatch):
    real = Belief.holds

    def narrow(belief, theta):
        return real(Belief(belief.theta, belief.axes, belief.values, belief.radius / 4.0, 0.0, belief.lift), theta)

    monkeypatch.setattr(Belief, "holds", narrow)
    assert sum(not run.held for run in runs_of("linucb", RUNS)) > most_misses(RUNS)


def per_user(case, users, epsilon=1.0, world=WORLD):
    run = simulate_linear(world=world, users=users, seed=1, epsilon=epsilon, **CASES[case])
    return float(run.regret[-1]) / users


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
    first, second = (
        simulate_linear(world=WORLD, users=320, seed=3, epsilon=4.0, each=each, **CASES[case]) for each in (False, True)
    )
    assert np.array_equal(first.regret, second.regret)
    assert first.rule == second.rule


@EVERY
def test_a_run_accounts_for_every_user(case):
    users, told = 330, []
    run = simulate_linear(world=WORLD, users=users, seed=1, epsilon=4.0, progress=told.append, **CASES[case])
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

    dimension, actions = 2, 1
    theta = np.asarray([0.2, math.sqrt(0.5)])

    def offer(self, users, generator):
        one = np.asarray([0.0, math.sqrt(0.5)])
        return Offers(np.broadcast_to(one, (users, 1, 2)), np.full((users, 1), 0.5))


def test_regret_is_measured_against_the_best_action_offered():
    run = simulate_linear("linucb", OneAction(), 640, seed=1)
    assert run.regret[-1] == 0.0
    # The one direction played is known by then, as √n says, and centred means it is zero; the other not at all.
    assert abs(run.rule.theta[1]) < 0.15
    assert run.rule.theta[0] == 0.0
    worst = Sphere(3, 5, seed=1)
    offers = worst.offer(5_000, np.random.default_rng(1))
    blind = float((offers.means.max(axis=1) - offers.means[:, 0]).mean())
    assert simulate_linear("linucb", worst, 5_000, seed=1).regret[-1] / 5_000 < blind / 10.0


def test_a_run_is_vacuous_while_not_even_the_best_known_direction_is_known():
    run = simulate_linear("linucb", OneAction(), 1_280, seed=1)
    first, second = run.rule.beliefs[0][0].half_widths
    assert (first + second).min() < 1.0 < (first + second).max()
    assert 0.0 < run.vacuous < 0.3
    assert not says_nothing(run.rule)
    assert simulate_linear("local", OneAction(), 640, seed=1).vacuous == 1.0


def test_a_world_without_a_parameter_has_no_set_to_miss():
    run = simulate_linear("linucb", class_table("iris"), 320, seed=1)
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
def test_a_trusted_tree_carries_the_noise_of_the_concurrent_counter_s_combination():
    # Without users what comes out is noise alone.
    runs, blocks, std = 4_000, 8, 2.0
    found = np.asarray(
        [[tree.extend(np.zeros((1, 1)))[0] for _ in range(blocks)] for tree in (_tree(seed) for seed in range(runs))]
    )
    tree = binary_tree(8, 1)
    variances = _tree(0).variances
    expected = [np.dot(tree.siblings(count), variances) for count in range(1, blocks + 1)]
    assert math.isclose(variances[0], tree.levels * std**2)
    assert variances[1] < 2.0 * variances[0] / 2.9, "combined with its children: below one of the two"
    # A sample variance of normals has relative deviation √(2/R) = 2.2 %; 18 % is eight of them.
    np.testing.assert_allclose(found.var(axis=0), expected, rtol=0.18)
    # Blocks 3 and 2 share the node of the first two; 3 and 4 share it in part, as 4 weighs it with its own.
    covariance = np.cov(found.T)
    assert abs(covariance[1, 2] - variances[1]) < 0.25 * variances[1]


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


def test_reference_noise_is_the_least_gaussian_for_the_budget():
    from scipy.special import ndtr

    needs = Needs(WORLD, 1000, 1.5, 1e-5, "tight", 0.1, 1.0, None, 32, "devices")
    # Two users differ by 1.5 at most; δ of a Gaussian by its closed form.
    scale = needs.gaussian() / 1.5
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


@pytest.mark.parametrize("places", [1, 3])
def test_simulated_sums_of_moments_have_the_law_of_real_reports(places):
    """Mean and variance of every rounded number, over many crowds of the same users; what is rounded is known."""
    moments = Moments(3, places, weight=1.2, control=0.5)
    generator, runs, users, levels = np.random.default_rng(1), 3_000, 12, 8.0
    x = generator.normal(size=(users, 2))
    x = np.column_stack((0.6 * x / np.linalg.norm(x, axis=1, keepdims=True), np.full(users, math.sqrt(0.5))))
    rewards, actions = generator.integers(0, 2, users).astype(float), generator.integers(0, places, users)
    control = generator.random(users) < 0.5
    exact = moments.of(x, rewards, actions if places > 1 else 0, control) * levels
    found = np.asarray([summed(moments, x, rewards, actions, control, levels, generator) for _ in range(runs)])
    fractions = exact - np.floor(exact)
    variance = (fractions * (1.0 - fractions)).sum(axis=0)
    # Means within seven standard errors: 2·30 numbers, false alarms below 1e-9; single precision adds 1e-4.
    assert (np.abs(found.mean(axis=0) - exact.sum(axis=0)) <= 7.0 * np.sqrt(variance / runs) + 1e-4).all()
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.25, atol=2e-2)
    assert np.array_equal(found, np.floor(found))
    plain = summed(moments, x, rewards, actions, control, None, generator)
    np.testing.assert_allclose(plain, exact.sum(axis=0) / levels, atol=1e-5)


def test_a_growing_run_is_its_server_s():
    run = simulate_linear("growing", WORLD, 4_000, seed=5, epsilon=2.0, trust="two-servers", ratio=2.0, first=300)
    ends = list(growing_bandit(4_000, 3, epsilon=2.0, ratio=2.0, first=300).ends())
    assert run.users.tolist() == ends
    assert run.held
    assert not run.rule.blank


@pytest.mark.slow
def test_no_reference_loses_to_the_private_one_for_want_of_care():
    """A trusted server may run what runs without trust, with less noise; eight runs of each, on the same worlds."""
    found = {
        model: np.mean(
            [
                simulate_linear(model, Sphere(4, 8, seed), 12_000, seed=seed, epsilon=1.0, **options).regret[-1]
                for seed in range(8)
            ]
        )
        for model, options in (
            ("linucb", {}),
            ("central", {}),
            ("growing", {"trust": "devices"}),
            ("central-tree", {}),
            ("concurrent", {}),
        )
    }
    assert found["linucb"] < found["central"] < 1.05 * found["growing"]
    assert found["central-tree"] < 1.05 * found["concurrent"]
    assert found["growing"] < 0.6 * found["concurrent"]


def test_growing_batches_on_a_table_use_a_parameter_for_each_class():
    run = simulate_linear("growing", class_table("iris"), 8_000, seed=1, control=0.1, exploration=0.2, trust="devices")
    assert len(run.rule.beliefs) == 3
    assert run.gain is not None
    assert run.gain.lower > 0.0
    assert run.reward > 0.5
