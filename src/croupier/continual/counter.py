"""The server of a counter under continual observation: it drives the shufflers and holds one number a level.

A batch whose view cannot be used is left out, and the counter goes on. A node of the tree that has no number of its own
is the sum of its children. A lowest node has none: its users count as the middle of the range, until a node above
it with a number of its own stands for them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between, integer
from croupier.continual.plan import CounterPlan
from croupier.continual.shufflers import Batch, ConcurrentShufflers

Floats = NDArray[np.float64]


class Counter:
    """The server of one counter: opens batches, is told what they decode to, and says the running sum at any time.

    Releases that are due at the same time may come in any order; they are applied lowest level first once all are
    there or left out.

    Parameters
    ----------
    plan : what `counter` planned.

    Examples
    --------
    >>> from croupier.continual import counter
    >>> server = Counter(counter(1_000, 1, epsilon=1.0))
    >>> batch = server.open[0]
    >>> server.arrive(batch.mechanism.users)
    >>> server.release(batch.number, 40)
    >>> server.summed == batch.mechanism.users
    True
    """

    def __init__(self, plan: CounterPlan) -> None:
        self.plan = plan
        self.shufflers = ConcurrentShufflers(plan.tree.levels, epsilon=plan.epsilon, delta=plan.delta)
        shape = (plan.dimension,) if plan.mechanisms[0].coordinates else ()
        self._totals = np.zeros((plan.tree.levels, *shape))
        self._unknown = [0] * plan.tree.levels
        self._waiting: dict[int, Any] = {}
        self._noise: _KeptNoise | None = None
        self._planned: dict[float, float] = {}
        self._finished = 0
        self._activate()

    @property
    def users(self) -> int:
        """Users so far."""
        return self.shufflers.users

    @property
    def left_out(self) -> int:
        """Users of finished nodes of whom nothing is known: their lowest node was left out, and no node above helps."""
        return sum(self._unknown)

    @property
    def summed(self) -> int:
        """Users whose values are in the finished nodes."""
        return self._finished - self.left_out

    @property
    def open(self) -> list[Batch]:
        """What the next user takes part in."""
        return self.shufflers.open

    @property
    def room(self) -> int:
        """Users who can come before something must be released, or the counter ends."""
        left = self.plan.users - self.users
        return left if self.shufflers.room is None else min(self.shufflers.room, left)

    @property
    def estimate(self) -> Any:
        """The sum of all users' values so far."""
        total = self._totals.sum(axis=0) + (self.users - self.summed) * self.plan.middle
        return total if total.ndim else float(total)

    def bound(self, failure: float) -> float:
        """How far the present estimate can be off. All that this ever says holds at once, but for this probability.

        While nothing was left out it is `plan.bound(failure)`. Else it is made of the noise that was really summed, and
        of the users of whom nothing is known. That holds for nodes left out for any reason but the noise. Should
        somebody see all noise first and choose by it, the probability is a tenth larger than `failure`.
        """
        unknown = max(self.plan.tree.smallest - 1, self.users - self._finished) + self.left_out
        return self._deviation(failure) + unknown * self.plan.unknown_error

    def interval(self, failure: float = 0.05) -> tuple[Any, Any]:
        """Bounds on the true sum so far; those of all times hold together, except with this probability.

        >>> from croupier.continual import counter
        >>> running = Counter(counter(1000, 2, epsilon=1.0))
        >>> running.arrive(32)
        >>> running.leave_out(0)
        >>> low, high = running.interval()
        >>> (low + high) / 2, running.left_out, high - low > 32
        (16.0, 32, True)
        """
        estimate, bound = self.estimate, self.bound(failure)
        return estimate - bound, estimate + bound

    def _deviation(self, failure: float) -> float:
        plan, failure = self.plan, float(between("failure", failure, 0, 1))
        if failure not in self._planned:
            self._planned[failure] = plan.deviation(failure, directions=plan.dimension)
        if self._noise is None or math.isinf(self._planned[failure]):
            return self._planned[failure]
        lowest, cumulant = self._finished // plan.tree.smallest, self._noise.cumulants.sum(axis=0)
        changes = self._noise.changes.sum(axis=0)
        return plan.chernoff.changed(plan.dimension / plan.spare(failure), lowest, cumulant, changes)

    def arrive(self, users: int = 1) -> None:
        """Users came and took part in all open batches."""
        integer("users", users, 1)
        if self.users + users > self.plan.users:
            raise InvalidParameter("users", self.users + users, f"at most {self.plan.users}, as planned")
        self.shufflers.arrive(users)

    def release(self, batch: int, decoded: int | tuple[int, ...]) -> None:
        """A full batch's view decodes to this."""
        levels = {full.number: full.shuffler for full in self.shufflers.full}
        release = self.shufflers.release(batch, decoded)
        self._end(levels[batch], release.sum)

    def leave_out(self, batch: int) -> None:
        """A full batch's view cannot be used: its node has no number of its own, and the counter goes on."""
        levels = {full.number: full.shuffler for full in self.shufflers.full}
        if batch not in levels:
            raise InvalidParameter("batch", batch, f"a full one: {sorted(levels)}")
        self.shufflers.abandon(batch)
        self._end(levels[batch], None)

    def _end(self, level: int, own: Any) -> None:
        """A node has ended, with a number of its own or without; when all have that are due, they are summed."""
        self._waiting[level] = own
        if self.shufflers.full:
            return
        if self._noise is None and any(number is None for number in self._waiting.values()):
            self._noise = _KeptNoise(self.plan, self._finished // self.plan.tree.smallest)
        for due in sorted(self._waiting):
            self._finish(due, self._waiting[due])
        self._waiting.clear()
        self._finished = self.users - self.users % self.plan.tree.smallest
        self._activate()

    def _finish(self, level: int, own: Any) -> None:
        """Weigh a node's own sum with its children's as planned; where one of them is not whole, take the other."""
        below, unknown = (
            (self._totals[level - 1], self._unknown[level - 1]) if level else (0.0, self.plan.tree.smallest)
        )
        if own is None:
            weight, own = 0.0, 0.0
        else:
            weight, unknown = (1.0 if unknown else self.plan.weights.own[level]), 0
        self._totals[level] += weight * own + (1.0 - weight) * below
        self._unknown[level] += unknown
        if level:
            self._totals[level - 1], self._unknown[level - 1] = 0.0, 0
        if self._noise is not None:
            self._noise.finish(level, weight)

    def _activate(self) -> None:
        for level in self.shufflers.idle:
            size = self.plan.tree.sizes[level]
            # A node that cannot fill any more would cost its users and tell nothing.
            if self.users % size == 0 and self.users + size <= self.plan.users:
                self.shufflers.activate(level, self.plan.mechanisms[level])


class _KeptNoise:
    """The noise in a counter's sums once a node was left out, by level: its cumulant, and how many nodes are changed.

    A node is changed when its own sum weighs otherwise than planned: nothing or all, two kinds for each level.
    """

    def __init__(self, plan: CounterPlan, finished: int) -> None:
        self.plan = plan
        self.cumulants: Floats = np.zeros_like(plan.chernoff.nodes)
        for level, nodes in enumerate(plan.tree.siblings(finished)):
            if nodes:  # where a cumulant is infinite, none of it is none
                self.cumulants[level] = nodes * plan.chernoff.nodes[level]
        self.changes = np.zeros((plan.tree.levels, plan.tree.levels, 2), dtype=np.int64)
        self._own: dict[tuple[int, float], Floats] = {}

    def finish(self, level: int, weight: float) -> None:
        """A node has ended, and its own sum weighs so much."""
        self.cumulants[level] += self._own_cumulant(level, weight)
        if weight != self.plan.weights.own[level]:
            self.changes[level, level, int(weight)] += 1
        if not level:
            return
        if weight < 1.0:
            self.cumulants[level] += self.plan.chernoff.scaled(self.cumulants[level - 1], 1.0 - weight)
            self.changes[level] += self.changes[level - 1]
        self.cumulants[level - 1], self.changes[level - 1] = 0.0, 0

    def _own_cumulant(self, level: int, weight: float) -> Floats:
        if (level, weight) not in self._own:
            self._own[level, weight] = self.plan.own_cumulant(level, self.plan.chernoff.slopes, weight)
        return self._own[level, weight]
