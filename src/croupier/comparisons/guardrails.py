"""Guardrails: whether an arm is worse than the control by more than a margin, in a metric that does not decide.

"Safe" and "harmed" come from the same evidence as every claim, on that metric's own sums, and hold at every look. To
ship an arm takes all its guardrails to be safe. If one of them is not, that one alone must fail: so each takes evidence
of K/α, however many there are. "Harmed" takes somebody out by itself: there all guardrails and arms share α.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from croupier.comparisons.claims import Levels
from croupier.comparisons.comparison import Bools, Comparison

STATES = ("not known yet", "safe", "harmed")


class Guarded(NamedTuple):
    """Which arms are shown to be safe, and which to be harmed, in every run; of the control neither is said."""

    safe: Bools
    harmed: Bools

    def state(self, run: int, arm: int) -> str:
        return STATES[2 if self.harmed[run, arm] else int(self.safe[run, arm])]


def guarded(comparison: Comparison, levels: Levels, control: int, margin: float, *, higher_is_better: bool) -> Guarded:
    """What may be said of every arm against the control; `margin` in units of the range.

    >>> from croupier.comparisons.bets import stakes
    >>> from croupier.comparisons.tails import NO_NOISE
    >>> comparison = Comparison(2, 1, stakes(NO_NOISE, 100), lambda users: NO_NOISE)
    >>> for _ in range(9):
    ...     comparison.tell(np.array([[50.0, 65.0]]), np.array([[100, 100]]), np.ones((1, 2), dtype=bool))
    >>> levels = Levels(arms=2, confidence=0.95, guardrails=1)
    >>> [guarded(comparison, levels, 0, 0.05, higher_is_better=higher).state(0, 1) for higher in (True, False)]
    ['safe', 'harmed']
    """
    arms = np.arange(comparison.arms)
    # That the arm is better than the control by more than -margin, or the control than the arm by more than margin.
    place = (arms, control) if higher_is_better else (control, arms)
    known = ((comparison.wrapped <= levels.reserve)[:, None]) & (arms != control)
    harmed = known & (comparison.evidence(margin)[:, place[1], place[0]] >= levels.harmed)
    safe = known & ~harmed & (comparison.evidence(-margin)[:, place[0], place[1]] >= levels.safe)
    return Guarded(safe, harmed)
