"""Fourier tails, convolutions and searches against exact sums, and the bits that users send."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.noise_checks import ALARM, chi_square, misfits
from cases.noise_laws import exact_floats, exact_tail
from cases.noise_words import ONES, Script, Stream
from croupier.noise import Binomial, DiscreteLaplace, Noise, PolyaDifference, Skellam, SparseBits
from croupier.noise.tails import convolve, fourier_correlate, fourier_tail, least_tail_quantile


def skellam_tail(noise: Skellam, x: int) -> float:
    sigma2 = float(noise.sigma2)
    return fourier_tail(lambda theta: -2.0 * sigma2 * np.sin(theta / 2.0) ** 2, noise.std, 1.0, x)


def difference_tail(noise: PolyaDifference, x: int) -> float:
    return fourier_tail(noise._log_characteristic, noise.std, float(noise.scale), x)


@pytest.mark.parametrize(
    "noise",
    [
        Skellam(400),
        Skellam(1_000_000),
        PolyaDifference(16, 1),
        PolyaDifference(40, Fraction(5, 2)),
        PolyaDifference(300, 2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("reach", [0.0, 0.3, 1.0, 3.0, 6.0, 9.0])
def test_fourier_tails_are_upper_bounds_close_to_the_exact_tails(noise: Noise, reach: float) -> None:
    x = round(reach * noise.std)
    found = skellam_tail(noise, x) if isinstance(noise, Skellam) else difference_tail(noise, x)
    exact = float(exact_tail(noise, x))
    assert exact <= found <= exact + 4e-15


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_fourier_correlation_is_the_law_of_a_difference(weights: list[float]) -> None:
    law = (np.asarray(weights) + 0.01) / (np.asarray(weights) + 0.01).sum()
    found = fourier_correlate(law)
    assert found.shape == (2 * len(law) - 1,)
    assert np.abs(found - np.convolve(law, law[::-1])).max() < 1e-15
    assert found.min() >= 0.0


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    steps=st.lists(st.floats(0.05, 1.0), min_size=1, max_size=50),
    probability=st.floats(1e-6, 0.999),
    guess=st.integers(0, 200),
)
def test_the_search_finds_the_least_point(steps: list[float], probability: float, guess: int) -> None:
    tails = np.cumprod(steps)

    def tail(x: int) -> float:
        return float(tails[x]) if x < len(tails) else 0.0

    least = next(x for x in range(len(tails) + 1) if tail(x) <= probability)
    assert least_tail_quantile(tail, probability, guess) == least


def test_convolution_adds_starts_and_keeps_small_terms() -> None:
    with ctx.workprec(384):
        left = [arb(2) ** -200, 1 - arb(2) ** -200]
        right = [arb(1) / 3, arb(2) / 3]
        window = convolve(left, -4, right, 10, 1e-70, 0.0)
    assert window.start == 6
    assert window.pmf == pytest.approx([2.0**-200 / 3, 1 / 3, 2 / 3], rel=1e-15)
    assert (window.below, window.above) == (0.0, 0.0)


def test_convolution_counts_what_it_cuts() -> None:
    with ctx.workprec(384):
        window = convolve([arb("1e-9"), arb("0.5"), arb("1e-12")], 0, [arb(1)], 0, 1e-6, 1e-30)
    assert (window.start, window.stop) == (1, 2)
    assert window.below == pytest.approx(1e-9 + 1e-30, rel=1e-12)
    assert window.above == pytest.approx(1e-12 + 1e-30, rel=1e-12)
    assert window.error >= 1e-24


@pytest.mark.parametrize("noise", [PolyaDifference(64, 5), PolyaDifference(1000, 3)], ids=repr)
def test_wide_differences_have_tails_and_quantiles_without_a_table(noise: PolyaDifference) -> None:
    x = noise.tail_quantile(1e-9)
    assert exact_tail(noise, x) <= 1e-9 < exact_tail(noise, x - 1)
    assert noise.tail(x) == pytest.approx(float(exact_tail(noise, x)), rel=1e-5)
    reach = round(3 * noise.std)
    assert np.abs(noise.bulk(reach) - exact_floats(noise, -reach, reach + 1)).max() < 1e-14


@pytest.mark.parametrize(
    "noise", [PolyaDifference(16, 1), PolyaDifference(300, 2), PolyaDifference(1000, Fraction(1, 9))]
)
@pytest.mark.parametrize("probability", [1e-9, 2.0**-41, 1e-40])
def test_far_tails_of_differences_are_told_to_nine_digits(noise: PolyaDifference, probability: float) -> None:
    x = noise.tail_quantile(probability)
    exact = float(exact_tail(noise, x))
    assert exact <= probability < exact_tail(noise, x - 1)
    assert exact <= noise.tail(x) <= exact * (1.0 + 1e-9)


@pytest.mark.parametrize("slots", [1, 63, 64, 65, 200])
def test_bits_are_read_from_the_front_of_each_word(slots: int) -> None:
    noise = SparseBits(slots)
    words = -(-slots // 64)
    for pattern, expected in ((0, 0), (ONES, slots)):
        zeros, ones = noise.bits.draw(2, Script([pattern] * (2 * words)))
        assert ones.tolist() == [expected, expected]
        assert zeros.tolist() == [slots - expected] * 2
    # Bits past the last slot are not read: the last word's unread end may hold anything.
    rest = 64 * words - slots
    script = [*[ONES] * (words - 1), ONES ^ ((1 << rest) - 1)]
    assert noise.bits.draw(1, Script(script))[1].tolist() == [slots]
    script = [*[0] * (words - 1), (1 << rest) - 1]
    assert noise.bits.draw(1, Script(script))[1].tolist() == [0]


@pytest.mark.parametrize("slots", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("rate", [1, 0.3])
def test_tallies_follow_the_law_of_bits(slots: int, rate: float) -> None:
    noise = SparseBits(slots, rate)
    zeros, ones = noise.bits.draw(20_000, Stream(41))
    sent = zeros + ones
    assert min(zeros.min(), ones.min()) >= 0
    assert sent.max() <= slots
    if rate == 1:
        assert (sent == slots).all()
        assert noise.sent() is None
        assert not misfits(Binomial(slots, 0.5), ones)
    else:
        assert noise.sent() == Binomial(slots, rate)
        assert not misfits(Binomial(slots, rate), sent)
    # Ones, zeros and bits sent: each has its own exact law.
    assert not misfits(noise, ones - zeros)
    assert not misfits(Binomial(slots, Fraction(rate) / 2), ones)
    assert not misfits(Binomial(slots, Fraction(rate) / 2), zeros)


def test_the_number_of_bits_sent_says_nothing_of_their_values() -> None:
    """Jointly: m sent, k of them ones, with probability C(5,m) q^m (1-q)^{5-m} C(m,k) 2^{-m}."""
    noise, size = SparseBits(5, 0.5), 40_000
    zeros, ones = noise.bits.draw(size, Stream(42))
    counts, expected = [], []
    for sent in range(6):
        weight = exact_floats(Binomial(5, 0.5), sent, sent + 1)[0]
        law = exact_floats(Binomial(sent, 0.5), 0, sent + 1) if sent else np.ones(1)
        counts += [int(((zeros + ones == sent) & (ones == k)).sum()) for k in range(sent + 1)]
        expected += list(size * weight * law)
    assert sum(counts) == size
    assert chi_square(np.asarray(counts), np.asarray(expected)) > ALARM


def test_no_users_send_no_bits() -> None:
    zeros, ones = SparseBits(70, 0.5).bits.draw(0, Script([]))
    assert zeros.shape == ones.shape == (0,)


def test_laplace_is_a_difference_with_one_part() -> None:
    x = np.arange(-60, 61)
    assert PolyaDifference(1, 3).pmf(x) == pytest.approx(DiscreteLaplace(3).pmf(x), rel=1e-12)
    assert PolyaDifference(1, 3).tail(20) == pytest.approx(DiscreteLaplace(3).tail(20), rel=1e-12)
