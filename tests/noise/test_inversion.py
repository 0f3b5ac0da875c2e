"""The exact sampler word by word: what each word means is computed here from the closed forms."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import count, islice, pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from cases.noise_laws import BITS, exact_pmf
from cases.noise_words import ONES, Script, Stream
from cases.noises import THIRD
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
    inversion,
)
from croupier.noise.inversion import BULK, Inverter
from croupier.noise.ratio import RatioNoise

WORD = 2**64
MIDDLE = WORD // 3
"""A word that no boundary in these tests begins with."""

TABLED: tuple[RatioNoise, ...] = (
    Binomial(1, 0.5),
    Binomial(12, THIRD),
    Binomial(200, 0.5),
    DiscreteLaplace(0.5),
    DiscreteLaplace(20),
    Polya(Fraction(1, 1000), scale=20),
    Polya(THIRD, beta=0.75),
    Polya(7, scale=3),
    Poisson(0.01),
    Poisson(4),
    Poisson(300.5),
    DiscreteGaussian(0.3),
    DiscreteGaussian(100),
    BoundedLaplace(2, 9),
)
COMPOSED: tuple[tuple[Noise, int], ...] = (
    (Skellam(0.5), 2),
    (Skellam(400), 2),
    (PolyaDifference(Fraction(1, 100), 20), 2),
    (PolyaDifference(3, 2), 2),
    (DiscreteGaussianSum(1, 7), 7),
    (SparseBits(1), 1),
    (SparseBits(64), 1),
    (SparseBits(65), 2),
    (SparseBits(200, 0.4), 5),
)
"""Noises that add up draws, and how many words one draw takes at most."""

every_table = pytest.mark.parametrize("noise", TABLED, ids=repr)


def outward(noise: RatioNoise) -> Iterator[int]:
    """The mode, then one above, one below, two above, ... within the support."""
    low, high = noise.support
    yield noise.mode
    for step in count(1):
        above, below = noise.mode + step, noise.mode - step
        inside = [high is None or above <= high, low is None or below >= low]
        yield from (x for x, held in zip((above, below), inside, strict=True) if held)
        if not any(inside):
            return


def boundaries(noise: RatioNoise) -> Iterator[tuple[int, arb]]:
    """Each value with the cumulative probability up to and with it, in that order."""
    total = arb(0)
    for value in outward(noise):
        with ctx.workprec(BITS):
            total = total + exact_pmf(noise, value)
        yield value, total


def digits(boundary: arb, words: int) -> list[int]:
    """The first words of a boundary's binary expansion; those of one are all ones."""
    if not boundary < 1:
        return [ONES] * words
    with ctx.workprec(BITS):
        whole = int((boundary * arb(2) ** (64 * words)).floor().unique_fmpz())
    return [(whole >> (64 * (words - 1 - i))) % WORD for i in range(words)]


def value_of(noise: RatioNoise, *words: int) -> int:
    """The value of a uniform number that begins with these words."""
    with ctx.workprec(BITS):
        uniform = sum((arb(word) / arb(2) ** (64 * (i + 1)) for i, word in enumerate(words)), arb(0))
    return next(value for value, end in boundaries(noise) if end > uniform)


def draw(noise: Noise, *words: int) -> tuple[int, int]:
    """One draw from a script, and how many words it took."""
    script = Script(words)
    return int(noise.sample(1, script)[0]), script.used


@every_table
def test_the_mode_is_a_most_likely_value(noise: RatioNoise) -> None:
    neighbours = [exact_pmf(noise, noise.mode + step) for step in (-1, 1)]
    assert all(not (mass > exact_pmf(noise, noise.mode)) for mass in neighbours)


@every_table
def test_a_word_beside_a_boundary_falls_on_its_side(noise: RatioNoise) -> None:
    values = list(islice(boundaries(noise), 40))
    for (value, end), (following, _) in pairwise(values):
        word = digits(end, 2)[0]
        if word > ONES - 2:
            break
        # One word suffices unless the boundary lies within 2^-44 of a word's edge, as 1/2 does.
        assert draw(noise, word - 1, MIDDLE)[0] == value
        assert draw(noise, word + 1, MIDDLE)[0] == following == value_of(noise, word + 1)


@every_table
def test_a_word_that_names_a_boundary_takes_more_bits(noise: RatioNoise) -> None:
    if noise == Binomial(1, 0.5):
        return  # its boundary has no further digits; it is tested by name below
    values = list(islice(boundaries(noise), 12))
    for (value, end), (following, _) in pairwise(values):
        first, second, third = digits(end, 3)
        if first >= ONES - 1:
            break
        assert draw(noise, first, second - 1) == (value, 2)
        assert draw(noise, first, second + 1) == (following, 2)
        assert draw(noise, first, 0)[0] == value
        assert draw(noise, first, ONES)[0] == following
        # The second word on the boundary too: a third is drawn, at a precision to match.
        assert draw(noise, first, second, third - 1) == (value, 3)
        assert draw(noise, first, second, third + 1) == (following, 3)


@every_table
def test_any_word_means_what_the_closed_form_says(noise: RatioNoise) -> None:
    words = [0, 1, 2**63 + 1, *Stream(1).words(60).tolist()]
    assert [draw(noise, word, MIDDLE)[0] for word in words] == [value_of(noise, word, MIDDLE) for word in words]


@every_table
@pytest.mark.parametrize("more", [0, MIDDLE, ONES - 1])
def test_the_last_word_reaches_far_into_the_tail(noise: RatioNoise, more: int) -> None:
    found, used = draw(noise, ONES, more, MIDDLE)
    assert used >= 2
    assert found == value_of(noise, ONES, more, MIDDLE)


def test_a_fair_bit_splits_words_in_halves() -> None:
    bit = Binomial(1, 0.5)
    first, second = outward(bit)
    assert draw(bit, 0) == (first, 1)
    assert draw(bit, 2**63 - 2) == (first, 1)
    assert draw(bit, 2**63 - 1, MIDDLE)[0] == first
    assert draw(bit, 2**63 + 1) == (second, 1)
    # The boundary is 2^63 exactly, so its word and whatever follows belongs to the second value.
    assert draw(bit, 2**63, MIDDLE) == (second, 2)
    assert draw(bit, 2**63, 0, 0, 1) == (second, 4)
    assert draw(bit, ONES, ONES, MIDDLE)[0] == second


@pytest.mark.parametrize("word", [2**63, 2**63 + 1, 2**63 + 2**48 - 1, 2**48, ONES - 2**48 + 1])
def test_a_boundary_at_the_edge_of_a_guide_cell_is_resolved(word: int) -> None:
    """A coin whose boundary lies in the middle of a word of our choice: half of what follows it falls either way."""
    share = Fraction(2 * word + 1, 2 * WORD)
    coin = Binomial(1, share)
    first, second = outward(coin)
    # The mode comes first, and its probability is the boundary.
    middle = word if first == 1 else ONES - word
    script = [(middle - 1, 1), (middle, 2**62), (middle, 3 * 2**62), (middle + 1, 1)]
    expected = [first, first, second, second]
    assert [draw(coin, *words)[0] for words in script] == expected
    for (start, more), value in zip(script, expected, strict=True):
        assert coin.sample(BULK, Script([start] * BULK + [more] * BULK)).tolist() == [value] * BULK


@every_table
def test_bulk_reads_words_as_single_draws_do(noise: RatioNoise) -> None:
    words = Stream(2).words(BULK + 100)
    named = [digits(end, 1)[0] for _, end in islice(boundaries(noise), 20)]
    special = [0, ONES, *(min(word + step, ONES) for word in named for step in (-1, 0, 1))]
    words[: len(special)] = special
    together = noise.sample(len(words), Script([*words.tolist(), *[MIDDLE] * 300]))
    assert together.tolist() == [draw(noise, int(word), MIDDLE, MIDDLE)[0] for word in words]


@pytest.mark.parametrize(("noise", "depth"), COMPOSED, ids=[repr(noise) for noise, _ in COMPOSED])
def test_bulk_reads_words_as_single_draws_do_in_sums(noise: Noise, depth: int) -> None:
    size = BULK + 5
    words = Stream(3).words(size * depth).reshape(depth, size)
    words[0, :3] = 0, MIDDLE, ONES - 2**40
    together = noise.sample(size, Script([*words.ravel().tolist(), *[MIDDLE] * 20]))
    some = [*range(3), *range(3, size, 7)]
    alone = [draw(noise, *words[:, i].tolist(), MIDDLE, MIDDLE)[0] for i in some]
    assert together[some].tolist() == alone


@every_table
def test_thresholds_are_the_floors_of_the_exact_boundaries(noise: RatioNoise) -> None:
    table = Inverter(noise)._table()
    values, lower, upper = table.values, table.lower, table.upper
    # The table may stop one cell early: what is left lies within the last two words.
    for index, (value, end) in enumerate(islice(boundaries(noise), len(values))):
        word = digits(end, 1)[0]
        assert values[index] == value
        assert int(lower[index]) in (word - 1, word)
        assert int(upper[index]) in ((word, word + 1) if index < len(values) - 1 else (ONES,))
    assert int(lower[-1]) >= ONES - 1


@every_table
def test_a_scan_and_a_search_of_the_table_agree(noise: RatioNoise) -> None:
    table = Inverter(noise)._table()
    words = np.concatenate((Stream(8).words(500), table.lower, table.upper, table.lower - np.uint64(1)))
    words = np.append(words, np.asarray([0, ONES], dtype=np.uint64))
    places = np.searchsorted(table.lower, words, side="right")
    for values, unclear in (table.scan(words), table.search(words), table.at(words, places)):
        sure = ~unclear
        assert np.array_equal(values[sure], table.values[places[sure]])
        named = (table.lower <= words[:, None]) & (words[:, None] <= table.upper)
        assert np.array_equal(unclear, named.any(axis=1))


@pytest.fixture
def bounded_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table here has ten thousand cells: one that grows past that will never be complete."""
    plain = Inverter._grow

    def grow(self: Inverter, size: int) -> None:
        assert len(self._values) < 10**4, "the table does not end"
        plain(self, size)

    monkeypatch.setattr(Inverter, "_grow", grow)


class Vague(Poisson):
    """A law whose mass is known to twenty digits only, at any precision."""

    def _mass(self) -> arb:
        return arb(super()._mass().mid(), 1e-20)


@pytest.mark.usefixtures("bounded_growth")
def test_a_law_not_known_closely_enough_is_never_sampled() -> None:
    table = Inverter(Vague(4))
    for word in (2**62, 2**62, 5):
        with pytest.raises(ArithmeticError):
            table.sample(1, Script([word, MIDDLE]))
    with pytest.raises(ArithmeticError):
        table.sample(BULK, Stream(1))


class Interrupted(Poisson):
    """A law whose computation is once broken off, as a keyboard or a full memory does."""

    broken = False

    def _growth(self, x: Any, real: Callable[[Any], Any]) -> Any:
        if x == 9 and real is not float and not Interrupted.broken:
            Interrupted.broken = True
            raise KeyboardInterrupt
        return super()._growth(x, real)


@pytest.mark.usefixtures("bounded_growth")
def test_a_table_broken_off_is_made_anew() -> None:
    noise, words = Interrupted(4), Stream(5).words(BULK)
    table = Inverter(noise)
    with pytest.raises(KeyboardInterrupt):
        table.sample(1, Script([MIDDLE]))
    alone = Script(words[:50])
    assert table.sample(50, alone).tolist() == [value_of(Poisson(4), int(word)) for word in words[:50]]
    assert alone.used == 50
    assert table.sample(BULK, Script(words)).tolist() == Poisson(4).sample(BULK, Script(words)).tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("bounded_growth")
def test_threads_may_grow_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread is held back as it leaves the ball library's lock, and another grows the table meanwhile."""
    noise, words = DiscreteGaussian(400), Stream(6).words(40)
    table, first, drawn = Inverter(noise), threading.current_thread(), {}
    passed, real = threading.Event(), inversion.precise

    def grow_too() -> None:
        with suppress(AssertionError):  # it is missed below
            drawn["other"] = table.sample(40, Script(words)).tolist()

    other = threading.Thread(target=grow_too)

    @contextmanager
    def leaving(bits: int) -> Iterator[None]:
        with real(bits):
            yield
        if threading.current_thread() is first and not passed.is_set():
            passed.set()
            other.start()
            other.join(2.0)  # the time is for a lock that the other one may rightly wait for

    monkeypatch.setattr(inversion, "precise", leaving)
    drawn["first"] = table.sample(40, Script(words)).tolist()
    other.join()
    expected = [value_of(noise, int(word)) for word in words]
    assert drawn == {"first": expected, "other": expected}


def test_a_table_is_certified_while_another_thread_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ball library's precision is one for all threads: one that leaves must not take another's with it."""
    inside, left = threading.Event(), threading.Event()

    def pausing(self: Poisson, plain: Callable[[Poisson], arb] = Poisson._mass) -> arb:
        if self.rate == Fraction(77, 10):
            inside.set()
            left.wait(0.3)  # holds its precision until the sampler is under way, or is locked out
        elif self.rate == Fraction(78, 10):
            left.set()
            window.join(2.0)
        return plain(self)

    monkeypatch.setattr(Poisson, "_mass", pausing)
    window = threading.Thread(target=lambda: Poisson(Fraction(77, 10)).window())
    window.start()
    assert inside.wait(5.0)
    try:
        drawn = Poisson(Fraction(78, 10)).sample(20, Stream(4))
        window.join()
        assert ctx.prec == 53
    finally:
        ctx.prec = 53
    assert drawn.tolist() == [value_of(Poisson(Fraction(78, 10)), w) for w in Stream(4).words(20).tolist()]
