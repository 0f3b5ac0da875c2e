"""The server of a counter with scripted answers: which nodes it reads, when, and that its log is all it needs."""

import json
from dataclasses import replace

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
from croupier.continual import Counter, CounterPlan, Tree, Weights
from croupier.privacy import BudgetExceeded
from croupier.protocols import counted_messages, laplace

EACH = pytest.mark.parametrize("tree", TREES, ids=repr)
BEST = Weights.best(3, [1.0, 2.0, 5.0])


def bits_of(tree: Tree, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, tree.users)


def advance(counter: Counter, bits: np.ndarray, extra: dict[Node, int] | None = None, backwards: bool = False) -> None:
    """One user comes, and what is due is released: the exact sum, plus `extra` whole sums for chosen nodes."""
    counter.arrive()
    due = list(releases_due(counter))
    for node, number, mechanism in reversed(due) if backwards else due:
        users = span(counter.plan.tree, node)
        total = int(bits[users.start : users.stop].sum()) + (extra or {}).get(node, 0)
        counter.release(number, noiseless(mechanism, total))


@EACH
def test_without_noise_it_gives_the_exact_prefix_sums(tree: Tree) -> None:
    bits = bits_of(tree)
    counter = Counter(bare_plan(tree))
    for t in range(1, tree.users + 1):
        advance(counter, bits)
        assert counter.users == t
        assert counter.estimate == bits[: t - t % tree.smallest].sum()


@EACH
def test_users_of_the_unfinished_node_count_as_the_middle_when_centred(tree: Tree) -> None:
    bits = bits_of(tree, 2)
    counter = Counter(bare_plan(tree, centred=True))
    for t in range(1, tree.users + 1):
        advance(counter, bits)
        assert counter.estimate == bits[: t - t % tree.smallest].sum() + 0.5 * (t % tree.smallest)


def test_a_full_node_that_waits_for_its_release_counts_as_the_middle_too() -> None:
    """Nothing is known of its users yet, so the estimate must not fall by half a node for that moment."""
    counter = Counter(bare_plan(TREES[9], centred=True))
    counter.arrive(2)
    assert counter.estimate == 1.0
    counter.arrive(1)
    assert counter.estimate == 1.5


@EACH
def test_an_error_in_one_node_shows_exactly_while_the_node_is_in_the_prefix(tree: Tree) -> None:
    """Noise replaced by a thousand on one node at a time: the estimate is off by it where Definition 3.1 says."""
    for node in nodes_of(tree):
        bits = np.zeros(tree.users, dtype=np.int64)
        counter = Counter(bare_plan(tree))
        for t in range(1, tree.users + 1):
            advance(counter, bits, {node: 1000})
            assert counter.estimate == (1000.0 if node in finished_maximal(tree, t) else 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("tree", [TREES[7], TREES[9], Tree(users=97, smallest=2, degree=3, levels=3)], ids=repr)
def test_an_error_in_one_node_keeps_its_share_in_those_above(tree: Tree) -> None:
    """Weighed estimates: own·(sum of the node) + (1 - own)·(sum of its children), as seen from the top."""
    for node in nodes_of(tree):
        bits = np.zeros(tree.users, dtype=np.int64)
        counter = Counter(bare_plan(tree, BEST))
        for t in range(1, tree.users + 1):
            advance(counter, bits, {node: 1000})
            shares = 0.0
            for level, place in finished_maximal(tree, t):
                if level >= node[0] and span(tree, node).start in span(tree, (level, place)):
                    shares = BEST.own[node[0]] if node[0] else 1.0
                    for above in range(node[0] + 1, level + 1):
                        shares *= 1.0 - BEST.own[above]
            assert counter.estimate == pytest.approx(1000.0 * shares, abs=1e-9)


@EACH
def test_every_node_that_fills_is_released_exactly_once(tree: Tree) -> None:
    counter = Counter(bare_plan(tree))
    released: list[Node] = []
    for _ in range(tree.users):
        counter.arrive()
        for node, number, mechanism in list(releases_due(counter)):
            released.append(node)
            counter.release(number, noiseless(mechanism, 0))
    assert sorted(released) == sorted(nodes_of(tree))
    assert len(counter.shufflers.active) == 0


@EACH
def test_a_user_takes_part_in_at_most_one_node_of_every_level_and_only_in_those_that_fill(tree: Tree) -> None:
    counter = Counter(bare_plan(tree))
    nodes = nodes_of(tree)
    for user in range(tree.users):
        expected = [node[0] for node in nodes if user in span(tree, node)]
        assert [batch.shuffler for batch in counter.open] == expected
        assert len(expected) <= tree.levels
        advance(counter, np.zeros(tree.users, dtype=np.int64))


@EACH
def test_what_it_remembers_does_not_grow_with_the_users(tree: Tree) -> None:
    counter = Counter(bare_plan(tree))
    bits = bits_of(tree)
    for _ in range(tree.users):
        advance(counter, bits)
        shufflers = counter.shufflers
        assert counter._totals.size == tree.levels == counter.plan.memory_nodes
        assert len(counter._waiting) == 0
        assert len(shufflers.active) <= tree.levels
        assert len(shufflers.mechanisms) <= tree.levels
        assert len(shufflers._taken) <= tree.levels


@given(seed=st.integers(0, 10**6), which=st.sampled_from([t for t in TREES if t.levels > 1]))
@settings(derandomize=True, deadline=None, max_examples=20)
def test_releases_of_one_moment_may_come_in_any_order(seed: int, which: Tree) -> None:
    bits, weights = bits_of(which, seed), Weights.best(which.degree, [1.0] * which.levels)
    generator = np.random.default_rng(seed)
    noise = {node: int(generator.integers(-9, 9)) for node in nodes_of(which)}
    forth, back = Counter(bare_plan(which, weights)), Counter(bare_plan(which, weights))
    for _ in range(which.users):
        advance(forth, bits, noise)
        advance(back, bits, noise, backwards=True)
        assert forth.estimate == back.estimate


@EACH
def test_many_users_at_once_are_as_good_as_one_by_one(tree: Tree) -> None:
    bits = bits_of(tree, 4)
    one, many = Counter(bare_plan(tree)), Counter(bare_plan(tree))
    while many.users < tree.users:
        together = many.room
        many.arrive(together)
        for node, number, mechanism in list(releases_due(many)):
            users = span(tree, node)
            many.release(number, noiseless(mechanism, int(bits[users.start : users.stop].sum())))
        for _ in range(together):
            advance(one, bits)
        assert many.estimate == one.estimate
    assert many.shufflers.active == one.shufflers.active
    assert many.room == 0


def test_vectors_are_summed_coordinate_by_coordinate() -> None:
    plan = bare_vector_plan(Tree(users=100, smallest=20, degree=2, levels=2), 3)
    counter = Counter(plan)
    assert counter.estimate.tolist() == [0.0, 0.0, 0.0]
    answers: dict[Node, np.ndarray] = {}
    for t in range(20, 101, 20):
        counter.arrive(20)
        for node, number, mechanism in list(releases_due(counter)):
            # Zero vectors encode as half of the precision in every coordinate.
            steps = np.array([t, -t, 7]) * (1 + node[0])
            answers[node] = steps * mechanism.unit
            zero = mechanism.users * mechanism.precision // 2
            counter.release(number, tuple((zero + steps).tolist()))
        expected = sum(answers[node] for node in finished_maximal(plan.tree, t))
        assert counter.estimate == pytest.approx(expected)


def test_no_more_users_come_than_were_planned() -> None:
    counter = Counter(bare_plan(TREES[2]))
    counter.arrive(3)
    counter.release(0, 1)
    with pytest.raises(InvalidParameter, match="users = 8 .*at most 7, as planned"):
        counter.arrive(5)
    with pytest.raises(InvalidParameter, match="users = 4 .*at most 3"):
        counter.arrive(4)
    with pytest.raises(InvalidParameter, match="users = 0"):
        counter.arrive(0)
    assert counter.users == 3


@pytest.mark.parametrize("decoded", ["one", 1.5, None, (1,), (1, 2), float("nan")])
def test_a_wrong_answer_is_refused_and_changes_nothing(decoded: object) -> None:
    counter = Counter(bare_plan(TREES[2]))
    counter.arrive(3)
    with pytest.raises(InvalidParameter, match="decoded"):
        counter.release(0, decoded)  # type: ignore[arg-type]
    assert [batch.number for batch in counter.shufflers.full] == [0]
    counter.release(0, 2)
    assert counter.estimate == 2.0


@pytest.mark.parametrize("decoded", [5, (1, 2), (1, 2, 3, 4), (1, 2, 0.5)])
def test_a_vectors_answer_must_have_all_its_coordinates(decoded: object) -> None:
    counter = Counter(bare_vector_plan(Tree(users=20, smallest=20, degree=2, levels=1), 3))
    counter.arrive(20)
    with pytest.raises(InvalidParameter, match="decoded"):
        counter.release(0, decoded)  # type: ignore[arg-type]


def test_a_plan_whose_levels_cost_more_than_it_claims_lets_nobody_in() -> None:
    plan = replace(bare_plan(TREES[7]), epsilon=2.5)
    with pytest.raises(BudgetExceeded):
        Counter(plan).arrive()


def test_a_plan_survives_its_serial_form() -> None:
    for plan in (bare_plan(TREES[7], BEST, centred=True), bare_vector_plan(Tree(40, 20, 2, 2), 2)):
        again = CounterPlan.from_json(plan.to_json())
        assert again == plan
        assert again.to_json() == plan.to_json()
        assert again.bound(0.1) == plan.bound(0.1)


BROKEN = {
    "another version": {"version": 2},
    "no users": {"users": 0},
    "a tree that cannot be": {"levels": 9},
    "a level too few": {"mechanisms": []},
    "weights too few": {"weights": [1.0]},
    "a weight that is no number": {"weights": [1.0, None, 0.5]},
    "a weight that is a text": {"weights": [1.0, "half", 0.5]},
    "a weight above one": {"weights": [1.0, 1.5, 0.5]},
    "a lowest weight that is ignored": {"weights": [0.5, 0.5, 0.5]},
    "no epsilon": {"epsilon": None},
    "an epsilon that is none": {"epsilon": "one"},
    "a negative epsilon": {"epsilon": -1.0},
    "a delta of one": {"delta": 1.0},
    "centred by a text": {"centred": "yes"},
    "an unknown field": {"secret": 1},
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_a_plan_that_is_not_whole_is_refused(change: dict[str, object]) -> None:
    body = json.loads(bare_plan(TREES[7], BEST).to_json())
    with pytest.raises(InvalidParameter):
        CounterPlan.from_json(json.dumps(body | change))


@pytest.mark.parametrize("text", ["", "7", "[]", "{}", "null"])
def test_what_is_no_plan_at_all_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        CounterPlan.from_json(text)


def test_levels_must_fit_the_tree_and_speak_of_the_same_values() -> None:
    tree = TREES[3]
    plain = Weights.plain(2)
    small, large = (laplace(epsilon=1.0, binary=True).plan(size) for size in tree.sizes)
    with pytest.raises(InvalidParameter, match=r"mechanisms = \[4, 2\].*\(2, 4\)"):
        CounterPlan(tree, (large, small), plain, 2.0, 0.0, False)
    with pytest.raises(InvalidParameter, match="same values"):
        CounterPlan(tree, (small, laplace(epsilon=1.0).plan(4)), plain, 2.0, 0.0, False)
    with pytest.raises(InvalidParameter, match="weights"):
        CounterPlan(tree, (small, large), Weights.plain(3), 2.0, 0.0, False)


@pytest.mark.parametrize("side", ["over", "under"])
def test_counts_that_err_to_one_side_are_no_part_of_a_counter(side: str) -> None:
    """Their errors have a mean, which would pile up node by node while `bound` speaks of centred noise."""
    tree = Tree(users=64, smallest=32, degree=2, levels=1)
    mechanism = counted_messages(epsilon=1.0, delta=1e-4, side=side).plan(32)
    with pytest.raises(InvalidParameter, match="side|mechanisms"):
        CounterPlan(tree, (mechanism,), Weights.plain(1), 1.0, 1e-4, False)
