"""The bounds that policies decide by: right by another road, and never too narrow."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from croupier.bandits.chernoff import evidence, lower_bound, upper_bound
from croupier.comparisons.tails import TILTS, tails
from croupier.noise import DiscreteLaplace, Noise, Skellam, SparseBits, seeded


def kl(x: float, y: float) -> float:
    """Between coins of means x and y."""
    total = 0.0
    if x > 0:
        total += x * math.log(x / y)
    if x < 1:
        total += (1 - x) * math.log((1 - x) / (1 - y))
    return total


def rate(noise: Noise, count: int, s: float) -> float:
    """Cramér's rate function of the sum of `count` noises at s, by maximising over a fine grid."""
    limit = 0.9999 / float(noise.scale) if isinstance(noise, DiscreteLaplace) else 10.0
    slopes = np.linspace(-limit, limit, 2_001)
    return float(np.max(slopes * s - count * noise.cumulant(slopes)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "total", "count", "level"), [(100, 40.0, 3, 5.0), (1000, 700.0, 10, 8.0), (50, -4.0, 1, 3.0)]
)
def test_upper_bound_trades_reward_against_noise(users: int, total: float, count: int, level: float) -> None:
    noise = DiscreteLaplace(2)
    low_side = count * tails(noise, 1.0).low_side
    found = float(upper_bound(np.asarray(total), np.asarray(users), low_side, np.asarray(level)))

    def cost(mean: float) -> float:
        """inf over z of n kl(z, μ) + Λ(n z - total)."""
        return min(users * kl(z, mean) + rate(noise, count, total - users * z) for z in np.linspace(0.0, mean, 401))

    low, high = max(total / users, 1e-6), 1.0 - 1e-9
    for _ in range(14):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cost(middle) <= level else (low, middle)
    # A grid of tilts can only widen the bound, and by little.
    assert high - 2e-3 <= found <= high + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("noise", [DiscreteLaplace(2), Skellam(30), SparseBits(200, 0.3)])
@pytest.mark.parametrize("mean", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("trials", [50_000, pytest.param(200_000, marks=pytest.mark.evidence)])
def test_bounds_fail_no_more_often_than_they_say(noise: Noise, mean: float, trials: int) -> None:
    users, level = 60, math.log(100.0)
    source = seeded(3)
    totals = source.generator.binomial(users, mean, trials) + noise.sample(trials, source)
    low_side, high_side, _ = tails(noise, 1.0)
    counts = np.full(trials, users)
    upper = upper_bound(totals.astype(float), counts, low_side, np.full(trials, level))
    lower = lower_bound(totals.astype(float), counts, high_side, np.full(trials, level))
    # One per cent each; more has probability below 1e-15.
    allowed = binom.isf(1e-15, trials, 0.01)
    assert (upper < mean).sum() <= allowed
    assert (lower > mean).sum() <= allowed
    assert np.all(lower <= upper)


def test_without_noise_it_is_the_kl_bound() -> None:
    silent = np.zeros_like(TILTS)
    found = float(upper_bound(np.asarray(30.0), np.asarray(100), silent, np.asarray(6.0)))
    assert 100 * kl(0.3, found) == pytest.approx(6.0, rel=0.02)


def test_evidence_is_the_level_at_which_a_mean_leaves_the_interval() -> None:
    low_side = 4 * tails(DiscreteLaplace(1), 1.0).low_side
    total, users = np.asarray(40.0), np.asarray(100)
    bound = upper_bound(total, users, low_side, np.asarray(5.0))
    assert float(evidence(total, users, low_side, bound)) == pytest.approx(5.0, rel=1e-6)
    assert float(evidence(total, users, low_side, np.asarray(0.3))) == 0.0


def test_nothing_known_means_anything_is_possible() -> None:
    silent = np.zeros_like(TILTS)
    assert upper_bound(np.asarray(0.0), np.asarray(0), silent, np.asarray(1.0)) == 1.0
