"""Counters whose batches cannot all be read: what they say without the nodes left out, and that their bounds hold."""

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.counters import (
    TREES,
    Node,
    bare_plan,
    bare_vector_plan,
    finished_maximal,
    nodes_of,
    noiseless,
    releases_due,
    span,
)
from croupier.checks import InvalidParameter
from croupier.continual import Counter, CounterPlan, Tree, Weights, counter
from croupier.noise import seeded

MANY = settings(derandomize=True, deadline=None, max_examples=60)
CASES = {
    "seed": st.integers(0, 10**6),
    "tree": st.sampled_from(TREES),
    "share": st.sampled_from([0.05, 0.3, 0.7, 1.0]),
    "weighed": st.booleans(),
    "centred": st.booleans(),
}


def plan_of(tree: Tree, weighed: bool, centred: bool) -> CounterPlan:
    weights = Weights.best(tree.degree, [1.0] * tree.levels) if weighed else None
    return bare_plan(tree, weights, centred=centred)


def some_of(tree: Tree, share: float, seed: int) -> frozenset[Node]:
    generator = np.random.default_rng(seed)
    return frozenset(node for node in nodes_of(tree) if generator.random() < share)


class Reading:
    """The plain reading: every node by its definition, from the list of numbers that are there."""

    def __init__(self, plan: CounterPlan, numbers: dict[Node, float]) -> None:
        self.plan, self.numbers = plan, numbers

    def children(self, node: Node) -> list[Node]:
        level, place = node
        degree = self.plan.tree.degree
        return [(level - 1, place * degree + child) for child in range(degree)] if level else []

    def unknown(self, node: Node) -> int:
        """Users of the node of whom nothing is known."""
        if node in self.numbers:
            return 0
        below = self.children(node)
        return sum(self.unknown(child) for child in below) if below else self.plan.tree.smallest

    def weight(self, node: Node) -> float:
        if node not in self.numbers:
            return 0.0
        whole = not any(self.unknown(child) for child in self.children(node))
        return self.plan.weights.own[node[0]] if whole else 1.0

    def estimate(self, node: Node) -> float:
        """Its own number and its children's as weighed; a lowest node without a number is its users in the middle."""
        if not node[0]:
            return self.numbers.get(node, self.plan.tree.smallest * self.plan.middle)
        weight, below = self.weight(node), sum(self.estimate(child) for child in self.children(node))
        return weight * self.numbers.get(node, 0.0) + (1.0 - weight) * below

    def cumulant(self, node: Node, slopes: np.ndarray) -> np.ndarray:
        """log E e^{l·noise} of the estimate, without any table."""
        weight = self.weight(node)
        below = [self.cumulant(child, (1.0 - weight) * slopes) for child in self.children(node) if weight < 1.0]
        own = self.plan.own_cumulant(node[0], weight * slopes) if weight else np.zeros_like(slopes)
        return own + sum(below, np.zeros_like(slopes))

    def changed(self, node: Node) -> Iterator[tuple[Node, float]]:
        """Where the estimate is not as planned, as far down as it is looked at."""
        weight = self.weight(node)
        if weight != self.plan.weights.own[node[0]]:
            yield node, weight
        for child in self.children(node) if weight < 1.0 else ():
            yield from self.changed(child)


def steps(
    plan: CounterPlan, left_out: frozenset[Node], numbers: dict[Node, int], backwards: bool = False
) -> Iterator[Counter]:
    """The counter after every user; numbers are whole sums, with any noise in them."""
    running = Counter(plan)
    for _ in range(plan.users):
        running.arrive()
        due = list(releases_due(running))
        for node, number, mechanism in reversed(due) if backwards else due:
            if node in left_out:
                running.leave_out(number)
            else:
                running.release(number, noiseless(mechanism, numbers.get(node, 0)))
        yield running


def random_numbers(tree: Tree, seed: int) -> dict[Node, int]:
    generator = np.random.default_rng(seed + 1)
    return {node: int(generator.integers(-20, 60)) for node in nodes_of(tree)}


@given(**CASES)
@MANY
def test_the_estimate_is_that_of_the_plain_reading(seed, tree, share, weighed, centred) -> None:
    plan, left_out, numbers = plan_of(tree, weighed, centred), some_of(tree, share, seed), random_numbers(tree, seed)
    reading = Reading(plan, {node: float(number) for node, number in numbers.items() if node not in left_out})
    for running in steps(plan, left_out, numbers, backwards=bool(seed % 2)):
        prefix = finished_maximal(tree, running.users)
        pending = running.users % tree.smallest
        expected = sum(reading.estimate(node) for node in prefix) + pending * plan.middle
        assert running.estimate == pytest.approx(expected, abs=1e-9)
        assert running.left_out == sum(reading.unknown(node) for node in prefix)
        assert running.summed == running.users - pending - running.left_out


@given(**CASES)
@MANY
def test_without_noise_it_errs_by_no_more_than_the_users_of_whom_nothing_is_known(
    seed, tree, share, weighed, centred
) -> None:
    plan, left_out = plan_of(tree, weighed, centred), some_of(tree, share, seed)
    bits = np.random.default_rng(seed).integers(0, 2, tree.users) if seed % 3 else np.full(tree.users, seed % 2)
    sums = {node: int(bits[span(tree, node).start : span(tree, node).stop].sum()) for node in nodes_of(tree)}
    worst = 0.5 if centred else 1.0
    assert plan.unknown_error == worst
    for running in steps(plan, left_out, sums):
        unknown = running.left_out + running.users % tree.smallest
        assert abs(running.estimate - bits[: running.users].sum()) <= worst * unknown + 1e-9


def test_an_upper_node_repairs_the_hole_below_it_and_a_node_without_a_number_is_its_children() -> None:
    """Users 0 to 7 in lowest nodes of two: the second is left out, then the upper node of the last four."""
    plan = bare_plan(TREES[3], Weights((1.0, 0.75)), centred=True)
    sums = {(0, 0): 2, (0, 1): 1, (1, 0): 3, (0, 2): 0, (0, 3): 2, (1, 1): 1}
    at = {t: (c.estimate, c.left_out) for t, c in enumerate(steps(plan, frozenset({(0, 1), (1, 1)}), sums), start=1)}
    assert at[2] == (2.0, 0)
    # Before the upper node has its own number the hole counts as the middle; here both end with user 4.
    assert at[4] == (3.0, 0)
    assert at[6] == (3.0, 0)
    assert at[8] == (5.0, 0)
    shallow = bare_plan(Tree(users=8, smallest=2, degree=4, levels=1), centred=True)
    at = {t: (c.estimate, c.left_out) for t, c in enumerate(steps(shallow, frozenset({(0, 1)}), sums), start=1)}
    assert (at[3], at[4], at[6], at[8]) == ((2.5, 0), (3.0, 2), (3.0, 2), (5.0, 2))


def test_vectors_without_a_node_are_summed_coordinate_by_coordinate() -> None:
    plan = bare_vector_plan(Tree(users=160, smallest=20, degree=2, levels=3), 3)
    generator = np.random.default_rng(5)
    left_out = {(0, 1), (1, 1), (2, 1), (0, 6)}
    running, numbers = Counter(plan), {}
    for t in range(20, 161, 20):
        running.arrive(20)
        for node, number, mechanism in list(releases_due(running)):
            if node in left_out:
                running.leave_out(number)
                continue
            decoded = tuple(generator.integers(0, mechanism.users * mechanism.precision, 3).tolist())
            numbers[node] = mechanism.estimate(decoded)
            running.release(number, decoded)
        readings = [Reading(plan, {node: one[axis] for node, one in numbers.items()}) for axis in range(3)]
        expected = [sum(reading.estimate(node) for node in finished_maximal(plan.tree, t)) for reading in readings]
        assert running.estimate == pytest.approx(expected, abs=1e-9)
        low, high = running.interval(0.1)
        assert (high - low) / 2 == pytest.approx([running.bound(0.1)] * 3)


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_what_it_remembers_does_not_grow_with_the_nodes_left_out(tree: Tree) -> None:
    for running in steps(plan_of(tree, True, True), some_of(tree, 0.5, 3), {}):
        assert running._totals.size == len(running._unknown) == tree.levels
        assert len(running._waiting) == 0
        if running._noise is not None:
            assert running._noise.cumulants.shape == running.plan.chernoff.nodes.shape
            assert len(running._noise._own) <= 3 * tree.levels


def test_only_a_full_batch_is_left_out_and_a_refusal_changes_nothing() -> None:
    running = Counter(bare_plan(TREES[3]))
    running.arrive(1)
    for batch in (0, 1, 7, -1, "0", None):
        with pytest.raises(InvalidParameter, match=r"batch = .* a full one: \[\]"):
            running.leave_out(batch)
    running.arrive(1)
    running.leave_out(0)
    with pytest.raises(InvalidParameter, match="batch = 0"):
        running.leave_out(0)
    with pytest.raises(InvalidParameter, match="batch = 0"):
        running.release(0, 1)
    assert (running.left_out, running.summed, [batch.number for batch in running.open]) == (2, 0, [2, 1])


# The bound.


@cache
def tight(users: int = 64, shufflers: int | None = 3, **options: object) -> CounterPlan:
    return counter(users, shufflers, **{"epsilon": 1.5, "delta": 1e-3, "smallest": 2} | options)


PLANS = {
    "tight": lambda: tight(),
    "tight, binary tree": lambda: tight(50, None),
    "real values": lambda: tight(over="laplace", delta=0, smallest=4, high=3.0),
    "values of both signs": lambda: tight(over="laplace", delta=0, smallest=4, low=-5.0, high=5.0),
    "published": lambda: tight(64, 2, epsilon=0.9, constants="published", smallest=4),
    "one level": lambda: tight(64, 1),
    "vectors": lambda: tight(160, 2, dimension=2, smallest=20),
}
EACH = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


def bounds_of(plan: CounterPlan, left_out: frozenset[Node], failure: float) -> dict[int, tuple[float, int]]:
    """After each finished lowest node, the stated bound without what unknown users add, and those."""
    found, running = {}, Counter(plan)
    while running.room >= plan.tree.smallest:
        running.arrive(plan.tree.smallest)
        for node, number, mechanism in list(releases_due(running)):
            if node in left_out:
                running.leave_out(number)
            else:
                running.release(number, (0,) * plan.dimension if mechanism.coordinates else 0)
        unknown = (plan.tree.smallest - 1 + running.left_out) * plan.unknown_error
        found[running.users] = (running.bound(failure) - unknown, running.left_out)
    return found


def chance(cumulant: np.ndarray, slopes: np.ndarray, alpha: float) -> float:
    """Chernoff's bound on the chance of an error above alpha, in one prefix."""
    return 2.0 * math.exp(float(np.min(cumulant - slopes * (alpha + 1e-9))))


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("seed", range(3))
def test_the_bounds_of_all_times_hold_together(plan, seed: int) -> None:
    """Added over all prefixes, the chances that follow from exact cumulants are within what is allowed."""
    plan, failure = plan(), 0.05
    left_out = some_of(plan.tree, (0.05, 0.2, 0.6)[seed], seed)
    reading, slopes = Reading(plan, dict.fromkeys(set(nodes_of(plan.tree)) - left_out, 0.0)), plan.chernoff.slopes
    total = 0.0
    for users, (deviation, unknown) in bounds_of(plan, left_out, failure).items():
        prefix = finished_maximal(plan.tree, users)
        assert unknown == sum(reading.unknown(node) for node in prefix)
        assert deviation >= plan.deviation(failure, directions=plan.dimension)
        total += plan.dimension * chance(sum(reading.cumulant(node, slopes) for node in prefix), slopes, deviation)
    assert 0.0 < total <= failure


@pytest.mark.parametrize("seed", range(4))
def test_the_cumulant_behind_the_bound_is_that_of_the_noise_really_summed(seed: int) -> None:
    """Never below the exact one, and less than a hundredth above it, but at the table's end, where no slope is best."""
    plan = tight(50, None)
    left_out = some_of(plan.tree, 0.2, seed)
    reading = Reading(plan, dict.fromkeys(set(nodes_of(plan.tree)) - left_out, 0.0))
    for running in steps(plan, left_out, {}):
        exact = [reading.cumulant(node, plan.chernoff.slopes) for node in finished_maximal(plan.tree, running.users)]
        if running._noise is not None and exact:
            kept = running._noise.cumulants.sum(axis=0)
            assert np.all(kept >= sum(exact) * (1.0 - 1e-9) - 1e-12)
            assert np.all((kept <= sum(exact) * 1.01)[100:])


def test_a_prefix_keeps_its_share_of_the_failures() -> None:
    """Where only the best slope counts, more noise adds what its cumulant has more than the planned one, over l."""
    plan, odds = tight(), 20.0
    chernoff = plan.chernoff
    least = int(np.argmin(chernoff._exponents(odds) / chernoff.slopes))
    none = np.zeros((plan.tree.levels, 2), dtype=np.int64)
    for finished in range(plan.tree.nodes[0] + 1):
        planned = sum(n * one for n, one in zip(plan.tree.siblings(finished), chernoff.nodes[:, least], strict=True))
        cumulant = np.full_like(chernoff.slopes, np.inf)
        cumulant[least] = planned + 1.5
        found = chernoff.changed(odds, finished, cumulant, none)
        assert found == pytest.approx(chernoff.deviation(odds) + 1.5 / chernoff.slopes[least])


def test_the_bounds_hold_together_for_every_choice_of_nodes() -> None:
    """Whoever leaves nodes out may see all noise first: chances add up over all prefixes and all that may be shown."""
    plan, failure = tight(16, 2, smallest=4), 0.05
    assert (plan.tree.nodes, len(nodes_of(plan.tree))) == ((4, 2), 6)
    seen: dict[tuple[object, ...], float] = {}
    for size in range(7):
        for left_out in map(frozenset, itertools.combinations(nodes_of(plan.tree), size)):
            reading = Reading(plan, dict.fromkeys(set(nodes_of(plan.tree)) - left_out, 0.0))
            for users, (deviation, _) in bounds_of(plan, left_out, failure).items():
                prefix = sorted(finished_maximal(plan.tree, users))
                shown = tuple(change for node in prefix for change in reading.changed(node))
                cumulant = sum(reading.cumulant(node, plan.chernoff.slopes) for node in prefix)
                seen[users, shown] = chance(cumulant, plan.chernoff.slopes, deviation)
    as_planned = sum(one for (_, shown), one in seen.items() if not shown)
    assert len(seen) > 30
    assert as_planned <= failure
    assert 0.0 < sum(seen.values()) <= 1.1 * failure


def test_errors_stay_within_the_bound_even_if_the_worst_nodes_are_left_out() -> None:
    """20,000 runs at β = 0.2, each with the worst of 64 choices: with the probability allowed, 0.22, more than 4,770
    failures would be a false alarm once in 10⁹ suites. A bound of half the size is caught.
    """
    plan, failure, runs, source = tight(16, 2, smallest=4), 0.2, 20_000, seeded(11)
    noise = {
        node: (plan.mechanisms[node[0]].noise.sample((runs,), source) - plan.mechanisms[node[0]].noise.mean)
        * plan.mechanisms[node[0]].unit
        for node in nodes_of(plan.tree)
    }
    beyond, far = np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    for size in range(7):
        for left_out in map(frozenset, itertools.combinations(nodes_of(plan.tree), size)):
            kept = {node: one for node, one in noise.items() if node not in left_out}
            reading = Reading(plan, kept)
            for users, (deviation, unknown) in bounds_of(plan, left_out, failure).items():
                parts = [reading.estimate(node) for node in finished_maximal(plan.tree, users)]
                # The middle of those of whom nothing is known is no noise.
                error = np.abs(sum(parts) - unknown * plan.middle)
                beyond |= error > deviation + 1e-9
                far |= error > 0.5 * deviation
    assert beyond.sum() <= 4770
    assert far.sum() > 4770


@EACH
def test_while_nothing_is_left_out_the_bound_is_the_plans(plan) -> None:
    plan = plan()
    running = Counter(plan)
    while running.room >= plan.tree.smallest:
        assert running.bound(0.05) == plan.bound(0.05)
        running.arrive(plan.tree.smallest)
        # The users of a full node that waits are one more than those of an unfinished one.
        assert running.bound(0.05) == pytest.approx(plan.bound(0.05) + plan.unknown_error)
        for _, number, mechanism in list(releases_due(running)):
            running.release(number, (5,) * plan.dimension if mechanism.coordinates else 5)
    assert running.bound(0.05) == plan.bound(0.05)
    low, high = running.interval()
    assert high == pytest.approx(running.estimate + plan.bound(0.05))
    assert low == pytest.approx(running.estimate - plan.bound(0.05))


def test_a_published_counter_is_as_planned_again_once_the_hole_is_repaired() -> None:
    """Plain weights take an upper node's own sum alone, whatever became of its children."""
    plan = PLANS["published"]()
    bounds = bounds_of(plan, frozenset({(0, 0)}), 0.05)
    whole = bounds_of(plan, frozenset(), 0.05)
    repaired = [users for users in bounds if users >= plan.tree.sizes[1]]
    assert bounds[plan.tree.smallest][1] == plan.tree.smallest
    assert all(bounds[users] == whole[users] for users in repaired)


def test_a_wider_interval_for_more_nodes_left_out_and_for_fewer_failures() -> None:
    plan = tight()
    sets = [frozenset(node for node in nodes_of(plan.tree) if node[1] % every == 1) for every in (9, 5, 2)]
    ends = [bounds_of(plan, one, 0.05)[64] for one in [frozenset(), *sets]]
    assert [deviation for deviation, _ in ends[:2]] == sorted(deviation for deviation, _ in ends[:2])
    running = list(steps(plan, sets[1], {}))[-1]
    bounds = [running.bound(failure) for failure in (1e-9, 1e-3, 0.1, 0.9)]
    assert bounds == sorted(bounds, reverse=True)
    for failure in (0, 1, "often", math.nan):
        with pytest.raises(InvalidParameter, match="failure"):
            running.bound(failure)


def test_a_bound_below_the_chance_of_a_wrap_around_stays_infinite() -> None:
    plan = tight(64, 2, over="laplace", delta=0, smallest=4)
    wraps = sum(n * m.wrap_probability for n, m in zip(plan.tree.nodes, plan.mechanisms, strict=True))
    running = list(steps(plan, frozenset({(0, 1), (1, 1)}), {}))[-1]
    assert running.bound(0.5 * wraps) == math.inf
    assert running.bound(2.0 * wraps) < math.inf
