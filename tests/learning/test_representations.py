"""What every represented class keeps to, and what is particular to each."""

from __future__ import annotations

from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.checks import InvalidParameter
from croupier.learning import (
    Boxes,
    DecisionLists,
    Family,
    HashedPoints,
    Listed,
    Parities,
    Points,
    Samples,
    Seed,
    Thresholds,
    representation,
    thresholds,
)
from croupier.learning.cube import decision_tables, walsh_hadamard
from croupier.learning.thresholds import Grid

BITS = st.integers(0, 1)
FRACTION = st.integers(-2, 10).map(lambda k: k / 8)

FAMILIES: dict[str, tuple[Family, int, Any]] = {
    "points": (Points(6), 1, st.integers(0, 5)),
    "hashed points": (HashedPoints(slack=0.2, failure=0.1), 2, st.integers(0, 3)),
    "hashed points, several functions": (HashedPoints(slack=0.3, failure=0.05, functions=3), 1, st.integers(0, 9)),
    "thresholds": (Thresholds(cuts=9), 1, FRACTION),
    "thresholds, upward": (Thresholds(low=-1, high=1, cuts=5, direction="up"), 1, FRACTION),
    "thresholds, two columns": (Thresholds(cuts=5), 2, FRACTION),
    "intervals": (Boxes(cuts=6), 1, FRACTION),
    "boxes": (Boxes(cuts=4), 2, FRACTION),
    "decision lists": (DecisionLists(), 3, BITS),
    "parities": (Parities(), 4, BITS),
    "any list": (Listed((lambda x: x[:, 0] > 0.4, lambda x: x[:, 1] > x[:, 0], lambda x: x[:, 0] < 9)), 2, FRACTION),
}


@st.composite
def samples_of(draw: Any, columns: int, value: Any) -> Samples:
    sizes = draw(st.lists(st.integers(0, 7), min_size=1, max_size=6))
    rows = [[draw(value) for _ in range(columns)] for _ in range(sum(sizes))]
    labels = np.asarray([draw(st.booleans()) for _ in rows], dtype=bool)
    table = np.asarray(rows, dtype=np.float64).reshape(-1, columns)
    return Samples(table, labels, np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))


@pytest.mark.parametrize("name", FAMILIES)
@settings(derandomize=True, deadline=None, max_examples=20)
@given(data=st.data())
def test_mistakes_are_those_of_the_predictions(name: str, data: Any) -> None:
    family, columns, value = FAMILIES[name]
    samples = data.draw(samples_of(columns, value))
    listed = family.draw(columns, Seed.of(1))
    found = listed.mistakes(samples)
    assert found.shape == (samples.users, listed.size)
    for index in range(0, listed.size, max(1, listed.size // 40)):
        wrong = listed.predict(index, samples.features) != samples.labels
        assert found[:, index].tolist() == [wrong[samples.owner == user].sum() for user in range(samples.users)]
    assert (listed.errors(samples)[samples.sizes == 0] == 0).all(), "who has no samples finds nothing wrong"


@pytest.mark.parametrize("name", FAMILIES)
@settings(derandomize=True, deadline=None, max_examples=20)
@given(data=st.data())
def test_the_quick_vote_is_the_vote_that_looks_at_everything(name: str, data: Any) -> None:
    family, columns, value = FAMILIES[name]
    samples = data.draw(samples_of(columns, value))
    listed = family.draw(columns, Seed.of(1))
    times = np.log(Seed.of(2).exponentials(np.arange(listed.size)))
    expected = np.argmin(times + 5.0 * listed.errors(samples), axis=1)
    with pytest.MonkeyPatch.context() as patch:
        # Small chunks make every class take the way that it takes for long lists and many users.
        patch.setattr(thresholds, "CHUNK", 0)
        patch.setattr(representation, "CHUNK", 2 * listed.size)
        assert listed.votes(samples, times, 5.0).tolist() == expected.tolist()
    assert listed.votes(samples, times, 5.0).tolist() == expected.tolist()


@pytest.mark.parametrize("name", FAMILIES)
def test_every_hypothesis_can_be_read(name: str) -> None:
    family, columns, _ = FAMILIES[name]
    listed = family.draw(columns, Seed.of(1))
    words = [listed.describe(index) for index in range(listed.size)]
    assert len(set(words)) == listed.size


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    low=st.floats(-1e6, 1e6),
    span=st.floats(1e-3, 1e6),
    cuts=st.integers(2, 300),
    near=st.lists(st.tuples(st.integers(0, 299), st.integers(-2, 2)), max_size=20),
)
def test_codes_are_what_a_search_finds(low: float, span: float, cuts: int, near: list[tuple[int, int]]) -> None:
    grid = Grid(low, low + span, cuts)
    points = grid.points
    values = [points[k % cuts] for k, _ in near]
    for place, (_, steps) in enumerate(near):
        for _ in range(abs(steps)):
            values[place] = np.nextafter(values[place], np.inf * steps)
    tried = np.asarray([*values, *points, -1e308, 1e308, low + 0.37 * span])
    assert (grid.codes(tried) == np.searchsorted(points, tried, side="right")).all()


@pytest.mark.slow
def test_points_of_a_large_domain_cost_what_the_samples_cost() -> None:
    # 2^26 points would be half a gigabyte for each user if they were looked at one by one.
    listed = Points(2**22).draw(1, Seed.of(0))
    times = np.log(Seed.of(0).exponentials(np.arange(2**22)))
    rows = np.asarray([[5], [7], [5], [9]])
    votes = listed.votes(Samples.of(rows, rows[:, 0] == 5, groups=[0, 0, 1, 1]), times, 50.0)
    assert votes.tolist() == [5, 5]


def test_a_user_who_has_seen_every_point_still_votes() -> None:
    listed = Points(3).draw(1, Seed.of(0))
    samples = Samples.of([[0], [1], [2]], [False, True, False], groups=[0, 0, 0])
    assert listed.votes(samples, np.log([0.1, 0.2, 0.3]), 100.0).tolist() == [1]


@pytest.mark.parametrize("functions", [1, 5])
def test_hashed_points_represent_every_point(functions: int) -> None:
    # An (α, β)-probabilistic representation: but for a part β of the seeds some hypothesis errs by at most α. With 300
    # seeds and β = 0.2, more than 110 failures have a probability below 1e-10 even if seeds failed with β exactly.
    family = HashedPoints(slack=0.1, failure=0.2, functions=functions)
    rng = np.random.default_rng(3)
    weights = rng.dirichlet(np.full(400, 0.05))
    target, rows = int(np.argmax(weights)), np.arange(400.0)[:, None] * 1e9
    failed = 0
    for number in range(300):
        listed = family.draw(1, Seed.of(number))
        errors = []
        for function in range(functions):
            value = int(listed.hashes(function, rows)[target])
            says = listed.predict(function * listed.values + value, rows)
            errors.append(weights[says != (np.arange(400) == target)].sum())
        failed += min(errors) > family.slack
    assert failed <= 110
    assert listed.size == family.draw(7, Seed.of(0)).size, "the domain does not enter"


def test_the_published_number_of_hash_functions_gives_the_short_list() -> None:
    short = HashedPoints(slack=0.1, failure=2**-5, functions=5).draw(1, Seed.of(0))
    assert (short.values, short.size) == (20, 101), "⌈2/α⌉ values for log2(1/β) functions, and never"


def test_hashes_do_not_tell_the_two_zeros_apart() -> None:
    listed = HashedPoints().draw(2, Seed.of(1))
    assert (listed.hashes(0, np.asarray([[0.0, 1.0]])) == listed.hashes(0, np.asarray([[-0.0, 1.0]]))).all()


def test_decision_lists_are_all_and_only_decision_lists() -> None:
    def values(rules: tuple[tuple[int, int, int], ...], default: int) -> int:
        word = 0
        for corner in range(8):
            bits = [corner >> j & 1 for j in range(3)]
            answer = next((label for column, want, label in rules if bits[column] == want), default)
            word |= answer << corner
        return word

    written = {
        values(tuple(zip(order, wants, labels, strict=True)), default)
        for length in range(4)
        for order in permutations(range(3), length)
        for wants in product((0, 1), repeat=length)
        for labels in product((0, 1), repeat=length)
        for default in (0, 1)
    }
    assert set(decision_tables(3).tolist()) == written
    assert [len(decision_tables(k)) for k in (1, 2, 4)] == [4, 14, 1050]


@pytest.mark.parametrize("conjunction", [1, 2, 3])
def test_lists_of_conjunctions_are_those_that_can_be_peeled(conjunction: int) -> None:
    """A function is a k-decision list exactly if some term settles part of what is left, again and again."""
    corners = list(product((0, 1), repeat=3))
    conditions = [
        {
            place
            for place, corner in enumerate(corners)
            if all(corner[j] == want for j, want in zip(js, wants, strict=True))
        }
        for length in range(1, conjunction + 1)
        for js in combinations(range(3), length)
        for wants in product((0, 1), repeat=length)
    ]

    def peels(values: tuple[int, ...], left: frozenset[int]) -> bool:
        if len({values[place] for place in left}) <= 1:
            return True
        return any(
            peels(values, left - term)
            for term in conditions
            if term & left and len({values[place] for place in term & left}) == 1
        )

    # Corner number c of the room has column j in bit j; here the first column comes first.
    number = [sum(bit << j for j, bit in enumerate(corner)) for corner in corners]
    peeled = {
        sum(value << number[place] for place, value in enumerate(values))
        for values in product((0, 1), repeat=8)
        if peels(values, frozenset(range(8)))
    }
    assert set(decision_tables(3, conjunction).tolist()) == peeled


@pytest.mark.parametrize("conjunction", [1, 2])
def test_a_decision_list_is_described_by_itself(conjunction: int) -> None:
    listed = DecisionLists(conjunction).draw(3, Seed.of(0))
    corners = (np.arange(8)[:, None] >> np.arange(3)) & 1
    for index in range(listed.size):
        answers = [_evaluate(listed.describe(index), corner) for corner in corners.tolist()]
        assert answers == listed.predict(index, corners).astype(int).tolist()


def _evaluate(text: str, corner: list[int]) -> int:
    for rule in text.split(" else "):
        if not rule.startswith("if "):
            return int(rule)
        condition, label = rule.removeprefix("if ").split(" then ")
        if all(corner[int(word.split()[-1])] != word.startswith("not ") for word in condition.split(" and ")):
            return int(label)
    raise AssertionError(text)


def test_the_transform_is_its_definition() -> None:
    values = np.random.default_rng(0).integers(-5, 5, (3, 16)).astype(float)
    signs = np.asarray([[(-1) ** int(s & x).bit_count() for x in range(16)] for s in range(16)])
    assert (walsh_hadamard(values) == values @ signs.T).all()


@pytest.mark.parametrize(
    ("family", "columns", "row", "name"),
    [
        (Points(5), 1, [5], "point"),
        (Points(5), 1, [1.5], "point"),
        (DecisionLists(), 2, [0, 2], "feature"),
        (Parities(), 1, [0.5], "feature"),
    ],
)
def test_rows_outside_the_domain_are_refused(family: Family, columns: int, row: list[float], name: str) -> None:
    listed = family.draw(columns, Seed.of(0))
    with pytest.raises(InvalidParameter, match=name):
        listed.votes(Samples.of([row], [True]), np.zeros(listed.size), 1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Thresholds(cuts=1),
        lambda: Thresholds(low=1, high=1),
        lambda: Thresholds(direction="down"),
        lambda: Points(1),
        lambda: Points().draw(2, Seed.of(0)),
        lambda: Boxes(cuts=300).draw(3, Seed.of(0)),
        lambda: DecisionLists().draw(6, Seed.of(0)),
        lambda: Parities().draw(21, Seed.of(0)),
        lambda: HashedPoints(slack=0),
        lambda: Listed(()),
        lambda: Listed((len,), ("a", "b")),
        lambda: Samples.of([1, 2], [True, False]),
        lambda: Samples.of([[1], [2]], [True, False], groups=[1]),
        lambda: Samples.equal([[1], [2], [3]], [True, False, True], 2),
    ],
)
def test_what_cannot_be_listed_is_refused(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.5, 1.0, -2.0]), st.integers(0, 1)), max_size=20),
    wide=st.booleans(),
)
def test_distinct_rows_put_the_table_together_again(rows: list[tuple[float, ...]], wide: bool) -> None:
    table = np.asarray(rows, dtype=np.float64).reshape(-1, 3)
    if wide:
        # More values than 62 bits can number at once.
        table = np.concatenate([table + 1.5**k for k in range(30)], axis=1)
    samples = Samples.of(table, np.zeros(len(table), dtype=bool))
    found, place = samples.distinct
    assert (found[place] == table).all()
    assert len(np.unique(found, axis=0)) == len(found)
    assert (np.lexsort(found.T[::-1]) == np.arange(len(found))).all(), "in an order that other rows do not change"
