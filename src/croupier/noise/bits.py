"""Noise that is sent as bits, as a carrier sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from croupier.noise.source import Source
from croupier.noise.window import Floats, Integers


@dataclass(frozen=True)
class Bits:
    """How one party sends its noise as bits: how many, what they count for, and how they are drawn.

    A one counts 1, a zero `zero`, and the noise is the sum. `draw(count, source)` gives the zeros and the ones of
    `count` parties. `seen()` gives, for every number of bits that may be sent, its probability and the law of the ones
    among them: what whoever sees them all learns.
    """

    fewest: int
    most: int
    mean: float
    zero: int
    draw: Callable[[int, Source], tuple[Integers, Integers]]
    seen: Callable[[], Iterator[tuple[float, Floats]]]
