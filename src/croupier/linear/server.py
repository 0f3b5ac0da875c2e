"""The server of a linear bandit: it opens batches, is told what full ones decode to, and publishes a rule.

It never sees a feature, an action or a reward. One loop runs every kind of plan:

    server = LinearServer(plan)
    while server.room:
        ...                                  # up to `server.room` users choose by `server.rule` and report
        server.arrive(users)                 # to the mechanisms of all batches in `server.open`
        for batch in server.due:
            server.release(batch.number, decoded)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from croupier.checks import InvalidParameter, integer
from croupier.continual import Batch, Counter
from croupier.linear.findings import Findings
from croupier.linear.growing import GrowingPlan
from croupier.linear.plan import LinearPlan
from croupier.personal import Rule
from croupier.protocols import Release


class Sums(Protocol):
    """Sums under way, of whatever plan: open batches, those that are due, and what the released ones say."""

    @property
    def open(self) -> list[Batch]: ...
    @property
    def due(self) -> list[Batch]: ...
    @property
    def room(self) -> int: ...
    @property
    def summed(self) -> int: ...
    def arrive(self, users: int) -> None: ...
    def release(self, batch: int, decoded: tuple[int, ...]) -> None: ...
    def leave_out(self, batch: int) -> None: ...
    def close(self) -> None: ...
    def rule(self) -> Rule: ...
    @property
    def findings(self) -> Findings: ...


class TreeSums:
    """The tree of a counter ([TKMS23] Alg. 4)."""

    def __init__(self, plan: LinearPlan) -> None:
        self.plan, self.counter = plan, Counter(plan.counter)
        self.arrive, self.release, self.leave_out = self.counter.arrive, self.counter.release, self.counter.leave_out

    @property
    def open(self) -> list[Batch]:
        return self.counter.open

    @property
    def due(self) -> list[Batch]:
        return self.counter.shufflers.full

    @property
    def room(self) -> int:
        return self.counter.room

    @property
    def summed(self) -> int:
        return self.counter.summed

    def rule(self) -> Rule:
        return self.plan.confidence.rule(self.counter.estimate, self.summed)

    def close(self) -> None:
        raise InvalidParameter("plan", "a tree of sums", "one of growing batches: those of a tree must fill")

    @property
    def findings(self) -> Findings:
        raise InvalidParameter("plan", "a tree of sums", "one of growing batches, which tell what they found")


class GrowingSums:
    """Batches one after another, all summed."""

    def __init__(self, plan: GrowingPlan) -> None:
        self.plan, self.came, self._findings = plan, 0, Findings(plan)
        self._number = 0
        self.batch = self._next()

    def _next(self) -> Batch | None:
        size = self.plan.size(self.summed, self.came)
        if not size:
            return None
        return Batch(self._number, 0, self.plan.mechanism(size), 0, size)

    @property
    def open(self) -> list[Batch]:
        return [self.batch] if self.batch is not None and self.batch.missing else []

    @property
    def due(self) -> list[Batch]:
        return [self.batch] if self.batch is not None and not self.batch.missing else []

    @property
    def room(self) -> int:
        return self.batch.missing if self.batch is not None else 0

    @property
    def summed(self) -> int:
        return self._findings.users

    def arrive(self, users: int) -> None:
        if self.batch is None or users > self.batch.missing:
            raise InvalidParameter("users", users, f"at most {self.room}: then the batch is full and must be released")
        self.batch.missing -= users
        self.came += users

    def close(self) -> None:
        """End the open batch with the users that it has: a deadline came. Only where nothing depends on its size."""
        if self.batch is None or not (users := self.batch.mechanism.users - self.batch.missing):
            raise InvalidParameter("batch", None, "one with at least one user")
        self.batch.mechanism, self.batch.missing = self.batch.mechanism.for_users(users), 0

    def release(self, batch: int, decoded: tuple[int, ...]) -> None:
        mechanism = self._due(batch).mechanism
        whole = tuple(integer("decoded", number, -(2**63), 2**63 - 1) for number in decoded)
        if len(whole) != mechanism.dimension:
            raise InvalidParameter("decoded", len(whole), f"{mechanism.dimension} whole numbers")
        total, noise = np.asarray(Release(mechanism, whole).sum), self._findings.noise.plus(mechanism)
        self._findings = self._findings.plus(mechanism.users, total, noise)
        self._advance()

    def leave_out(self, batch: int) -> None:
        """A batch cannot be read: its users are in no sum, and the next one is as large."""
        self._due(batch)
        self._advance()

    def _due(self, batch: int) -> Batch:
        for full in self.due:
            if full.number == batch:
                return full
        raise InvalidParameter("batch", batch, f"a full one: {[full.number for full in self.due]}")

    def _advance(self) -> None:
        self._number += 1
        self.batch = self._next()

    def rule(self) -> Rule:
        return self._findings.rule

    @property
    def findings(self) -> Findings:
        return self._findings


SUMS: dict[type, Callable[[Any], Sums]] = {LinearPlan: TreeSums, GrowingPlan: GrowingSums}
"""What runs each kind of plan."""


class LinearServer:
    """The server of one linear bandit.

    Parameters
    ----------
    plan : what `growing_bandit`, `linear_bandit` or `sequential_linear_bandit` planned.

    Examples
    --------
    >>> from croupier.linear import growing_bandit
    >>> from croupier.noise import seeded
    >>> from croupier.personal import Context, Feature
    >>> context, source = Context((Feature("age", 18, 80),)), seeded(1)
    >>> plan = growing_bandit(5_000, context.dimension, places=2, epsilon=2.0, trust="devices")
    >>> server = LinearServer(plan)
    >>> while server.room:
    ...     [batch], users = server.open, server.room
    ...     x = context.rows(source.generator.uniform(18, 80, users))  # each on their own device
    ...     actions, control = server.rule.play(x, source)
    ...     rewards = (x[:, 0] > 0.0) == actions  # who is above 49 likes the second action
    ...     vectors = plan.moments.of(x, rewards, actions, control)
    ...     server.arrive(users)
    ...     server.release(batch.number, batch.mechanism.simulate(vectors, source).decoded)
    >>> [int(server.rule.choose(context.vector({"age": age}))) for age in (20, 75)]
    [0, 1]
    """

    def __init__(self, plan: GrowingPlan | LinearPlan) -> None:
        self.plan = plan
        self.sums = SUMS[type(plan)](plan)
        self._rule: Rule | None = None

    @property
    def open(self) -> list[Batch]:
        """The batches that the next user takes part in."""
        return self.sums.open

    @property
    def due(self) -> list[Batch]:
        """Batches that have all their users and wait to be released."""
        return self.sums.due

    @property
    def room(self) -> int:
        """Users who can come, and choose by the rule as it is, before something must be released; 0 at the end."""
        return self.sums.room

    @property
    def summed(self) -> int:
        """Users whose vectors are in the sums by now."""
        return self.sums.summed

    @property
    def rule(self) -> Rule:
        """What the next user chooses by; it changes only when a batch is released."""
        if self._rule is None:
            self._rule = self.sums.rule()
        return self._rule

    @property
    def findings(self) -> Findings:
        """What was learnt so far; of growing batches only."""
        return self.sums.findings

    def arrive(self, users: int = 1) -> None:
        """Users chose, played and reported to all open batches."""
        self.sums.arrive(integer("users", users, 1))

    def close(self) -> None:
        """End the open batch with the users that it has."""
        self.sums.close()

    def release(self, batch: int, decoded: tuple[int, ...]) -> None:
        """A full batch's view decodes to this."""
        self.sums.release(batch, decoded)
        self._rule = None

    def leave_out(self, batch: int) -> None:
        """A full batch's view cannot be used."""
        self.sums.leave_out(batch)
        self._rule = None
