"""Exact samples of any noise by inverting its certified cdf on random bits.

A uniform U is known by its first 64 bits. The cumulative probabilities are balls far narrower than 2^-64, so those
bits decide the value except when they name the very cell of a boundary; then, and only then, more bits are drawn and
the boundary is computed to match. The value returned has exactly the noise's law: no rounding enters (the gap of
Mironov 2012 cannot arise). One method serves every family, one draw at a time and in bulk, where a table over the
leading 16 bits answers most draws by one look-up. The table is finished before the first draw, so that the time of a
draw does not tell how far it reached.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from flint import arb
from numpy.typing import NDArray

from croupier.noise.precision import precise
from croupier.noise.window import check_width

if TYPE_CHECKING:
    from croupier.noise.source import Source

WORD = 64
GUIDE_BITS = 16
UNDECIDED = np.iinfo(np.int64).min
MOST_BITS = 2**14
LARGEST_INVERTED = 2**21
"""Cells of a table to draw from; each takes microseconds to make."""

BULK = 2048
"""From this many draws on, building the guide table pays."""


class Enumerated(Protocol):
    """A law that lists its values, likely ones first."""

    def cells(self) -> Iterator[tuple[int, arb]]:
        """Values and their probabilities as balls at the current precision."""

    def extent(self, floor: float) -> float:
        """About how many values have a probability of at least `floor`."""


@lru_cache(maxsize=512)
def inverter(noise: Enumerated) -> Inverter:
    """Return the sampler of `noise`, with whatever part of its table was needed so far."""
    return Inverter(noise)


def run(noise: Enumerated, start: int, stop: int) -> list[arb]:
    """The probabilities of start, ..., stop - 1 as balls at the current precision."""
    wanted, found = stop - start, {}
    for value, mass in noise.cells():
        if start <= value < stop:
            found[value] = mass
            if len(found) == wanted:
                break
    return [found[value] for value in range(start, stop)]


class Inverter:
    """The enumerated law of one noise as 64-bit thresholds, grown as far as it was asked for."""

    def __init__(self, noise: Enumerated) -> None:
        self.noise = noise
        self._values: list[int] = []
        self._lower: list[int] = []
        self._upper: list[int] = []
        self._pending: Iterator[tuple[int, arb]] | None = None
        self._total = arb(0)
        self._bits = 2 * WORD + 32
        self._complete = False
        self._lock = threading.RLock()
        self._guide: NDArray[np.int64] | None = None

    def sample(self, count: int, source: Source) -> NDArray[np.int64]:
        check_width(self.noise, self.noise.extent(2.0**-WORD), LARGEST_INVERTED)
        words = source.words(count)
        if count < BULK:
            return np.fromiter((self._one(int(word), source) for word in words), dtype=np.int64, count=count)
        values, lower, upper, guide = self._table()
        drawn = guide.take((words >> np.uint64(WORD - GUIDE_BITS)).view(np.int64))
        open_cases = np.flatnonzero(drawn == UNDECIDED)
        if open_cases.size:
            drawn[open_cases] = self._search(words[open_cases], values, lower, upper, source)
        return drawn

    def _search(
        self,
        words: NDArray[np.uint64],
        values: NDArray[np.int64],
        lower: NDArray[np.uint64],
        upper: NDArray[np.uint64],
        source: Source,
    ) -> NDArray[np.int64]:
        index = np.searchsorted(lower, words, side="right")
        inside = index < len(values)
        clear = inside & ((index == 0) | (words > upper[index - 1]))
        found = values[np.minimum(index, len(values) - 1)]
        for unclear in np.flatnonzero(~clear):
            found[unclear] = self._refine(int(words[unclear]), source)
        return found

    def _one(self, word: int, source: Source) -> int:
        """Find one word's value in the finished table: the time that a draw takes does not tell how far it reached."""
        with self._lock:
            while not self._complete:
                self._grow(max(32, len(self._values)))
            index = bisect_right(self._lower, word)
            if index < len(self._values) and (index == 0 or word > self._upper[index - 1]):
                return self._values[index]
        return self._refine(word, source)

    def _grow(self, count: int) -> None:
        """Append `count` cells. Thresholds are floors of 2^64 times the ends of the cumulative ball.

        A ball that is too wide to certify its thresholds starts the table anew at twice the precision.
        """
        try:
            with precise(self._bits):
                certified = self._append(count)
        except BaseException:
            # A generator that was broken off is over: what it left must not pass for the whole law.
            self._restart(self._bits)
            raise
        if not certified:
            self._restart(2 * self._bits)

    def _append(self, count: int) -> bool:
        """Compute the cells; publish them only if the cumulative ball certifies their thresholds."""
        if self._pending is None:
            self._pending = self.noise.cells()
        fine, slack = 2 * WORD, 1 << 20
        values: list[int] = []
        thresholds: list[tuple[int, int]] = []
        total, complete = self._total, False
        check_width(self.noise, len(self._values), LARGEST_INVERTED)
        for _ in range(count):
            cell = next(self._pending, None)
            if cell is None:
                complete = True
                break
            total += cell[1]
            mantissa, exponent = total.mid().man_exp()
            shift = int(exponent) + fine
            scaled = int(mantissa) << shift if shift >= 0 else int(mantissa) >> -shift
            values.append(cell[0])
            thresholds.append(((scaled - slack) >> WORD, (scaled + slack) >> WORD))
            if thresholds[-1][0] >= 2**WORD - 2:
                complete = True
                break
        if not total.rad() < arb(2) ** (19 - fine):
            return False
        self._total, self._complete = total, complete
        self._values += values
        self._lower += [lower for lower, _ in thresholds]
        self._upper += [upper for _, upper in thresholds]
        return True

    def _restart(self, bits: int) -> None:
        """Forget the table, to be made again with so many bits."""
        self._bits, self._total, self._pending, self._complete = min(bits, MOST_BITS), arb(0), None, False
        self._values, self._lower, self._upper = [], [], []
        if bits > MOST_BITS:
            raise ArithmeticError(f"the cumulative law of {self.noise!r} could not be computed closely enough")

    def _table(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
        """The whole table as arrays, with the guide: the value that a word's leading bits already decide."""
        with self._lock:
            return self._finished_table()

    def _finished_table(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
        if self._guide is None:
            while not self._complete:
                self._grow(max(256, len(self._values)))
            top = 2**WORD - 1
            self._arrays = (
                np.asarray(self._values, dtype=np.int64),
                np.asarray([min(t, top) for t in self._lower], dtype=np.uint64),
                np.asarray([min(t, top) for t in self._upper], dtype=np.uint64),
            )
            values, lower, upper = self._arrays
            first = np.arange(2**GUIDE_BITS, dtype=np.uint64) << np.uint64(WORD - GUIDE_BITS)
            last = first + np.uint64(2 ** (WORD - GUIDE_BITS) - 1)
            index = np.searchsorted(lower, first, side="right")
            bounded = np.minimum(index, len(values) - 1)
            decided = (index < len(values)) & (last < lower[bounded])
            decided &= (index == 0) | (first > upper[np.maximum(index, 1) - 1])
            self._guide = np.where(decided, values[bounded], UNDECIDED)
        return (*self._arrays, self._guide)

    def _refine(self, word: int, source: Source) -> int:
        """Decide a word that names a boundary's own cell: draw further bits and compute to match."""
        bits = WORD
        while True:
            word = (word << WORD) | int(source.words(1)[0])
            bits += WORD
            value = self._locate(word, bits)
            if value is not None:
                return value

    def _locate(self, prefix: int, bits: int) -> int | None:
        """The value of every U in [prefix, prefix + 1) / 2^bits, or None where that holds a boundary."""
        with precise(2 * bits):
            scale = arb(2) ** bits
            total = arb(0)
            for value, mass in self.noise.cells():
                before, total = total, total + mass
                end = total * scale
                if end >= prefix + 1:
                    return value if before * scale <= prefix else None
                if not (end < prefix + 1):  # the ball itself straddles
                    return None
                if (1 - total) * scale < arb(2) ** -WORD:
                    return None
            # A finite support ends here, so its whole remaining ball is the last value's.
            return value if before * scale <= prefix else None
