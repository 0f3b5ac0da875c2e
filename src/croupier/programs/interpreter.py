"""What a log says happened: the one place that reads its records.

A record is an object of the log as docs/wire.md has it. `State.apply` lets happen what a record says and refuses what
does not follow; it looks at no signature. The analyzer, the history and `verify` listen to what it returns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, integer, one_of
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Batch, Offer
from croupier.messages.signing import Statement
from croupier.personal import Rule
from croupier.programs.kinds import program
from croupier.programs.program import Dealt, Operation, Program, Wanted
from croupier.programs.records import Record
from croupier.texts import check_words

MOST_IN_BLOCK = 2**50
NEAR = 1e-6
"""Numbers of a decision that differ by less are the same, computed by two machines."""


@dataclass
class Change:
    """What a record did, for those who listen."""

    record: Record
    offer: Offer | None = None
    """The turn that was opened, or whose batch is over."""
    batch: Batch | None = None
    """The batch that is over."""
    operation: Operation | None = None
    out: set[int] = field(default_factory=set)
    """The arms that went out of play."""
    ended: bool = False
    """Whether this was the end."""

    @property
    def event(self) -> str:
        return str(self.record["event"])


class State:
    """Where an experiment stands after some records: its program, what is signed, what is open.

    It is as large as what is open, however long the log is, but for the numbers of what is over.
    """

    def __init__(self, begun: Program | None = None) -> None:
        self._program = begun
        self.configured: Statement | None = None
        self.configurations: dict[bytes, Statement] = {}
        """All that were signed, by their hash; the newest is `configured`."""
        self.arms: tuple[str, ...] = ()
        self.offers: dict[int, Offer] = {}
        self.signed: dict[int, Statement] = {}
        """The turns that can be taken, as they were signed."""
        self.odds: dict[int, float] = {}
        """Of those whose offers tell no odds, with which they are dealt."""
        self.rules: dict[int, str] = {}
        """Of those where devices choose by themselves, the rule that they choose by."""
        self.opened: set[int] = set()
        """The numbers of all turns so far."""
        self.latest: Offer | None = None
        self.open: dict[int, Batch] = {}
        self.turns: dict[int, Offer] = {}
        """Of each open batch the newest turn that goes to it."""
        self.done: set[int] = set()
        """The numbers of the batches that are over."""
        self.newest = 0
        """The largest number of a batch so far."""
        self.last: Change | None = None
        """What the newest record did."""
        self.paused = False
        """Whether nobody is dealt a turn for now, because an operator asked for it."""
        self.decided: dict[str, Any] | None = None
        """The decision that the log tells, once there is one."""
        self._out: set[int] = set()
        self._ended = False

    @property
    def program(self) -> Program:
        """What runs; nothing does before the first configuration."""
        if self._program is None:
            raise CroupierError("nothing may come before the configuration")
        return self._program

    def configuration(self, digest: bytes) -> Configuration:
        """A configuration of the log by its hash."""
        if digest not in self.configurations:
            raise CroupierError("this configuration is not in the log")
        return Configuration.from_text(self.configurations[digest].text)

    def batch(self, number: int) -> Batch:
        """A batch that is open."""
        if number not in self.open:
            raise InvalidParameter("batch", number, f"an open batch: {sorted(self.open)}")
        return self.open[number]

    def apply(self, record: Record) -> Change:
        """Let happen what a record says; one that does not follow is refused, and an operation then leaves no trace."""
        event = one_of("event", record["event"], tuple(EVENTS))
        if event != "configured" and self.configured is None:
            raise CroupierError("nothing may come before the configuration")
        change = Change(record)
        if self._program is not None:
            self._program.now = max(self._program.now, seconds(record.get("at")))
        EVENTS[event](self, change)
        if self.program.finished and not self._ended:
            self._ended = change.ended = True
            for number in list(self.open):
                # Nothing that is still open will be asked for: the front is to delete it.
                self._close(number)
        if out := self.program.out - self._out:
            change.out = out
            self._out |= out
        self.last = change
        return change

    def _configured(self, change: Change) -> None:
        statement = Statement.from_dict("configuration", change.record["configuration"])
        configuration = Configuration.from_text(statement.text)
        if self.configured is None:
            if configuration.revision:
                raise CroupierError(f"a log begins with revision 0, and this is revision {configuration.revision}")
            self._program, self.arms = self._program or program(configuration.program), configuration.arms
        else:
            self._check_follows(Configuration.from_text(self.configured.text), configuration)
        self.configured = self.configurations[statement.hash] = statement

    def _check_follows(self, before: Configuration, after: Configuration) -> None:
        after.check_promise(before.promise)
        if after.experiment != before.experiment:
            raise CroupierError(f"{after.experiment!r} follows {before.experiment!r}")
        if after.revision != before.revision + 1:
            raise CroupierError(f"revision {after.revision} follows {before.revision}")
        if after.arms != self.arms[: len(after.arms)]:
            raise CroupierError(f"the arms are {after.arms}, and by what was signed and added before {self.arms}")
        if after.chosen is not None and after.chosen != self.program.chosen:
            raise CroupierError(
                f"everybody is to be shown arm {after.chosen}, and it has ended with {self.program.chosen}"
            )

    def _opened(self, change: Change) -> None:
        statement = Statement.from_dict("offer", change.record["offer"])
        change.offer = offer = Offer.from_text(statement.text)
        odds = change.record["odds"] if offer.odds is None else offer.odds
        rule = change.record.get("rule")
        self._check_rule(offer, self._check_wanted(offer, odds).rule, rule)
        if offer.odds is None:
            self.odds[offer.number] = odds
        if rule is not None:
            self.rules[offer.number] = rule
        if not self.opened:
            self.program.begin()
        self.offers[offer.number], self.signed[offer.number], self.latest = offer, statement, offer
        self.opened.add(offer.number)
        for batch in offer.batches:
            if batch.number not in self.done:
                self.open.setdefault(batch.number, batch)
                self.turns[batch.number] = offer
            self.newest = max(self.newest, batch.number)

    def _check_wanted(self, offer: Offer, odds: float) -> Wanted:
        """Every turn must be one that the program wants now, and none is opened twice."""
        wanted = {turn.number: turn for turn in self.program.wanted}
        if offer.number not in wanted:
            raise CroupierError(f"offer {offer.number} does not follow: the program wants {sorted(wanted)}")
        turn = wanted[offer.number]
        if offer.arm != turn.arm or tuple((batch.number, batch.mechanism) for batch in offer.batches) != turn.batches:
            raise CroupierError(f"offer {offer.number} is not the one that the program wants: {turn}")
        if odds != turn.odds:
            raise CroupierError(f"offer {offer.number} has odds {odds}, and the program gives it {turn.odds}")
        if offer.block != turn.block:
            raise CroupierError(
                f"offer {offer.number} is of block {offer.block}, and the program has it in {turn.block}"
            )
        if offer.number in self.opened:
            raise CroupierError(f"offer {offer.number} was opened twice")
        return turn

    def _check_rule(self, offer: Offer, found: str | None, told: object) -> None:
        """The rule that was told must be the one that was signed, and the one that the sums before it lead to."""
        if found is None or not isinstance(told, str):
            if found is not told or offer.rule is not None:
                raise CroupierError(f"offer {offer.number} has a rule, or none, where the program has it otherwise")
            return
        if hashlib.sha256(told.encode()).digest() != offer.rule:
            raise CroupierError(f"the rule of offer {offer.number} is not the one that was signed")
        if not Rule.from_json(told).near(Rule.from_json(found)):
            raise CroupierError(f"the rule of offer {offer.number} is not what the sums before it lead to")

    def _released(self, change: Change) -> None:
        record = change.record
        self._over(change)
        assert change.batch is not None
        assert change.offer is not None
        wanted = change.batch.mechanism
        # Between two servers a block has all who came.
        most = MOST_IN_BLOCK if change.offer.block is not None and wanted.fits_any_batch else wanted.users
        users = integer("users", record.get("users", wanted.users), 1, most)
        dealt = None
        if change.offer.block is not None and "turns" in record:
            dealt = Dealt(integer("turns", record["turns"], 0), bool(record["over"]), pairs("silent", record))
        self.program.released(record["batch"], record["decoded"], users, dealt)

    def _expired(self, change: Change) -> None:
        self._over(change)
        told = {key: integer(key, change.record[key], 0) for key in ("received", "turns") if key in change.record}
        self.program.expired(change.record["batch"], **told)

    def _decided(self, change: Change) -> None:
        """A decision is in the log as it was told; it must be the one that the blocks before lead to."""
        if self.decided is not None:
            raise CroupierError("it was decided before")
        found, told = self.program.decision, change.record["decision"]
        if found is None or not alike(found, told):
            raise CroupierError(_unlike(found or {}, told))
        self.decided = told

    def _over(self, change: Change) -> None:
        number = change.record["batch"]
        change.batch, change.offer = self.batch(number), self.turns[number]
        self._close(number)

    def _close(self, number: int) -> None:
        """A batch is over, and so are the turns that would go to it."""
        del self.open[number], self.turns[number]
        self.done.add(number)
        for turn, offer in list(self.offers.items()):
            if any(batch.number == number for batch in offer.batches):
                del self.offers[turn], self.signed[turn]
                self.odds.pop(turn, None)
                self.rules.pop(turn, None)

    def _operated(self, change: Change) -> None:
        record, running = change.record, self.program
        name = record["operation"]
        if running.finished:
            raise InvalidParameter("operation", name, "one for an experiment that has not ended")
        if name in WHOLE and record.get("arm") is None:
            change.operation = WHOLE[name]
            if self.paused == (name == "pause"):
                raise InvalidParameter("operation", name, "one that changes something")
            self.paused = not self.paused
            return
        one_of("operation", name, tuple(running.operations))
        change.operation = running.operations[name]
        if change.operation.takes == "name":
            arm = record.get("name")
            if not isinstance(arm, str) or not arm or arm in self.arms:
                raise InvalidParameter("name", arm, "a new arm's name")
            check_words("name", arm)
            running.operate(name)
            self.arms = (*self.arms, arm)
        else:
            running.operate(name, record.get(change.operation.takes or ""))


WHOLE = {name: Operation(done, lambda *_: None) for name, done in (("pause", "paused"), ("resume", "resumed"))}
"""What an operator may ask of a whole experiment, whatever its program: that nobody is dealt a turn for now."""


EVENTS: dict[str, Callable[[State, Change], None]] = {
    "configured": State._configured,
    "opened": State._opened,
    "released": State._released,
    "expired": State._expired,
    "refused": State._expired,
    "operated": State._operated,
    "decided": State._decided,
}
"""Everything that can happen, and what it does."""


def seconds(at: object) -> float:
    """A record's time in seconds of Unix time; 0 where it has none."""
    if not isinstance(at, str):
        return 0.0
    try:
        return datetime.fromisoformat(at).timestamp()
    except (ValueError, OverflowError):
        raise InvalidParameter("at", at[:60], "a time as 2026-01-31T12:00:00+00:00") from None


def alike(found: Any, told: Any) -> bool:
    """Whether two decisions are the same: numbers as near as two machines compute them.

    >>> alike({"kind": "better", "lower": 0.012}, {"kind": "better", "lower": 0.0120000000001})
    True
    >>> alike({"kind": "better", "leader": 1}, {"kind": "better", "leader": 2})
    False
    """
    if isinstance(found, dict) and isinstance(told, dict):
        return found.keys() == told.keys() and all(alike(value, told[key]) for key, value in found.items())
    if isinstance(found, list) and isinstance(told, list):
        return len(found) == len(told) and all(map(alike, found, told))
    if isinstance(found, float) and isinstance(told, float):
        return math.isclose(found, told, rel_tol=NEAR, abs_tol=NEAR)
    # As they are written: 1 and true are equal, and no two ways to say the same.
    return repr(found) == repr(told)


def _unlike(found: dict[str, Any], told: Any) -> str:
    """In which of its parts a decision is not the one that follows."""
    parts = told if isinstance(told, dict) else {"kind": told}
    wrong = next(key for key in (*parts, *found) if not alike(found.get(key, ...), parts.get(key, ...)))
    said, follows = (part.get(wrong, "left out") for part in (parts, found))
    return f"the decision has {wrong} = {said}, and what was released before leads to {follows}"


def replay(records: Iterable[Record]) -> Iterator[State]:
    """Go through a log: the state after each record, which is one object that moves on."""
    state = State()
    for record in records:
        state.apply(record)
        yield state


def pairs(key: str, record: Record) -> tuple[tuple[int, int], ...]:
    """What a record tells of some batches, a number each; of none where it has no such key.

    >>> pairs("silent", {"silent": [[0, 5], [1, 7]]}), pairs("silent", {})
    (((0, 5), (1, 7)), ())
    """
    told = record.get(key, [])
    if not isinstance(told, list) or not all(isinstance(one, list) and len(one) == 2 for one in told):
        raise InvalidParameter(key, told, "pairs of a batch and a number")
    return tuple((integer("batch", batch, 0), integer(key, number, 0)) for batch, number in told)
