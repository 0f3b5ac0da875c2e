"""Exact samples of laws with one peak that are too wide for a table of their values: a table of blocks, then a trial.

Outward from the mode lie blocks of values, sixteen to each doubling of the distance. No value of a block is likelier
than the one nearest to the mode, so giving each that one's probability is an envelope over the law. A try draws a block
by the envelope's weights (inverted exactly, as every small table is), a value in it by random bits, and keeps the value
x with probability P(x)/P(nearest). A ball decides that as it decides a word in a table: where 64 bits fall on the
boundary, more are drawn and it is computed to match. What is kept has a probability proportional to
P(nearest) · P(x)/P(nearest) = P(x): exactly the law (rejection [Neu51]).

How many tries there are is independent of the value that is kept, and a try takes the same steps for every value, so
the time of a draw tells hardly anything of its size: `bench.timing` measures how much is left.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from flint import arb, ctx, fmpq

from croupier.noise.base import to_arb
from croupier.noise.inversion import WORD, inverter
from croupier.noise.precision import precise
from croupier.noise.window import Integers

if TYPE_CHECKING:
    from croupier.noise.ratio import RatioNoise
    from croupier.noise.source import Source

FINENESS = 4
"""A doubling of the distance is cut into 2^4 blocks: some nineteen tries in twenty are kept."""

FIRST_WIDE = 2 ** (FINENESS + 1)
"""The number of the first block that holds more than one value."""

TRIAL_BITS = 224
"""Bits of the first computation of P(x)/P(nearest): cancellation takes some 70 of them, for values up to 2^61."""

STIRLING_TERMS = 10

FILL = arb(2) ** -150
"""Added to an argument, it makes all of them equally long: short ones are multiplied sooner."""


def steady_log_gamma(z: arb) -> arb:
    """log Γ(z) in as many steps for every z >= 32, by Stirling's series, which errs by less than its next term.

    The library's own takes fewer terms for larger arguments, so its time would tell which.
    """
    if not z >= FIRST_WIDE:
        return z.lgamma()
    terms, following, constant = _stirling(ctx.prec)
    z = z + FILL
    inverse = 1 / z
    square = inverse * inverse
    series = arb(0)
    for coefficient in terms:
        series = series * square + coefficient
    # log Γ grows by at most log z for each unit, which is below 2^6 here.
    error = following * inverse ** (2 * STIRLING_TERMS + 1) + 64 * FILL
    return (z - 0.5) * z.log() - z + constant + series * inverse + arb(0, error.upper())


@lru_cache(maxsize=8)
def _stirling(bits: int) -> tuple[list[arb], arb, arb]:
    """B_2k/2k(2k-1) for falling k, the size of the first one left out, and ½ log 2π, once for every precision."""
    terms = [arb(fmpq.bernoulli(2 * k)) / (2 * k * (2 * k - 1)) for k in range(STIRLING_TERMS + 1, 0, -1)]
    return terms[1:], abs(terms[0]), (2 * arb.pi()).log() / 2


def span(number: int) -> tuple[int, int]:
    """The distance from the mode at which a block begins, and how many values it holds: a power of two.

    >>> [span(number) for number in (0, 1, 31, 32, 33, 48)]
    [(0, 1), (1, 1), (31, 1), (32, 2), (34, 2), (64, 4)]
    """
    doublings = max(number >> FINENESS, 1) - 1
    return (number - (doublings << FINENESS)) << doublings, 1 << doublings


@lru_cache(maxsize=512)
def blocks(noise: RatioNoise) -> Blocks:
    """Return the sampler of a wide law."""
    return Blocks(noise)


@dataclass(frozen=True)
class Blocks:
    """The envelope over a law as a law of blocks: number 2j lies above the mode, 2j + 1 below it."""

    noise: RatioNoise

    def extent(self, floor: float) -> float:
        return 2.0 ** (FINENESS + 1) * math.log2(max(self.noise.extent(floor), 2.0))

    def cells(self) -> Iterator[tuple[int, arb]]:
        """Blocks and their probabilities as balls at the current precision, the nearest ones first."""
        weights, rest = self._weights()
        total = sum((weight for _, weight in weights), rest)
        return ((block, weight / total) for block, weight in weights)

    def _weights(self) -> tuple[list[tuple[int, arb]], arb]:
        """The envelope against P(mode): block after block, and a ball that holds the weight of all further ones."""
        peak = self.noise._log_mass(self.noise.mode, arb.lgamma)
        enough = arb(2) ** (-ctx.prec - 16)
        weights: list[tuple[int, arb]] = []
        number, rest = 0, arb(1)
        # Both sides go on until both are done, so that the order of the blocks is the same at any precision.
        while not rest < enough:
            rest = arb(0)
            for block in (2 * number, 2 * number + 1) if number else (0,):
                near, width = self._place(block)
                if not self._possible(near):
                    continue
                mass = (self.noise._log_mass(near, arb.lgamma) - peak).exp()
                weights.append((block, width * mass))
                rest += self._beyond(near, block, mass)
            number += 1
        return weights, arb(0, rest.upper())

    def _place(self, block: int) -> tuple[int, int]:
        """The value of a block that is nearest to the mode, and how many values it holds."""
        distance, width = span(block >> 1)
        return self.noise.mode + (-distance if block & 1 else distance), width

    def _possible(self, x: int) -> bool:
        low, high = self.noise.support
        return (low is None or x >= low) and (high is None or x <= high)

    def _beyond(self, x: int, block: int, mass: arb) -> arb:
        """A bound on the weights of all blocks further out than the one that begins at x.

        Each is at most twice the mass of the block before it, which is at least half as wide and whose values are all
        likelier; and from x on the probabilities fall at least as fast as a geometric series.
        """
        upward = not block & 1
        if not self._possible(x + 1 if upward else x - 1):
            return arb(0)
        ratio = self.noise._growth(x, to_arb) if upward else 1 / self.noise._growth(x - 1, to_arb)
        fall = 1 - ratio.max(self.noise._growth_limit_ball() if upward else arb(0))
        return 2 * mass / fall if fall > 0 else arb(1)

    def sample(self, count: int, source: Source) -> Integers:
        drawn = np.zeros(count, dtype=np.int64)
        left = np.arange(count)
        while left.size:
            tries = [
                self._try(int(block), int(place), int(coin), source)
                for block, place, coin in zip(
                    inverter(self).sample(left.size, source),
                    source.words(left.size),
                    source.words(left.size),
                    strict=True,
                )
            ]
            drawn[left] = [x for x, _ in tries]
            left = left[[not kept for _, kept in tries]]
        return drawn

    def _try(self, block: int, place: int, coin: int, source: Source) -> tuple[int, bool]:
        """A value of the block, and whether it is kept."""
        x, near, width = self._value(block, place)
        # The one value of a narrow block is sure to be kept. Some value of another one is tried all the same, for the
        # time: any that a wide block might have given, since some take longer, and those that were not read lately do.
        narrow = width == 1
        others, upto = self._others
        which = min(bisect(upto, place * 2.0**-WORD), len(others) - 1)
        other, its_near, _ = self._value(others[which], coin)
        passed = self._possible(x) and self._passes(*((other, its_near) if narrow else (x, near)), coin, source)
        return x, passed or narrow

    def _value(self, block: int, place: int) -> tuple[int, int, int]:
        """The value of a block at this place of 2^64, the one nearest to the mode, and how many there are."""
        near, width = self._place(block)
        step = place * width >> WORD
        return near - step if block & 1 else near + step, near, width

    @cached_property
    def _others(self) -> tuple[list[int], list[float]]:
        """The blocks of several values, all of them possible, and how likely it is to be in those up to each."""
        found, table = [], inverter(self)
        for block, chance in zip(table.values().tolist(), table.chances().tolist(), strict=True):
            last, _, width = self._value(block, (1 << WORD) - 1)
            if width > 1 and self._possible(last):
                found.append((block, chance))
        upto = np.cumsum([chance for _, chance in found])
        return [block for block, _ in found], (upto / upto[-1]).tolist()

    def _passes(self, x: int, near: int, coin: int, source: Source) -> bool:
        """Whether a uniform number that begins with these 64 bits lies below P(x)/P(near)."""
        bits = WORD
        log_gamma: Callable[[arb], arb] = steady_log_gamma
        while True:
            with precise(TRIAL_BITS + 2 * (bits - WORD)):
                logarithm = self.noise._log_mass(x, log_gamma) - self.noise._log_mass(near, log_gamma)
                # Of zero, where x is the nearest value itself, an exponential would come sooner.
                limit = 3 * (logarithm - arb(3).log()).exp() * arb(2) ** bits
                if limit >= coin + 1:
                    return True
                if limit <= coin:
                    return False
            coin, bits, log_gamma = (coin << WORD) | int(source.words(1)[0]), bits + WORD, arb.lgamma
