"""What a client does, step by step, without a network: each function yields requests and is sent their responses.

`Client` and `AsyncClient` are two small drivers of these, so that there is one way of joining, playing and reporting.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from croupier.checks import CroupierError, InvalidParameter
from croupier.client.account import Account, Pending
from croupier.client.limits import Limits
from croupier.messages.configuration import Configuration, NotCovered, check_name, seal_slots
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import SUITES, key_id, seal
from croupier.messages.shares import SharedReport, scopes, share_info
from croupier.messages.signing import Statement, from_text, to_text
from croupier.messages.wire import Envelope, Part, Report, report_info
from croupier.noise import Source
from croupier.validity.xof import SEED

URN = "urn:croupier:error:"
REPORT_TYPE = "application/vnd.croupier.report"
ATTEMPTS = 8
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
LONGEST_HOLD = 10
PASSING = (408, 429)
"""Refusals that say nothing about the request itself: try again, as after any 5xx."""


class Refused(CroupierError):
    """A server's refusal: `problem` is its token, as `batch-closed`; `retry_after` is in seconds where it is given."""

    def __init__(self, problem: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(f"{problem}: {detail}" if detail else problem)
        self.problem, self.detail, self.retry_after = problem, detail, retry_after


class Unreachable(CroupierError):
    """No answer, after all attempts."""


@dataclass(frozen=True)
class Request:
    """One HTTP request."""

    method: str
    url: str
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    def taken(self, wire: Any) -> Any:
        """Have a wire carry this step out; the answer, or what is to be awaited for it."""
        return wire.exchange(self)


@dataclass(frozen=True)
class Response:
    """Its answer."""

    status: int
    headers: dict[str, str]
    content: bytes

    def settles(self, taken: Callable[[Response], bool] | None) -> bool:
        """Whether this ends a request well; a refusal that no waiting mends is raised. See `_fetch`."""
        if 200 <= self.status < 300 and (taken is None or taken(self)):
            return True
        problem, named = _problem(self)
        if 400 <= self.status < 500 and self.status not in PASSING and (named or taken is None):
            raise problem
        return False

    @property
    def trouble(self) -> tuple[str, float]:
        """Why it settles nothing, and how many seconds it asks to wait."""
        problem, _ = _problem(self)
        return str(problem), problem.retry_after or 0.0


@dataclass(frozen=True)
class Lost:
    """No answer that could be used, and why."""

    why: str

    def settles(self, _: Callable[[Response], bool] | None) -> bool:
        return False

    @property
    def trouble(self) -> tuple[str, float]:
        return self.why, 0.0


@dataclass(frozen=True)
class Pause:
    """Wait so many seconds."""

    seconds: float

    def taken(self, wire: Any) -> Any:
        return wire.wait(self.seconds)


Steps = Generator["Request | Pause", "Response | Lost | None", Any]


@dataclass(frozen=True)
class Joined:
    """An experiment that this device has checked: its configuration, and where its servers are."""

    configuration: Configuration
    statement: Statement

    @property
    def name(self) -> str:
        return self.configuration.experiment


@dataclass(frozen=True)
class Turn:
    """One play: show this arm, then report what came of it, before `expires` (seconds of Unix time).

    `pinned` are the earlier configurations that some of its batches were first opened under, by hash.
    """

    joined: Joined
    offer: Offer
    token: bytes
    expires: int
    pinned: Mapping[bytes, Configuration] = field(default_factory=dict)

    @property
    def arm(self) -> int | None:
        """The arm's number; None where an experiment has no arms."""
        return self.offer.arm

    def opened_under(self, batch: Batch) -> Configuration:
        """The configuration whose key a batch's messages are sealed to."""
        own = batch.pin == self.offer.configuration
        return self.joined.configuration if own else self.pinned[batch.pin]

    @property
    def arm_name(self) -> str:
        return "" if self.offer.arm is None else self.joined.configuration.arms[self.offer.arm]


@dataclass
class Device:
    """What the steps need: the account, the limits, randomness and a clock."""

    analyzer: str
    account: Account
    limits: Limits
    source: Source
    trust: dict[str, bytes] | None = None
    clock: Callable[[], float] = time.time
    joined: dict[str, Joined] = field(default_factory=dict)
    reported: set[bytes] = field(default_factory=set)
    """The tokens of turns that were reported."""

    def join(self, experiment: str) -> Steps:
        """Fetch the experiment, check its signatures and this device's limits, and remember whom it trusts."""
        answer = yield from _fetch(Request("GET", self._address(check_name(experiment))))
        joined = self._checked(experiment, Statement.from_dict("configuration", _json(answer)))
        self.joined[experiment] = joined
        return joined

    def play(self, experiment: str, patience: float = 0.0, ticket: bytes | None = None) -> Steps:
        """Take a turn: an arm, the batches, and a one-time token. Waits for one at most `patience` seconds."""
        if ticket is not None and not isinstance(ticket, bytes):
            raise InvalidParameter("ticket", ticket, "bytes, as its issuer made them")
        joined = self.joined.get(experiment) or (yield from self.join(experiment))
        self.limits.check(joined.configuration)
        # A turn that cannot be reported is better not taken: somebody else waits for it.
        privacy = joined.configuration.privacy
        self.account.check(privacy.epsilon, privacy.delta, self._address(experiment))
        waited = 0.0
        address = f"{joined.configuration.urls['front']}/experiments/{quote(experiment)}/assignments"
        while True:
            # The front may hold the request until there is a turn (RFC 7240).
            hold = min(int(patience - waited), LONGEST_HOLD)
            headers = {"prefer": f"wait={hold}"} if hold > 0 else {}
            headers |= {} if ticket is None else {"croupier-ticket": to_text(ticket)}
            began = self.clock()
            try:
                body = _json((yield from _fetch(Request("POST", address, headers=headers))))
                break
            except Refused as refusal:
                if refusal.problem != "nothing-open" or waited >= patience:
                    raise
                pause = min(refusal.retry_after or 1.0, max(patience - waited, 0.01))
            yield Pause(pause)
            waited += pause + max(0.0, self.clock() - began - pause)
        statement = Statement.from_dict("offer", body.get("offer"))
        # Before it is read: what a mechanism's text makes a device compute must be the servers' own.
        statement.check_both(joined.configuration.verify_keys)
        offer = Offer.from_text(statement.text)
        if offer.configuration != joined.statement.hash:
            joined = yield from self._other_revision(experiment, joined, offer.configuration)
        joined.configuration.check(offer)
        self.limits.check_offer(offer)
        pinned = {}
        for pin in {batch.pin for batch in offer.batches} - {offer.configuration}:
            pinned[pin] = yield from self._pinned(joined, pin)
        self.account.check(privacy.epsilon, privacy.delta, self._address(experiment), _hashes(offer))
        token, expires = from_text("token", body.get("token")), body.get("expires")
        if len(token) != 56 or not isinstance(expires, int):
            raise InvalidParameter("token", body.get("token"), "56 bytes, with a time when it expires")
        return Turn(joined, offer, token, expires, pinned)

    def report(self, turn: Turn, value: object) -> Steps:
        """Randomize, seal, charge, keep, send: in this order. Returns the report's id.

        Once a turn: what is not known to have arrived is sent again by `resume`, and never made anew.
        """
        if turn.token in self.reported:
            raise InvalidParameter("turn", turn.offer.number, "one that was not reported yet; `resume` sends again")
        pending = self.sealed(turn, value)
        privacy = turn.joined.configuration.privacy
        self.account.charge(privacy.epsilon, privacy.delta, pending, _hashes(turn.offer))
        self.reported.add(turn.token)
        yield from self._send(pending)
        return pending.report

    def resume(self) -> Steps:
        """Send again what a crash may have left unsent; returns how many reports were accepted.

        All are tried; when a server was out of reach, this is said at the end.
        """
        accepted, unreachable = 0, None
        for pending in list(self.account.pending.values()):
            try:
                yield from self._send(pending)
                accepted += 1
            except Refused:
                continue
            except Unreachable as error:
                unreachable = error
        if unreachable is not None:
            raise unreachable
        return accepted

    def _address(self, experiment: str) -> str:
        """What names an experiment in the account: where its analyzer has it."""
        return f"{self.analyzer}/experiments/{quote(experiment)}"

    def _checked(self, experiment: str, statement: Statement) -> Joined:
        configuration = Configuration.from_text(statement.text)
        if configuration.experiment != experiment:
            raise InvalidParameter("experiment", configuration.experiment, f"{experiment!r}, which was asked for")
        self.limits.check(configuration)
        self.account.trust(self._address(experiment), configuration, statement, self.trust)
        return Joined(configuration, statement)

    def _pinned(self, joined: Joined, pin: bytes) -> Steps:
        """The configuration that a batch was first opened under: an earlier one, of the same servers and promise."""
        statement = yield from self._revision(joined, pin)
        statement.check_both(joined.configuration.verify_keys)
        pinned = Configuration.from_text(statement.text)
        pinned.check_promise(joined.configuration.promise)
        if pinned.experiment != joined.name or pinned.revision >= joined.configuration.revision:
            raise NotCovered(f"a batch is pinned to revision {pinned.revision} of {pinned.experiment!r}")
        self.limits.check(pinned)
        return pinned

    def _revision(self, joined: Joined, wanted: bytes) -> Steps:
        """A configuration by its hash, as the front keeps it."""
        base = f"{joined.configuration.urls['front']}/experiments/{quote(joined.name)}"
        answer = yield from _fetch(Request("GET", f"{base}/configurations/{to_text(wanted)}"))
        statement = Statement.from_dict("configuration", _json(answer))
        if statement.hash != wanted:
            raise InvalidParameter("configuration", to_text(statement.hash), f"{to_text(wanted)}, as offered")
        return statement

    def _other_revision(self, experiment: str, joined: Joined, wanted: bytes) -> Steps:
        other = self._checked(experiment, (yield from self._revision(joined, wanted)))
        if other.configuration.revision > joined.configuration.revision:
            self.joined[experiment] = other
        return other

    def sealed(self, turn: Turn, value: object) -> Pending:
        """A report as bytes, fit to be sent any number of times."""
        configuration, offer = turn.joined.configuration, turn.offer
        name, report = configuration.experiment, os.urandom(16)
        front = configuration.keys["front"].seal
        try:
            bundle = (self._shared if configuration.in_shares else self._shuffled)(turn, value, report)
        finally:
            # From here on no image of the memory tells this report's noise.
            self.source.renew()
        sealed = seal(configuration.suite, front, bundle, report_info(name, offer.configuration))
        body = Envelope(SUITES[configuration.suite].number, key_id(front), offer.configuration, sealed).to_bytes()
        # Where the front is now, whatever address the batch was begun under.
        newest = self.joined.get(name, turn.joined).configuration
        url = f"{newest.urls['front']}/experiments/{quote(name)}/reports"
        return Pending(self._address(name), url, to_text(report), to_text(body), turn.expires)

    def _shuffled(self, turn: Turn, value: object, report: bytes) -> bytes:
        """Messages for each batch, all alike, sealed to the analyzer one by one."""
        name, parts = turn.joined.name, []
        for batch in turn.offer.batches:
            opened = batch.mechanism.slots(value, self.source)
            parts.append(Part(batch.number, seal_slots(name, batch, turn.opened_under(batch), opened)))
        return Report(report, turn.token, turn.offer.number, tuple(parts)).to_bytes()

    def _shared(self, turn: Turn, value: object, report: bytes) -> bytes:
        """Two shares of each part: the seed of one for the front, the other sealed to the analyzer."""
        configuration, offer, seed = turn.joined.configuration, turn.offer, os.urandom(SEED)
        sealed = []
        for part, scope in enumerate(scopes(offer)):
            mechanism = offer.batches[part].mechanism
            info = share_info(turn.joined.name, offer.configuration, scope, part, report)
            assert mechanism.ring is not None
            share = mechanism.ring.split(mechanism.secret(value, self.source), seed, info)
            sealed.append(seal(configuration.suite, configuration.keys["analyzer"].seal, share, info))
        return SharedReport(report, turn.token, offer.number, seed, tuple(sealed)).to_bytes()

    def _send(self, pending: Pending) -> Steps:
        body = from_text("body", pending.body)
        try:
            yield from _fetch(Request("POST", pending.url, body, {"content-type": REPORT_TYPE}), _taken)
        except Refused:
            self.account.settle(pending.report)
            raise
        self.account.settle(pending.report)


def _hashes(offer: Offer) -> dict[int, bytes]:
    return {batch.number: batch.hash for batch in offer.batches}


def _taken(answer: Response) -> bool:
    """Whether it is the front that says so, and not a page that some network shows first."""
    try:
        return json.loads(answer.content)["status"] in ("accepted", "repeated")
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _fetch(request: Request, taken: Callable[[Response], bool] | None = None) -> Steps:
    """Send until there is an answer that says something; a problem document becomes `Refused`.

    With `taken`, which knows an acceptance, nothing but the front's own words end it: a network's page settles
    nothing.
    """
    pause, last = FIRST_PAUSE, "no answer"
    for _ in range(ATTEMPTS):
        answer = yield request
        if answer is not None:
            if answer.settles(taken):
                return answer
            last, asked = answer.trouble
            pause = max(pause, asked)
        yield Pause(min(pause, LONGEST_PAUSE))
        pause *= 2
    raise Unreachable(f"{request.method} {request.url}: {last}")


def _problem(answer: Response) -> tuple[Refused, bool]:
    """The refusal, and whether it has one of our names."""
    body: Any = None
    try:
        body = json.loads(answer.content)
        kind, detail = str(body["type"]), str(body.get("detail") or body.get("title") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        kind, detail = f"http-{answer.status}", ""
    return Refused(kind.removeprefix(URN), detail, _wait(answer, body)), kind.startswith(URN)


def _wait(answer: Response, body: Any) -> float | None:
    """How long to wait, as the problem document says, or else its header, which knows whole seconds only."""
    said = body.get("retry_after") if isinstance(body, dict) else None
    try:
        seconds = float(answer.headers.get("retry-after", "") if said is None else said)
    except (ValueError, TypeError, OverflowError):
        return None
    return seconds if 0 <= seconds < math.inf else None


def _json(answer: Response) -> dict[str, Any]:
    try:
        body = json.loads(answer.content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InvalidParameter("answer", answer.content[:60], "a JSON object")
    return body
