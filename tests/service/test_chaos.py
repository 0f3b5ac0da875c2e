"""Servers killed at random moments while real clients report over HTTP: what was accepted is released once, to the bit.

Every report is known to the test: which batch it goes to and what its sealed messages say. So each released number is
added up again from the reports that were told `accepted`, and a lost or doubled one changes it.
"""

import asyncio
import json
import random
import time

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cases.service import stores
from cases.service.people import read_report, total
from cases.service.processes import check_decisions, home_of, transcript_of, written
from cases.service.victims import PAUSE, Victims, Watched, wait_joinable
from cases.service.world import GENEROUS
from croupier.client import AsyncClient, Refused, Unreachable
from croupier.messages.offer import Offer
from croupier.messages.signing import from_text, to_text
from croupier.service import keys as key_files
from croupier.service.crowd import wait_finished
from croupier.service.meters import STEP
from croupier.service.tickets import issue
from croupier.service.verifying import verify

BANDIT = """
name = "colours"
arms = ["red", "green", "blue"]
[program]
policy = "vb-sdp-ae"
horizon = {horizon}
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 4.0
front_noise = false
[reward]
protocol = "shuffled-laplace"
[batches]
smallest = 32
deadline = 600
"""
HISTOGRAM = """
name = "fruit"
[program]
kind = "histogram"
users = 16
rounds = {rounds}
items = {items}
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 8.0
delta = 0.001
trust = "shuffler"
front_noise = false
[batches]
deadline = 600
"""
ITEMS = [f"item {number}" for number in range(300)]
PATIENCE = 240
"""Seconds in which no report was accepted, after which a service stands still: a busy machine is only slow."""

ISSUER = Ed25519PrivateKey.generate()
TICKETS = {"admission": "tickets", "issuer": to_text(ISSUER.public_key().public_bytes_raw())}
"""Whom the front admits; then it need not add noise of its own, and every number can be added up again."""

LANES = ("colours",) * 5 + ("fruit",) * 3


class Load:
    """Users of both experiments, one after the other in several lanes; what each sent, and what each was told."""

    def __init__(self, home):
        self.home, self.sent, self.accepted = home, {}, set()
        self.keys = {server: key_files.load(home.directory / server / "keys") for server in ("front", "analyzer")}
        self.items = iter(ITEMS * 9)

    async def lane(self, http, name, joined, rng):
        while True:
            client = AsyncClient(self.home.analyzer_url, http=http, limits=GENEROUS, background=False)
            client.device.joined = {name: joined}
            try:
                ticket = issue(ISSUER, name, int(time.time()) + 3600)
                turn = await client.play(name, patience=30.0, ticket=ticket)
            except Unreachable:
                await asyncio.sleep(PAUSE)
                continue
            except Refused as refusal:
                if refusal.problem == "experiment-finished":
                    return
                continue
            value = next(self.items) if name == "fruit" else float(rng.random() < (0.2, 0.5, 0.8)[turn.arm])
            await self.report(client, turn, value)

    async def report(self, client, turn, value):
        """Until the report's fate is known, as an app does that asks again when it is started the next time."""
        sealed = client.device.sealed

        def noted(turn, value):
            pending = sealed(turn, value)
            body, keys = from_text("body", pending.body), self.keys
            name = turn.joined.configuration.experiment
            self.sent[pending.report] = read_report(name, body, turn.offer, keys["front"], keys["analyzer"])
            mine.append(pending.report)
            return pending

        client.device.sealed, mine, steps = noted, [], client.device.send_now(turn, value)
        while True:
            try:
                await client._run(steps)
                self.accepted.update(mine)
                self.clock.reschedule(asyncio.get_running_loop().time() + PATIENCE)
                return
            except Refused:
                return
            except Unreachable:
                await asyncio.sleep(PAUSE)
                (pending,) = client.device.account.pending.values()
                steps = client.device._send(pending)

    async def run(self, victims, kills, rng):
        """All lanes until both experiments have ended, and meanwhile so many kills; returns what was answered."""
        async with Watched() as http:
            first = AsyncClient(self.home.analyzer_url, http=http, limits=GENEROUS, background=False)
            joined = {name: await first.join(name) for name in ("colours", "fruit")}
            lanes = asyncio.gather(*(self.lane(http, name, joined[name], rng) for name in LANES))
            try:
                async with asyncio.timeout(PATIENCE) as self.clock:
                    for number in range(kills):
                        enough = asyncio.ensure_future(http.more(rng.randint(5, 25)))
                        await asyncio.wait((enough, lanes), return_when=asyncio.FIRST_COMPLETED)
                        assert not lanes.done(), f"the load was over before kill {number}: {lanes}"
                        server = rng.choice(("front", "front", "analyzer"))
                        print(f"kill {number}: the {server}, at report {http.begun}")
                        await asyncio.to_thread(victims.restart, server, rng.uniform(0.0, 0.03))
                    await http.all_the_rest()
                    await lanes
            except TimeoutError:
                raise AssertionError(f"it stands still: {await asyncio.to_thread(self.standing, http)}") from None
            return http.answers

    def standing(self, http):
        """What both servers say of a run that does not come to its end."""
        found = {"begun": http.begun, "answers": dict(http.answers)}
        for server, path in (("front", "batches"), ("analyzer", "state")):
            for name in ("colours", "fruit"):
                url = f"{getattr(self.home, f'{server}_url')}/experiments/{name}/{path}"
                try:
                    found[f"{server} {name}"] = httpx2.get(url, timeout=10).text[:2000]
                except httpx2.TransportError as error:
                    found[f"{server} {name}"] = repr(error)
        return found


def killed_under_load(tmp_path, seed, kills, sizes, settings):
    """Run it, and return what was sent and accepted, and what the servers say in the end."""
    home, rng = home_of(tmp_path), random.Random(seed)
    experiments = [
        written(tmp_path, BANDIT.format(**sizes), "colours.toml"),
        written(tmp_path, HISTOGRAM.format(items=json.dumps(ITEMS), **sizes), "fruit.toml"),
    ]
    victims = Victims(home, experiments, settings)
    try:
        for server in ("front", "analyzer"):
            victims.start(server)
        wait_joinable(home, "colours", "fruit")
        load = Load(home)
        answers = asyncio.run(load.run(victims, kills, rng))
        ends = {name: wait_finished(home.analyzer_url, name, 60) for name in ("colours", "fruit")}
        transcripts = {name: transcript_of(home, name) for name in ends}
        standings = {
            name: httpx2.get(f"{home.front_url}/experiments/{name}/batches", timeout=30).json() for name in ends
        }
    finally:
        victims.stop()
    print(f"seed {seed}: {kills} kills, answers to reports: {dict(answers)}")
    assert set(answers) <= {"accepted", "repeated", "batch-closed"}
    return load, ends, transcripts, standings


def check_all(load, ends, transcripts, standings):
    for name, transcript in transcripts.items():
        assert ends[name]["finished"]
        mine = [load.sent[report] for report in load.accepted if load.sent[report].experiment == name]
        assert standings[name]["accepted"] == len(mine) // STEP * STEP
        assert {one["state"] for one in standings[name]["batches"]} == {"released"}
        check_numbers(transcript, mine)
        verdict = verify(transcript)
        assert verdict.finished
        assert (verdict.reports, verdict.damaged, verdict.expired) == (len(mine), 0, 0)
    program = check_decisions(transcripts["colours"])
    assert program.finished
    assert int(program.policy.best_arm[0]) == ends["colours"]["program"]["best_arm"]


def check_numbers(transcript, accepted):
    """Every batch was released once, and is the sum of the reports that were told that they are in it."""
    records = [json.loads(line) for line in transcript.splitlines()]
    offers = [Offer.from_text(record["offer"]["body"]) for record in records if record["event"] == "opened"]
    mechanisms = {batch.number: batch.mechanism for offer in offers for batch in offer.batches}
    released = [record for record in records if record["event"] == "released"]
    assert sorted(record["batch"] for record in released) == sorted(mechanisms)
    for record in released:
        number = record["batch"]
        said = [sent.said[number] for sent in accepted if number in sent.said]
        assert len(said) == mechanisms[number].users
        assert record["decoded"] == total(mechanisms[number], [slot for slots in said for slot in slots]), number


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "horizon", "rounds"), [(2, 64, 2), pytest.param(20, 1200, 20, marks=pytest.mark.evidence)]
)
def test_kills_under_load_lose_nothing_and_count_nothing_twice(tmp_path, kills, horizon, rounds):
    settings = {"front": TICKETS | {"due_within": 1, "openers": 1}, "analyzer": {"openers": 0}}
    check_all(*killed_under_load(tmp_path, 6, kills, {"horizon": horizon, "rounds": rounds}, settings))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "horizon", "rounds", "openers"), [(2, 64, 2, 0), pytest.param(12, 800, 14, 1, marks=pytest.mark.evidence)]
)
def test_two_workers_on_postgresql_are_killed_under_load_and_lose_nothing(tmp_path, kills, horizon, rounds, openers):
    addresses = {server: stores.new_store("postgresql", tmp_path) for server in ("front", "analyzer")}
    settings = {
        "front": TICKETS | {"due_within": 1, "openers": openers, "workers": 2, "store": addresses["front"]},
        "analyzer": {"openers": 0, "store": addresses["analyzer"]},
    }
    check_all(*killed_under_load(tmp_path, 3, kills, {"horizon": horizon, "rounds": rounds}, settings))
