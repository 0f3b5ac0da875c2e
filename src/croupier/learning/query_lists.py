"""Decision lists learnt by statistical queries: rule after rule that is nearly pure on what is left [Kea98].

With conjunctions of k literals they are the k-decision lists that [GKM21] Corollary 33 mentions (footnote 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between, integer
from croupier.learning.queries import Bits, QueryBallot, steps
from croupier.learning.samples import Bools, Floats, Integers
from croupier.learning.seeds import Seed
from croupier.learning.terms import holds, named, term_count, terms

MOST_TERMS = 2**12

Rules = tuple[tuple[int, bool], ...]
"""Numbers of terms with the label they decide. Term 0 is "always" and ends a list; 2j+1 is column j, 2j+2 its opposite;
longer conjunctions follow in the order of `terms`."""


@dataclass(frozen=True)
class DecisionListQueries:
    """The class of decision lists over {0, 1}^columns of at most `length` rules, and how exactly to ask.

    A rule asks for a conjunction of at most `conjunction` literals: 1 makes decision lists, k makes k-decision lists,
    whose cost is that of decision lists over all conjunctions, d^k instead of d.

    The target should be such a list. If every answer is within `tolerance` τ of the truth, a list of K rules is learnt
    with error at most terms·(K·4τ/3 + 2τ) + 16τ/3 (`error_bound`): a worst case. What happens in practice is far
    better, since a pure rule has impurity zero in every sample, and zero is rounded to zero by everyone.
    """

    tolerance: float = 0.1
    length: int = 8
    conjunction: int = 1

    def __post_init__(self) -> None:
        between("tolerance", self.tolerance, 0, 1)
        integer("length", self.length, 1)
        integer("conjunction", self.conjunction, 1)

    def error_bound(self, columns: int, rules: int) -> float:
        """The worst error when the target has so many rules and `length` is no obstacle.

        A term is passed over while it has right mass below 4τ/3; so the first rule of the target that is not has
        impurity at most K·4τ/3, and the one taken at most 2τ more. At the end no literal of a column has more.
        """
        passed = 4.0 * self.tolerance / 3.0
        return (term_count(columns, self.conjunction) - 1) * (rules * passed + 2.0 * self.tolerance) + 4.0 * passed

    def ballot(self, *, columns: int, seed: Seed, alpha: float, beta: float) -> QueryBallot:
        """What is voted on; how accurate it is follows from the tolerance, not from α and β."""
        count = term_count(integer("columns", columns, 1), self.conjunction)
        if count > MOST_TERMS:
            allowed = f"smaller: {columns} columns have {count:,} such terms, and {MOST_TERMS:,} are the most"
            raise InvalidParameter("conjunction", self.conjunction, allowed)
        return QueryBallot(ListProgram(columns, self.tolerance, self.length, self.conjunction), seed)


@dataclass(frozen=True)
class ListProgram:
    """The state is the list so far; the queries are the masses of the two labels where a literal decides next."""

    columns: int
    tolerance: float
    length: int
    conjunction: int = 1

    @property
    def literals(self) -> int:
        """How many terms a rule can ask for."""
        return term_count(self.columns, self.conjunction)

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
        held = holds(features, self.conjunction)
        left = ~np.asarray(held[:, [literal for literal, _ in state]].any(axis=1))
        decides = held & left[:, None]
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
        return DecisionList(tuple(rules), self.columns if self.conjunction > 1 else None, self.conjunction)


@dataclass(frozen=True)
class DecisionList:
    """A list as a rule; a row that no term holds for gets a no. Conjunctions are numbered for so many `columns`.

    >>> DecisionList(((1, True), (4, False), (0, True)))
    if column 0 then 1 else if not column 1 then 0 else 1
    >>> DecisionList(((6, True), (0, False)), columns=2, conjunction=2)
    if column 0 and not column 1 then 1 else 0
    """

    rules: Rules
    columns: int | None = None
    conjunction: int = 1

    def predict(self, features: NDArray[Any]) -> Bools:
        held = holds(np.asarray(features), self.conjunction)
        answer = np.zeros(len(held), dtype=bool)
        for term, label in reversed(self.rules):
            answer[held[:, term]] = label
        return answer

    def __repr__(self) -> str:
        every = None if self.columns is None else terms(self.columns, self.conjunction)
        conditions = (((term,) if term else ()) if every is None else every[term] for term, _ in self.rules)
        return " else ".join(
            f"if {named(condition)} then {int(label)}" if condition else str(int(label))
            for condition, (_, label) in zip(conditions, self.rules, strict=True)
        )
