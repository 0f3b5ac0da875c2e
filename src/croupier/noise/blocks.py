"""Exact samples of laws with one peak that are too wide for a table of their values: a table of blocks, then a trial.

Outward from the mode lie blocks of values, sixteen to each doubling of the distance. No value of a block is likelier
than the one nearest to the mode, so giving each that one's probability is an envelope over the law. A try draws a block
by the envelope's weights (inverted exactly, as every small table is), a value in it by random bits, and keeps the value
x with probability P(x)/P(nearest). A ball decides that as it decides a word in a table: where 64 bits fall on the
boundary, more are drawn and it is computed to match. What is kept has a probability proportional to
P(nearest) · P(x)/P(nearest) = P(x): exactly the law (rejection [Neu51]).

How many tries there are is independent of the value that is kept. A try takes the same steps for every value: values
are found in machine words, since longer whole numbers of Python's take longer, and tried with numbers as long as the
precision. So the time of a draw tells hardly anything of its size: `bench.timing` measures how much is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb, ctx, fmpq

from croupier.noise.base import to_arb
from croupier.noise.inversion import WORD, inverter
from croupier.noise.precision import precise
from croupier.noise.window import LARGEST_DRAW, Floats, Integers, check_width

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from croupier.noise.ratio import RatioNoise
    from croupier.noise.source import Source, Words

FINENESS = 4
"""A doubling of the distance is cut into 2^4 blocks: some nineteen tries in twenty are kept."""

FIRST_WIDE = 2 ** (FINENESS + 1)
"""The number of the first block that holds more than one value."""

TRIAL_BITS = 224
"""Bits of the first computation of P(x)/P(nearest): cancellation takes some 70 of them, for values up to 2^61."""

STIRLING_TERMS = 10

LAST = 59 << FINENESS
"""From this distance number on blocks begin at 2^62 or beyond, where no word holds all their values."""


def steady_log_gamma(z: arb) -> arb:
    """log Γ(z) in as many steps for every z >= 32, by Stirling's series, which errs by less than its next term.

    The library's own takes fewer terms for larger arguments, so its time would tell which. A little is added to the
    argument, which makes all of them as long as the precision: short ones are multiplied sooner.
    """
    if not z >= FIRST_WIDE:
        return z.lgamma()
    terms, following, constant, fill = _stirling(ctx.prec)
    z = z + fill
    logarithm = z.log()
    inverse = 1 / z
    square = inverse * inverse
    series = arb(0)
    for coefficient in terms:
        series = series * square + coefficient
    # Up to there log Γ grows by at most log z for each unit.
    error = following * inverse ** (2 * STIRLING_TERMS + 1) + logarithm * fill
    return (z - 0.5) * logarithm - z + constant + series * inverse + arb(0, error.upper())


@lru_cache(maxsize=8)
def _stirling(bits: int) -> tuple[list[arb], arb, arb, arb]:
    """B_2k/2k(2k-1) for falling k, the size of the first one left out, ½ log 2π, and a little number as long as all."""
    terms = [arb(fmpq.bernoulli(2 * k)) / (2 * k * (2 * k - 1)) for k in range(STIRLING_TERMS + 1, 0, -1)]
    return terms[1:], abs(terms[0]), (2 * arb.pi()).log() / 2, arb(2) ** -150 / 3


def span(number: Any) -> tuple[Any, Any]:
    """The distance from the mode at which a block begins, and how often one value is doubled to what it holds.

    For a whole number, or an array of them.

    >>> distances, doublings = span(np.asarray([0, 1, 31, 32, 33, 48]))
    >>> distances.tolist(), (1 << doublings).tolist()
    ([0, 1, 31, 32, 34, 64], [1, 1, 1, 2, 2, 4])
    """
    sixteens = number >> FINENESS
    doublings = sixteens - (sixteens > 0)
    return (number - (doublings << FINENESS)) << doublings, doublings


@lru_cache(maxsize=512)
def blocks(noise: RatioNoise) -> Blocks:
    """Return the sampler of a wide law; what it draws must fit a word."""
    check_width(noise, noise._largest, LARGEST_DRAW)
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
        places, rest = self._places(), arb(1)
        # Both sides go on until both are done, so that the order of the blocks is the same at any precision.
        while not rest < enough:
            rest = arb(0)
            for block, near, width in islice(places, 2):
                # Below the mode there is no first block: that holds the mode itself.
                if block == 1 or not self._possible(near):
                    continue
                mass = (self.noise._log_mass(near, arb.lgamma) - peak).exp()
                weights.append((block, width * mass))
                rest += self._beyond(near, block, mass)
        return weights, arb(0, rest.upper())

    def _places(self) -> Iterator[tuple[int, int, int]]:
        """Block after block the value nearest to the mode, and how many values there are."""
        mode = self.noise.mode
        for number in count():
            distance, doublings = span(number)
            yield 2 * number, mode + distance, 1 << doublings
            yield 2 * number + 1, mode - distance, 1 << doublings

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

    def sample(self, size: int, source: Source) -> Integers:
        drawn = np.zeros(size, dtype=np.int64)
        left = np.arange(size)
        while left.size:
            numbers = inverter(self).sample(left.size, source)
            drawn[left], kept = self._try(numbers, source.words(left.size), source.words(left.size), source)
            left = left[~kept]
        return drawn

    def _try(
        self, numbers: Integers, places: Words, coins: Words, source: Source
    ) -> tuple[Integers, NDArray[np.bool_]]:
        """A value of each block, and whether it is kept."""
        nearest, values, doublings = self._values(numbers, places)
        low, high = self._ends
        possible = (values >= low) & (values <= high)
        # The one value of a narrow block is sure to be kept. Some value of another one is tried all the same, for the
        # time: any that a wide block might have given, since some take longer, and those that were not read lately do.
        narrow = doublings == 0
        others, upto = self._others
        which = others.take(upto.searchsorted(places * 2.0**-WORD, "right"), mode="clip")
        its_nearest, other, _ = self._values(which, coins)
        in_earnest = possible & ~narrow
        # By arithmetic: a choice that mostly falls one way is guessed by the processor, and then comes sooner.
        tried = (other + in_earnest * (values - other)).tolist()
        against = (its_nearest + in_earnest * (nearest - its_nearest)).tolist()
        passed = [
            self._passes(x, near, coin, source) for x, near, coin in zip(tried, against, coins.tolist(), strict=True)
        ]
        return values, narrow | (possible & passed)

    def _values(self, numbers: Integers, places: Words) -> tuple[Integers, Integers, Integers]:
        """Of each block the value nearest to the mode, the one at this place of 2^64, and its doublings."""
        # Nobody ever draws a block from the last one on, but for a chance below 2^-100; its values are not possible.
        distances, doublings = span(np.minimum(numbers >> 1, LAST))
        # Of all 64 bits at once a shift is undefined, so one of them is taken before.
        steps = ((places >> np.uint64(1)) >> (np.uint64(WORD - 1) - doublings.astype(np.uint64))).astype(np.int64)
        sign = 1 - ((numbers & 1) << 1)
        return self._mode + sign * distances, self._mode + sign * (distances + steps), doublings

    @cached_property
    def _mode(self) -> int:
        return self.noise.mode

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """The least and the largest value that is possible, and fits a word with room to spare."""
        low, high = self.noise.support
        furthest = 2**62 - 1
        return -furthest if low is None else low, furthest if high is None else high

    @cached_property
    def _others(self) -> tuple[Integers, Floats]:
        """The blocks of several values, all of them possible, and how likely it is to be in those up to each.

        Where none is in the table, the mode's stands for them.
        """
        table = inverter(self)
        numbers, chances = table.values(), table.chances()
        _, furthest, doublings = self._values(numbers, np.full(numbers.size, 2**WORD - 1, dtype=np.uint64))
        low, high = self._ends
        wide = (doublings > 0) & (furthest >= low) & (furthest <= high)
        if not chances[wide].any():
            return np.zeros(1, dtype=np.int64), np.ones(1)
        upto = np.cumsum(chances[wide])
        return numbers[wide], upto / upto[-1]

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
