"""How much noise the sums of a linear bandit carry at any number of users, by closed forms: who must win in the end.

[TKMS23]'s regret grows with the square root of that noise, so concurrent shufflers must beat a single one where a
binary tree of sums carries less of it. Published constants reach that point far beyond what can be planned or run. The
noise of a sum is taken as Gaussian; its variance is the mechanism's own where constants are published, and that of
Gaussian noise of the same privacy where they are tight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from croupier.continual import Tree, Weights, binary_tree, gaussian_deviation, shuffler_tree
from croupier.linear import DIAMETER, confidence, statistics_dimension
from croupier.linear.plan import SEQUENTIAL_POWER, balanced_batch
from croupier.privacy import gaussian_scale


@dataclass(frozen=True)
class GaussianSums:
    """A tree of sums with Gaussian noise of these variances, a level each."""

    tree: Tree
    variances: tuple[float, ...]

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in the worst prefix, per coordinate."""
        return math.sqrt(self.tree.worst(self.variances))

    def deviation(self, failure: float, *, directions: float = 1.0, strength: float = 1.0) -> float:
        """A bound on the noise of all prefixes at once, as a confidence set asks for it."""
        return gaussian_deviation(self.tree, self.variances, failure, directions=directions, strength=strength)


@dataclass(frozen=True)
class Budget:
    """What the sums of a linear bandit may cost, and how large its features are."""

    epsilon: float
    delta: float
    dimension: int

    def sums(self, users: int, *, concurrent: bool, published: bool) -> GaussianSums:
        """The binary tree of concurrent shufflers, or batches of n^{3/5} through one."""
        return (self._published if published else self._tight)(users, concurrent)

    def _published(self, users: int, concurrent: bool) -> GaussianSums:
        """Every level at (ε, δ)/⌈log₂ n⌉ ([TKMS23] Alg. 2), one shuffler at (ε, δ).

        With g levels, b = 24·10⁴ g² L²/(ε²m) bits of bias ¼ a user and L = log(4(D²+1)/δ), the sum of m users has
        variance (2/g)²·bm·3/16 = 18·10⁴ L²/ε², whatever m and g are.
        """
        tree = binary_tree(users) if concurrent else self._batches(users)
        parts = max(tree.levels, math.ceil(math.log2(users))) if concurrent else 1
        entries = statistics_dimension(self.dimension)
        logarithm = math.log(4.0 * (entries**2 + 1) * parts / self.delta)
        return GaussianSums(tree, (18e4 * (logarithm * parts / self.epsilon) ** 2,) * tree.levels)

    def _tight(self, users: int, concurrent: bool) -> GaussianSums:
        """k Gaussian releases cost as much as one of k times the precision, and finished nodes are combined."""
        tree = self._batches(users)
        if concurrent:
            tree = binary_tree(
                users, balanced_batch(users, self.dimension, None, epsilon=self.epsilon, delta=self.delta)
            )
        level = (DIAMETER * gaussian_scale(self.epsilon, self.delta)) ** 2 * tree.levels
        own = (level,) * tree.levels
        return GaussianSums(tree, Weights.best(tree.degree, own).variances(tree.degree, own))

    def _batches(self, users: int) -> Tree:
        return shuffler_tree(users, 1, round(users**SEQUENTIAL_POWER))

    def silent_until(self, grid: Sequence[int], *, concurrent: bool) -> int | None:
        """The largest n of a grid up to which published intervals are wider than all rewards; None if there is none.

        An interval is never narrower than β/√(n + ρ_max), since no direction of V is longer than n + ρ_max.
        """
        largest = None
        for users in grid:
            sums = self.sums(users, concurrent=concurrent, published=True)
            level = confidence(sums, self.dimension, failure=1.0 / users, published=True)
            if level.published_radius(users) ** 2 <= users + level.most:
                break
            largest = users
        return largest


def stays_below(grid: Sequence[int], curve: Sequence[float], other: Sequence[float]) -> int | None:
    """The least n of a grid from which on one curve stays below the other; None if it does not in the end.

    >>> stays_below([10, 20, 40, 80], [1.0, 5.0, 6.0, 7.0], [2.0, 3.0, 7.0, 9.0])
    40
    """
    least = None
    for users, mine, theirs in zip(reversed(grid), reversed(curve), reversed(other), strict=True):
        if mine >= theirs:
            break
        least = users
    return least
