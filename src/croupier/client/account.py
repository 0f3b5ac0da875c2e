"""The device's own account on disk: its ledger over time, what it joined, turns to report, and reports on their way.

Every change is one atomic write, synced before anything is sent. A charge is written together with the turn that it
pays for, and a sealed report in place of its turn: after a crash the same bytes go out again under the same report id,
so nothing is charged or counted twice.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.client.kept import Pending, Seen, Taken, Trusted
from croupier.client.limits import Limits
from croupier.client.paid import Paid, costs
from croupier.messages.configuration import BrokenPromise, Configuration
from croupier.messages.no_turn import NoTurn
from croupier.messages.signing import SERVERS, BadSignature, Statement, from_text, to_text
from croupier.privacy.ledger import BudgetExceeded, Ledger

__all__ = ["Account", "NotKept", "Pending", "Reported", "Seen", "Spent", "Taken", "Trusted", "write_atomically"]

VERSION = 3


class Spent(BudgetExceeded, NoTurn):
    """A turn that the budget does not cover now; `until` is when it will, in Unix time, or None when never."""

    def __init__(self, why: str, until: float | None) -> None:
        super().__init__(why)
        self.until = until


class Reported(NoTurn):
    """This device has had its turn, and the experiment takes one report of each."""


class NotKept(NoTurn):
    """An account that cannot be written, or was closed: nothing is done that it would not remember."""


@dataclass
class Account:
    """One device's account; `path=None` keeps it in memory only, for simulations.

    Turns in different batches add up. Those that share a batch cost more δ (`croupier.client.paid`).

    A turn at time t is paid for only when all turns of (t - period, t] together stay within the budget. `period` never
    falls: it is the longest of any experiment that the device joined, and never less than the device's own shortest
    one. So every window of that length holds the budget at most once, as soon as one turn in it was paid for under that
    period: the last turn in the window was paid for under this period or a longer one, together with all others of the
    window, and fewer turns never cost more. Turns are kept as long as the longest period that the device may ever get,
    so that joining it counts them again.

    >>> account = Account(None, Limits(epsilon_per_period=1.5), clock=lambda: 0.0)
    >>> account.left
    1.5
    """

    path: Path | None
    limits: Limits
    clock: Callable[[], float] = time.time
    period: int = 1
    turns: list[Paid] = field(default_factory=list)
    trusted: dict[str, Trusted] = field(default_factory=dict)
    taken: dict[str, Taken] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    """The experiments that a report was made of, by address."""
    _closed: bool = field(default=False, init=False, repr=False)
    _lock: int | None = field(default=None, init=False, repr=False)
    _change: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    def __post_init__(self) -> None:
        self.period = max(self.period, self.limits.shortest_period)
        if self.path is not None:
            if not Path(self.path).name:
                raise InvalidParameter("account", str(self.path), "the path of a file")
            # One file has one lock, whatever path leads to it.
            self.path = Path(self.path).resolve()
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._take_lock()
            except OSError as error:
                raise InvalidParameter(
                    "account", str(self.path), f"a file that can be kept ({error.strerror})"
                ) from None
            try:
                if self.path.exists():
                    self._read(self.path.read_text(encoding="utf-8"))
            except OSError as error:
                self.close()
                raise InvalidParameter("account", str(self.path), f"a readable file ({error.strerror})") from None
            except BaseException:
                self.close()
                raise

    @property
    def ledger(self) -> Ledger:
        """The budget, and what the turns that count now cost."""
        return self._ledger(self._counted(self.clock()))

    @property
    def left(self) -> float:
        """How much ε may still be spent now."""
        return self.ledger.left

    @property
    def renews_at(self) -> float | None:
        """When the oldest turn that counts stops to count, in Unix time; None when nothing is spent."""
        now = self.clock()
        return min((turn.since(now) + self.period for turn in self._counted(now)), default=None)

    def trust(
        self, address: str, configuration: Configuration, statement: Statement, pinned: dict[str, bytes] | None
    ) -> None:
        """Check a configuration's keys, signatures and promise against what was pinned or first seen; remember it.

        `address` is the experiment's, at its analyzer: another analyzer may have one of the same name.
        """
        known = self.trusted.get(address)
        expected = pinned or ({name: from_text("key", getattr(known, name)) for name in SERVERS} if known else None)
        if expected is not None and expected != configuration.verify_keys:
            raise BadSignature(f"{configuration.experiment} is signed by other keys than this device trusts")
        statement.check_both(configuration.verify_keys)
        if known is not None:
            configuration.check_promise(known.promise)
            if configuration.revision < known.revision - 1:
                # One revision back may still be offered; an older one is a replay.
                raise BadSignature(f"revision {configuration.revision} is stale: {known.revision} has been seen")
        revision = max(configuration.revision, known.revision if known else 0)
        keys = {name: to_text(key) for name, key in configuration.verify_keys.items()}
        trusted = Trusted(**keys, revision=revision, promise=configuration.promise)
        with self._change:
            period = max(self.period, configuration.privacy.period)
            if trusted != known or period != self.period:
                self._commit(trusted=self.trusted | {address: trusted}, period=period)

    def check(
        self,
        epsilon: float,
        delta: float,
        address: str,
        batches: Mapping[Any, bytes] | None = None,
        rho: float | None = None,
    ) -> None:
        """Refuse a turn that cannot be paid for now, or whose batches (hashes by number) are known as others."""
        self._payable(Paid(address, epsilon, delta, _named(batches), self.clock(), rho=rho))

    def charge(
        self,
        epsilon: float,
        delta: float,
        taken: Taken,
        batches: Mapping[Any, bytes] | None = None,
        rho: float | None = None,
        seen: Seen | None = None,
        once: bool = False,
    ) -> None:
        """Charge a turn and keep it, and the arm that it shows, in one write; refuse when the budget is spent.

        Where a device has one turn, `once`, a second one is refused.
        """
        with self._change:
            if once:
                self.check_first(taken.experiment)
            now = self.clock()
            turn = Paid(taken.experiment, epsilon, delta, _named(batches), now, rho=rho)
            self._payable(turn)
            # Only here is anything forgotten, and by the time of the turn before: a clock that is wrong while nothing
            # is charged, or during one charge, does no harm.
            before = max((paid.since(now) for paid in self.turns), default=now)
            oldest = min(now, before) - max(self.limits.longest_period, self.period)
            self._commit(
                turns=[*(paid for paid in self.turns if paid.since(now) > oldest), turn],
                taken=self.taken | {taken.id: taken},
                seen=self.seen | ({} if seen is None else {taken.experiment: seen}),
            )

    def check_first(self, experiment: str) -> None:
        """Refuse a turn of an experiment that this device has reported, or has a turn of."""
        if experiment in self.reported or any(one.experiment == experiment for one in self.taken.values()):
            raise Reported(f"{experiment} takes one report of a device, and this one has had its turn")

    def record(self, turn: str, outcome: object) -> bool:
        """Keep what came of a turn; False where it is on its way already, or over."""
        with self._change:
            known = self.taken.get(turn)
            if known is None:
                return False
            self._commit(taken=self.taken | {turn: replace(known, outcome=(outcome,))})
            return True

    def seal(self, turn: str, sealed: Callable[[Taken], Pending]) -> Pending | None:
        """Put a turn's sealed report in its place, in one write, before it is sent; None where there is no such turn.

        Nobody records anything meanwhile, and nobody seals it a second time.
        """
        with self._change:
            known = self.taken.get(turn)
            if known is None:
                return None
            pending = sealed(known)
            self._commit(
                taken=_without(self.taken, turn),
                pending=self.pending | {pending.report: pending},
                reported=self.reported | {known.experiment},
            )
            return pending

    def drop(self, turn: str, unseen: bool = False) -> None:
        """Forget a turn that will not be reported, and its arm too if nobody saw it. The charge stays."""
        with self._change:
            known = self.taken.get(turn)
            if known is not None:
                seen = _without(self.seen, known.experiment) if unseen else self.seen
                self._commit(taken=_without(self.taken, turn), seen=seen)

    def forget(self, experiment: str) -> None:
        """Forget which arm of an experiment this user was shown."""
        with self._change:
            if experiment in self.seen:
                self._commit(seen=_without(self.seen, experiment))

    def _counted(self, now: float) -> list[Paid]:
        """The turns within the period before now, the oldest first."""
        with self._change:
            if any(turn.at > now for turn in self.turns):
                # What the clock showed is written with the next change.
                self.turns = [turn.seen(now) for turn in self.turns]
            counted = [turn for turn in self.turns if turn.since(now) > now - self.period]
        return sorted(counted, key=lambda turn: turn.since(now))

    def _ledger(self, turns: list[Paid]) -> Ledger:
        return Ledger(self.limits.epsilon_per_period, self.limits.delta_per_period, charges=costs(turns))

    def _payable(self, turn: Paid) -> None:
        """Refuse a turn that the budget does not cover, and say when it will."""
        self._check_batches(turn)
        counted = self._counted(turn.at)
        try:
            self._pay(counted, turn)
        except BudgetExceeded as refusal:
            until = self._until(counted, turn)
            when = "never" if until is None else f"in {math.ceil(until - turn.at)} s"
            raise Spent(f"{refusal}; there is enough {when}", until) from None

    def _check_batches(self, turn: Paid) -> None:
        """Refuse a batch that this device reported to when it comes under another hash."""
        for known in self.turns:
            if known.experiment == turn.experiment:
                for number in known.batches.keys() & turn.batches.keys():
                    if known.batches[number] != turn.batches[number]:
                        raise BrokenPromise(f"batch {number} of {turn.experiment} has another pin than before")

    def _pay(self, counted: list[Paid], turn: Paid) -> None:
        *others, charge = costs([*counted, turn])
        Ledger(self.limits.epsilon_per_period, self.limits.delta_per_period, charges=others).check(charge)

    def _until(self, counted: list[Paid], turn: Paid) -> float | None:
        """When so many of the oldest turns no longer count that this one is covered."""

        def covered(left_out: int) -> bool:
            try:
                self._pay(counted[left_out:], turn)
            except BudgetExceeded:
                return False
            return True

        if not covered(len(counted)):
            return None
        fewest = bisect_left(range(len(counted)), True, key=covered)
        return counted[fewest - 1].since(turn.at) + self.period

    def settle(self, report: str) -> None:
        """A report's fate is known: it need not be sent again. The charge stays."""
        with self._change:
            if report in self.pending:
                self._commit(pending=_without(self.pending, report))

    def close(self) -> None:
        """Give the account's file back; whoever still works with it changes nothing any more."""
        with self._change:
            self._closed = True
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _take_lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # no such locks on this system: one process a file is then the app's own care
            return
        assert self.path is not None
        self._lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise CroupierError(f"{self.path} is in use by another process or client: close that one first") from None

    def _read(self, text: str) -> None:
        try:
            body = json.loads(text)
            integer("version", body.pop("version"), VERSION, VERSION)
            self.period = max(integer("period", body["period"], 1), self.limits.shortest_period)
            self.turns = [Paid(**entry) for entry in body["turns"]]
            self.trusted = {address: Trusted(**entry) for address, entry in body["trusted"].items()}
            taken = (Taken(**entry | {"outcome": tuple(entry["outcome"])}) for entry in body["taken"])
            self.taken = {entry.id: entry for entry in taken}
            self.pending = {entry["report"]: Pending(**entry) for entry in body["pending"]}
            self.seen = {address: Seen(**entry) for address, entry in body["seen"].items()}
            # Files of earlier versions have none.
            self.reported = set(body.get("reported", ()))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            # A ledger that cannot be read must not be taken for an empty one.
            raise InvalidParameter("account", str(self.path), f"a readable account ({error})") from None

    def _commit(self, **changes: Any) -> None:
        """Write the account with these changes, and only then make them: what is not on disk has not happened."""
        if self._closed:
            raise NotKept("the account was closed")
        if self.path is not None:
            changed = {name: changes.get(name, getattr(self, name)) for name in _KEPT}
            try:
                write_atomically(self.path, json.dumps({"version": VERSION} | _plain(**changed)).encode())
            except OSError as error:
                raise NotKept(f"{self.path} cannot be written ({error.strerror or error})") from error
        for name, value in changes.items():
            setattr(self, name, value)


_KEPT = ("period", "turns", "trusted", "taken", "pending", "seen", "reported")


def _plain(**kept: Any) -> dict[str, Any]:
    """What is kept of an account, as JSON has it."""
    return {
        "period": kept["period"],
        "turns": [vars(entry) for entry in kept["turns"]],
        "trusted": {address: asdict(entry) for address, entry in kept["trusted"].items()},
        "taken": [vars(entry) for entry in kept["taken"].values()],
        "pending": [vars(entry) for entry in kept["pending"].values()],
        "seen": {address: asdict(entry) for address, entry in kept["seen"].items()},
        "reported": sorted(kept["reported"]),
    }


def _without(entries: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: entry for name, entry in entries.items() if name != key}


def _named(batches: Mapping[Any, bytes] | None) -> dict[str, str]:
    """Batches' hashes by number, as JSON has them."""
    return {str(number): to_text(digest) for number, digest in (batches or {}).items()}


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file by one that only its owner reads, so that a crash leaves the old one or the new one, on disk."""
    temporary = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        temporary.unlink()
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
