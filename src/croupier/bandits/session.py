"""One live experiment: a policy driven by a numbered log of events, from which it can be replayed bit for bit.

Batches are opened, then released or expired, in any order. The batches of one phase are applied together, arms in
order, so the state does not depend on the order in which they arrive. What an operator asks for (pause, retire, add,
stop) takes effect between phases; a batch of an arm that is to be paused or retired may be let expire meanwhile, and is
then not opened again. State is the log: a crash is a replay, and anyone can check a run from its
transcript.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from croupier.bandits.catalogue import policy
from croupier.bandits.policy import Policy
from croupier.checks import CroupierError, InvalidParameter, integer, one_of

VERSION = 1
OPERATIONS = ("pause", "resume", "retire", "add", "stop")


@dataclass(frozen=True)
class Opened:
    """A batch wants users: exactly so many, for one arm."""

    batch: int
    arm: int
    users: int


@dataclass(frozen=True)
class Released:
    """What the view of a full batch decodes to."""

    batch: int
    decoded: int


@dataclass(frozen=True)
class Expired:
    """A batch that did not fill in time; its arm will want it again."""

    batch: int


@dataclass(frozen=True)
class Operated:
    """An operator's wish; `arm` for those that name one."""

    operation: str
    arm: int | None = None

    def __post_init__(self) -> None:
        one_of("operation", self.operation, OPERATIONS)


Event = Opened | Released | Expired | Operated

KINDS: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in (Opened, Released, Expired, Operated)}


@dataclass
class Session:
    """A policy (given by its configuration) and the log of what happened to it.

    >>> session = Session({"name": "dp-klucb", "arms": 2, "horizon": 1000, "epsilon": 1.0, "binary": True})
    >>> session.open_batches
    [Opened(batch=0, arm=0, users=32)]
    >>> session.observe(Released(batch=0, decoded=20))
    >>> session.open_batches
    [Opened(batch=1, arm=1, users=32)]
    """

    configuration: dict[str, Any]
    log: list[Event] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.policy: Policy = policy(**self.configuration)
        self._open: dict[int, Opened] = {}
        self._phase: dict[int, tuple[Opened, int]] = {}
        self._assigned = np.zeros((1, self.policy.arms), dtype=np.int64)
        self._waiting: list[Operated] = []
        self._next = 0
        self._begin_phase()

    @property
    def open_batches(self) -> list[Opened]:
        """The batches that want users now, in order of their numbers."""
        return [self._open[number] for number in sorted(self._open)]

    @property
    def leaving(self) -> set[int]:
        """The arms that an operator has asked to pause or retire, and that are not yet."""
        found: set[int] = set()
        for event in self._waiting:
            if event.arm is not None:
                (found.discard if event.operation == "resume" else found.add)(event.arm)
        return found

    @property
    def finished(self) -> bool:
        """Whether nothing more will be asked: the horizon is reached, the run stopped, or one arm is left."""
        return bool(self.policy.finished[0] or self.policy.settled[0])

    def observe(self, event: Event) -> None:
        """Take an event into the log and act on it; one that does not fit is refused and changes nothing."""
        if isinstance(event, Opened):
            raise InvalidParameter("event", event, "released, expired or operated: the policy opens batches itself")
        if isinstance(event, Operated):
            self._operate(event)
            return
        if event.batch not in self._open:
            raise InvalidParameter("batch", event.batch, f"an open batch: {sorted(self._open)}")
        batch = self._open.pop(event.batch)
        self.log.append(event)
        if isinstance(event, Released):
            self._phase[batch.arm] = (batch, int(event.decoded))
        elif batch.arm in self.leaving:
            self._assigned[0, batch.arm] = 0
        else:
            self._open_batch(batch.arm, batch.users)
        if not self._open:
            self._end_phase()

    def _operate(self, event: Operated) -> None:
        if event.operation in ("pause", "resume", "retire"):
            integer("arm", event.arm, 0, self.policy.arms - 1 + sum(w.operation == "add" for w in self._waiting))
        self.log.append(event)
        if event.operation == "stop":
            self.policy.stop()
            self._open.clear()
            return
        self._waiting.append(event)
        if not self._open:
            self._begin_phase()

    def _begin_phase(self) -> None:
        for event in self._waiting:
            if event.operation == "add":
                self.policy.add_arm()
            elif event.operation == "retire" and self.policy.active.sum() <= 1:
                # Since it was asked for, the others were eliminated: the last arm in play stays.
                continue
            elif event.arm is not None:
                getattr(self.policy, event.operation)(event.arm)
        self._waiting.clear()
        self._phase.clear()
        if self.finished:
            return
        self._assigned, released = self.policy.assign(self.policy.wanted())
        for arm in np.flatnonzero(released[0]).tolist():
            self._open_batch(arm, int(self._assigned[0, arm]))
        if not self._open and self._assigned.any():
            # Only users whose batch the horizon cuts short are left: they play, and nothing is released.
            self._end_phase()

    def _open_batch(self, arm: int, users: int) -> None:
        batch = Opened(self._next, arm, users)
        self._open[batch.batch] = batch
        self.log.append(batch)
        self._next += 1

    def _end_phase(self) -> None:
        sums = np.zeros(self._assigned.shape)
        released = np.zeros(self._assigned.shape, dtype=bool)
        for arm, (batch, decoded) in self._phase.items():
            mechanism = self.policy.ladder.mechanism(batch.users)
            sums[0, arm] = decoded if mechanism is None else float(mechanism.unit_sums(decoded))
            released[0, arm] = True
        self.policy.observe(sums, self._assigned, released)
        self._begin_phase()

    def transcript(self) -> str:
        """Everything needed to check the run: a line of configuration, then a line an event."""
        head = {"version": VERSION, "configuration": self.configuration}
        lines = [head, *({"event": type(e).__name__.lower()} | asdict(e) for e in self.log)]
        return "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)

    @classmethod
    def replay(cls, transcript: str) -> Session:
        """Run a transcript again; every batch that was opened must be the one that the policy opens now."""
        lines = transcript.splitlines()
        try:
            head, events = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
            if head["version"] != VERSION:
                raise InvalidParameter("version", head["version"], str(VERSION))
            session = cls(head["configuration"])
            read = [KINDS[body.pop("event")](**body) for body in events]
        except (IndexError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise InvalidParameter("transcript", lines[:1], f"version {VERSION} of a transcript ({error!r})") from None
        for number, event in enumerate(read):
            if isinstance(event, Opened):
                if number >= len(session.log) or session.log[number] != event:
                    found = session.log[number] if number < len(session.log) else "nothing"
                    raise CroupierError(
                        f"event {number} does not follow: the log says {event}, the policy says {found}"
                    )
            else:
                session.observe(event)
        return session
