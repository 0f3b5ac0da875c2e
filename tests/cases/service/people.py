"""Users of chaos tests: real clients, one step at a time, whose reports the test reads with both servers' keys.

So a test knows which sealed messages go to which batch and what they say, and from these what each batch must hold and
decode to, without asking a server.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from cases.service.machine import ANALYZER, ARRIVES, Servers
from cases.service.world import GENEROUS, SUITE
from croupier.client.account import Account
from croupier.client.device import Device, Pause, Refused, Request, Response, Steps, Turn, Unreachable
from croupier.messages.offer import Offer
from croupier.messages.sealing import Unopenable, unseal
from croupier.messages.signing import from_text
from croupier.messages.wire import Envelope, Report, message_info, report_info
from croupier.noise import SparseBits
from croupier.protocols import HistogramMechanism
from croupier.protocols.padding import REAL
from croupier.protocols.sums.carriers import SplitAndMix
from croupier.service.keys import Keys


@dataclass(frozen=True)
class Sent:
    """A report as both servers together could read it: sealed messages by batch, and what they say (None: nothing)."""

    experiment: str
    report: bytes
    token: bytes
    offer: int
    sealed: dict[int, tuple[bytes, ...]]
    said: dict[int, tuple[bytes | None, ...]]

    @property
    def expires(self) -> int:
        return int.from_bytes(self.token[16:24], "big")


def open_report(experiment: str, body: bytes, front: Keys) -> Report:
    """What the front reads of an upload."""
    envelope = Envelope.from_bytes(body)
    info = report_info(experiment, envelope.configuration)
    return Report.from_bytes(unseal(SUITE, front.newest(SUITE).private, envelope.sealed, info))


def read_report(experiment: str, body: bytes, offer: Offer, front: Keys, analyzer: Keys) -> Sent:
    """Open an upload with both servers' keys."""
    report = open_report(experiment, body, front)
    pinned = {batch.number: (batch.pin, batch.hash) for batch in offer.batches}
    own = analyzer.newest(SUITE).private
    said = {}
    for part in report.parts:
        info = message_info(experiment, *pinned[part.batch])
        said[part.batch] = tuple(_opened(own, message, info) for message in part.messages)
    sealed = {part.batch: part.messages for part in report.parts}
    return Sent(experiment, report.report, report.token, report.offer, sealed, said)


def _opened(key: bytes, message: bytes, info: bytes) -> bytes | None:
    try:
        return unseal(SUITE, key, message, info)
    except Unopenable:
        return None


def total(mechanism: Any, said: list[bytes | None]) -> int | list[int]:
    """What a batch decodes to, added up by hand from what its messages say; a spoilt one adds nothing."""
    real = [slot[1:] for slot in said if slot is not None and slot[:1] == REAL]
    if isinstance(mechanism, HistogramMechanism):
        counts = Counter(int.from_bytes(message, "big") for message in real)
        return [counts[item] for item in range(mechanism.size)]
    if isinstance(mechanism.carrier, SplitAndMix):
        carrier = mechanism.carrier
        residue = sum(int.from_bytes(message, "big") for message in real) % carrier.modulus
        return residue - carrier.modulus if residue >= carrier.modulus - carrier.slack else residue
    ones = sum(message[-1] for message in real)
    if isinstance(mechanism.share, SparseBits):
        return ones - (len(real) - ones) + mechanism.users * mechanism.carrier.value_messages
    return ones


class Person:
    """A real client, one step at a time: the next request lies in hand until the test sends it."""

    def __init__(self, servers: Servers, experiment: str, value: object) -> None:
        self.servers, self.experiment, self.value = servers, experiment, value
        self.device = Device(
            ANALYZER, Account(None, GENEROUS, servers.clock), GENEROUS, servers.source(), None, servers.clock
        )
        self.request: Request | None = None
        self.turn: Turn | None = None
        self.sent: Sent | None = None
        self._steps, self._then = self.device.play(experiment), self._played
        self._go_on(None)

    def send(self, fate: str = ARRIVES) -> Response | None:
        """Send what is in hand, and take the answer in, if one came."""
        answer = self.answer_to(fate)
        self.take(answer)
        return answer

    def answer_to(self, fate: str) -> Response | None:
        return self.servers.run(self.asked(fate))  # type: ignore[no-any-return]

    async def asked(self, fate: str = ARRIVES) -> Response | None:
        assert self.request is not None
        self.servers.wire.fates = [] if fate == ARRIVES else [fate]
        request = self.request
        try:
            answer = await self.servers.http.request(
                request.method, request.url, content=request.content or None, headers=request.headers
            )
        except httpx2.TransportError:
            return None
        return Response(answer.status_code, dict(answer.headers), answer.content)

    def take(self, answer: Response | None) -> None:
        self._go_on(answer)

    @property
    def asks_for_a_turn(self) -> bool:
        return self.request is not None and self.request.url.endswith("/assignments")

    @property
    def body(self) -> bytes:
        assert self.request is not None
        return self.request.content

    def again(self, value: object) -> tuple[bytes, Sent]:
        """Another report for the same turn, as no honest client makes one."""
        assert self.turn is not None
        another = replace(self.turn, report=os.urandom(16))
        body = from_text("body", self.device.sealed(another, value).body)
        return body, self.read(body)

    def read(self, body: bytes) -> Sent:
        assert self.turn is not None
        keys = self.servers.keys
        return read_report(self.experiment, body, self.turn.offer, keys["front"], keys["analyzer"])

    def _go_on(self, answer: Response | None) -> None:
        try:
            step = self._steps.send(answer)
            while isinstance(step, Pause):
                step = self._steps.send(None)
            self.request = step
        except StopIteration as done:
            self._then(done.value)
        except Refused:
            self.request = None
        except Unreachable:
            # What a device does when it is switched on again.
            self._begin(self._resumed() if self.turn else self.device.play(self.experiment), self._then)

    def _resumed(self) -> Steps:
        for pending in list(self.device.account.pending.values()):
            yield from self.device._send(pending)

    def _begin(self, steps: Steps, then: Callable[[Any], None]) -> None:
        self._steps, self._then = steps, then
        self._go_on(None)

    def _played(self, turn: Turn) -> None:
        self.turn = turn
        self._begin(self.device.send_now(turn, self.value), self._reported)
        self.sent = self.read(self.body)

    def _reported(self, _: object) -> None:
        self.request = None
