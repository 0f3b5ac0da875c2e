"""A front without a network, with a clock that a test moves, and users who report to it."""

from __future__ import annotations

import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from croupier.client.account import Account
from croupier.client.device import Device, Joined, Turn
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.signing import Statement, from_text
from croupier.noise import secure
from croupier.service import keys as key_files
from croupier.service.crowd import GENEROUS
from croupier.service.experiment import Plan, Site, plan
from croupier.service.experiment_log import Live
from croupier.service.front import Assignment, Front
from croupier.service.keys import Keys
from croupier.service.notary import Rules
from croupier.service.problems import Problem
from croupier.service.store import FrontStore

URLS = {"analyzer": "http://analyzer.test", "front": "http://front.test"}
SUITE = "x25519-aes128gcm"


class Clock:
    """Time as a test wants it."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@cache
def keys_of(server: str) -> Keys:
    return key_files.make(Path(tempfile.mkdtemp(prefix="croupier-keys-")) / server)


@cache
def small_plan() -> Plan:
    """Two arms, batches of 20 bits and few messages: quick to seal."""
    return plan(
        {
            "name": "colours",
            "arms": ["red", "green"],
            "program": {"policy": "vb-sdp-ae", "horizon": 2000},
            "reward": {"protocol": "shuffled-bits"},
            "privacy": {"epsilon": 2.0, "honest_fraction": 1.0},
            "reports": {"report_within": 600, "report_at": [0, 0]},
            "batches": {"smallest": 20, "deadline": 100},
        }
    )


class World:
    """A front with one experiment registered and its first offers open."""

    def __init__(self, store: FrontStore, rules: Rules | None = None, found: Plan | None = None) -> None:
        self.clock, self.plan = Clock(), found or small_plan()
        self.front = Front(store, keys_of("front"), rules or Rules(), self.clock)
        self.signed = self.front.register(self.plan.name, self.configuration().statement().signed("analyzer", SIGN()))
        self.configured = Configuration.from_text(self.signed.text)

    def configuration(self, revision: int = 0) -> Configuration:
        keys = {server: keys_of(server).public(SUITE) for server in ("analyzer", "front")}
        site = Site(SUITE, keys, URLS, self.front.rules.admission)
        return self.plan.configuration(revision, self.plan.arms, site)

    def offers(self) -> list[Offer]:
        """What the program wants at first."""
        live = type("Begun", (), {"configured": self.signed, "name": self.plan.name, "open": {}})
        return [Live.offer_of(live, turn) for turn in self.plan.program().wanted]  # type: ignore[arg-type]

    def open(self, deadline: float | None = None) -> list[Offer]:
        found = self.offers()
        for offer in found:
            self.front.open_offer(self.plan.name, offer.number, signed(offer), deadline or self.plan.deadline)
        return found

    def turn(self, ticket: bytes = b"") -> Turn:
        """One turn, as a client takes it; a refusal is raised."""
        admitted = self.front.admit(self.plan.name, ticket)
        (given,) = self.front.assign([(self.plan.name, admitted)])
        if isinstance(given, Problem):
            raise given
        return self.as_turn(given)

    def as_turn(self, given: Assignment) -> Turn:
        body = json.loads(given.to_json())
        statement = Statement.from_dict("offer", body["offer"])
        statement.check_both(self.configured.verify_keys)
        offer = Offer.from_text(statement.text)
        self.configured.check(offer)
        return Turn(Joined(self.configured, self.signed), offer, from_text("token", body["token"]), body["expires"])

    def report(self, turn: Turn, value: object) -> bytes:
        """The body of an upload."""
        device = Device(URLS["analyzer"], Account(None, GENEROUS), GENEROUS, secure())
        return from_text("body", device.sealed(turn, value).body)

    def upload(self, *bodies: bytes, name: str | None = None) -> list[str]:
        """Send uploads together; the outcome of each, or the name of its refusal."""
        return upload(self.front, name or self.plan.name, *bodies)

    def fill(self, value: object = 1.0, most: int = 10**6) -> int:
        """Let users take turns and report, until nothing is open."""
        accepted = 0
        while accepted < most:
            try:
                turn = self.turn()
            except Problem as problem:
                if problem.token != "nothing-open":
                    raise
                return accepted
            accepted += self.upload(self.report(turn, value)) == ["accepted"]
        return accepted


def witness(front: Front, name: str) -> None:
    """Show the front a log that is one line longer than the last time, as before each pull."""
    digest = os.urandom(32)
    longer = front._head(name).then(digest)
    front.countersign(name, longer.statement(name).signed("analyzer", SIGN()), [digest])


def upload(front: Front, name: str, *bodies: bytes) -> list[str]:
    """The outcomes of a group of uploads, or the names of their refusals."""
    found = front.take([(name, body) for body in bodies])
    return [one.token if isinstance(one, Problem) else one for one in found]


def SIGN() -> Any:  # noqa: N802
    return keys_of("analyzer").sign


def signed(offer: Offer) -> Statement:
    return offer.statement().signed("analyzer", SIGN())
