"""What the evidence lets one claim, over all pairs of arms and all looks together.

- "i beats j" takes evidence of K(K-1)/α: there are so many ordered pairs.
- An arm is set aside when an arm that is not is shown to be better with evidence of (K-1)/α. If one arm is at no time
  worse than another, only its K-1 pairs can go wrong, so it stays except with probability α.
- A winner is the one arm that is not set aside, and beats the arm that it is compared with. So there is direct evidence
  against every other arm, from blocks where both ran: an arm may return when the arm that beat it is set aside later.
- With guardrails the winner must be safe in each of them, so K arms share α instead of K-1: `comparisons.guardrails`.
- "No difference larger than m" takes evidence of K(K-1)/α against every larger one, among the arms not set aside.

A winner is wrong with probability α at most where some arm is best at all times: docs/decisions.md counts the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from croupier.comparisons.comparison import Bools, Comparison, Integers
from croupier.comparisons.tails import Floats

RESERVE = 0.01
"""So much of α is kept for modular sums that wrap around; when it is used up, nothing more is claimed."""


@dataclass(frozen=True)
class Levels:
    """How much evidence claims take, as logarithms.

    >>> levels = Levels(arms=3, confidence=0.95)
    >>> round(levels.pair, 3), round(levels.best, 3)
    (4.798, 3.699)
    """

    arms: int
    confidence: float
    guardrails: int = 0

    @property
    def failure(self) -> float:
        """α, without what is kept for sums that wrap around."""
        return (1.0 - self.confidence) * (1.0 - RESERVE)

    @property
    def reserve(self) -> float:
        """What is kept for sums that wrap around."""
        return RESERVE * (1.0 - self.confidence)

    @property
    def pair(self) -> float:
        """For "i beats j", and for each side of an interval."""
        return float(np.log(self.arms * (self.arms - 1) / self.failure))

    @property
    def best(self) -> float:
        """For setting an arm aside, and so for "no arm is better than B"; with guardrails K arms share the error."""
        return float(np.log((self.arms if self.guardrails else self.arms - 1) / self.failure))

    @property
    def safe(self) -> float:
        """For "B is not worse than the control by more than the margin", of each guardrail: a winner needs them all."""
        return float(np.log(self.arms / self.failure))

    @property
    def harmed(self) -> float:
        """For "B is worse than the control by more than the margin": of all guardrails and arms none is wrong.

        Never less than a side of an interval takes, so that the interval agrees.
        """
        return float(np.log(max(self.guardrails, self.arms) * (self.arms - 1) / self.failure))


@dataclass(frozen=True, eq=False)
class Claims:
    """What may be said now, in every run."""

    evidence: Floats
    """That arm i is better than arm j, as logarithms."""
    beats: Bools
    left: Bools
    """The arms that are not set aside."""
    leader: Integers
    """The arm that the others look worst against."""
    reference: Integers
    """What the leader is compared with: the control, or the runner-up where the control leads."""
    won: Bools
    """Whether the leader is the only arm left, and beats its reference."""
    alike: Bools
    """Whether all arms left differ by no more than the margin."""


def claim(comparison: Comparison, levels: Levels, control: int, compared: Bools, margin: float | None = None) -> Claims:
    """All claims; `compared` says which arms count (those that an operator took out do not)."""
    runs, arms = np.arange(comparison.runs), np.arange(comparison.arms)
    pairs = compared[:, :, None] & compared[:, None, :] & (arms[:, None] != arms)
    trusted = comparison.wrapped <= levels.reserve
    evidence = np.where(pairs & trusted[:, None, None], comparison.evidence(), -np.inf)
    left = not_set_aside(evidence >= levels.best, compared)
    leader = lead(comparison.differences, left)
    reference = compared_with(comparison, leader, control, compared)
    beats = evidence >= levels.pair
    alone = (left.sum(axis=1) == 1) & (compared.sum(axis=1) > 1)
    alike = np.zeros(comparison.runs, dtype=bool)
    if margin is not None:
        near = np.where(trusted[:, None, None], comparison.evidence(-margin), -np.inf) >= levels.pair
        alike = (near | ~(pairs & left[:, :, None] & left[:, None, :])).all(axis=(1, 2)) & (left.sum(axis=1) > 1)
    return Claims(evidence, beats, left, leader, reference, alone & beats[runs, leader, reference], alike)


def not_set_aside(better: Bools, compared: Bools) -> Bools:
    """The arms than which no arm among them is better; `better` says which are better than which.

    What an arm showed against others is forgotten once it is set aside itself: rates may have changed since.

    >>> chain = np.zeros((1, 3, 3), dtype=bool)
    >>> chain[0, 0, 1] = chain[0, 1, 2] = True
    >>> not_set_aside(chain, np.ones((1, 3), dtype=bool)).tolist()
    [[True, False, True]]
    """
    left, open_ = np.zeros_like(compared), compared.copy()
    while open_.any():
        found = open_ & ~(better & (open_ | left)[:, :, None]).any(axis=1)
        left |= found
        if not found.any():
            break
        open_ &= ~found & ~(better & found[:, :, None]).any(axis=1)
    # Arms that are better than each other in a circle all stay.
    return np.asarray(left | open_)


def lead(differences: Floats, left: Bools) -> Integers:
    """The arm whose worst estimated difference to the other arms left is largest; the first of several.

    An arm that ran with none of them leads only where all are like that.
    """
    others = left[:, :, None] & left[:, None, :] & ~np.eye(left.shape[1], dtype=bool)
    known = others & ~np.isnan(differences)
    worst = np.where(known, differences, np.inf).min(axis=2)
    worst = np.where(known.any(axis=2), worst, -2.0)
    return np.asarray(np.argmax(np.where(left, worst, -np.inf), axis=1))


def compared_with(comparison: Comparison, leader: Integers, control: int, compared: Bools) -> Integers:
    """The control; where that leads, or is out, the arm that comes nearest to the leader."""
    runs, arms = np.arange(comparison.runs), np.arange(comparison.arms)
    apart = np.where(np.isnan(comparison.differences), np.inf, comparison.differences)[runs, leader]
    others = compared & (arms != leader[:, None])
    # Where no other ran with the leader any other will do: there is nothing to tell.
    runner_up = np.argmin(np.where(others, np.minimum(apart, 2.0), np.inf), axis=1)
    return np.asarray(np.where((leader == control) | ~compared[:, control], runner_up, control))
