"""Selection: which of many items most users hold, in three trust models ([GKM21] Lemmas 11-13, 36)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from croupier.checks import InvalidParameter, between, integer
from croupier.noise import Source
from croupier.protocols.histograms.oracles import Integers, Progress
from croupier.protocols.histograms.planned import Planned
from croupier.protocols.histograms.target import Target
from croupier.protocols.histograms.universe import Numbers
from croupier.search import least_passing_integer


def selection(
    *,
    epsilon: float,
    delta: float | None = None,
    size: int,
    model: str = "shuffle",
    constants: str = "tight",
    side: str | None = None,
    honest_fraction: float = 1.0,
    failure: float = 0.05,
    minimise: str = "error",
) -> Selection:
    """A recipe for choosing among `size` items; votes are whole numbers below it.

    >>> from croupier.noise import seeded
    >>> mechanism = selection(epsilon=1.0, delta=1e-6, size=1000).plan(users=200)
    >>> mechanism.run([7] * 150 + [8] * 50, seeded(1))
    7
    >>> mechanism.error(failure=0.05) < 100
    True
    """
    target = Target(epsilon, delta, model, constants, side, honest_fraction, failure, minimise)
    return Selection(Numbers(size).size, target)


@dataclass(frozen=True)
class Selection:
    """A privacy target for a choice among so many items, to be planned for any batch size."""

    size: int
    target: Target

    def plan(self, users: int) -> SelectionMechanism:
        """Calibrate for a batch of exactly `users` users."""
        return _plan(self, integer("users", users, 1))

    def users_needed(self, margin_fraction: float, failure: float = 0.05) -> int:
        """The least batch in which an item ahead by this fraction of the users surely wins, but for `failure`.

        >>> selection(epsilon=1.0, size=1000, model="central-pure").users_needed(0.8, failure=0.01)
        27
        """
        between("margin_fraction", margin_fraction, 0, 1, "(]")

        def enough(users: int) -> bool:
            integer("users", users, 1, 2**40)
            try:
                return self.plan(users).error(failure) < margin_fraction * users
            except InvalidParameter as refused:
                if refused.name == "users":
                    return False
                raise

        return least_passing_integer(enough, 0, 1)


@lru_cache(maxsize=1024)
def _plan(selection: Selection, users: int) -> SelectionMechanism:
    target = selection.target
    return SelectionMechanism(target.model, target.constants, target.ballot(selection.size, users), target.guarantee)


@dataclass(frozen=True)
class SelectionMechanism(Planned):
    """A selection planned for one batch size: frozen, serializable, with its certificate."""

    def error(self, failure: float) -> float:
        """How far the winner's true count can be below the largest, except with this probability."""
        return self.ballot.winner_error(failure)

    def randomize(self, vote: int, source: Source, *, seat: int | None = None) -> Integers:
        """A user's vote as labelled messages, on their device."""
        return self._report(Numbers(self.size).indices([vote]), source, seat)

    def analyze(self, view: ArrayLike, source: Source | None = None) -> int:
        """The winner. In the central models the analyzer draws the noise, and needs `source`."""
        return self.ballot.choose(np.asarray(view), source)

    def run(self, votes: ArrayLike, source: Source, progress: Progress = lambda part: None) -> int:
        """The whole way of a batch: every device reports, the labels are counted, the winner is read."""
        return self.analyze(self._gathered(Numbers(self.size).indices(votes), source, progress), source)

    def simulate(self, counts: ArrayLike, source: Source) -> int:
        """The same law from the true counts of all items."""
        return self.analyze(self._in_law(counts, source), source)

    @classmethod
    def from_json(cls, text: str) -> SelectionMechanism:
        """Read a mechanism back; anything unknown, missing, inconsistent or not private as claimed is refused."""
        return cls(**cls._read(text))
