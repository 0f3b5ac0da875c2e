"""Users are split otherwise when an operator asks: a new epoch of odds, and the old one stays open to late reports."""

import pytest

from croupier.checks import InvalidParameter
from croupier.programs import program

SPLIT = {"kind": "comparison", "name": "split", "arms": 2, "epsilon": 1.0, "binary": True, "trust": "two-servers"}


def dealt(running):
    """The odds of every epoch that is open, by arm."""
    epochs = {}
    for turn in running.wanted:
        epochs.setdefault(turn.block.epoch, {})[turn.arm] = turn.odds
    return epochs


def test_a_ramp_is_a_new_epoch_and_late_reports_count_in_the_old_one():
    split = program(SPLIT)
    assert dealt(split) == {0: {0: 0.5, 1: 0.5}}
    split.operate("ramp", [9.0, 1.0])
    assert dealt(split) == {0: {0: 0.5, 1: 0.5}, 1: {0: 0.9, 1: 0.1}}
    assert split.show()["shares"] == [9.0, 1.0]
    assert split.show()["odds"] == [0.9, 0.1]
    # Nothing changes: no epoch for nothing.
    split.operate("ramp", [18.0, 2.0])
    assert set(dealt(split)) == {0, 1}


@pytest.mark.parametrize("shares", [None, [1.0], [1.0, 1.0, 1.0], [1.0, 0.0], [1.0, -1.0], "even", [1.0, "x"]])
def test_shares_are_a_positive_number_an_arm(shares):
    split = program(SPLIT)
    with pytest.raises(InvalidParameter, match="shares"):
        split.operate("ramp", shares)
    assert dealt(split) == {0: {0: 0.5, 1: 0.5}}


def test_an_arm_that_was_just_added_has_its_share_too():
    split = program(SPLIT)
    split.operate("add")
    split.operate("ramp", [1.0, 1.0, 2.0])
    assert dealt(split)[max(dealt(split))] == {0: 0.25, 1: 0.25, 2: 0.5}


def test_a_policy_that_chooses_its_odds_is_not_told_others():
    chooses = program(SPLIT | {"name": "concurrent-elimination"})
    with pytest.raises(InvalidParameter, match="chooses its odds by itself"):
        chooses.operate("ramp", [9.0, 1.0])
    assert "shares" not in chooses.show()
