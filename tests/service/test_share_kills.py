"""Thousands of devices report in shares while either server is killed: every report is in exactly one total.

Both servers are real processes, of which only the noise is left out. Each report holds a random number of 40 bits, and
all totals of an arm together are the sum of its reports' numbers: one that is lost, counted twice or under another arm
goes unseen with chance 2^-40. Both servers also sign which reports a batch holds, as the XOR of the hashes of their
names, and how many. All batches together have the XOR and the number of the accepted reports: so each of these is there
an odd number of times, and once.

Arms take turns in one experiment. In the other they are side by side in blocks, whose odds change with what is found:
reports of turns that were dealt by the odds before fall into late blocks, which end while others are open.
"""

import asyncio
import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

import cases.service
from cases.service import stores
from cases.service.noiseless import MARK_BITS, without_noise
from cases.service.processes import home_of, transcript_of, written
from cases.service.victims import PAUSE, Victims, Watched, wait_joinable
from cases.service.world import GENEROUS
from croupier.client import AsyncClient, Refused, Unreachable
from croupier.messages.offer import Offer
from croupier.messages.signing import from_text
from croupier.service import verifying
from croupier.service.groups import set_hash

LANES, SILENT, DEADLINE = 24, 0.3, 1
PATIENCE = 3600
"""Seconds until a service that does not come to an end has failed."""
LAST = 30
"""So many looks are enough for the last reports to be counted; what is not by then is lost."""
NAME = "colours"
EXPERIMENTS = {
    "in turn": f"""
name = "{NAME}"
arms = ["red", "green"]
[program]
policy = "vb-sdp-ae"
horizon = 1000000000
growth = 1.2
[reward]
low = 0
high = 1
[reports]
report_within = 3600
report_at = [0, 0]
[batches]
smallest = 2
deadline = {DEADLINE}
""",
    "in blocks": f"""
name = "{NAME}"
arms = ["red", "green", "blue"]
[program]
policy = "dp-top-two"
growth = 1.0
[decision]
smallest_effect = 0.000001
[reward]
low = 0
high = 1
[reports]
report_within = 5
report_at = [0, 0]
[batches]
smallest = 8
deadline = {DEADLINE}
""",
}
"""Few of those who are out when odds change report an arm: a late block has less than the smallest number."""


class Crowd:
    """Devices that take one turn each, some of which stay silent; what the others sent and were told counts."""

    def __init__(self, home, devices, rng):
        self.home, self.left, self.rng = home, devices, rng
        self.silent = self.late = 0
        self.accepted: dict[bytes, tuple[int | None, int]] = {}
        """The arm and the number of every report that was accepted, by its name."""

    async def run(self, victims, kills):
        """All devices, and meanwhile so many kills at random moments; then some more until all are counted."""
        apart = int(self.left * (1.0 - SILENT)) // (kills + 1)
        servers = [("front", "analyzer")[number % 2] for number in range(kills)]
        self.rng.shuffle(servers)
        async with Watched() as http:
            first = AsyncClient(self.home.analyzer_url, http=http, limits=GENEROUS, background=False)
            joined = await first.join(NAME)
            lanes = asyncio.gather(*(self.lane(http, joined) for _ in range(LANES)))
            async with asyncio.timeout(PATIENCE):
                for number, server in enumerate(servers):
                    enough = asyncio.ensure_future(http.more(self.rng.randint(apart // 2, apart)))
                    await asyncio.wait((enough, lanes), return_when=asyncio.FIRST_COMPLETED)
                    assert not lanes.done(), f"all devices were through before kill {number}: {lanes}"
                    print(f"kill {number}: the {server}, at report {http.begun}")
                    await asyncio.to_thread(victims.restart, server, self.rng.uniform(0.0, 0.05))
                await http.all_the_rest()
                await lanes
                for _ in range(LAST):
                    if len(self.accepted) == (counted := await self.counted()):
                        break
                    await asyncio.sleep(2 * DEADLINE)
                    if await self.counted() == counted:
                        # An arm's last reports wait for others: a batch has a smallest number.
                        await asyncio.gather(*(self.device(http, joined) for _ in range(LANES)))
            return http.answers

    async def counted(self):
        """How many reports are in released totals."""
        transcript = await asyncio.to_thread(transcript_of, self.home, NAME)
        return sum(json.loads(line).get("users", 0) for line in transcript.splitlines())

    async def lane(self, http, joined):
        while self.left > 0:
            self.left -= 1
            await self.device(http, joined, silent=self.rng.random() < SILENT)

    async def device(self, http, joined, silent=False):
        """One device, as patient as an app that sends again when it is started the next time."""
        keys = joined.configuration.verify_keys
        client = AsyncClient(self.home.analyzer_url, http=http, limits=GENEROUS, background=False, keys=keys)
        client.device.joined = {NAME: joined}
        while True:
            try:
                turn = await client.play(NAME, patience=60.0)
                break
            except Unreachable:
                await asyncio.sleep(PAUSE)
        if silent:
            self.silent += 1
            return
        number = self.rng.getrandbits(MARK_BITS)
        steps = client.device.send_now(turn, number / 2**MARK_BITS)
        while True:
            try:
                await client._run(steps)
                break
            except Unreachable:
                await asyncio.sleep(PAUSE)
                (pending,) = client.device.account.pending.values()
                steps = client.device._send(pending)
            except Refused:
                # Its server was down for too long. One that had been accepted would be told so, however late it is.
                self.late += 1
                return
        self.accepted[turn.report] = (turn.arm, number)


def killed(tmp_path, monkeypatch, arms, devices, kills, settings, seed):
    """Run it; the crowd, what was answered to reports, and the transcript."""
    here = Path(cases.service.__file__).parent
    path = [here / "bare", here.parent.parent, os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, path)))
    home, rng = home_of(tmp_path), random.Random(seed)
    victims = Victims(home, [written(tmp_path, EXPERIMENTS[arms])], settings)
    crowd = Crowd(home, devices, rng)
    try:
        for server in ("front", "analyzer"):
            victims.start(server)
        wait_joinable(home, NAME)
        began = time.monotonic()
        answers = asyncio.run(crowd.run(victims, kills))
        print(f"{devices} devices in {time.monotonic() - began:.0f} s, answers to reports: {dict(answers)}")
        return crowd, answers, transcript_of(home, NAME)
    finally:
        victims.stop()


def check_everything_counts_once(accepted, transcript):
    """All totals together, arm by arm, are the accepted reports; and so are the sets that both servers signed."""
    records = [json.loads(line) for line in transcript.splitlines()]
    offers = [Offer.from_text(record["offer"]["body"]) for record in records if record["event"] == "opened"]
    arms = {batch.number: offer.arm for offer in offers for batch in offer.batches}
    released = [record for record in records if record["event"] == "released"]
    assert len({record["batch"] for record in released}) == len(released)
    totals, users, sets = Counter(), Counter(), 0
    for record in released:
        signed = json.loads(record["receipt"]["body"])
        assert signed["reports"] == record["users"]
        totals[arms[record["batch"]]] += record["decoded"]
        users[arms[record["batch"]]] += record["users"]
        sets ^= int.from_bytes(from_text("set", signed["set"]), "big")
    for arm in {*arms.values()}:
        numbers = [number for place, number in accepted.values() if place == arm]
        assert users[arm] == len(numbers)
        assert totals[arm] == sum(numbers), f"a report of arm {arm} is lost, or counts twice"
    assert sets == int.from_bytes(set_hash(accepted), "big")
    return released


def epochs_of(transcript):
    """How many totals were released of each time of equal odds; where arms take turns there is none."""
    records = [json.loads(line) for line in transcript.splitlines()]
    offers = [Offer.from_text(record["offer"]["body"]) for record in records if record["event"] == "opened"]
    epochs = {batch.number: offer.block.epoch for offer in offers if offer.block for batch in offer.batches}
    released = {record["batch"] for record in records if record["event"] == "released"}
    return {epoch: sum(epochs.get(number) == epoch for number in released) for epoch in {*epochs.values()}}


def _without_one(accepted):
    accepted.popitem()
    return accepted


def _with_another_number(accepted):
    name, (arm, number) = accepted.popitem()
    return accepted | {name: (arm, number ^ 1)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "arms", "devices", "kills"),
    [
        ("sqlite", "in blocks", 160, 2),
        pytest.param("sqlite", "in turn", 20_000, 30, marks=pytest.mark.evidence),
        pytest.param("postgresql", "in turn", 20_000, 30, marks=pytest.mark.evidence),
        pytest.param("sqlite", "in blocks", 20_000, 30, marks=pytest.mark.evidence),
    ],
)
def test_every_report_is_in_one_total_whoever_is_killed(
    tmp_path, monkeypatch, record_property, kind, arms, devices, kills
):
    """On PostgreSQL the front has two workers; each worker has a process that opens and one that closes."""
    settings = {"front": {"due_within": 1, "openers": 1}, "analyzer": {"openers": 0}}
    if kind == "postgresql":
        settings["front"]["workers"] = 2
        for server in settings:
            settings[server]["store"] = stores.new_store(kind, tmp_path)
    with without_noise(monkeypatch):
        crowd, answers, transcript = killed(tmp_path, monkeypatch, arms, devices, kills, settings, seed=7)
        released = check_everything_counts_once(crowd.accepted, transcript)
        assert set(answers) <= {"accepted", "repeated", "token-expired"}
        assert crowd.late == answers["token-expired"]
        monkeypatch.setattr(verifying, "check_decoded", lambda *_: None)
        verdict = verifying.verify(transcript)
    for spoilt in (_without_one, _with_another_number):
        with pytest.raises(AssertionError):
            check_everything_counts_once(spoilt(dict(crowd.accepted)), transcript)
    assert (verdict.reports, verdict.damaged, verdict.refused) == (len(crowd.accepted), 0, 0)
    epochs = epochs_of(transcript)
    if arms == "in blocks":
        assert len(epochs) > 1, "odds have changed"
    else:
        assert (verdict.expired, crowd.late) == (0, 0)
    record_property("devices", devices)
    record_property("silent", crowd.silent)
    record_property("kills", kills)
    record_property("reports accepted", len(crowd.accepted))
    record_property("answers to reports", dict(answers))
    record_property("totals", len(released))
    record_property("totals by epoch", epochs)
    print(f"{len(crowd.accepted)} accepted, {crowd.late} late, {len(released)} totals, by epoch {epochs}")
