"""Statistical checks as functions, so that they can be shown to pass on a sampler and to fail on a broken one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from cases.noise_laws import exact_floats, exact_tail, table
from croupier.noise import Noise, Source

ALARM = 1e-14
"""The false-alarm rate of one comparison. The suite makes fewer than 10,000 of them: less than 1e-10 in all."""


def chi_square(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """The p-value of counts against their expectations, which must all be large."""
    assert len(counts) == len(expected) > 1
    assert expected.min() >= 30.0
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def misfits(noise: Noise, draws: NDArray[np.int64]) -> list[str]:
    """What in the draws contradicts the exact law: bins over the range, both tails, neighbouring values."""
    size = draws.size
    found = []

    def compare(what: str, count: int, trials: int, share: float) -> None:
        if 0.0 < share < 1.0 and trials:
            p = stats.binomtest(count, trials, share).pvalue
            if p < ALARM:
                found.append(f"{what}: {count} of {trials}, expected a share of {share:.3g} (p = {p:.1g})")
        elif count != trials * share:
            found.append(f"{what}: {count} of {trials} where the law allows {share}")

    start, masses, _, _ = table(noise)
    law = exact_floats(noise, start, start + len(masses))
    cumulative = np.cumsum(law)
    # About forty bins of equal probability, fewer where single values weigh more.
    least = max(40.0 / size, 0.025)
    ends = [0]
    for i, reached in enumerate(cumulative):
        if reached - (cumulative[ends[-1] - 1] if ends[-1] else 0.0) >= least and 1.0 - reached >= least:
            ends.append(i + 1)
    if len(ends) > 1:
        expected = size * np.add.reduceat(law, ends)
        place = np.searchsorted(np.asarray(ends[1:]) + start, draws, side="right")
        p = chi_square(np.bincount(place, minlength=len(ends)), expected)
        if p < ALARM:
            found.append(f"chi-square of {len(ends)} bins of {size} draws: p = {p:.1g}")

    for share in (1e-3, 0.02):
        high = start + int(np.searchsorted(-np.cumsum(law[::-1])[::-1], -share))
        low = start + int(np.searchsorted(cumulative, share))
        compare(f"P(X > {high})", int((draws > high).sum()), size, float(exact_tail(noise, high)))
        compare(f"P(X <= {low})", int((draws <= low).sum()), size, float(cumulative[low - start]))

    top = int(np.argmax(law))
    for x in range(max(start, start + top - 4), min(start + len(law) - 1, start + top + 4)):
        here, there = int((draws == x).sum()), int((draws == x + 1).sum())
        a, b = law[x - start : x - start + 2]
        if a + b > 0.0:
            compare(f"{x} against {x + 1}", here, here + there, a / (a + b))
    return found


def share_misfits(total: Noise, users: int, source: Source, batches: int = 4000) -> list[str]:
    """What in the sums of `users` shares contradicts the law of the total."""
    sums = total.share(users).sample((batches, users), source).sum(axis=1)
    found = misfits(total, sums)
    # A sum of squares of n draws has standard deviation about sqrt(kurtosis/n), far below a tenth here.
    ratio = float(np.mean((sums - total.mean) ** 2)) / total.variance
    if abs(ratio - 1.0) > 0.5:
        found.append(f"the sums' variance is {ratio:.3g} of what it should be")
    return found
