"""A small experiment made by hand: keys of both servers, a signed configuration, offers, and turns to report on."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from croupier.client.account import Account, Taken
from croupier.client.device import Device, Joined, Pause, Request, Response, Turn
from croupier.client.limits import Limits
from croupier.messages.admission import EVERYBODY
from croupier.messages.configuration import Configuration, Privacy, Reports, ServerKeys
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import SUITES, unseal
from croupier.messages.shares import SharedReport, form, scopes, share_info
from croupier.messages.signing import Statement
from croupier.messages.validity import NOT_PROVED
from croupier.messages.wire import Envelope, report_info
from croupier.noise import secure
from croupier.protocols import Mechanism, laplace, shuffled_laplace

SUITE = "x25519-aes128gcm"
OURS = {"honest_fraction": 0.9, "front_noise": True}
MECHANISM = shuffled_laplace(epsilon=1.0, binary=True, **OURS).plan(users=40)
SHARED = laplace(epsilon=1.0, binary=True, trust="two-servers").plan(users=40)
"""A number in shares, with noise from both servers."""
WITHIN, AT = 86_400, (600.0, 7_200.0)
"""When reports are due: at a moment between ten minutes and two hours after the turn."""


@dataclass(frozen=True)
class Server:
    """One server's secrets."""

    sign: Ed25519PrivateKey
    seal: bytes
    suite: str = SUITE

    @classmethod
    def make(cls, suite: str = SUITE) -> Server:
        return cls(Ed25519PrivateKey.generate(), SUITES[suite].generate(), suite)

    @property
    def public(self) -> ServerKeys:
        return ServerKeys(SUITES[self.suite].public_of(self.seal), self.sign.public_key().public_bytes_raw())


def configuration(analyzer: Server, front: Server, mechanism: Mechanism = MECHANISM, **changes: Any) -> Configuration:
    """A bandit's configuration with two arms, around one mechanism."""
    claim = mechanism.guarantee
    found = Configuration(
        experiment="colours",
        revision=0,
        title="Which colour?",
        arms=("red", "green"),
        program={"kind": "bandit"},
        recipe=mechanism.recipe | {"smallest": mechanism.users},
        trust=mechanism.trust,
        reports=Reports(WITHIN, AT, mechanism.extremes[0]),
        privacy=Privacy(claim.epsilon, claim.delta, 0.9 if mechanism.honest else 0.0, "a device", 86_400),
        admission=EVERYBODY,
        validity=NOT_PROVED,
        suite=analyzer.suite,
        keys={"analyzer": analyzer.public, "front": front.public},
        urls={"analyzer": "https://analyzer.test", "front": "https://front.test"},
    )
    return replace(found, **changes)


def both_signed(statement: Statement, analyzer: Server, front: Server) -> Statement:
    return statement.signed("analyzer", analyzer.sign).signed("front", front.sign)


def offer(signed: Statement, *mechanisms: Mechanism, number: int = 0, arm: int | None = 0) -> Offer:
    """An offer under a configuration, with one batch for each mechanism."""
    batches = tuple(Batch.of(10 + i, signed.hash, mechanism) for i, mechanism in enumerate(mechanisms or (MECHANISM,)))
    return Offer(Configuration.from_text(signed.text).experiment, signed.hash, number, arm, batches)


def device(limits: Limits | None = None, **options: Any) -> Device:
    """A device whose account is in memory."""
    limits = limits or Limits()
    options = {"clock": time.time} | options
    return Device("https://analyzer.test", Account(None, limits, options["clock"]), limits, secure(), **options)


def turn(signed: Statement, found: Offer, token: bytes = bytes(56)) -> Turn:
    """A turn that no account knows."""
    return Turn(Joined(Configuration.from_text(signed.text), signed), found, token, 2**40)


def took(own: Device, signed: Statement, found: Offer, token: bytes = bytes(56)) -> Turn:
    """A turn that a device took just now: charged, kept, and due in ten minutes."""
    now = own.clock()
    taken = replace(turn(signed, found, token), taken_at=now, report_at=now + AT[0])
    privacy, hashes = taken.joined.configuration.privacy, {str(batch.number): batch.hash for batch in found.batches}
    kept = Taken(taken.id, own._address(taken.experiment), taken.report_at, taken.until, taken.to_json())
    own.account.charge(privacy.epsilon, privacy.delta, kept, hashes)
    return taken


def answer(status, body, **headers):
    return Response(status, headers, json.dumps(body).encode())


def drive(steps, *answers):
    """Run steps against listed answers (None: no answer); returns the result and the requests that were made."""
    listed, requests, reply = list(answers), [], None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as done:
            assert not listed, "not every answer was asked for"
            return done.value, requests
        reply = None
        if isinstance(step, Request):
            requests.append(step)
            reply = listed.pop(0)
        else:
            assert isinstance(step, Pause)
            assert step.seconds > 0


def value_read(content: bytes, analyzer: Server, front: Server, signed: Statement, found: Offer) -> int:
    """What both servers together read in an upload in shares, on an offer under a configuration."""
    report = shares_read(content, front, signed, found)
    info = share_info(found.experiment, signed.hash, scopes(found)[0], 0, report.report)
    ring = found.batches[0].mechanism.ring
    assert ring is not None
    other = ring.decode(unseal(analyzer.suite, analyzer.seal, report.sealed[0], info), 1)
    return ring.signed(ring.add(other, ring.expand(report.share, info, 1)))[0]


def shares_read(content: bytes, front: Server, signed: Statement, found: Offer) -> SharedReport:
    """What the front reads in such an upload."""
    envelope = Envelope.from_bytes(content)
    inner = unseal(front.suite, front.seal, envelope.sealed, report_info(found.experiment, signed.hash))
    return SharedReport.from_bytes(inner, form(found, front.suite, proved=False))
