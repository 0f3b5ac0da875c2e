"""A continual counter as a program: a user takes part in one batch of every level, all in one turn.

Every turn fills one lowest node. The nodes above it hold the same users, so they are full exactly when it is. A batch
that cannot be read is left out of the sum, and the counter goes on; its bound says what that costs.
"""

from __future__ import annotations

from typing import Any, ClassVar

from croupier.checks import InvalidParameter
from croupier.continual import Counter, CounterPlan, counter
from croupier.programs.program import Dealt, Program, Wanted
from croupier.programs.sections import MOST_USERS, Check, Section, smallest_batch, summing, whole
from croupier.programs.thinned import Thinned

FAILURE = 0.05
"""The chance that a bound which is shown ever fails."""

POINTS = 500
"""Points of a counter's curve that are shown, at most."""


class CounterProgram(Program):
    """A counter, given by its plan's parameters."""

    kind = "counter"
    expires = False
    schema: ClassVar[dict[str, Check]] = {"users": whole(2, MOST_USERS), "shufflers": whole(1, 64)}
    needed = "users"

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.plan: CounterPlan = counter(**parameters)
        self.counter = Counter(self.plan)
        self.stopped = False
        self._due: set[int] = set()
        self._lost: set[int] = set()
        self.points = Thinned(POINTS)

    @classmethod
    def parameters(cls, sections: dict[str, Section], arms: list[str]) -> Section:
        if arms:
            raise InvalidParameter("arms", arms, "left out: a counter has none")
        name, options = summing(sections)
        return {"over": name} | sections["program"] | options | smallest_batch(sections, name, options)

    @property
    def wanted(self) -> list[Wanted]:
        if self.finished or self._due:
            return []
        # Nobody reports to one that is lost: a server that has given it up takes nothing for it.
        kept = [batch for batch in self.counter.open if batch.number not in self._lost]
        batches = tuple((batch.number, batch.mechanism) for batch in kept)
        return [Wanted(self.counter.users // self.plan.tree.smallest, None, batches)] if batches else []

    @property
    def epsilon(self) -> float:
        return self.plan.epsilon

    @property
    def delta(self) -> float:
        return self.plan.delta

    def released(self, batch: int, decoded: Any, users: int | None = None, dealt: Dealt | None = None) -> None:
        self._come(batch)
        self.counter.release(batch, tuple(decoded) if isinstance(decoded, list) else int(decoded))
        self._over(batch)

    def expired(self, batch: int, received: int | None = None, turns: int | None = None) -> None:
        """A batch was refused, or is gone: it is left out as soon as all its users have come."""
        if not self.stopped and batch in {level.number for level in self.counter.open if level.shuffler} - self._lost:
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
        turn = self.plan.tree.smallest
        full = self._due or {level.number for level in self.counter.open if level.missing == turn}
        if batch not in full - self._lost:
            raise InvalidParameter("batch", batch, f"one that is full: {sorted(full - self._lost)}")
        if not self._due:
            self.counter.arrive(turn)
            for lost in sorted(full & self._lost):
                self.counter.leave_out(lost)
            self._due, self._lost = full - self._lost, self._lost - full

    def _over(self, batch: int) -> None:
        self._due.discard(batch)
        if not self._due:
            self.points.append([self.counter.users, _plain(self.counter.estimate), self.counter.bound(FAILURE)])

    def stop(self) -> None:
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


def _plain(estimate: Any) -> Any:
    """A number, or a list of them."""
    return estimate if isinstance(estimate, float) else estimate.tolist()
