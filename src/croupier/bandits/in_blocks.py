"""Policies in blocks that move users to where the question is still open; all are decided by the same evidence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from croupier.bandits.batch_sizes import SMALLEST, Ladder, quiet_size
from croupier.bandits.concurrent import Concurrent
from croupier.bandits.policy import Bools, Policy
from croupier.bandits.terms import Terms
from croupier.checks import positive
from croupier.comparisons.tails import Floats

if TYPE_CHECKING:
    from croupier.bandits.entry import Request

DEAL = 16
"""Odds that change are whole parts of so many turns for every four arms: they are dealt in permuted rows."""

BLOCK_GROWTH = 1.05
"""The ratio of the batch sizes of policies in blocks: in the end a block is a twentieth of all that came before it."""

FEWEST_BLOCKS = 20
"""Batches are not made quiet at the price of fewer blocks until the horizon."""


class ConcurrentElimination(Concurrent):
    """All arms that are not set aside share the users evenly; the last one meets what it is compared with."""

    def allocation(self) -> Floats:
        left, alone = self.claims.left, self.claims.left.sum(axis=1, keepdims=True) == 1
        return np.asarray((left | (alone & self._is(self.claims.reference))).astype(float))


class TopTwo(Concurrent):
    """After the top-two rule of [JA25]: the leader, and those of whom it is least certain that they are worse.

    [JA25] plays the leader, or else the challenger whose private transportation cost is least, which lifts the costs of
    all challengers evenly. Here all have a batch in every block, and each challenger's share is what its cost still
    lacks: one challenger at a time would pay a noise for many small batches. The cost is the evidence that the leader
    is better, from blocks where both ran. Noise is in it, and drift is not. docs/papers.md says what else differs.
    """

    def allocation(self) -> Floats:
        claims, leader = self.claims, self._is(self.claims.leader)
        cost = claims.evidence[np.arange(self.runs), claims.leader]
        needed = np.where(self._is(claims.reference), self.levels.pair, np.where(claims.left, self.levels.best, 0.0))
        lacking = np.where(leader, 0.0, np.clip(needed - cost, 0.0, needed))
        challengers = lacking / np.maximum(lacking.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        # Of one leader and m even challengers, 1/(1 + √m) to the leader tells all differences best.
        share = 1.0 / (1.0 + 1.0 / np.sqrt(np.maximum((challengers**2).sum(axis=1, keepdims=True), 1.0 / self.arms)))
        return rounded(np.where(leader, share, (1.0 - share) * challengers))


class ConcurrentIndex(Concurrent):
    """An index policy in blocks: half of the users get the leader, the rest the arms that might yet be better."""

    reads: ClassVar[tuple[str, ...]] = ("decision", "exploration")

    def __init__(
        self,
        arms: int,
        horizon: int | None,
        ladder: Ladder,
        terms: Terms,
        *,
        exploration: float = 0.6,
        **more: Any,
    ) -> None:
        self.exploration = float(positive("exploration", exploration))
        super().__init__(arms, horizon, ladder, terms, **more)

    @abstractmethod
    def challengers(self) -> Bools:
        """The arms that might yet be better than the leader."""

    @property
    def cost(self) -> Floats:
        """How surprising it would be if each arm were as good as the leader."""
        return np.maximum(self.claims.evidence[np.arange(self.runs), self.claims.leader], 0.0)

    def allocation(self) -> Floats:
        leader = self._is(self.claims.leader)
        challengers = (self.challengers() | (self.counts == 0)) & ~leader
        half = np.maximum(challengers.sum(axis=1, keepdims=True), 1)
        return np.asarray(np.where(leader, half, challengers), dtype=float)


class ConcurrentKLUCB(ConcurrentIndex):
    """Challengers are the arms whose upper bound, at exploration·log T, is above the leader."""

    def challengers(self) -> Bools:
        return np.asarray(self.cost <= self.exploration * np.log(self.span)[:, None])


class ConcurrentIMED(ConcurrentIndex):
    """Challengers are the arms whose cost plus log n is no more than the leader's log n."""

    def challengers(self) -> Bools:
        tried = np.log(np.maximum(self.counts, 1))
        most = tried[np.arange(self.runs), self.claims.leader]
        return np.asarray(self.cost + tried <= most[:, None])


def rounded(shares: Floats) -> Floats:
    """Shares in whole parts of a row; what is more than nothing stays so, and the largest makes up for the rest.

    >>> rounded(np.array([[0.5, 0.4999, 0.0001]])).tolist()
    [[7.0, 8.0, 1.0]]
    """
    row = DEAL * -(-shares.shape[1] // 4)
    parts = np.where(shares > 0, np.maximum(np.rint(row * shares), 1.0), 0.0)
    largest = np.arange(shares.shape[1]) == np.argmax(shares, axis=1)[:, None]
    return np.asarray(parts + np.where(largest, row - parts.sum(axis=1, keepdims=True), 0.0))


def in_blocks(kind: type[Concurrent]) -> Callable[[Request], Policy]:
    """How a policy of this kind is made: its batches are quiet from the first on, if there are enough of them then."""

    def build(request: Request) -> Policy:
        assert request.protocol is not None
        rate = 0.5 if request.terms.rate is None else request.terms.rate
        sums = [(request.protocol, rate, request.terms.smallest_effect)]
        # A winner waits for every guardrail, so batches are quiet for all of them.
        sums += () if request.metrics is None else request.metrics.guarded
        first = request.smallest or max(quiet_size(*one) for one in sums)
        if request.smallest is None and request.horizon is not None:
            first = min(first, max(SMALLEST, request.horizon // (FEWEST_BLOCKS * request.arms)))
        ladder = Ladder(request.protocol, first, request.growth or BLOCK_GROWTH)
        own: dict[str, Any] = {"exploration": request.exploration or 0.6} if "exploration" in kind.reads else {}
        own["metrics"] = request.metrics
        return kind(request.arms, request.horizon, ladder, request.terms, **request.common(), **own)

    return build
