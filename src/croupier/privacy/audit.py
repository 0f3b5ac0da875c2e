"""An empirical lower bound on ε from samples of what is really released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """ε is at least `epsilon`, at the given δ, except with probability `failure`."""

    epsilon: float
    delta: float
    failure: float
    trials: int


def epsilon_lower_bound(
    first: NDArray[np.int64], second: NDArray[np.int64], *, delta: float, failure: float = 1e-6
) -> Finding:
    """Bound ε from below by views sampled under two neighbouring inputs.

    One half of the samples chooses an event, any set of outcomes, that tells the inputs apart; the other half counts
    it, with Clopper-Pearson limits [CP34]: ε >= log((p - δ)/q). A correct mechanism exceeds its claim with probability
    at most `failure`.

    >>> same = np.arange(1000) % 10
    >>> epsilon_lower_bound(same, same, delta=0.0).epsilon
    0.0
    """
    delta, failure = float(between("delta", delta, 0, 1, "[)")), float(between("failure", failure, 0, 1))
    if len(first) != len(second) or len(first) < 4:
        raise InvalidParameter("trials", len(first), "the same for both inputs, and at least 4")
    half = len(first) // 2
    values, codes = np.unique(np.concatenate((first, second)), return_inverse=True)
    codes_first, codes_second = codes[: len(first)], codes[len(first) :]
    size = len(values)
    chosen_on = [np.bincount(c[:half], minlength=size) for c in (codes_first, codes_second)]
    counted_on = [np.bincount(c[half:], minlength=size) for c in (codes_first, codes_second)]
    best = 0.0
    # Either input may be the more likely one; each direction gets half of the failure probability.
    for p, q in ((0, 1), (1, 0)):
        event = _best_event(chosen_on[p], chosen_on[q], half, delta, failure / 2)
        hits, misses = int(counted_on[p][event].sum()), int(counted_on[q][event].sum())
        bound = _bound(np.asarray([hits]), np.asarray([misses]), len(first) - half, delta, failure / 2)
        best = max(best, float(bound[0]))
    return Finding(best, delta, failure, len(first))


def _best_event(
    p: NDArray[np.int64], q: NDArray[np.int64], trials: int, delta: float, failure: float
) -> NDArray[np.int64]:
    """The set of outcomes that promises most: a lower tail, an upper tail, or the outcomes of largest ratio."""
    size = len(p)
    rising = np.arange(size)
    likely = np.argsort(-(p + 0.5) / (q + 0.5), kind="stable")
    best, event = -1.0, rising
    for order in (rising, rising[::-1], likely):
        bounds = _bound(np.cumsum(p[order]), np.cumsum(q[order]), trials, delta, failure)
        top = int(np.argmax(bounds))
        if bounds[top] > best:
            best, event = float(bounds[top]), order[: top + 1]
    return event


def _bound(hits: NDArray[np.int64], misses: NDArray[np.int64], trials: int, delta: float, failure: float) -> Floats:
    """log((p - δ)/q) at the Clopper-Pearson lower limit of p and upper limit of q, or zero."""
    from scipy.special import betaincinv

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, failure / 2), 0.0)
    full = misses >= trials
    high = np.where(full, 1.0, betaincinv(misses + 1, np.maximum(trials - misses, 1), 1.0 - failure / 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(low > delta, np.log((low - delta) / high), 0.0)
    return np.asarray(np.maximum(np.nan_to_num(bound, nan=0.0, neginf=0.0), 0.0))
