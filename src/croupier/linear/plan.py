"""A linear contextual bandit in the concurrent shuffle model ([TKMS23] Alg. 4): a vector counter and a confidence set.

The user's side is `Rule.choose`, `statistics`, and `mechanism.randomize` for every open batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from croupier.checks import InvalidParameter, by_name, integer
from croupier.continual import (
    SMALLEST,
    CounterPlan,
    Tree,
    Weights,
    binary_tree,
    counter,
    gaussian_deviation,
    shuffler_tree,
)
from croupier.linear.ellipsoid import Confidence, confidence
from croupier.linear.statistics import DIAMETER, SCALE, statistics_dimension
from croupier.linear.sums import Sums, TreeSums
from croupier.privacy import gaussian_scale

SEQUENTIAL_POWER = 0.6
"""Batches of n^{3/5} users for one shuffler [CZ22]."""

SEQUENTIAL_LEAST = 136
"""Fewer users would make batches too small for split-and-mix."""


@dataclass(frozen=True)
class LinearPlan:
    """A counter of the statistics, and how its sums become a rule."""

    counter: CounterPlan
    confidence: Confidence

    @property
    def users(self) -> int:
        return self.counter.users

    @property
    def dimension(self) -> int:
        return self.confidence.dimension

    def sums(self) -> Sums:
        """Its tree under way, no user counted yet."""
        return TreeSums(self)


@by_name
def linear_bandit(
    users: int,
    dimension: int,
    shufflers: int | None = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
    constants: str = "tight",
    failure: float | None = None,
    reward_noise: float = 0.5,
    exploration: float = 1.0,
    smallest: int | None = None,
    over: str | None = None,
    honest_fraction: float = 1.0,
    front_noise: bool = False,
) -> LinearPlan:
    """Plan a linear bandit: users choose among actions with features, by sums over earlier users ([TKMS23] Alg. 4).

    Parameters
    ----------
    users : how many will come.
    dimension : how many numbers a feature vector has.
    shufflers : as for `counter`: any k >= 1, or None for a binary tree.
    epsilon, delta : the privacy of one user, all batches together.
    constants : "tight" or "published". In tight mode the smallest batch is about as large as the noise that hides it:
        fewer users tell nothing, and larger batches mean fewer noises.
    failure : α, the chance that the confidence set ever misses. None: 1/n.
    reward_noise : σ, the sub-Gaussian scale of a reward: ½ for rewards in [0, 1].
    exploration : scales β; only 1 is proven.
    smallest : the size of the smallest batch.
    over, honest_fraction, front_noise : the protocol that sums vectors, and its options (see `shuffled_vectors`).

    Examples
    --------
    >>> plan = linear_bandit(2_000, 3, 2, epsilon=1.0)
    >>> plan.counter.dimension, plan.confidence.least > 0
    (9, True)
    """
    if smallest is None and constants == "tight":
        smallest = balanced_batch(users, dimension, shufflers, epsilon=epsilon, delta=delta)
    sums = counter(
        users,
        shufflers,
        epsilon=epsilon,
        delta=delta,
        constants=constants,
        smallest=smallest,
        dimension=statistics_dimension(dimension),
        diameter=DIAMETER,
        over=over,
        honest_fraction=honest_fraction,
        front_noise=front_noise,
    )
    level = confidence(
        sums,
        dimension,
        failure=1.0 / users if failure is None else failure,
        reward_noise=reward_noise,
        published=constants == "published",
        exploration=exploration,
    )
    return LinearPlan(sums, level)


def balanced_batch(users: int, dimension: int, shufflers: int | None, *, epsilon: float, delta: float) -> int:
    """The least doubling of 32 users that is no less than Gaussian noise of the same privacy would do to Σxxᵀ."""
    level = (SCALE * DIAMETER * gaussian_scale(epsilon, delta)) ** 2

    def grow(smallest: int) -> Tree:
        return binary_tree(users, smallest) if shufflers is None else shuffler_tree(users, shufflers, smallest)

    smallest = SMALLEST
    while 8 * smallest <= users:
        tree = grow(smallest)
        noise = (tree.levels * level,) * tree.levels
        refined = Weights.best(tree.degree, noise).variances(tree.degree, noise)
        if smallest >= gaussian_deviation(
            tree, refined, 1.0 / users, directions=9.0 ** min(dimension, 300), strength=2.0
        ):
            break
        try:
            grow(2 * smallest)
        except InvalidParameter:  # so many shufflers do not fit above larger batches
            break
        smallest *= 2
    return smallest


def sequential_linear_bandit(users: int, dimension: int, **options: Any) -> LinearPlan:
    """One shuffler with batches of n^{3/5} users [CZ22], otherwise as `linear_bandit`."""
    batch = round(float(integer("users", users, SEQUENTIAL_LEAST)) ** SEQUENTIAL_POWER)
    return linear_bandit(users, dimension, 1, smallest=batch, **options)
