"""Thresholds on a public grid of cuts: x >= cut, on any column, in either direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, finite, integer, one_of
from croupier.learning.representation import CHUNK, Representation
from croupier.learning.samples import Bools, Floats, Integers, Samples
from croupier.learning.seeds import Seed

DIRECTIONS = ("both", "up")


@dataclass(frozen=True)
class Grid:
    """`cuts` evenly spaced numbers from `low` to `high`, both included. They are public, so never taken from data."""

    low: float = 0.0
    high: float = 1.0
    cuts: int = 256

    def __post_init__(self) -> None:
        integer("cuts", self.cuts, 2, 2**24)
        if not finite("low", self.low) < finite("high", self.high):
            raise InvalidParameter("high", self.high, f"above low = {self.low!r}")

    @property
    def points(self) -> Floats:
        return np.linspace(self.low, self.high, self.cuts)

    def unseen(self, features: NDArray[Any]) -> str:
        """In words, how many numbers lie outside the grid, where no cut can tell them apart; nothing where none do."""
        hair = 1e-9 * (self.high - self.low)
        outside = int(((features < self.low - hair) | (features > self.high + hair)).sum())
        place = f"outside [{self.low:g}, {self.high:g}], the learner's public range, and cannot be told apart there"
        return f"{outside:,} of {features.size:,} numbers lie {place}" if outside else ""

    def codes(self, values: NDArray[Any]) -> Integers:
        """How many cuts lie at or below each value, as a search would find; the grid is even, so a guess is near."""
        points = self.points
        inside = np.clip(values.astype(np.float64), self.low, self.high)
        last = self.cuts - 1
        guess = np.minimum(((inside - self.low) / (self.high - self.low) * last).astype(np.int64), last)
        # Rounding may have put the guess one place too low or too high.
        below = guess + (points[guess] <= values)
        below += (below == guess + 1) & (guess < last) & (points[np.minimum(guess + 1, last)] <= values)
        below -= (below == guess) & (guess > 0) & (points[np.maximum(guess - 1, 0)] > values)
        return below


@dataclass(frozen=True)
class Thresholds(Grid):
    """The class of x >= cut (direction "up"), and of x < cut too (direction "both"), for each column.

    Parameters
    ----------
    low, high : between which values a column lies.
    cuts : how many cuts there are, evenly spaced.
    direction : "up" or "both".

    Examples
    --------
    >>> Thresholds(cuts=5).points.tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    direction: str = "both"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("direction", self.direction, DIRECTIONS)

    def draw(self, columns: int, seed: Seed) -> ThresholdList:
        return ThresholdList(self, columns)


@dataclass(frozen=True)
class ThresholdList(Representation):
    """Numbered by column, then direction, then cut."""

    family: Thresholds
    columns: int = 1

    @property
    def parameters(self) -> int:
        return 1

    @property
    def ways(self) -> int:
        return 2 if self.family.direction == "both" else 1

    @property
    def size(self) -> int:
        return self.columns * self.ways * self.family.cuts

    def unseen(self, features: NDArray[Any]) -> str:
        return self.family.unseen(features)

    def _place(self, index: int) -> tuple[int, bool, float]:
        rest, cut = divmod(int(index), self.family.cuts)
        column, downward = divmod(rest, self.ways)
        return column, bool(downward), float(self.family.points[cut])

    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        column, downward, cut = self._place(index)
        return np.asarray((features[:, column] >= cut) != downward)

    def describe(self, index: int) -> str:
        column, downward, cut = self._place(index)
        return f"column {column} {'<' if downward else '>='} {cut:g}"

    def mistakes(self, samples: Samples) -> Floats:
        """A cut is wrong about the negatives at or above it and the positives below it: two running sums."""
        cuts, blocks = self.family.cuts, []
        for column in range(self.columns):
            # Cut number c says yes exactly when c is less than the code.
            codes = self.family.codes(samples.features[:, column])
            balance = samples.tally(codes, cuts + 1, samples.labels) - samples.tally(codes, cuts + 1, ~samples.labels)
            upward = samples.count(~samples.labels)[:, None] + np.cumsum(balance, axis=1)[:, :cuts]
            blocks += [upward, samples.sizes[:, None] - upward][: self.ways]
        return np.concatenate(blocks, axis=1)

    def votes(self, samples: Samples, log_times: Floats, gamma: float) -> Integers:
        """Between two neighbouring samples all cuts are equally wrong, so only the earliest of each run can win."""
        cuts = self.family.cuts
        if samples.users * self.size <= CHUNK // 4:
            return super().votes(samples, log_times, gamma)
        best = np.full(samples.users, np.inf)
        chosen = np.zeros(samples.users, dtype=np.int64)
        for column in range(self.columns):
            runs = _Runs.of(samples, self.family.codes(samples.features[:, column]), cuts)
            for way in range(self.ways):
                offset = (column * self.ways + way) * cuts
                earliest = _RangeMinimum(log_times[offset : offset + cuts])
                mistakes = samples.sizes[runs.owner] - runs.mistakes if way else runs.mistakes
                scores, places = runs.best(earliest, gamma * (mistakes * samples.share[runs.owner]))
                better = scores < best
                best[better], chosen[better] = scores[better], offset + places[better]
        return chosen


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs of cuts [begin, end) on which one user's mistakes are constant; those of one user are together."""

    begin: Integers
    end: Integers
    mistakes: Integers
    owner: Integers
    first: Integers

    @classmethod
    def of(cls, samples: Samples, codes: Integers, cuts: int) -> _Runs:
        # One number holds user, code and label, so that a plain sort puts all three in order.
        keys = np.sort((samples.owner * (cuts + 1) + codes) * 2 + samples.labels)
        positive, codes = (keys & 1).astype(np.int64), (keys >> 1) % (cuts + 1)
        first = samples.starts[:-1] + np.arange(samples.users)
        owner = np.repeat(np.arange(samples.users), samples.sizes + 1)
        later = np.ones(len(codes) + samples.users, dtype=bool)
        later[first] = False
        begin, step = np.zeros(len(later), dtype=np.int64), np.zeros(len(later), dtype=np.int64)
        begin[later], step[later] = codes, 2 * positive - 1
        total = np.cumsum(step)
        negatives = samples.count(~samples.labels).astype(np.int64)
        mistakes = total - total[first][owner] + negatives[owner]
        end = np.append(begin[1:], cuts)
        end[np.append(first[1:], len(later)) - 1] = cuts
        full = begin < end
        kept = np.concatenate(([0], np.cumsum(full)))
        # A user's first run may be empty, but never all of them: the kept ones are found again by counting.
        return cls(begin[full], end[full], mistakes[full], owner[full], kept[first].astype(np.int64))

    def best(self, earliest: _RangeMinimum, penalty: Floats) -> tuple[Floats, Integers]:
        """Each user's least score and the cut that has it."""
        places = earliest.argmin(self.begin, self.end)
        scores = earliest.values[places] + penalty
        least = np.minimum.reduceat(scores, self.first)
        hits = np.flatnonzero(scores == least[self.owner])[::-1]
        winner = np.empty(len(least), dtype=np.int64)
        # Written in reverse, the first of equals stays.
        winner[self.owner[hits]] = places[hits]
        return least, winner


class _RangeMinimum:
    """Where the least value of any range lies: one table for each power of two, and two look-ups for a range."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.levels = [np.arange(len(values), dtype=np.int32)]
        least = values
        while 2 ** len(self.levels) <= len(values):
            half = 2 ** (len(self.levels) - 1)
            places = self.levels[-1]
            self.levels.append(np.where(least[:-half] <= least[half:], places[:-half], places[half:]))
            least = np.minimum(least[:-half], least[half:])

    def argmin(self, begin: Integers, end: Integers) -> Integers:
        level = np.frexp((end - begin).astype(np.float64))[1] - 1
        places = np.empty(len(begin), dtype=np.int64)
        for power, table in enumerate(self.levels):
            rows = np.flatnonzero(level == power)
            left, right = table[begin[rows]], table[end[rows] - 2**power]
            places[rows] = np.where(self.values[left] <= self.values[right], left, right)
        return places
