"""Both servers as processes: where their files lie, small experiments as files, and how a transcript is checked."""

import json
from collections import Counter

import httpx

from croupier.bandits import Expired, Operated, Released, Session
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.service.processes import Home, free_port

COUNTER = """
name = "steps"
title = "How many have finished so far?"
[program]
kind = "counter"
users = 200
shufflers = 2
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
    return httpx.get(f"{home.analyzer_url}/experiments/{name}/transcript", timeout=30).text


def check_decisions(transcript):
    """An in-process session, told the same events, makes every decision that the service made; returns the counts."""
    records = [json.loads(line) for line in transcript.splitlines()]
    parameters = dict(Configuration.from_text(records[0]["configuration"]["body"]).program)
    assert parameters.pop("kind") == "bandit"
    session = Session(parameters)
    released = Counter()
    for record in records[1:]:
        if record["event"] == "opened":
            offer = Offer.from_text(record["offer"]["body"])
            (batch,) = offer.batches
            wanted = {one.batch: one for one in session.open_batches}
            assert (wanted[batch.number].arm, wanted[batch.number].users) == (offer.arm, batch.mechanism.users)
        elif record["event"] == "released":
            released[record["batch"]] += 1
            users = next(one.users for one in session.open_batches if one.batch == record["batch"])
            assert json.loads(record["receipt"]["body"])["reports"] == users
            session.observe(Released(record["batch"], record["decoded"]))
        elif record["event"] == "expired":
            session.observe(Expired(record["batch"]))
        elif record["event"] == "operated":
            session.observe(Operated(record["operation"], record.get("arm")))
    assert set(released.values()) == {1}
    return session
