"""Laws too wide for a table: drawn digit by digit, or refused in one line before anything is computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from cases.noise_checks import ALARM, chi_square
from cases.noise_words import Stream
from croupier.noise import (
    Binomial,
    BoundedLaplace,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
    secure,
    seeded,
)
from croupier.noise.inversion import Inverter
from croupier.noise.laplace import DIGITS
from croupier.noise.window import TooWide

HUGE: tuple[Noise, ...] = (
    Binomial(10**40, 0.5),
    SparseBits(10**40, 0.5),
    DiscreteLaplace(1e300),
    BoundedLaplace(1e300, 10**300),
    Polya(1, scale=1e300),
    PolyaDifference(0.5, 1e300),
    Poisson(1e300),
    Skellam(1e40),
    DiscreteGaussian(1e300),
    DiscreteGaussianSum(1e300, 3),
)


@pytest.mark.parametrize("scale", [DIGITS + 1, 1000, Fraction(10**7, 3), 2.0**50], ids=str)
def test_noise_drawn_by_digits_has_its_law(scale: float | Fraction) -> None:
    noise, b = DiscreteLaplace(scale), float(scale)
    draws = noise.sample(40_000, Stream(5))
    # Forty bins of the closed form; then parity, which a lost digit would show. Each at a false-alarm rate of 1e-14.
    edges = np.unique(
        np.round(b * np.concatenate((np.log(np.arange(1, 20) / 20.0), -np.log(np.arange(20, 0, -1) / 20))))
    )
    below = np.where(edges < 0, np.exp((edges + 1) / b) / (1 + np.exp(-1 / b)) * np.exp(-1 / b), 0.0)
    below = np.where(edges >= 0, 1 - np.exp(-(edges + 1) / b) / (1 + np.exp(-1 / b)), below)
    expected = len(draws) * np.diff(np.concatenate(([0.0], below, [1.0])))
    seen = np.histogram(np.searchsorted(edges, draws, side="left"), np.arange(len(edges) + 2))[0]
    assert chi_square(seen, expected) > ALARM
    even = float(1 / (1 + np.exp(-1 / b))) ** 2 + float(1 / (1 + np.exp(1 / b))) ** 2
    assert stats.binomtest(int((draws % 2 == 0).sum()), len(draws), even).pvalue > ALARM


@pytest.mark.parametrize("noise", HUGE, ids=repr)
@pytest.mark.parametrize("source", [secure(), seeded(1)], ids=repr)
def test_what_does_not_fit_is_refused_at_once(noise: Noise, source) -> None:
    start = time.monotonic()
    with pytest.raises(TooWide, match="too wide"):
        noise.sample(1, source)
    assert time.monotonic() - start < 5.0


@pytest.mark.parametrize("r", [Fraction(1, 2), Fraction(3, 2)])
@pytest.mark.parametrize("scale", [6 * 10**15, 10**16, 3 * 10**16])
def test_a_decay_that_doubles_take_for_none_is_sampled(r: Fraction, scale: int) -> None:
    """β = e^{-1/scale} is 1 as a double; the draws then follow Gamma(r, scale)."""
    draws = Polya(r, scale=Fraction(scale)).sample(200, Stream(1))
    assert stats.kstest(draws / scale, stats.gamma(float(r)).cdf).pvalue > ALARM


@pytest.mark.parametrize(
    "look",
    [
        lambda: DiscreteGaussian(1e18).pmf(0),
        lambda: Skellam(1e18).pmf(0),
        lambda: Poisson(1e18).quantile(0.1),
        lambda: PolyaDifference(0.5, 1e9).pmf(0),
        lambda: DiscreteLaplace(1e9).pmf(0),
    ],
)
def test_no_table_is_begun_that_cannot_be_finished(look: Callable[[], object]) -> None:
    with pytest.raises(TooWide, match="too wide"):
        look()


def test_the_tail_of_wide_laplace_noise_is_its_closed_form() -> None:
    wide = DiscreteLaplace(10**7)
    assert wide.tail(10**8) == pytest.approx(np.exp(-10.0) / 2, rel=1e-6)
    assert wide.tail([0, 10**8])[1] == wide.tail(10**8)
    assert wide.tail(wide.tail_quantile(0.01)) <= 0.01 * (1 + 1e-11)


def test_a_table_is_finished_before_its_first_draw() -> None:
    likely = Inverter(DiscreteLaplace(20))
    likely.sample(1, Stream(0))
    assert likely._complete
    assert len(likely._values) > 20 * 40
