"""Binomial noise: bits that users add to a shuffled batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb

from croupier.checks import InvalidParameter, Number, between, integer
from croupier.noise.base import (
    DEEP,
    EPSILON,
    SHALLOW,
    Floats,
    Integers,
    Noise,
    RatioNoise,
    Window,
    open_probability,
    settle,
    to_arb,
)
from croupier.noise.source import Source
from croupier.noise.tails import least_tail_quantile

WIDE = 1e10
"""Above this variance the law is not tabulated."""


@dataclass(frozen=True, repr=False)
class Binomial(RatioNoise):
    """The number of ones among `trials` bits, each one with probability `p`.

    >>> Binomial(trials=1000, p=0.5).share(10)
    Binomial(trials=100, p=0.5)
    """

    trials: int
    p: Number

    def __post_init__(self) -> None:
        settle(self, trials=integer("trials", self.trials, 1), p=between("p", self.p, 0, 1))

    @property
    def mean(self) -> float:
        return float(self.trials * Fraction(self.p))

    @property
    def variance(self) -> float:
        p = Fraction(self.p)
        return float(self.trials * p * (1 - p))

    @property
    def support(self) -> tuple[int | None, int | None]:
        return (0, self.trials)

    @property
    def balanced(self) -> bool:
        return Fraction(self.p) == Fraction(1, 2)

    @property
    def mode(self) -> int:
        return min(math.floor((self.trials + 1) * Fraction(self.p)), self.trials)

    def _mass(self) -> arb:
        n, k, p = self.trials, self.mode, to_arb(self.p)
        ways = arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()
        return (ways + k * p.log() + (n - k) * (1 - p).log()).exp()

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        exact = Fraction(self.p)
        return (self.trials - x) * real(exact) / ((x + 1) * real(1 - exact))

    def cumulant(self, t: Floats) -> Floats:
        p = float(self.p)
        return np.asarray(self.trials * (np.log1p(p * np.expm1(t)) - t * p))

    def share(self, users: int) -> Binomial:
        if self.trials % integer("users", users, 1):
            raise InvalidParameter("users", users, f"a divisor of trials = {self.trials}, since a bit cannot be split")
        return Binomial(self.trials // users, self.p)

    def times(self, users: int) -> Binomial:
        return Binomial(self.trials * integer("users", users, 1), self.p)

    def quantile(self, probability: float) -> int:
        open_probability(probability)
        if self.variance <= WIDE or probability > 0.5:
            return super().quantile(probability)
        return self.trials - Binomial(self.trials, 1 - Fraction(self.p)).tail_quantile(probability)

    def tail_quantile(self, probability: float) -> int:
        """Where a table would not fit, Chernoff's bound P(X >= x) <= e^{-N kl(x/N, p)}: an upper bound."""
        open_probability(probability)
        if self.variance <= WIDE:
            return super().tail_quantile(probability)
        p = float(self.p)

        def tail(steps: int) -> float:
            rate = p + steps / self.trials
            if rate >= 1.0:
                return 0.0
            excess = rate * math.log(rate / p) + (1.0 - rate) * math.log((1.0 - rate) / (1.0 - p))
            return math.exp(-self.trials * excess * (1.0 - 1e-6))

        return math.ceil(self.mean) + least_tail_quantile(tail, probability, math.ceil(self.std))

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return generator.binomial(self.trials, float(self.p), count)


@dataclass(frozen=True, repr=False)
class SparseBits(Noise):
    """Ones minus zeros among `slots` slots, each of which holds a fair bit with probability `rate`, else nothing.

    Twice the deviation of the ones from half of the bits sent. The number of bits sent is public and says nothing of
    the data; a rate of 1 is the dense form, Binomial(slots, 1/2) recentred.

    >>> SparseBits(slots=1000, rate=0.25).variance
    250.0
    """

    slots: int
    rate: Number = 1

    def __post_init__(self) -> None:
        settle(self, slots=integer("slots", self.slots, 1), rate=between("rate", self.rate, 0, 1, "(]"))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        return float(self.slots * Fraction(self.rate))

    @property
    def affordable(self) -> bool:
        # Below a rate of 1 the loss is added up over every number of bits sent: 256 entries times the variance.
        return self.std <= (2.0**24 if self.rate == 1 else 2.0**8)

    @property
    def support(self) -> tuple[int | None, int | None]:
        return (-self.slots, self.slots)

    @property
    def symmetric(self) -> bool:
        return True

    def sent(self) -> Noise | None:
        """The law of the number of bits sent, or None when it is always `slots`."""
        return None if self.rate == 1 else Binomial(self.slots, self.rate)

    def cumulant(self, t: Floats) -> Floats:
        return np.asarray(self.slots * np.log1p(2.0 * float(self.rate) * np.sinh(np.asarray(t) / 2.0) ** 2))

    def share(self, users: int) -> SparseBits:
        return SparseBits(Binomial(self.slots, 0.5).share(users).trials, self.rate)

    def times(self, users: int) -> SparseBits:
        return SparseBits(self.slots * integer("users", users, 1), self.rate)

    def window(self, floor: float = SHALLOW) -> Window:
        return _sparse_window(self, floor)

    def tally(self, count: int, source: Source) -> tuple[Integers, Integers]:
        """Draw the zeros and the ones that `count` users send."""
        law = self.sent()
        sent = np.full(count, self.slots, dtype=np.int64) if law is None else law.sample(count, source)
        ones = np.zeros(count, dtype=np.int64)
        for done in range(0, int(sent.max(initial=0)), 64):
            left = np.clip(sent - done, 0, 64).astype(np.uint64)
            # A shift by 64 is undefined, so an empty remainder is handled apart.
            kept = np.where(
                left > 0, source.words(count) >> (np.uint64(64) - np.maximum(left, np.uint64(1))), np.uint64(0)
            )
            ones += np.bitwise_count(kept).astype(np.int64)
        return sent - ones, ones

    def _draw(self, count: int, source: Source) -> Integers:
        zeros, ones = self.tally(count, source)
        return ones - zeros

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        sent = generator.binomial(self.slots, float(self.rate), count)
        return 2 * generator.binomial(sent, 0.5) - sent


def fair_rows(first: int, stop: int, floor: float) -> Iterator[tuple[int, Floats]]:
    """The laws of `first`, ..., `stop - 1` fair bits, each as its start and its probabilities above `floor`.

    Pascal's rule takes one to the next with no cancellation, so relative errors only add up.
    """
    window = Binomial(first, 0.5).window(floor) if first else Window(0, np.ones(1), 0.0, 0.0, 0.0)
    start, row = window.start, window.pmf
    for _ in range(first, stop):
        yield start, row
        row = 0.5 * (np.append(row, 0.0) + np.append(0.0, row))
        if row[0] < floor:
            start, row = start + 1, row[1:]
        if row[-1] < floor:
            row = row[:-1]


@lru_cache(maxsize=32)
def _sparse_window(noise: SparseBits, floor: float) -> Window:
    """Mix the laws of m fair bits over the number m sent."""
    law = noise.sent()
    # Rows and counts reach deeper than the mixture is kept, so that what they leave out is nothing beside its edge.
    depth = max(floor * floor, DEEP)
    counts = Window(noise.slots, np.ones(1), 0.0, 0.0, 0.0) if law is None else law.window(depth)
    most = counts.stop - 1
    mixed = np.zeros(2 * most + 1)
    complete = True
    rows = fair_rows(counts.start, counts.stop, depth)
    for (start, row), bits, weight in zip(rows, range(counts.start, counts.stop), counts.pmf, strict=True):
        mixed[2 * np.arange(start, start + len(row)) - bits + most] += weight * row
        complete &= len(row) == bits + 1
    held = np.flatnonzero(mixed >= floor)
    first, stop = int(held[0]), int(held[-1]) + 1
    left_out = counts.below + counts.above + (0.0 if complete else 4.0 * depth * most)
    below, above = float(mixed[:first].sum()), float(mixed[stop:].sum())
    error = counts.error + 4.0 * EPSILON * (len(counts.pmf) + len(held)) + 2.0 * left_out / floor
    slack = 1.0 + 1e-6
    return Window(first - most, mixed[first:stop], (below + left_out) * slack, (above + left_out) * slack, error)
