"""Sums under way: what opens a linear bandit's batches, takes what full ones decode to, and makes the rule of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from croupier.checks import InvalidParameter, integer
from croupier.continual import Batch, Counter
from croupier.linear.findings import Findings
from croupier.personal import Rule
from croupier.protocols import Release

if TYPE_CHECKING:
    from croupier.linear.growing import GrowingPlan
    from croupier.linear.plan import LinearPlan


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
