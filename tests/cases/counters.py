"""Counters that the tests of this room share: plans without calibration, trees by brute force, exact answers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from croupier.continual import Counter, CounterPlan, Tree, Weights
from croupier.protocols import SumMechanism, laplace, shuffled_vectors

TREES = [
    Tree(users=1, smallest=1, degree=2, levels=1),
    Tree(users=2, smallest=2, degree=2, levels=1),
    Tree(users=7, smallest=3, degree=5, levels=1),
    Tree(users=8, smallest=2, degree=2, levels=2),
    Tree(users=16, smallest=1, degree=2, levels=4),
    Tree(users=23, smallest=2, degree=2, levels=3),
    Tree(users=31, smallest=1, degree=3, levels=3),
    Tree(users=50, smallest=2, degree=3, levels=3),
    Tree(users=64, smallest=2, degree=2, levels=5),
    Tree(users=81, smallest=3, degree=3, levels=3),
    Tree(users=97, smallest=4, degree=3, levels=2),
    Tree(users=100, smallest=5, degree=4, levels=2),
    Tree(users=100, smallest=5, degree=20, levels=1),
]
"""Powers and others, full and ragged, more children at the top than the degree says, and fewer."""

Node = tuple[int, int]
"""A level and a number within it."""


def nodes_of(tree: Tree) -> list[Node]:
    """Every node of the tree that can fill, by its level and its place."""
    return [(level, place) for level, size in enumerate(tree.sizes) for place in range(tree.users // size)]


def span(tree: Tree, node: Node) -> range:
    """The users of a node."""
    level, place = node
    size = tree.smallest * tree.degree**level
    return range(place * size, (place + 1) * size)


def finished_maximal(tree: Tree, t: int) -> set[Node]:
    """[TKMS23] Definition 3.1, first sentence: the highest nodes all of whose inputs have arrived by time t."""
    finished = {node for node in nodes_of(tree) if span(tree, node).stop <= t}
    return {(level, place) for level, place in finished if (level + 1, place // tree.degree) not in finished}


def left_siblings(tree: Tree, t: int) -> set[Node]:
    """[TKMS23] Definition 3.1, second sentence: left siblings of the nodes on the path from the root to leaf t + 1.

    The root has as many children as there are; at t = n the path leaves the tree to the right of all of them.
    """
    found: set[Node] = set()
    first_child = 0
    for level in reversed(range(tree.levels)):
        on_path = t // (tree.smallest * tree.degree**level)
        found |= {(level, place) for place in range(first_child, on_path)}
        first_child = on_path * tree.degree
    return found


def step_of(mechanism: SumMechanism) -> Fraction:
    """How far the decoded number moves when the sum of values moves by one."""
    return 1 / Fraction(mechanism.unit)


def noiseless(mechanism: SumMechanism, total: float) -> int:
    """What a batch with this sum decodes to when the noise is exactly its mean."""
    decoded = mechanism.noise.mean + (total - mechanism.users * mechanism.values.low) / mechanism.unit
    assert decoded == int(decoded)
    return int(decoded)


def bare_plan(tree: Tree, weights: Weights | None = None, *, centred: bool = False) -> CounterPlan:
    """A counter of bits over any tree; Laplace levels are planned in no time."""
    mechanisms = tuple(laplace(epsilon=1.0, binary=True).plan(size) for size in tree.sizes)
    return CounterPlan(tree, mechanisms, weights or Weights.plain(tree.levels), float(tree.levels), 0.0, centred)


def bare_vector_plan(tree: Tree, dimension: int) -> CounterPlan:
    """A counter of vectors; the smallest batch of its carrier is 19."""
    recipe = shuffled_vectors(epsilon=1.0, delta=1e-6, dimension=dimension)
    mechanisms = tuple(recipe.plan(size) for size in tree.sizes)
    return CounterPlan(tree, mechanisms, Weights.plain(tree.levels), 10.0 * tree.levels, 1e-3, centred=True)


def releases_due(counter: Counter) -> Iterator[tuple[Node, int, SumMechanism]]:
    """Full batches as nodes of the tree, with their numbers."""
    for batch in counter.shufflers.full:
        size = batch.mechanism.users
        yield (batch.shuffler, counter.users // size - 1), batch.number, batch.mechanism
