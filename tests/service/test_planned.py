"""What `plan` says of an experiment is what real servers and real clients take for it."""

import json

import pytest

from cases.service.processes import QUICK, home_of, transcript_of, written
from croupier.service.crowd import Crowd, run, wait_finished
from croupier.service.processes import both
from croupier.service.verifying import verify
from croupier.simulation.forecasts import forecast

pytestmark = pytest.mark.slow

MEANS, EFFECT = (0.4, 0.6), 0.2
FAR = (0.3, 0.7)
"""Means that are told apart by few."""
PLANNED = """
name = "{name}"
arms = ["old", "new"]
[program]
policy = "split"
[decision]
smallest_effect = {effect}
rate = {rate}
minimum_run = 0
[reports]
report_within = 600
report_at = [0, 0]
[batches]
smallest = {smallest}
"""


def reports_until_decided(transcript):
    """How many reports were in the blocks that a decision rests on."""
    reports = 0
    for record in map(json.loads, transcript.splitlines()):
        if record["event"] == "decided":
            return reports
        reports += record["users"] if record["event"] == "released" else 0
    return float("inf")


def real_runs(tmp_path, runs, smallest, means=MEANS):
    """The experiment that was planned, so many times: what each took, and what was decided."""
    home = home_of(tmp_path)
    names, effect = [f"planned-{number}" for number in range(runs)], round(means[1] - means[0], 9)
    texts = {name: PLANNED.format(name=name, effect=effect, rate=means[0], smallest=smallest) for name in names}
    files = [written(tmp_path, text, f"{name}.toml") for name, text in texts.items()]
    with both(home, files, **QUICK):
        for number, name in enumerate(names):
            # Few at a time: a block has what came until it was cut, and a plan knows of nobody who is on the way.
            run(Crowd(home.analyzer_url, name, 6000, means, silent=0.2, at_once=4, seed=number, keys=home.verify_keys))
            wait_finished(home.analyzer_url, name, 60)
            transcript = transcript_of(home, name)
            yield reports_until_decided(transcript), verify(transcript).decision


def test_a_real_run_takes_as_long_as_any_planned_one(tmp_path):
    """Between the extremes of 4,000 simulated runs; one in a thousand real ones would be outside, or find nothing."""
    planned = forecast("split", means=list(FAR), epsilon=1.0, trust="two-servers", runs=4000)
    ((reports, decision),) = real_runs(tmp_path, 1, planned.batch, FAR)
    assert planned.better.users.min() <= reports <= planned.better.until(0.9995) + planned.batch
    assert decision["kind"] == "better"


@pytest.mark.evidence
def test_real_runs_lie_in_the_95_per_cent_range_of_their_plan(tmp_path, record_property):
    """Of twelve, five or more outside would come about once in 5,000 times."""
    planned = forecast("split", means=list(MEANS), epsilon=1.0, trust="two-servers", runs=4000)
    low, high = planned.better.until(0.025), planned.better.until(0.975)
    found = list(real_runs(tmp_path, 12, planned.batch))
    taken, decisions = [reports for reports, _ in found], [decision for _, decision in found]
    shown = {"low": low, "median": planned.better.until(0.5), "high": high, "taken": taken, "decisions": decisions}
    record_property("real runs", shown)
    assert sum(low <= reports <= high for reports in taken) >= 8
    assert planned.wrong < 0.01
    # Here the difference is just the margin, so "no difference" is no error. In 81 of 20,000 simulated runs that came
    # first: two of twelve would come about once in 900 such tests.
    kinds = [(decision["kind"], decision["leader"]) for decision in decisions]
    assert kinds.count(("better", 1)) >= 11
    assert all(kind != "better" or leader == 1 for kind, leader in kinds)
    # Each interval misses the difference once in twenty times at most: three of twelve in one of 50 such tests.
    assert sum(decision["lower"] <= EFFECT <= decision["upper"] for decision in decisions) >= 10
