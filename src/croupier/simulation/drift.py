"""Worlds that drift for all arms alike, and worlds in which what is new pleases for a while.

Time is the number of users who have had a turn. Users of all arms come at the same times, so a drift that the arms
share leaves their differences as they are: whoever confuses arm and time finds differences here that there are none.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from croupier.checks import InvalidParameter, between, integer
from croupier.simulation.worlds import Bernoulli, Changing, Floats, Integers, Numbers, World, checked_means

DAY = 10_000
"""How many users a day has, unless it is said."""


class Shifted(Changing):
    """Coins whose means are a constant and a shift that depends on time: a subclass gives it, and its integral."""

    def __init__(self, means: ArrayLike, most: float) -> None:
        self.means = checked_means(means)
        if np.any(self.means + max(most, 0.0) > 1) or np.any(self.means + min(most, 0.0) < 0):
            raise InvalidParameter(
                "means", self.means.tolist(), f"such that they stay in [0, 1] when moved by {most:g}"
            )

    @abstractmethod
    def shift(self, times: Numbers) -> Floats:
        """How far every arm's mean has moved at these times: the arms are on a new last axis."""

    @abstractmethod
    def moved(self, times: Numbers) -> Floats:
        """The integral of the shift from the beginning to these times, which have an axis of arms (or of one)."""

    def means_at(self, run: int, times: Integers) -> Floats:
        first = self.means[run] if self.means.ndim == 2 else self.means
        return np.asarray(first + self.shift(times))

    def during(self, start: Numbers, end: Numbers) -> World:
        from_, to = np.asarray(start, dtype=float)[:, None], np.asarray(end, dtype=float)
        length = np.maximum(to - from_, 1.0)
        average = (self.moved(from_ + length) - self.moved(from_)) / length
        return Bernoulli(np.clip(self.means + average, 0.0, 1.0))


class Swinging(Shifted):
    """A daily swing: all means go up and down together.

    Parameters
    ----------
    means : every arm's mean over a day, or one row of them for each run.
    swing : how far they go up and down: 0.1 is ten points.
    period : how many users a day has.

    Examples
    --------
    >>> Swinging([0.5, 0.5], period=100).means_at(0, np.array([0, 25, 75])).round(3).tolist()
    [[0.5, 0.5], [0.6, 0.6], [0.4, 0.4]]
    """

    def __init__(self, means: ArrayLike, swing: float = 0.1, period: int = DAY) -> None:
        self.swing, self.period = float(between("swing", swing, 0, 1, "[]")), integer("period", period, 2)
        super().__init__(means, self.swing)
        super().__init__(means, -self.swing)

    def shift(self, times: Numbers) -> Floats:
        return np.asarray(self.swing * np.sin(2.0 * np.pi * times / self.period))[:, None]

    def moved(self, times: Numbers) -> Floats:
        turn = 2.0 * np.pi / self.period
        return np.asarray(self.swing * (1.0 - np.cos(turn * times)) / turn)

    def __repr__(self) -> str:
        return f"Swinging({np.array2string(self.means, precision=3)}, swing={self.swing:g}, period={self.period:,})"


class Trending(Shifted):
    """A trend: all means move together, and then stay.

    Parameters
    ----------
    means : every arm's mean at the beginning, or one row of them for each run.
    rise : how far they go: 0.1 is ten points up.
    over : how many users that takes.

    Examples
    --------
    >>> Trending([0.2, 0.3], rise=0.4, over=100).means_at(0, np.array([0, 50, 200])).round(3).tolist()
    [[0.2, 0.3], [0.4, 0.5], [0.6, 0.7]]
    """

    def __init__(self, means: ArrayLike, rise: float = 0.2, over: int = 10 * DAY) -> None:
        self.rise, self.over = float(between("rise", rise, -1, 1, "[]")), integer("over", over, 1)
        super().__init__(means, self.rise)

    def shift(self, times: Numbers) -> Floats:
        return np.asarray(self.rise * np.minimum(times / self.over, 1.0))[:, None]

    def moved(self, times: Numbers) -> Floats:
        on_the_way = np.minimum(times, self.over)
        return np.asarray(self.rise * (on_the_way**2 / (2.0 * self.over) + np.maximum(times - self.over, 0.0)))

    def __repr__(self) -> str:
        return f"Trending({np.array2string(self.means, precision=3)}, rise={self.rise:g}, over={self.over:,})"


class Novelty(Shifted):
    """What is new pleases for a while: all arms but the first are better at the beginning than later.

    Parameters
    ----------
    means : every arm's mean in the long run, or one row of them for each run.
    boost : by how much the new arms are better at the beginning.
    fades : after so many users a third of that is left.

    Examples
    --------
    >>> Novelty([0.5, 0.5], boost=0.1, fades=1000).means_at(0, np.array([0, 1000])).round(3).tolist()
    [[0.5, 0.6], [0.5, 0.537]]
    """

    def __init__(self, means: ArrayLike, boost: float = 0.1, fades: int = DAY) -> None:
        self.boost, self.fades = float(between("boost", boost, -1, 1, "[]")), integer("fades", fades, 1)
        super().__init__(means, self.boost)
        self.new = (np.arange(self.arms) > 0).astype(float)

    def shift(self, times: Numbers) -> Floats:
        return np.asarray(self.boost * np.exp(-np.asarray(times)[:, None] / self.fades) * self.new)

    def moved(self, times: Numbers) -> Floats:
        return np.asarray(-self.boost * self.fades * np.expm1(-times / self.fades) * self.new)

    def __repr__(self) -> str:
        return f"Novelty({np.array2string(self.means, precision=3)}, boost={self.boost:g}, fades={self.fades:,})"
