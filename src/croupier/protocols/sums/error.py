"""How far noise and rounding together can move a sum."""

from __future__ import annotations

import math

import numpy as np

from croupier.noise import Noise
from croupier.search import bracket

WIDEST = 20_000.0
"""Standard deviations beyond this are not worth the sum."""


def deviation_with_rounding(noise: Noise, rounding: int, failure: float) -> float:
    """The least d with P(|X - mean + R| > d) <= failure, in the noise's own steps.

    R is the sum of independent centred variables whose squared ranges add up to `rounding`: Hoeffding gives
    P(R > u) <= e^{-2u²/rounding}. For symmetric noise of moderate width that bound is averaged over the exact law of
    X; otherwise the failure probability is split between the two.
    """
    if rounding == 0:
        return noise.deviation(failure)
    if not noise.symmetric or noise.std > WIDEST or failure < 1e-6:
        return min(
            noise.deviation(part * failure) + math.sqrt(rounding * math.log(2.0 / ((1.0 - part) * failure)) / 2.0)
            for part in (0.5, 0.8, 0.9, 0.97, 0.99)
        )
    reach = max(noise.tail_quantile(failure * 1e-3), 1)
    x = np.arange(-reach, reach + 1, dtype=float)
    pmf = noise.bulk(reach)
    # What lies beyond the reach counts as failed, and so does the error of each point.
    spare = failure / 2.0 - failure * 1e-3 - 1e-14 * len(pmf)

    def within(d: float) -> bool:
        gap = np.maximum(d - x, 0.0)
        return float(np.dot(pmf, np.exp(-2.0 * gap * gap / rounding))) <= spare

    most = noise.deviation(failure / 2.0) + math.sqrt(rounding * math.log(4.0 / failure) / 2.0) + 1.0
    _, enough = bracket(within, 0.0, most, relative=1e-4)
    return enough
