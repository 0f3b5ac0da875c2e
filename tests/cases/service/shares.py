"""Both servers with an experiment in shares, step by step, and users of whom each is one bit of the total.

The servers' noise is left out, and values are powers of two over so fine an encoding that a total's bits say which
reports are in it: a loss, a double count or a mix-up shows at once.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cases.service import stores
from cases.service.machine import ANALYZER, FRONT, Killed, Servers
from cases.service.world import GENEROUS
from croupier.client.account import Account
from croupier.client.device import REPORT_TYPE, Device, Joined, Turn
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.signing import Statement, from_text
from croupier.noise import secure
from croupier.protocols.sums import mechanism, protocol, two_servers
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.service import settling
from croupier.service.experiment import plan

BITS = 56
NAME = "colours"
USERS, DEADLINE, DUE_WITHIN = 3, 60, 5
PLAN = {
    "name": NAME,
    "arms": ["red", "green"],
    "program": {"policy": "dp-klucb", "horizon": 100_000, "growth": 1.0},
    "reward": {"low": 0, "high": 1},
    "privacy": {"epsilon": 8.0},
    "reports": {"report_within": 3600, "report_at": [0, 0]},
    "batches": {"smallest": USERS, "deadline": DEADLINE},
}


@contextmanager
def one_bit_a_user(monkeypatch):
    """No noise, and an encoding with a bit for every user. Plans are remembered, so those made here are forgotten."""
    with monkeypatch.context() as patch:
        patch.setattr(two_servers, "PRECISION", 2**BITS)
        patch.setattr(SumMechanism, "server_noise", lambda self, source: [0] * self.dimension)
        patch.setattr(settling, "check_decoded", lambda *_: None)
        patch.setattr(mechanism, "is_affordable", lambda *_: True)
        protocol._plan.cache_clear()
        try:
            yield
        finally:
            patch.undo()
            protocol._plan.cache_clear()


@dataclass
class Person:
    """Somebody with a turn: which bit of a total is theirs, and the upload."""

    bit: int
    arm: int | None
    body: bytes


class Shares:
    """Both servers, and what users were told."""

    def __init__(self, directory: Path, stores: dict[str, str], experiment: dict = PLAN, **front) -> None:
        settings = {"due_within": DUE_WITHIN, "ahead": 1.0} | front
        self.servers = Servers(directory, stores, [plan(experiment)], **settings)
        self.name = experiment["name"]
        self.people: list[Person] = []
        self.accepted: dict[int, int | None] = {}
        """The bits of those who were told that their report counts, and their arms."""

    def step(self) -> None:
        """One round of the analyzer, and what runs beside the front's routes; whoever dies of it is started again."""
        servers = self.servers
        with suppress(Killed):
            servers.run(servers.analyzer.analyzer.round(self.live, servers.published[self.name], 0.0))
        servers.revive()
        for work in (servers.front.front.sweep, servers.front.front.close_full):
            with suppress(Killed):
                work()
            servers.revive()

    @property
    def live(self):
        return self.servers.analyzer.analyzer.live[self.name]

    def comes(self, bit: int | None = None, value: float | None = None) -> Person | None:
        """Somebody takes a turn; None when there is none, or no answer."""
        answer = self.servers.ask("POST", f"{FRONT}/experiments/{self.name}/assignments")
        self.servers.revive()
        if answer is None or answer.status_code != 201:
            return None
        body, bit = answer.json(), len(self.people) if bit is None else bit
        statement = Statement.from_dict("offer", body["offer"])
        offer = Offer.from_text(statement.text)
        configured = self.live.state.configurations[offer.configuration]
        joined = Joined(Configuration.from_text(configured.text), configured)
        turn = Turn(joined, offer, from_text("token", body["token"]), body["expires"])
        device = Device(ANALYZER, Account(None, GENEROUS), GENEROUS, secure())
        sealed = device.sealed(turn, 2.0 ** (bit - BITS) if value is None else value)
        person = Person(bit, offer.arm, from_text("body", sealed.body))
        self.people.append(person)
        return person

    def reports(self, person: Person) -> str | None:
        """They report, perhaps again; what they were told."""
        address = f"{FRONT}/experiments/{self.name}/reports"
        answer = self.servers.ask("POST", address, content=person.body, headers={"content-type": REPORT_TYPE})
        self.servers.revive()
        if answer is None:
            return None
        told = answer.json()
        if told.get("status") in ("accepted", "repeated"):
            self.accepted[person.bit] = person.arm
        return told.get("status") or told["type"].rpartition(":")[2]

    def records(self, event: str) -> list[dict]:
        lines = [json.loads(line) for line in self.live.store.read(self.name)]
        return [record for record in lines if record["event"] == event]

    def settled(self, rounds: int = 12) -> None:
        """Let everything that can be counted be counted: deadlines come, too."""
        for _ in range(rounds):
            self.step()
            self.servers.clock.now += DEADLINE / 4

    def close(self) -> None:
        self.servers.close()


def opened(directory: Path, kind: str = "sqlite", **more) -> Shares:
    """Both servers on new stores, with the first batch open."""
    addresses = {}
    for server in ("front", "analyzer"):
        (directory / server).mkdir(exist_ok=True)
        addresses[server] = stores.new_store(kind, directory / server)
    service = Shares(directory, addresses, **more)
    service.step()
    return service


def bits_of(total: int) -> set[int]:
    """The users in a total without noise."""
    return {bit for bit in range(BITS + 1) if total >> bit & 1}
