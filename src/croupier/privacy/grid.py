"""Laws of tilted losses on a grid, and their sums: by short transforms, with a bound on all that these get wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from croupier.noise.likelihoods import Floats, Pair
from croupier.noise.window import EPSILON

NEGLIGIBLE = 1e-13
"""Ends of the tilted law that hold no more than this are cut, and what they held is charged."""

SURE = 1e-6 - math.log(NEGLIGIBLE)
"""An exponent that makes a bound negligible, rounded up."""


@dataclass(frozen=True, eq=False)
class Law:
    """A tilted, normalised law on the grid from `start`, and a bound on its total error.

    `log_moments` are log E[e^{rX}] of the exact law for each rate r (`rates_between`) and then each -r, X counted in
    grid steps: they add up when laws do, and bound how far a sum reaches before it is computed.
    """

    start: int
    weights: Floats
    error: float
    log_moments: Floats

    def times(self, count: int, rates: Floats) -> Law:
        """The law of the sum of `count` copies, by repeated squaring."""
        result: Law | None = None
        base = self
        while True:
            if count & 1:
                result = base if result is None else law_of_sum((result, base), rates)
            count >>= 1
            if not count:
                assert result is not None
                return result
            base = law_of_sum((base,), rates, copies=2)


def law_of_sum(laws: Sequence[Law], rates: Floats, copies: int = 1) -> Law:
    """The law of the sum of so many copies of each law: one transform of each, one back, no longer than they need be.

    Chernoff's bound names a stretch of the grid outside of which lies at most `NEGLIGIBLE` on either side. A transform
    as long as that folds the rest into it, so as much is lost outside and as much is wrong inside. A transform errs by
    at most 4 ε log₂ N of its norm ‖·‖₂, and no other factor exceeds one: the sum errs in total by √N times the norms of
    all that was transformed.
    """
    log_moments = copies * sum((law.log_moments for law in laws[1:]), laws[0].log_moments)
    start = copies * sum(law.start for law in laws)
    stop = start + copies * sum(len(law.weights) - 1 for law in laws) + 1
    upward, downward = ((half + SURE) / rates for half in np.split(log_moments, 2))
    first = math.floor(max(float(start), -downward.min()))
    end = math.ceil(min(float(stop), upward.min() + 1.0))
    length = _good_size(max(end - first, *(len(law.weights) for law in laws)))
    rows = np.zeros((len(laws), length))
    for row, law in zip(rows, laws, strict=True):
        row[: len(law.weights)] = law.weights
    product = np.fft.rfft(rows).prod(axis=0) ** copies
    weights = np.maximum(np.roll(np.fft.irfft(product, length), start - first)[: end - first], 0.0)
    # The sum counts twice: for the way back, and for the products, of which there are fewer than 4 log₂ N.
    norms = copies * math.fsum(_norm(law.weights) for law in laws) + 2.0 * _norm(weights)
    rounding = 4.0 * EPSILON * math.log2(length) * math.sqrt(length) * norms
    error = copies * math.fsum(law.error for law in laws) + rounding + 4.0 * NEGLIGIBLE
    return Law(first, weights, error, log_moments)


def _norm(weights: Floats) -> float:
    """‖w‖₂ of weights that add up to one, from above: the sum of w² is at most their largest."""
    return math.sqrt(float(weights.max()))


def on_grid(pair: Pair, step: float, tilt: float, rates: Floats) -> tuple[Law, float]:
    """The pair's losses on the grid, tilted, and the logarithm of what normalised them.

    Each mass is split between the grid points around its loss: p(1 - e^{-offset})/(1 - e^{-step}) goes up and the rest
    stays, which keeps its mass under P and under Q.
    """
    logs = pair.log_masses + tilt * pair.losses
    peak = float(logs.max())
    whole = np.exp(logs - peak)
    held = _without_ends(whole, NEGLIGIBLE / 3.0)
    losses = pair.losses[held]
    below = np.floor(losses / step)
    offset = losses - below * step
    rising = np.clip(np.expm1(-offset) / math.expm1(-step), 0.0, 1.0)
    start = int(below[0])
    index = below.astype(np.int64) - start
    tilted = whole[held] * np.exp(-tilt * offset)  # as at the grid point below
    points = np.concatenate((index, index + 1))
    weights = np.concatenate((tilted * (1.0 - rising), tilted * math.exp(tilt * step) * rising))
    total = float(weights.sum())
    weights /= total
    law: Floats = np.bincount(points, weights).astype(np.float64)
    centre = float(np.dot(points, weights))
    log_moments = _log_moments(points - centre, weights, rates) + (start + centre) * np.concatenate((rates, -rates))
    return Law(start, law, 8.0 * EPSILON + 2.0 * NEGLIGIBLE, log_moments), peak + math.log(total)


def _log_moments(points: Floats, weights: Floats, rates: Floats) -> Floats:
    """log E[e^{rX}] for each rate, and then for each rate's negative; infinite where no double holds the moment."""
    points, weights = points[weights > 0.0], weights[weights > 0.0]
    up, down = [], []
    with np.errstate(over="ignore", divide="ignore"):
        growth = np.exp(rates[0] * points)
        for _ in rates:
            up.append(float(np.dot(growth, weights)))
            down.append(float(np.dot(1.0 / growth, weights)))
            growth *= growth  # each rate is twice the last
    # Near the end of the doubles the inverse of a number is not accurate.
    return np.asarray([math.log(moment) if moment < 1e300 else math.inf for moment in up + down])


def _without_ends(weights: Floats, negligible: float) -> slice:
    """What is left when both ends are cut, each with less than the given share of the whole."""
    sums = np.cumsum(weights)
    back = np.cumsum(weights[::-1])
    least = negligible * sums[-1]
    return slice(int(np.searchsorted(sums, least)), len(weights) - int(np.searchsorted(back, least)))


def rates_between(least: float, most: float) -> Floats:
    """Rates for Chernoff's bound on sums of standard deviations between these, in grid steps: each twice the last."""
    # Rounding to the grid alone spreads a loss by up to half a step.
    best = math.sqrt(2.0 * SURE) / max(most, 0.5)
    return 0.5 * best * 2.0 ** np.arange(2 + min(24, math.ceil(math.log2(max(most, 0.5) / max(least, 0.5)))))


def _good_size(size: int) -> int:
    """The least 2^a·3^b not below `size`: transforms of such lengths are fast."""
    best = 1 << max(size - 1, 1).bit_length()
    three = 1
    while three < best:
        two = 1 << max(math.ceil(size / three) - 1, 0).bit_length()
        if size <= two * three < best:
            best = two * three
        three *= 3
    return best
