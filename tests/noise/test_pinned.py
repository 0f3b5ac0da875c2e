"""Numbers that a slip would change without breaking a law: scales, variances and substitutes at the edges."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import betabinom, binom, chisquare, norm

from cases.noise_laws import BITS, exact_pmf
from cases.noise_words import Script, Stream
from croupier.checks import InvalidParameter
from croupier.noise import (
    Binomial,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    PolyaDifference,
    Skellam,
    SparseBits,
    Table,
    seeded,
)
from croupier.noise.binomial import WIDEST
from croupier.noise.bounded import BoundedLaplace
from croupier.noise.chances import chance, urn
from croupier.noise.likelihoods import directed_pair
from croupier.privacy import calibrate, privacy_loss


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 2.0])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_bounded_laplace_has_the_scale_of_pure_privacy(epsilon: float, sensitivity: int) -> None:
    noise = calibrate(BoundedLaplace, epsilon=epsilon, delta=1e-4, sensitivity=sensitivity)
    assert float(noise.scale) == pytest.approx(sensitivity / epsilon, rel=1e-6)
    assert float(noise.scale) > sensitivity / epsilon


@pytest.mark.parametrize("scale", [10**101, 10**120, 10**150])
def test_the_variance_of_enormous_laplace_noise_is_twice_the_square(scale: int) -> None:
    assert DiscreteLaplace(scale).variance == pytest.approx(2.0 * float(scale) ** 2, rel=1e-12)
    assert DiscreteLaplace(10**200).variance == math.inf


@pytest.mark.parametrize("scale", [10**6, 10**7, 10**9])
@pytest.mark.parametrize("reach", [0, 3, 40])
def test_the_tail_of_wide_laplace_noise_is_its_closed_form_rounded_up(scale: int, reach: int) -> None:
    """P(X > x) = e^{-(x+1)/b}/(1 + e^{-1/b}), in balls."""
    exact = (arb(-(reach * scale + 1)) / scale).exp() / (1 + (arb(-1) / scale).exp())
    bound = DiscreteLaplace(scale).tail(reach * scale)
    assert exact <= arb(bound) <= exact * (1 + arb(1) / 10**9)


def test_the_pair_of_bits_too_wide_to_tabulate_is_that_of_fewer_bits() -> None:
    wide = Binomial(math.ceil(4 * WIDEST**2 * 1.21), 0.5)
    assert wide.std > WIDEST
    assert wide.pair(1).substitute
    narrow = wide.narrower(WIDEST)
    assert narrow.std <= WIDEST
    assert narrow.std == pytest.approx(WIDEST, rel=1e-6)
    assert not narrow.pair(1).substitute
    assert privacy_loss(wide).delta(1e-4) <= privacy_loss(narrow).delta(1e-4)


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(1)])
def test_sure_coins_are_sure(probability: Fraction) -> None:
    assert (chance(probability, 1000, seeded(1)) == (probability == 1)).all()


def test_coins_of_whole_eighths_take_a_byte_each_and_others_a_word() -> None:
    class Counting:
        def __init__(self) -> None:
            self.drawn, self.source = 0, seeded(1)

        def words(self, count: int) -> object:
            self.drawn += count
            return self.source.words(count)

    byte, word = Counting(), Counting()
    chance(Fraction(3, 8), 800, byte)  # type: ignore[arg-type]
    chance(Fraction(1, 3), 800, word)  # type: ignore[arg-type]
    assert byte.drawn == 100
    assert word.drawn >= 800


def test_a_table_grows_no_longer_than_the_longest() -> None:
    """Each further party adds as many values as one has: 16 of 4096 values are the most that 65,536 hold."""
    uniform = Table.proportional([1] * 4096)
    assert len(uniform.times(2).probabilities) == 8191
    with pytest.raises(InvalidParameter, match=r"^users = 17 .* in \[1, 16\]"):
        uniform.times(17)


def test_the_difference_of_very_many_parts_has_a_gaussian_tail() -> None:
    """A table of one part alone would have some 10^10 values: nothing is summed over it."""
    noise = PolyaDifference(10**13, 100)
    for deviations in (0, 1, 3):
        assert noise.tail(round(deviations * noise.std)) == pytest.approx(norm.sf(deviations), rel=1e-6)


@pytest.mark.parametrize("noise", [Skellam(Fraction(1, 3)), Skellam(4)], ids=repr)
@pytest.mark.parametrize("floor", [1e-8, 1e-9, 1e-10, 1e-11, 1e-13])
def test_beyond_a_table_of_skellam_noise_lies_the_series_of_its_next_ratio(noise: Skellam, floor: float) -> None:
    window = noise.window(floor)
    with ctx.workprec(BITS):
        last, following = (exact_pmf(noise, window.stop + i) for i in (-1, 0))
        series = following / (1 - following / last)
        assert series <= arb(window.above) <= series * (1 + arb(1) / 10**5)


@pytest.mark.parametrize(("slots", "rate", "shift"), [(10, 0.3, 2), (10, 0.3, 6), (40, 0.5, 4)])
def test_flipped_bits_are_impossible_where_too_few_ones_were_sent(slots: int, rate: float, shift: int) -> None:
    """Of m bits, sent with a binomial probability, fewer than shift/2 are ones: nobody can have flipped as many."""
    pair = directed_pair(SparseBits(slots, rate), shift)
    exact = sum(binom.pmf(m, slots, rate) * binom.cdf(shift // 2 - 1, m, 0.5) for m in range(slots + 1))
    assert pair.impossible == pytest.approx(exact, rel=1e-9)
    assert pair.cut < 1e-20
    assert pair.masses.sum() == pytest.approx(1.0 - exact, rel=1e-9)


def test_a_sum_of_many_gaussians_is_drawn_a_few_million_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts of all draws at once would be a thousand million numbers in memory."""
    asked = []

    def nothing(_: object, count: int, __: object) -> np.ndarray:
        asked.append(count)
        return np.zeros(count, dtype=np.int64)

    monkeypatch.setattr(DiscreteGaussian, "_draw", nothing)
    assert DiscreteGaussianSum(1, 10_000).sample(4_000, Stream(1)).shape == (4_000,)
    assert sum(asked) == 10_000 * 4_000
    assert max(asked) <= 2**22


@pytest.mark.parametrize("start", [-3, -2, -1, 0])
def test_a_table_is_symmetric_about_zero_alone(start: int) -> None:
    even, odd = (Table.proportional(weights, start=start) for weights in ([1, 2, 2, 1], [1, 2, 3, 2, 1]))
    for noise in (even, odd):
        low, high = noise.support
        assert noise.balanced
        assert noise.symmetric == (low == -high)
    assert not Table.proportional([1, 2, 2], start=-1).symmetric


def test_noise_of_one_party_is_its_own_one_share() -> None:
    noise = Table.proportional([1, 2, 1], start=-1)
    assert noise.share(1) == noise
    with pytest.raises(InvalidParameter, match="^users = 2 .* 1: Table noise is drawn by one party"):
        noise.share(2)


@pytest.mark.parametrize("strength", [Fraction(1, 2), Fraction(3), Fraction(7, 3)])
def test_labels_from_an_urn_have_the_law_of_polya(strength: Fraction) -> None:
    """Of four messages with two labels, the number with the first one is beta-binomial; exactly, in 40,000 urns."""
    urns, length = 40_000, 4
    drawn = urn(2, np.full(urns, length), strength, Stream(3)).reshape(urns, length)
    seen = np.bincount(drawn.sum(axis=1), minlength=length + 1)
    half = float(strength) / 2
    law = betabinom(length, half, half).pmf(np.arange(length + 1))
    # A right urn passes this once in 10^9.
    assert chisquare(seen, urns * law).pvalue > 1e-9
    assert chisquare(seen, urns * binom(length, 0.5).pmf(np.arange(length + 1))).pvalue < 1e-9


@pytest.mark.parametrize(("further", "second"), [(0, 1), (2**63, 0)])
def test_a_word_on_the_boundary_of_an_urn_is_decided_by_a_further_one(further: int, second: int) -> None:
    """R = ½: the second message keeps its own label with probability ⅓: so many of 2^64 words, and ⅓ of one more."""
    own, coins = [2, 3], [0, 2**64 // 3]
    assert urn(2, np.asarray([2]), Fraction(1, 2), Script([*own, *coins, further, 0])).tolist() == [0, second]
