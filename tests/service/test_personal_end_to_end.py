"""A personalised experiment over HTTP, in processes of its own, with a crowd of whom a third never report."""

import csv
import json
import time
from pathlib import Path

import pytest

from cases.service.processes import home_of, transcript_of, written
from croupier.linear import LinearServer
from croupier.messages.offer import Offer
from croupier.personal import Rule
from croupier.service.crowd import Crowd, run, wait_finished
from croupier.service.experiment import read_plan
from croupier.service.processes import both
from croupier.service.verifying import verify

ROOT = Path(__file__).parent.parent.parent
FILE = """
name = "tips"
arms = ["checklist", "mail", "video"]
[program]
kind = "linear"
users = {users}
control = 0.1
exploration = 0.15
ratio = {ratio}
[program.features]
age = [18, 80]
{features}
[privacy]
epsilon = {epsilon}
[reports]
report_within = 600
report_at = [0, 0]
validity = "{validity}"
[batches]
deadline = 60
"""
MORE = "sessions = [0, 30]\nevening = [0, 100]"


def replayed(plan, transcript):
    """The library's own server, told what was released: its rule must be the published one at every step."""
    server = LinearServer(plan.program().plan)
    rules = 0
    for record in map(json.loads, transcript.splitlines()):
        if record["event"] == "opened":
            assert Offer.from_text(record["offer"]["body"]).arm is None
            assert Rule.from_json(record["rule"]) == server.rule
            rules += 1
        elif record["event"] == "released":
            [batch] = server.open
            server.arrive(record["users"])
            if server.room:
                server.close()
            server.release(batch.number, tuple(record["decoded"]))
    return server, rules


def people_of(directory, file):
    """The rows of the example, with the features of the experiment alone."""
    with (ROOT / "examples/tips.csv").open(encoding="utf-8", newline="") as example:
        rows = list(csv.DictReader(example))
    names = [*(one["name"] for one in read_plan(file).parameters["features"]), "tip", "finished"]
    lines = [names, *([row[name] for name in names] for row in rows)]
    path = directory / "tips.csv"
    path.write_text("\n".join(map(",".join, lines)) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "silent", "epsilon", "ratio", "validity", "features"),
    [
        (140, 0.3, 8.0, 1.3, "prio3", ""),
        pytest.param(14_000, 0.3, 1.0, 1.3, "none", MORE, marks=pytest.mark.evidence),
        # One feature, so that it ends in minutes: proofs grow with the square of the features.
        pytest.param(14_000, 0.3, 1.0, 1.3, "prio3", "", marks=pytest.mark.evidence),
    ],
    ids=["few", "many", "many, with proofs"],
)
def test_a_crowd_of_whom_a_third_never_report_is_served_by_a_rule_that_follows(
    tmp_path, record_property, users, silent, epsilon, ratio, validity, features
):
    """As many devices come as make so many reports: 20,000 for the larger ones."""
    home = home_of(tmp_path)
    text = FILE.format(users=users, epsilon=epsilon, ratio=ratio, validity=validity, features=features)
    file = written(tmp_path, text)
    with both(home, [file], front={"due_within": 1, "group_seconds": 0.02}):
        people = {"silent": silent, "data": people_of(tmp_path, file), "at_once": 128, "seed": 1}
        crowd = Crowd(home.analyzer_url, "tips", 2 * users, (), **people, keys=home.verify_keys)
        began = time.perf_counter()
        outcomes = run(crowd)
        state = wait_finished(home.analyzer_url, "tips", 30)
        transcript = transcript_of(home, "tips")
    assert state["finished"], state
    server, rules = replayed(read_plan(file), transcript)
    assert rules > 3
    verdict = verify(transcript)
    assert verdict.finished
    shown = verdict.result
    assert shown["users"] == server.summed >= users - 32
    # Of those who had a turn; others came after the end.
    assert outcomes["silent"] > 0.2 * (outcomes["silent"] + outcomes["accepted"])
    record_property("devices that had a turn", outcomes["silent"] + outcomes["accepted"])
    record_property("seconds", round(time.perf_counter() - began))
    record_property("reports", outcomes["accepted"])
    record_property("what was learnt", shown["gain"]["sentence"])
