"""Searches along one line; the name of each says which side of the crossing it returns.

A search is given a condition that changes once between an end where it fails and an end where it passes. It keeps one
end on either side all the time, so what it returns was tested itself, or was promised by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

End = TypeVar("End", int, float)

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def least_passing_integer(passes: Callable[[int], bool], failing: int, guess: int) -> int:
    """The least whole number above `failing` that passes; doubled from `guess` until one does.

    >>> least_passing_integer(lambda n: n * n >= 50, 0, 3)
    8
    """
    passing = guess
    while not passes(passing):
        failing, passing = passing, 2 * passing
    return least_passing_between(passes, failing, passing)


def least_passing_between(passes: Callable[[int], bool], failing: int, passing: int) -> int:
    """The least whole number that passes, between one that fails and one that passes; neither end is tested."""
    return _narrowed(passes, failing, passing, lambda a, b: (a + b) // 2, lambda a, b: b - a > 1)[1]


def least_passing_positive(
    passes: Callable[[float], bool],
    guess: float,
    *,
    resolution: float,
    factor: float = 2.0,
    least: float = 1e-9,
) -> float:
    """The least positive number that passes, rounded up by `resolution` relatively; below `least` all are alike.

    >>> 2.0 <= least_passing_positive(lambda x: x * x >= 4.0, 100.0, resolution=1e-6) <= 2.00001
    True
    """
    passing = guess
    while not passes(passing):
        passing *= factor
    failing = passing / factor
    while passes(failing):
        failing, passing = failing / factor, failing
        if failing < least:
            return passing
    return least_passing_ratio(passes, failing, passing, resolution=resolution)


def least_passing_ratio(passes: Callable[[float], bool], failing: float, passing: float, *, resolution: float) -> float:
    """The least number that passes, rounded up, halving the ratio of the two ends until it is 1 + `resolution`."""
    return _narrowed(passes, failing, passing, lambda a, b: math.sqrt(a * b), lambda a, b: b / a > 1.0 + resolution)[1]


def bracket(
    passes: Callable[[float], bool],
    failing: float,
    passing: float,
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
) -> tuple[float, float]:
    """A number that fails and one that passes, as close as asked; `relative` is to the larger of the two.

    Take the first to err on the failing side and the second to err on the passing one. Either may be the larger.

    >>> failing, passing = bracket(lambda x: x * x >= 2.0, 0.0, 2.0, relative=1e-12)
    >>> failing < math.sqrt(2.0) <= passing
    True
    """
    return _narrowed(
        passes,
        failing,
        passing,
        lambda a, b: 0.5 * (a + b),
        lambda a, b: abs(b - a) > absolute + relative * max(a, b),
    )


def _narrowed(
    passes: Callable[[End], bool],
    failing: End,
    passing: End,
    between: Callable[[End, End], End],
    apart: Callable[[End, End], bool],
) -> tuple[End, End]:
    """Both ends, moved together until they are no longer apart."""
    while apart(failing, passing):
        middle = between(failing, passing)
        if middle in (failing, passing):
            break  # the two are neighbouring doubles
        if passes(middle):
            passing = middle
        else:
            failing = middle
    return failing, passing


def minimiser(value: Callable[[float], float], low: float, high: float, *, absolute: float) -> float:
    """About where a function that falls and then rises is least: golden section down to a width of `absolute`.

    No side of it is safe: use it where every answer is sound and the best one is wanted.

    >>> abs(minimiser(lambda x: (x - 0.3) ** 2, 0.0, 1.0, absolute=1e-3) - 0.3) < 1e-3
    True
    """
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    while high - low > absolute:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = value(right)
    return 0.5 * (low + high)


def just_above_minimiser(value: Callable[[float], float], low: float, high: float, *, resolution: float) -> float:
    """The upper end of what is left around the least value of a convex function, thirds being cut off in turn.

    For a function that is steep below its least value and flat above it, where the middle would be far from the least.

    >>> 0.3 <= just_above_minimiser(lambda x: max(100 * (0.3 - x), x - 0.3), 0.0, 1.0, resolution=1e-3) <= 0.302
    True
    """
    while high - low > resolution * (1.0 + high):
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        if value(left) <= value(right):
            high = right
        else:
            low = left
    return high
