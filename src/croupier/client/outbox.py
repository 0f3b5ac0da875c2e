"""Reports that are sent when they are due, and never because of what is in them.

The moment was drawn with the turn, and what was not recorded by then is reported as the experiment's default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from croupier.checks import CroupierError
from croupier.client.account import Pending, Taken
from croupier.client.joining import Joining
from croupier.client.steps import Refused, Request, Steps, Unreachable, accepted, fetch
from croupier.client.turns import Shown, Turn
from croupier.client.uploads import needs_no_noise, upload
from croupier.messages.configuration import Configuration
from croupier.messages.signing import from_text, to_text

REPORT_TYPE = "application/vnd.croupier.report"
FIRST_RETRY, LONGEST_RETRY = 60.0, 3600.0
"""After how many seconds a report that met no answer is sent again: twice as many each time."""


@dataclass
class Retry:
    """How often in a row a report met no answer, and when it is sent again."""

    failures: int
    at: float


@dataclass
class Outbox(Joining):
    """Records what came of turns, seals what is due, and sends it until somebody has answered."""

    trouble: str | None = None
    """Why a report still waits that was to be sent by now."""
    _retries: dict[str, Retry] = field(default_factory=dict)
    _on_their_way: set[str] = field(default_factory=set)

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
