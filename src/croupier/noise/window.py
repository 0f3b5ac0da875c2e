"""A law as a table of doubles: what a window holds, how deep it reaches, and how exact it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]

EPSILON = 2.0**-52
"""Spacing of doubles at 1; one rounding errs by at most half of it."""

SHALLOW, DEEP = 1e-40, 1e-290
"""How small a probability a window still holds: enough for any delta in use, and all a double can hold."""


LARGEST_WINDOW = 2**24
"""So many points are tabulated at most."""


LARGEST_DRAW = 2**61
"""Noise beyond this does not fit 64 bits."""


class TooWide(CroupierError):
    """A law with more values that matter than are tabulated."""

    def __init__(self, law: object, points: float, most: int) -> None:
        super().__init__(f"{law!r} is too wide: its table would have {points:.2g} values, and {most:,} is the most")


def check_width(law: object, points: float, most: int = LARGEST_WINDOW) -> None:
    """Refuse a table before it is made."""
    if not points <= most:
        raise TooWide(law, points, most)


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
