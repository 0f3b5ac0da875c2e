"""Classes over a few yes-or-no features, where every hypothesis can be listed: decision lists and parities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, integer
from croupier.learning.representation import Representation
from croupier.learning.samples import Bools, Floats, Integers, Samples
from croupier.learning.seeds import Seed, Words
from croupier.learning.terms import binary, holds, named, terms

MOST_LIST_COLUMNS = 5
"""There are 15,036 functions then, and 260,134 with one column more: the statistical-query route does not list them."""

MOST_CONJUNCTION_COLUMNS = 4
"""With terms of two literals there are 54,622 of the 65,536 functions of four columns: one more would be too many."""

MOST_PARITY_COLUMNS = 20


def corner(features: NDArray[Any]) -> Integers:
    """The number of the corner of the cube that each row is: column j counts 2^j."""
    table = binary(features)
    return table.astype(np.int64) @ (1 << np.arange(table.shape[1], dtype=np.int64))


@dataclass(frozen=True)
class DecisionLists:
    """The class of "if term then bit, else if term then bit, ..., else bit", all functions listed once.

    A term is a conjunction of at most `conjunction` literals: with 1 these are decision lists, with k the k-decision
    lists of [GKM21] footnote 6.
    """

    conjunction: int = 1

    def __post_init__(self) -> None:
        integer("conjunction", self.conjunction, 1, MOST_CONJUNCTION_COLUMNS)

    def draw(self, columns: int, seed: Seed) -> DecisionTables:
        most = MOST_LIST_COLUMNS if self.conjunction == 1 else MOST_CONJUNCTION_COLUMNS
        return DecisionTables(integer("columns", columns, 1, most), self.conjunction)


@dataclass(frozen=True)
class DecisionTables(Representation):
    """Decision lists as tables of values, in rising order of the number that the table is."""

    columns: int
    conjunction: int = 1

    @property
    def _tables(self) -> Words:
        return decision_tables(self.columns, self.conjunction)

    @property
    def size(self) -> int:
        return len(self._tables)

    def mistakes(self, samples: Samples) -> Floats:
        codes, size = corner(samples.features), 2**self.columns
        wrong = samples.tally(codes, size, ~samples.labels) - samples.tally(codes, size, samples.labels)
        return np.asarray(samples.count(samples.labels)[:, None] + wrong @ _values(self.columns, self.conjunction))

    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        word = self._tables[index]
        return np.asarray((word >> corner(features).astype(np.uint64)) & np.uint64(1), dtype=bool)

    def describe(self, index: int) -> str:
        """The list again: a term that settles what is left of the cube, then the rest."""
        return describe_list(int(self._tables[index]), self.columns, self.conjunction)


@lru_cache(maxsize=8)
def decision_tables(columns: int, conjunction: int = 1) -> Words:
    """All functions that a list of such terms can compute, each as the word of its values on the cube."""
    whole = np.uint64(2 ** (2**columns) - 1)
    tables, fresh = np.asarray([0, whole], dtype=np.uint64), np.asarray([0, whole], dtype=np.uint64)
    # Every list is a term put before a shorter list; what a round adds, the next puts terms before.
    while len(fresh):
        longer = np.concatenate(
            [part for term in _places(columns, conjunction) for part in (fresh | term, fresh & ~term)]
        )
        fresh = np.setdiff1d(longer & whole, tables)
        tables = np.union1d(tables, fresh)
    return tables


@lru_cache(maxsize=8)
def _values(columns: int, conjunction: int = 1) -> Floats:
    """Corners by functions."""
    bits = decision_tables(columns, conjunction) >> np.arange(2**columns, dtype=np.uint64)[:, None]
    return (bits & np.uint64(1)).astype(np.float64)


def _places(columns: int, conjunction: int) -> Words:
    """Where on the cube each term holds, but for the one that always does."""
    corners = (np.arange(2**columns)[:, None] >> np.arange(columns)) & 1
    table = holds(corners, conjunction)[:, 1:]
    return np.asarray([sum(1 << int(c) for c in np.flatnonzero(place)) for place in table.T], dtype=np.uint64)


def describe_list(word: int, columns: int, conjunction: int = 1) -> str:
    """Find term after term on which the function is constant."""
    left, parts = 2 ** (2**columns) - 1, []
    places = [int(place) for place in _places(columns, conjunction)]
    while word & left not in (0, left):
        for term, place in zip(terms(columns, conjunction)[1:], places, strict=True):
            here = place & left
            if here and word & here in (0, here):
                parts.append(f"if {named(term)} then {int(word & here != 0)}")
                left &= ~place
                break
        else:
            raise InvalidParameter("table", word, f"that of a decision list over {columns} columns")
    return " else ".join([*parts, str(int(word & left != 0))])


@dataclass(frozen=True)
class Parities:
    """The class of parities: whether an odd number of a set of columns is one."""

    def draw(self, columns: int, seed: Seed) -> ParityList:
        return ParityList(integer("columns", columns, 1, MOST_PARITY_COLUMNS))


@dataclass(frozen=True)
class ParityList(Representation):
    """Parity number s is that of the columns j with bit j of s set."""

    columns: int

    @property
    def size(self) -> int:
        return int(2**self.columns)

    def mistakes(self, samples: Samples) -> Floats:
        """One transform gives a user's agreements minus mistakes for all parities."""
        codes, size = corner(samples.features), self.size
        signed = samples.tally(codes, size, ~samples.labels) - samples.tally(codes, size, samples.labels)
        return (samples.sizes[:, None] - walsh_hadamard(signed)) / 2.0

    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        return np.asarray(np.bitwise_count(corner(features) & int(index)) % 2 == 1)

    def describe(self, index: int) -> str:
        chosen = [f"column {j}" for j in range(self.columns) if index >> j & 1]
        return "odd: " + " + ".join(chosen) if chosen else "never"


def walsh_hadamard(rows: Floats) -> Floats:
    """Σ_x (-1)^{s·x} f(x) for every s, along the last axis."""
    size = rows.shape[-1]
    table = rows.copy()
    width = 1
    while width < size:
        view = table.reshape(*rows.shape[:-1], size // (2 * width), 2, width)
        low, high = view[..., 0, :] + view[..., 1, :], view[..., 0, :] - view[..., 1, :]
        view[..., 0, :], view[..., 1, :] = low, high
        width *= 2
    return table
