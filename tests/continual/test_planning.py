"""Planned counters: that they keep their privacy, what is published and what is tight, and that their bounds hold."""

import itertools
import math
from functools import cache

import numpy as np
import pytest

from cases.counters import finished_maximal
from croupier.checks import InvalidParameter
from croupier.continual import Counter, CounterPlan, Tree, best_counter, counter, gaussian_deviation
from croupier.noise import Binomial, SparseBits, seeded
from croupier.privacy import Loss
from croupier.simulation.reference_sums import SquareRoot, gaussian_scale


@cache
def planned(users: int, shufflers: int | None = None, **options: object) -> CounterPlan:
    return counter(users, shufflers, **{"epsilon": 1.5, "delta": 1e-3} | options)  # type: ignore[arg-type]


def meets_its_claim(plan: CounterPlan) -> bool:
    """Whether the loss, composed anew from what a device would be told, is within the promise, and users get in."""
    again = CounterPlan.from_json(plan.to_json())
    loss = Loss.total(mechanism.loss for mechanism in again.mechanisms)
    Counter(again).arrive()
    assert (plan.privacy.epsilon, plan.privacy.delta) == (plan.epsilon, plan.delta)
    return loss.delta(plan.epsilon) <= plan.delta


@pytest.mark.slow
@pytest.mark.parametrize("shufflers", [1, 2, 3, None])
@pytest.mark.parametrize("users", [96, 333, 2000])
def test_tight_counters_keep_what_they_promise(users: int, shufflers: int | None) -> None:
    if users // 32 < 4 and shufflers == 3:
        users = 200
    plan = planned(users, shufflers)
    assert (plan.epsilon, plan.delta) == (1.5, 1e-3)
    assert meets_its_claim(plan)


@pytest.mark.parametrize("shufflers", [1, 2, 3, 5, None])
@pytest.mark.parametrize("users", [64, 100, 1000, 4096, 10**5])
def test_published_counters_keep_what_they_promise(users: int, shufflers: int | None) -> None:
    plan = planned(users, shufflers, epsilon=0.9, constants="published")
    assert (plan.epsilon, plan.delta) == (0.9, 1e-3)
    assert meets_its_claim(plan)


OVER = {
    "shuffled-levels": {},
    "shuffled-laplace": {},
    "laplace": {"delta": 0},
    "central-laplace": {"delta": 0},
    "local-laplace": {"delta": 0},
    "skellam": {},
    "discrete-gaussian": {},
    "shuffled-vectors": {"dimension": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("shufflers", [1, 2])
@pytest.mark.parametrize("over", OVER)
def test_counters_over_any_protocol_keep_what_they_promise(over: str, shufflers: int) -> None:
    plan = planned(400, shufflers, over=over, **OVER[over])
    assert plan.epsilon == 1.5
    assert plan.delta == OVER[over].get("delta", 1e-3)
    assert meets_its_claim(plan)


@pytest.mark.parametrize("over", ["shuffled-laplace", "skellam", "discrete-gaussian"])
def test_published_counters_over_other_protocols_keep_what_they_promise_or_are_not_offered(over: str) -> None:
    """The ε of Skellam and Gaussian sums is that of their noise: k levels of ε/k are no (ε, δ) in all."""
    try:
        plan = planned(400, 2, epsilon=0.9, over=over, constants="published")
    except InvalidParameter:
        assert over != "shuffled-laplace"
        return
    assert meets_its_claim(plan)


@pytest.mark.parametrize(
    ("epsilon", "delta", "shufflers"), [(0.5, 1e-3, 2), (1.0, 1e-6, 2), (1.0, 1e-3, 4), (3.0, 1e-6, 2)]
)
def test_tight_levels_use_nearly_all_of_the_budget(epsilon: float, delta: float, shufflers: int) -> None:
    plan = planned(1000, shufflers, epsilon=epsilon, delta=delta, smallest=32)
    assert 0.97 * epsilon <= plan.loss.epsilon(delta) <= epsilon * (1 + 4e-3)
    if epsilon <= 1.0:
        # Nearly as little noise as Gaussian levels would need, whose composition is known in closed form.
        least = shufflers * gaussian_scale(epsilon, delta) ** 2
        assert all(mechanism.variance <= 1.15 * least for mechanism in plan.mechanisms)


@pytest.mark.parametrize(("epsilon", "delta"), [(8.0, 1e-6), (20.0, 1e-3), (0.05, 0.3), (0.5, 0.5)])
def test_large_and_lax_budgets_can_be_planned_too(epsilon: float, delta: float) -> None:
    assert meets_its_claim(planned(200, 2, epsilon=epsilon, delta=delta, smallest=32))


def test_composing_exactly_saves_about_the_square_root_of_the_levels() -> None:
    tight = planned(512, smallest=2)
    levels = tight.shufflers
    simple = planned(64, 1, epsilon=1.5 / levels, delta=1e-3 / levels).mechanisms[0]
    saved = math.sqrt(simple.variance / tight.mechanisms[-1].variance)
    assert 0.7 * math.sqrt(levels) < saved < 1.5 * math.sqrt(levels)


@pytest.mark.parametrize("shufflers", [1, 2, 3])
def test_published_levels_are_alg_3_of_the_paper(shufflers: int) -> None:
    """k levels at (ε/k, δ/k), each [TKMS21] Alg. 3 with τ = 96 log(2/δ)/ε², and sums as they are."""
    plan = planned(3 ** (2 * shufflers + 1), shufflers, epsilon=0.9, constants="published")
    tau = 96 * math.log(2 * shufflers / 1e-3) / (0.9 / shufflers) ** 2
    assert plan.tree.sizes == tuple(3 * 9**level for level in range(shufflers))
    for mechanism in plan.mechanisms:
        assert mechanism.share == Binomial(math.ceil(tau / mechanism.users), 0.5)
        assert mechanism.guarantee.epsilon == pytest.approx(0.9 / shufflers)
        assert mechanism.guarantee.delta == pytest.approx(1e-3 / shufflers)
    assert plan.weights.own == (1.0,) * shufflers
    assert plan.middle == 0.0
    assert plan.pending_error == 2.0


@pytest.mark.parametrize("users", [64, 100, 1000, 1024])
def test_the_published_tree_is_alg_2_of_the_paper(users: int) -> None:
    """Levels at (ε/log n, δ/log n), one for every internal level of the binary tree."""
    plan = planned(users, epsilon=0.9, constants="published")
    logarithm = math.ceil(math.log2(users))
    assert plan.shufflers == logarithm - 1
    assert plan.tree.smallest == 2
    for mechanism in plan.mechanisms:
        assert mechanism.guarantee.epsilon == pytest.approx(0.9 / logarithm)
        assert mechanism.guarantee.delta == pytest.approx(1e-3 / logarithm)
    assert plan.pending_error == 1.0


def test_every_number_of_users_has_a_published_counter() -> None:
    for users in [*range(3, 80), 1001, 65_537]:
        for shufflers in (1, 2, None):
            plan = counter(users, shufflers, epsilon=0.9, constants="published")
            assert plan.users == users
            assert plan.tree.degree**plan.shufflers * plan.tree.smallest >= users


def test_published_ranges_are_enforced() -> None:
    with pytest.raises(InvalidParameter, match=r"epsilon = 1.0.*\(0, 1\).*published"):
        counter(1000, 2, epsilon=1.0, constants="published")


@pytest.mark.parametrize("shufflers", [1, 2, 3, None])
def test_the_noise_of_the_worst_prefix_is_the_largest_over_all_times(shufflers: int | None) -> None:
    plan = planned(333, shufflers)
    own = [mechanism.variance + mechanism.rounding_variance for mechanism in plan.mechanisms]
    assert plan.variances == plan.weights.variances(plan.tree.degree, own)
    worst = max(
        sum(plan.variances[level] for level, _ in finished_maximal(plan.tree, t)) for t in range(plan.users + 1)
    )
    assert plan.noise_std == pytest.approx(math.sqrt(worst))


def law_of(plan: CounterPlan, level: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors of one node's own sum and their probabilities, all of them."""
    noise = plan.mechanisms[level].noise
    assert isinstance(noise, SparseBits)
    window = noise.window(1e-60)
    assert window.below + window.above < 1e-50
    return np.arange(window.start, window.stop) * plan.mechanisms[level].unit, window.pmf


def merged(values: np.ndarray, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kept, index = np.unique(np.round(values, 9), return_inverse=True)
    return kept, np.bincount(index.ravel(), masses.ravel())


def chance_of_failure(plan: CounterPlan, alpha: float) -> float:
    """P(some prefix of eight users errs by more than alpha), exactly: nodes of two users, and of four above them.

    The prefixes are L1; R1; R1 + L3; R1 + R2, with R = w·T + (1 - w)(L + L') the combined estimate of four users.
    """
    (low, low_mass), (top, top_mass), weight = law_of(plan, 0), law_of(plan, 1), plan.weights.own[1]
    second, second_mass = merged(np.add.outer(weight * top, (1 - weight) * low), np.multiply.outer(top_mass, low_mass))
    fine = np.abs(low) <= alpha + 1e-9
    first, first_mass = merged(
        np.add.outer((1 - weight) * low[fine], second), np.multiply.outer(low_mass[fine], second_mass)
    )
    inside = np.abs(first) <= alpha + 1e-9
    survive = 0.0
    for third, mass in zip(low, low_mass, strict=True):
        with_third = inside & (np.abs(first + third) <= alpha + 1e-9)
        whole = first[with_third][:, None] + (1 - weight) * third + second[None]
        ends = (np.abs(whole) <= alpha + 1e-9) @ second_mass
        survive += mass * float(first_mass[with_third] @ ends)
    return 1.0 - survive


def test_the_cumulant_behind_the_bound_is_that_of_the_combined_estimate() -> None:
    """log E e^{lR} by the sum over all values of R = w·T + (1 - w)(L + L')."""
    plan = planned(8, 2, epsilon=1.0, delta=0.1, smallest=2)
    (low, low_mass), (top, top_mass), weight = law_of(plan, 0), law_of(plan, 1), plan.weights.own[1]
    slopes = np.array([1e-3, 0.1, 0.5, 1.0, 2.0])
    own, below = (
        np.log(np.exp(np.outer(share * slopes, values)) @ masses)
        for share, values, masses in ((weight, top, top_mass), (1 - weight, low, low_mass))
    )
    assert plan._cumulant(0, slopes) == pytest.approx(np.log(np.exp(np.outer(slopes, low)) @ low_mass))
    assert plan._cumulant(1, slopes) == pytest.approx(own + 2 * below)


@pytest.mark.parametrize("failure", [0.3, 0.05, 1e-3, 1e-6])
def test_the_error_bound_is_above_the_exact_quantile_of_all_prefixes_at_once(failure: float) -> None:
    plan = planned(8, 2, epsilon=1.0, delta=0.1, smallest=2)
    assert plan.tree.sizes == (2, 4)
    alpha = plan.bound(failure) - plan.pending_error
    assert chance_of_failure(plan, alpha) <= failure
    # A bound twice as large as needed would be no use.
    assert chance_of_failure(plan, 0.5 * alpha) > failure


def test_a_bound_that_leaves_out_a_level_would_be_caught() -> None:
    """The exact chance rises above the allowed one when the bound's noise is that of the lowest level alone."""
    plan, short = planned(8, 2, epsilon=1.0, delta=0.1, smallest=2), planned(2, 1, epsilon=20.0, delta=0.1, smallest=2)
    assert chance_of_failure(plan, short.bound(0.05) - short.pending_error) > 0.05


def test_the_bound_falls_as_more_failures_are_allowed() -> None:
    plan = planned(1024, 2)
    bounds = [plan.bound(failure) for failure in (1e-9, 1e-6, 1e-3, 0.1, 0.9)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] > plan.pending_error


@pytest.mark.parametrize("failure", [0, 1, -0.1, 2.0, math.nan, "often"])
def test_a_failure_probability_must_be_one(failure: object) -> None:
    with pytest.raises(InvalidParameter, match="failure"):
        planned(1024, 2).bound(failure)  # type: ignore[arg-type]


def test_a_bound_below_the_chance_of_a_wrap_around_is_infinite() -> None:
    plan = planned(400, 2, over="laplace", delta=0)
    wraps = sum(n * m.wrap_probability for n, m in zip(plan.tree.nodes, plan.mechanisms, strict=True))
    assert 0 < wraps < 1e-9
    assert plan.bound(0.5 * wraps) == math.inf
    assert plan.bound(2.0 * wraps) < math.inf


def test_a_bound_for_all_coordinates_is_one_for_each_at_a_share_of_the_failures() -> None:
    plan = planned(400, 2, dimension=2)
    assert plan.bound(0.1) == plan.deviation(0.1, directions=2) + plan.pending_error
    assert plan.deviation(0.1) < plan.deviation(0.1, directions=2) < plan.deviation(0.1, directions=2, strength=2.0)
    assert plan.pending_error == plan.tree.smallest - 1.0


def test_gaussian_trees_stay_within_their_deviation() -> None:
    """4,000 runs at β = 0.05: more than 280 failures would be a false alarm with probability below 1e-9."""
    tree = Tree(users=60, smallest=2, degree=3, levels=3)
    variances = (1.0, 2.0, 0.5)
    alpha = gaussian_deviation(tree, variances, 0.05)
    generator, failures = np.random.default_rng(8), 0
    drawn = [generator.normal(0.0, math.sqrt(v), (count, 4000)) for v, count in zip(variances, tree.nodes, strict=True)]
    worst = np.zeros(4000)
    for t in range(0, 61, 2):
        worst = np.maximum(worst, np.abs(sum(drawn[level][place] for level, place in finished_maximal(tree, t))))
    failures = int((worst > alpha).sum())
    assert failures <= 280
    assert int((worst > 0.6 * alpha).sum()) > 280


def test_the_error_falls_with_more_shufflers_up_to_a_best_number() -> None:
    bounds = [planned(2**16, k, epsilon=0.9, constants="published").bound(0.05) for k in range(1, 9)]
    best = int(np.argmin(bounds))
    assert 1 <= best < 7
    assert bounds[: best + 1] == sorted(bounds[: best + 1], reverse=True)
    assert bounds[best:] == sorted(bounds[best:])
    tight = [planned(2**14, k, smallest=32).bound(0.05) for k in (1, 2, 3)]
    assert tight == sorted(tight, reverse=True)
    assert all(ours < papers / 5 for ours, papers in zip(tight, bounds, strict=False))


@pytest.mark.slow
def test_at_a_million_users_the_tight_tree_is_ten_times_better_and_near_the_central_model() -> None:
    options = {"epsilon": 0.99, "delta": 1e-2}
    tight = planned(2**20, smallest=32, **options)
    published = planned(2**20, constants="published", **options)
    assert tight.noise_std <= published.noise_std / 10
    central = SquareRoot(2**20, seeded(1), **options)  # type: ignore[arg-type]
    assert tight.noise_std <= 3.0 * central._std


@pytest.mark.slow
def test_the_best_counter_has_the_least_bound_of_all_it_may_have() -> None:
    options = {"epsilon": 1.5, "delta": 1e-3}
    every = [planned(1000, k) for k in (1, 2, 3, 4, None)]
    found = best_counter(1000, **options)
    assert found.bound(0.05) == min(plan.bound(0.05) for plan in [*every, found])
    few = best_counter(1000, most=2, **options)
    assert few.shufflers <= 2
    assert few.bound(0.05) == min(plan.bound(0.05) for plan in every[:2])


@pytest.mark.parametrize("most", [0, -1, 1.5])
def test_the_best_of_no_counters_is_refused(most: object) -> None:
    with pytest.raises(InvalidParameter, match="most"):
        best_counter(100, most=most, epsilon=1.0)  # type: ignore[arg-type]


def test_a_pure_protocol_is_planned_without_naming_delta() -> None:
    """δ has a default, so whoever leaves it out gets either a pure counter or one at the default δ."""
    plan = counter(400, 2, epsilon=1.0, over="laplace")
    assert meets_its_claim(plan)


def test_pure_levels_compose_exactly_when_a_delta_is_allowed() -> None:
    lax = counter(2**10, epsilon=1.0, delta=0.05, over="laplace", smallest=2, binary=True)
    pure = counter(2**10, epsilon=1.0, delta=0, over="laplace", smallest=2, binary=True)
    assert meets_its_claim(lax)
    assert lax.mechanisms[-1].variance < 0.9 * pure.mechanisms[-1].variance


def test_what_is_never_purely_private_is_not_planned_with_delta_zero() -> None:
    """Asking for δ = 0 must not be answered with another δ."""
    with pytest.raises(InvalidParameter, match="delta = 0"):
        counter(1000, 2, epsilon=1.0, delta=0)


BAD = [
    ({"shufflers": 0}, "shufflers = 0", ">= 1"),
    ({"shufflers": -1}, "shufflers = -1", ">= 1"),
    ({"shufflers": 1.5}, "shufflers = 1.5", "whole number"),
    ({"shufflers": 6}, "shufflers = 6", "at most 5 for 1000 users from batches of 32"),
    ({"users": 1}, "users = 1", ">= 2"),
    ({"users": 31}, "users = 31", ">= 32"),
    ({"users": 10.0}, "users = 10.0", "whole number"),
    ({"smallest": 0}, "smallest = 0", ">= 1"),
    ({"smallest": 2000}, "users = 1000|smallest = 2000", "2000|1000"),
    ({"epsilon": 0.0}, "epsilon = 0.0", "> 0"),
    ({"epsilon": math.inf}, "epsilon = inf", "finite"),
    ({"epsilon": math.nan}, "epsilon = nan", "finite"),
    ({"epsilon": 501.0}, "epsilon = 501.0", r"\(0, 500\]"),
    ({"delta": 1.0}, "delta = 1.0", r"\[0, 1\)|\(0, 1\)"),
    ({"delta": math.nan}, "delta = nan", "number in"),
    ({"constants": "loose"}, "constants = 'loose'", "tight"),
    ({"over": "gossip"}, "protocol = 'gossip'", "one of"),
    ({"over": "shuffled-vectors", "dimension": 0}, "dimension = 0", ">= 1"),
    ({"over": "shuffled-vectors", "dimension": 2, "smallest": 18}, "smallest = 18", ">= 19"),
    ({"honest_fraction": 0.0}, "honest_fraction = 0.0", r"\(0, 1\]"),
]


@pytest.mark.parametrize(("change", "found", "allowed"), BAD, ids=[found for _, found, _ in BAD])
def test_bad_input_is_refused_by_name(change: dict[str, object], found: str, allowed: str) -> None:
    options = {"users": 1000, "shufflers": 2, "epsilon": 1.0} | change
    with pytest.raises(InvalidParameter, match=f"({found}) .*({allowed})"):
        counter(**options)  # type: ignore[arg-type]


def test_honest_users_alone_hide_everyone() -> None:
    plan = planned(400, 2, honest_fraction=0.5)
    assert meets_its_claim(plan)
    assert plan.mechanisms[0].noise.variance > 1.8 * planned(400, 2).mechanisms[0].noise.variance


def test_one_budget_is_shared_by_levels_of_equal_strength() -> None:
    plan = planned(2000, 3)
    variances = [mechanism.variance for mechanism in plan.mechanisms]
    assert max(variances) <= 1.15 * min(variances)
    pairs = itertools.combinations(plan.mechanisms, 2)
    assert all(a.guarantee.epsilon == b.guarantee.epsilon for a, b in pairs)
