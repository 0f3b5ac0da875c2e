"""Linear separators over {0, 1}^d learnt by statistical queries: one coordinate at a time, by its edge.

A perceptron that asks for all coordinates of its update ([DV08] and earlier) must have every one of them rounded alike.
Here a round asks for all edges but keeps one decision: which coordinate to move, and which way. So far fewer roundings
have to agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import between, integer, positive
from croupier.learning.queries import Bits, QueryBallot, steps
from croupier.learning.samples import Bools, Floats, Integers
from croupier.learning.seeds import Seed
from croupier.learning.terms import binary

Weights = tuple[int, ...]
"""Whole weights of the columns, then of the constant."""

State = tuple[int, Weights]
"""How many rounds are left, and the weights."""


@dataclass(frozen=True)
class SeparatorQueries:
    """The class of separators Σ w_j z_j + w_0 >= 0, z = 2x - 1, with whole weights of size `largest` at most.

    Coordinate descent on the logistic loss: a round asks for every edge E[σ(-margin)·y·z_j] and moves the weight of the
    largest by one; it ends when no edge reaches `edge`, or after `rounds`. If the target separates with margin ρ (for
    weights of total size one) and answers are within τ of the truth, a run that ends by itself has error at most
    2(edge + τ)/ρ (`error_bound`): some edge is at least ρ·E[σ] and σ is at least ½ on a mistake. A move by `scale`
    lowers the loss, log 2 at first, by at least scale·|edge| - scale²/8. Whole weights always have some margin
    (`whole_margin`); a larger one is assumed, and nothing checks it.

    >>> queries = SeparatorQueries(tolerance=0.02, edge=0.03)
    >>> queries.error_bound(margin=0.5)
    0.2
    """

    tolerance: float = 0.2
    edge: float = 0.13
    scale: float = 1.0
    rounds: int = 16
    largest: int = 7

    def __post_init__(self) -> None:
        between("tolerance", self.tolerance, 0, 1)
        between("edge", self.edge, 0, 1)
        positive("scale", self.scale)
        integer("rounds", self.rounds, 1)
        integer("largest", self.largest, 1)

    def error_bound(self, margin: float) -> float:
        """The worst error of a run that ends by itself."""
        return 2.0 * (self.edge + self.tolerance) / float(between("margin", margin, 0, 1, "(]"))

    def ballot(self, *, columns: int, seed: Seed, alpha: float, beta: float) -> QueryBallot:
        """What is voted on; how accurate it is follows from tolerance and edge, not from α and β."""
        return QueryBallot(SeparatorProgram(integer("columns", columns, 1), self), seed)


def whole_margin(total: int) -> float:
    """The margin that every separator with whole weights of this total size has on the cube: 1/(2·total + 1).

    Twice the weights and one more for the constant separate the same way, and 2·value + 1 is never 0.

    >>> SeparatorQueries(tolerance=0.01, edge=0.01).error_bound(whole_margin(9))
    0.76
    """
    return 1.0 / (2 * integer("total", total, 1) + 1)


@dataclass(frozen=True)
class SeparatorProgram:
    """The state is the weights: users who took the same moves in another order are together again."""

    columns: int
    family: SeparatorQueries

    @property
    def tolerance(self) -> float:
        return self.family.tolerance

    @property
    def width(self) -> int:
        """Bits of one weight."""
        return (2 * self.family.largest).bit_length()

    @property
    def bits(self) -> int:
        return self.width * (self.columns + 1)

    def start(self) -> State:
        return self.family.rounds, (0,) * (self.columns + 1)

    def finished(self, state: State) -> bool:
        return state[0] == 0

    def query(self, state: State, features: NDArray[Any], labels: Bools) -> Floats:
        signed = np.where(labels, 1.0, -1.0)[:, None] * _signs(features)
        margins = (signed @ np.asarray(state[1], dtype=np.float64)).astype(np.int64)
        reach = sum(abs(weight) for weight in state[1])
        # Where the rule is wrong the slope is at least one half, and it vanishes where the rule is sure and right.
        slopes = np.asarray([1.0 / (1.0 + math.exp(self.family.scale * m)) for m in range(-reach, reach + 1)])
        return np.asarray(slopes[margins + reach][:, None] * signed)

    def step(self, state: State, answers: Integers) -> State:
        left, weights = state
        least = max(1, round(self.family.edge * steps(self.tolerance)))
        full = np.abs(np.asarray(weights) + np.sign(answers)) > self.family.largest
        edges = np.where(full, 0, np.abs(answers))
        best = int(np.argmax(edges))
        if edges[best] < least:
            return 0, weights
        moved = weights[best] + int(np.sign(answers[best]))
        return left - 1, (*weights[:best], moved, *weights[best + 1 :])

    def write(self, state: State) -> Bits:
        shifted = np.asarray(state[1], dtype=np.int64) + self.family.largest
        return ((shifted[:, None] >> np.arange(self.width)) & 1).astype(np.uint8).reshape(-1)

    def read(self, bits: Bits) -> Separator:
        table = np.asarray(bits, dtype=np.int64).reshape(self.columns + 1, self.width)
        weights = np.minimum(table @ (1 << np.arange(self.width)), 2 * self.family.largest) - self.family.largest
        return Separator(tuple(weights.tolist()))


@dataclass(frozen=True)
class Separator:
    """Whole weights as a rule.

    >>> Separator((1, 0, -2, 1))
    column 0 - 2 column 2 + 1 >= 0, each column as -1 or 1
    """

    weights: Weights

    def predict(self, features: NDArray[Any]) -> Bools:
        return np.asarray(_signs(np.asarray(features)) @ np.asarray(self.weights) >= 0)

    def __repr__(self) -> str:
        terms: list[str] = []
        for place, weight in enumerate(self.weights):
            constant = place == len(self.weights) - 1
            name = "" if constant else f"column {place}"
            size = str(abs(weight)) if constant or abs(weight) > 1 else ""
            if weight:
                sign = "-" if weight < 0 else "+" if terms else ""
                terms += [sign, f"{size} {name}".strip()]
        text = " ".join(term for term in terms if term) or "0"
        return f"{text} >= 0, each column as -1 or 1"


def _signs(features: NDArray[Any]) -> Floats:
    """Columns as -1 or 1, and the constant."""
    table = np.ones((len(features), features.shape[1] + 1))
    table[:, :-1] = np.where(binary(features), 1.0, -1.0)
    return table
