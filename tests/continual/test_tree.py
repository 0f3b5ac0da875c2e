"""Trees against brute force: which nodes make a prefix, what the worst one costs, and how nodes are best combined."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cases.counters import TREES, finished_maximal, left_siblings, nodes_of, span
from croupier.checks import InvalidParameter
from croupier.continual import Tree, Weights, binary_tree, prefixes, shuffler_tree
from croupier.continual.tree import Floats

EACH = pytest.mark.parametrize("tree", TREES, ids=repr)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    low, degree, levels = draw(st.integers(1, 6)), draw(st.integers(2, 6)), draw(st.integers(1, 4))
    smallest = low * degree ** (levels - 1)
    assume(smallest <= 400)
    return Tree(draw(st.integers(smallest, 4 * smallest + 7)), low, degree, levels)


def values_of(tree: Tree, seed: int, shape: tuple[int, ...] = ()) -> list[Floats]:
    """Whole numbers on every node that fills, so that sums are exact."""
    generator = np.random.default_rng(seed)
    return [generator.integers(-50, 50, size=(count, *shape)).astype(float) for count in tree.nodes]


@EACH
def test_a_level_has_the_nodes_that_fill(tree: Tree) -> None:
    found = nodes_of(tree)
    assert tree.nodes == tuple(sum(level == own for own, _ in found) for level in range(tree.levels))
    assert tree.sizes == tuple(len(span(tree, (level, 0))) for level in range(tree.levels))


@EACH
def test_both_sentences_of_definition_3_1_name_the_same_nodes(tree: Tree) -> None:
    for t in range(tree.users + 1):
        assert finished_maximal(tree, t) == left_siblings(tree, t)


@EACH
def test_siblings_count_the_nodes_of_definition_3_1_at_every_time(tree: Tree) -> None:
    for t in range(tree.users + 1):
        found = finished_maximal(tree, t)
        expected = tuple(sum(level == own for own, _ in found) for level in range(tree.levels))
        assert tree.siblings(t // tree.smallest) == expected


@pytest.mark.slow
@given(tree=trees(), seed=st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_prefixes_add_up_the_nodes_of_definition_3_1(tree: Tree, seed: int) -> None:
    values = values_of(tree, seed)
    found = prefixes(tree, values)
    assert found.shape == (tree.nodes[0] + 1,)
    for finished in range(tree.nodes[0] + 1):
        nodes = left_siblings(tree, finished * tree.smallest)
        assert found[finished] == sum(values[level][place] for level, place in nodes)


@EACH
def test_prefixes_of_vectors_are_those_of_their_coordinates(tree: Tree) -> None:
    values = values_of(tree, 5, (3,))
    found = prefixes(tree, values)
    for coordinate in range(3):
        assert np.array_equal(found[:, coordinate], prefixes(tree, [level[:, coordinate] for level in values]))


@pytest.mark.parametrize("length", [0, 1, 5, 17, 18, 35, 36, 49])
def test_a_stream_that_stops_early_has_the_prefixes_of_what_came(length: int) -> None:
    tree = Tree(users=50, smallest=2, degree=3, levels=3)
    values = values_of(tree, 3)
    short = [level[: length // size] for level, size in zip(values, tree.sizes, strict=True)]
    assert np.array_equal(prefixes(tree, short), prefixes(tree, values)[: length // tree.smallest + 1])


@given(tree=trees(), seed=st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_worst_prefix_is_the_worst_of_all(tree: Tree, seed: int) -> None:
    costs = np.random.default_rng(seed).integers(0, 20, size=tree.levels).tolist()
    every = [
        sum(n * cost for n, cost in zip(tree.siblings(finished), costs, strict=True))
        for finished in range(tree.nodes[0] + 1)
    ]
    assert tree.worst(costs) == max(every)


@pytest.mark.parametrize("users", [*range(3, 70), 127, 128, 129, 1000, 1023, 1024, 1025, 2**20 - 1, 2**20, 2**20 + 1])
def test_the_binary_tree_has_one_level_less_than_log_n(users: int) -> None:
    tree = binary_tree(users)
    assert tree.levels == (users - 1).bit_length() - 1
    assert tree.sizes == tuple(2 ** (level + 1) for level in range(tree.levels))
    assert tree.sizes[-1] < users <= 2 * tree.sizes[-1]


@pytest.mark.parametrize(
    ("users", "smallest"), list(itertools.product([32, 33, 63, 64, 65, 96, 97, 1000, 2**20], [1, 3, 32]))
)
def test_a_binary_tree_doubles_up_to_half_of_its_users(users: int, smallest: int) -> None:
    tree = binary_tree(users, smallest)
    assert tree.smallest == smallest
    assert tree.degree == 2
    assert tree.levels == 1 or tree.sizes[-1] < users
    assert users <= 2 * tree.sizes[-1]


@pytest.mark.parametrize("shufflers", [1, 2, 3, 4])
@pytest.mark.parametrize("users", [10, 97, 1000, 1024, 4096, 12_345, 10**5, 10**6, 2**20, 10**8])
def test_k_levels_reach_over_all_users_and_are_near_the_papers_exponents(users: int, shufflers: int) -> None:
    tree = shuffler_tree(users, shufflers)
    exact_low = users ** (1 / (2 * shufflers + 1))
    assert tree.levels == shufflers
    assert abs(tree.smallest - exact_low) <= 0.5
    assert tree.degree**shufflers * tree.smallest >= users
    # The least degree that reaches, so it is n^{2/(2k+1)} up to the rounding of d_low.
    assert (tree.degree - 1) ** shufflers * tree.smallest < users or tree.degree == 2


@pytest.mark.parametrize("root", [2, 3, 4, 7, 10])
@pytest.mark.parametrize("shufflers", [1, 2, 3])
def test_where_the_papers_sizes_are_whole_they_are_taken(root: int, shufflers: int) -> None:
    tree = shuffler_tree(root ** (2 * shufflers + 1), shufflers)
    assert (tree.smallest, tree.degree) == (root, root**2)
    assert tree.nodes[-1] == root**2
    # [TKMS23]'s count of the inter-batch error: k(d - 1) nodes, or the root's d children at the very end.
    assert tree.worst((1,) * shufflers) == max(shufflers * (root**2 - 1), root**2)


@pytest.mark.parametrize(("users", "smallest"), [(100, None), (100, 2), (1000, 2), (5000, 2), (5000, 32), (777, 1)])
def test_any_number_of_shufflers_works_up_to_the_one_that_is_named(users: int, smallest: int | None) -> None:
    """The most is where the binary tree, the smallest of so many levels, would have a node that cannot fill."""
    most = 1
    while (smallest or max(1, round(users ** (1 / (2 * most + 3))))) * 2**most <= users:
        most += 1
    for shufflers in range(1, most + 1):
        assert shuffler_tree(users, shufflers, smallest).levels == shufflers
    with pytest.raises(InvalidParameter, match=f"shufflers = {most + 1} .* at most {most} "):
        shuffler_tree(users, most + 1, smallest)


def gls(tree: Tree, noise: list[float], finished: int, sums: list[Floats]) -> tuple[float, float]:
    """The best linear unbiased estimate of a prefix from all finished nodes, by generalised least squares."""
    nodes = [node for node in nodes_of(tree) if span(tree, node).stop <= finished * tree.smallest]
    design = np.zeros((len(nodes), finished))
    for row, node in enumerate(nodes):
        users = span(tree, node)
        design[row, users.start // tree.smallest : users.stop // tree.smallest] = 1.0
    precision = np.diag([1.0 / noise[level] for level, _ in nodes])
    answers = np.array([sums[level][place] for level, place in nodes])
    covariance = np.linalg.inv(design.T @ precision @ design)
    blocks = covariance @ design.T @ precision @ answers
    return float(blocks.sum()), float(covariance.sum())


COMBINED = [tree for tree in TREES if tree.levels > 1 and tree.nodes[0] <= 40]


@pytest.mark.parametrize("tree", COMBINED, ids=repr)
def test_inverse_variance_weights_are_generalised_least_squares(tree: Tree) -> None:
    noise = [1.0, 3.0, 0.5, 2.0, 7.0][: tree.levels]
    weights = Weights.best(tree.degree, noise)
    sums = values_of(tree, 11)
    estimates = prefixes(tree, weights.refined(tree, sums))
    costs = weights.variances(tree.degree, noise)
    for finished in range(1, tree.nodes[0] + 1):
        best, variance = gls(tree, noise, finished, sums)
        assert estimates[finished] == pytest.approx(best, abs=1e-9)
        counted = zip(tree.siblings(finished), costs, strict=True)
        assert sum(n * cost for n, cost in counted) == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("tree", COMBINED, ids=repr)
def test_plain_weights_are_the_tree_of_the_paper(tree: Tree) -> None:
    sums = values_of(tree, 2)
    plain = Weights.plain(tree.levels)
    refined = plain.refined(tree, sums)
    assert all(np.array_equal(own, found) for own, found in zip(sums, refined, strict=True))
    noise = [1.0, 3.0, 0.5, 2.0, 7.0][: tree.levels]
    assert plain.variances(tree.degree, noise) == tuple(noise)


@given(
    degree=st.integers(2, 9),
    noise=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6),
    tilt=st.floats(-0.2, 0.2),
    where=st.integers(0, 5),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_no_other_weights_have_less_variance(degree: int, noise: list[float], tilt: float, where: int) -> None:
    best = Weights.best(degree, noise)
    own = list(best.own)
    own[where % len(own)] += tilt if where % len(own) else 0.0
    least, other = best.variances(degree, noise), Weights(tuple(own)).variances(degree, noise)
    assert all(a <= b * (1 + 1e-12) for a, b in zip(least, other, strict=True))
    assert all(a <= b * (1 + 1e-12) for a, b in zip(least, noise, strict=True))


def test_equal_noise_on_a_binary_tree_gives_the_known_weights() -> None:
    # Honaker: v_0 = 1 and v_i = 2v/(2v + 1), so 2/3, 4/7, 8/15 for the node itself.
    assert Weights.best(2, [1.0] * 4).own == pytest.approx((1.0, 2 / 3, 4 / 7, 8 / 15))


@pytest.mark.parametrize("noise", [[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [1.0, 2.0, 0.0]])
def test_a_level_without_noise_is_trusted_alone(noise: list[float]) -> None:
    found = Weights.best(3, noise).variances(3, noise)
    for level in range(3):
        assert found[level] == 0.0 if 0.0 in noise[: level + 1] else found[level] > 0.0
    assert all(math.isfinite(weight) for weight in Weights.best(3, noise).own)


BAD = [
    (lambda: Tree(0, 1, 2, 1), "users = 0", "whole number >= 1"),
    (lambda: Tree(10, 11, 2, 1), "smallest = 11", r"\[1, 10\]"),
    (lambda: Tree(10, 2, 1, 1), "degree = 1", ">= 2"),
    (lambda: Tree(10, 2, 2, 0), "levels = 0", ">= 1"),
    (lambda: Tree(10, 2, 2, 4), "levels = 4", "a node of 16 users can fill"),
    (lambda: Tree(10.0, 2, 2, 2), "users = 10.0", "whole number"),
    (lambda: binary_tree(1), "users = 1", ">= 2"),
    (lambda: binary_tree(10, 0), "smallest = 0", "whole number"),
    (lambda: binary_tree(10, "two"), "smallest = 'two'", "whole number"),
    (lambda: shuffler_tree(100, 0), "shufflers = 0", ">= 1"),
    (lambda: shuffler_tree(100, 1.5), "shufflers = 1.5", "whole number"),
    (lambda: shuffler_tree(0, 1), "users = 0", ">= 1"),
    (lambda: shuffler_tree(100, 1, 0), "smallest = 0", "whole number"),
    (lambda: shuffler_tree(100, 1, 200), "smallest = 200", r"\[1, 100\]"),
    (lambda: shuffler_tree(100, 1, "a"), "smallest = 'a'", "whole number"),
]


@pytest.mark.parametrize(("make", "found", "allowed"), BAD, ids=[found for _, found, _ in BAD])
def test_a_tree_that_cannot_be_is_refused_by_name(make, found: str, allowed: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter, match=f"{found}.*{allowed}"):
        make()


@pytest.mark.parametrize("shufflers", [2, 3, 4])
def test_only_the_lowest_or_the_highest_levels_err_more(shufflers: int) -> None:
    """[TKMS23] section 3.2: n/2^k sums add up at the end of the one, n/2^k users wait in the other."""
    users = 2**16
    lowest = Tree(users, 2, 2, shufflers)
    highest = Tree(users, users // 2**shufflers, 2, shufflers)
    assert lowest.worst([1.0] * shufflers) >= users / 2**shufflers
    assert highest.smallest - 1 >= users / 2**shufflers - 1
    balanced = shuffler_tree(users, shufflers)
    # Errors of order one for each sum, and the users who wait: both at most n^{1/(2k+1)} but for a factor of k.
    scale = users ** (1 / (2 * shufflers + 1))
    assert balanced.worst([1.0] * shufflers) <= 2 * shufflers * scale**2 < lowest.worst([1.0] * shufflers)
    assert balanced.smallest <= 2 * scale < highest.smallest
