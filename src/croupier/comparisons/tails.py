"""What is known of a noise: its cumulants on a grid of tilts, and between them from above."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from croupier.noise import Noise

Floats = NDArray[np.floating[Any]]

TILTS: Floats = np.concatenate((np.geomspace(3e-4, 20.0, 72), np.geomspace(24.0, 40.0, 3)))
"""The grid of l. Its steps of 17 % cost a bound less than 1 %."""


class Tails(NamedTuple):
    """What Chernoff's method needs to know of a noise, or of many in rows: K(-l), K(l), the grid on the last axis."""

    low_side: Floats
    high_side: Floats
    wrap: Any = 0.0
    """How likely the noise is to carry a modular sum around to its other end, which no cumulant knows."""


NO_TAILS = Tails(np.zeros_like(TILTS), np.zeros_like(TILTS))


@lru_cache(maxsize=4096)
def tails(noise: Noise, unit: float, wrap: float = 0.0) -> Tails:
    """Of noise worth `unit` a step; cumulants are infinite where the expectation is."""
    return Tails(noise.cumulant(-TILTS * unit), noise.cumulant(TILTS * unit), wrap)


CHORDS: Floats = np.geomspace(1e-7, 3.0, 180)
"""Tilts between which a cumulant is bounded by its chords. Their steps of 10 % cost less than 0.3 % of it."""


ROUNDING = 1e-12


class Cumulants(NamedTuple):
    """A noise's cumulant at any tilt within reach, from above."""

    tilts: Floats
    values: Floats
    wrap: float = 0.0
    """How likely the noise is to carry a modular sum around."""

    @property
    def reach(self) -> float:
        """The largest tilt that is known, on both sides."""
        return float(self.tilts[-1])

    def at(self, tilts: Floats) -> Floats:
        """K there or more: a cumulant is convex, so its chords lie above it. Infinite out of reach."""
        # One stake after another: its tilts lie side by side, and are found at once.
        chord = np.interp(tilts.T, self.tilts, self.values, left=np.inf, right=np.inf).T
        # More than all rounding on the way here: too large a cumulant is never unfair.
        return np.asarray(chord + ROUNDING * np.abs(chord))


NO_NOISE = Cumulants(np.asarray([-CHORDS[-1], 0.0, CHORDS[-1]]), np.zeros(3))


@lru_cache(maxsize=4096)
def cumulants(noise: Noise, unit: float, wrap: float = 0.0) -> Cumulants:
    """Of noise worth `unit` a step."""
    low, high = noise.cumulant(-CHORDS * unit), noise.cumulant(CHORDS * unit)
    known = int((np.isfinite(low) & np.isfinite(high)).cumprod().sum())
    tilts, values = CHORDS[:known], (low[:known][::-1], [0.0], high[:known])
    return Cumulants(np.concatenate((-tilts[::-1], [0.0], tilts)), np.concatenate(values), wrap)
