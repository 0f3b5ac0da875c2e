"""What a client does, step by step, without a network: each function yields requests and is sent their responses.

`Client` and `AsyncClient` are two small drivers of these, so that there is one way of joining, playing and reporting.
When a report is sent, and whether, never depends on what is in it: the moment is drawn with the turn, and what was not
recorded by then is reported as the experiment's default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote

from croupier.checks import CroupierError, InvalidParameter
from croupier.client.account import Seen, Taken
from croupier.client.choosing import check_context, choose
from croupier.client.outbox import REPORT_TYPE, Outbox
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
    fetch,
)
from croupier.client.turns import Joined, Turn
from croupier.messages.asked import bits
from croupier.messages.configuration import Configuration, NotCovered, check_name
from croupier.messages.no_turn import NoTurn
from croupier.messages.offer import Offer
from croupier.messages.signing import SERVERS, Statement, from_text, to_text

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

LONGEST_HOLD = 10


class NotPinned(NoTurn):
    """An experiment of two servers, one of which must be honest, on a device that cannot tell two servers from one."""


class Asked(NamedTuple):
    """How a turn is asked for; see `Device.play`."""

    patience: float
    ticket: bytes | None
    wanted: Callable[[str], bool]
    context: Mapping[str, object] | None


class Device(Outbox):
    """Takes turns, and shows again what was shown; see `Joining` for what it is made of."""

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
        pinned = yield from self._all_pinned(joined, {batch.pin for batch in offer.batches} - {offer.configuration})
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
    rho = offer.loss.zcdp
    return rho if 0.0 < rho < float("inf") else None
