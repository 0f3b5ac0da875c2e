"""Learning by statistical queries: a user answers them alone, rounded so that most users get the same ([GKM21] Alg. 5).

A program asks for means of functions with values in [-1, 1]. A user's answer is the mean over their own samples,
rounded to a grid of step 1/I, I = ⌈3/τ⌉, by correlated sampling. ([GKM21] prints û - ⌊û⌋ for the chance to round up,
where Iû - ⌊Iû⌋ is meant, and a grid over [0, 1], where queries live in [-1, 1].)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from croupier.checks import between
from croupier.learning.samples import Bools, Floats, Integers, Samples
from croupier.learning.seeds import Seed

Bits = NDArray[np.uint8]

UNIT = 2**30
"""Values are added up in whole multiples of 1/UNIT: no order of adding, and so no other user's data, can tell."""


class Rule(Protocol):
    """What a program ends in."""

    def predict(self, features: NDArray[Any]) -> Bools:
        """Yes or no for each row."""
        ...


class Program(Protocol):
    """A statistical-query algorithm as a state machine, so that users in the same state share its work.

    Only what a state remembers has to be equal for two users to go on together: a state that keeps decisions instead of
    answers is more stable than its queries are.
    """

    @property
    def tolerance(self) -> float:
        """τ: how far an answer may be from the truth."""
        ...

    @property
    def bits(self) -> int:
        """How many bits a final state is written in."""
        ...

    def start(self) -> Hashable:
        """The first state."""
        ...

    def finished(self, state: Any) -> bool:
        """Whether nothing more is asked."""
        ...

    def query(self, state: Any, features: NDArray[Any], labels: Bools) -> Floats:
        """The values in [-1, 1] of the functions whose means are asked for: rows by functions.

        A row's values must follow from that row alone, to the last digit.
        """
        ...

    def step(self, state: Any, answers: Integers) -> Hashable:
        """The next state, from the answers in steps of the grid."""
        ...

    def write(self, state: Any) -> Bits:
        """A final state as bits."""
        ...

    def read(self, bits: Bits) -> Rule:
        """The rule of a final state; any bits are the rule of some state."""
        ...


def steps(tolerance: float) -> int:
    """I = ⌈3/τ⌉: a third of the tolerance is for rounding, the rest for the sample."""
    return math.ceil(3.0 / float(between("tolerance", tolerance, 0, 1, "(]")) - 1e-12)


def rounded(means: Floats, count: int, offsets: Floats) -> Integers:
    """⌊I·u + θ⌋ in steps of 1/I, with θ uniform and shared: up with probability Iu - ⌊Iu⌋, else down ([GKM21] Alg. 5).

    This is correlated sampling at its best: users within one cell of the grid differ with probability exactly the
    distance of their laws, others with the sum of two such; the race would pay up to twice that.
    """
    return np.clip(np.floor(count * means + offsets), -count, count).astype(np.int64)


@dataclass(frozen=True)
class QueryBallot:
    """A program and the seed of its answers: what users vote on when the hypotheses are too many to list."""

    program: Program
    seed: Seed

    size = None
    samples_needed = 1

    def unseen(self, features: NDArray[Any]) -> str:
        """Nothing: queries see every number."""
        return ""

    @property
    def bits(self) -> int:
        return self.program.bits

    def states(self, samples: Samples) -> list[Any]:
        """The final state of every user: a function of that user's samples alone.

        Users in the same state after the same number of rounds are asked together.
        """
        rows, counts = _counts(samples)
        grid = steps(self.program.tolerance)
        final: list[Any] = [None] * samples.users
        groups: dict[Any, Integers] = {self.program.start(): np.arange(samples.users)}
        turn = 0
        while groups:
            onward: dict[Any, list[Integers]] = {}
            for state, members in groups.items():
                if self.program.finished(state):
                    for user in members.tolist():
                        final[user] = state
                    continue
                values = np.concatenate([self.program.query(state, rows, np.full(len(rows), y)) for y in (False, True)])
                totals = counts[members] @ np.rint(values * UNIT).astype(np.int64)
                means = totals / (UNIT * np.maximum(samples.sizes[members], 1)[:, None])
                offsets = self.seed.child("round", turn).uniforms(np.arange(values.shape[1]))
                answers, place = np.unique(rounded(means, grid, offsets), axis=0, return_inverse=True)
                for number, answer in enumerate(answers):
                    reached = self.program.step(state, answer)
                    onward.setdefault(reached, []).append(members[place.reshape(-1) == number])
            groups = {state: np.concatenate(parts) for state, parts in onward.items()}
            turn += 1
        return final

    def marks(self, samples: Samples) -> Bits:
        """Every user's vote as bits."""
        states = self.states(samples)
        written = {state: self.program.write(state) for state in set(states)}
        return np.stack([written[state] for state in states])

    def best(self, samples: Samples) -> Rule:
        """The rule that the first user's own queries lead to."""
        return self.read(self.marks(samples)[0])

    def read(self, bits: Bits) -> Rule:
        """The rule that bits stand for."""
        return self.program.read(bits)


def _counts(samples: Samples) -> tuple[NDArray[Any], Any]:
    """The different rows, and how often each user has each of them with a no, then with a yes."""
    from scipy.sparse import csr_array

    rows, place = samples.distinct
    ones = np.ones(len(place), dtype=np.int64)
    held = (samples.owner, place + len(rows) * samples.labels)
    return rows, csr_array((ones, held), shape=(samples.users, 2 * len(rows)))


@dataclass(frozen=True)
class RandomizedQueries:
    """A randomized statistical-query algorithm: its coins are public, the same for all users ([GKM21] Lemma 32).

    `program` is given the number of columns and the coins, and returns what is then a deterministic program. With coins
    of their own, users would run different programs and hardly vote alike. Coins do not touch privacy: they are drawn
    without looking at data.

    >>> from croupier.learning import DecisionListQueries, Seed
    >>> def some_tolerance(columns, coins):
    ...     drawn = 0.05 + 0.1 * float(coins.uniforms(0))
    ...     return DecisionListQueries(tolerance=drawn).ballot(columns=columns, seed=coins, alpha=0.1, beta=0.1).program
    >>> one, other = (
    ...     RandomizedQueries(some_tolerance).ballot(columns=3, seed=Seed.of(7), alpha=0.1, beta=0.1) for _ in range(2)
    ... )
    >>> one.program == other.program
    True
    """

    program: Callable[[int, Seed], Program]

    def ballot(self, *, columns: int, seed: Seed, alpha: float, beta: float) -> QueryBallot:
        """What is voted on under this seed: the coins and the rounding have seeds of their own."""
        return QueryBallot(self.program(columns, seed.child("coins")), seed.child("rounding"))
