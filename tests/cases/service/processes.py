"""Both servers as processes: where their files lie, small experiments as files, and how a transcript is checked."""

import json
from collections import Counter, defaultdict

import httpx2
import numpy as np

from croupier.bandits import policy as make_policy
from croupier.messages.offer import Offer
from croupier.programs import replay
from croupier.programs.comparison import finite
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
TIPS = """
name = "tips"
title = "The tip that fits"
arms = ["<u>checklist</u>", "mail, the name of which is a little longer", "video"]
[program]
kind = "linear"
users = 80
first = 40
ratio = 2.0
control = 0.25
[program.features]
age = [18, 80]
evening = [0, 100]
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 8.0
"""
QUICK = {"front": {"due_within": 1, "openers": 0}, "analyzer": {"openers": 0}}
SELDOM = QUICK | {"analyzer": QUICK["analyzer"] | {"poll": 0.2}}
"""For servers that wait most of the time, while pages are looked at: they look at each other less often."""
METRICS = """
[metrics.finished]
role = "primary"
[metrics.crashes]
role = "guardrail"
high = 5
cap = true
better = "lower"
margin = 2.0
rate = 0.5
[metrics.minutes]
high = 60
"""
"""Three numbers a report: what decides, what must not get worse, and one more."""


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


def in_process(transcript):
    """What a policy decides that is told the totals of a log, block after block, by nothing but its own methods."""
    records = [json.loads(line) for line in transcript.splitlines()]
    asked = json.loads(records[0]["configuration"]["body"])["program"]
    del asked["kind"], asked["minimum_run"]
    policy, offers, came, turns = make_policy(horizon=None, **asked), {}, defaultdict(dict), {}
    for record in records:
        if record["event"] == "opened":
            offer = Offer.from_text(record["offer"]["body"])
            offers[offer.batches[0].number] = offer
        elif record["event"] == "released":
            offer = offers[record["batch"]]
            came[offer.block.number][offer.arm] = (offer, record)
            # Those of its arm in its epoch, so far.
            turns[offer.block.epoch, offer.arm] = record["turns"]
            if len(came[offer.block.number]) == len(offer.block.batches):
                tell(policy, came[offer.block.number], turns)
        elif record["event"] == "decided":
            return finite(policy.decision().to_dict())
    return None


def tell(policy, block, turns):
    users, odds, dealt = np.zeros((3, 1, policy.arms))
    sums = np.zeros((1, policy.arms, 1 + len(policy.watched.others)))
    for arm, (offer, record) in block.items():
        mechanism = offer.batches[0].mechanism.for_users(record["users"])
        sums[0, arm], users[0, arm] = mechanism.unit_sums(record["decoded"]), record["users"]
        odds[0, arm] = offer.odds
    for (_, arm), count in turns.items():
        dealt[0, arm] += count
    policy.observe_turns(dealt.astype(int))
    policy.observe(sums[..., 0], users.astype(int), users > 0, odds, beside=sums[..., 1:])
