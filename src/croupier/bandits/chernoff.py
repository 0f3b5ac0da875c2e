"""Bounds on an arm's mean from noisy sums, by Chernoff's method on rewards and noise together.

A batch sum is Y = Σ rewards + noise, with rewards in [0, 1] of mean μ. Since [0, 1] rewards have at most the moment
generating function of a coin, P(Y <= y) <= exp(l·y + n log(1 - μ(1 - e^{-l})) + K(-l)) for every l > 0, where K is the
cumulant of all the noise in Y. Solved for μ at probability e^{-level}, each l gives an upper bound

    μ <= (1 - exp(-(level + l·y + K(-l))/n)) / (1 - e^{-l}),

and the least over a grid of l is the largest μ with inf_z {n kl(z, μ) + Λ(n(z - y/n))} <= level, Λ the rate function of
the noise: reward deviation and noise deviation are traded off, not added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.comparisons.tails import TILTS, Floats, Tails

Numbers = NDArray[Any]

FALLS = np.expm1(-TILTS)
"""e^{-l} - 1 for every l of the grid."""


def bounds(totals: Floats, users: Numbers, noise: Numbers, rows: Tails, level: Floats) -> tuple[Floats, Floats]:
    """Lower and upper bounds for many estimates; `noise` says which of the rows is each one's."""
    lower, upper = np.zeros_like(totals), np.ones_like(totals)
    for row in np.flatnonzero(np.bincount(noise.ravel())).tolist():
        same = noise == row
        own = totals[same], users[same]
        upper[same] = upper_bound(*own, rows.low_side[row], level[same])
        lower[same] = lower_bound(*own, rows.high_side[row], level[same])
    return lower, upper


def upper_bound(total: Floats, users: Numbers, cumulants: Floats, level: Floats) -> Floats:
    """The largest plausible mean; `cumulants` is K(-l) with the grid on its last axis. No users: one."""
    tilts, falls = TILTS, FALLS
    finite = np.isfinite(cumulants)
    if not finite.all():
        # Columns that are infinite for all say nothing; where all are, neither does the total.
        held = finite.reshape(-1, len(TILTS)).any(axis=0)
        tilts, falls, cumulants = TILTS[held], FALLS[held], cumulants[..., held]
    exponent = np.asarray(tilts * np.asarray(total)[..., None])
    # In place: for thousands of runs these are the largest arrays there are.
    with np.errstate(over="ignore"):
        exponent += np.asarray(level)[..., None]
        exponent += cumulants
        exponent /= np.maximum(users, 1)[..., None]
        bounds = np.expm1(np.negative(exponent, out=exponent), out=exponent)
        bounds /= falls
    return np.where(users > 0, np.maximum(bounds.min(axis=-1, initial=1.0), 0.0), 1.0)


def lower_bound(total: Floats, users: Numbers, cumulants: Floats, level: Floats) -> Floats:
    """The least plausible mean: the upper bound on one minus the rewards; `cumulants` is K(l)."""
    return 1.0 - upper_bound(users - total, users, cumulants, level)


def evidence(total: Floats, users: Numbers, cumulants: Floats, mean: Floats) -> Floats:
    """How surprising so low a total is if the true mean is `mean`: the level at which it leaves the interval.

    sup over l of -(l·y + n log(1 - μ(1 - e^{-l})) + K(-l)), never below zero: DP-IMED's transport cost.
    """
    n = np.asarray(users)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log1p(np.asarray(mean)[..., None] * np.expm1(-TILTS))
        value = -(TILTS * np.asarray(total)[..., None] + n * log + cumulants)
    return np.asarray(np.maximum(np.nan_to_num(value, nan=0.0, neginf=0.0).max(axis=-1), 0.0))
