"""Worlds whose rewards lie anywhere in [0, 1]: clipped Gaussian, Beta, and rewards that a file holds."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from croupier.checks import InvalidParameter, positive
from croupier.simulation.worlds import Floats, Integers, World, checked_means


class Levelled(World):
    """A world known by the probability of each encoded level of an arm's reward."""

    @abstractmethod
    def level_law(self, run: int, arm: int, precision: int) -> Floats:
        """P(encoded reward = 0), ..., P(encoded reward = precision)."""

    def encoded_sums(
        self, runs: Integers, arms: Integers, users: int | Integers, precision: int, generator: np.random.Generator
    ) -> Integers:
        levels = np.arange(precision + 1)
        sums = np.empty(len(runs), dtype=np.int64)
        # Runs that share a law draw together.
        keys = np.stack((runs if self.means.ndim == 2 else np.zeros_like(runs), arms), axis=1)
        distinct, place = np.unique(keys, axis=0, return_inverse=True)
        for index, (run, arm) in enumerate(distinct.tolist()):
            same = np.flatnonzero(place == index)
            law = self.level_law(run, arm, precision)
            drawn = users if np.ndim(users) == 0 else np.asarray(users)[same]
            sums[same] = generator.multinomial(drawn, law, size=len(same)) @ levels
        return sums


def normalised(law: Floats) -> Floats:
    """Probabilities that sum to one whatever the rounding; read-only, since laws are remembered."""
    law = np.maximum(law, 0.0)
    law = np.asarray(law / law.sum())
    law.flags.writeable = False
    return law


class ClippedGaussian(Levelled):
    """A normal reward around a centre, moved to the nearer end when it leaves [0, 1] ([CZ23] section 7).

    The mean of a clipped arm is not its centre, and regret is told with the true means.

    Parameters
    ----------
    centres : every arm's centre, or one row of them for each run.
    std : the standard deviation before clipping.

    Examples
    --------
    >>> ClippedGaussian([0.1, 0.5], std=1.0).means.round(3).tolist()
    [0.351, 0.5]
    """

    def __init__(self, centres: ArrayLike, std: float = 1.0) -> None:
        self.centres, self.std = checked_means(centres, "centres"), float(positive("std", std))
        low, high = -self.centres / self.std, (1.0 - self.centres) / self.std
        inside = self.centres * (_cdf(high) - _cdf(low)) - self.std * (_pdf(high) - _pdf(low))
        self.means = inside + 1.0 - _cdf(high)

    def rewards(self, run: int, arm: int, users: int, generator: np.random.Generator) -> Floats:
        centre = self.centres[run, arm] if self.centres.ndim == 2 else self.centres[arm]
        return np.clip(generator.normal(centre, self.std, users), 0.0, 1.0)

    def level_law(self, run: int, arm: int, precision: int) -> Floats:
        centre = float(self.centres[run, arm] if self.centres.ndim == 2 else self.centres[arm])
        return _gaussian_levels(centre, self.std, precision)

    def __repr__(self) -> str:
        return f"ClippedGaussian({np.array2string(self.centres, precision=3, threshold=6)}, std={self.std:g})"


@lru_cache(maxsize=256)
def _gaussian_levels(centre: float, std: float, precision: int) -> Floats:
    """Randomized rounding gives level k the mean of a triangle around it: second differences of E[(x - edge)₊]."""
    edges = np.arange(precision + 1) / precision
    z = (edges - centre) / std
    # E[(clip(x) - e)₊] for e in [0, 1]; the mass above one counts as one.
    top = (1.0 - centre) / std
    beyond = std * (_pdf(z) - _pdf(top)) + (centre - edges) * (_cdf(top) - _cdf(z)) + (1.0 - edges) * (1.0 - _cdf(top))
    return from_call_prices(beyond, precision)


def from_call_prices(prices: Floats, precision: int) -> Floats:
    """The law of randomly rounded levels from E[(x - k/g)₊], k = 0..g: both are piecewise linear in between."""
    slopes = np.diff(prices) * precision
    above = np.concatenate((-slopes, [0.0]))
    law = np.empty(precision + 1)
    law[0] = 1.0 - above[0]
    law[1:] = above[:-1] - above[1:]
    return normalised(law)


class Beta(Levelled):
    """Beta-distributed rewards.

    Parameters
    ----------
    means : every arm's mean (kept a millionth away from 0 and 1), or one row of them for each run.
    concentration : a + b of the Beta law: the larger, the nearer rewards are to their mean.

    Examples
    --------
    >>> Beta([0.3, 0.5], concentration=8.0)
    Beta([0.3 0.5], concentration=8)
    """

    def __init__(self, means: ArrayLike, concentration: float = 4.0) -> None:
        self.means = np.clip(checked_means(means), 1e-6, 1.0 - 1e-6)
        self.concentration = float(positive("concentration", concentration))

    def __repr__(self) -> str:
        means = np.array2string(self.means, precision=3, threshold=6)
        return f"Beta({means}, concentration={self.concentration:g})"

    def _mean(self, run: int, arm: int) -> float:
        return float(self.means[run, arm] if self.means.ndim == 2 else self.means[arm])

    def rewards(self, run: int, arm: int, users: int, generator: np.random.Generator) -> Floats:
        a = self._mean(run, arm) * self.concentration
        return generator.beta(a, self.concentration - a, users)

    def level_law(self, run: int, arm: int, precision: int) -> Floats:
        from scipy.special import betainc

        mean = self._mean(run, arm)
        a, edges = mean * self.concentration, np.arange(precision + 1) / precision
        b = self.concentration - a
        prices = mean * (1.0 - betainc(a + 1.0, b, edges)) - edges * (1.0 - betainc(a, b, edges))
        return from_call_prices(prices, precision)


class Ratings(Levelled):
    """Arms that replay tables of ratings in [0, 1], drawn with replacement."""

    def __init__(self, tables: Sequence[ArrayLike], source: str = "") -> None:
        self.tables = [np.asarray(table, dtype=float).ravel() for table in tables]
        self.source = source
        if len(self.tables) < 2 or any(table.size == 0 for table in self.tables):
            raise InvalidParameter("tables", len(self.tables), "at least two arms, each with at least one rating")
        if any(np.isnan(t).any() or t.min() < 0 or t.max() > 1 for t in self.tables):
            raise InvalidParameter("tables", "ratings outside [0, 1]", "numbers in [0, 1]")
        self.means = np.asarray([table.mean() for table in self.tables])
        self._distinct = [np.unique(table, return_counts=True) for table in self.tables]

    def __repr__(self) -> str:
        size = sum(table.size for table in self.tables)
        return f"Ratings({self.arms} arms, {size:,} ratings{', ' if self.source else ''}{self.source})"

    @property
    def binary(self) -> bool:
        return all(set(values.tolist()) <= {0.0, 1.0} for values, _ in self._distinct)

    def rewards(self, run: int, arm: int, users: int, generator: np.random.Generator) -> Floats:
        return generator.choice(self.tables[arm], users)

    def level_law(self, run: int, arm: int, precision: int) -> Floats:
        values, counts = self._distinct[arm]
        scaled = values * precision
        below = np.minimum(np.floor(scaled), precision - 1).astype(np.int64)
        up = (scaled - below) * counts
        law = np.bincount(below, counts - up, precision + 1) + np.bincount(below + 1, up, precision + 1)
        return normalised(law.astype(float))


def _cdf(x: Any) -> Any:
    from scipy.special import ndtr

    return ndtr(x)


def _pdf(x: Any) -> Any:
    return np.exp(-0.5 * np.square(x)) / math.sqrt(2.0 * math.pi)
