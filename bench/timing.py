"""Whether the time of one draw tells its size: rank correlation of time and |value| over many draws."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
from scipy import stats

from bench.measure import heading, line
from croupier.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
    secure,
)

DRAWS = 20_000
ALARM = 1e-6
"""Without any dependence a correlation passes the limit with this probability."""


def correlation(noise: Noise) -> float:
    """Spearman's, between the time of a draw and how far it fell from the mean, after the table is made."""
    noise.sample(1, secure())
    times, values = np.zeros(DRAWS), np.zeros(DRAWS)
    for i in range(DRAWS):
        start = time.perf_counter_ns()
        drawn = noise.sample(1, secure())
        times[i], values[i] = time.perf_counter_ns() - start, abs(float(drawn[0]) - noise.mean)
    return float(stats.spearmanr(times, values)[0])


def main() -> None:
    """Print the lines."""
    limit = float(stats.norm.isf(ALARM / 2)) / math.sqrt(DRAWS - 1)
    heading(f"Time of a draw against its size: correlation over {DRAWS:,} draws (beyond ±{limit:.3f} it tells)")
    for noise in (DiscreteLaplace(20), DiscreteLaplace(10**6), PolyaDifference(0.01, 20), PolyaDifference(0.01, 10**6),
                  PolyaDifference(Fraction(1, 3), 10**6), PolyaDifference(Fraction(1, 3), 10**12),
                  Polya(0.01, scale=10**6), Poisson(50), Poisson(10**12), Skellam(400), Skellam(2 * 10**12),
                  DiscreteGaussian(100), DiscreteGaussian(10**12), DiscreteGaussian(10**19),
                  SparseBits(1, 0.25)):  # fmt: skip
        found = correlation(noise)
        line(repr(noise), f"{found:+.4f}", "tells" if abs(found) > limit else "tells nothing")
