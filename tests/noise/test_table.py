"""A noise from a list of probabilities: taken exactly, refused when it is none, drawn word by word as it says."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from cases.noise_words import ONES, Script
from croupier.checks import InvalidParameter
from croupier.noise import Table
from croupier.noise.inversion import BULK
from croupier.noise.serial import noise_from_dict, noise_to_dict

SEVENTHS = Table([Fraction(1, 7), Fraction(4, 7), 0, Fraction(2, 7)], start=-1)
ORDER = (0, 2, -1)
"""Its values, likely ones first."""


@pytest.mark.parametrize(
    ("build", "name", "allowed"),
    [
        (lambda: Table([]), "probabilities", "1 to"),
        (lambda: Table([0.5, 0.6]), "probabilities", "exactly 1"),
        (lambda: Table([1 / 3] * 3), "probabilities", "Table.proportional"),
        (lambda: Table([Fraction(3, 2), Fraction(-1, 2)]), "probabilities", ">= 0"),
        (lambda: Table([1, float("nan")]), "probabilities", "finite"),
        (lambda: Table(["1"]), "probabilities", "finite"),
        (lambda: Table([1], start=0.5), "start", "whole"),
        (lambda: Table([Fraction(1, p) for p in (2**1601, 3)]), "probabilities", "common denominator"),
        (lambda: Table.proportional([0, 0]), "weights", "above 0"),
        (lambda: Table.proportional([1, -1]), "weights", ">= 0"),
        (lambda: Table.proportional([1] * (2**16 + 1)), "weights", "65536"),
        (lambda: SEVENTHS.share(2), "users", "one party"),
        (lambda: SEVENTHS.times(10**6), "users", "whole number in"),
    ],
)
def test_what_is_no_law_is_refused_by_name(build, name, allowed) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        build()
    assert refusal.value.name == name
    assert allowed in refusal.value.allowed


def test_equal_laws_are_equal_values() -> None:
    assert Table([0, 0.5, 0.5, 0]) == Table([Fraction(1, 2), Fraction(1, 2)], start=1) == Table.proportional([7, 7], 1)
    assert Table.proportional([0.1] * 10) == Table([Fraction(1, 10)] * 10)


@pytest.mark.parametrize("written", [[0.1, 0.8, 0.1], [0.2] * 5, [0.4, 0.6], [0.1, Fraction(9, 10)]])
def test_doubles_are_the_decimals_that_they_are_written_with_where_those_add_up_to_one(written) -> None:
    decimals = [Fraction(str(number)) for number in written]
    assert Table(written).probabilities == tuple(decimals)
    assert Table(iter(np.asarray(written, dtype=object))) == Table(decimals)


def test_doubles_whose_decimals_do_not_add_up_to_one_are_what_they_are() -> None:
    dyadic = [2.0**-53, 1.0 - 2.0**-53]
    assert sum(Fraction(str(number)) for number in dyadic) != 1
    assert Table(dyadic).probabilities == tuple(map(Fraction, dyadic))


def test_a_point_is_a_law() -> None:
    point = Table([1], start=5)
    assert (point.mean, point.variance, point.support) == (5.0, 0.0, (5, 5))
    assert point.sample(3, Script([0, 77, ONES - 5])).tolist() == [5, 5, 5]


@pytest.mark.parametrize("bulk", [False, True])
def test_words_mean_what_the_probabilities_say(bulk: bool) -> None:
    ends = accumulate(Fraction(SEVENTHS.probabilities[x + 1]) for x in ORDER)
    words, values = [], []
    for (x, end), start in zip(zip(ORDER, ends, strict=True), (0, Fraction(4, 7), Fraction(6, 7)), strict=True):
        words += [int(start * 2**64) + 1, int((start + end) / 2 * 2**64), int(end * 2**64) - 3]
        values += [x] * 3
    many = BULK if bulk else 1
    assert SEVENTHS.sample(9 * many, Script(words * many)).tolist() == values * many


def test_a_word_on_a_boundary_takes_more_bits() -> None:
    edge = int(Fraction(4, 7) * 2**64)
    assert SEVENTHS.sample(1, Script([edge, 0])).tolist() == [0]
    assert SEVENTHS.sample(1, Script([edge, ONES])).tolist() == [2]


def test_a_sum_is_the_exact_convolution() -> None:
    fair = Table([0.5, 0.5])
    total = fair.times(12)
    assert total == Table.proportional(_row(12))
    assert fair.times(1) == fair
    assert SEVENTHS.times(3).mean == pytest.approx(3 * SEVENTHS.mean)
    assert np.array_equal(total.pmf(np.arange(13)), np.asarray(_row(12)) / 2**12)


def _row(n: int) -> list[int]:
    row = [1]
    for _ in range(n):
        row = [a + b for a, b in zip([0, *row], [*row, 0], strict=True)]
    return row


def test_only_a_law_of_several_peaks_needs_every_shift() -> None:
    assert Table.proportional([1, 2, 2, 5, 3, 3]).decisive_shifts(3) == (3,)
    assert Table.proportional([1, 0, 1]).decisive_shifts(2) == (1, 2)
    assert Table.proportional([1, 0, 1]).decisive_shifts(1000) == (1, 2, 3)


def test_a_stored_table_is_small_exact_and_cannot_be_monstrous() -> None:
    assert noise_to_dict(SEVENTHS)["probabilities"] == ["1/7", "4/7", "0", "2/7"]
    doubles = Table.proportional(np.random.default_rng(3).random(50).tolist(), start=-25)
    assert noise_from_dict(noise_to_dict(doubles)) == doubles
    for probabilities in (["1e999999999"], [["1"]], "1", [None], ["1/2", "1/3"]):
        with pytest.raises(InvalidParameter):
            noise_from_dict({"family": "Table", "probabilities": probabilities})


def test_a_long_table_is_shown_in_part() -> None:
    shown = repr(Table.proportional(range(1, 101)))
    assert len(shown) < 160
    assert "..." in shown
