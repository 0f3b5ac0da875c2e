"""Decision lists learnt by statistical queries: rule after rule that is nearly pure on what is left [Kea98]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import between, integer
from croupier.learning.cube import binary
from croupier.learning.queries import Bits, QueryBallot, steps
from croupier.learning.samples import Bools, Floats, Integers
from croupier.learning.seeds import Seed

Rules = tuple[tuple[int, bool], ...]
"""Literals with the label they decide. Literal 0 is "always" and ends a list; 2j+1 is column j, 2j+2 its opposite."""


@dataclass(frozen=True)
class DecisionListQueries:
    """The class of decision lists over {0, 1}^columns of at most `length` rules, and how exactly to ask.

    The target should be such a list. If every answer is within `tolerance` τ of the truth, a list of K rules is learnt
    with error at most 2·columns·(K·4τ/3 + 2τ) + 16τ/3 (`error_bound`): a worst case. What happens in practice is far
    better, since a pure rule has impurity zero in every sample, and zero is rounded to zero by everyone.
    """

    tolerance: float = 0.1
    length: int = 8

    def __post_init__(self) -> None:
        between("tolerance", self.tolerance, 0, 1)
        integer("length", self.length, 1)

    def error_bound(self, columns: int, rules: int) -> float:
        """The worst error when the target has so many rules and `length` is no obstacle.

        A literal is passed over while it has right mass below 4τ/3; so the first rule of the target that is not has
        impurity at most K·4τ/3, and the one taken at most 2τ more. At the end no literal of a column has more.
        """
        passed = 4.0 * self.tolerance / 3.0
        return 2 * columns * (rules * passed + 2.0 * self.tolerance) + 4.0 * passed

    def ballot(self, *, columns: int, seed: Seed, alpha: float, beta: float) -> QueryBallot:
        """What is voted on; how accurate it is follows from the tolerance, not from α and β."""
        return QueryBallot(ListProgram(integer("columns", columns, 1), self.tolerance, self.length), seed)


@dataclass(frozen=True)
class ListProgram:
    """The state is the list so far; the queries are the masses of the two labels where a literal decides next."""

    columns: int
    tolerance: float
    length: int

    @property
    def literals(self) -> int:
        return 2 * self.columns + 1

    @property
    def width(self) -> int:
        """Bits of one rule: its literal and its label."""
        return (2 * self.literals - 1).bit_length()

    @property
    def bits(self) -> int:
        return self.width * self.length

    def start(self) -> Rules:
        return ()

    def finished(self, state: Rules) -> bool:
        return bool(state) and state[-1][0] == 0

    def query(self, state: Rules, features: NDArray[Any], labels: Bools) -> Floats:
        """For every literal the mass of no, then for every literal the mass of yes, where no rule has decided."""
        holds = _holds(features)
        left = ~np.asarray(holds[:, [literal for literal, _ in state]].any(axis=1))
        decides = holds & left[:, None]
        return np.concatenate((decides & ~labels[:, None], decides & labels[:, None]), axis=1).astype(np.float64)

    def step(self, state: Rules, answers: Integers) -> Rules:
        """Take the purest rule; among equally pure ones the first, and "always" before all others.

        First, not heaviest: whether a rule qualifies is steadier than which of many is the best.
        """
        masses = answers.reshape(2, self.literals)
        last = len(state) + 1 == self.length
        for impurity in range(steps(self.tolerance) + 1):
            for literal in range(1 if last else self.literals):
                for label in (False, True):
                    wrong, right = masses[int(not label), literal], masses[int(label), literal]
                    used = any(literal == taken for taken, _ in state)
                    if wrong <= impurity and not used and (literal == 0 or right > impurity):
                        return (*state, (literal, label))
        return (*state, (0, bool(masses[1, 0] > masses[0, 0])))

    def write(self, state: Rules) -> Bits:
        """Rule after rule, the lowest bit first; what is left over is zero, which reads as an end."""
        codes = np.zeros(self.length, dtype=np.int64)
        codes[: len(state)] = [2 * literal + label for literal, label in state]
        return ((codes[:, None] >> np.arange(self.width)) & 1).astype(np.uint8).reshape(-1)

    def read(self, bits: Bits) -> DecisionList:
        codes = np.asarray(bits, dtype=np.int64).reshape(self.length, self.width) @ (1 << np.arange(self.width))
        rules: list[tuple[int, bool]] = []
        for code in codes.tolist():
            literal, label = divmod(code, 2)
            # A literal that does not exist can only come from a failed vote; the list ends there.
            rules.append((literal if literal < self.literals else 0, bool(label)))
            if rules[-1][0] == 0:
                break
        return DecisionList(tuple(rules))


@dataclass(frozen=True)
class DecisionList:
    """A list as a rule; a row that no literal holds for gets a no.

    >>> DecisionList(((1, True), (4, False), (0, True)))
    if column 0 then 1 else if not column 1 then 0 else 1
    """

    rules: Rules

    def predict(self, features: NDArray[Any]) -> Bools:
        holds = _holds(np.asarray(features))
        answer = np.zeros(len(holds), dtype=bool)
        for literal, label in reversed(self.rules):
            answer[holds[:, literal]] = label
        return answer

    def __repr__(self) -> str:
        words = []
        for literal, label in self.rules:
            column, opposite = divmod(literal - 1, 2)
            condition = f"if {'not ' if opposite else ''}column {column} then " if literal else ""
            words.append(f"{condition}{int(label)}")
        return " else ".join(words)


def _holds(features: NDArray[Any]) -> Bools:
    """Rows by literals: whether each holds."""
    ones = binary(features)
    table = np.ones((len(features), 2 * features.shape[1] + 1), dtype=bool)
    table[:, 1::2], table[:, 2::2] = ones, ~ones
    return table
