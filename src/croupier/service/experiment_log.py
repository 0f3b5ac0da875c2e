"""One experiment that runs: its state is a log of what happened.

A restart reads the log again, and the public transcript is the log. What a record means is `programs.interpreter`'s.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from croupier.checks import CroupierError, InvalidParameter
from croupier.messages.configuration import Configuration, difference
from croupier.messages.offer import Batch, Offer
from croupier.messages.signing import Statement, from_text
from croupier.programs import WHOLE, Change, Program, State, Wanted, records
from croupier.programs.records import BadRecord, Head, Record
from croupier.protocols.mechanism import canonical
from croupier.service.experiment import Plan
from croupier.service.history import History
from croupier.service.keys import Keys
from croupier.service.store import AnalyzerStore
from croupier.service.store.analyzer import Beside
from croupier.service.waits import Waits

log = logging.getLogger("croupier")


UNFILLED = 3
"""So many batches in a row that do not fill are called a standstill."""


class Run:
    """What a log says, line by line: its end, where the experiment stands, and what people are shown of its past."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.head = plan, Head()
        self.digests: list[bytes] = []
        self.hashes: list[bytes] = []
        """Of every line its digest, and of every head its hash: what shows that one head extends another."""
        self.state = State(plan.program())
        self.history = History(plan.privacy.epsilon)

    def read(self, line: str) -> None:
        """Go on by a line of the log."""
        record = records.read(line, self.head)
        if self.head.number < 0:
            self._check_begun(Configuration.from_text(record["configuration"]["body"]))
        self.take_in(line, self.state.apply(record))

    def take_in(self, line: str, change: Change) -> None:
        """A record that was applied is in the log."""
        self.digests.append(records.digest(line))
        self.head = self.head.then(self.digests[-1])
        self.hashes.append(self.head.hash)
        self.history.note(change, self.state.program)

    def _check_begun(self, begun: Configuration) -> None:
        """What was promised stays: keys, addresses, the title and new arms may differ from what was first signed."""
        plan, first = self.plan, begun.to_dict() | {"validity": begun.validity.kind}
        now: dict[str, Any] = {"program": plan.parameters, "recipe": plan.recipe, "privacy": asdict(plan.privacy)}
        now |= {"arms": list(plan.arms), "validity": plan.validity}
        was, now_text = canonical({key: first[key] for key in now}), canonical(now)
        if was != now_text:
            change = f"as it was when it began ({difference(was, now_text)})"
            instead = "change it back, or begin another under another name; operators add arms by `add`"
            raise InvalidParameter("experiment", plan.name, f"{change}: {instead}")


@dataclass(frozen=True)
class Asked:
    """What an operator asks of an experiment, of an arm of it by number or name, or for a new arm or other shares."""

    operation: str
    arm: int | str | None = None
    name: str | None = None
    shares: dict[str, float] | None = None


@dataclass
class Live:
    """One experiment that runs: what its log says, how it is changed, and how the front stands to it.

    A change is decided and written under `lock`, which is never held while the network is waited for.
    """

    plan: Plan
    store: AnalyzerStore
    keys: Keys
    clock: Callable[[], float]
    waits: Waits
    run: Run = field(init=False)
    standings: dict[str, Any] = field(default_factory=dict)
    trouble: str = ""
    registered: bool = False
    witnessed: int | None = None
    """The last record of which the front is known to have countersigned the head."""
    held: bool = False
    """Whether a new revision waits until no turn is left of the one before the last: devices refuse older ones."""
    caught_up: bool = False
    over: bool = False
    """Whether the front was told that it has ended, since this process runs."""
    stale: bool = False
    """Whether this may be elsewhere than where the log ends."""
    version: int = 0
    """Counts up whenever there is something new to show."""
    settled: int = 0
    """Counts the groups of reports in shares that were settled, since this process runs."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.run = self._replayed()

    def _replayed(self) -> Run:
        """What the log in the store says; a store that cannot be read changes nothing here."""
        run = Run(self.plan)
        for line in self.store.read(self.name):
            try:
                run.read(line)
            except BadRecord as error:
                raise BadRecord(f"record {run.head.number + 1} of the log of {self.name}: {error}") from None
        return run

    # What the log says

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def state(self) -> State:
        return self.run.state

    @property
    def program(self) -> Program:
        return self.state.program

    @property
    def configured(self) -> Statement | None:
        return self.state.configured

    @property
    def arms(self) -> tuple[str, ...]:
        return self.plan.arms if self.configured is None else self.state.arms

    @property
    def offers(self) -> dict[int, Offer]:
        """The turns that can be taken."""
        return self.state.offers

    @property
    def open(self) -> dict[int, Batch]:
        return self.state.open

    @property
    def done(self) -> set[int]:
        return self.state.done

    def counted(self, what: str) -> int:
        """How many reports were "accepted" or turns "assigned", in steps, as far as is known.

        No fewer than there are in released batches, which everybody can read: the steps of the rest are behind them,
        and after a restart the log knows of them before the front has been asked.
        """
        known: int = self.standings.get(what, 0)
        return max(known, self.run.history.reports)

    @property
    def stalled(self) -> str:
        """Why nothing more is learned although everything works: too few people report; empty while that is not so."""
        if self.program.finished or self.state.paused:
            return ""
        smallest, deadline = self.plan.recipe["smallest"], self.plan.deadline
        remedy = "more users, a longer batches.deadline, or a smaller batches.smallest"
        late = [standing for standing in self.standings.get("batches", []) if standing.get("late")]
        if late:
            # All batches of a block wait for the one that has the fewest.
            short = min(late, key=lambda standing: standing["received"])["batch"]
            turn = self.state.turns.get(short)
            arm = "" if turn is None or turn.arm is None else f" of {self.arms[turn.arm]!r}"
            return f"batch {short}{arm} has fewer than {smallest} reports after {deadline:g} s: {remedy}"
        if self.run.history.unfilled >= UNFILLED:
            return f"the last {self.run.history.unfilled} batches did not fill within {deadline:g} s: {remedy}"
        return ""

    @property
    def waiting(self) -> list[bytes]:
        """The configurations that reports in shares wait under at the front, by hash."""
        return [from_text("hash", digest) for digest in self.standings.get("waiting", [])]

    @property
    def count(self) -> int:
        """How many records there are."""
        return self.run.head.number + 1

    @property
    def records(self) -> list[Record]:
        """Every record, read from the store; for who looks at a short log."""
        return [json.loads(line) for line in self.store.read(self.name)]

    def transcript(self) -> str:
        """The log as one text; for who looks at a short log."""
        return "".join(line + "\n" for line in self.store.read(self.name))

    async def pages(self) -> AsyncIterator[str]:
        """The log as it is now, in pieces: everything needed to check the run, and never much of it in memory."""
        loop, at, end = asyncio.get_running_loop(), 0, self.count
        while at < end:
            lines = await loop.run_in_executor(self.store.readers, self.store.page, self.name, at, end)
            if not lines:
                raise CroupierError(f"record {at} of {self.name} is not in the store")
            at += len(lines)
            yield "".join(line + "\n" for line in lines)

    # Changes

    async def record(self, event: str, still: Callable[[], bool] = lambda: True, **body: Any) -> bool:
        """Take an event in and put it in the log; one that does not fit is refused and leaves no trace.

        What was decided before something was waited for may be out of date: it happens only if it is `still` wanted.
        """
        async with self.lock:
            await self.refreshed()
            if not still():
                return False
            await self._append(event, body)
            return True

    async def operate(self, asked: Asked, beside: Beside | None = None) -> int:
        """What an operator asks, as an event; returns its number. `beside` is the operators' log's line about it."""
        async with self.lock:
            await self.refreshed()
            known = self.program.operations.get(asked.operation)
            named = {"arm": self._numbered(asked.arm), "name": asked.name, "shares": self._ordered(asked.shares)}
            whole = asked.operation in WHOLE and asked.arm is None
            about = {known.takes: named[known.takes]} if known and known.takes and not whole else {}
            await self._append("operated", {"operation": asked.operation} | about, beside)
            self.registered = self.caught_up = False
            return self.run.head.number

    def _numbered(self, arm: int | str | None) -> int | None:
        """An arm by its number, which may be given as its name."""
        if isinstance(arm, str):
            if arm not in self.arms:
                raise InvalidParameter("arm", arm[:60], f"one of {', '.join(self.arms)}")
            return self.arms.index(arm)
        return arm

    def _ordered(self, shares: dict[str, float] | None) -> list[float] | None:
        """Shares by the numbers of the arms that are named."""
        if shares is None:
            return None
        if set(shares) != set(self.arms):
            raise InvalidParameter("shares", ", ".join(shares)[:60], f"one for each of {', '.join(self.arms)}")
        return [shares[arm] for arm in self.arms]

    async def refreshed(self) -> None:
        """Be where the log ends. A store that cannot be read leaves everything as it was, to be shown."""
        if self.stale:
            with self.waits.on("store"):
                self.run = await asyncio.get_running_loop().run_in_executor(self.store.readers, self._replayed)
            self.stale = False
            self.version += 1

    async def _append(self, event: str, body: dict[str, Any], beside: Beside | None = None) -> None:
        at = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="seconds")
        run = self.run
        line = records.make(run.head, {"event": event, "at": at} | body, self.keys.sign)
        record = records.read(line, run.head)
        self.stale = True
        try:
            change = run.state.apply(record)
        except CroupierError:
            # A program that refuses an operation has done nothing yet.
            self.stale = event != "operated"
            raise
        with self.waits.on("store"):
            write = partial(self.store.append, self.name, record["number"], line, beside=beside)
            await asyncio.get_running_loop().run_in_executor(self.store.writer, write)
        run.take_in(line, change)
        self.stale = False
        self.version += 1
        fields = {"experiment": self.name, "record": record["number"]}
        fields |= {key: body[key] for key in ("batch", "operation", "arm") if body.get(key) is not None}
        log.info(event, extra={"fields": fields})

    def offer_of(self, turn: Wanted) -> Offer:
        """A wanted turn as an offer under the current configuration; a batch that is open stays as it was opened."""
        assert self.configured is not None
        batches = tuple(
            self.open[number] if number in self.open else Batch.of(number, self.configured.hash, mechanism)
            for number, mechanism in turn.batches
        )
        odds = turn.odds if Configuration.from_text(self.configured.text).public else None
        said = (turn.number, turn.arm, batches, odds, turn.block, turn.rule_hash)
        return Offer(self.name, self.configured.hash, *said)

    @property
    def behind(self) -> bool:
        """Whether turns are given out under an earlier configuration than the current one."""
        current = None if self.configured is None else self.configured.hash
        return any(offer.configuration != current for offer in self.offers.values())
