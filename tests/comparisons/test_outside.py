"""Claims attacked: worlds in which rates change, arms that come late, and words that outlive the facts."""

import numpy as np
import pytest

from croupier.bandits import policy
from croupier.comparisons.claims import lead, not_set_aside

IN_BLOCKS = ("split", "concurrent-elimination", "dp-top-two", "concurrent-klucb", "concurrent-imed")


def told(chosen, rates, users=4000):
    """One block without chance: as many report of each arm as its odds say, and their mean is the arm's."""
    counts = np.rint(users * chosen.odds()).astype(np.int64)
    chosen.observe(counts * np.asarray(rates), counts, counts > 0)


def in_blocks(name, **decision):
    return policy(name, arms=2, horizon=None, epsilon=1.0, binary=True, trust="two-servers", decision=decision)


@pytest.mark.parametrize("name", IN_BLOCKS)
def test_nobody_wins_by_having_beaten_what_had_beaten_a_better_arm(name):
    """C was set aside by A, which falls below B. C is better than B all the time, so B must not win."""
    chosen = in_blocks(name, most_arms=3)
    chosen.may_decide = False
    for _ in range(10):
        told(chosen, [0.9, 0.6])
    chosen.add_arm()
    chosen.may_decide = True
    for _ in range(60):
        if chosen.decided[0]:
            break
        told(chosen, [0.3, 0.6, 0.45])
    assert chosen.winner[0] in (-1, 1)
    assert not chosen.alarmed[0]


def test_an_arm_set_aside_by_one_that_is_set_aside_itself_comes_back():
    better = np.zeros((1, 4, 4), dtype=bool)
    better[0, 0, 1] = better[0, 1, 2] = better[0, 1, 3] = True
    assert not_set_aside(better, np.ones((1, 4), dtype=bool)).tolist() == [[True, False, True, True]]


def test_arms_in_a_circle_all_stay():
    better = np.zeros((1, 3, 3), dtype=bool)
    better[0, 0, 1] = better[0, 1, 2] = better[0, 2, 0] = True
    assert not_set_aside(better, np.ones((1, 3), dtype=bool)).all()


def test_an_arm_of_which_nothing_is_known_does_not_lead():
    differences = np.full((1, 3, 3), np.nan)
    differences[0, 1, 0], differences[0, 0, 1] = 0.1, -0.1
    assert lead(differences, np.ones((1, 3), dtype=bool)).tolist() == [1]


def test_a_decision_whose_difference_is_gone_says_so():
    chosen = in_blocks("split", then="exploit", control_share=0.2)
    while not chosen.decided[0]:
        told(chosen, [0.5, 0.6])
    assert "B scores more than A" in chosen.decision().sentence(["A", "B"])
    for _ in range(40):
        told(chosen, [0.5, 0.4])
    decision = chosen.decision()
    assert decision.lower <= 0
    assert decision.sentence(["A", "B"]).startswith("B was chosen over A, and until now the difference is -")


@pytest.mark.parametrize("then", ["stop", "exploit"])
def test_reports_that_come_after_a_decision_that_ends_it_do_not_change_the_sentence(then):
    """It stopped at a look, and the interval holds at every look; one block later it may well touch zero."""
    chosen = in_blocks("split", then=then)
    while not chosen.decided[0]:
        told(chosen, [0.5, 0.6])
    said = chosen.decision().sentence(["A", "B"])
    assert "B scores more than A" in said
    for _ in range(5):
        told(chosen, [0.5, 0.4])
    assert chosen.decision().sentence(["A", "B"]) == said


def test_what_was_decided_stays_of_the_same_two_arms():
    chosen = policy(
        "split", arms=3, horizon=None, epsilon=1.0, binary=True, trust="two-servers", decision={"then": "exploit"}
    )
    while not chosen.decided[0]:
        told(chosen, [0.5, 0.65, 0.5])
    chosen.retire(0)
    decision = chosen.decision()
    assert (decision.leader, decision.reference) == (1, 0)


def test_small_late_blocks_count_in_who_is_silent_and_place_no_bet():
    """Odds of a half, 300 blocks of six reports and none: rates are unequal. Of so few reports no bet is made."""
    chosen = in_blocks("split")
    for _ in range(300):
        chosen.observe(np.array([[3.0, 0.0]]), np.array([[6, 0]]), np.array([[True, False]]), np.array([[0.5, 0.5]]))
    assert chosen.silence.alarm[0]
    assert chosen.pulls.tolist() == [[1800, 0]]
    for _ in range(9):
        few = np.array([[6, 6]])
        chosen.observe(few / 2, few, np.ones((1, 2), dtype=bool), np.array([[0.5, 0.5]]))
    assert chosen.comparison.weight[0, 0, 1] == 0 == chosen.blocks[0]
