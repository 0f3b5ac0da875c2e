"""A program whose reports have several metrics: one vector a batch, guardrails that act, and files that are refused."""

import json

import pytest

from croupier.checks import CroupierError, InvalidParameter
from croupier.programs import program
from croupier.programs.program import Dealt
from croupier.service.experiment import plan

METRICS = {
    "finished": {"role": "primary"},
    "crashes": {"role": "guardrail", "high": 5, "cap": True, "better": "lower", "margin": 1.0},
    "minutes": {"high": 60},
}
SPLIT = {
    "kind": "comparison",
    "name": "split",
    "arms": 3,
    "epsilon": 8.0,
    "trust": "two-servers",
    "minimum_run": 0.0,
    "decision": {"smallest_effect": 0.2},
    "metrics": METRICS,
    "smallest": 100,
}
FILE = {
    "name": "onboarding",
    "arms": ["A", "B"],
    "program": {"policy": "split"},
    "metrics": METRICS,
}


def block(running, means, epoch=None):
    """Close the newest open block with these means, an arm each, in units of the ranges; what was asked for."""
    epoch = max(turn.block.epoch for turn in running.wanted) if epoch is None else epoch
    turns = [turn for turn in running.wanted if turn.block.epoch == epoch]
    for turn in turns:
        ((number, mechanism),) = turn.batches
        levels = [round(mechanism.users * mean * mechanism.precision) for mean in means[turn.arm]]
        running.released(number, levels, mechanism.users, Dealt(mechanism.users, over=True))
    return turns


def test_every_batch_asks_for_all_metrics_in_one_vector():
    running = program(json.loads(json.dumps(SPLIT)))
    assert [turn.arm for turn in running.wanted] == [0, 1, 2]
    ((_, mechanism),) = running.wanted[0].batches
    assert (mechanism.names, mechanism.outputs) == (("finished", "crashes", "minutes"), 3)
    assert running.epsilon == 8.0
    assert mechanism.loss.pure <= 8.0


def test_an_arm_that_harms_is_dealt_to_nobody_from_the_next_epoch_on_and_another_wins():
    running = program(SPLIT)
    running.begin()
    # C is best in what decides, and has two crashes more of five.
    means = [(0.3, 0.1, 0.5), (0.45, 0.1, 0.5), (0.9, 0.5, 0.5)]
    while not running.policy.watched.out.any():
        block(running, means)
    assert running.out == {2}
    assert {turn.arm for turn in running.wanted if turn.block.epoch == 1} == {0, 1}
    rows = {(row["metric"], row["arm"]): row for row in running.show()["metrics"]}
    assert rows["crashes", 2]["state"] == "harmed"
    assert rows["crashes", 2]["difference"] == pytest.approx(2.0, abs=0.5)
    while running.decision is None:
        block(running, means)
    assert (running.decision["kind"], running.decision["leader"]) == ("better", 1)
    assert running.decision["harms"] == [[2, "crashes"]]
    assert "waits" not in running.decision


def test_where_the_only_other_arm_harms_it_ends_with_the_control_before_the_minimum_run():
    running = program(SPLIT | {"arms": 2, "minimum_run": 1e9})
    running.begin()
    while not running.finished:
        block(running, [(0.3, 0.1, 0.5), (0.9, 0.6, 0.5)])
    assert (running.decision["kind"], running.decision["leader"], running.decision["reference"]) == ("harmful", 0, 1)


@pytest.mark.parametrize("decoded", [3, [3], [3, 4, 5, 6], [3.5, 1, 1], None, "x", [[1, 2, 3]]])
def test_totals_that_are_no_vector_of_these_metrics_are_refused_and_change_nothing(decoded):
    running = program(SPLIT)
    before = [turn.number for turn in running.wanted]
    with pytest.raises((InvalidParameter, TypeError, ValueError)):
        running.released(before[0], decoded, 100, Dealt(100))
    assert [turn.number for turn in running.wanted] == before


def test_a_file_with_metrics_is_planned_with_its_budget_defaults_and_proofs():
    found = plan(FILE)
    assert [(one["name"], one["epsilon"]) for one in found.recipe["sums"]] == [
        ("finished", 0.5),
        ("crashes", 0.25),
        ("minutes", 0.25),
    ]
    assert found.reports.default == {"finished": 0.0, "crashes": 0.0, "minutes": 0.0}
    assert (found.validity, found.trust, found.privacy.epsilon, found.privacy.delta) == ("prio3", "two-servers", 1.0, 0)
    assert (
        plan(FILE | {"reports": {"default": {"finished": 0, "crashes": 5, "minutes": 1}}}).reports.default["crashes"]
        == 5
    )


def test_a_single_metric_is_the_reward_under_a_name_and_reports_are_bare_numbers():
    found = plan(FILE | {"metrics": {"minutes": {"high": 60, "cap": True}}})
    assert "sums" not in found.recipe
    assert found.recipe["values"] == {"kind": "range", "low": 0.0, "high": 60, "binary": False, "clip": True}
    assert found.reports.default == 0.0
    assert plan(FILE | {"metrics": {"finished": {"role": "primary"}}}).recipe["values"]["binary"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"privacy": {"trust": "devices"}}, "privacy.trust = 'devices' .* two-servers where there are several metrics"),
        ({"privacy": {"trust": "nobody"}}, "privacy.trust = 'nobody'"),
        ({"privacy": {"delta": 1e-6}}, "delta = 1e-06"),
        ({"privacy": {"honest_fraction": 0.5}}, "privacy.honest_fraction = 0.5"),
        ({"reward": {"high": 5}}, "reward.high = 5 .* left out"),
        ({"program": {"policy": "dp-klucb", "horizon": 1000}}, "metrics = .* left out: nothing is decided here"),
        ({"metrics": {"a": {"role": "primary"}, "b": 1}}, "metrics.b = 1 .* a table"),
        ({"metrics": 3}, "metrics = 3 .* tables by name"),
        ({"metrics": METRICS | {"b": {"share": 0.7}}}, "share = "),
        ({"metrics": METRICS | {"Crashes": {}}}, "metric = 'Crashes'"),
        ({"metrics": {"a": {"better": "lower"}}}, "metrics.a.better = 'lower'"),
        ({"metrics": {"a": {"margin": 0.1}}}, "metrics.a.margin = 0.1"),
        ({"reports": {"default": 0}}, "value = 0 .* several numbers by name"),
        ({"reports": {"default": {"finished": 0, "crashes": 0}}}, "minutes is missing: .* given"),
    ],
)
def test_a_file_whose_metrics_cannot_be_is_refused_by_name(change, words):
    with pytest.raises(CroupierError, match=words):
        plan(FILE | change)
