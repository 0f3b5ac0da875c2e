"""One experiment that runs: its state is a log of what happened.

Records are configured, opened, released, refused, expired and operated. A restart reads the log again, and the public
transcript is the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from croupier.checks import InvalidParameter
from croupier.client.configuration import Batch, Configuration, Offer
from croupier.client.signing import Statement
from croupier.protocols.mechanism import canonical
from croupier.service.experiment import Plan
from croupier.service.keys import Keys
from croupier.service.programs import Program, Wanted
from croupier.service.store import AnalyzerStore

log = logging.getLogger("croupier")

Record = dict[str, Any]


@dataclass
class Live:
    """One experiment that runs: its plan, its program, its log, and what is open."""

    plan: Plan
    store: AnalyzerStore
    keys: Keys
    clock: Callable[[], float]
    records: list[Record] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """The records as text, made once: anybody may ask for the transcript at any time."""
    program: Program = field(init=False)
    configured: Statement | None = None
    arms: tuple[str, ...] = ()
    offers: dict[int, Offer] = field(default_factory=dict)
    signed: dict[int, Statement] = field(default_factory=dict)
    open: dict[int, Batch] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    standings: dict[str, Any] = field(default_factory=dict)
    trouble: str = ""
    registered: bool = False
    held: bool = False
    """Whether a new revision waits until no turn is left of the one before the last: devices refuse older ones."""
    caught_up: bool = False
    stale: bool = False
    """Whether this may be elsewhere than where the log ends."""
    version: int = 0
    """Counts up whenever there is something new to show."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.restore()

    @property
    def name(self) -> str:
        return self.plan.name

    def restore(self) -> None:
        """Be where the log ends. A store that cannot be read leaves everything as it was, to be shown."""
        found = list(self.store.read(self.name))
        self.records, self.lines = [], []
        self.configured, self.arms = None, self.plan.arms
        self.offers, self.signed, self.open, self.done = {}, {}, {}, set()
        self.program = self.plan.program()
        for record in found:
            if not self.records:
                self._check_begun(Configuration.from_text(record["configuration"]["body"]))
            self._apply(record)
            self._keep(record)
        self.stale = False

    def _keep(self, record: Record) -> None:
        self.records.append(record)
        self.lines.append(canonical(record) + "\n")

    def _check_begun(self, begun: Configuration) -> None:
        """What was promised stays: keys, addresses, the title and new arms may differ from what was first signed."""
        for what in ("program", "recipe", "privacy", "arms"):
            was, now = getattr(begun, what), getattr(self.plan, "parameters" if what == "program" else what)
            if was != now:
                raise InvalidParameter("experiment", self.name, f"as it was when it began: {_changed(what, was, now)}")

    def record(self, event: str, **body: Any) -> None:
        """Take an event in and put it in the log; one that does not fit is refused and leaves no trace."""
        at = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="seconds")
        record: Record = {"event": event, "at": at} | body
        try:
            self._apply(record)
            self.store.append(self.name, len(self.records), record)
        except BaseException:
            self.stale = True
            self.restore()
            raise
        self._keep(record)
        self.version += 1
        fields = {"experiment": self.name, "record": len(self.records) - 1}
        fields |= {key: body[key] for key in ("batch", "operation", "arm") if body.get(key) is not None}
        log.info(event, extra={"fields": fields})

    def _apply(self, record: Record) -> None:
        kind = record["event"]
        if kind == "configured":
            self.configured = Statement.from_dict("configuration", record["configuration"])
        elif kind == "opened":
            statement = Statement.from_dict("offer", record["offer"])
            offer = Offer.from_text(statement.text)
            self.offers[offer.number], self.signed[offer.number] = offer, statement
            self.open |= {batch.number: batch for batch in offer.batches if batch.number not in self.done}
        elif kind == "released":
            decoded = record["decoded"]
            self._over(record["batch"])
            self.program.released(record["batch"], decoded)
        elif kind in ("expired", "refused"):
            self._over(record["batch"])
            self.program.expired(record["batch"])
            if self.program.finished:
                self._end()
        elif kind == "operated":
            self.program.operate(record["operation"], record.get("arm"))
            if record["operation"] == "add":
                self.arms = (*self.arms, record["name"])
            elif record["operation"] == "stop":
                self._end()
        else:
            raise InvalidParameter("event", kind, "a record of this version")

    def _end(self) -> None:
        """Nothing that is still open will be asked for: the shuffler is to delete it."""
        self.done |= set(self.open)
        self.open.clear()
        self.caught_up = False

    def _over(self, batch: int) -> None:
        if batch not in self.open:
            raise InvalidParameter("batch", batch, f"an open batch: {sorted(self.open)}")
        del self.open[batch]
        self.done.add(batch)

    def operate(self, operation: str, arm: int | None, name: str | None) -> None:
        """What an operator asks, as an event."""
        body: dict[str, Any] = {"operation": operation}
        if self.program.finished:
            raise InvalidParameter("operation", operation, "one for an experiment that has not ended")
        if operation == "add":
            if not name or name in self.arms:
                raise InvalidParameter("name", name, "a new arm's name")
            body["name"] = name
        elif operation != "stop":
            body["arm"] = arm
        self.record("operated", **body)

    def offer_of(self, turn: Wanted) -> Offer:
        """A wanted turn as an offer under the current configuration; a batch that is open stays as it was opened."""
        assert self.configured is not None
        batches = tuple(
            self.open[number] if number in self.open else Batch.of(number, self.configured.hash, mechanism)
            for number, mechanism in turn.batches
        )
        return Offer(self.name, self.configured.hash, turn.number, turn.arm, batches)

    @property
    def behind(self) -> bool:
        """Whether turns are given out under an earlier configuration than the current one."""
        current = None if self.configured is None else self.configured.hash
        return any(
            offer.configuration != current and all(batch.number in self.open for batch in offer.batches)
            for offer in self.offers.values()
        )

    def transcript(self) -> str:
        """The log as text: everything needed to check the run."""
        return "".join(self.lines)


def _changed(what: str, was: Any, now: Any) -> str:
    """The first difference between what an experiment was and what it is to be."""
    if hasattr(was, "__dataclass_fields__"):
        was, now = vars(was), vars(now)
    if isinstance(was, dict) and isinstance(now, dict):
        key = next(key for key in sorted({*was, *now}) if was.get(key) != now.get(key))
        return _changed(key, was.get(key), now.get(key))
    return f"{what} was {was!r}, and now is {now!r}"
