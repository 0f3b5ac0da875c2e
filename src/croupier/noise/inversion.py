"""Exact samples of any noise by inverting its certified cdf on random bits.

A uniform U is known by its first 64 bits. The cumulative probabilities are balls far narrower than 2^-64, so those
bits decide the value except when they name the very cell of a boundary; then, and only then, more bits are drawn and
the boundary is computed to match. The value returned has exactly the noise's law: no rounding enters (the gap of
[Mir12] cannot arise). One method serves every family, one draw at a time and in bulk, where a table over the leading 16
bits answers most draws by one look-up. The table is finished before the first draw, so that the time of a draw does not
tell how far it reached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
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

SCANNED = 2**18
"""Up to so many comparisons are made by looking at the whole table for every word."""

BULK = 2048
"""From this many draws on, building the guide table pays."""


class Enumerated(Protocol):
    """A law that lists its values, likely ones first."""

    def cells(self) -> Iterator[tuple[int, arb]]:
        """Values and their probabilities as balls at the current precision."""

    def extent(self, floor: float) -> float:
        """About how many values have a probability of at least `floor`."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A finished table: words above `upper[i - 1]` and below `lower[i]` are surely of value i.

    Each way of looking words up gives their values, and whether each word is unclear: in a boundary's own cell.
    """

    values: NDArray[np.int64]
    lower: NDArray[np.uint64]
    upper: NDArray[np.uint64]

    @cached_property
    def _steps(self) -> NDArray[np.int64]:
        return np.diff(self.values, append=self.values[-1:])

    def scan(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """By comparing every word with every threshold and adding up the steps between values.

        For any value the same operations touch the same memory, and nothing is fetched by its place: what is seldom
        drawn would come late, and so tell that it was.
        """
        passed = self.lower <= words[:, None]
        unclear = (passed != (self.upper < words[:, None])).any(axis=1)
        return self.values[0] + np.einsum("ij,j->i", passed, self._steps), unclear

    def search(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """By as many halvings for every word as the table needs, for many words at once."""
        index = np.zeros(words.size, dtype=np.int64)
        for k in reversed(range(len(self.lower).bit_length())):
            further = index + (1 << k)
            passed = (further <= len(self.lower)) & (self.lower.take(further - 1, mode="clip") <= words)
            index = np.where(passed, further, index)
        return self.at(words, index)

    def at(self, words: NDArray[np.uint64], index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """At known places: how many lower thresholds each word has passed."""
        unclear = (index > 0) & (words <= self.upper.take(index - 1, mode="clip"))
        return self.values.take(index, mode="clip"), unclear


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
        self._finished: Thresholds | None = None
        self._guide: NDArray[np.int64] | None = None

    def sample(self, count: int, source: Source) -> NDArray[np.int64]:
        check_width(self.noise, self.noise.extent(2.0**-WORD), LARGEST_INVERTED)
        words = source.words(count)
        table = self._table()
        if count < BULK:
            scanned = count * len(table.values) <= SCANNED
            return self._refined(words, *(table.scan(words) if scanned else table.search(words)), source)
        drawn = self._guided(table).take((words >> np.uint64(WORD - GUIDE_BITS)).view(np.int64))
        open_cases = np.flatnonzero(drawn == UNDECIDED)
        if open_cases.size:
            words = words[open_cases]
            drawn[open_cases] = self._refined(words, *table.at(words, table.lower.searchsorted(words, "right")), source)
        return drawn

    def values(self) -> NDArray[np.int64]:
        """All values in the table: of all others together the probability is below 2^-62."""
        return self._table().values

    def chances(self) -> NDArray[np.float64]:
        """How likely each of them is, to 2^-53."""
        return np.diff(self._table().lower.astype(np.float64), prepend=0.0) / 2.0**WORD

    def _refined(
        self, words: NDArray[np.uint64], found: NDArray[np.int64], unclear: NDArray[np.bool_], source: Source
    ) -> NDArray[np.int64]:
        """The values found, with further bits for a word that names a boundary's own cell."""
        for i in np.flatnonzero(unclear):
            found[i] = self._refine(int(words[i]), source)
        return found

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

    def _table(self) -> Thresholds:
        """The whole table as arrays. It is finished before the first draw: time does not tell how far that reached."""
        if self._finished is None:
            with self._lock:
                while not self._complete:
                    self._grow(max(256, len(self._values)))
                top = 2**WORD - 1
                lower = [min(threshold, top) for threshold in self._lower]
                # Beyond the last threshold lies what the table left out, so no word there is clear.
                upper = [*(min(threshold, top) for threshold in self._upper[:-1]), top]
                self._finished = Thresholds(
                    np.asarray(self._values, dtype=np.int64),
                    np.asarray(lower, dtype=np.uint64),
                    np.asarray(upper, dtype=np.uint64),
                )
        return self._finished

    def _guided(self, table: Thresholds) -> NDArray[np.int64]:
        """The value that a word's leading bits already decide, for each of them."""
        if self._guide is None:
            first = np.arange(2**GUIDE_BITS, dtype=np.uint64) << np.uint64(WORD - GUIDE_BITS)
            last = first + np.uint64(2 ** (WORD - GUIDE_BITS) - 1)
            index = table.lower.searchsorted(first, "right")
            found, unclear = table.at(first, index)
            self._guide = np.where(unclear | (last >= table.lower.take(index, mode="clip")), UNDECIDED, found)
        return self._guide

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
