"""The device's own account on disk: its ledger with its period, whom it trusts, and reports that may not be lost.

Every change is one atomic write, synced before anything is sent. A charge and the sealed report it pays for are written
together: after a crash the same bytes go out again under the same report id, so nothing is charged or counted twice.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.client.configuration import Configuration
from croupier.client.limits import Limits
from croupier.client.signing import BadSignature, Statement, from_text, to_text
from croupier.privacy import Charge, Ledger

VERSION = 1


@dataclass(frozen=True)
class Pending:
    """A report that is paid for and not yet known to have arrived."""

    experiment: str
    url: str
    report: str
    body: str
    expires: int


@dataclass(frozen=True)
class Trusted:
    """The keys of an experiment's servers as first seen or as pinned, and the newest revision that they signed."""

    analyzer: str
    shuffler: str
    revision: int


@dataclass(frozen=True)
class Group:
    """Turns of one experiment that share batches: together they are one change of those batches' sums."""

    experiment: str
    batches: tuple[int, ...]
    turns: int


@dataclass
class Account:
    """One device's account; `path=None` keeps it in memory only, for simulations.

    Turns in different batches add up. k turns that share a batch are k steps from neighbour to neighbour, and cost
    (kε, δ(1 + e^ε + … + e^{(k-1)ε})): each costs more δ than the one before.

    The ledger renews when `period` seconds have passed since its first charge: the longest period of any experiment
    that the device joined, and never less than the device's own shortest one.

    >>> account = Account(None, Limits(epsilon_per_period=1.5), clock=lambda: 0.0)
    >>> account.left
    1.5
    """

    path: Path | None
    limits: Limits
    clock: Callable[[], float] = time.time
    period: int = 1
    started: float | None = None
    ledger: Ledger = field(init=False)
    trusted: dict[str, Trusted] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    _lock: int | None = field(default=None, init=False, repr=False)
    _change: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    def __post_init__(self) -> None:
        self.ledger = self._fresh_ledger()
        self.period = max(self.period, self.limits.shortest_period)
        if self.path is not None:
            self.path = Path(self.path)
            if not self.path.name:
                raise InvalidParameter("account", str(self.path), "the path of a file")
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
    def left(self) -> float:
        """How much ε the rest of this period may still cost."""
        self._renew()
        return self.ledger.left

    def trust(self, configuration: Configuration, statement: Statement, pinned: dict[str, bytes] | None) -> None:
        """Check a configuration's signatures against the keys that were pinned or first seen, and remember them."""
        known = self.trusted.get(configuration.experiment)
        expected = pinned or ({name: from_text("key", getattr(known, name)) for name in _SERVERS} if known else None)
        if expected is not None and expected != configuration.verify_keys:
            raise BadSignature(f"{configuration.experiment} is signed by other keys than this device trusts")
        statement.check_both(configuration.verify_keys)
        if known is not None and configuration.revision < known.revision - 1:
            # One revision back may still have open batches; an older one is a replay.
            raise BadSignature(f"revision {configuration.revision} is stale: {known.revision} has been seen")
        revision = max(configuration.revision, known.revision if known else 0)
        found = Trusted(**{name: to_text(key) for name, key in configuration.verify_keys.items()}, revision=revision)
        period = max(self.period, configuration.privacy.period)
        if found != known or period != self.period:
            with self._change:
                self.trusted[configuration.experiment], self.period = found, period
                self._write()

    def check(self, epsilon: float, delta: float, experiment: str, batches: Collection[int] = ()) -> None:
        """Refuse a turn that the rest of this period cannot pay for."""
        self._renew()
        self.ledger.check(self._cost(epsilon, delta, experiment, batches)[0])

    def charge(self, epsilon: float, delta: float, pending: Pending, batches: Collection[int] = ()) -> None:
        """Charge a turn and keep its report, in one write, before it is sent; refuse when the budget is spent."""
        with self._change:
            self._renew()
            charge, joined, group = self._cost(epsilon, delta, pending.experiment, batches)
            self.ledger.take(charge)
            self.groups = [one for one in self.groups if one not in joined] + [group]
            if self.started is None:
                self.started = self.clock()
            self.pending[pending.report] = pending
            self._write()

    def _cost(
        self, epsilon: float, delta: float, experiment: str, batches: Collection[int]
    ) -> tuple[Charge, list[Group], Group]:
        """What a turn in these batches costs, the groups of turns that it joins, and the group that they become."""
        joined = [one for one in self.groups if one.experiment == experiment and {*one.batches} & {*batches}]
        numbers = {*batches}.union(*(one.batches for one in joined))
        group = Group(experiment, tuple(sorted(numbers)), 1 + sum(one.turns for one in joined))
        paid = sum(_steps(epsilon, one.turns) for one in joined)
        return Charge(experiment, epsilon, delta * (_steps(epsilon, group.turns) - paid)), joined, group

    def settle(self, report: str) -> None:
        """A report's fate is known: it need not be sent again. The charge stays."""
        with self._change:
            if self.pending.pop(report, None) is not None:
                self._write()

    def close(self) -> None:
        """Give the account's file back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _fresh_ledger(self) -> Ledger:
        return Ledger(self.limits.epsilon_per_period, self.limits.delta_per_period)

    def _renew(self) -> None:
        if self.started is None:
            return
        now = self.clock()
        if now >= self.started + self.period:
            self.ledger, self.started, self.groups = self._fresh_ledger(), None, []
        # A clock that was ahead and was set right must not lock the ledger for as long as it was ahead.
        elif now < self.started:
            self.started = now

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
            raise CroupierError(f"{self.path} is in use by another process") from None

    def _read(self, text: str) -> None:
        try:
            body = json.loads(text)
            integer("version", body.pop("version"), VERSION, VERSION)
            kept = Ledger.from_json(body["ledger"])
            self.period = max(integer("period", body["period"], 1), self.limits.shortest_period)
            self.started = body["started"]
            self.trusted = {name: Trusted(**one) for name, one in body["trusted"].items()}
            self.pending = {one["report"]: Pending(**one) for one in body["pending"]}
            # Files of before have none.
            groups = body.get("groups", [])
            self.groups = [Group(one["experiment"], tuple(one["batches"]), one["turns"]) for one in groups]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            # A ledger that cannot be read must not be taken for an empty one.
            raise InvalidParameter("account", str(self.path), f"a readable account ({error})") from None
        # The device's limits may have changed since; what was spent has not.
        self.ledger = replace(self._fresh_ledger(), charges=kept.charges)

    def _write(self) -> None:
        if self.path is None:
            return
        body = {
            "version": VERSION,
            "period": self.period,
            "started": self.started,
            "ledger": self.ledger.to_json(),
            "trusted": {name: asdict(one) for name, one in self.trusted.items()},
            "pending": [asdict(one) for one in self.pending.values()],
            "groups": [asdict(one) for one in self.groups],
        }
        write_atomically(self.path, json.dumps(body).encode())


_SERVERS = ("analyzer", "shuffler")


def _steps(epsilon: float, turns: int) -> float:
    """1 + e^ε + … + e^{(turns-1)ε}, or infinity when that is too large to matter."""
    try:
        return math.fsum(math.exp(epsilon * step) for step in range(turns))
    except OverflowError:
        return math.inf


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
