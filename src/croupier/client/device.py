"""What a client does, step by step, without a network: each function yields requests and is sent their responses.

`Client` and `AsyncClient` are two small drivers of these, so that there is one way of joining, playing and reporting.
When a report is sent, and whether, never depends on what is in it: the moment is drawn with the turn, and what was not
recorded by then is reported as the experiment's default.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from croupier.checks import CroupierError, InvalidParameter
from croupier.client.account import Account, Pending, Seen, Taken
from croupier.client.choosing import check_context, choose, fetched_rule
from croupier.client.limits import Limits
from croupier.client.steps import (
    FIRST_PAUSE,
    URN,
    Lost,
    Pause,
    Refused,
    Request,
    Response,
    Steps,
    TimedOut,
    Unreachable,
    Unusable,
    accepted,
    fetch,
)
from croupier.client.turns import Joined, Shown, Turn
from croupier.client.uploads import needs_no_noise, upload
from croupier.messages.asked import bits
from croupier.messages.configuration import Configuration, NotCovered, check_name
from croupier.messages.no_turn import NoTurn
from croupier.messages.offer import Offer
from croupier.messages.signing import SERVERS, Statement, from_text, to_text

if TYPE_CHECKING:
    from croupier.noise import Source
    from croupier.personal import Rule

__all__ = [
    "REPORT_TYPE",
    "URN",
    "Device",
    "Joined",
    "Lost",
    "NotPinned",
    "Pause",
    "Refused",
    "Request",
    "Response",
    "Steps",
    "Turn",
    "Unreachable",
]

REPORT_TYPE = "application/vnd.croupier.report"
LONGEST_HOLD = 10
FIRST_RETRY, LONGEST_RETRY = 60.0, 3600.0
"""After how many seconds a report that met no answer is sent again: twice as many each time."""


MOST_RULES = 7
"""So many rules are kept beside a new one."""


class NotPinned(NoTurn):
    """An experiment of two servers, one of which must be honest, on a device that cannot tell two servers from one."""


@dataclass
class Retry:
    """How often in a row a report met no answer, and when it is sent again."""

    failures: int
    at: float


class Asked(NamedTuple):
    """How a turn is asked for; see `Device.play`."""

    patience: float
    ticket: bytes | None
    wanted: Callable[[str], bool]
    context: Mapping[str, object] | None


@dataclass
class Device:
    """What the steps need: the account, the limits, randomness (None: the system's own), pinned keys and a clock."""

    analyzer: str
    account: Account
    limits: Limits
    source: Source | None = None
    keys: dict[str, bytes] | None = None
    clock: Callable[[], float] = time.time
    joined: dict[str, Joined] = field(default_factory=dict)
    rules: dict[bytes, Rule] = field(default_factory=dict)
    """The rules that were fetched last, by hash."""
    trouble: str | None = None
    """Why a report still waits that was to be sent by now."""
    _retries: dict[str, Retry] = field(default_factory=dict)
    _on_their_way: set[str] = field(default_factory=set)

    def join(self, experiment: str, attempts: int | None = None) -> Steps:
        """Fetch the experiment, check its signatures and this device's limits, and remember whom it trusts."""
        answer = yield from fetch(Request("GET", self._address(check_name(experiment))), attempts=attempts)
        joined = self._checked(experiment, Statement.from_dict("configuration", answer.json()))
        self.joined[experiment] = joined
        return joined

    def play(
        self,
        experiment: str,
        patience: float = 0.0,
        ticket: bytes | None = None,
        sticky: bool = True,
        wanted: Callable[[str], bool] = lambda turn: True,
        context: Mapping[str, object] | None = None,
    ) -> Steps:
        """Take a turn: an arm, the batches, a one-time token, and the moment of its report; or show the arm again that
        this user has seen.

        It is charged and kept in one write. Waits for a turn at most `patience` seconds; one that is not `wanted` any
        longer when it has come, by its id, is neither charged nor kept. Where the device chooses by itself, `context`
        is what it chooses by.
        """
        check_name(experiment)
        if ticket is not None and not isinstance(ticket, bytes):
            raise InvalidParameter("ticket", ticket, "bytes, as its issuer made them")
        try:
            if sticky and (again := (yield from self._again(experiment))) is not None:
                return again
            joined = self.joined.get(experiment) or (yield from self.join(experiment))
            check_context(joined.configuration, context)
            asked = Asked(patience, ticket, wanted, context)
            return self._chosen(joined) or (yield from self._taken_or_chosen(joined, asked))
        except NoTurn:
            raise
        # Numbers that no arithmetic takes, in what servers sign or in a context, are no reason to stop an app.
        except (CroupierError, ArithmeticError, RecursionError) as error:
            raise Unusable(str(error)) from error

    def _taken_or_chosen(self, joined: Joined, asked: Asked) -> Steps:
        """A turn; where the experiment has ended, the arm that it ended with, if it says so by now."""
        try:
            return (yield from self._take(joined, asked))
        except Refused as refusal:
            if refusal.problem != "experiment-finished":
                raise
            try:
                chosen = self._chosen((yield from self.join(joined.name, attempts=1)))
            except CroupierError:
                raise refusal from None
            if chosen is None:
                raise
            return chosen

    def _chosen(self, joined: Joined) -> Shown | None:
        """The arm that an experiment has ended with, which everybody is shown without a turn."""
        configuration = joined.configuration
        if configuration.chosen is None:
            return None
        return Shown(joined.name, configuration.arms[configuration.chosen], configuration.chosen)

    def seen(self, experiment: str) -> Turn | Shown | None:
        """The arm that this user was shown, as a turn if its report is still to come; None: none, or it was retired."""
        address = self._address(experiment)
        shown = self.account.seen.get(address)
        if shown is None:
            return None
        known = self.joined.get(experiment)
        if known is not None and (chosen := self._chosen(known)) is not None:
            return chosen
        if known is not None and shown.arm in known.configuration.retired:
            return None
        for taken in list(self.account.taken.values()):
            turn = Turn.readable(taken.turn) if taken.experiment == address else None
            if turn is not None and turn.arm == shown.arm:
                return turn
        return Shown(experiment, shown.name, shown.arm)

    def record(self, turn: Turn | Shown, outcome: object) -> bool:
        """Keep what came of a turn, until it is sent; False where nothing of it will be reported."""
        return turn.recorded(self.account, outcome)

    def send_due(self) -> Steps:
        """Send what is due: what was recorded, or else the default. Returns the seconds until the next report is due,
        None where none is.

        A report that meets no answer is kept, and due again later and later.
        """
        for taken in sorted(self.account.taken.values(), key=lambda one: one.report_at):
            if taken.report_at <= self.clock():
                self._prepare(taken)
        for pending in list(self.account.pending.values()):
            yield from self._send_once(pending)
        self._forget()
        return self.next_due()

    def next_due(self) -> float | None:
        """How many seconds from now the next report is due; None where there is none."""
        due = [self._retry_at(one.id, one.report_at) for one in list(self.account.taken.values())]
        due += [self._retry_at(report, 0.0) for report in list(self.account.pending)]
        return max(0.0, min(due) - self.clock()) if due else None

    def send_now(self, turn: Turn, outcome: object) -> Steps:
        """Report a turn at once: for simulated users, whose time is nobody's."""
        self.record(turn, outcome)
        pending = self.account.seal(turn.id, lambda taken: self.sealed(turn, taken.outcome[0]))
        if pending is not None:
            yield from self._send(pending)
        return turn.id

    def _again(self, experiment: str) -> Steps:
        """The arm that was shown before; one look at the configuration, where there is a network, tells if it stays."""
        address = self._address(experiment)
        if address not in self.account.seen:
            return None
        if experiment not in self.joined:
            try:
                yield from self.join(experiment, attempts=1)
            except CroupierError:
                return self.seen(experiment)
        found = self.seen(experiment)
        if found is None:
            self.account.forget(address)
        return found

    def _take(self, joined: Joined, asked: Asked) -> Steps:
        experiment, configuration = joined.name, joined.configuration
        self.limits.check(configuration)
        self._check_pinned(configuration)
        # A turn that cannot be paid for is better not taken: somebody else waits for it.
        privacy, address = configuration.privacy, self._address(experiment)
        if not configuration.reports.repeat:
            self.account.check_first(address)
        self.account.check(privacy.epsilon, privacy.delta, address)
        body = yield from self._assigned(joined, asked.patience, asked.ticket)
        statement = Statement.from_dict("offer", body.get("offer"))
        # Before it is read: what a mechanism's text makes a device compute must be the servers' own.
        statement.check_both(configuration.verify_keys)
        offer = Offer.from_text(statement.text)
        if offer.configuration != joined.statement.hash:
            joined = yield from self._other_revision(experiment, joined, offer.configuration)
        joined.configuration.check(offer)
        self.limits.check_offer(offer)
        pinned = {}
        for pin in {batch.pin for batch in offer.batches} - {offer.configuration}:
            pinned[pin] = yield from self._pinned(joined, pin)
        token, expires = from_text("token", body.get("token")), body.get("expires")
        if len(token) != 56 or not isinstance(expires, int):
            raise InvalidParameter("token", body.get("token"), "56 bytes, with a time when it expires")
        choice = None
        if asked.context is not None:
            rule = yield from self._rule(joined, offer)
            choice = choose(joined.configuration, rule, asked.context, self._secure())
        now, (low, high) = self.clock(), joined.configuration.reports.at
        report_at = now + low + (high - low) * (bits(self.source)(53) / 2**53)
        turn = Turn(joined, offer, token, expires, pinned, taken_at=now, report_at=report_at, choice=choice)
        _check_default(turn)
        if not asked.wanted(turn.id):
            raise TimedOut(f"a turn of {experiment} came too late")
        taken = Taken(turn.id, address, turn.report_at, turn.until, turn.to_json())
        seen = None if turn.arm is None else Seen(turn.arm, turn.arm_name)
        batches, rho = _shared_with(joined.configuration, offer), _rho(offer) if privacy.delta else None
        once = not joined.configuration.reports.repeat
        self.account.charge(privacy.epsilon, privacy.delta, taken, batches, rho, seen, once)
        return turn

    def _check_pinned(self, configuration: Configuration) -> None:
        if configuration.trust == "two-servers" and self.keys is None:
            raise NotPinned(
                f"{configuration.experiment} is safe as long as one of two servers is honest, and without their keys "
                "this device cannot tell two from one: give the client keys={'analyzer': KEY, 'front': KEY}, as "
                "`croupier serve keys` prints them"
            )

    def _assigned(self, joined: Joined, patience: float, ticket: bytes | None) -> Steps:
        """What the front gives out, as soon as there is anything."""
        waited = 0.0
        address = f"{joined.configuration.urls['front']}/experiments/{quote(joined.name)}/assignments"
        while True:
            # The front may hold the request until there is a turn (RFC 7240).
            hold = min(int(patience - waited), LONGEST_HOLD)
            headers = {"prefer": f"wait={hold}"} if hold > 0 else {}
            headers |= {} if ticket is None else {"croupier-ticket": to_text(ticket)}
            began = self.clock()
            try:
                return (yield from fetch(Request("POST", address, headers=headers))).json()
            except Refused as refusal:
                if refusal.problem != "nothing-open" or waited >= patience:
                    raise
                # However soon the front wants to be asked again.
                pause = min(max(refusal.retry_after or 1.0, FIRST_PAUSE), max(patience - waited, 0.01))
            yield Pause(pause)
            waited += pause + max(0.0, self.clock() - began - pause)

    def _prepare(self, taken: Taken) -> None:
        """Seal a turn whose report is due, or drop it where it is too late."""
        if self.clock() >= taken.until:
            self.account.drop(taken.id)
        elif self._retry_at(taken.id, 0.0) <= self.clock():
            try:
                turn = Turn.from_json(taken.turn)
                self.account.seal(taken.id, lambda one: self._sealed_as_recorded(turn, one))
            except CroupierError as error:
                self._later(taken.id, error)

    def _sealed_as_recorded(self, turn: Turn, taken: Taken) -> Pending:
        (value,) = taken.outcome or (turn.joined.configuration.reports.default,)
        return self.sealed(turn, value)

    def _send_once(self, pending: Pending) -> Steps:
        """Send a kept report, unless its time is over, somebody else sends it, or it is to wait."""
        if self.clock() >= pending.until:
            self.account.settle(pending.report)
        elif self._retry_at(pending.report, 0.0) <= self.clock():
            self._on_their_way.add(pending.report)
            try:
                yield from self._send(pending)
            except Refused:
                # Settled: its turn is over, and so is the report.
                pass
            except Unreachable as error:
                self._later(pending.report, error)
            finally:
                self._on_their_way.discard(pending.report)

    def _later(self, report: str, why: CroupierError) -> None:
        failures = self._retries[report].failures + 1 if report in self._retries else 1
        wait = min(FIRST_RETRY * 2.0 ** (failures - 1), LONGEST_RETRY)
        self._retries[report], self.trouble = Retry(failures, self.clock() + wait), str(why)

    def _retry_at(self, report: str, due: float) -> float:
        if report in self._on_their_way:
            return self.clock() + FIRST_RETRY
        retry = self._retries.get(report)
        # No later than the longest wait from now: the clock may have been set back.
        return due if retry is None or retry.at > self.clock() + LONGEST_RETRY else max(due, retry.at)

    def _address(self, experiment: str) -> str:
        """What names an experiment in the account: where its analyzer has it."""
        return f"{self.analyzer}/experiments/{quote(experiment)}"

    def _checked(self, experiment: str, statement: Statement) -> Joined:
        configuration = Configuration.from_text(statement.text)
        if configuration.experiment != experiment:
            raise InvalidParameter("experiment", configuration.experiment, f"{experiment!r}, which was asked for")
        self.limits.check(configuration)
        self.account.trust(self._address(experiment), configuration, statement, self.keys)
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
        answer = yield from fetch(Request("GET", f"{base}/configurations/{to_text(wanted)}"))
        statement = Statement.from_dict("configuration", answer.json())
        if statement.hash != wanted:
            raise InvalidParameter("configuration", to_text(statement.hash), f"{to_text(wanted)}, as offered")
        return statement

    def _rule(self, joined: Joined, offer: Offer) -> Steps:
        """The rule that an offer names by its hash, as the front serves it."""
        assert offer.rule is not None
        if offer.rule not in self.rules:
            rule = yield from fetched_rule(joined.configuration, offer.rule)
            self.rules = dict([*self.rules.items()][-MOST_RULES:]) | {offer.rule: rule}
        return self.rules[offer.rule]

    def _secure(self) -> Source:
        """Where draws come from, the system's own source unless the app has brought one."""
        if self.source is None:
            from croupier.noise import secure

            self.source = secure()
        return self.source

    def _other_revision(self, experiment: str, joined: Joined, wanted: bytes) -> Steps:
        other = self._checked(experiment, (yield from self._revision(joined, wanted)))
        if other.configuration.revision > joined.configuration.revision:
            self.joined[experiment] = other
        return other

    def sealed(self, turn: Turn, value: object) -> Pending:
        """A report as bytes, fit to be sent any number of times."""
        configuration = turn.joined.configuration
        if not needs_no_noise(turn):
            self._secure()
        try:
            body = upload(turn, value, self.source)
        finally:
            # From here on no image of the memory tells this report's noise.
            if self.source is not None:
                self.source.renew()
        address = self._address(configuration.experiment)
        return Pending(address, _reports(configuration), turn.id, to_text(body), turn.until)

    def _send(self, pending: Pending) -> Steps:
        body = from_text("body", pending.body)
        # Where the front is now, whatever address it had when the turn was taken.
        newest = (one.configuration for one in self.joined.values() if self._address(one.name) == pending.experiment)
        url = next((_reports(configuration) for configuration in newest), pending.url)
        try:
            yield from fetch(Request("POST", url, body, {"content-type": REPORT_TYPE}), accepted)
        except Refused:
            self._settled(pending)
            raise
        self._settled(pending)

    def _settled(self, pending: Pending) -> None:
        self.account.settle(pending.report)
        self._forget()

    def _forget(self) -> None:
        """What is no longer kept is no trouble any more, whoever has sent or dropped it."""
        for report in [*self._retries]:
            if report not in self.account.taken and report not in self.account.pending:
                self._retries.pop(report, None)
        if not self._retries:
            self.trouble = None


def _reports(configuration: Configuration) -> str:
    return f"{configuration.urls['front']}/experiments/{quote(configuration.experiment)}/reports"


def _check_default(turn: Turn) -> None:
    """Refuse an experiment whose default nobody can report: silence would tell."""
    default = turn.joined.configuration.reports.default
    try:
        turn.check_value(default)
    except CroupierError as error:
        raise NotCovered(f"what {turn.experiment} reports where nothing is recorded cannot be: {error}") from None


def _shared_with(configuration: Configuration, offer: Offer) -> dict[str, bytes]:
    """Whose sums a report changes together with others of this device: its batches, or, where no device can know
    them, all of the experiment's as one.
    """
    if not offer.batches[0].asked.fits_any_batch:
        return {str(batch.number): batch.hash for batch in offer.batches}
    said = b"croupier/2 experiment\0" + configuration.experiment.encode() + b"\0"
    return {"any": hashlib.sha256(said + b"".join(configuration.verify_keys[one] for one in SERVERS)).digest()}


def _rho(offer: Offer) -> float | None:
    """A turn's cost in zero-concentrated privacy, computed from the noise, where the experiment promises in it.

    Between two servers a report may fall into another batch than its offer shows, so only the signed ε and δ count.
    """
    if any(batch.asked.fits_any_batch or batch.asked.guarantee.rho is None for batch in offer.batches):
        return None
    if any(batch.asked.guarantee.rho is None for batch in offer.batches):
        return None
    rho = offer.loss.zcdp
    return rho if 0.0 < rho < float("inf") else None
