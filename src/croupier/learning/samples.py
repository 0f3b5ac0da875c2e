"""Users' labelled samples, side by side: what voting works on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of features with a yes-or-no label, those of one user together; user u has rows starts[u]:starts[u+1].

    >>> samples = Samples.of([[1], [2], [3]], [True, False, True], groups=["b", "a", "b"])
    >>> samples.users, samples.sizes.tolist()
    (2, [1, 2])
    """

    features: NDArray[Any]
    labels: Bools
    starts: Integers

    @classmethod
    def of(cls, features: ArrayLike, labels: ArrayLike, groups: ArrayLike | None = None) -> Samples:
        """Gather rows by user; without groups every row is a user of its own. Users are numbered in order of id."""
        table, marks = np.asarray(features), np.asarray(labels, dtype=bool)
        if table.ndim != 2 or marks.shape != table.shape[:1]:
            raise InvalidParameter("features", table.shape, f"a table with {marks.size} rows, one for each label")
        if groups is None:
            return cls(table, marks, np.arange(len(table) + 1, dtype=np.int64))
        ids = np.asarray(groups)
        if ids.shape != marks.shape:
            raise InvalidParameter("groups", ids.shape, f"{marks.size} user ids, one for each row")
        _, owner, sizes = np.unique(ids, return_inverse=True, return_counts=True)
        order = np.argsort(owner, kind="stable")
        return cls(table[order], marks[order], np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))

    @classmethod
    def equal(cls, features: ArrayLike, labels: ArrayLike, users: int) -> Samples:
        """Users who hold equally many rows, one after the other."""
        table, marks = np.asarray(features), np.asarray(labels, dtype=bool)
        each, rest = divmod(len(table), users)
        if rest:
            raise InvalidParameter("users", users, f"a divisor of the {len(table)} rows")
        return cls(table, marks, np.arange(users + 1, dtype=np.int64) * each)

    @property
    def users(self) -> int:
        return len(self.starts) - 1

    @property
    def columns(self) -> int:
        return int(self.features.shape[1])

    @cached_property
    def sizes(self) -> Integers:
        """How many rows each user has."""
        return np.diff(self.starts)

    @cached_property
    def owner(self) -> Integers:
        """The user of each row."""
        return np.repeat(np.arange(self.users), self.sizes)

    @cached_property
    def share(self) -> Floats:
        """What one row weighs in its user's mean; a user without rows has no mean, and errs nowhere."""
        return 1.0 / np.maximum(self.sizes, 1)

    def only(self, first: int, stop: int) -> Samples:
        """Some users' rows."""
        low, high = int(self.starts[first]), int(self.starts[stop])
        return Samples(self.features[low:high], self.labels[low:high], self.starts[first : stop + 1] - low)

    def chosen(self, users: Integers) -> Samples:
        """The rows of these users, in this order."""
        rows = [np.arange(self.starts[user], self.starts[user + 1]) for user in users]
        sizes = self.sizes[users]
        where = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
        return Samples(self.features[where], self.labels[where], np.concatenate(([0], np.cumsum(sizes))))

    def parts(self, users: int) -> Iterator[tuple[int, Samples]]:
        """The samples in pieces of at most so many users, each with the number of its first."""
        for first in range(0, self.users, max(users, 1)):
            yield first, self.only(first, min(first + max(users, 1), self.users))

    def count(self, rows: Bools) -> Floats:
        """How many of each user's rows are marked."""
        return np.bincount(self.owner[rows], minlength=self.users).astype(np.float64)

    def tally(self, codes: Integers, size: int, rows: Bools) -> Floats:
        """How many of each user's marked rows have each code in [0, size): users by codes."""
        counts = np.bincount(self.owner[rows] * size + codes[rows], minlength=self.users * size)
        return counts.reshape(self.users, size).astype(np.float64)

    @cached_property
    def distinct(self) -> tuple[NDArray[Any], Integers]:
        """The different rows of features among all users, and which of them each row is."""
        codes = _codes(self.features)
        if len(codes) and int(codes.max()) < 4 * len(codes):
            # Few codes: marking them is faster than sorting.
            present = np.bincount(codes) > 0
            place = (np.cumsum(present) - 1)[codes]
            first = np.empty(int(present.sum()), dtype=np.int64)
            first[place[::-1]] = np.arange(len(codes) - 1, -1, -1)
        else:
            _, first, place = np.unique(codes, return_index=True, return_inverse=True)
        return self.features[first], place.astype(np.int64)


def _codes(table: NDArray[Any]) -> Integers:
    """One number for each row, equal for equal rows and for no others."""
    codes, largest = np.zeros(len(table), dtype=np.int64), 1
    for column in table.T:
        bits = ((column == 0) | (column == 1)).all()
        values, place = (np.arange(2), column.astype(np.int64)) if bits else np.unique(column, return_inverse=True)
        if largest * len(values) >= 2**62:
            kept, codes = np.unique(codes, return_inverse=True)
            largest = len(kept)
        codes, largest = codes * len(values) + place, largest * len(values)
    return codes
