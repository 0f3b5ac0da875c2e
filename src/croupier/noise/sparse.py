"""Sparse bits: fair bits that users add to a shuffled batch, each only with some probability."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from croupier.checks import InvalidParameter, Number, between, integer
from croupier.noise.base import Noise, settle
from croupier.noise.binomial import Binomial
from croupier.noise.bits import Bits
from croupier.noise.inversion import inverter
from croupier.noise.likelihoods import Pair, directed_pair, in_order
from croupier.noise.source import Source
from croupier.noise.target import RESOLUTION, Target
from croupier.noise.window import DEEP, EPSILON, SHALLOW, Floats, Integers, Window, check_width


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

    @cached_property
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

    def check_sensitivity(self, sensitivity: int) -> int:
        if super().check_sensitivity(sensitivity) % 2:
            raise InvalidParameter("sensitivity", sensitivity, "even: a flipped bit moves ones minus zeros by two")
        return sensitivity

    def pair(self, shift: int, floor: float = SHALLOW) -> Pair:
        """The view shows the number m of noise bits beside the ones, so the loss is a mixture over m.

        The noise counts ones minus zeros: moving a value bit from 0 to 1 moves it by two.
        """
        bits, law = self.check_sensitivity(abs(shift)) // 2, self.sent()
        if law is None:
            return directed_pair(Binomial(self.slots, 0.5), bits if shift > 0 else -bits, floor)
        return _sparse_pair(law, bits, max(floor, 1e-30))

    @classmethod
    def calibrated(cls, target: Target) -> SparseBits:
        """The least rate at which E[δ(M)] over the number M of fair bits sent meets the target."""
        if target.users is None:
            raise InvalidParameter("users", None, "a whole number >= 1 for SparseBits")
        return _least_rate(target, target.users)

    @property
    def bits(self) -> Bits:
        """Fair ones, of which ones count 1 and zeros -1."""
        fewest = self.slots if self.rate == 1 else 0
        return Bits(fewest, self.slots, self.variance, -1, self._zeros_and_ones, self._seen)

    def _seen(self) -> Iterator[tuple[float, Floats]]:
        law = self.sent()
        if law is None:
            yield 1.0, Binomial(self.slots, 0.5).window().pmf
            return
        counts = law.window()
        rows = fair_rows(counts.start, counts.stop, 0.0)
        for chance, (_, row) in zip(counts.pmf.tolist(), rows, strict=True):
            yield chance, row

    def _zeros_and_ones(self, count: int, source: Source) -> tuple[Integers, Integers]:
        """Draw the zeros and the ones that `count` users send."""
        check_width(self, self.slots * min(1.0, 2.0 * float(self.rate)), LARGEST_TALLY)
        law = self.sent()
        sent = np.full(count, self.slots, dtype=np.int64) if law is None else law.sample(count, source)
        ones = np.zeros(count, dtype=np.int64)
        # As many steps as the most bits that are ever sent, so that their time does not tell how many there were.
        most = self.slots if law is None else int(inverter(law).values().max())
        for done in range(0, int(np.maximum(sent, most).max(initial=0)), 64):
            left = np.clip(sent - done, 0, 64).astype(np.uint64)
            # A shift by 64 is undefined, so an empty remainder is handled apart: by a product, since a choice that
            # mostly falls one way is guessed by the processor, and then comes sooner.
            kept = (source.words(count) >> (np.uint64(64) - np.maximum(left, np.uint64(1)))) * (left > 0)
            ones += np.bitwise_count(kept).astype(np.int64)
        return sent - ones, ones

    def _draw(self, count: int, source: Source) -> Integers:
        zeros, ones = self._zeros_and_ones(count, source)
        return ones - zeros

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        sent = generator.binomial(self.slots, float(self.rate), count)
        return 2 * generator.binomial(sent, 0.5) - sent


LARGEST_TALLY = 2**24
"""One user draws so many bits at most, one by one."""

LARGEST_MIXTURE = 2**23
"""Beyond so many bits the mixture over their number takes too long, and every slot holds a bit."""


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
    # A fixed number of bits has one row, which is far shorter than the range of what they could add up to.
    most = counts.stop - 1 if law is not None else noise.slots - 2 * Binomial(noise.slots, 0.5).window(depth).start
    check_width(noise, 2.0 * most + 1.0)
    mixed = np.zeros(2 * most + 1)
    complete = True
    rows = fair_rows(counts.start, counts.stop, depth)
    for (start, row), bits, weight in zip(rows, range(counts.start, counts.stop), counts.pmf, strict=True):
        mixed[2 * np.arange(start, start + len(row)) - bits + most] += weight * row
        complete &= len(row) == bits + 1
    held = np.flatnonzero(mixed >= floor)
    first, stop = int(held[0]), int(held[-1]) + 1
    left_out = counts.below + counts.above + (0.0 if complete else 4.0 * depth * (counts.stop - 1))
    below, above = float(mixed[:first].sum()), float(mixed[stop:].sum())
    error = counts.error + 4.0 * EPSILON * (len(counts.pmf) + len(held)) + 2.0 * left_out / floor
    slack = 1.0 + 1e-6
    return Window(first - most, mixed[first:stop], (below + left_out) * slack, (above + left_out) * slack, error)


def _sparse_pair(law: Noise, step: int, floor: float) -> Pair:
    """The losses of `step` bits flipped among m fair ones, mixed over the number m sent, which has this law."""
    sent = law.window(floor)
    losses, masses = [], []
    impossible = edge = 0.0
    for (start, row), weight in zip(fair_rows(sent.start, sent.stop, floor), sent.pmf, strict=True):
        if len(row) > step:
            losses.append(np.log(row[step:] / row[:-step]))
            masses.append(weight * row[step:])
        alone = float(weight * row[:step].sum())
        if start == 0:
            impossible += alone
        else:
            edge += alone
    cut = edge + sent.below + sent.above + 4.0 * floor * (sent.stop - sent.start + 1) * sent.stop
    error = sent.error + 4.0 * EPSILON * (sent.stop - sent.start) + 1e-12
    empty = np.empty(0)
    return in_order(np.concatenate([empty, *losses]), np.concatenate([empty, *masses]), impossible, cut, error)


def _least_rate(target: Target, users: int) -> SparseBits:
    step = SparseBits(1).check_sensitivity(target.sensitivity) // 2
    fair = Binomial.calibrated(target.at(step)).trials
    slots = max(1, math.ceil(fair / users)) * users
    if fair > LARGEST_MIXTURE:
        return SparseBits(slots, 1)
    low, high = max(1, math.floor(fair - 11.0 * math.sqrt(fair))), math.ceil(fair + 24.0 * math.sqrt(fair) + 200.0)
    deltas = _fair_deltas(low, min(high, slots) + 1, step, target.epsilon)

    def met(rate: float) -> bool:
        if rate >= 1.0:
            return True
        sent = Binomial(slots, rate).window(1e-25)
        bits = np.arange(sent.start, sent.stop)
        # Fewer bits than the table knows count as no privacy; more are at least as good as its last.
        known = np.where(bits < low, 1.0, deltas[np.clip(bits - low, 0, len(deltas) - 1)])
        return float(np.dot(sent.pmf, known)) + sent.below + sent.above <= target.delta * (1.0 - 1e-9)

    noise = SparseBits(slots, min(target.least(met, fair / slots), 1.0))
    while noise.rate < 1 and not target.met(noise):
        noise = SparseBits(slots, min(float(noise.rate) * (1.0 + RESOLUTION), 1.0))
    while not target.met(noise):
        slots += users
        noise = SparseBits(slots, 1)
    return SparseBits(slots, 1) if noise.rate == 1 else noise


@lru_cache(maxsize=32)
def _fair_deltas(low: int, stop: int, step: int, epsilon: float) -> Floats:
    """δ of `low`, ..., `stop - 1` fair bits: the same for all batches that have room for them."""
    return np.asarray([_fair_delta(row, step, epsilon) for _, row in fair_rows(low, stop, 1e-30)])


def _fair_delta(row: np.ndarray, step: int, epsilon: float) -> float:
    """Σ max(0, P(k) - e^ε P(k - step)) for fair bits; by symmetry one direction is both."""
    moved = np.concatenate((np.zeros(step), row[:-step])) if len(row) > step else np.zeros_like(row)
    return float(np.maximum(row - math.exp(epsilon) * moved, 0.0).sum()) * (1.0 + 1e-10) + 1e-28
