"""The relative lift: the ratio of two arms' mean outcomes in the blocks where both ran.

A ratio r is refuted by bets on mean_i - r·mean_j. They are other bets for every r, so the interval holds at every look
while the ratio stays the same; that of the difference holds however it moves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from croupier.comparisons.comparison import Comparison, log_mean

LARGEST = 100.0
"""No ratio is looked for beyond."""


def ratio(comparison: Comparison, run: int, arm: int, base: int, level: float) -> tuple[float, float, float] | None:
    """The ratio of an arm's mean to another's, and what it lies between; None where it cannot be told.

    That is where one of the two has no mean above zero, and where sums may have wrapped around.

    >>> from croupier.comparisons.bets import stakes
    >>> from croupier.comparisons.tails import NO_NOISE
    >>> comparison = Comparison(2, 1, stakes(NO_NOISE, 100), lambda users: NO_NOISE)
    >>> for _ in range(9):
    ...     comparison.tell(np.array([[50.0, 65.0]]), np.array([[100, 100]]), np.ones((1, 2), dtype=bool))
    >>> [round(each, 2) for each in ratio(comparison, 0, 1, 0, np.log(20.0))]
    [1.3, 1.15, 1.47]
    """
    if not comparison.trusted[run]:
        return None
    history = comparison.history(run)
    rows = np.flatnonzero((history.counts[:, arm] > 0) & (history.counts[:, base] > 0))
    ours, theirs = np.full(len(rows), arm), np.full(len(rows), base)
    weight = np.minimum(history.counts[rows, arm], history.counts[rows, base])
    means = history.sums[rows] / np.maximum(history.counts[rows], 1)
    tops = (weight[:, None] * means).sum(axis=0)
    if not (len(rows) and tops[arm] > 0 and tops[base] > 0):
        return None

    def evidence(side: float) -> Callable[[float], bool]:
        def refuted(r: float) -> bool:
            # No stake becomes larger than it was.
            legs = (ours, side / max(1.0, r)), (theirs, -side * r / max(1.0, r))
            won = comparison.wins(history, rows, weight, *legs).sum(axis=0)
            return bool(log_mean(won, comparison.stakes.log_shares) >= level)

        return refuted

    found = float(tops[arm] / tops[base])
    above, below = evidence(1.0), evidence(-1.0)
    lower = _turn(above, 0.0, min(found, LARGEST))
    upper = np.inf if not below(LARGEST) else _turn(below, LARGEST, min(found, LARGEST))
    return found, lower, float(upper)


def _turn(refuted: Callable[[float], bool], out: float, within: float) -> float:
    """The last ratio that is not refuted on the way from one inside to one outside, within a thousandth."""
    while abs(out - within) > 1e-3 * max(1.0, within):
        middle = (out + within) / 2.0
        out, within = (middle, within) if refuted(middle) else (out, middle)
    return out
