"""Decisions in words, from a policy that was told blocks."""

import json

import numpy as np
import pytest

from croupier.bandits import policy
from croupier.comparisons import Decision


def played(means, blocks=30, users=400, **terms):
    terms = {"smallest_effect": 0.05, "rate": 0.5} | terms
    options = {"epsilon": 1.0, "binary": True, "trust": "two-servers"}
    chosen = policy("split", arms=len(means), horizon=None, decision=terms, **options)
    counts = np.full((1, len(means)), users)
    for _ in range(blocks):
        chosen.observe_turns(chosen.turns + 2 * counts)
        chosen.observe(counts * np.asarray(means), counts, counts > 0)
    return chosen


def test_the_better_arm_is_named_with_its_interval_and_the_tipping_point():
    found = played([0.5, 0.56]).decision()
    said = found.sentence(["A", "B"], "finishes")
    assert said.startswith("B finishes more than A by 6.0 points (")
    assert said.endswith("; 95 % interval, valid at every look), among those who reported")
    assert 0 < found.lower < 0.06 < found.upper
    assert found.lift[1] < 0.12 < found.lift[2]
    assert found.tipping == pytest.approx(found.lower), "half were silent"
    said = found.tipping_sentence(["A", "B"])
    assert said.startswith("tipping point: the sign would flip if, among people who did not report, B were at least ")
    assert said.endswith(" points worse than A")
    assert json.loads(json.dumps(found.to_dict()))["kind"] == "better"


def test_no_difference_is_said_with_the_margin_and_the_arms():
    said = played([0.5, 0.501, 0.502]).decision().sentence(["A", "B", "C"])
    assert said == "no difference larger than 5 points between A, B and C, among those who reported"


def test_what_is_not_certain_is_said_to_lead():
    found = played([0.5, 0.52], blocks=4).decision()
    said = found.sentence(["A", "B"], "finishes")
    assert said.startswith("leading, not certain: B before A by 2.0 points (-")
    assert said.endswith(" more reports would decide it, if this stays so")
    assert found.tipping_sentence(["A", "B"]) == ""


@pytest.mark.parametrize("means", [[0.5, 0.54], [0.5, 0.5, 0.56], [0.5, 0.505]])
def test_so_many_more_reports_as_are_said_decide_it_if_all_stays_as_it_is(means):
    said = played(means, blocks=6, users=100).decision()
    after = next(blocks for blocks in range(6, 400) if played(means, blocks=blocks, users=100).decided[0])
    assert said.more == pytest.approx((after - 6) * 100 * len(means), rel=0.15)


def test_how_many_more_it_would_have_taken_is_said_at_the_end_too():
    chosen = played([0.5, 0.54], blocks=6, users=100)
    going_on = chosen.decision()
    chosen.stop()
    assert not chosen.odds().any()
    assert chosen.decision() == going_on
    assert going_on.more > 0


def test_an_arm_that_was_set_aside_since_it_is_worse_needs_no_more_reports():
    chosen = policy("concurrent-elimination", arms=3, horizon=None, epsilon=1.0, binary=True, trust="two-servers")
    means, counts = np.asarray([0.2, 0.8, 0.77]), np.full((1, 3), 400)
    while chosen.odds()[0, 0]:
        assigned = np.where(chosen.odds() > 0, counts, 0)
        chosen.observe(assigned * means, assigned, assigned > 0)
    said = chosen.decision()
    assert (said.kind, said.leader, said.reference) == ("leading", 1, 0)
    assert said.lower > 0
    wanted = chosen.comparison.reports_needed(0, 1, 2, chosen.levels.best)
    assert said.more == np.ceil(2 * wanted)


def test_a_leader_that_too_little_is_known_of_says_so():
    said = played([0.5, 0.501], blocks=4, smallest_effect=None).decision()
    assert said.more is None
    assert "more" not in said.to_dict()
    assert said.sentence(["A", "B"]).endswith(
        "it may as well be worse, and too little is known to say how many more reports would decide it"
    )


def test_a_metric_that_has_a_name_is_in_the_sentence():
    said = played([0.5, 0.56]).decision().sentence(["A", "B"], metric="finished")
    assert said.startswith("finished: B scores more than A by 6.0 points (")
    assert played([0.5, 0.5], blocks=0).decision().sentence(["A", "B"], metric="finished") == "no decision"


def test_before_the_first_block_there_is_no_decision():
    assert played([0.5, 0.5], blocks=0).decision().sentence(["A", "B"]) == "no decision"


def test_where_arms_do_not_report_alike_nothing_is_decided():
    chosen = policy("split", arms=2, horizon=None, epsilon=1.0, trust="two-servers")
    counts = np.asarray([[800, 600]])
    for _ in range(5):
        chosen.observe(counts * np.asarray([0.5, 0.7]), counts, counts > 0)
    assert not chosen.decided[0]
    found = chosen.decision()
    assert (found.kind, found.silent) == ("no decision", True)
    assert found.sentence(["A", "B"]).startswith("no decision: the arms do not report alike")


def test_a_minimum_run_is_waited_for():
    chosen = policy("split", arms=2, horizon=None, epsilon=1.0, trust="two-servers")
    chosen.may_decide, counts = False, np.asarray([[500, 500]])
    for _ in range(5):
        chosen.observe(counts * np.asarray([0.4, 0.6]), counts, counts > 0)
    assert not chosen.finished[0]
    assert chosen.decision().kind == "leading"
    assert (
        chosen.decision()
        .sentence(["A", "B"])
        .endswith("all is shown that it takes, and it has not run for as long as it must")
    )
    chosen.may_decide = True
    chosen.observe(counts * np.asarray([0.4, 0.6]), counts, counts > 0)
    assert chosen.finished[0]


def test_the_winner_is_exploited_with_a_share_for_the_control():
    chosen = played([0.4, 0.6], then="exploit", control_share=0.1)
    assert not chosen.finished[0]
    assert chosen.odds()[0] == pytest.approx([0.1, 0.9])
    assert not chosen.settled[0]
    alone = played([0.4, 0.6], then="exploit")
    assert alone.odds()[0].tolist() == [0.0, 1.0]
    assert alone.settled[0]


def test_a_large_tipping_point_is_said_to_be_beyond_reach():
    found = Decision("better", 1, 0, 0.2, 0.15, 0.25, tipping=1.4)
    assert "whatever the silent did" in found.tipping_sentence(["A", "B"])
