"""Noise as it is sent: bits have the law of the noise that they stand for, and say how many they are."""

from fractions import Fraction

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.noise import Binomial, DiscreteLaplace, Noise, Poisson, Polya, Skellam, SparseBits, secure

SENT_AS_BITS = [
    Binomial(1, 0.5),
    Binomial(9, Fraction(1, 3)),
    SparseBits(1),
    SparseBits(8),
    SparseBits(7, Fraction(1, 4)),
    SparseBits(3000, 0.01),
]


@pytest.mark.parametrize("noise", SENT_AS_BITS, ids=repr)
def test_what_is_seen_of_bits_has_the_law_of_the_noise(noise: Noise) -> None:
    bits, law, mean = noise.bits, {}, 0.0
    for chance, ones in noise.bits.seen():
        sent = len(ones) - 1
        assert chance < 1e-30 or bits.fewest <= sent <= bits.most
        mean += chance * sent
        for one, mass in enumerate(ones.tolist()):
            number = one + bits.zero * (sent - one)
            law[number] = law.get(number, 0.0) + chance * mass
    assert mean == pytest.approx(bits.mean, rel=1e-9)
    assert np.array(list(law.values())) == pytest.approx(noise.pmf(list(law)), abs=1e-12)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("noise", SENT_AS_BITS, ids=repr)
def test_bits_that_are_drawn_are_as_many_as_is_said(noise: Noise) -> None:
    zeros, ones = noise.bits.draw(500, secure())
    sent = zeros + ones
    assert zeros.min() >= 0 <= ones.min()
    assert noise.bits.fewest <= sent.min() <= sent.max() <= noise.bits.most


@pytest.mark.parametrize("noise", [Poisson(2), Polya(1, 0.5), Skellam(3), DiscreteLaplace(2)], ids=repr)
def test_other_noise_is_not_sent_as_bits(noise: Noise) -> None:
    with pytest.raises(InvalidParameter, match="sent as bits"):
        _ = noise.bits


@pytest.mark.parametrize("noise", [Binomial(4, 0.5), SparseBits(4), Skellam(3), DiscreteLaplace(2)], ids=repr)
def test_other_noise_is_not_counted_in_messages(noise: Noise) -> None:
    assert not noise.counted
    with pytest.raises(InvalidParameter, match="counted messages"):
        noise.spread(3, np.array([2]), secure())
