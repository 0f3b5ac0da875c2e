"""The front: it admits users, gives out turns, mixes sealed messages, and releases full batches once.

It learns who reported when and never a value: messages are sealed to the analyzer. It signs every configuration that
it serves and every batch that it releases, and it refuses offers that go beyond what was signed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from croupier.checks import CroupierError
from croupier.messages.admittance import Door, NotAdmitted
from croupier.messages.configuration import Configuration, seal_slots
from croupier.messages.offer import Offer
from croupier.messages.sealing import SUITES
from croupier.messages.shares import Form, SharedReport, form, stream_of
from croupier.messages.signing import Statement, to_text
from croupier.messages.wire import Envelope, Malformed, Report, report_info
from croupier.service import tokens
from croupier.service.decryption import Job, open_all
from croupier.service.front_shares import GONE, VERSION, FrontShares, told_of
from croupier.service.high_water import HighWater
from croupier.service.keys import Keys
from croupier.service.meters import STEP
from croupier.service.notary import Rules
from croupier.service.openapi import MOST_BATCHES
from croupier.service.problems import Problem
from croupier.service.store import Arrival, Closing, FrontStore, Standing
from croupier.service.store.share_sums import TIDY_SECONDS

DAY = 86_400
EIGHTHS, FINEST = 8, 8
NEVER = 2**63 - 1
"""The day on which a spent name is forgotten, where what was shown has no end."""
PAUSE_SECONDS = 30.0
"""When to ask again for a turn of an experiment that is paused."""


@dataclass(frozen=True)
class Assignment:
    """A turn that was given out."""

    offer: str
    token: bytes
    expires: int

    def to_json(self) -> bytes:
        """The answer; the offer is JSON already."""
        return f'{{"offer":{self.offer},"token":"{to_text(self.token)}","expires":{self.expires}}}'.encode()


class Front(FrontShares):
    """The front's decisions: beside what it signs for the analyzer, what it does for users and with their messages."""

    def __init__(
        self, store: FrontStore, keys: Keys, rules: Rules, clock: Callable[[], float], mark: HighWater | None = None
    ) -> None:
        super().__init__(store, keys, rules, clock, mark)
        self._tidied = 0.0
        self._forms: dict[tuple[str, int], tuple[Form, tuple[tuple[int, tuple[bytes, ...]], ...], str]] = {}
        """Of an offer in shares the form of its reports, the batches that they are for, and their stream."""

    def admit(self, name: str, ticket: bytes) -> bytes | None:
        """Whether somebody may take a turn: everybody, or who shows a ticket or token, whose name this returns."""
        try:
            return self.rules.admission.check(ticket, Door(name, self.keys.verify, self.clock(), self.rules.remember))
        except NotAdmitted as refusal:
            raise Problem("not-admitted", str(refusal)) from None

    def assign(self, wishes: Sequence[tuple[str, bytes | None]]) -> list[Assignment | Problem]:
        """Give out turns, one for each request (an experiment, and the name of a ticket), as long as there are any."""
        now = self.clock()
        names = [name for name, _ in wishes]
        answers: list[Assignment | Problem] = [Problem("nothing-open")] * len(wishes)
        for name in set(names):
            try:
                due, expires = self._times(name, now)
                if self.store.paused(name):
                    raise Problem("nothing-open", "the experiment is paused", retry_after=PAUSE_SECONDS)
            except Problem as problem:
                answers = [problem if asked == name else answer for asked, answer in zip(names, answers, strict=True)]
                continue
            asked = [index for index, asked_name in enumerate(names) if asked_name == name]
            holders = [wishes[index][1] for index in asked]
            turns = self.store.assign(
                name,
                [None if holder is None else tokens.holder(name, holder) for holder in holders],
                now=now,
                due=due,
                ahead=self.rules.ahead,
                spare=self.rules.spare,
            )
            refusals = {"not-admitted": Problem("not-admitted", "the ticket or token was used")}
            if "nothing-open" in turns:
                refusals["nothing-open"] = self._nothing(name)
            for index, holder, turn in zip(asked, holders, turns, strict=True):
                if isinstance(turn, str):
                    answers[index] = refusals[turn]
                else:
                    token = tokens.issue(self.keys.token, name, turn[0], expires, holder)
                    answers[index] = Assignment(turn[1], token, expires)
        return answers

    def _nothing(self, name: str) -> Problem:
        finished = self.store.finished(name)
        if finished is None:
            return Problem("unknown-experiment")
        return Problem("experiment-finished") if finished else Problem("nothing-open", retry_after=0.2)

    def job(self, name: str, body: bytes) -> tuple[Envelope, Job]:
        """What has to be decrypted of an upload, and with which key."""
        try:
            envelope = Envelope.from_bytes(body)
        except Malformed as error:
            raise Problem("malformed-report", str(error)) from None
        key = self.keys.by_id(envelope.key)
        if key is None or SUITES[key.suite].number != envelope.suite:
            raise Problem("unopenable-report", "no such key")
        info = report_info(name, envelope.configuration)
        return envelope, (key.suite, key.private, info, envelope.sealed)

    def arrival(self, name: str, envelope: Envelope, opened: bytes | None) -> Arrival:
        """Check an opened report: its token, its offer, and that it looks like every other report of its batches."""
        if opened is None:
            raise Problem("unopenable-report")
        configuration = self._configuration(name, envelope.configuration)
        try:
            if configuration.in_shares:
                return self._shared_arrival(name, envelope, configuration, opened)
            report = Report.from_bytes(opened)
        except Malformed as error:
            raise Problem("malformed-report", str(error)) from None
        token = tokens.redeem(self.keys.token, report.token, name, report.offer)
        offer = self._offer(name, report.offer)
        _same_configuration(offer, envelope)
        if [part.batch for part in report.parts] != [batch.number for batch in offer.batches]:
            raise Problem("wrong-batch")
        for part, batch in zip(report.parts, offer.batches, strict=True):
            length = batch.shape.length + self._overhead(name, batch)
            if len(part.messages) != batch.shape.slots or len(part.messages[0]) != length:
                raise Problem("wrong-shape", f"{batch.shape.slots} messages of {length} bytes are due")
            if len(set(part.messages)) != len(part.messages):
                raise Problem("wrong-shape", "two messages are equal")
        parts = tuple((part.batch, part.messages) for part in report.parts)
        times = self._token_times(configuration, report.token)
        return Arrival(name, report.offer, token, report.report, *times, parts, late=self._late(report.token))

    def _shared_arrival(self, name: str, envelope: Envelope, configuration: Configuration, opened: bytes) -> Arrival:
        """The same for a report in shares."""
        number = SharedReport.offer_of(opened)
        offer = self._offer(name, number)
        _same_configuration(offer, envelope)
        if (name, number) not in self._forms:
            due = form(offer, configuration.suite, proved=configuration.validity.proved)
            # With devices' noise a report fits its own batches only.
            alone = () if offer.batches[0].mechanism.fits_any_batch else offer.batches
            self._forms[name, number] = due, tuple((batch.number, ()) for batch in alone), stream_of(offer)
        due, own, stream = self._forms[name, number]
        report = SharedReport.from_bytes(opened, due)
        token = tokens.redeem(self.keys.token, report.token, name, report.offer)
        return Arrival(
            name,
            report.offer,
            token,
            report.report,
            *self._token_times(configuration, report.token),
            own,
            late=self._late(report.token),
            stream=stream,
            name=report.report,
            configuration=envelope.configuration,
            own=report.share,
            sealed=b"".join(report.sealed),
        )

    def _token_times(self, configuration: Configuration, token: bytes) -> tuple[int, int]:
        """When the turn of a token is overdue, and on which day the token may be forgotten.

        What is stored says that day, not when the turn was taken.
        """
        expires, reports = tokens.expiry(token), configuration.reports
        due = expires - max(0, reports.within - math.floor(reports.at[1] + self.rules.due_within))
        lasting = configuration.admission.lasting
        return due, NEVER if lasting else -(-(expires + self.rules.remember) // DAY) * DAY

    def _late(self, token: bytes) -> bool:
        return self.clock() >= tokens.expiry(token)

    def take(self, uploads: Sequence[tuple[str, bytes]]) -> list[str | Problem]:
        """Take a group of uploads for good: open each, check it, and write those that pass in one transaction.

        Returns for each one word of `FrontStore.accept`, or why it was refused before that.
        """
        answers: list[str | Problem] = []
        arrivals: list[tuple[int, Arrival]] = []
        for index, (name, body) in enumerate(uploads):
            try:
                envelope, job = self.job(name, body)
                arrivals.append((index, self.arrival(name, envelope, open_all([job])[0])))
                answers.append("accepted")
            except Problem as problem:
                answers.append(problem)
            except CroupierError as error:
                answers.append(Problem("bad-request", str(error)))
        if arrivals:
            outcomes = self.store.accept(self._prepared([arrival for _, arrival in arrivals]))
            for (index, _), outcome in zip(arrivals, outcomes, strict=True):
                answers[index] = outcome
        return answers

    def advance(self) -> int:
        """Do with every block what is due; how many batches were given up."""
        return self.store.advance(self.clock())

    def close_full(self) -> int:
        """Make every full batch ready to leave; returns how many there were. One that cannot be stops no other."""
        self.advance()
        closed, failure = 0, None
        for name, number, in_shares in self.store.full():
            try:
                now = self.clock()
                if self.rules.claim and not self.store.claim(name, number, now, now + self.rules.claim):
                    continue
                # Drawn and sealed before the store is locked; whoever closes the batch first uses his own.
                if in_shares:
                    closed += self._answer(name, number)
                else:
                    closed += self.store.close_batch(name, number, self._receipt, self._noise(name, number))
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure
        return closed

    def standings(
        self, name: str, since: int = 0, most: int = MOST_BATCHES, *, trusted: bool = False
    ) -> dict[str, Any]:
        """The public counts of an experiment: the next batches from a number on, the turns given out, the reports.

        The analyzer is also told under which configurations reports wait: that would tell others when one came.
        """
        finished = self.store.finished(name)
        if finished is None:
            raise Problem("unknown-experiment")
        self._check_may_see(name, trusted)
        assigned, accepted = self.store.plays(name)
        assigned, accepted = (total // STEP * STEP for total in (assigned, accepted))
        now = self.clock()
        batches = [_standing(standing, now) for standing in self.store.standings(name, since, most)]
        refused = {word: count // STEP * STEP for word, count in self.store.refused(name).items()}
        counts = {"assigned": assigned, "accepted": accepted, "refused": refused}
        waiting = [to_text(digest) for digest in self.store.waiting_configurations(name)] if trusted else []
        told = {"finished": finished, "paused": self.store.paused(name), **counts, "batches": batches}
        return told | ({"waiting": waiting} if trusted else {})

    def _check_may_see(self, name: str, trusted: bool) -> None:
        """How a private experiment comes along is the analyzer's business alone."""
        if not trusted and not self._current(name).public:
            raise Problem("unauthorized", "this experiment is private")

    def receipt(self, name: str, number: int, *, trusted: bool = False) -> dict[str, Any]:
        """What a ready batch is, signed: how many reports and messages, and the hash of them all."""
        if self.store.finished(name) is not None:
            self._check_may_see(name, trusted)
        state, receipt = self._state(name, number)
        # In shares it is the answer itself, which leaves once the log is countersigned.
        shown = ("released",) if self._batch(name, number).mechanism.ring else ("ready", "released")
        if receipt is None or state not in shown:
            raise Problem(GONE.get(state, "not-released"))
        statement: dict[str, Any] = json.loads(receipt)
        return statement

    def part(self, name: str, number: int, part: int) -> bytes:
        """One part of a ready batch's messages."""
        state, _ = self._state(name, number)
        if state == "ready" and not self.store.may_pull(name, number):
            raise Problem("not-released", "the log is to be countersigned before the next batch is pulled")
        if state != "ready":
            raise Problem("already-released" if state == "released" else GONE.get(state, "not-released"))
        body = self.store.part(name, number, part)
        if body is None:
            raise Problem("not-found", f"batch {number} has no part {part}")
        return body

    def acknowledge(self, name: str, number: int) -> None:
        """The analyzer has a batch: delete it here."""
        state, _ = self._state(name, number)
        if state not in ("ready", "released"):
            raise Problem(GONE.get(state, "not-released"))
        if not self.store.given_out(name, number):
            raise Problem("not-released", "its answer was not asked for yet")
        self.store.acknowledge(name, number)

    def cancel(self, name: str, number: int) -> None:
        """Delete a batch that is open or whose answer is not wanted, as after an operator's stop."""
        self._state(name, number)
        self.store.cancel(name, number)

    def close_soon(self, name: str, number: int) -> None:
        """A batch in shares is not wanted any larger: it closes with what it has. With nothing in it, it is deleted."""
        self._state(name, number)
        if not self.store.close_soon(name, number, self.clock()):
            self.store.cancel(name, number)

    def close_blocks(self, name: str) -> None:
        """Nothing more is wanted: no turn is dealt, no report accepted, and blocks close with what they have."""
        if self.store.finished(name) is None:
            raise Problem("unknown-experiment")
        self.store.close_blocks(name, self.clock())

    def pause(self, name: str, *, paused: bool) -> None:
        """Deal nobody a turn for now, or again. Reports of turns that were dealt are taken."""
        if self.store.finished(name) is None:
            raise Problem("unknown-experiment")
        self.store.pause(name, paused=paused)

    def finish(self, name: str) -> None:
        """The experiment has ended."""
        if self.store.finished(name) is None:
            raise Problem("unknown-experiment")
        self.store.finish(name)

    def sweep(self) -> int:
        """Delete what has expired, and close what is due."""
        now = self.clock()
        self.store.prune(int(now))
        if abs(now - self._tidied) >= TIDY_SECONDS:
            self._tidied = now
            self.store.tidy_keys()
        return self.store.expire(now) + self.store.close_due(now) + self.store.advance(now)

    def _noise(self, name: str, number: int) -> tuple[bytes, ...]:
        """A whole noise of this front's own, sealed as users' messages are; drawn anew for each closing."""
        batch = self._batch(name, number)
        try:
            own = batch.mechanism.front_slots(self.store.source)
        finally:
            # From here on no image of the memory tells this noise.
            self.store.source.renew()
        return seal_slots(name, batch, self._configuration(name, batch.pin), own)

    def _receipt(self, closing: Closing) -> str:
        body = {
            "version": VERSION,
            "experiment": closing.experiment,
            "configuration": to_text(closing.configuration),
            "batch": closing.number,
            "batch_hash": to_text(closing.hash),
            "reports": closing.reports,
            "messages": closing.messages,
            "length": closing.length,
            "parts": closing.parts,
            "sha256": to_text(closing.digest),
        } | told_of(closing.in_block)
        return json.dumps(Statement.of("release", body).signed("front", self.keys.sign).to_dict())


def _same_configuration(offer: Offer, envelope: Envelope) -> None:
    if offer.configuration != envelope.configuration:
        raise Problem("wrong-batch", "the report was made under another configuration than its offer")


def _standing(standing: Standing, now: float) -> dict[str, Any]:
    received = coarse(standing.received, standing.users)
    # Open after its deadline: it has fewer reports than the smallest batch.
    late = standing.state == "open" and standing.expires is not None and standing.expires <= now
    # Of an arm that nobody reported no receipt tells them.
    turns = standing.turns if standing.state == "expired" else None
    about = {"batch": standing.number, "users": standing.users, "received": received, "turns": turns}
    return about | {"state": standing.state, "late": late}


def coarse(received: int, users: int) -> int:
    """How full a batch is, in eighths and no finer than by eight: an exact count would tell when each report came."""
    step = max(-(-users // EIGHTHS), FINEST)
    return users if received >= users else received // step * step
