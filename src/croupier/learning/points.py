"""Points: hypotheses that say yes in one place only, listed or hashed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between, integer
from croupier.learning.representation import Representation
from croupier.learning.samples import Bools, Floats, Integers, Samples
from croupier.learning.seeds import Seed


@dataclass(frozen=True)
class Points:
    """The class of x = a for a in 0, ..., domain - 1, all of them listed; for one column."""

    domain: int = 256

    def __post_init__(self) -> None:
        integer("domain", self.domain, 2, 2**26)

    def draw(self, columns: int, seed: Seed) -> PointList:
        integer("columns", columns, 1, 1)
        return PointList(self.domain)


@dataclass(frozen=True)
class PointList(Representation):
    """Hypothesis number a is x = a."""

    domain: int

    @property
    def size(self) -> int:
        return self.domain

    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        return np.asarray(features[:, 0] == index)

    def describe(self, index: int) -> str:
        return f"column 0 = {index}"

    def mistakes(self, samples: Samples) -> Floats:
        codes = self._codes(samples)
        difference = samples.tally(codes, self.size, ~samples.labels) - samples.tally(codes, self.size, samples.labels)
        return np.asarray(samples.count(samples.labels)[:, None] + difference)

    def votes(self, samples: Samples, log_times: Floats, gamma: float) -> Integers:
        """All points that a user has not seen are equally wrong, so only the earliest of them can win."""
        order = np.argsort(log_times, kind="stable")
        rank = np.empty(self.size, dtype=np.int64)
        rank[order] = np.arange(self.size)
        keys = samples.owner * self.size + rank[self._codes(samples)]
        seen, row = np.unique(keys, return_inverse=True)
        owner, ranks = seen // self.size, seen % self.size
        balance = np.bincount(row, weights=np.where(samples.labels, -1.0, 1.0), minlength=len(seen))
        missed = samples.count(samples.labels)
        first = np.searchsorted(owner, np.arange(samples.users + 1))
        # The k-th least rank seen is k exactly as long as no earlier rank is missing.
        unbroken = ranks == np.arange(len(seen)) - first[owner]
        missing = np.bincount(owner, weights=unbroken, minlength=samples.users).astype(np.int64)
        unseen = order[np.minimum(missing, self.size - 1)]
        best = np.where(missing < self.size, log_times[unseen] + gamma * (missed * samples.share), np.inf)
        scores = log_times[order[ranks]] + gamma * ((missed[owner] + balance) * samples.share[owner])
        chosen = unseen.copy()
        better = np.flatnonzero(scores < best[owner])
        # Written from the worst to the best, the best stays.
        better = better[np.argsort(scores[better], kind="stable")[::-1]]
        chosen[owner[better]] = order[ranks[better]]
        return chosen

    def _codes(self, samples: Samples) -> Integers:
        column = samples.features[:, 0]
        bad = (column != np.floor(column)) | (column < 0) | (column >= self.domain)
        if bad.any():
            raise InvalidParameter("point", column[bad][0].item(), f"a whole number in [0, {self.domain})")
        return column.astype(np.int64)


@dataclass(frozen=True)
class HashedPoints:
    """The class of x = a over any domain, rows of numbers included, with a list whose size the domain does not enter.

    The seed draws `functions` hash functions with ⌈failure^{-1/functions}/slack⌉ values each; the hypotheses are
    hash(x) = value, and "never". One errs where something other than a falls on a's value: of mass 1/values in
    expectation, so above slack with probability 1/(values·slack) at most (Markov), and for all functions with `failure`
    at most. The list is shortest with about log2(1/failure) functions, and steadiest with one: several give several
    hypotheses that are nearly as good, and users waver between them.
    """

    slack: float = 0.02
    failure: float = 0.02
    functions: int = 1

    def __post_init__(self) -> None:
        between("slack", self.slack, 0, 1)
        between("failure", self.failure, 0, 1)
        integer("functions", self.functions, 1)

    def draw(self, columns: int, seed: Seed) -> HashList:
        values = math.ceil(self.failure ** (-1.0 / self.functions) / self.slack - 1e-9)
        return HashList(values, self.functions, seed, self.slack, self.failure)


@dataclass(frozen=True)
class HashList(Representation):
    """Numbered by hash function, then value; the last hypothesis is "never"."""

    values: int
    functions: int
    seed: Seed
    slack: float
    failure: float

    @property
    def size(self) -> int:
        return self.functions * self.values + 1

    def hashes(self, function: int, features: NDArray[Any]) -> Integers:
        """A keyed hash of whole rows: the block cipher over one column after the other."""
        key = self.seed.child("points", function)
        # Adding zero makes one of the two zeros that doubles have.
        columns = (np.asarray(features, dtype=np.float64) + 0.0).view(np.uint64)
        state = np.full(len(columns), columns.shape[1], dtype=np.uint64)
        for column in range(columns.shape[1]):
            state = key.words(columns[:, column], state)
        return (state % np.uint64(self.values)).astype(np.int64)

    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        function, value = divmod(int(index), self.values)
        if function == self.functions:
            return np.zeros(len(features), dtype=bool)
        return np.asarray(self.hashes(function, features) == value)

    def describe(self, index: int) -> str:
        function, value = divmod(int(index), self.values)
        return "never" if function == self.functions else f"hash {function} = {value}"

    def mistakes(self, samples: Samples) -> Floats:
        missed = samples.count(samples.labels)[:, None]
        blocks = []
        for function in range(self.functions):
            codes = self.hashes(function, samples.features)
            wrongly = samples.tally(codes, self.values, ~samples.labels)
            blocks.append(missed + wrongly - samples.tally(codes, self.values, samples.labels))
        return np.concatenate([*blocks, missed], axis=1)
