"""Servers killed at random moments while real clients report over HTTP: what was accepted is released once, to the bit.

Every report is known to the test: which batch it goes to and what its sealed messages say. So each released number is
added up again from the reports that were told `accepted`, and a lost or doubled one changes it.
"""

import asyncio
import json
import math
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from contextlib import suppress

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cases.service import stores
from cases.service.people import read_report, total
from cases.service.processes import check_decisions, home_of, transcript_of, written
from cases.service.world import GENEROUS
from croupier.client import AsyncClient, Refused, Unreachable
from croupier.client.device import Response
from croupier.messages.offer import Offer
from croupier.messages.signing import from_text, to_text
from croupier.service import keys as key_files
from croupier.service.crowd import wait_finished
from croupier.service.crowd_wire import CrowdWire
from croupier.service.meters import STEP
from croupier.service.problems import URN
from croupier.service.processes import Child
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
"""Seconds until a service that does not come to an end has failed."""

MEANWHILE = 15
"""Reports that go out while a server is killed and starts again."""

PAUSE = 0.05
"""Seconds until a user asks again who found a server dead: to ask at once would only keep it from starting."""

ISSUER = Ed25519PrivateKey.generate()
TICKETS = {"admission": "tickets", "issuer": to_text(ISSUER.public_key().public_bytes_raw())}
"""Whom the front admits; then it need not add noise of its own, and every number can be added up again."""

LANES = ("colours",) * 5 + ("fruit",) * 3
OWN_GROUP = (sys.executable, "-c", "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])")
"""Starts a server in a process group of its own, so that its workers die with it."""


class Victims:
    """Both servers as process groups that can be killed and started again."""

    def __init__(self, home, experiments, settings):
        self.home, self.experiments, self.settings = home, experiments, settings
        self.children = {}
        home.prepare()

    def start(self, server):
        home, url = self.home, getattr(self.home, f"{server}_url")
        command = home.command(server, self.experiments, **self.settings[server])
        child = Child([*OWN_GROUP, *command], url, home.directory / server / "log.jsonl")
        self.children[server] = child
        child.wait_answering(path="/readyz" if server == "front" else "/healthz")

    def kill(self, server):
        """`kill -9` of the server, its workers and its openers, all at once."""
        process = self.children[server].process
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._wait_free(getattr(self.home, f"{server}_port"))

    def restart(self, server, seconds):
        """Kill it in so many seconds, and start it again."""
        time.sleep(seconds)
        self.kill(server)
        self.start(server)

    @staticmethod
    def _wait_free(port):
        """The last of a group to die may still hold the port for a moment."""
        for _ in range(200):
            with socket.socket() as probe, suppress(OSError):
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                return
            time.sleep(0.02)

    def stop(self):
        for child in self.children.values():
            child.stop()
            with suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)


class Watched(CrowdWire):
    """The clients' wire: counts reports and what is answered to them.

    Kills are due after so many reports, and a restart may take any time: of those that come meanwhile only some go out
    before it is over, or else a slow restart would let all of them pass, and the next kill would find none.
    """

    def __init__(self):
        super().__init__()
        self.begun, self.answers, self._most = 0, Counter(), math.inf
        self._changed = asyncio.Condition()

    async def exchange(self, request):
        if not request.url.endswith("/reports"):
            return await super().exchange(request)
        async with self._changed:
            await self._changed.wait_for(lambda: self.begun < self._most)
            self.begun += 1
            self._changed.notify_all()
        answer = await super().exchange(request)
        if isinstance(answer, Response):
            body = json.loads(answer.content)
            self.answers[body["status"] if answer.status < 400 else body["type"].removeprefix(URN)] += 1
        return answer

    async def more(self, reports):
        """Wait until so many more are on their way."""
        async with self._changed:
            due = self.begun + reports
            self._most = due + MEANWHILE
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self.begun >= due)

    async def all_the_rest(self):
        async with self._changed:
            self._most = math.inf
            self._changed.notify_all()


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
                async with asyncio.timeout(PATIENCE):
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
        wait_joinable(home)
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


def wait_joinable(home):
    """Both servers have signed both experiments."""
    end = time.monotonic() + 60
    for name in ("colours", "fruit"):
        while httpx2.get(f"{home.analyzer_url}/experiments/{name}", timeout=30).status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.05)


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
    ("kills", "horizon", "rounds"), [(2, 128, 3), pytest.param(20, 1200, 20, marks=pytest.mark.evidence)]
)
def test_kills_under_load_lose_nothing_and_count_nothing_twice(tmp_path, kills, horizon, rounds):
    settings = {"front": TICKETS | {"due_within": 1, "openers": 1}, "analyzer": {"openers": 0}}
    check_all(*killed_under_load(tmp_path, 6, kills, {"horizon": horizon, "rounds": rounds}, settings))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "horizon", "rounds"), [(2, 128, 3), pytest.param(12, 800, 14, marks=pytest.mark.evidence)]
)
def test_two_workers_on_postgresql_are_killed_under_load_and_lose_nothing(tmp_path, kills, horizon, rounds):
    addresses = {server: stores.new_store("postgresql", tmp_path) for server in ("front", "analyzer")}
    settings = {
        "front": TICKETS | {"due_within": 1, "openers": 1, "workers": 2, "store": addresses["front"]},
        "analyzer": {"openers": 0, "store": addresses["analyzer"]},
    }
    check_all(*killed_under_load(tmp_path, 3, kills, {"horizon": horizon, "rounds": rounds}, settings))
