"""Conjunctions of a few literals over yes-or-no columns: what a rule of a k-decision list asks."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter
from croupier.learning.samples import Bools

Term = tuple[int, ...]
"""Literals that must all hold: 2j+1 is column j, 2j+2 its opposite. Without any, the term always holds."""


def binary(features: NDArray[Any]) -> Bools:
    """Rows of zeros and ones as bits, or a refusal."""
    table = np.asarray(features)
    bad = (table != 0) & (table != 1)
    if bad.any():
        raise InvalidParameter("feature", table[bad][0].item(), "0 or 1")
    return np.asarray(table == 1)


@lru_cache(maxsize=64)
def terms(columns: int, conjunction: int) -> tuple[Term, ...]:
    """All conjunctions of at most `conjunction` literals of different columns, the shortest first.

    >>> terms(2, 1)
    ((), (1,), (2,), (3,), (4,))
    >>> terms(2, 2)[5:]
    ((1, 3), (1, 4), (2, 3), (2, 4))
    """
    return tuple(
        tuple(2 * column + 1 + opposite for column, opposite in zip(chosen, signs, strict=True))
        for length in range(conjunction + 1)
        for chosen in combinations(range(columns), length)
        for signs in product((0, 1), repeat=length)
    )


def term_count(columns: int, conjunction: int) -> int:
    """How many there are: Σ_j C(columns, j) 2^j."""
    return sum(comb(columns, length) * 2**length for length in range(conjunction + 1))


def holds(features: NDArray[Any], conjunction: int = 1) -> Bools:
    """Rows by terms: whether each holds."""
    ones = binary(features)
    literals = np.ones((len(ones), 2 * ones.shape[1] + 1), dtype=bool)
    literals[:, 1::2], literals[:, 2::2] = ones, ~ones
    if conjunction == 1:
        return literals
    every = terms(ones.shape[1], conjunction)
    return np.stack([literals[:, list(term)].all(axis=1) for term in every], axis=1)


def named(term: Term) -> str:
    """A term in words.

    >>> named((1, 4))
    'column 0 and not column 1'
    """
    words = []
    for literal in term:
        column, opposite = divmod(literal - 1, 2)
        words.append(f"{'not ' if opposite else ''}column {column}")
    return " and ".join(words)
