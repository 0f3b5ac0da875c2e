"""Numbers that a slip would change without breaking a law: scales, variances and substitutes at the edges."""

import math
from fractions import Fraction

import pytest
from flint import arb

from croupier.checks import InvalidParameter
from croupier.noise import Binomial, DiscreteLaplace, Table, seeded
from croupier.noise.binomial import WIDEST
from croupier.noise.bounded import BoundedLaplace
from croupier.noise.chances import chance
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
