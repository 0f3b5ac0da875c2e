"""Bets on batches: what is won by a stake on an arm's outcomes, whatever their law on [0, 1] and whatever the noise.

A stake s on an outcome X with centre c multiplies wealth by 1 + s(X - c). Of a batch only Y = ΣX + noise is known, and
e^{lX}(1 - sc) <= 1 + s(X - c) on [0, 1] for the tilt l = log((1 + s(1 - c))/(1 - sc)), with equality at both ends. So

    W = exp(l·Y + n log(1 - sc) - K(l))

is what a batch of n wins at least, K the cumulant of its noise. Since 1 + x <= e^x, E[W] <= exp(s Σ(μ - c)) for users
of any means μ. The centre may be anything that was known before the batch: a wrong one is never unfair, only slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.comparisons.tails import Cumulants, Floats

Numbers = NDArray[Any]

BOLDEST = 0.9
"""No stake is larger: wealth stays positive whatever the outcomes."""
RATIO = 1.5
"""Between neighbouring stakes. The best of them loses at most 4 % of what the very best stake gains."""
CALMEST = 1 / 400
"""The least stake, as a share of the middle one: it suits experiments 400² times as long."""
USUAL_EFFECT = 0.05
"""The difference that the middle of the wide stakes is made for, at rates of a half: five points."""
USUAL_LIFTS = (0.1, 0.25)
"""Where no rate is said, the planned effect is thought of as these shares of it; rates are a half at most."""


def winnings(stakes: Floats, centre: Floats, users: Numbers, total: Floats, noise: Cumulants) -> Floats:
    """log W + s·c·n: what batches win at least, for a mean of zero; the stakes are on the last axis.

    Less s·μ·n it is the logarithm of what has an expectation of at most one.
    """
    centre, users, total = centre[..., None], users[..., None], total[..., None]
    lost = np.log1p(-stakes * centre)
    tilts = np.log1p(stakes * (1.0 - centre)) - lost
    return np.asarray(tilts * total + users * (lost + stakes * centre) - noise.at(tilts))


@dataclass(frozen=True, eq=False)
class Stakes:
    """Stakes that are all played at once, and with what shares of one unit of wealth."""

    sizes: Floats
    shares: Floats

    def __post_init__(self) -> None:
        assert np.all(self.sizes > 0)
        assert abs(float(self.shares.sum()) - 1.0) < 1e-9

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def log_shares(self) -> Floats:
        return np.asarray(np.log(self.shares))


def stakes(noise: Cumulants, users: int, effect: float | None = None, rate: float | None = None) -> Stakes:
    """Half on the stake that is best for the planned effect, half on wide ones; all on wide ones without a plan.

    Parameters
    ----------
    noise : of a batch of so many users.
    users : in a typical batch.
    effect : the difference that is planned for.
    rate : the mean that the control is expected to have; None: several are thought of.

    Examples
    --------
    >>> from croupier.comparisons.tails import NO_NOISE
    >>> planned = stakes(NO_NOISE, 100, effect=0.05, rate=0.5)
    >>> round(float(planned.sizes[0]), 2), float(planned.shares[0])
    (0.1, 0.5)
    """
    # The tilt of a stake s is at most -log(1 - s), whatever the centre: within the noise's reach no stake ever dies.
    # A noise that the grid of tilts cannot tell from endless lets nothing be won, with whatever stakes.
    boldest = min(BOLDEST, -np.expm1(-noise.reach)) or BOLDEST
    middle = min(best_stake(noise, users, USUAL_EFFECT, 0.5, boldest), boldest)
    steps = int(np.log(1.0 / CALMEST) / np.log(RATIO))
    wide = middle * RATIO ** np.arange(-steps, np.floor(np.log(boldest / middle) / np.log(RATIO)) + 1)
    # A Cauchy law of log stakes: most on experiments of a usual length, and never much too little.
    shares = 1.0 / (1.0 + np.log(wide / middle) ** 2)
    shares /= shares.sum()
    if effect is None:
        return Stakes(wide, shares)
    rates = tuple(min(0.5, effect / lift) for lift in USUAL_LIFTS) if rate is None else (rate,)
    planned = [best_stake(noise, users, effect, each, boldest) for each in rates]
    return Stakes(
        np.concatenate((planned, wide)), np.concatenate((np.full(len(rates), 0.5 / len(rates)), 0.5 * shares))
    )


def best_stake(noise: Cumulants, users: int, effect: float, rate: float, boldest: float = BOLDEST) -> float:
    """The stake that wins most, in expectation, when one arm's mean is `rate` and the other's higher by `effect`."""
    if rate + effect > 1.0:
        rate = 1.0 - effect
    tried = boldest * np.geomspace(1e-5, 1.0, 400)
    n, centre = np.asarray(users), np.asarray(rate + effect / 2.0)
    won = winnings(tried, centre, n, n * (rate + effect), noise) + winnings(-tried, centre, n, n * rate, noise)
    return float(tried[np.argmax(won)])
