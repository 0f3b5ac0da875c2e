"""Where batches must be full, a program hears who was silent when all turns of a block are over: then, or later."""

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.programs import program
from croupier.programs.interpreter import pairs
from croupier.programs.program import Dealt

FULL = {"kind": "comparison", "name": "split", "arms": 2, "epsilon": 1.0, "binary": True, "protocol_name": "laplace"}


def closed(running, *silent):
    """The block that is open closes; its first receipt tells this of who was silent."""
    turns = running.wanted
    for turn in turns:
        ((batch, mechanism),) = turn.batches
        told = silent if turn is turns[0] else ()
        running.released(batch, 0, mechanism.users, Dealt(mechanism.users, True, told))
    return [turn.batches[0][1].users for turn in turns]


def test_a_block_is_heard_of_when_it_is_told_who_was_silent_in_it():
    running = program(FULL)
    check = running.policy.silence
    first = closed(running)
    assert not check.won.any(), "turns of the first block are out"
    closed(running, (0, 3), (1, 30))
    alone = type(check)(2, 1)
    alone.hear_silent(np.array([[3, 30]]), np.array([first]))
    assert np.array_equal(check.won, alone.won), "the second block is not known yet, and has no part in it"
    closed(running, (0, 90), (1, 90))
    assert np.array_equal(check.won, alone.won), "what is told twice counts once"
    closed(running, (2, 3), (3, 30), (4, 3), (5, 30), (99, 7), (6, 3), (7, 30))
    assert check.alarm[0]
    assert running.policy.decision().silent


def test_both_batches_of_a_block_may_be_told_with_itself():
    running = program(FULL)
    closed(running, (0, 40), (1, 2))
    assert running.policy.silence.won.any()


@pytest.mark.parametrize("told", [1, [1], [[0]], [[0, 1, 2]], [[0, -1]], [["a", 1]]])
def test_what_a_record_tells_is_pairs_of_numbers(told):
    with pytest.raises(InvalidParameter, match="silent|batch"):
        pairs("silent", {"silent": told})
