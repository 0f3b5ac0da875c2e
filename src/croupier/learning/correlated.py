"""Correlated sampling: users with similar distributions and one shared seed mostly draw the same thing.

Every candidate ω has an exponential time E_ω that follows from the seed alone. A user with distribution P draws the
candidate that is first in the race E_ω/P(ω). Each user's draw has law P. Two users with laws p, q draw the same with
probability Σ_i 1/Σ_j max(p_j/p_i, q_j/q_i) >= (1 - TV)/(1 + TV) [MJ18]. So they differ with probability at most
2·TV/(1 + TV), which is less than the 2·TV of [GKM21] Theorem 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import CroupierError, InvalidParameter, integer, positive
from croupier.learning.seeds import Floats, Seed, Words

Integers = NDArray[np.int64]

FIRST_BLOCK, LARGEST_BLOCK = 64, 2**16


def race(weights: ArrayLike, seed: Seed) -> Integers:
    """Draw one index for each row of weights; rows of many users are drawn with the same times.

    The law of a row's draw is the row divided by its sum, up to `rounding(size)` in statistical distance.

    >>> race([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1]], Seed.of(1)).tolist()
    [0, 0]
    """
    table = np.asarray(weights, dtype=np.float64)
    if table.ndim == 0 or table.shape[-1] == 0:
        raise InvalidParameter("weights", table.shape, "at least one weight for each draw")
    top = table.max(axis=-1, keepdims=True, initial=0.0)
    if not (np.isfinite(table).all() and (table >= 0).all() and (top > 0).all()):
        raise InvalidParameter("weights", weights, "finite numbers >= 0, not all zero")
    times = np.broadcast_to(seed.exponentials(np.arange(table.shape[-1])), table.shape)
    finish = np.full(table.shape, np.inf)
    with np.errstate(over="ignore"):
        np.divide(times, table / top, out=finish, where=table > 0)
    return np.asarray(np.argmin(finish, axis=-1))


def rounding(size: int) -> float:
    """How far, in statistical distance, the law of a race among `size` candidates can be from its weights.

    A time has 64 bits, and cutting it moves E_i by at most 2^-64·e^{E_i}. Behind the winner at time T rival j comes
    in with hazard p_j, so P(a cut matters) <= Σ_i Σ_{j≠i} p_j·2^-63·E[e^{p_i T}] = size·2^-63, T standard exponential.
    Doubles with a relative error of 2^-51 each add 2^-50. Twice the sum covers terms of second order.
    """
    return float(integer("size", size, 1)) * 2.0**-62 + 2.0**-49


def agreement(first: ArrayLike, second: ArrayLike) -> Any:
    """The probability that two users' races have the same winner, exactly: Σ_i 1/Σ_j max(p_j/p_i, q_j/q_i).

    >>> round(agreement([0.5, 0.5], [0.6, 0.4]), 4)
    0.9
    """
    p, q = np.broadcast_arrays(_normal(first), _normal(second))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q > 0, p / q, np.inf)
    ranks = np.argsort(ratio, axis=-1, kind="stable")
    p, q = np.take_along_axis(p, ranks, axis=-1), np.take_along_axis(q, ranks, axis=-1)
    # Candidates of larger ratio enter the maximum by p_j/p_i, those of smaller ratio by q_j/q_i; ties by either.
    above = np.cumsum(p[..., ::-1], axis=-1)[..., ::-1]
    below = np.cumsum(q, axis=-1) - q
    both = (p > 0) & (q > 0)
    cost = np.divide(above, p, out=np.full(p.shape, np.inf), where=both)
    cost += np.divide(below, q, out=np.zeros(q.shape), where=both)
    total = (1.0 / cost).sum(axis=-1)
    return float(total) if total.ndim == 0 else total


def distance(first: ArrayLike, second: ArrayLike) -> Any:
    """The total variation distance of two laws."""
    apart = 0.5 * np.abs(_normal(first) - _normal(second)).sum(axis=-1)
    return float(apart) if apart.ndim == 0 else apart


def _normal(weights: ArrayLike) -> Floats:
    table = np.asarray(weights, dtype=np.float64)
    total = table.sum(axis=-1, keepdims=True)
    if not (np.isfinite(table).all() and (table >= 0).all() and (total > 0).all()):
        raise InvalidParameter("weights", weights, "finite numbers >= 0, not all zero")
    return np.asarray(table / total)


@dataclass(frozen=True)
class Stream:
    """A race in a space too large to list: candidates are proposed at random and come in one after the other.

    Candidate number i is `propose` of a public word and arrives at the i-th point T_i of a Poisson process; a user
    whose law has density `weight` against the law of the proposals takes the least T_i/weight. No later candidate can
    win once T_i/bound exceeds that, so a race ends by itself. The law is exact and the weights need no normalization:
    it is the same race as above, and so is the agreement (times have 64 bits, and the sums of doubles err by 2^-50).

    >>> dice = Stream(Seed.of(1), lambda words: words % np.uint64(6))
    >>> even = dice.race(lambda face: (face % 2 == 0) * 1.0)
    >>> int(dice.candidates(even, even + 1)[0]) in (0, 2, 4)
    True
    """

    seed: Seed
    propose: Callable[[Words], NDArray[Any]]

    def candidates(self, start: int, stop: int) -> NDArray[Any]:
        """The proposals of these numbers."""
        return self.propose(self.seed.child("proposals").words(np.arange(start, stop)))

    def race(
        self, weigh: Callable[[NDArray[Any]], ArrayLike], *, bound: float = 1.0, limit: int = 2**24
    ) -> int | Integers:
        """The number of the candidate that each user draws; `weigh` gives a row of weights for each user, or one row.

        About bound/mean(weight) candidates are looked at; beyond `limit` the race is given up with an error.
        """
        bound = float(positive("bound", bound))
        arrivals = self.seed.child("arrivals")
        start, clock, block = 0, 0.0, FIRST_BLOCK
        best = np.asarray(np.inf)
        winner = np.asarray(-1)
        while start < limit:
            times = clock + np.cumsum(arrivals.exponentials(np.arange(start, start + block)))
            weights = np.asarray(weigh(self.candidates(start, start + block)), dtype=np.float64)
            if not ((weights >= 0) & (weights <= bound)).all():
                raise InvalidParameter("weight", float(weights.max()), f"a number in [0, bound = {bound:g}]")
            finish = np.full(weights.shape, np.inf)
            np.divide(times, weights, out=finish, where=weights > 0)
            at = np.argmin(finish, axis=-1)
            soonest = finish.min(axis=-1)
            winner = np.where(soonest < best, start + at, winner)
            best = np.minimum(best, soonest)
            start, clock = start + block, float(times[-1])
            if (clock >= bound * best).all():
                return int(winner) if winner.ndim == 0 else winner.astype(np.int64)
            block = min(2 * block, LARGEST_BLOCK)
        raise CroupierError(
            f"no draw was settled among {limit:,} candidates: the weights are too small for their bound"
        )
