"""A bet wins nothing on average: exact expectations, outcome by outcome and noise by noise."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from croupier.comparisons.bets import BOLDEST, best_stake, stakes, winnings
from croupier.comparisons.comparison import log_mean
from croupier.comparisons.tails import CHORDS, NO_NOISE, cumulants
from croupier.noise import DiscreteLaplace
from croupier.protocols import ROWS, protocol

ROUNDING = 1e-9
SUMS = [name for name, row in ROWS.items() if not row.vectors]


def expectation(outcomes, chances, stake, centre, users, noise=None):
    """E[winnings] of users who all have this law of outcomes, by a sum over all of them, in doubles."""
    sums, probability = np.zeros(1), np.ones(1)
    for _ in range(users):
        sums = (sums[:, None] + np.asarray(outcomes)).ravel()
        probability = (probability[:, None] * np.asarray(chances)).ravel()
    known = NO_NOISE
    if noise is not None:
        known, reach = cumulants(noise, 1.0), np.arange(-60, 61)
        sums = (sums[:, None] + reach).ravel()
        probability = (probability[:, None] * noise.pmf(reach)).ravel()
    won = winnings(np.asarray([stake]), np.asarray(centre), np.asarray(users), sums, known)[:, 0]
    return float(probability @ np.exp(won))


@pytest.mark.parametrize("noise", [None, DiscreteLaplace(1), DiscreteLaplace(1).times(2)])
@pytest.mark.parametrize("stake", [-0.55, -0.1, 0.02, 0.3, 0.55])
def test_no_bet_wins_on_average_more_than_the_mean_is_worth(stake, noise):
    for centre, mean in itertools.product((0.0, 0.2, 0.5, 1.0), (0.0, 0.1, 0.5, 0.9)):
        found = expectation((0.0, 1.0), (1.0 - mean, mean), stake, centre, 4, noise)
        assert found <= np.exp(stake * mean * 4) * (1.0 + ROUNDING)


def test_a_bet_at_the_right_centre_on_coins_is_fair():
    for stake, mean in itertools.product((-0.8, 0.1, 0.8), (0.05, 0.5, 0.95)):
        found = expectation((0.0, 1.0), (1.0 - mean, mean), stake, mean, 5)
        assert found == pytest.approx(np.exp(stake * mean * 5), rel=1e-12)


@pytest.mark.parametrize("outcomes", [(0.0, 0.5, 1.0), (0.2, 0.3, 0.9)])
def test_outcomes_between_zero_and_one_win_less_than_coins(outcomes):
    chances = (0.3, 0.5, 0.2)
    mean = float(np.dot(outcomes, chances))
    for stake, centre in itertools.product((-0.8, 0.3, 0.8), (0.1, mean, 0.8)):
        assert expectation(outcomes, chances, stake, centre, 4) <= np.exp(stake * mean * 4) * (1.0 + ROUNDING)


def test_users_of_different_means_win_no_more():
    means, stake, centre = (0.1, 0.3, 0.8), 0.6, 0.35
    found = 0.0
    for outcomes in itertools.product((0.0, 1.0), repeat=3):
        chance = np.prod([m if x else 1.0 - m for m, x in zip(means, outcomes, strict=True)])
        total, users = np.asarray(sum(outcomes)), np.asarray(3)
        found += chance * np.exp(winnings(np.asarray([stake]), np.asarray(centre), users, total, NO_NOISE)[0])
    assert found <= np.exp(stake * sum(means))


@pytest.mark.parametrize("name", SUMS)
def test_chords_lie_above_the_cumulant_and_close_to_it(name):
    mechanism = protocol(name, epsilon=1.0, binary=True).plan(200)
    known = cumulants(mechanism.noise, mechanism.unit)
    tilts = np.sqrt(CHORDS[:-1] * CHORDS[1:])
    for side in (-1.0, 1.0):
        tried = side * tilts[tilts < 0.8 * known.reach]
        exact = mechanism.noise.cumulant(tried * mechanism.unit)
        assert np.all(known.at(tried) >= exact * (1.0 - 1e-12))
        assert np.all(known.at(tried) <= exact * 1.02 + 1e-300)
    assert np.all(np.isinf(known.at(np.asarray([-4.0, 4.0]))))


def test_the_planned_stake_is_the_one_that_wins_most():
    # By hand, without noise: the growth of log wealth is δ²/4v at the stake δ/2v, up to the fourth order.
    assert best_stake(NO_NOISE, 1000, 0.05, 0.475) == pytest.approx(0.1, rel=0.03)
    assert best_stake(NO_NOISE, 1000, 0.004, 0.02) == pytest.approx(0.002 / (0.022 * 0.978), rel=0.03)
    served = protocol("laplace", epsilon=1.0, binary=True, trust="two-servers").plan(59)
    noise = cumulants(served.noise, served.unit)
    # Noise that varies a quarter as much as users makes the best stake a fifth smaller.
    assert best_stake(noise, 59, 0.05, 0.475) == pytest.approx(0.08, rel=0.04)


def test_half_is_on_the_plan_and_all_of_it_within_reach_of_the_noise():
    mechanism = protocol("laplace", epsilon=0.3, binary=True).plan(500)
    noise = cumulants(mechanism.noise, mechanism.unit)
    for rate, planned in ((0.2, 1), (None, 2)):
        chosen = stakes(noise, 500, effect=0.02, rate=rate)
        assert chosen.shares[:planned].sum() == pytest.approx(0.5)
        assert chosen.shares.sum() == pytest.approx(1.0)
        assert np.all(-np.log1p(-chosen.sizes) <= noise.reach)
    assert stakes(noise, 500).sizes.max() < BOLDEST


def test_a_mixture_of_bets_on_equal_arms_is_worth_one_or_less():
    # Two coins of the same mean, twenty users each: the average over all stakes, exactly.
    bets, n, mean, counts = stakes(NO_NOISE, 20), np.asarray(20), 0.3, np.arange(21)
    for centre in (0.1, 0.3, 0.7):
        up = winnings(bets.sizes, np.asarray(centre), n, counts, NO_NOISE)
        down = winnings(-bets.sizes, np.asarray(centre), n, counts, NO_NOISE)
        wealth = np.exp(log_mean(up[:, None] + down[None], bets.log_shares))
        chance = binom.pmf(counts, 20, mean)
        assert 0.1 < chance @ wealth @ chance <= 1.0 + ROUNDING
