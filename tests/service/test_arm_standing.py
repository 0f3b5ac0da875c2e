"""The word for how an arm stands, while an experiment runs and when it has ended; and the same as rows."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from cases.programs import COMPARISON
from croupier.programs import program
from croupier.programs.program import Dealt
from croupier.service import exports
from croupier.service.arm_standing import arm_standing, with_standing

ARMS = ("plain", "tour", "video")


def run(means, blocks=1000, **changes):
    """A comparison that has closed so many blocks with exactly these means, or fewer where it ended before."""
    running = program(COMPARISON | {"horizon": None, "decision": {"smallest_effect": 0.1}} | changes)
    running.begin()
    for _ in range(blocks):
        for turn in running.wanted:
            ((number, mechanism),) = turn.batches
            level = round(mechanism.users * means[turn.arm] * mechanism.precision)
            running.released(number, level, mechanism.users, Dealt(mechanism.users, over=True))
        if running.finished:
            break
    return running


def words(running):
    return [row["standing"] for row in with_standing(running)["arms"]]


def test_while_arms_are_compared_they_are_in_play():
    assert words(run((0.5, 0.5, 0.5), blocks=1)) == ["in play"] * 3


def test_at_the_end_one_has_won_and_no_other_is_in_play():
    ended = run((0.3, 0.8, 0.4))
    assert ended.finished
    assert words(ended) == ["not chosen", "winner", "not chosen"]


def test_an_arm_that_was_given_up_is_set_aside_at_the_end_too():
    ended = run((0.2, 0.8, 0.75), name="concurrent-elimination", horizon=10_000)
    assert ended.finished
    assert words(ended)[0] == "set aside"
    assert "in play" not in words(ended)


def test_arms_that_do_not_differ_and_those_that_were_never_told_apart():
    assert words(run((0.5, 0.5, 0.5))) == ["no difference"] * 3
    ended = run((0.5, 0.5, 0.5), horizon=2000)
    assert ended.finished
    assert words(ended) == ["undecided"] * 3


@pytest.mark.parametrize(
    ("row", "finished", "retired", "word"),
    [
        ({"active": False}, False, True, "retired"),
        ({"active": False}, True, False, "out"),
        ({"paused": True}, False, False, "paused"),
        ({"paused": True}, True, False, "not chosen"),
        ({"arm": 1}, False, False, "best so far"),
        ({"arm": 1, "batches": 0}, False, False, "in play"),
        ({"arm": 1}, True, False, "best"),
    ],
)
def test_arms_one_after_the_other_have_a_word_each(row, finished, retired, word):
    whole = {"arm": 0, "active": True, "paused": False, "batches": 3} | row
    assert arm_standing(whole, {"best_arm": 1}, finished=finished, retired=retired) == word


def rows(running):
    async def whole():
        live = SimpleNamespace(program=running, arms=ARMS)
        return b"".join([piece async for piece in exports.pieces(live, "result", "json")])

    return json.loads(asyncio.run(whole()))


def test_the_rows_of_a_comparison_say_how_far_each_arm_is_from_the_control_and_how_sure_that_is():
    found = rows(run((0.3, 0.8, 0.4)))
    assert [(row["arm_name"], row["standing"]) for row in found] == list(
        zip(ARMS, ("not chosen", "winner", "not chosen"), strict=True)
    )
    ends = ("difference_lower", "difference", "difference_upper")
    assert [found[0][key] for key in ends] == [None] * 3
    for row, apart in zip(found[1:], (0.5, 0.1), strict=True):
        assert row["difference"] == pytest.approx(apart, abs=0.01)
        assert -1 <= row["difference_lower"] < row["difference"] < row["difference_upper"] <= 1
    assert found[1]["difference_lower"] > 0
    assert {(row["control_name"], row["confidence"], round(row["odds"], 6)) for row in found} == {
        ("plain", 0.95, round(1 / 3, 6))
    }


def test_before_the_first_block_the_rows_have_the_same_columns_and_no_difference():
    before, after = rows(run((0.3, 0.8, 0.4), blocks=0)), rows(run((0.3, 0.8, 0.4)))
    assert [list(row) for row in before] == [list(row) for row in after]
    assert {row["difference"] for row in before} == {None}
