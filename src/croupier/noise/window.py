"""A law as a table of doubles: what a window holds, how deep it reaches, and how exact it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]

EPSILON = 2.0**-52
"""Spacing of doubles at 1; one rounding errs by at most half of it."""

SHALLOW, DEEP = 1e-40, 1e-290
"""How small a probability a window still holds: enough for any delta in use, and all a double can hold."""


@dataclass(frozen=True, eq=False)
class Window:
    """The law on a run of integers, as doubles with a proven relative error, and bounds on what lies outside."""

    start: int
    pmf: Floats
    below: float
    above: float
    error: float

    @property
    def stop(self) -> int:
        return self.start + len(self.pmf)
