"""Where rewards come from: each arm a distribution on [0, 1], drawn a user or a whole batch at a time.

A batch is drawn in law: the encoded rewards of n users fall into g + 1 levels, so their counts are multinomial and one
draw gives the batch's sum. For coins that is one binomial. In a world that changes with time every user's coin is
another, so each is tossed.

A new world is a class here or elsewhere, made from its arms' means: see docs/write-your-own.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, integer

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
Numbers = NDArray[Any]


QUADRATURE = 32
"""In how many parts a block's time is divided, where the means have no integral in closed form."""

CHUNK = 10**6
"""Rewards drawn at once, so that a batch of any size fits in memory."""


class World(ABC):
    """Arms with known means, so that regret can be told; one row of means for all runs, or one for each.

    A world of your own has `means`, and says what `rewards` an arm's users have and what a protocol's sums of them are
    (`encoded_sums`). One that changes with time is a `Changing`, which says less (docs/write-your-own.md).

    Examples
    --------
    >>> coins: World = Bernoulli([0.25, 0.5])
    >>> coins.arms, coins.binary, coins.gaps(runs=1).tolist()
    (2, True, [[0.25, 0.0]])
    """

    means: Floats
    changes: ClassVar[bool] = False
    """Whether means depend on time."""
    delay: tuple[int, int] = (0, 0)
    """How many turns after a user's own the report comes, at least and at most."""

    @property
    def arms(self) -> int:
        return int(self.means.shape[-1])

    @property
    def binary(self) -> bool:
        """Whether rewards are zero or one."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({np.array2string(self.means, precision=3, threshold=6)})"

    def at(self, users: Integers, assigned: Integers) -> World:
        """The world as a phase meets it: after so many users in each run, who are assigned to the arms in order."""
        return self

    def during(self, start: Numbers, end: Numbers) -> World:
        """The world as a block meets it, from one time to another: `start` a number a run, `end` one an arm or for all.

        Every user of a block comes at some time of it, whatever the arm, so an arm's outcomes have its average law.
        """
        return self

    @property
    def rates(self) -> Floats:
        """Which share of those who have a turn report, arm by arm; for each run where runs differ."""
        return np.ones(self.arms)

    @property
    def reporters(self) -> World:
        """The world of those who report."""
        return self

    def reporting_chances(self, arms: Integers, outcomes: Floats) -> Floats:
        """How likely users with these arms and outcomes are to report."""
        return np.ones(len(arms))

    def outcomes(self, run: int, arms: Integers, times: Integers, generator: np.random.Generator) -> Floats:
        """The outcomes of users who come at these times, one after another, each with an arm of its own."""
        found = np.empty(len(arms))
        for arm in np.unique(arms).tolist():
            found[arms == arm] = self.rewards(run, arm, int((arms == arm).sum()), generator)
        return found

    def gaps(self, runs: int, users: int = 0) -> Floats:
        """How much worse than the best each arm is after so many users, in every run."""
        means = np.broadcast_to(self.means, (runs, self.arms))
        return np.asarray(means.max(axis=1, keepdims=True) - means)

    def regret(self, arm: int, start: Numbers, end: Numbers) -> Floats:
        """What playing an arm from one user to another costs, against the best arm at each time.

        `start` has one number for each run, `end` one or more, in rising order.
        """
        return np.asarray(self._gap[..., arm, None] * (end - start[:, None]))

    @cached_property
    def _gap(self) -> Floats:
        return np.asarray(self.means.max(axis=-1, keepdims=True) - self.means)

    @abstractmethod
    def rewards(self, run: int, arm: int, users: int, generator: np.random.Generator) -> Floats:
        """One user's reward each."""

    @abstractmethod
    def encoded_sums(
        self, runs: Integers, arms: Integers, users: int | Integers, precision: int, generator: np.random.Generator
    ) -> Integers:
        """Sums of `users` encoded rewards, one for each pair of run and arm, drawn in law."""

    def sums(self, runs: Integers, arms: Integers, users: Integers, generator: np.random.Generator) -> Floats:
        """Sums of plain rewards, for policies without privacy."""
        pairs = zip(runs.tolist(), arms.tolist(), users.tolist(), strict=True)
        return np.asarray([self._sum(run, arm, n, generator) for run, arm, n in pairs])

    def _sum(self, run: int, arm: int, users: int, generator: np.random.Generator) -> float:
        pieces = (min(CHUNK, users - done) for done in range(0, users, CHUNK))
        return math.fsum(float(self.rewards(run, arm, size, generator).sum()) for size in pieces)


def checked_means(means: ArrayLike, name: str = "means") -> Floats:
    """Means as an array with the arms on its last axis, each in [0, 1]: what a world of means begins with.

    Parameters
    ----------
    means : every arm's mean, or one row of them for each run.
    name : what a refusal calls them.

    Examples
    --------
    >>> checked_means([0.3, 0.5]).tolist()
    [0.3, 0.5]
    >>> checked_means([0.3, 1.5])
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: means = 1.5 is not allowed: it must be numbers in [0, 1]
    """
    try:
        table = np.asarray(means, dtype=float)
    except (TypeError, ValueError):
        raise InvalidParameter(name, means, "numbers in [0, 1], one an arm") from None
    if table.ndim not in (1, 2) or table.shape[-1] < 2 or table.shape[0] < 1:
        shown = table.tolist() if table.size < 10 else f"an array of shape {table.shape}"
        raise InvalidParameter(name, shown, "one mean an arm, for at least two arms")
    if not np.all((table >= 0) & (table <= 1)):
        raise InvalidParameter(name, float(table[~((table >= 0) & (table <= 1))][0]), "numbers in [0, 1]")
    return table


class Bernoulli(World):
    """Rewards of one with the arm's mean as probability, else zero.

    Parameters
    ----------
    means : every arm's mean, or one row of them for each run.

    Examples
    --------
    >>> Bernoulli([0.3, 0.5, 0.7]).arms
    3
    """

    def __init__(self, means: ArrayLike) -> None:
        self.means = checked_means(means)

    @property
    def binary(self) -> bool:
        return True

    def _probability(self, runs: Integers, arms: Integers) -> Floats:
        return self.means[runs, arms] if self.means.ndim == 2 else self.means[arms]

    def rewards(self, run: int, arm: int, users: int, generator: np.random.Generator) -> Floats:
        probability = self._probability(np.asarray(run), np.asarray(arm))
        return (generator.random(users) < probability).astype(float)

    def encoded_sums(
        self, runs: Integers, arms: Integers, users: int | Integers, precision: int, generator: np.random.Generator
    ) -> Integers:
        return precision * generator.binomial(users, self._probability(runs, arms))

    def sums(self, runs: Integers, arms: Integers, users: Integers, generator: np.random.Generator) -> Floats:
        return generator.binomial(users, self._probability(runs, arms)).astype(float)


class Changing(World):
    """Coins whose probabilities change with time; what is best may change with them.

    A subclass says `means_at`, and keeps the means of the first user as `means`.
    """

    changes: ClassVar[bool] = True

    @abstractmethod
    def means_at(self, run: int, times: Integers) -> Floats:
        """Every arm's mean when so many users have come before: one row for each time."""

    @property
    def binary(self) -> bool:
        return True

    def during(self, start: Numbers, end: Numbers) -> World:
        ends = np.broadcast_to(end, (len(start), self.arms))
        # The middle of each of so many parts of the time stands for the part.
        parts = (np.arange(QUADRATURE) + 0.5) / QUADRATURE
        average = np.empty(ends.shape)
        for run, first in enumerate(np.asarray(start, dtype=float).tolist()):
            for arm, last in enumerate(ends[run].tolist()):
                times = np.asarray(first + parts * max(last - first, 1.0), dtype=np.int64)
                average[run, arm] = self.means_at(run, times)[:, arm].mean()
        return Bernoulli(average)

    def outcomes(self, run: int, arms: Integers, times: Integers, generator: np.random.Generator) -> Floats:
        chances = self.means_at(run, times)[np.arange(len(arms)), arms]
        return (generator.random(len(arms)) < chances).astype(float)

    def at(self, users: Integers, assigned: Integers) -> World:
        return _Moment(self, users[:, None] + np.cumsum(assigned, axis=1) - assigned)

    def gaps(self, runs: int, users: int = 0) -> Floats:
        means = np.stack([self.means_at(run, np.asarray([users]))[0] for run in range(runs)])
        return np.asarray(means.max(axis=1, keepdims=True) - means)

    def regret(self, arm: int, start: Numbers, end: Numbers) -> Floats:
        regret = np.zeros(end.shape)
        for run, (first, ends) in enumerate(zip(start.astype(np.int64).tolist(), end.astype(np.int64), strict=True)):
            for times in _pieces(first, int(ends.max(initial=first))):
                means = self.means_at(run, times)
                costs = np.concatenate(([0.0], np.cumsum(means.max(axis=1) - means[:, arm])))
                regret[run] += costs[np.clip(ends - times[0], 0, len(times))]
        return regret

    def rewards(self, run: int, arm: int, users: int, generator: np.random.Generator) -> Floats:
        return self._beginning(run).rewards(run, arm, users, generator)

    def encoded_sums(
        self, runs: Integers, arms: Integers, users: int | Integers, precision: int, generator: np.random.Generator
    ) -> Integers:
        return self._beginning(int(runs.max(initial=0))).encoded_sums(runs, arms, users, precision, generator)

    def _beginning(self, last_run: int) -> World:
        return _Moment(self, np.zeros((last_run + 1, self.arms), dtype=np.int64))


class _Moment(World):
    """A changing world at the times when its batches begin, one for each run and arm."""

    def __init__(self, world: Changing, starts: Integers) -> None:
        self.world, self.starts, self.means = world, starts, world.means

    def rewards(self, run: int, arm: int, users: int, generator: np.random.Generator) -> Floats:
        return self._tosses(run, arm, users, generator)

    def encoded_sums(
        self, runs: Integers, arms: Integers, users: int | Integers, precision: int, generator: np.random.Generator
    ) -> Integers:
        sums = self.sums(runs, arms, np.broadcast_to(users, runs.shape), generator)
        return precision * sums.astype(np.int64)

    def sums(self, runs: Integers, arms: Integers, users: Integers, generator: np.random.Generator) -> Floats:
        batches = zip(runs.tolist(), arms.tolist(), users.tolist(), strict=True)
        return np.asarray([self._tosses(*batch, generator).sum() for batch in batches])

    def _tosses(self, run: int, arm: int, users: int, generator: np.random.Generator) -> Floats:
        start = int(self.starts[run, arm])
        pieces = [self.world.means_at(run, times)[:, arm] for times in _pieces(start, start + users)]
        chances = np.concatenate(pieces) if pieces else np.zeros(0)
        return (generator.random(users) < chances).astype(float)


def _pieces(start: int, end: int) -> Iterator[Integers]:
    """All times from one to another, as many at once as fit in memory with all arms."""
    for first in range(start, end, CHUNK):
        yield np.arange(first, min(first + CHUNK, end))


class Drifting(Changing):
    """Coins whose means drift to those of the arms in reverse order and back.

    Parameters
    ----------
    means : every arm's mean at the beginning, or one row of them for each run.
    period : how many users come until the means are again what they were.

    Examples
    --------
    >>> Drifting([0.2, 0.8], period=1000).means_at(0, np.array([0, 250, 500])).round(3).tolist()
    [[0.2, 0.8], [0.5, 0.5], [0.8, 0.2]]
    """

    def __init__(self, means: ArrayLike, period: int = 100_000) -> None:
        self.means, self.period = checked_means(means), integer("period", period, 2)

    def means_at(self, run: int, times: Integers) -> Floats:
        first = self.means[run] if self.means.ndim == 2 else self.means
        there = (1.0 - np.cos(2.0 * np.pi * times / self.period)[:, None]) / 2.0
        return np.asarray((1.0 - there) * first + there * first[::-1])

    def __repr__(self) -> str:
        return f"Drifting({np.array2string(self.means, precision=3, threshold=6)}, period={self.period:,})"


def uniform_means(arms: int, instances: int, low: float, high: float, generator: np.random.Generator) -> Floats:
    """Instances whose means are drawn uniformly: [.25, .75] is [CZ23]'s easy world, [.45, .55] its hard one."""
    return generator.uniform(low, high, (instances, arms))
