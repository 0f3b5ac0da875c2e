"""Successive elimination in phases: [TKMS21]'s SDP-AE and VB-SDP-AE, and [CZ23]'s Algorithm 1 over every protocol.

In each phase every arm still in play gets a batch of fresh users; then every arm whose upper bound lies below another's
lower bound is removed. The policies differ in batch sizes, in whether estimates use all phases or the last, and in the
radius of their bounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.chernoff import bounds
from croupier.bandits.policy import Bools, Integers, Policy
from croupier.checks import between
from croupier.comparisons.tails import Floats
from croupier.protocols import Protocol

EVERYONE = 2**50
"""All the users who will ever come."""


class Elimination(Policy):
    """Elimination with radii from `radius`, or tight Chernoff bounds where that is None.

    `failure` is p: the chance, over the whole run, that the best arm is removed (None: one over the horizon).
    """

    reads: ClassVar[tuple[str, ...]] = ("failure",)

    def __init__(
        self,
        arms: int,
        horizon: int | None,
        ladder: Ladder,
        *,
        runs: int = 1,
        name: str = "",
        accumulate: bool = False,
        failure: float | None = None,
        radius: Radius | None = None,
    ) -> None:
        self.accumulate = accumulate
        self.failure = None if failure is None else float(between("failure", failure, 0, 1))
        self.radius = radius
        self.phase: Integers = np.zeros(runs, dtype=np.int64)
        super().__init__(arms, horizon, ladder, runs=runs, name=name)

    def over(self, protocol: Protocol | None, noise: float) -> Elimination:
        radius = None if self.radius is None else self.radius.scaled(noise)
        return Elimination(
            self.arms,
            self.horizon,
            Ladder(protocol, self.ladder.first, self.ladder.growth),
            accumulate=self.accumulate,
            failure=self.failure,
            radius=radius,
            runs=self.runs,
            name=self.name,
        )

    @property
    def settled(self) -> Bools:
        return np.asarray((self.active & self.open_to_users).sum(axis=1) == 1)

    def odds(self) -> Floats:
        """The same for every arm in play."""
        playing = self.playable
        return np.asarray(playing / np.maximum(playing.sum(axis=1), 1)[:, None])

    def sizes(self, runs: Integers, arms: Integers) -> Integers:
        """All arms of a phase get the same; the last arm in play gets everyone."""
        return np.where(self.settled, EVERYONE, self.ladder.sizes(self.phase))[runs]

    def learn(self, released: Bools) -> None:
        """End the phase: remove every arm whose upper bound lies below another's lower bound."""
        compared = released & self.active
        complete = compared.any(axis=1) & ~self.finished
        self.phase = self.phase + complete
        if not complete.any():
            return
        lower, upper = self.bounds()
        best = np.where(compared, lower, -np.inf).max(axis=1)
        out = compared & (upper < best[:, None]) & complete[:, None]
        self.active = self.active & ~out

    def bounds(self) -> tuple[Floats, Floats]:
        """The lower and upper bounds that eliminate."""
        if self.radius is not None:
            radius = self.radius(self)
            return self.means - radius, self.means + radius
        # Arms, phases and sides share p: Σ_b 6/(πb)² = 1. Which arms are left depends on the sums of all phases, so
        # with those all arms count. A last batch is fresh: only the arms that have one count.
        arms = self.arms if self.accumulate else self.in_play
        level = np.log(2.0 * arms * (np.pi * self.step) ** 2 / (6.0 * self.probability))
        lower, upper = np.zeros_like(self.totals), np.ones_like(self.totals)
        playing = self.active
        lower[playing], upper[playing] = bounds(
            self.totals[playing],
            self.counts[playing],
            self.noise[playing],
            self.noises.tails,
            np.broadcast_to(level, playing.shape)[playing],
        )
        return lower, upper

    @property
    def in_play(self) -> Integers:
        """|V|, with the arms on an axis of their own."""
        return np.asarray(np.maximum(self.active.sum(axis=1), 1)[:, None])

    @property
    def step(self) -> Integers:
        """The number of phases so far."""
        return np.maximum(self.phase, 1)[:, None]

    @property
    def probability(self) -> Floats:
        """p, with the arms on an axis of their own."""
        return (1.0 / self.span if self.failure is None else np.full(self.runs, self.failure))[:, None]


class Radius(ABC):
    """How far from its mean every arm's estimate may be, by a theorem: `sigma` and the like come from the noise."""

    @abstractmethod
    def __call__(self, policy: Elimination) -> Floats:
        """The radius of every arm in every run, in the state that the policy is in."""

    @abstractmethod
    def scaled(self, factor: float) -> Radius:
        """The radius when there is `factor` times as much noise; 0 for none."""


@dataclass(frozen=True)
class SubGaussianRadius(Radius):
    """(2√t σ/N + 1/√N)√(2 log T) after t phases and N users of an arm ([TKMS21] Theorems 3.1 and 3.3)."""

    sigma: float

    def __call__(self, policy: Elimination) -> Floats:
        n = np.maximum(policy.counts, 1)
        t = np.maximum(policy.batches, 1)
        root = np.sqrt(2.0 * np.log(policy.span))[:, None]
        return np.asarray((2.0 * np.sqrt(t) * self.sigma / n + 1.0 / np.sqrt(n)) * root)

    def scaled(self, factor: float) -> SubGaussianRadius:
        return SubGaussianRadius(factor * self.sigma)


@dataclass(frozen=True)
class SubExponentialRadius(Radius):
    """√(log(4|V|b²/p)/2l) + σ√log(2|V|b²/p)/l + h log(2|V|b²/p)/l in phase b with batches of l ([CZ23] Lemma 2)."""

    sigma: float
    h: float
    local: float = 0.0
    """For the local model σ grows with the batch: local·√l + sigma, and small batches decide nothing."""

    def __call__(self, policy: Elimination) -> Floats:
        count = np.maximum(policy.counts, 1).astype(float)
        union = policy.in_play * policy.step.astype(float) ** 2 / policy.probability
        log4, log2 = np.log(4.0 * union), np.log(2.0 * union)
        sigma = self.sigma + self.local * np.sqrt(count)
        radius = np.sqrt(log4 / (2.0 * count)) + sigma * np.sqrt(log2) / count + self.h * log2 / count
        if self.local:
            radius = np.where(count >= 2.0 * np.log(2.0 / policy.probability), radius, np.inf)
        return np.asarray(radius)

    def scaled(self, factor: float) -> SubExponentialRadius:
        return SubExponentialRadius(factor * self.sigma, factor * self.h, factor * self.local)
