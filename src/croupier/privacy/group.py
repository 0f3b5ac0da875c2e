"""Group privacy: what a promise for one user says about several who change at once ([GKM21] Lemma 34)."""

from __future__ import annotations

import math
from typing import NamedTuple

from croupier.checks import InvalidParameter, between, integer, positive
from croupier.privacy.loss import Loss

HAIR = 1.0 + 2.0**-48
"""A few roundings of doubles, all to the safe side."""


class Group(NamedTuple):
    """(ε, δ) for several users who change at once."""

    epsilon: float
    delta: float


def group_privacy(epsilon: float, delta: float, users: int) -> Group:
    """(kε, δ') for k users who change at once, from (ε, δ) for one: δ' = δ(e^{kε} - 1)/(e^ε - 1), or less.

    The formula is [GKM21] Lemma 34. Let p be how likely an event is. One user can raise p to δ + e^ε p at most and, as
    the event's opposite is bounded too, to 1 - e^{-ε}(1 - p - δ). The lower of the two is rising and nowhere steeper
    than e^ε, so δ' is what k such steps make of p = 0. The first is lower until p exceeds (1 - δ)/(1 + e^ε), and the
    formula is what it alone makes. Nothing better holds for every (ε, δ)-DP release: an event with these probabilities
    reaches it. Where the noise is known, `group_loss` says less.

    >>> group = group_privacy(0.5, 1e-6, 4)
    >>> round(group.epsilon, 9), round(group.delta, 9)
    (2.0, 9.849e-06)
    >>> round(group_privacy(0.5, 0.1, 4).delta, 5)
    0.77965
    """
    epsilon, delta = float(positive("epsilon", epsilon)), float(between("delta", delta, 0, 1, "[)"))
    total = epsilon * integer("users", users, 1)
    return Group(total * HAIR if users > 1 else total, _grown(epsilon, delta, users) if delta else 0.0)


def _grown(epsilon: float, delta: float, users: int) -> float:
    # Any number of steps of the first kind gives a bound, so the rounding of this one does no harm.
    most = 1 + math.floor(math.log1p((1.0 - delta) * math.tanh(epsilon / 2.0) / delta) / epsilon)
    first = min(users, most)
    second = users - first
    raised = delta * group_factor(epsilon, first)
    if not second:
        return min(1.0, raised)
    unlikely = 1.0 - raised - delta * group_factor(epsilon, second)
    return min(1.0, (1.0 - math.exp(-epsilon * second) * max(unlikely, 0.0)) * HAIR)


def group_factor(epsilon: float, users: int) -> float:
    """1 + e^ε + … + e^{(k-1)ε}, rounded up: by how much δ grows; infinite where it is too large for a double."""
    if users == 1:
        return 1.0
    if epsilon * users > 700.0:
        return math.inf
    return math.expm1(epsilon * users) / math.expm1(epsilon) * HAIR


def group_loss(loss: Loss, users: int) -> Loss:
    """The exact loss when `users` users change at once, for one noisy number: it moves so many times as far.

    >>> from croupier.noise import DiscreteLaplace, Binomial
    >>> from croupier.privacy import privacy_loss
    >>> round(group_loss(privacy_loss(DiscreteLaplace(20)), 4).pure, 9)
    0.2
    >>> one = privacy_loss(Binomial(2000, 0.5))
    >>> group_loss(one, 3).delta(3 * 0.2) < group_privacy(0.2, one.delta(0.2), 3).delta
    True
    """
    integer("users", users, 1)
    release = loss.single
    grouped = None if release is None or loss.distance else release.of_group(users)
    if grouped is None:
        raise InvalidParameter("loss", str(loss), "that of one noisy number over a perfect carrier")
    return Loss(((grouped, 1),))
