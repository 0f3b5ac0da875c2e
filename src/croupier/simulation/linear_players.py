"""What each model of a linear bandit does with its users: whose sums it reads, when, and the rule that follows.

Without privacy [APS11]; a trusted server, with growing batches or the tree of [SS18]; growing batches; the concurrent
trees of [TKMS23] Alg. 4; one shuffler [CZ22]; the local model [ZCHLW20].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.linear import (
    DIAMETER,
    Confidence,
    Findings,
    Gain,
    GrowingPlan,
    LinearPlan,
    LinearServer,
    NoiseSum,
    Sets,
    balanced_batch,
    confidence,
    growing_bandit,
    linear_bandit,
    sequential_linear_bandit,
    statistics,
    statistics_dimension,
    usual_norm,
)
from croupier.linear.ellipsoid import NoisySums
from croupier.linear.sets import NoiseBounds
from croupier.noise import SeededSource
from croupier.personal import Rule
from croupier.privacy import gaussian_scale
from croupier.protocols import Moments, SumMechanism
from croupier.simulation.linear_sums import BlockSums, LocalSums, ShuffledSums, TrustedTree
from croupier.simulation.linear_worlds import LinearWorld, widened

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Needs:
    """What a model needs to know."""

    world: LinearWorld
    users: int
    epsilon: float
    delta: float
    constants: str
    failure: float
    exploration: float
    shufflers: int | None
    block: int
    trust: str
    control: float = 0.0
    growing: Mapping[str, Any] = field(default_factory=dict)

    @property
    def statistics(self) -> int:
        return statistics_dimension(self.world.wide)

    def level(self, sums: NoisySums | None) -> Confidence:
        """The confidence set over these sums, as [TKMS23] has it."""
        return confidence(sums, self.world.wide, failure=self.failure, exploration=self.exploration)

    def gaussian(self) -> float:
        """The deviation with which one user's statistics, as [TKMS23] has them, are (ε, δ)-private."""
        return DIAMETER * gaussian_scale(self.epsilon, self.delta)

    def planned(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "constants": self.constants,
            "failure": self.failure,
            "exploration": self.exploration,
        }

    def growing_plan(self, trust: str, **options: Any) -> GrowingPlan:
        """Batches that grow, for this world."""
        given: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "failure": self.failure, "trust": trust}
        given |= {"exploration": self.exploration, "control": self.control, "places": self.world.places}
        return growing_bandit(self.users, self.world.dimension, **given | dict(self.growing) | options)


class Player(ABC):
    """One run of a model: the rule that users choose by, and what becomes of them."""

    centred: bool
    """Whether its parameter is that of rewards less ½."""
    rule: Rule
    room: int
    """How many users choose by this rule before it changes; 0 when no more are summed."""

    @abstractmethod
    def seen(self, features: Floats) -> Floats:
        """A world's features as the rule wants them."""

    @abstractmethod
    def take(self, features: Floats, rewards: Floats, actions: Integers, control: NDArray[np.bool_]) -> None:
        """No more than `room` users played; the rule may be another afterwards."""

    def gain(self) -> Gain | None:
        """What a control share measured."""
        return None


class MomentPlayer(Player):
    """A player whose users report `Moments`; encoded sums gather until `room` is used up."""

    centred = True

    def __init__(self, needs: Needs, moments: Moments, source: SeededSource) -> None:
        self.needs, self.moments, self.source = needs, moments, source
        self._sums = np.zeros(moments.dimension)

    def seen(self, features: Floats) -> Floats:
        return features

    def take(self, features: Floats, rewards: Floats, actions: Integers, control: NDArray[np.bool_]) -> None:
        self._sums += summed(self.moments, features, rewards, actions, control, self.levels, self.source.generator)
        self.room -= len(rewards)
        if not self.room:
            sums, self._sums = self._sums, np.zeros(self.moments.dimension)
            self.finish(sums)

    @property
    def levels(self) -> float | None:
        """Steps of one unit that values are rounded to; None where they are not."""
        return None

    @abstractmethod
    def finish(self, sums: Floats) -> None:
        """A batch is whole: release it, and begin another."""


def summed(
    moments: Moments,
    features: Floats,
    rewards: Floats,
    actions: Integers,
    control: NDArray[np.bool_],
    levels: float | None,
    generator: np.random.Generator,
) -> Floats:
    """The sum of users' vectors, in units or in whole levels: each number is rounded up with its fraction's chance.

    Only the numbers of the played action's place are rounded; all others are zero, which is a whole level.
    """
    x = np.asarray(features, dtype=np.float32)
    z = (rewards - (0.5 if moments.centred else 0.0)).astype(np.float32)
    rows, columns, factors = moments._triangle
    own = np.empty((len(x), moments.own), dtype=np.float32)
    np.multiply(x, (moments.weight * z)[:, None], out=own[:, : moments.features])
    np.multiply(x[:, rows], x[:, columns], out=own[:, moments.features :])
    own[:, moments.features :] *= factors.astype(np.float32)
    if levels is not None:
        own *= np.float32(levels)
        own += generator.random(own.shape, dtype=np.float32)
        np.floor(own, out=own)
    total = np.zeros(moments.dimension)
    if moments.places == 1:
        total[: moments.own] = own.sum(axis=0, dtype=np.float64)
    else:
        for place in range(moments.places):
            total[place * moments.own : (place + 1) * moments.own] = own[actions == place].sum(axis=0, dtype=np.float64)
    if moments.control:
        weight, count = moments.control, math.sqrt(0.75) * moments.control
        pair = np.stack((weight * z * control, count * control), axis=1)
        if levels is not None:
            pair = np.floor(pair * levels + generator.random(pair.shape) * control[:, None])
        total[-2:] = pair.sum(axis=0)
    return total


class Growing(MomentPlayer):
    """Growing batches over a real mechanism: the server is the very one that a service would run."""

    def __init__(self, needs: Needs, plan: GrowingPlan, source: SeededSource) -> None:
        super().__init__(needs, plan.moments, source)
        self.server = LinearServer(plan)
        self._renew()

    def _renew(self) -> None:
        self.rule, self.room = self.server.rule, self.server.room

    @property
    def levels(self) -> float:
        return self._mechanism.precision / self.moments.span

    @property
    def _mechanism(self) -> SumMechanism:
        return self.server.open[0].mechanism

    def finish(self, sums: Floats) -> None:
        batch = self.server.open[0]
        middle = batch.mechanism.precision // 2
        decoded = batch.mechanism.noisy(batch.mechanism.users * middle + sums.astype(np.int64), self.source)
        self.server.arrive(self.server.room)
        self.server.release(batch.number, tuple(decoded.tolist()))
        self._renew()

    def gain(self) -> Gain | None:
        return self.server.findings.gain() if self.needs.control else None


@dataclass(frozen=True)
class GaussianSum(NoiseSum):
    """So many Gaussian noises of this deviation."""

    count: int = 0
    std: float = 0.0

    @property
    def batches(self) -> int:
        return self.count

    @property
    def variance(self) -> float:
        return self.count * self.std**2

    @property
    def wrap_probability(self) -> float:
        return 0.0

    def cumulant(self, slopes: Floats, most: float, squares: float) -> Floats:
        return np.asarray(squares * self.variance * slopes**2 / 2.0)


class Trusted(MomentPlayer):
    """The same growing batches in the hands of a trusted server: exactly calibrated Gaussian noise, and no rounding."""

    def __init__(self, needs: Needs, plan: GrowingPlan, source: SeededSource) -> None:
        super().__init__(needs, plan.moments, source)
        std = plan.moments.diameter * gaussian_scale(needs.epsilon, needs.delta)
        self._noise, self._findings, self.plan = GaussianSum(std=std), Findings(plan), plan
        self._renew()

    def _renew(self) -> None:
        came = self._findings.users
        self.rule, self.room = self._findings.rule, self.plan.size(came, came)

    def finish(self, sums: Floats) -> None:
        came = self._findings.users
        users = self.plan.size(came, came)
        noise = self.source.generator.normal(0.0, self._noise.std, sums.shape)
        self._noise = replace(self._noise, count=self._noise.count + 1, users=came + users)
        self._findings = self._findings.plus(users, sums + noise, self._noise)
        self._renew()

    def gain(self) -> Gain | None:
        return self._findings.gain() if self.needs.control else None


class Open(MomentPlayer):
    """No privacy: sums without noise, read after every `block` users, and later every hundredth part of all so far."""

    def __init__(self, needs: Needs, source: SeededSource) -> None:
        super().__init__(needs, Moments(needs.world.dimension, needs.world.places), source)
        # There is no noise to leave its bounds: all of the failure probability is for rewards.
        norm = usual_norm(needs.world.dimension, needs.world.places)
        self.sets = Sets(min(3.0 * needs.failure, 0.999), needs.world.places, norm)
        nothing = self.sets.nothing(needs.world.dimension)
        self.rule = Rule(((nothing,),) * needs.world.places, needs.exploration, blank=True)
        self.room = self._block = needs.block
        self._came, self._total = 0, np.zeros(self.moments.dimension)

    def finish(self, sums: Floats) -> None:
        self._total = self._total + sums
        pulled, matrices = self.moments.moments(self._total)
        found = ((self.sets.belief(*own, NoiseBounds(0.0, 0.0)),) for own in zip(pulled, matrices, strict=True))
        self._came += self._block
        self._block = self.room = max(self.needs.block, self._came // 100)
        self.rule = Rule(tuple(found), self.needs.exploration)


class StatisticsPlayer(Player):
    """A player whose users report (xy, xxᵀ) for one wide parameter, as [TKMS23] has it."""

    centred = False

    def __init__(self, needs: Needs, sums: BlockSums, level: Confidence) -> None:
        self.needs, self.sums, self.level = needs, sums, level
        self.rule, self.room = level.rule(np.zeros(needs.statistics), 0), sums.block
        self._gathered: list[Floats] = []
        self._came = 0

    def seen(self, features: Floats) -> Floats:
        return widened(self.needs.world, features)

    def take(self, features: Floats, rewards: Floats, actions: Integers, control: NDArray[np.bool_]) -> None:
        self._gathered.append(statistics(features, rewards))
        self.room -= len(rewards)
        if self.room:
            return
        block, self._gathered = np.concatenate(self._gathered), []
        self._came += len(block)
        self.rule = self.level.rule(self.sums.extend(block), self._came)
        self.room = self.sums.block if self._came + self.sums.block <= self.needs.users else 0


Build = Callable[[Needs, SeededSource], Player]


def _shuffled(needs: Needs, plan: LinearPlan, source: SeededSource) -> Player:
    return StatisticsPlayer(needs, ShuffledSums(plan.counter, source), plan.confidence)


@lru_cache(maxsize=32)
def _planned(plan: Callable[..., LinearPlan], *numbers: int | None, **options: Any) -> LinearPlan:
    """Many runs follow one plan."""
    return plan(*numbers, **options)


def _concurrent(needs: Needs, source: SeededSource) -> Player:
    plan = _planned(linear_bandit, needs.users, needs.world.wide, needs.shufflers, **needs.planned())
    return _shuffled(needs, plan, source)


def _sequential(needs: Needs, source: SeededSource) -> Player:
    plan = _planned(sequential_linear_bandit, needs.users, needs.world.wide, **needs.planned())
    return _shuffled(needs, plan, source)


def _central_tree(needs: Needs, source: SeededSource) -> Player:
    budget = {"epsilon": needs.epsilon, "delta": needs.delta}
    block = max(needs.block, balanced_batch(needs.users, needs.world.wide, None, **budget))
    sums = TrustedTree(needs.users, block, needs.statistics, needs.gaussian(), source)
    return StatisticsPlayer(needs, sums, needs.level(sums))


def _local(needs: Needs, source: SeededSource) -> Player:
    sums = LocalSums(needs.users, needs.block, needs.statistics, needs.gaussian(), source)
    return StatisticsPlayer(needs, sums, needs.level(sums))


def _growing(needs: Needs, source: SeededSource) -> Player:
    return Growing(needs, needs.growing_plan(needs.trust), source)


def _central(needs: Needs, source: SeededSource) -> Player:
    return Trusted(needs, needs.growing_plan("devices", noise="skellam"), source)


MODELS: dict[str, Build] = {
    "linucb": Open,
    "central": _central,
    "central-tree": _central_tree,
    "growing": _growing,
    "concurrent": _concurrent,
    "sequential": _sequential,
    "local": _local,
}
"""Those that `simulate_linear` knows by name."""
