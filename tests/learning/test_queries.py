"""The statistical-query route: rounding that most users share, and programs that learn from rounded answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.learners import WORLDS
from croupier.checks import InvalidParameter
from croupier.learning import DecisionListQueries, QueryBallot, Samples, Seed, SeparatorQueries, agreement
from croupier.learning.cube import decision_tables
from croupier.learning.queries import RandomizedQueries, rounded, steps
from croupier.learning.query_lists import DecisionList, ListProgram
from croupier.learning.query_separators import Separator, SeparatorProgram, whole_margin

MEANS = np.asarray([-1.0, -0.999, -0.5, -0.03, 0.0, 0.01, 0.2, 1 / 3, 0.77, 1.0])
OFFSETS = (np.arange(10_000) + 0.5) / 10_000


def law(mean: float, count: int, rounding: Callable[..., np.ndarray] = rounded) -> dict[int, float]:
    """The distribution of a rounded answer over the shared offset, to 1e-4."""
    values, counts = np.unique(rounding(np.full(len(OFFSETS), mean), count, OFFSETS), return_counts=True)
    return {int(value): part / len(OFFSETS) for value, part in zip(values, counts, strict=True)}


def is_unbiased_and_near(rounding: Callable[..., np.ndarray], count: int) -> bool:
    """An answer is one of the two nearest points of the grid, and right on average."""
    for mean in MEANS.tolist():
        found = law(mean, count, rounding)
        if abs(sum(step * part for step, part in found.items()) / count - mean) > 1e-4:
            return False
        if any(abs(step / count - mean) >= 1 / count for step in found if step / count != mean):
            return False
    return True


@pytest.mark.parametrize("count", [3, 7, 30])
def test_answers_are_rounded_without_bias_on_the_whole_range(count: int) -> None:
    assert is_unbiased_and_near(rounded, count)
    assert law(1.0, count) == {count: 1.0}
    assert law(-1.0, count) == {-count: 1.0}
    assert law(0.0, count) == {0: 1.0}


def test_the_printed_formula_is_caught() -> None:
    def as_printed(means: np.ndarray, count: int, offsets: np.ndarray) -> np.ndarray:
        return (np.floor(means) + (offsets < means - np.floor(means))).astype(int)

    def on_the_printed_grid(means: np.ndarray, count: int, offsets: np.ndarray) -> np.ndarray:
        return np.clip(np.floor(count * means + offsets), 0, count).astype(int)

    assert not is_unbiased_and_near(as_printed, 7)
    assert not is_unbiased_and_near(on_the_printed_grid, 7)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=100)
@given(first=st.floats(-1, 1), gap=st.floats(-0.2, 0.2), count=st.integers(3, 40))
def test_users_differ_no_more_than_correlated_sampling_allows(first: float, gap: float, count: int) -> None:
    second = float(np.clip(first + gap, -1, 1))
    answers = [rounded(np.full(len(OFFSETS), mean), count, OFFSETS) for mean in (first, second)]
    differ = float(np.mean(answers[0] != answers[1]))
    laws = [law(mean, count) for mean in (first, second)]
    keys = sorted(set(laws[0]) | set(laws[1]))
    p, q = (np.asarray([found.get(key, 0.0) for key in keys]) for found in laws)
    apart = 0.5 * np.abs(p - q).sum()
    assert differ <= 2 * apart + 1e-3
    if np.floor(count * first) == np.floor(count * second):
        assert differ == pytest.approx(apart, abs=1e-3), "within a cell no strategy is better"
        assert differ <= 1 - agreement(p, q) + 1e-3


def test_the_number_of_steps_is_that_of_the_paper() -> None:
    assert [steps(tolerance) for tolerance in (1.0, 0.1, 0.3, 0.07)] == [3, 30, 10, 43]
    with pytest.raises(InvalidParameter, match="tolerance"):
        steps(0.0)


CORNERS = (np.arange(8)[:, None] >> np.arange(3)) & 1


@pytest.mark.parametrize("word", decision_tables(3).tolist())
def test_every_decision_list_is_learnt_from_true_means(word: int) -> None:
    labels = (np.asarray(word) >> np.arange(8)) & 1 == 1
    everything = Samples.equal(CORNERS, labels, 1)
    ballot = DecisionListQueries(tolerance=0.05).ballot(columns=3, seed=Seed.of(word), alpha=0.1, beta=0.1)
    rule = ballot.read(ballot.marks(everything)[0])
    assert (rule.predict(CORNERS) == labels).all()


@pytest.mark.parametrize("word", decision_tables(3, 2).tolist()[::3])
def test_lists_of_conjunctions_are_learnt_from_true_means(word: int) -> None:
    labels = (np.asarray(word) >> np.arange(8)) & 1 == 1
    queries = DecisionListQueries(tolerance=0.05, length=12, conjunction=2)
    ballot = queries.ballot(columns=3, seed=Seed.of(word), alpha=0.1, beta=0.1)
    rule = ballot.read(ballot.marks(Samples.equal(CORNERS, labels, 1))[0])
    assert (rule.predict(CORNERS) == labels).all()


def test_only_conjunctions_learn_what_no_decision_list_can() -> None:
    """If columns 0 and 1 agree then 1, else column 2: every single column tells nothing of the first part."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2, (20 * 2_000, 5))
    labels = (rows[:, 0] == rows[:, 1]) | (rows[:, 2] == 1)
    errors = {}
    for conjunction in (1, 2):
        ballot = DecisionListQueries(conjunction=conjunction).ballot(columns=5, seed=Seed.of(1), alpha=0.1, beta=0.1)
        marks = ballot.marks(Samples.equal(rows, labels, 20))
        kinds, counts = np.unique(marks, axis=0, return_counts=True)
        assert conjunction == 1 or counts.max() >= 18, "users agree where pure rules are left"
        errors[conjunction] = np.mean(ballot.read(kinds[counts.argmax()]).predict(rows) != labels)
    assert errors[2] == 0.0
    assert errors[1] >= 0.1


def test_conjunctions_cost_what_the_paper_says() -> None:
    queries = DecisionListQueries(tolerance=0.001, conjunction=2)
    assert queries.error_bound(columns=5, rules=5) == pytest.approx((10 + 40) * (5 * 4 / 3000 + 0.002) + 16 / 3000)
    program = queries.ballot(columns=30, seed=Seed.of(0), alpha=0.1, beta=0.1).program
    assert program.query((), np.zeros((1, 30)), np.zeros(1, dtype=bool)).shape == (1, 2 * (1 + 60 + 4 * 435))
    with pytest.raises(InvalidParameter, match="conjunction = 3"):
        DecisionListQueries(conjunction=3).ballot(columns=30, seed=Seed.of(0), alpha=0.1, beta=0.1)


@dataclass(frozen=True)
class BestOf:
    """A randomized algorithm: it asks for the edges of a few parities that its coins draw, and takes the best."""

    sets: tuple[int, ...]
    tolerance: float = 0.2

    @property
    def bits(self) -> int:
        return 8

    def start(self) -> int:
        return -1

    def finished(self, state: int) -> bool:
        return state >= 0

    def query(self, state: int, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        numbers = features.astype(int) @ (1 << np.arange(features.shape[1]))
        odd = np.stack([np.bitwise_count(numbers & chosen) % 2 == 1 for chosen in self.sets], axis=1)
        return np.where(odd == labels[:, None], 1.0, -1.0)

    def step(self, state: int, answers: np.ndarray) -> int:
        return self.sets[int(np.argmax(answers))]

    def write(self, state: int) -> np.ndarray:
        return ((state >> np.arange(8)) & 1).astype(np.uint8)

    def read(self, bits: np.ndarray) -> int:
        return int(bits.astype(int) @ (1 << np.arange(8)))


def best_of(columns: int, coins: Seed) -> BestOf:
    """Forty of the parities, by the coins."""
    return BestOf(tuple(int(word) for word in coins.words(np.arange(40)) % np.uint64(2**columns)))


def test_users_of_a_randomized_algorithm_share_its_coins() -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 2, (30 * 400, 5))
    labels = rows[:, [0, 3]].sum(axis=1) % 2 == 1
    samples = Samples.equal(rows, labels, 30)
    learner, found = RandomizedQueries(best_of), 0
    for seed in range(20):
        ballot = learner.ballot(columns=5, seed=Seed.of(seed), alpha=0.1, beta=0.1)
        assert ballot.program == learner.ballot(columns=5, seed=Seed.of(seed), alpha=0.1, beta=0.1).program
        votes = {ballot.read(row) for row in ballot.marks(samples)}
        if 0b01001 in ballot.program.sets:  # type: ignore[attr-defined]
            found += 1
            assert votes == {0b01001}, "the answer is clear, and all users see it"
    # The coins draw the right parity with probability 1 - (31/32)^40 = 0.72: all or none of 20 would be below 1e-2.
    assert 0 < found < 20
    programs = {learner.ballot(columns=5, seed=Seed.of(seed), alpha=0.1, beta=0.1).program for seed in range(20)}
    assert len(programs) == 20, "coins of their own would make every user run another program"


def test_a_noisy_list_is_learnt_within_its_noise() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (20_000, 6))
    clean = (rows[:, 0] == 1) | (rows[:, 1] == 0)
    noisy = clean ^ (rng.random(len(rows)) < 0.02)
    ballot = DecisionListQueries().ballot(columns=6, seed=Seed.of(1), alpha=0.1, beta=0.1)
    rule = ballot.read(ballot.marks(Samples.equal(rows, noisy, 1))[0])
    assert np.mean(rule.predict(rows) != clean) <= 0.05


def test_the_worst_case_of_a_list_is_stated_and_held() -> None:
    queries = DecisionListQueries(tolerance=0.001, length=20)
    assert queries.error_bound(columns=5, rules=5) == pytest.approx(2 * 5 * (5 * 4 / 3000 + 0.002) + 16 / 3000)
    rng = np.random.default_rng(1)
    for seed in range(5):
        # Rare literals first: the case that the bound is about.
        chance = rng.uniform(0.002, 0.6, 5)
        rows = (rng.random((50_000, 5)) < chance).astype(int)
        labels = np.select([rows[:, j] == 1 for j in range(5)], [j % 2 == 0 for j in range(5)], default=True)
        ballot = queries.ballot(columns=5, seed=Seed.of(seed), alpha=0.1, beta=0.1)
        rule = ballot.read(ballot.marks(Samples.equal(rows, labels, 1))[0])
        assert np.mean(rule.predict(rows) != labels) <= queries.error_bound(5, 5)


def test_whole_weights_always_have_a_margin() -> None:
    corners = 2 * ((np.arange(16)[:, None] >> np.arange(4)) & 1) - 1
    corners[:, 3] = 1  # the constant
    for weights in itertools.product(range(-2, 3), repeat=4):
        total = sum(map(abs, weights))
        if total:
            values, moved = corners @ np.asarray(weights), corners @ (2 * np.asarray(weights) + [0, 0, 0, 1])
            assert ((values >= 0) == (moved > 0)).all()
            size = 2 * sum(map(abs, weights[:3])) + abs(2 * weights[3] + 1)
            assert np.abs(moved).min() / size >= whole_margin(total)


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.evidence)])
def test_separators_are_learnt_with_no_margin_assumed(every: int) -> None:
    rows = (np.arange(8)[:, None] >> np.arange(3)) & 1
    queries = SeparatorQueries(tolerance=0.003, edge=0.004, scale=0.1, rounds=2_000, largest=255)
    for weights in list(itertools.product((-2, -1, 1, 2), repeat=3))[::every]:
        labels = (2 * rows - 1) @ np.asarray(weights) >= 0
        ballot = queries.ballot(columns=3, seed=Seed.of(1), alpha=0.1, beta=0.1)
        rule = ballot.read(ballot.marks(Samples.equal(rows, labels, 1))[0])
        error = np.mean(rule.predict(rows) != labels)
        assert error <= queries.error_bound(whole_margin(sum(map(abs, weights))))
        assert error == 0.0, "a bound below one corner in eight leaves no mistake"
        assert queries.error_bound(whole_margin(3)) < 1 / 8


SIGNS = 2.0 * ((np.arange(32)[:, None] >> np.arange(5)) & 1) - 1.0


@pytest.mark.parametrize(
    "weights", [(1, 1, 1, 1, 1), (3, 2, 2, 1, 1), (2, 2, 1, 0, 0), (1, -1, 1, 0, 0), (5, 1, 1, 1, 1)]
)
def test_separators_are_learnt_within_their_bound(weights: tuple[int, ...]) -> None:
    values = SIGNS @ np.asarray(weights)
    margin = np.abs(values).min() / np.abs(weights).sum()
    labels = values >= 0
    queries = SeparatorQueries(tolerance=0.02, edge=0.03, scale=0.2, rounds=400, largest=63)
    rows = (SIGNS > 0).astype(int)
    ballot = queries.ballot(columns=5, seed=Seed.of(1), alpha=0.1, beta=0.1)
    assert isinstance(ballot.program, SeparatorProgram)
    (state,) = ballot.states(Samples.equal(rows, labels, 1))
    wrong = np.mean(ballot.read(ballot.program.write(state)).predict(rows) != labels)
    assert queries.error_bound(margin) == pytest.approx(2 * (0.03 + 0.02) / margin)
    assert wrong <= min(queries.error_bound(margin), 0.07)


def test_every_move_of_a_separator_lowers_the_loss() -> None:
    labels = SIGNS @ np.asarray([3, 2, 2, 1, 1]) >= 0
    program = SeparatorProgram(5, SeparatorQueries(tolerance=0.01, edge=0.2, scale=0.5))
    rows, state, losses = (SIGNS > 0).astype(int), program.start(), []
    while not program.finished(state):
        margins = np.where(labels, 1, -1) * (SIGNS @ np.asarray(state[1][:-1]) + state[1][-1]) * 0.5
        losses.append(np.log1p(np.exp(-margins)).mean())
        means = program.query(state, rows, labels).mean(axis=0)
        state = program.step(state, rounded(means, steps(0.01), np.full(6, 0.5)))
    assert losses[0] == pytest.approx(np.log(2))
    assert (np.diff(losses) <= -(0.5 * 0.19 - 0.5**2 / 8)).all()


def test_a_separator_stops_at_the_largest_weight() -> None:
    program = SeparatorProgram(2, SeparatorQueries(largest=1))
    state = program.step((5, (1, 0, 0)), np.asarray([9, -8, 0]))
    assert state == (4, (1, -1, 0))
    assert program.step(state, np.asarray([9, -8, 1])) == (0, (1, -1, 0))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 8), st.booleans()), max_size=4, unique_by=lambda rule: rule[0]), st.booleans())
def test_a_list_survives_being_written_in_bits(rules: list[tuple[int, bool]], last: bool) -> None:
    program = ListProgram(columns=4, tolerance=0.1, length=5)
    state = (*rules, (0, last))
    assert program.read(program.write(state)) == DecisionList(state)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(st.integers(-7, 7), min_size=4, max_size=4))
def test_a_separator_survives_being_written_in_bits(weights: list[int]) -> None:
    program = SeparatorProgram(3, SeparatorQueries())
    assert program.read(program.write((0, tuple(weights)))) == Separator(tuple(weights))


@pytest.mark.parametrize("name", ["decision lists, queries", "separators, queries"])
def test_any_bits_are_some_rule(name: str) -> None:
    ballot = WORLDS[name].ballot(0)
    rows = WORLDS[name].draw(np.random.default_rng(0), 50)
    for seed in range(200):
        bits = np.random.default_rng(seed).integers(0, 2, ballot.bits).astype(np.uint8)
        assert ballot.read(bits).predict(rows).shape == (50,)


@pytest.mark.parametrize("name", ["decision lists, queries", "separators, queries"])
def test_a_users_answers_are_theirs_alone(name: str) -> None:
    world = WORLDS[name]
    samples = world.users(np.random.default_rng(1), 8)
    ballot = world.ballot(3)
    together = ballot.states(samples)
    alone = [ballot.states(samples.only(user, user + 1))[0] for user in range(8)]
    assert together == alone


def test_users_who_moved_in_another_order_meet_again() -> None:
    program = SeparatorProgram(2, SeparatorQueries())
    one = program.step(program.step(program.start(), np.asarray([9, 8, 0])), np.asarray([1, 8, 0]))
    other = program.step(program.step(program.start(), np.asarray([8, 9, 0])), np.asarray([8, 1, 0]))
    assert one == other


@pytest.mark.parametrize(
    "make",
    [
        lambda: DecisionListQueries(tolerance=0),
        lambda: DecisionListQueries(length=0),
        lambda: SeparatorQueries(edge=0),
        lambda: SeparatorQueries(rounds=0),
        lambda: SeparatorQueries().error_bound(0),
        lambda: WORLDS["separators, queries"].ballot(0).marks(Samples.of([[0, 1, 2, 0, 0]], [True])),
    ],
)
def test_programs_refuse_what_they_cannot_use(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()


def test_a_query_ballot_is_a_plain_value() -> None:
    made = [WORLDS["decision lists, queries"].ballot(1) for _ in range(2)]
    assert made[0] == made[1]
    assert isinstance(made[0], QueryBallot)
    assert made[0].bits == 6 * 8, "⌈log2(2·21)⌉ bits for each of eight rules"
