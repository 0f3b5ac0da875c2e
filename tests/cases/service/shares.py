"""Both servers with an experiment in shares, step by step, and users of whom each is known again in a total.

A bandit's values are powers of two over so fine an encoding that a total's bits say which reports are in it; in a
histogram everybody holds an item of their own; in a counter, and where vectors are summed, the names that both servers
sign tell who is in a sum. Each server's noise is a mark above all of that. So a loss, a double count, a mix-up or a
noise too many shows at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cases.service import stores
from cases.service.machine import ANALYZER, FRONT, Killed, Servers
from cases.service.noiseless import leave_out_noise, patched
from cases.service.world import GENEROUS
from croupier.client.account import Account
from croupier.client.device import REPORT_TYPE, Device, Joined, Turn
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.signing import Statement, from_text, to_text
from croupier.noise import secure
from croupier.protocols.histograms.shared_counts import SharedCounts
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.two_servers import PRECISION
from croupier.service.experiment import plan
from croupier.service.front import Front
from croupier.service.groups import set_hash
from croupier.service.tickets import issue

BITS = 56
NAME = "colours"
USERS, DEADLINE, DUE_WITHIN = 3, 60, 5
WHOLE_STEPS = 256
"""Of numbers of which some are whole in a vector of moments: nothing, and a half."""
PLAN: dict[str, Any] = {
    "name": NAME,
    "arms": ["red", "green"],
    "program": {"policy": "dp-klucb", "horizon": 100_000, "growth": 1.0},
    "reward": {"low": 0, "high": 1},
    "privacy": {"epsilon": 8.0},
    "reports": {"report_within": 3600, "report_at": [0, 0]},
    "batches": {"smallest": USERS, "deadline": DEADLINE},
}
COUNTER = PLAN | {
    "arms": [],
    "program": {"kind": "counter", "users": 48, "shufflers": 2},
    "batches": {"smallest": USERS},
}
HISTOGRAM = PLAN | {
    "arms": [],
    "program": {"kind": "histogram", "users": USERS, "rounds": 1000, "items": [f"item {bit}" for bit in range(BITS)]},
    "reward": {},
    "batches": {"deadline": DEADLINE},
}
LINEAR = PLAN | {
    "arms": ["red", "green", "blue"],
    "program": {
        "kind": "linear",
        "users": 100_000,
        "first": USERS,
        "largest": USERS,
        "features": {"age": [18, 80]},
        "precision": WHOLE_STEPS,
    },
    "reward": {},
}
KINDS = {"bandit": PLAN, "counter": COUNTER, "histogram": HISTOGRAM, "linear": LINEAR}
MARKS, COUNT_BITS = {"front": 1, "analyzer": 16}, 20
"""What each server's noise is, above the bits of a sum, or of a count."""


@contextmanager
def one_bit_a_user(monkeypatch, kind: str = "bandit", marks: bool = True):
    """An encoding with a bit for every user, and marks for the servers' noise, or none where a program would decide by
    them.

    A counter keeps its encoding, since its noise is composed exactly: its users have small numbers.
    """
    draws, answer = ["analyzer"], Front._answer

    def noise(bits):
        return MARKS[draws[-1]] << bits

    def marked(front, name, number):
        draws.append("front")
        try:
            return answer(front, name, number)
        finally:
            draws.pop()

    with patched(monkeypatch) as patch:
        leave_out_noise(patch.setattr, PRECISION if kind == "counter" else 2**BITS)
        if not marks:
            yield
            return
        patch.setattr(Front, "_answer", marked)
        patch.setattr(
            SumMechanism,
            "server_noise",
            lambda self, _: [noise(COUNT_BITS if self.coordinates else BITS)] * self.dimension,
        )
        patch.setattr(SharedCounts, "server_noise", lambda self, _: [noise(COUNT_BITS)] * self.size)
        yield


def without_marks(decoded: int | list[int]) -> list[int]:
    """The numbers of a total, in which each server's noise must be once."""
    numbers, above = ([decoded], BITS) if isinstance(decoded, int) else (decoded, COUNT_BITS)
    assert {number >> above for number in numbers} == {sum(MARKS.values())}, "each noise is in a total once"
    return [number & (1 << above) - 1 for number in numbers]


@dataclass
class Person:
    """Somebody with a turn: which bit of a total is theirs, their report's name, and the upload."""

    bit: int
    arm: int | None
    report: bytes
    body: bytes
    turn: Turn
    epoch: int | None = None


class Shares:
    """Both servers, and what users were told."""

    def __init__(
        self,
        directory: Path,
        stores: dict[str, str],
        experiment: dict = PLAN,
        validity: str = "prio3",
        issuer: Ed25519PrivateKey | None = None,
        beside: Sequence[dict] = (),
        **front,
    ) -> None:
        if issuer is not None:
            front |= {"admission": "tickets", "issuer": to_text(issuer.public_key().public_bytes_raw())}
        self.issuer = issuer
        plans = [plan(one | {"reports": one["reports"] | {"validity": validity}}) for one in (experiment, *beside)]
        settings = {"due_within": DUE_WITHIN, "ahead": 1.0} | front
        self.servers = Servers(directory, stores, plans, **settings)
        self.name = experiment["name"]
        self.people: list[Person] = []
        self.accepted: dict[int, int | None] = {}
        """The bits of those who were told that their report counts, and their arms."""

    def step(self) -> None:
        """One round of the analyzer, and what runs beside the front's routes; whoever dies of it is started again."""
        servers = self.servers
        for name in [one.name for one in servers.plans]:
            analyzer = servers.analyzer.analyzer
            with suppress(Killed):
                servers.run(analyzer.round(analyzer.live[name], servers.published[name], 0.0))
            servers.revive(defuse=False)
        for work in ("sweep", "close_full"):
            with suppress(Killed):
                getattr(servers.front.front, work)()
            servers.revive(defuse=False)

    @property
    def live(self):
        return self.servers.analyzer.analyzer.live[self.name]

    @property
    def kind(self) -> str:
        return str(self.live.plan.parameters["kind"])

    def comes(self, bit: int | None = None, value: object = None) -> Person | None:
        """Somebody takes a turn, for a report that is not sent yet; None when there is no turn, or no answer."""
        turn = self.turn()
        return None if turn is None else self.seals(turn, bit, value)

    def turn(self) -> Turn | None:
        """A turn that somebody takes; None when there is none, or no answer."""
        shown = {}
        if self.issuer is not None:
            ticket = issue(self.issuer, self.name, int(self.servers.clock()) + 1)
            shown = {"croupier-ticket": to_text(ticket)}
        answer = self.servers.ask("POST", f"{FRONT}/experiments/{self.name}/assignments", headers=shown)
        self.servers.revive(defuse=False)
        if answer is None or answer.status_code != 201:
            return None
        body = answer.json()
        statement = Statement.from_dict("offer", body["offer"])
        offer = Offer.from_text(statement.text)
        configured = self.live.state.configurations[offer.configuration]
        joined = Joined(Configuration.from_text(configured.text), configured)
        return Turn(joined, offer, from_text("token", body["token"]), body["expires"])

    def seals(self, turn: Turn, bit: int | None = None, value: object = None) -> Person:
        """Somebody who would report a value for a turn, or the one that is their bit."""
        bit = len(self.people) if bit is None else bit
        return self.with_body(turn, sealed(turn, self._own(bit) if value is None else value), bit)

    def _own(self, bit: int) -> object:
        if self.kind == "linear":
            moments = self.live.program.plan.moments
            return moments.of([0.0, 0.5**0.5], 0.5, place=bit % moments.places).tolist()
        return {"counter": bit / PRECISION, "histogram": f"item {bit}"}.get(self.kind, 2.0 ** (bit - BITS))

    def with_body(self, turn: Turn, body: bytes, bit: int | None = None) -> Person:
        """Somebody who would send these bytes for a turn."""
        epoch = None if turn.offer.block is None else turn.offer.block.epoch
        person = Person(len(self.people) if bit is None else bit, turn.arm, turn.report, body, turn, epoch)
        self.people.append(person)
        return person

    def says(self, person: Person, value: object) -> None:
        """What a person's report is to say."""
        person.body = sealed(person.turn, value)

    def reports(self, person: Person) -> str | None:
        """They report, perhaps again; what they were told."""
        address = f"{FRONT}/experiments/{self.name}/reports"
        answer = self.servers.ask("POST", address, content=person.body, headers={"content-type": REPORT_TYPE})
        self.servers.revive(defuse=False)
        if answer is None:
            return None
        told = answer.json()
        if answer.status_code not in (200, 201):
            return str(told["type"].rpartition(":")[2])
        self.accepted[person.bit] = person.arm
        return str(told["status"])

    def records(self, event: str, since: int = 0) -> list[dict]:
        lines = [json.loads(line) for line in self.live.store.read(self.name, since)]
        return [record for record in lines if record["event"] == event]

    def settled(self, rounds: int = 12) -> None:
        """Let everything that can be counted be counted: deadlines come, too."""
        for _ in range(rounds):
            self.step()
            self.servers.clock.now += DEADLINE / 4

    # What totals say

    def counted(self) -> set[int]:
        """Who is in a total. Everybody is in one of their arm or round, or in one of each level of a counter."""
        people, members, seen = {person.bit: person for person in self.people}, dict[int, set[int]](), set[int]()
        beneath, arms = dict[int, set[int]](), dict[int, int | None]()
        for record in self.records("opened"):
            offer = Offer.from_text(record["offer"]["body"])
            for batch in offer.batches:
                beneath.setdefault(batch.number, set()).add(offer.batches[0].number)
                arms[batch.number] = offer.arm
        # The batches of a counter's lowest level first: those above hold the same users.
        released = sorted(self.records("released"), key=lambda record: beneath[record["batch"]] != {record["batch"]})
        for record in released:
            batch, numbers = record["batch"], without_marks(record["decoded"])
            if beneath[batch] == {batch}:
                members[batch] = self._members(record, numbers, people.keys() - seen)
                assert not members[batch] & seen, "nobody counts twice"
                seen |= members[batch]
            else:
                members[batch] = set().union(*(members[lower] for lower in beneath[batch]))
            assert len(members[batch]) == record["users"], "a total holds as many reports as its receipt says"
            assert _set(record) == set_hash(people[bit].report for bit in members[batch])
            assert {people[bit].arm for bit in members[batch]} == {arms[batch]}
            assert numbers == self._said(members[batch], len(numbers))
        return seen

    def _members(self, record: dict, numbers: list[int], left: set[int]) -> set[int]:
        """Who is in a total, as its bits say, or in a counter as the set of its names does."""
        if self.kind == "bandit":
            return bits_of(numbers[0])
        if self.kind == "histogram":
            return {bit for bit, count in enumerate(numbers) if count}
        names = {person.bit: person.report for person in self.people}
        for members in combinations(sorted(left), record["users"]):
            if set_hash(names[bit] for bit in members) == _set(record):
                return {*members}
        raise AssertionError(f"batch {record['batch']} holds somebody who has not reported, or is counted already")

    def _said(self, members: set[int], length: int) -> list[int]:
        """What these users add up to."""
        if self.kind == "histogram":
            return [int(bit in members) for bit in range(length)]
        if self.kind == "linear":
            whole = np.sum([(np.asarray(self._own(bit)) + 1.0) / 2.0 * WHOLE_STEPS for bit in members], axis=0)
            return np.rint(whole).astype(int).tolist()
        return [sum(bit if self.kind == "counter" else 1 << bit for bit in members)]

    def close(self) -> None:
        self.servers.close()


def sealed(turn: Turn, value: object) -> bytes:
    """The upload of an honest device."""
    device = Device(ANALYZER, Account(None, GENEROUS), GENEROUS, secure())
    return from_text("body", device.sealed(turn, value).body)


def bits_of(total: int) -> set[int]:
    """The users in a total, by their bits beneath any mark."""
    return {bit for bit in range(BITS) if total >> bit & 1}


def _set(record: dict) -> bytes:
    return from_text("set", json.loads(record["receipt"]["body"])["set"])


def opened(directory: Path, kind: str = "sqlite", **more) -> Shares:
    """Both servers on new stores, with the first batch open."""
    addresses = {}
    for server in ("front", "analyzer"):
        (directory / server).mkdir(parents=True, exist_ok=True)
        addresses[server] = stores.new_store(kind, directory / server)
    service = Shares(directory, addresses, **more)
    service.step()
    return service
