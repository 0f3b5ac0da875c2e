"""Simulated counters: one by one and all at once are the same thing, errors keep their bounds, exponents are right."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.continual import CounterPlan, Tree, Weights, counter
from croupier.noise import Noise, secure, seeded
from croupier.protocols import SumMechanism, laplace
from croupier.protocols.sums.encoding import encode
from croupier.simulation.counting import CountingError, DoublingSum, TreeSum, encoded_sums, mean_squares
from croupier.simulation.streams import bernoulli_stream, hard_stream

LAX = {"epsilon": 1.5, "delta": 1e-3}
PUBLISHED = {"epsilon": 0.9, "delta": 1e-3, "constants": "published"}


class Halfway:
    """Words of one half each: a fraction above one half is rounded up, another one down."""

    def words(self, count: int) -> np.ndarray:
        return np.full(count, 2**63, dtype=np.uint64)


class Script:
    """Stands in for a noise: the same whole numbers in the same order whatever the source, one after the other."""

    def __init__(self, noise: Noise, size: int, seed: int, shift: float) -> None:
        self.noise, self.size, self.generator = noise, size, np.random.default_rng(seed)
        self.centre = round(noise.mean + shift * noise.std)
        self.drawn = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.noise, name)

    def sample(self, size: int | tuple[int, ...], source: object) -> np.ndarray:
        shape = size if isinstance(size, tuple) else (size,)
        count = math.prod(shape)
        self.drawn += count
        if not self.size:
            return np.full(shape, self.centre)
        return np.array(
            [self.centre + int(self.generator.integers(-self.size, self.size)) for _ in range(count)]
        ).reshape(shape)


def scripted(plan: CounterPlan, size: int, shift: float = 0.0) -> CounterPlan:
    """The same counter with every level's noise replaced by a script of its own, so many deviations off."""
    mechanisms = []
    for level, original in enumerate(plan.mechanisms):
        mechanism = SumMechanism.from_json(original.to_json())
        mechanism.__dict__["noise"] = Script(original.noise, size, level, shift)
        mechanisms.append(mechanism)
    return CounterPlan(plan.tree, tuple(mechanisms), plan.weights, plan.epsilon, plan.delta, plan.centred)


@cache
def planned(users: int, shufflers: int | None, **options: object) -> CounterPlan:
    return counter(users, shufflers, **options)  # type: ignore[arg-type]


def unit_vectors(count: int, dimension: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension))
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1), 1.0)[:, None]


def stream_for(plan: CounterPlan, seed: int = 3) -> np.ndarray:
    generator, values = np.random.default_rng(seed), plan.mechanisms[0].values
    if plan.mechanisms[0].coordinates:
        return unit_vectors(plan.users, plan.dimension, seed)
    if values.binary:
        return generator.choice([values.low, values.high], plan.users)
    return generator.uniform(values.low, values.high, plan.users)


CASES = {
    "bits, two levels": (1000, 2, LAX),
    "bits, one level": (333, 1, LAX),
    "bits, binary tree": (777, None, LAX),
    "bits, as published": (500, 3, PUBLISHED),
    "bits, published tree": (100, None, PUBLISHED),
    "numbers as shuffled levels": (500, 2, LAX | {"over": "shuffled-levels"}),
    "numbers under secure aggregation": (500, 3, {"epsilon": 1.5, "delta": 0, "over": "laplace"}),
    "numbers of a wider range": (500, 2, {"epsilon": 1.5, "delta": 0, "over": "laplace", "high": 5.0}),
    "numbers of both signs": (500, 2, {"epsilon": 1.5, "delta": 0, "over": "laplace", "low": -5.0, "high": 5.0}),
    "numbers over split-and-mix": (500, 2, LAX | {"over": "shuffled-laplace"}),
    "numbers, each user alone": (50, 1, {"epsilon": 1.5, "delta": 0, "over": "local-laplace", "smallest": 1}),
    "vectors": (500, 2, LAX | {"dimension": 3}),
    "vectors of one coordinate": (100, 1, LAX | {"dimension": 1}),
    "bits on a finer grid": (500, 2, LAX | {"over": "shuffled-levels", "binary": True, "precision": 4}),
    "bits on levels of different grids": (500, 2, LAX | {"over": "skellam", "binary": True}),
    "published bits on a grid": (
        500,
        2,
        {"epsilon": 0.9, "delta": 0, "over": "laplace", "binary": True, "constants": "published"},
    ),
}


def case(name: str) -> CounterPlan:
    users, shufflers, options = CASES[name]
    return planned(users, shufflers, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("part", [1.0, 0.55])
def test_one_by_one_and_all_at_once_are_the_same(name: str, part: float) -> None:
    """With the same noise for the same node and the same rounding, to the last digit; also for a stream cut short."""
    plan = case(name)
    values = stream_for(plan)[: int(part * plan.users)]
    streaming = TreeSum(scripted(plan, 1000), Halfway())
    whole = TreeSum(scripted(plan, 1000), Halfway()).run(values)
    one_by_one = np.array([streaming.update(value) for value in values])
    assert whole.shape == values.shape
    assert one_by_one == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_without_noise_the_estimates_are_the_prefix_sums_of_finished_nodes(name: str) -> None:
    plan = case(name)
    values = stream_for(plan, 5)
    estimates = TreeSum(scripted(plan, 0), Halfway()).run(values)
    exact = np.concatenate((np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)))
    t = np.arange(1, plan.users + 1)
    pending = t % plan.tree.smallest
    expected = exact[t - pending] + (pending * plan.middle).reshape(-1, *(1,) * (values.ndim - 1))
    # A value is rounded by half a level at most, and noise replaced by its mean's nearest whole number.
    finest = min(mechanism.precision for mechanism in plan.mechanisms)
    slack = 0.0 if plan.mechanisms[0].values.binary else 0.5 * plan.mechanisms[0].values.span / finest * plan.users
    assert np.abs(estimates - expected).max() <= slack + 1e-6


@pytest.mark.parametrize(
    "name", ["bits, two levels", "bits, binary tree", "numbers under secure aggregation", "vectors"]
)
def test_the_noise_of_every_finished_node_is_drawn_exactly_once(name: str) -> None:
    plan = case(name)
    values = stream_for(plan)
    for one_by_one in (True, False):
        quiet = scripted(plan, 9)
        running = TreeSum(quiet, seeded(1))
        if one_by_one:
            for value in values:
                running.update(value)
        else:
            running.run(values)
        drawn = [mechanism.__dict__["noise"].drawn for mechanism in quiet.mechanisms]
        assert drawn == [nodes * plan.dimension for nodes in plan.tree.nodes]


def test_a_whole_lowest_node_at_once_is_the_same_as_its_users_one_by_one() -> None:
    plan = case("bits, two levels")
    values, low = stream_for(plan), plan.tree.smallest
    one, many = TreeSum(scripted(plan, 50), Halfway()), TreeSum(scripted(plan, 50), Halfway())
    for start in range(0, plan.users - low + 1, low):
        block = values[start : start + low]
        last = [one.update(value) for value in block][-1]
        assert many.extend(block) == last
    many.update(1)
    with pytest.raises(InvalidParameter, match="block"):
        many.extend(values[:low])


def sampled_noise(plan: CounterPlan, estimates: np.ndarray) -> np.ndarray:
    """Errors of the lowest nodes of a sequential counter on zeros, in whole steps of its decoded number."""
    ends = estimates[plan.tree.smallest - 1 :: plan.tree.smallest]
    steps = np.diff(np.concatenate(([0.0], ends))) / plan.mechanisms[0].unit + plan.mechanisms[0].noise.mean
    return np.rint(steps).astype(np.int64)


SPREAD = np.random.default_rng(5).random((300, 7))


@pytest.mark.parametrize("precisions", [[1], [2, 3], [128, 363, 2897, 2**20], [128, 1]], ids=str)
@pytest.mark.parametrize(
    "values",
    [0.2 + 0.7 * SPREAD, SPREAD, 1e-9 * SPREAD, np.round(SPREAD * 4) / 4, np.ones((5, 3)), SPREAD[:0], SPREAD[:, 0]],
    ids=["within", "anywhere", "tiny", "quarters", "whole", "nobody", "numbers"],
)
def test_a_sum_of_encoded_values_is_that_of_each_from_the_same_draws(values: Any, precisions: list[int]) -> None:
    ours, theirs = seeded(9), seeded(9)
    found = encoded_sums(values, precisions, ours)
    assert found.dtype == np.int64
    assert np.array_equal(found, [encode(values, precision, theirs).sum(axis=0) for precision in precisions])
    assert np.array_equal(ours.words(3), theirs.words(3)), "and as many draws were taken"


def test_a_secure_source_is_asked_for_words() -> None:
    [found] = encoded_sums(SPREAD, [128], secure())
    assert (np.abs(found - 128 * SPREAD.sum(axis=0)) <= len(SPREAD)).all()


@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_noise_in_the_estimates_has_the_law_of_the_mechanism(one_by_one: bool) -> None:
    """Chi-square over the cells that are expected at least twenty times; false alarms below 1e-12."""
    from scipy.special import gammaincc

    users = 4_000 if one_by_one else 200_000
    tree = Tree(users=users, smallest=2, degree=users, levels=1)
    plan = CounterPlan(tree, (laplace(epsilon=1.0, binary=True).plan(2),), Weights.plain(1), 1.0, 0.0, centred=False)
    running = TreeSum(plan, seeded(4))
    estimates = np.array([running.update(0) for _ in range(users)]) if one_by_one else running.run(np.zeros(users))
    seen = sampled_noise(plan, estimates)
    cells = np.arange(-30, 31)
    expected = len(seen) * plan.mechanisms[0].noise.pmf(cells)
    kept = expected >= 20
    counted = np.array([(seen == cell).sum() for cell in cells])
    rest = len(seen) - counted[kept].sum(), len(seen) - expected[kept].sum()
    statistic = ((counted - expected)[kept] ** 2 / expected[kept]).sum() + (rest[0] - rest[1]) ** 2 / max(rest[1], 1.0)
    assert gammaincc(kept.sum() / 2.0, statistic / 2.0) > 1e-12


def test_rounding_is_fresh_at_every_level_and_unbiased() -> None:
    """A third is rounded to 0 or 1: sums of nodes on two levels differ, and both average a third; z below 7."""
    tree = Tree(users=20_000, smallest=2, degree=2, levels=2)
    mechanisms = tuple(laplace(epsilon=1.0, precision=1).plan(size) for size in tree.sizes)
    plan = scripted(CounterPlan(tree, mechanisms, Weights.plain(2), 2.0, 0.0, centred=False), 0)
    sums = TreeSum(plan, seeded(9))._level_sums(np.full(20_000, 1 / 3))
    for level, found in enumerate(sums):
        spread = math.sqrt(20_000 * 2 / 9)
        assert abs(found.sum() - 20_000 / 3) < 7 * spread, level
    children = sums[0].reshape(-1, 2).sum(axis=1)
    assert (children != sums[1]).mean() > 0.5
    # Independent: the covariance of both levels' node sums is zero, up to seven deviations.
    assert abs(np.mean((children - 4 / 3) * (sums[1] - 4 / 3))) < 7 * (8 / 9) / math.sqrt(len(children))


STREAMS = {
    "bernoulli": lambda users, shufflers: bernoulli_stream(users, 0.3, 1),
    "constant": lambda users, shufflers: np.ones(users),
    "hard": lambda users, shufflers: hard_stream(users, shufflers or 9, 0.9, 2),
}
RUNS, FAILURE = 60, 0.05
MOST = 24
"""More failures of 60 at β = 0.05 have probability below 1e-14; all tests of the bound together stay below 1e-12."""


@pytest.mark.parametrize("options", [LAX, PUBLISHED], ids=["tight", "published"])
@pytest.mark.parametrize("shufflers", [1, 2, 3, None])
def test_errors_are_within_the_bound(shufflers: int | None, options: dict[str, object]) -> None:
    plan = planned(1000, shufflers, **options)
    bound = plan.bound(FAILURE)
    for name, make in STREAMS.items():
        error = CountingError.measure(lambda run: TreeSum(plan, seeded(run)), make(1000, shufflers), RUNS)
        assert error.within(bound) >= 1 - MOST / RUNS, name
        # And it is a bound worth having: a quarter of it would not do.
        assert error.within(bound / 4) < 1.0, name


@pytest.mark.parametrize("name", ["numbers under secure aggregation", "numbers as shuffled levels", "vectors"])
def test_rounding_is_part_of_the_bound(name: str) -> None:
    plan = case(name)
    values = stream_for(plan, 8)
    error = CountingError.measure(lambda run: TreeSum(plan, seeded(run)), values, RUNS)
    assert error.within(plan.bound(FAILURE)) >= 1 - MOST / RUNS


def test_errors_that_pile_up_to_one_side_would_break_the_bound() -> None:
    """A counter whose every node is off by one deviation the same way is caught by the very same measurement."""
    plan = planned(1000, 1, **PUBLISHED)
    biased = scripted(plan, 0, shift=1.0)
    error = CountingError.measure(lambda run: TreeSum(biased, seeded(run)), np.ones(1000), 2)
    assert error.within(plan.bound(FAILURE)) == 0.0


def test_errors_are_measured_as_they_are_named() -> None:
    plan, values = planned(1000, 2, **LAX), bernoulli_stream(1000, 0.5, 6)
    found = CountingError.measure(lambda run: TreeSum(plan, seeded(run)), values, 3)
    errors = np.array([TreeSum(plan, seeded(run)).run(values) - np.cumsum(values) for run in range(3)])
    worst = np.abs(errors).max(axis=1)
    assert found.max_error_mean == pytest.approx(worst.mean())
    assert found.max_error_worst == pytest.approx(worst.max())
    squares = (errors**2).mean(axis=0)
    assert found.rms_error_largest == pytest.approx(np.sqrt(squares.max()))
    exact = mean_squares(plan, values)
    assert found.rms_error_worst == pytest.approx(np.sqrt(squares[exact >= 0.98 * exact.max()].mean()))
    assert found.rms_error_last == pytest.approx(np.sqrt((errors[:, -1] ** 2).mean()))
    assert found.within(float(np.median(worst))) == pytest.approx(2 / 3)


@pytest.mark.parametrize("constants", [LAX, PUBLISHED], ids=["tight", "published"])
def test_the_error_over_time_is_known_exactly(constants: dict[str, object]) -> None:
    """Over 400 runs the mean square at a time is right to 50 % with a chance of error below 1e-10 each."""
    plan, values = planned(600, 2, **constants), bernoulli_stream(500, 0.5, 7)
    errors = np.array([TreeSum(plan, seeded(run)).run(values) - np.cumsum(values) for run in range(400)])
    exact = mean_squares(plan, values)
    assert np.allclose((errors**2).mean(axis=0), exact, rtol=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("shufflers", [1, 2, 3])
def test_published_errors_grow_with_the_papers_exponents(shufflers: int) -> None:
    """The exact deviation at the worst time has the slope, and 200 runs have that deviation.

    The root mean square of 200 Gaussians is right to five percent. It leaves [0.65, 1.45] at any of a thousand times
    with probability below 1e-10, and a slope over six octaves leaves the exact one by 0.1, six deviations, below 1e-8.
    """
    sizes = [2**10, 2**13, 2**16]
    exact, measured = [], []
    for users in sizes:
        plan = planned(users, shufflers, **PUBLISHED)
        values = bernoulli_stream(users, 0.5, 1)
        error = CountingError.measure(lambda run, plan=plan: TreeSum(plan, seeded(run)), values, 200)
        exact.append(plan.noise_std)
        measured.append(error.rms_error_worst)
        assert 0.65 * exact[-1] < measured[-1] < 1.45 * exact[-1] + plan.pending_error
    slope, seen = (np.polyfit(np.log(sizes), np.log(found), 1)[0] for found in (exact, measured))
    assert slope == pytest.approx(1 / (2 * shufflers + 1), abs=0.04)
    assert seen == pytest.approx(slope, abs=0.1)


def small_plan(users: int) -> CounterPlan:
    """Three levels of Laplace noise, which takes no time to plan."""
    return counter(users, 2, epsilon=2.0, delta=0, over="laplace", binary=True, smallest=3)


@pytest.mark.parametrize("length", [1, 39, 40, 41, 120, 280, 300])
def test_without_knowing_the_length_one_by_one_and_all_at_once_agree(length: int) -> None:
    values = bernoulli_stream(length, 0.5, 3)
    streaming = DoublingSum(lambda users: scripted(small_plan(users), 20), Halfway(), first=40)
    whole = DoublingSum(lambda users: scripted(small_plan(users), 20), Halfway(), first=40)
    one_by_one = np.array([streaming.update(value) for value in values])
    assert streaming.users == length
    assert one_by_one == pytest.approx(whole.run(values), abs=1e-9)


def test_epochs_double_and_carry_the_sum_over() -> None:
    running = DoublingSum(lambda users: scripted(small_plan(users), 0), Halfway(), first=40)
    sizes = []
    for t in range(1, 281):
        estimate = running.update(1)
        sizes.append(running.epoch.users)
        in_epoch = t if t <= 40 else t - 40 if t <= 120 else t - 120
        # Users of an unfinished node count half, also those whom the end of an epoch left behind.
        left_behind = (40 % 3 if t > 40 else 0) + (80 % 3 if t > 120 else 0)
        assert estimate == t - 0.5 * (in_epoch % 3) - 0.5 * left_behind
    assert sorted(set(sizes)) == [40, 80, 160, 320]
    assert running.users == 280


def test_the_bound_of_all_epochs_shares_the_failures_among_them() -> None:
    running = DoublingSum(small_plan, seeded(1), first=40)
    shares = [0.1 * 6 / (math.pi * epoch) ** 2 for epoch in range(1, 4)]
    expected = sum(small_plan(size).bound(share) for size, share in zip((40, 80, 160), shares, strict=True))
    assert running.bound(0.1, users=280) == pytest.approx(expected)
    assert running.bound(0.1, users=121) == pytest.approx(expected)
    assert running.bound(0.1, users=120) < expected
    assert running.bound(0.1) == pytest.approx(small_plan(40).bound(shares[0]))
    assert sum(0.1 * 6 / (math.pi * epoch) ** 2 for epoch in range(1, 10**4)) < 0.1


def test_errors_over_all_epochs_are_within_their_bound() -> None:
    values = bernoulli_stream(700, 0.7, 5)
    counters = [DoublingSum(small_plan, seeded(run), first=40) for run in range(RUNS)]
    error = CountingError.measure(lambda run: counters[run], values, RUNS)
    assert error.within(counters[0].bound(FAILURE, users=700)) >= 1 - MOST / RUNS


BITS, NUMBERS, VECTORS = "bits, two levels", "numbers under secure aggregation", "vectors"
BAD_VALUES = [
    (BITS, 0.5, "0 or 1"),
    (BITS, 2, "0 or 1"),
    (BITS, math.nan, "0 or 1"),
    (BITS, math.inf, "0 or 1"),
    (BITS, "one", "0 or 1"),
    (BITS, None, "0 or 1"),
    (BITS, [1, 0], "0 or 1"),
    (BITS, np.array([1, 0]), "0 or 1"),
    (NUMBERS, 1.1, r"\[0, 1\]"),
    (NUMBERS, -1e-9, r"\[0, 1\]"),
    (NUMBERS, math.nan, r"\[0, 1\]"),
    (NUMBERS, "half", r"\[0, 1\]"),
    (NUMBERS, 0.5j, r"\[0, 1\]"),
    (VECTORS, [1.0, 1.0, 0.0], "norm at most 1"),
    (VECTORS, [math.nan, 0.0, 0.0], "norm at most 1"),
    (VECTORS, [0.0, 0.0], "3 coordinates"),
    (VECTORS, 0.5, "3 coordinates"),
    (VECTORS, np.zeros((2, 3)), "3 coordinates"),
    (VECTORS, [["a", "b", "c"]], "3 coordinates"),
    (VECTORS, ["a", "b", "c"], "3 coordinates|norm"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD_VALUES, ids=[f"{n}: {v!r}" for n, v, _ in BAD_VALUES])
def test_a_value_that_cannot_be_is_refused_where_it_enters(name: str, value: object, allowed: str) -> None:
    running = TreeSum(case(name), seeded(1))
    with pytest.raises(InvalidParameter, match=f"value = .*({allowed})"):
        running.update(value)
    assert running.server.users == 0
    assert len(running._pending) == 0
    assert running._left == running.users


BAD_STREAMS = [
    (BITS, [], r"values = \(0,\).*\(t,\)"),
    (BITS, np.ones(1001), r"values = \(1001,\).*at most 1000"),
    (BITS, np.ones((10, 1)), r"values = \(10, 1\).*\(t,\)"),
    (BITS, [0.5], "value = 0.5.*0 or 1"),
    (BITS, [*[1] * 999, 2.0], "value = 2.0.*0 or 1"),
    (BITS, [0, math.nan], "value = nan"),
    (BITS, ["a"], "value"),
    (BITS, [1, [2]], "value"),
    (NUMBERS, [0.5, 1.5], r"value = 1.5.*\[0, 1\]"),
    (VECTORS, np.zeros(5), r"values = \(5,\).*\(t, 3\)"),
    (VECTORS, np.zeros((5, 2)), "shape.*3 coordinates"),
    (VECTORS, np.ones((5, 3)), "norm 1.73.*at most 1"),
    ("vectors of one coordinate", np.zeros(5), r"values = \(5,\).*\(t, 1\)"),
]


@pytest.mark.parametrize(("name", "values", "found"), BAD_STREAMS, ids=[f"{n}: {f}" for n, _, f in BAD_STREAMS])
def test_a_stream_that_cannot_be_is_refused(name: str, values: object, found: str) -> None:
    with pytest.raises(InvalidParameter, match=found):
        TreeSum(case(name), seeded(1)).run(values)  # type: ignore[arg-type]


@pytest.mark.parametrize("block", [np.ones(3), np.ones((32, 2)), np.float64(1.0), [0.5] * 32])
def test_a_block_that_is_no_lowest_node_is_refused_and_changes_nothing(block: object) -> None:
    running = TreeSum(case(BITS), seeded(1))
    with pytest.raises(InvalidParameter, match="block|value"):
        running.extend(block)  # type: ignore[arg-type]
    assert running._left == running.users
    assert running.server.users == 0


def test_more_users_than_planned_are_refused() -> None:
    running = TreeSum(small_plan(12), seeded(1))
    for _ in range(12):
        running.update(1)
    with pytest.raises(InvalidParameter, match="users = 13 .*at most 12, as planned"):
        running.update(1)


@pytest.mark.parametrize("values", [5.0, [], ["a"], [[1.0]], [0.5]])
def test_a_stream_of_unknown_length_is_checked_too(values: object) -> None:
    with pytest.raises(InvalidParameter, match="value"):
        DoublingSum(small_plan, seeded(1), first=40).run(values)  # type: ignore[arg-type]


def test_a_first_epoch_must_have_users() -> None:
    with pytest.raises(InvalidParameter, match="first = 1 "):
        DoublingSum(small_plan, seeded(1), first=1)


def test_a_simulated_counter_holds_one_number_a_level_and_the_open_node() -> None:
    plan = planned(1000, None, **LAX)
    running = TreeSum(plan, seeded(1))
    for _ in range(1000):
        running.update(1)
        assert len(running._pending) < plan.tree.smallest
        assert running._sums.size == running.memory_nodes == plan.shufflers
