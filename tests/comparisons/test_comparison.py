"""Evidence about differences: exact expectations of whole blocks, intervals that invert it, pairs that ran apart."""

import itertools

import numpy as np
import pytest

from croupier.comparisons.bets import Stakes, stakes
from croupier.comparisons.comparison import Comparison, least, log_mean
from croupier.comparisons.lift import ratio
from croupier.comparisons.tails import NO_NOISE

BETS = stakes(NO_NOISE, 100, effect=0.1, rate=0.4)


def compared(arms=2, runs=1, bets=BETS, rate=0.4):
    return Comparison(arms, runs, bets, lambda users: NO_NOISE, rate)


def told(comparison, sums, counts, released=None):
    sums, counts = np.atleast_2d(np.asarray(sums, dtype=float)), np.atleast_2d(counts)
    comparison.tell(sums, counts, counts > 0 if released is None else released)
    return comparison


def blocks(rng, number, counts=(120, 90), means=(0.4, 0.5)):
    return [(rng.binomial(counts, means), np.asarray(counts)) for _ in range(number)]


@pytest.mark.parametrize("rate", [None, 0.2, 0.7])
@pytest.mark.parametrize("stake", [0.05, 0.4, 0.9])
def test_what_a_block_wins_is_worth_its_difference_at_most(stake, rate):
    """Users of different means, batches of different sizes: a sum over all outcomes."""
    better, worse = (0.7, 0.2, 0.9), (0.1, 0.6)
    bets = Stakes(np.asarray([stake]), np.ones(1))
    worth = 0.0
    for outcomes in itertools.product((0, 1), repeat=5):
        means = (*better, *worse)
        chance = np.prod([m if x else 1.0 - m for m, x in zip(means, outcomes, strict=True)])
        found = told(compared(bets=bets, rate=rate), [sum(outcomes[3:]), sum(outcomes[:3])], [2, 3])
        worth += chance * np.exp(found.won[0, 1, 0, 0])
    difference = np.mean(better) - np.mean(worse)
    assert worth <= np.exp(stake * 2 * difference) * (1.0 + 1e-12)


def test_an_interval_is_what_the_evidence_does_not_refute():
    found = compared()
    for sums, counts in blocks(np.random.default_rng(1), 20):
        told(found, sums, counts)
    lower, upper = (each[0, 1, 0] for each in found.intervals(np.log(40.0)))
    assert lower < found.differences[0, 1, 0] < upper
    assert found.evidence(float(lower))[0, 1, 0] == pytest.approx(np.log(40.0), abs=1e-6)
    assert found.evidence(float(-upper))[0, 0, 1] == pytest.approx(np.log(40.0), abs=1e-6)
    assert found.intervals(np.log(400.0))[0][0, 1, 0] < lower


def test_newton_comes_from_the_side_that_is_safe():
    rng = np.random.default_rng(3)
    won, weight = rng.normal(0.0, 30.0, (50, len(BETS))), rng.uniform(1.0, 1e6, 50)
    found = least(won, weight, BETS, np.full(50, 3.0))
    at = log_mean(won - BETS.sizes * (weight * found)[:, None], BETS.log_shares)
    inside = (found > -1.0) & (found < 1.0)
    assert inside.sum() > 20
    assert np.all(at[inside] >= 3.0 - 1e-6), "a bound that is not yet refuted would be too large"


def test_many_runs_at_once_are_each_as_alone():
    rng = np.random.default_rng(5)
    together, alone = compared(3, 4), [compared(3) for _ in range(4)]
    for _ in range(6):
        counts = rng.integers(20, 60, (4, 3))
        released = np.ones((4, 3), dtype=bool)
        released[1] = False
        released[2, 0] = False
        sums = rng.binomial(counts, 0.3).astype(float)
        together.tell(sums, counts, released)
        for run, one in enumerate(alone):
            one.tell(sums[run : run + 1], counts[run : run + 1], released[run : run + 1])
    for run, one in enumerate(alone):
        assert np.array_equal(together.evidence()[run], one.evidence()[0])
        assert np.array_equal(together.mean_intervals(3.0)[0][run], one.mean_intervals(3.0)[0][0])


def test_arms_that_never_ran_together_are_not_compared():
    found = told(told(compared(3), [40, 30, 0], [100, 100, 0]), [45, 0, 60], [100, 0, 100])
    assert np.isnan(found.differences[0, 1, 2])
    assert found.evidence()[0, 1, 2] == 0.0
    assert found.weight[0].tolist() == [[0, 100, 100], [100, 0, 0], [100, 0, 0]]


def test_a_late_arm_is_compared_from_its_first_block_on():
    found = told(compared(2), [50, 60], [100, 100])
    found.add_arm()
    told(found, [80, 85, 90], [100, 100, 100])
    assert found.differences[0, 2, 0] == pytest.approx(0.1)
    assert found.weight[0, 2].tolist() == [100, 100, 0]
    assert found.mean_intervals(2.0)[0].shape == (1, 3)


def test_a_drift_that_arms_share_leaves_their_difference_alone():
    steady, drifting = compared(), compared()
    for step in range(40):
        level = 40 + step % 20
        told(steady, [500, 500], [1000, 1000])
        told(drifting, [10 * level, 10 * level], [1000, 1000])
    assert drifting.differences[0, 1, 0] == steady.differences[0, 1, 0] == 0.0
    assert abs(drifting.intervals(3.0)[0][0, 1, 0] / steady.intervals(3.0)[0][0, 1, 0] - 1.0) < 0.1


def test_the_estimate_counts_a_block_by_its_smaller_batch():
    found = told(told(compared(), [10, 60], [100, 200]), [200, 90], [400, 100])
    assert found.differences[0, 1, 0] == pytest.approx((0.3 - 0.1 + 0.9 - 0.5) / 2)


def test_a_ratio_lies_where_bets_on_it_say():
    found, counts = compared(), (2000, 1500)
    for sums, many in blocks(np.random.default_rng(8), 30, counts, (0.1, 0.15)):
        told(found, sums, many)
    middle, lower, upper = ratio(found, 0, 1, 0, 3.0)
    assert lower < middle < upper
    assert lower < 1.5 < upper
    assert upper / lower < 1.3
    mirrored = ratio(found, 0, 0, 1, 3.0)
    assert mirrored[1] == pytest.approx(1.0 / upper, abs=2e-3)


def test_no_ratio_is_told_where_a_mean_may_be_zero():
    found = told(compared(), [-2.0, 5.0], [50, 50])
    assert ratio(found, 0, 1, 0, 3.0) is None
    assert ratio(told(compared(), [1.0, 5.0], [50, 50]), 0, 1, 0, 3.0)[2] == np.inf
