"""The check of who is silent: exact expectations where arms report alike, and alarms where they do not."""

import numpy as np
import pytest
from scipy.stats import betabinom, binom

from croupier.comparisons.silence import STAKES, Silence, tipping_point


@pytest.mark.parametrize("odds", [(0.5, 0.5), (0.9, 0.1), (0.2, 0.3)])
def test_reports_that_come_by_the_odds_win_nothing(odds):
    reports = 30
    share = odds[1] / sum(odds)
    counts = np.arange(reports + 1)
    check = Silence(2, reports + 1)
    check.hear_reports(np.stack((reports - counts, counts), axis=1), np.tile(odds, (reports + 1, 1)))
    worth = binom.pmf(counts, reports, share) @ np.exp(check.won[:, 1, 0])
    assert worth == pytest.approx(np.ones(len(STAKES)), rel=1e-9)


@pytest.mark.parametrize(("asked", "silent"), [((10, 10), 12), ((40, 10), 30), ((500, 500), 400), ((7, 90), 5)])
def test_silent_turns_before_full_batches_win_nothing_whatever_the_rate(asked, silent):
    counts = np.arange(silent + 1)
    check = Silence(2, silent + 1)
    check.hear_silent(np.stack((counts, silent - counts), axis=1), np.tile(asked, (silent + 1, 1)))
    worth = betabinom.pmf(counts, silent, *asked) @ np.exp(check.won[:, 1, 0])
    assert np.all(worth <= 1.0 + 1e-9)
    assert worth[np.argmin(np.abs(STAKES))] > 0.95


def test_false_alarms_are_rare_and_real_ones_are_not():
    rng, runs = np.random.default_rng(4), 2000
    alike, unlike = Silence(3, runs), Silence(3, runs)
    odds = np.tile((0.5, 0.25, 0.25), (runs, 1))
    for _ in range(60):
        alike.hear_reports(rng.multinomial(100, odds[0], runs), odds)
        unlike.hear_reports(rng.multinomial(100, np.asarray((0.5, 0.25, 0.2)) / 0.95, runs), odds)
    # At most 1 %: more than 45 of 2,000 has probability below 1e-6.
    assert alike.alarm.sum() <= 45
    assert unlike.alarm.mean() > 0.95


def test_an_alarm_stays_and_a_new_arm_is_no_reason_for_one():
    check = Silence(2, 1)
    check.add_arm()
    check.hear_reports(np.asarray([[50, 50, 0]]), np.asarray([[0.5, 0.5, 0.0]]))
    assert not check.alarm[0]
    check.hear_reports(np.asarray([[500, 500, 300]]), np.full((1, 3), 1 / 3))
    assert check.alarm[0]
    check.hear_reports(np.asarray([[500, 500, 700]]), np.full((1, 3), 1 / 3))
    assert check.alarm[0]


def test_the_tipping_point_is_where_all_users_together_show_no_difference():
    point = tipping_point(0.03, 0.6)
    assert 0.6 * 0.03 - 0.4 * point == pytest.approx(0.0)
    assert tipping_point(-0.01, 0.6) is None
    assert tipping_point(0.03, 1.0) is None
