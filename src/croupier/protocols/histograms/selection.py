"""Selection: which of many items most users hold, whoever is trusted ([GKM21] Lemmas 11-13, 36)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from croupier.checks import InvalidParameter, between, by_name, integer
from croupier.noise import Source
from croupier.protocols.histograms.oracles import Integers, Progress
from croupier.protocols.histograms.planned import Planned
from croupier.protocols.histograms.target import Target
from croupier.protocols.histograms.universe import Numbers
from croupier.protocols.sums.values import array_of
from croupier.search import least_passing_integer


@by_name
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
    """A recipe for choosing the item with the most votes, or nearly ([GKM21] Lemmas 11 to 13, 36).

    Parameters
    ----------
    epsilon, delta, model, constants, side, honest_fraction, failure, minimise : as in `histogram`.
    size : how many items there are. Votes are whole numbers below it.

    Examples
    --------
    >>> from croupier.noise import seeded
    >>> mechanism = selection(epsilon=1.0, delta=1e-6, size=1000).plan(users=200)
    >>> mechanism.run([7] * 150 + [8] * 50, seeded(1))
    7
    >>> mechanism.error(failure=0.05) < 100
    True
    """
    target = Target(epsilon, delta, model, constants, side, honest_fraction, failure, minimise)
    return Selection(Numbers(size).size, target)


@dataclass(frozen=True, repr=False)
class Selection:
    """A privacy target for a choice among so many items, to be planned for any batch size."""

    size: int
    target: Target

    def __repr__(self) -> str:
        return f"selection among {self.size:,} items: {self.target}"

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
    return SelectionMechanism(target.model, target.constants, target.selector(selection.size, users), target.guarantee)


@dataclass(frozen=True, repr=False)
class SelectionMechanism(Planned):
    """A selection planned for one batch size: frozen, serializable, with its certificate.

    Examples
    --------
    >>> selection(epsilon=1.0, size=1000, model="central-pure").plan(users=200)
    selection among 1,000 items in the central-pure model for 200 users: 1-DP when one report is replaced
    """

    kind: ClassVar[str] = "SelectionMechanism"
    asks: ClassVar[str] = "selection among"

    @property
    def possible(self) -> tuple[int, int]:
        return 0, self.size - 1

    def check_value(self, value: object) -> None:
        integer("value", value, 0, self.size - 1)

    @property
    def outputs(self) -> int | None:
        return None

    @property
    def extremes(self) -> tuple[Any, Any]:
        return 0, self.size - 1

    @cached_property
    def recipe(self) -> dict[str, Any]:
        ballot = {key: self.oracle.to_dict().get(key) for key in ("kind", "side", "size")}
        recipe = {"kind": self.kind, "model": self.model, "constants": self.constants}
        return recipe | {"ballot": ballot, "front_noise": self.front_shares > 0}

    def _told(self, decoded: Integers) -> int:
        return int(np.argmax(decoded))

    def error(self, failure: float) -> float:
        """How far the winner's true count can be below the largest, except with this probability."""
        return self.oracle.winner_error(failure)

    @property
    def unanimous_failure(self) -> float:
        """The chance that an item which all users hold does not win: exact, or as near as the oracle knows it."""
        return self.oracle.unanimous_failure

    def randomize(self, vote: int, source: Source, *, seat: int | None = None) -> Integers:
        """A user's vote as labelled messages, on their device."""
        return self._report(Numbers(self.size).indices([vote]), source, seat)

    def analyze(self, view: ArrayLike, source: Source | None = None) -> int:
        """The winner. In the central models the analyzer draws the noise, and needs `source`."""
        return self.oracle.choose(array_of(view), source)

    def run(self, votes: ArrayLike, source: Source, progress: Progress = lambda part: None) -> int:
        """The whole way of a batch: every device reports, the labels are counted, the winner is read."""
        return self.analyze(self._gathered(Numbers(self.size).indices(votes), source, progress), source)

    def simulate(self, counts: ArrayLike, source: Source) -> int:
        """The same law from the true counts of all items."""
        return self.analyze(self._in_law(counts, source), source)
