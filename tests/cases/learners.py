"""Things to learn, for the tests of this room: how rows are drawn and labelled, and which learner they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from croupier.learning import (
    Boxes,
    DecisionListQueries,
    DecisionLists,
    HashedPoints,
    Listed,
    Parities,
    Points,
    Samples,
    Seed,
    SeparatorQueries,
    Stable,
    Thresholds,
    plurality,
)

Rows = np.ndarray


@dataclass(frozen=True)
class World:
    """A target on uniformly drawn rows, a learner for it, and how many samples a user has."""

    learner: Any
    columns: int
    samples: int
    draw: Callable[[np.random.Generator, int], Rows]
    label: Callable[[Rows], Rows]
    alpha: float = 0.2
    beta: float = 0.1

    def users(self, rng: np.random.Generator, count: int) -> Samples:
        rows = self.draw(rng, count * self.samples)
        return Samples.equal(rows, self.label(rows), count)

    def ballot(self, seed: int) -> Any:
        return self.learner.ballot(columns=self.columns, seed=Seed.of(seed), alpha=self.alpha, beta=self.beta / 3)

    def error(self, hypothesis: Any) -> float:
        rows, labels = self._tried
        return float(np.mean(hypothesis.predict(rows) != labels))

    @cached_property
    def _tried(self) -> tuple[Rows, Rows]:
        """What every hypothesis is tried on."""
        rows = self.draw(np.random.default_rng(99), 5_000)
        return rows, self.label(rows)

    def agreement(self, users: int, seeds: int) -> np.ndarray:
        """Which part of the users has the commonest vote, for each of some public seeds and fresh users."""
        rng = np.random.default_rng(20_261_115)
        return np.asarray([plurality(self.ballot(seed).marks(self.users(rng, users))) for seed in range(seeds)])


def _uniform(columns: int) -> Callable[[np.random.Generator, int], Rows]:
    return lambda rng, count: rng.random((count, columns))


def _cube(columns: int) -> Callable[[np.random.Generator, int], Rows]:
    return lambda rng, count: rng.integers(0, 2, (count, columns), dtype=np.int8)


def _spiked(rng: np.random.Generator, count: int) -> Rows:
    """Three rows in ten are the point that is looked for."""
    return np.where(rng.random(count) < 0.3, 17, rng.integers(0, 1024, count))[:, None]


def a_list(rows: Rows) -> Rows:
    """If column 0 then 1, else if not column 1 then 0, else if column 3 then 1, else column 2."""
    rest = np.where(rows[:, 1] == 0, 0, np.where(rows[:, 3] == 1, 1, rows[:, 2]))
    return np.where(rows[:, 0] == 1, 1, rest) == 1


def _rules() -> Listed:
    """Twenty slanted cuts of the square."""
    turns = np.linspace(0, np.pi, 20, endpoint=False)
    return Listed(tuple(lambda x, t=t: (x - 0.5) @ np.asarray([np.cos(t), np.sin(t)]) >= 0 for t in turns.tolist()))


def _above(rows: Rows) -> Rows:
    return rows[:, 0] >= 0.6


def _between(rows: Rows) -> Rows:
    return (rows[:, 0] >= 0.3) & (rows[:, 0] < 0.7)


WORLDS: dict[str, World] = {
    "points": World(Stable(Points(1024)), 1, 100, _spiked, lambda rows: rows[:, 0] == 17),
    "hashed points": World(Stable(HashedPoints()), 1, 100, _spiked, lambda rows: rows[:, 0] == 17),
    "thresholds": World(Stable(Thresholds()), 1, 1000, _uniform(1), _above),
    "thresholds, smooth": World(Stable(Thresholds(), gamma="smooth"), 1, 1000, _uniform(1), _above),
    "intervals": World(Stable(Boxes()), 1, 3000, _uniform(1), _between),
    "boxes": World(
        Stable(Boxes(cuts=9)), 2, 1000, _uniform(2), lambda rows: ((rows >= 0.25) & (rows < 0.75)).all(axis=1)
    ),
    "decision lists": World(Stable(DecisionLists()), 4, 1000, _cube(4), a_list),
    "parities": World(Stable(Parities()), 8, 50, _cube(8), lambda rows: rows[:, [0, 2, 3]].sum(axis=1) % 2 == 1),
    "any list": World(Stable(_rules()), 2, 1000, _uniform(2), lambda rows: rows[:, 0] >= 0.5),
    "decision lists, queries": World(DecisionListQueries(), 10, 1000, _cube(10), a_list),
    "separators, queries": World(
        SeparatorQueries(), 5, 10_000, _cube(5), lambda rows: (2.0 * rows - 1.0) @ np.asarray([3, 2, 2, 1, 1]) >= 0
    ),
}
