"""Families given by the ratio of neighbouring probabilities: their windows and their exact samples follow."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb

from croupier.checks import Number
from croupier.noise.base import Noise, to_arb
from croupier.noise.blocks import blocks
from croupier.noise.inversion import WORD
from croupier.noise.precision import precise
from croupier.noise.source import Source
from croupier.noise.window import EPSILON, SHALLOW, Floats, Integers, TooWide, Window, check_width

LARGEST_TABLED = 2**16
"""Laws of more values than this are drawn by blocks: their tables would take long to make."""


class RatioNoise(Noise):
    """A family given by one certified probability and the ratio of neighbouring ones: all else follows."""

    @property
    def mode(self) -> int:
        """A most likely value."""
        return 0

    @abstractmethod
    def _mass(self) -> arb:
        """The probability of the mode, as a ball at the current precision."""

    @abstractmethod
    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        """P(x+1)/P(x) for a whole number and balls (real=to_arb) or an array and doubles (real=float)."""

    def _log_mass(self, x: int, log_gamma: Callable[[arb], arb]) -> arb:
        """log P(x) up to a constant, as a ball at the current precision: what samples of a wide law need."""
        raise TooWide(self, self.extent(2.0**-WORD), LARGEST_TABLED)

    @property
    def _growth_limit(self) -> float:
        """The limit of P(x+1)/P(x) far above; ratios beyond a point lie between it and the ratio there."""
        return 0.0

    def _growth_limit_ball(self) -> arb:
        """The same at the current precision, where doubles cannot tell it from 1."""
        return arb(self._growth_limit)

    def window(self, floor: float = SHALLOW) -> Window:
        return _ratio_window(self, floor)

    def _draw(self, count: int, source: Source) -> Integers:
        if self.extent(2.0**-WORD) <= LARGEST_TABLED:
            return super()._draw(count, source)
        return blocks(self).sample(count, source)

    def cells(self) -> Iterator[tuple[int, arb]]:
        """Values and their probabilities as balls at the current precision, from the mode outward."""
        low, high = self.support
        up = down = self.mode
        above = below = self._mass()
        yield up, above
        while True:
            moved = False
            if high is None or up < high:
                above = above * self._growth(up, to_arb)
                up, moved = up + 1, True
                yield up, above
            if low is None or down > low:
                below = below / self._growth(down - 1, to_arb)
                down, moved = down - 1, True
                yield down, below
            if not moved:
                return


@lru_cache(maxsize=64)
def _ratio_window(noise: RatioNoise, floor: float) -> Window:
    """Multiply neighbouring ratios outward from the mode until the probability falls below `floor`."""
    with precise(256):
        peak = float(noise._mass())
    low, high = noise.support
    mode, limit = noise.mode, noise._growth_limit

    check_width(noise, noise.extent(floor))
    steps_up, steps_down = (None if high is None else high - mode), (None if low is None else mode - low)
    up, above = _outward(noise, lambda i: noise._growth(mode + i, float), peak, floor, steps_up, limit)
    down, below = up, above
    if not noise.symmetric:
        down, below = _outward(noise, lambda i: 1.0 / noise._growth(mode - 1 - i, float), peak, floor, steps_down, 0.0)
    # Each step multiplies by a ratio of at most five roundings; one that is an exponential errs by its argument too,
    # and those arguments add up to the logarithm of the last probability.
    error = EPSILON * (4.0 * max(len(up), len(down), 1) - 2.0 * math.log(floor))
    return Window(mode - len(down), np.concatenate((down[::-1], [peak], up)), below, above, error)


def _outward(
    noise: Noise, ratios: Callable[[Floats], Floats], peak: float, floor: float, most: int | None, limit: float
) -> tuple[Floats, float]:
    """Probabilities at 1, 2, ... steps from the mode, and a geometric bound on all that lies further out."""
    pieces: list[Floats] = []
    done, last, block = 0, peak, 256
    while most is None or done < most:
        steps = block if most is None else min(block, most - done)
        ratio = ratios(np.arange(done, done + steps, dtype=float))
        values = last * np.cumprod(ratio)
        small = np.flatnonzero(values < floor)
        if small.size:
            end = int(small[0])
            if not values[end]:
                # Too small for a double: no ratio could be formed with it, and all that is left weighs less than this.
                return np.concatenate([*pieces, values[:end]]), 1e-300
            pieces.append(values[: end + 1])
            steepest = max(float(ratio[end]), limit)
            outside = 0.0 if done + end + 1 == most else float(values[end]) * steepest / (1.0 - steepest)
            return np.concatenate(pieces), outside * (1.0 + 1e-6)
        pieces.append(values)
        done, last, block = done + steps, float(values[-1]), 2 * block
        check_width(noise, done)
    return (np.concatenate(pieces) if pieces else np.empty(0)), 0.0
