"""Both servers as processes: where their files lie, small experiments as files, and how a transcript is checked."""

import json
from collections import Counter

import httpx2

from croupier.programs import replay
from croupier.service.processes import Home, free_port

COUNTER = """
name = "steps"
title = "How many have finished so far?"
[program]
kind = "counter"
users = 200
shufflers = 2
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 4.0
[reward]
protocol = "shuffled-bits"
"""
HISTOGRAM = """
name = "fruit"
title = "Which fruit do people like?"
[program]
kind = "histogram"
users = 60
items = ["apple", "pear", "plum"]
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 4.0
"""
QUICK = {"front": {"due_within": 1, "openers": 0}, "analyzer": {"openers": 0}}


def home_of(tmp_path):
    return Home(tmp_path / "home", free_port(), free_port())


def written(tmp_path, text, name="experiment.toml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def transcript_of(home, name):
    return httpx2.get(f"{home.analyzer_url}/experiments/{name}/transcript", timeout=30).text


def check_decisions(transcript):
    """A program in this process, told the same, wants every turn that the service opened; returns how it stands."""
    released = Counter()
    for state in replay(map(json.loads, transcript.splitlines())):
        change = state.last
        if change.event == "released":
            released[change.batch.number] += 1
            assert json.loads(change.record["receipt"]["body"])["reports"] == change.batch.mechanism.users
    assert set(released.values()) == {1}
    return state.program
