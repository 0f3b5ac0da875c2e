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

MOST_LIST_COLUMNS = 5
"""There are 15,036 functions then, and 260,134 with one column more: the statistical-query route does not list them."""

MOST_PARITY_COLUMNS = 20


def binary(features: NDArray[Any]) -> Bools:
    """Rows of zeros and ones as bits, or a refusal."""
    table = np.asarray(features)
    bad = (table != 0) & (table != 1)
    if bad.any():
        raise InvalidParameter("feature", table[bad][0].item(), "0 or 1")
    return np.asarray(table == 1)


def corner(features: NDArray[Any]) -> Integers:
    """The number of the corner of the cube that each row is: column j counts 2^j."""
    table = binary(features)
    return table.astype(np.int64) @ (1 << np.arange(table.shape[1], dtype=np.int64))


@dataclass(frozen=True)
class DecisionLists:
    """The class of "if literal then bit, else if literal then bit, ..., else bit", all functions listed once."""

    def draw(self, columns: int, seed: Seed) -> DecisionTables:
        return DecisionTables(integer("columns", columns, 1, MOST_LIST_COLUMNS))


@dataclass(frozen=True)
class DecisionTables(Representation):
    """Decision lists as tables of values, in rising order of the number that the table is."""

    columns: int

    @property
    def size(self) -> int:
        return len(decision_tables(self.columns))

    def mistakes(self, samples: Samples) -> Floats:
        codes, size = corner(samples.features), 2**self.columns
        wrong = samples.tally(codes, size, ~samples.labels) - samples.tally(codes, size, samples.labels)
        return np.asarray(samples.count(samples.labels)[:, None] + wrong @ _values(self.columns))

    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        word = decision_tables(self.columns)[index]
        return np.asarray((word >> corner(features).astype(np.uint64)) & np.uint64(1), dtype=bool)

    def describe(self, index: int) -> str:
        """The list again: a literal that settles what is left of the cube, then the rest."""
        return describe_list(int(decision_tables(self.columns)[index]), self.columns)


@lru_cache(maxsize=8)
def decision_tables(columns: int) -> Words:
    """All functions that a decision list can compute, each as the word of its values on the cube."""
    whole = np.uint64(2 ** (2**columns) - 1)
    tables = np.asarray([0, whole], dtype=np.uint64)
    # A list never needs a column twice, so as many rounds as columns reach every one.
    for _ in range(columns):
        rounds = [tables]
        for literal in _literals(columns):
            rounds += [tables | literal, tables & (whole ^ literal)]
        tables = np.unique(np.concatenate(rounds))
    return tables


@lru_cache(maxsize=8)
def _values(columns: int) -> Floats:
    """Corners by functions."""
    bits = decision_tables(columns) >> np.arange(2**columns, dtype=np.uint64)[:, None]
    return (bits & np.uint64(1)).astype(np.float64)


def _literals(columns: int) -> Words:
    """Where on the cube each column is one, and where it is zero."""
    corners = np.arange(2**columns, dtype=np.uint64)
    ones = [int(sum(1 << int(c) for c in corners if int(c) >> j & 1)) for j in range(columns)]
    whole = 2 ** (2**columns) - 1
    return np.asarray([word for variable in ones for word in (variable, whole ^ variable)], dtype=np.uint64)


def describe_list(word: int, columns: int) -> str:
    """Find literal after literal on which the function is constant."""
    left, parts = 2 ** (2**columns) - 1, []
    literals = [int(literal) for literal in _literals(columns)]
    while word & left not in (0, left):
        for number, literal in enumerate(literals):
            here = literal & left
            if here and word & here in (0, here):
                column, zero = divmod(number, 2)
                parts.append(f"if {'not ' if zero else ''}column {column} then {int(word & here != 0)}")
                left &= ~literal
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
