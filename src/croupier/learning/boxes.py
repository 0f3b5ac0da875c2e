"""Intervals and boxes on a public grid: yes inside, no outside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter
from croupier.learning.representation import Representation
from croupier.learning.samples import Bools, Floats, Integers, Samples
from croupier.learning.seeds import Seed
from croupier.learning.thresholds import Grid

LARGEST = 2**22


@dataclass(frozen=True)
class Boxes(Grid):
    """The class of boxes, intervals in one dimension: a <= x < b in every column, a < b cuts of the grid."""

    cuts: int = 33

    def draw(self, columns: int, seed: Seed) -> BoxList:
        boxes = BoxList(self, columns)
        if boxes.size > LARGEST:
            allowed = f"fewer: {columns} columns would make {boxes.size:.3g} boxes, and {LARGEST:,} are the most"
            raise InvalidParameter("cuts", self.cuts, allowed)
        return boxes


@dataclass(frozen=True)
class BoxList(Representation):
    """Numbered like the digits of a number: the last column's interval changes fastest."""

    family: Boxes
    columns: int

    @cached_property
    def intervals(self) -> tuple[Integers, Integers]:
        """The first and the last cut of every interval of one column."""
        low, high = np.triu_indices(self.family.cuts, 1)
        return low.astype(np.int64), high.astype(np.int64)

    @property
    def parameters(self) -> int:
        return 2 * self.columns

    @property
    def size(self) -> int:
        return int((self.family.cuts * (self.family.cuts - 1) // 2) ** self.columns)

    def unseen(self, features: NDArray[Any]) -> str:
        return self.family.unseen(features)

    def _bounds(self, index: int) -> list[tuple[float, float]]:
        low, high = self.intervals
        places = np.unravel_index(int(index), (len(low),) * self.columns)
        points = self.family.points
        return [(float(points[low[place]]), float(points[high[place]])) for place in places]

    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        inside = np.ones(len(features), dtype=bool)
        for column, (low, high) in enumerate(self._bounds(index)):
            inside &= (features[:, column] >= low) & (features[:, column] < high)
        return inside

    def describe(self, index: int) -> str:
        return " and ".join(f"{a:g} <= column {i} < {b:g}" for i, (a, b) in enumerate(self._bounds(index)))

    def mistakes(self, samples: Samples) -> Floats:
        """A table of running sums gives the sum over any box by differences, one column after the other."""
        cells = self.family.cuts - 1
        where = self.family.codes(samples.features[:, : self.columns]) - 1
        inside = ((where >= 0) & (where < cells)).all(axis=1)
        codes = np.ravel_multi_index(tuple(np.clip(where, 0, cells - 1).T), (cells,) * self.columns).astype(np.int64)
        size = cells**self.columns
        wrong, right = (samples.tally(codes, size, inside & rows) for rows in (~samples.labels, samples.labels))
        low, high = self.intervals
        table = (wrong - right).reshape((samples.users,) + (cells,) * self.columns)
        for axis in range(1, self.columns + 1):
            pad = [(0, 0)] * table.ndim
            pad[axis] = (1, 0)
            running = np.cumsum(np.pad(table, pad), axis=axis)
            table = np.take(running, high, axis=axis) - np.take(running, low, axis=axis)
        return samples.count(samples.labels)[:, None] + table.reshape(samples.users, -1)
