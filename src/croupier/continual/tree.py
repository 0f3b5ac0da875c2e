"""The tree over users behind every counter: which batches it sums, and how prefix sums are read from finished ones.

Leaves are the users in order. A node of level i stands for `sizes[i]` consecutive users and is one private sum; neither
the root nor the leaves are. The prefix of t users is made of the largest finished nodes, the left siblings on the path
to leaf t + 1 ([TKMS23] Definition 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, integer

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tree:
    """`levels` levels of nodes over `users` leaves: `smallest` users in a lowest node, `degree` children in the others.

    >>> Tree(users=1000, smallest=10, degree=10, levels=2).sizes
    (10, 100)
    """

    users: int
    smallest: int
    degree: int
    levels: int

    def __post_init__(self) -> None:
        integer("users", self.users, 1)
        integer("smallest", self.smallest, 1, self.users)
        integer("degree", self.degree, 2)
        integer("levels", self.levels, 1)
        if self.sizes[-1] > self.users:
            raise InvalidParameter("levels", self.levels, f"few enough that a node of {self.sizes[-1]} users can fill")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Users of a node, lowest level first."""
        return tuple(self.smallest * self.degree**level for level in range(self.levels))

    @cached_property
    def nodes(self) -> tuple[int, ...]:
        """How many nodes of each level fill."""
        return tuple(self.users // size for size in self.sizes)

    def siblings(self, lowest: int) -> tuple[int, ...]:
        """How many nodes of each level make up the prefix of so many finished lowest nodes."""
        digits = []
        for _ in range(self.levels - 1):
            lowest, digit = divmod(lowest, self.degree)
            digits.append(digit)
        return (*digits, lowest)

    def worst(self, costs: Sequence[float]) -> float:
        """The largest total cost of a prefix, when a node of each level costs so much."""
        last = self.siblings(self.nodes[0])
        # The worst prefix is the last one, or agrees with it above some level, has one node less there, and all below.
        candidates = [last] + [
            (self.degree - 1,) * level + (last[level] - 1,) + last[level + 1 :]
            for level in range(self.levels)
            if last[level] > 0
        ]
        return max(sum(n * cost for n, cost in zip(counts, costs, strict=True)) for counts in candidates)


def binary_tree(users: int, smallest: int = 2) -> Tree:
    """A node's size doubles from level to level, up to half of the users ([TKMS23] Alg. 2: k = ⌈log₂ n⌉ - 1 levels).

    >>> binary_tree(2**10).levels
    9
    """
    integer("users", users, integer("smallest", smallest, 1))
    return Tree(users, smallest, 2, max(1, math.ceil(math.log2(users / smallest))))


def shuffler_tree(users: int, shufflers: int, smallest: int | None = None) -> Tree:
    """d^k·d_low >= n leaves, with d_low = n^{1/(2k+1)} and d = n^{2/(2k+1)}, rounded ([TKMS23] Alg. 3), or d_low as
    given.

    >>> shuffler_tree(10**6, 1)
    Tree(users=1000000, smallest=100, degree=10000, levels=1)
    """
    integer("users", users, 1)
    integer("shufflers", shufflers, 1)
    if smallest is None:
        smallest = max(1, round(users ** (1.0 / (2 * shufflers + 1))))
    integer("smallest", smallest, 1, users)
    degree = max(2, math.ceil((users / smallest) ** (1.0 / shufflers) - 1e-9))
    if degree > 2 and smallest * degree ** (shufflers - 1) > users:
        # A node of the top level must fill; with one child less it does, and the root has a few more.
        degree -= 1
    if smallest * degree ** (shufflers - 1) > users:
        most = max(1, math.floor(math.log2(max(users / smallest, 1.0))) + 1)
        raise InvalidParameter("shufflers", shufflers, f"at most {most} for {users} users from batches of {smallest}")
    return Tree(users, smallest, degree, shufflers)


@dataclass(frozen=True)
class Weights:
    """How much of a finished node's estimate is its own sum; the rest is its children's [Hon15].

    A node's children are finished when it is, and have seen the same users with other noise. The best unbiased
    combination weighs by inverse variance. Weight one is the plain tree of [TKMS23].
    """

    own: tuple[float, ...]

    @classmethod
    def plain(cls, levels: int) -> Weights:
        return cls((1.0,) * levels)

    @classmethod
    def best(cls, degree: int, variances: Sequence[float]) -> Weights:
        own, below = [1.0], variances[0]
        for variance in variances[1:]:
            children = degree * below
            weight = children / (children + variance) if variance > 0 else 1.0
            own.append(weight)
            below = weight**2 * variance + (1.0 - weight) ** 2 * children
        return cls(tuple(own))

    def variances(self, degree: int, variances: Sequence[float]) -> tuple[float, ...]:
        """The variance of a finished node's estimate, by level."""
        combined: list[float] = []
        for weight, variance in zip(self.own, variances, strict=True):
            children = degree * combined[-1] if combined else 0.0
            combined.append(weight**2 * variance + (1.0 - weight) ** 2 * children)
        return tuple(combined)

    def refined(self, tree: Tree, sums: Sequence[Floats]) -> list[Floats]:
        """Finished nodes' estimates from their own sums (nodes on the first axis), level by level."""
        refined = [np.asarray(sums[0], dtype=np.float64)]
        for weight, own in zip(self.own[1:], sums[1:], strict=True):
            if weight == 1.0:
                refined.append(np.asarray(own, dtype=np.float64))
                continue
            below = refined[-1][: len(own) * tree.degree]
            children = below.reshape(len(own), tree.degree, *below.shape[1:]).sum(axis=1)
            refined.append(weight * own + (1.0 - weight) * children)
        return refined


def prefixes(tree: Tree, refined: Sequence[Floats]) -> Floats:
    """The estimate after each finished lowest node, and before the first: nodes + 1 entries on the first axis."""
    starts = _running(refined[-1][None])[0]
    for estimates in reversed(refined[:-1]):
        # Every parent, also the one that never fills, is the sum before it plus its finished children so far.
        parents, shape = len(starts), estimates.shape[1:]
        padded = np.zeros((parents * tree.degree, *shape))
        padded[: len(estimates)] = estimates
        within = _running(padded.reshape(parents, tree.degree, *shape))[:, :-1]
        starts = (starts[:, None] + within).reshape(parents * tree.degree, *shape)[: len(estimates) + 1]
    return np.asarray(starts)


def _running(values: Floats) -> Floats:
    """Sums before each entry of the second axis, and after the last."""
    shape = (values.shape[0], 1, *values.shape[2:])
    return np.concatenate((np.zeros(shape), np.cumsum(values, axis=1)), axis=1)
