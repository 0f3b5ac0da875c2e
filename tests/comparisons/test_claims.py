"""Claims over all pairs of arms, a winner, arms alike, and what is kept for sums that wrap around."""

import numpy as np
import pytest

from croupier.comparisons import Comparison, Levels, claim, stakes
from croupier.comparisons.tails import NO_NOISE

EVERY = np.ones((1, 3), dtype=bool)


def compared(means, blocks=40, users=500, wrap=0.0):
    noise = NO_NOISE._replace(wrap=wrap)
    found = Comparison(len(means), 1, stakes(noise, users, 0.05, 0.5), lambda n: noise, 0.5)
    counts = np.full((1, len(means)), users)
    for _ in range(blocks):
        found.tell(counts * np.asarray(means), counts, counts > 0)
    return found


def claimed(found, control=0, compared=EVERY, margin=None, arms=3):
    return claim(found, Levels(arms, 0.95), control, compared, margin)


def test_a_winner_is_alone_and_beats_the_control():
    made = claimed(compared([0.5, 0.52, 0.6]))
    assert made.left.tolist() == [[False, False, True]]
    assert (made.leader[0], made.reference[0], bool(made.won[0])) == (2, 0, True)
    assert made.beats[0, 2].tolist() == [True, True, False]


def test_a_control_that_leads_is_compared_with_the_runner_up():
    made = claimed(compared([0.6, 0.5, 0.52]))
    assert (made.leader[0], made.reference[0], bool(made.won[0])) == (0, 2, True)


def test_one_of_two_good_arms_is_no_winner_but_they_may_be_alike():
    found = compared([0.5, 0.6, 0.6])
    made = claimed(found, margin=0.05)
    assert made.left.tolist() == [[False, True, True]]
    assert not made.won[0]
    assert made.alike[0]
    assert not claimed(found, margin=0.01).alike[0]


def test_an_arm_that_was_taken_out_counts_no_more():
    out = np.asarray([[True, True, False]])
    made = claimed(compared([0.5, 0.56, 0.7]), compared=out)
    assert (made.leader[0], bool(made.won[0])) == (1, True)
    assert not made.beats[0, 2].any()


def test_without_evidence_nothing_is_claimed():
    made = claimed(compared([0.5, 0.501, 0.502], blocks=2), margin=0.05)
    assert made.left.all()
    assert not made.won[0]
    assert not made.alike[0]
    assert not made.beats.any()


def test_what_may_have_wrapped_around_is_claimed_of_no_more():
    means = [0.5, 0.52, 0.6]
    assert claimed(compared(means, wrap=1e-6)).won[0]
    assert not claimed(compared(means, wrap=1e-3)).won[0]


def test_levels_share_the_error_among_pairs():
    two, ten = Levels(2, 0.95), Levels(10, 0.95)
    assert np.exp(-two.pair) * 2 == pytest.approx(0.05 * 0.99)
    assert np.exp(-ten.pair) * 90 == pytest.approx(0.05 * 0.99)
    assert np.exp(-ten.best) * 9 == pytest.approx(0.05 * 0.99)


def test_a_winner_errs_no_more_often_than_its_pairs_allow():
    """Of K arms k are best: pairs that must not fail, each by its share of α, are worth α at most together."""
    for arms in range(2, 12):
        for best in range(1, arms + 1):
            worse_than_a_best = (arms - best) / (arms - 1)
            among_the_best = best * (best - 1) / (arms * (arms - 1))
            assert worse_than_a_best + among_the_best <= 1.0 + 1e-12
