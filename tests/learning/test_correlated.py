"""Correlated sampling: exact marginals, and agreement as the closed form says."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import chdtrc
from scipy.stats import binom

from croupier.checks import CroupierError, InvalidParameter
from croupier.learning import Seed, Stream, agreement, distance, race, rounding
from croupier.learning.seeds import exponential

LAWS = (np.asarray([0.5, 0.3, 0.15, 0.05]), np.asarray([0.4, 0.2, 0.4, 0.0]), np.asarray([0.97, 0.01, 0.01, 0.01]))

ALARM = 1e-11
"""The false-alarm rate of each statistical test here; there are fewer than twenty."""


def draws(rows: np.ndarray, count: int) -> np.ndarray:
    """Races of the same rows under many seeds: seeds by rows."""
    root = Seed.of("draws")
    return np.asarray([race(rows, root.child(number)) for number in range(count)])


def brute_agreement(p: np.ndarray, q: np.ndarray) -> float:
    """The formula as it is written."""
    total = 0.0
    for p_i, q_i in zip(p, q, strict=True):
        if p_i > 0 and q_i > 0:
            total += 1.0 / sum(max(p_j / p_i, q_j / q_i) for p_j, q_j in zip(p, q, strict=True))
    return total


def assert_law(counts: np.ndarray, law: np.ndarray) -> None:
    assert (counts[law == 0] == 0).all()
    expected = counts.sum() * law[law > 0]
    assert chdtrc(len(expected) - 1, ((counts[law > 0] - expected) ** 2 / expected).sum()) > ALARM


def assert_rate(hits: int, trials: int, rate: float) -> None:
    assert min(binom.cdf(hits, trials, rate), binom.sf(hits - 1, trials, rate)) > ALARM, (hits / trials, rate)


@pytest.fixture(scope="module", params=[6_000, pytest.param(20_000, marks=pytest.mark.evidence)])
def races(request: pytest.FixtureRequest) -> np.ndarray:
    return draws(np.stack(LAWS), request.param)


@pytest.mark.slow
def test_marginals_are_exact(races: np.ndarray) -> None:
    for place, law in enumerate(LAWS):
        assert_law(np.bincount(races[:, place], minlength=4), law)


@pytest.mark.slow
def test_users_agree_as_often_as_the_closed_form_says(races: np.ndarray) -> None:
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert_rate(int((races[:, i] == races[:, j]).sum()), len(races), agreement(LAWS[i], LAWS[j]))


def test_agreement_is_the_formula_and_within_its_bound_on_ten_thousand_pairs() -> None:
    rng = np.random.default_rng(1)
    for size, concentration in ((2, 1.0), (3, 0.3), (10, 1.0), (50, 0.1)):
        p, q = (rng.dirichlet(np.full(size, concentration), 2_500) for _ in range(2))
        # Some candidates are impossible for one of the two.
        p[:500, 0], q[500:1000, -1] = 0.0, 0.0
        p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
        found, apart = agreement(p, q), distance(p, q)
        assert (1.0 - found <= 2.0 * apart / (1.0 + apart) + 1e-12).all()
        assert (found <= 1.0 - apart + 1e-12).all(), "no coupling agrees more often than one minus the distance"
        for k in range(0, 2_500, 25):
            assert found[k] == pytest.approx(brute_agreement(p[k], q[k]), abs=1e-12)


def test_the_bound_is_met_with_equality_somewhere() -> None:
    assert agreement([0.9, 0.1, 0.0], [0.9, 0.0, 0.1]) == pytest.approx((1 - 0.1) / (1 + 0.1))
    assert agreement([0.2, 0.8], [0.2, 0.8]) == pytest.approx(1.0)
    assert agreement([1.0, 0.0], [0.0, 1.0]) == 0.0


@pytest.mark.parametrize("law", [(0.5, 0.3, 0.2), (0.9, 0.09, 0.01), (1 / 3, 1 / 3, 1 / 3)])
@pytest.mark.parametrize("bits", [3, 5])
def test_cutting_times_to_few_bits_moves_the_law_as_little_as_the_bound_says(law: tuple[float, ...], bits: int) -> None:
    # All words of a few bits, one by one: the same formula with 2^-bits for 2^-64 must hold.
    words = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits) | np.uint64(2 ** (63 - bits))
    times = exponential(words)
    won = np.zeros(3)
    for e in product(times, repeat=3):
        finish = np.asarray(e) / np.asarray(law)
        first = finish == finish.min()
        won += first / first.sum()
    moved = 0.5 * np.abs(won / won.sum() - np.asarray(law)).sum()
    assert moved <= 3 * 2.0 ** (2 - bits)


def test_the_rounding_of_a_race_is_negligible() -> None:
    assert rounding(2**20) < 2**-41
    assert rounding(2) < 2**-48


def test_weights_need_no_normalization_and_may_be_tiny() -> None:
    seed = Seed.of(1)
    assert race([3.0, 1.0], seed) == race([0.75, 0.25], seed) == race([3e-300, 1e-300], seed)
    assert race([0.0, 5e-324, 0.0], seed) == 1


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0], [np.inf, 1.0], 1.0])
def test_weights_that_are_no_law_are_refused(weights: Any) -> None:
    with pytest.raises(InvalidParameter, match="weights"):
        race(weights, Seed.of(1))


# A space of 2^64 candidates, of which only the top three bits matter.
BINS = np.asarray([8.0, 4.0, 2.0, 1.0, 1.0, 0.5, 0.0, 0.25]) / 8.0
OTHER = np.asarray([4.0, 8.0, 2.0, 1.0, 0.0, 0.5, 1.0, 0.25]) / 8.0


def bins(words: np.ndarray) -> np.ndarray:
    return (words >> np.uint64(61)).astype(int)


@pytest.fixture(scope="module", params=[1_500, pytest.param(4_000, marks=pytest.mark.evidence)])
def streamed(request: pytest.FixtureRequest) -> np.ndarray:
    """Two users' draws from a space too large to list, under many seeds: seeds by (candidate, bin) of both."""
    found = []
    for number in range(request.param):
        stream = Stream(Seed.of("streams").child(number), lambda words: words)
        both = stream.race(lambda words: np.stack((BINS[bins(words)], OTHER[bins(words)])))
        assert isinstance(both, np.ndarray)
        names = [stream.candidates(i, i + 1)[0] for i in both.tolist()]
        found.append([*both.tolist(), *bins(np.asarray(names)).tolist()])
    return np.asarray(found)


@pytest.mark.slow
def test_a_streamed_race_has_exact_marginals(streamed: np.ndarray) -> None:
    for column, law in ((2, BINS), (3, OTHER)):
        assert_law(np.bincount(streamed[:, column], minlength=8), law / law.sum())


@pytest.mark.slow
def test_a_streamed_race_agrees_as_the_listed_one(streamed: np.ndarray) -> None:
    # Within a bin candidates are alike, so the closed form over bins, with ∫ for Σ, is that of the whole space.
    p, q = BINS / BINS.sum(), OTHER / OTHER.sum()
    assert_rate(int((streamed[:, 0] == streamed[:, 1]).sum()), len(streamed), agreement(p, q))
    assert 1 - agreement(p, q) <= 2 * distance(p, q)


def test_a_streamed_race_does_not_depend_on_who_else_races() -> None:
    stream = Stream(Seed.of(4), lambda words: words)
    both = stream.race(lambda words: np.stack((BINS[bins(words)], OTHER[bins(words)])))
    assert np.asarray(both).tolist() == [
        stream.race(lambda words: BINS[bins(words)]),
        stream.race(lambda words: OTHER[bins(words)]),
    ]


def test_a_streamed_race_refuses_what_would_spoil_its_law() -> None:
    stream = Stream(Seed.of(4), lambda words: words)
    with pytest.raises(InvalidParameter, match="weight"):
        stream.race(lambda words: np.full(len(words), 2.0))
    with pytest.raises(CroupierError, match="too small"):
        stream.race(lambda words: np.full(len(words), 1e-9), limit=1000)


def test_a_mutant_that_forgets_to_divide_is_caught() -> None:
    def broken(rows: np.ndarray, seed: Seed) -> np.ndarray:
        return np.argmin(np.where(rows > 0, seed.exponentials(np.arange(rows.shape[-1])), np.inf), axis=-1)

    found = np.asarray([broken(LAWS[0], Seed.of("draws").child(number)) for number in range(3_000)])
    with pytest.raises(AssertionError):
        assert_law(np.bincount(found, minlength=4), LAWS[0])
