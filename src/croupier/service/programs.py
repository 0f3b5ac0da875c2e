"""What an experiment runs: a bandit's session, a continual counter or a histogram, behind one small interface.

A program says which turns users can take now, is told what full batches decode to, and shows its state. It is
deterministic: told the same events it opens the same offers, which is what restarting and verifying rest on. Nothing is
computed here that those rooms do not compute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter as Counts
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from croupier.bandits import Expired, Operated, Released, Session
from croupier.bandits.session import OPERATIONS
from croupier.checks import CroupierError, InvalidParameter, integer, one_of
from croupier.continual import Counter, CounterPlan, counter
from croupier.protocols import HistogramRelease, Mechanism, histogram
from croupier.protocols.histograms.universe import universe_from_dict
from croupier.registry import Registry, subclasses
from croupier.service.thinned import Thinned


@dataclass(frozen=True)
class Wanted:
    """A turn that the program wants users to take: an arm, and the batches that its report goes to."""

    number: int
    arm: int | None
    batches: tuple[tuple[int, Mechanism], ...]


class Program(ABC):
    """One experiment's program."""

    kind: ClassVar[str]

    @abstractmethod
    def __init__(self, parameters: dict[str, Any]) -> None:
        """Begin, with what the configuration says."""

    @property
    @abstractmethod
    def wanted(self) -> list[Wanted]:
        """The turns that can be taken now, by number."""

    @abstractmethod
    def released(self, batch: int, decoded: Any) -> None:
        """A full batch's view decodes to this."""

    @abstractmethod
    def expired(self, batch: int) -> None:
        """A batch did not fill in time, or was refused; the program wants it again, or goes on without it."""

    @abstractmethod
    def operate(self, operation: str, arm: int | None) -> None:
        """Do what an operator asks."""

    @property
    def unwanted(self) -> set[int]:
        """The open batches that an operator's wish has made pointless: nobody more should be sent there."""
        return set()

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether nothing more will be asked."""

    @abstractmethod
    def show(self) -> dict[str, Any]:
        """The state as people see it."""


class BanditProgram(Program):
    """A bandit policy: every open batch is a turn of its own."""

    kind = "bandit"

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.session = Session(parameters)
        self._reports: Counts[int] = Counts()
        if self.session.policy.ladder.protocol is None:
            raise InvalidParameter("policy", parameters.get("name"), "a private one: this one reports plain values")

    @property
    def wanted(self) -> list[Wanted]:
        ladder = self.session.policy.ladder
        found = []
        for batch in self.session.open_batches:
            mechanism = ladder.mechanism(batch.users)
            assert mechanism is not None
            found.append(Wanted(batch.batch, batch.arm, ((batch.batch, mechanism),)))
        return found

    def released(self, batch: int, decoded: Any) -> None:
        full = {one.batch: one for one in self.session.open_batches}.get(batch)
        self.session.observe(Released(batch, int(decoded)))
        if full is not None:
            self._reports[full.arm] += full.users

    def expired(self, batch: int) -> None:
        self.session.observe(Expired(batch))

    def operate(self, operation: str, arm: int | None) -> None:
        one_of("operation", operation, OPERATIONS)
        policy = self.session.policy
        if arm is not None and arm < policy.arms and not policy.active[0, arm]:
            raise InvalidParameter("arm", arm, "one that is in play")
        if operation == "retire" and policy.active.sum() <= 1:
            raise InvalidParameter("arm", arm, "not the last arm in play")
        self.session.observe(Operated(operation, arm))

    @property
    def unwanted(self) -> set[int]:
        leaving = self.session.leaving
        return {one.batch for one in self.session.open_batches if one.arm in leaving}

    @property
    def finished(self) -> bool:
        return self.session.finished

    def show(self) -> dict[str, Any]:
        policy = self.session.policy
        rows = policy.table()
        for row in rows:
            row["paused"] = not bool(policy.open_to_users[row["arm"]]) or row["arm"] in self.session.leaving
            # Not those whom the policy counts as playing at the end, when nothing more is asked of them.
            row["users"] = self._reports[row["arm"]]
        return {
            "policy": policy.name,
            "horizon": policy.horizon,
            "users": self._reports.total(),
            "best_arm": int(policy.best_arm[0]),
            "arms": rows,
        }


class CounterProgram(Program):
    """A continual counter: a user takes part in one batch of every level, all in one turn.

    Every turn fills one lowest node. The nodes above it hold the same users, so they are full exactly when it is. A
    batch that cannot be read is left out of the sum, and the counter goes on; its bound says what that costs.
    """

    kind = "counter"

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.plan: CounterPlan = counter(**parameters)
        self.counter = Counter(self.plan)
        self.stopped = False
        self._due: set[int] = set()
        self._lost: set[int] = set()
        self.points = Thinned(POINTS)

    @property
    def wanted(self) -> list[Wanted]:
        if self.finished or self._due:
            return []
        batches = tuple((batch.number, batch.mechanism) for batch in self.counter.open)
        return [Wanted(self.counter.users // self.plan.tree.low, None, batches)] if batches else []

    def released(self, batch: int, decoded: Any) -> None:
        self._come(batch)
        self.counter.release(batch, tuple(decoded) if isinstance(decoded, list) else int(decoded))
        self._over(batch)

    def expired(self, batch: int) -> None:
        """A batch was refused, or is gone: it is left out as soon as all its users have come."""
        if not self.stopped and batch in {one.number for one in self.counter.open if one.shuffler} - self._lost:
            # Only the lowest batch of a turn says that the turn is over: others may be given up before.
            self._lost.add(batch)
            return
        self._come(batch)
        self.counter.leave_out(batch)
        self._over(batch)

    def _come(self, batch: int) -> None:
        """The first batch of a turn to come back says that its users have come; the others then must follow."""
        if self.stopped:
            raise InvalidParameter("batch", batch, "nothing: the counter was stopped")
        low = self.plan.tree.low
        full = self._due or {one.number for one in self.counter.open if one.missing == low}
        if batch not in full - self._lost:
            raise InvalidParameter("batch", batch, f"one that is full: {sorted(full - self._lost)}")
        if not self._due:
            self.counter.arrive(low)
            for lost in sorted(full & self._lost):
                self.counter.leave_out(lost)
            self._due, self._lost = full - self._lost, self._lost - full

    def _over(self, batch: int) -> None:
        self._due.discard(batch)
        if not self._due:
            self.points.append([self.counter.users, _plain(self.counter.estimate), self.counter.bound(FAILURE)])

    def operate(self, operation: str, arm: int | None) -> None:
        one_of("operation", operation, ("stop",))
        self.stopped = True

    @property
    def unwanted(self) -> set[int]:
        """All users of these have come: one that still waits for some, in a shuffler that lost them, waits for ever."""
        return set(self._due)

    @property
    def finished(self) -> bool:
        return self.stopped or (not self.counter.open and not self._due)

    def show(self) -> dict[str, Any]:
        """`bound` holds for all times at once; `points` are users, estimate and bound after some turns and the last."""
        return {
            "users": self.counter.users,
            "planned": self.plan.users,
            "shufflers": self.plan.shufflers,
            "estimate": _plain(self.counter.estimate),
            "bound": self.counter.bound(FAILURE),
            "left_out": self.counter.left_out,
            "points": list(self.points),
        }


class HistogramProgram(Program):
    """A histogram in rounds: each is one batch of `users` users, and their counts add up."""

    kind = "histogram"

    def __init__(self, parameters: dict[str, Any]) -> None:
        body = dict(parameters)
        users, self.rounds = body.pop("users"), integer("rounds", body.pop("rounds", 1), 1)
        self.mechanism = histogram(**body | {"universe": universe_from_dict(body["universe"])}).plan(users)
        self.released_rounds = 0
        self.counts = np.zeros(self.mechanism.size)
        self.stopped = False
        self._batch = 0

    @property
    def wanted(self) -> list[Wanted]:
        return [] if self.finished else [Wanted(self._batch, None, ((self._batch, self.mechanism),))]

    def released(self, batch: int, decoded: Any) -> None:
        self._expect(batch)
        self.counts += HistogramRelease(self.mechanism, np.asarray(decoded, dtype=np.int64)).counts
        self.released_rounds += 1
        self._batch += 1

    def expired(self, batch: int) -> None:
        self._expect(batch)
        self._batch += 1

    def _expect(self, batch: int) -> None:
        if self.finished or batch != self._batch:
            raise InvalidParameter("batch", batch, f"the open one, {self._batch}")

    def operate(self, operation: str, arm: int | None) -> None:
        one_of("operation", operation, ("stop",))
        self.stopped = True

    @property
    def finished(self) -> bool:
        return self.stopped or self.released_rounds >= self.rounds

    def show(self) -> dict[str, Any]:
        order = np.argsort(-self.counts, kind="stable")[:TOP].tolist() if self.released_rounds else []
        name = self.mechanism.universe.name
        return {
            "users": self.released_rounds * self.mechanism.users,
            "planned": self.rounds * self.mechanism.users,
            "rounds": self.rounds,
            "size": self.mechanism.size,
            "radius": self.rounds * self.mechanism.radius(0.05 / self.rounds),
            "top": [{"item": name(i), "count": float(self.counts[i])} for i in order],
        }


TOP = 50
"""Items of a histogram that are shown."""

FAILURE = 0.05
"""The chance that a bound which is shown ever fails."""

POINTS = 500
"""Points of a counter's curve that are shown, at most."""


def _plain(estimate: Any) -> Any:
    """A number, or a list of them."""
    return estimate if isinstance(estimate, float) else estimate.tolist()


_OWN: dict[str, type[Program]] = {
    program.kind: program for program in (BanditProgram, CounterProgram, HistogramProgram)
}

KINDS: Registry[type[Program]] = Registry("kind", "croupier.programs", _OWN, subclasses(Program, "a kind of Program"))
"""Every program by its kind."""


def program(parameters: dict[str, Any]) -> Program:
    """The program that a configuration describes.

    >>> bandit = program({"kind": "bandit", "name": "dp-klucb", "arms": 2, "horizon": 1000, "epsilon": 1.0,
    ...                   "binary": True, "protocol_name": "shuffled-laplace"})
    >>> [(turn.number, turn.arm, turn.batches[0][1].users) for turn in bandit.wanted]
    [(0, 0, 32)]
    """
    body = dict(parameters)
    kind = str(body.pop("kind", None))
    try:
        return KINDS.find(kind)(body)
    except (TypeError, KeyError) as error:
        raise CroupierError(f"the {kind} program does not take these parameters: {error}") from None
