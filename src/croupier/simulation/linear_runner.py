"""Run linear bandits on simulated users: everyone of an open batch chooses by the same rule, so all at once.

`MODELS` lists them, those of `croupier.linear` and other authors'. The latter are references: their noise is continuous
and drawn in the simulation, so they are never deployable. They are LinUCB without privacy [APS11], the central tree
[SS18], and the local model [ZCHLW20].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, integer, one_of
from croupier.continual import Tree, gaussian_deviation
from croupier.linear import (
    DIAMETER,
    Confidence,
    Rule,
    confidence,
    linear_bandit,
    sequential_linear_bandit,
    statistics,
    statistics_dimension,
)
from croupier.noise import SeededSource, seeded
from croupier.privacy import gaussian_scale
from croupier.simulation.counting import TreeSum
from croupier.simulation.linear_worlds import LinearWorld

Floats = NDArray[np.float64]


class BlockSums(Protocol):
    """Running sums of the statistics that are read whenever `block` more users are in; `extend` may change it."""

    block: int

    def extend(self, block: Floats) -> Floats: ...


class ShuffledSums:
    """The sums of a planned counter."""

    def __init__(self, running: TreeSum) -> None:
        self._running, self.block = running, running.plan.tree.smallest

    def extend(self, block: Floats) -> Floats:
        return np.asarray(self._running.extend(block))


class TrustedTree:
    """Gaussian noise on the nodes of a binary tree, added by a trusted server to sums of whole blocks."""

    def __init__(self, users: int, block: int, dimension: int, std: float, source: SeededSource) -> None:
        self.block, self._std, self._generator = block, std, source.generator
        self._tree = Tree(users, block, 2, max(1, math.ceil(math.log2(users / block))))
        self._levels = np.zeros((self._tree.levels, dimension))
        self._total, self._blocks = np.zeros(dimension), 0
        self._node = std * math.sqrt(self._tree.levels)

    def deviation(self, failure: float, *, directions: float = 1.0, strength: float = 1.0) -> float:
        levels = (self._node**2,) * self._tree.levels
        return gaussian_deviation(self._tree, levels, failure, directions=directions, strength=strength)

    def extend(self, block: Floats) -> Floats:
        self._blocks += 1
        self._total += block.sum(axis=0)
        top = self._tree.levels - 1
        level = min((self._blocks & -self._blocks).bit_length() - 1, top)
        kept = self._levels[level] if level == top else 0.0
        self._levels[:level] = 0.0
        self._levels[level] = kept + self._generator.normal(0.0, self._node, self._total.shape)
        return np.asarray(self._total + self._levels.sum(axis=0))


class LocalSums:
    """Everyone adds Gaussian noise to their own statistics; a block's noises are drawn as one."""

    def __init__(self, users: int, block: int, dimension: int, std: float, source: SeededSource) -> None:
        self.block, self._std, self._generator = block, std, source.generator
        self._tree = Tree(users, block, 2, 1)
        self._total = np.zeros(dimension)

    def deviation(self, failure: float, *, directions: float = 1.0, strength: float = 1.0) -> float:
        variances = (self.block * self._std**2,)
        return gaussian_deviation(self._tree, variances, failure, directions=directions, strength=strength)

    def extend(self, block: Floats) -> Floats:
        noise = self._generator.normal(0.0, self._std * math.sqrt(len(block)), self._total.shape)
        self._total = self._total + block.sum(axis=0) + noise
        return self._total


class TrueSums:
    """No privacy."""

    def __init__(self, block: int, dimension: int) -> None:
        self.block, self._total = block, np.zeros(dimension)

    def extend(self, block: Floats) -> Floats:
        self._total = self._total + block.sum(axis=0)
        return self._total


@dataclass(frozen=True)
class Setting:
    """What a model needs to know."""

    users: int
    dimension: int
    epsilon: float
    delta: float
    constants: str
    failure: float
    exploration: float
    shufflers: int | None
    block: int

    @property
    def statistics(self) -> int:
        return statistics_dimension(self.dimension)

    def level(self, sums: Any) -> Confidence:
        """The confidence set over these sums."""
        return confidence(sums, self.dimension, failure=self.failure, exploration=self.exploration)

    def gaussian(self) -> float:
        """The deviation with which one user's statistics are (ε, δ)-private."""
        return DIAMETER * gaussian_scale(self.epsilon, self.delta)

    def planned(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "constants": self.constants,
            "failure": self.failure,
            "exploration": self.exploration,
        }


Model = Callable[[Setting, SeededSource], tuple[BlockSums, Confidence]]


def _concurrent(setting: Setting, source: SeededSource) -> tuple[BlockSums, Confidence]:
    plan = linear_bandit(setting.users, setting.dimension, setting.shufflers, **setting.planned())
    return ShuffledSums(TreeSum(plan.counter, source)), plan.confidence


def _sequential(setting: Setting, source: SeededSource) -> tuple[BlockSums, Confidence]:
    plan = sequential_linear_bandit(setting.users, setting.dimension, **setting.planned())
    return ShuffledSums(TreeSum(plan.counter, source)), plan.confidence


def _central(setting: Setting, source: SeededSource) -> tuple[BlockSums, Confidence]:
    sums = TrustedTree(setting.users, setting.block, setting.statistics, setting.gaussian(), source)
    return sums, setting.level(sums)


def _local(setting: Setting, source: SeededSource) -> tuple[BlockSums, Confidence]:
    sums = LocalSums(setting.users, setting.block, setting.statistics, setting.gaussian(), source)
    return sums, setting.level(sums)


def _open(setting: Setting, source: SeededSource) -> tuple[BlockSums, Confidence]:
    return TrueSums(setting.block, setting.statistics), setting.level(None)


MODELS: dict[str, Model] = {
    "linucb": _open,
    "central": _central,
    "concurrent": _concurrent,
    "sequential": _sequential,
    "local": _local,
}
"""Without privacy [APS11]; [SS18]; [TKMS23] Alg. 4; [CZ22]; [ZCHLW20]."""


@dataclass(frozen=True, eq=False)
class LinearRun:
    """Pseudo-regret after each block, and whether the confidence set always held the true parameter."""

    users: NDArray[np.int64]
    regret: Floats
    held: bool | None
    rule: Rule
    vacuous: float
    """The share of users during whom β‖x‖_{V⁻¹} was above 1 for all: the proven bound then says nothing."""

    def at(self, points: NDArray[np.int64]) -> Floats:
        """Regret at given numbers of users, straight between blocks."""
        return np.asarray(np.interp(points, np.append(0, self.users), np.append(0.0, self.regret)))


def simulate_linear(
    model: str | Model,
    world: LinearWorld,
    users: int,
    *,
    seed: int,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    shufflers: int | None = None,
    constants: str = "tight",
    failure: float | None = None,
    exploration: float = 1.0,
    block: int = 32,
    each: bool = False,
    progress: Callable[[float], None] | None = None,
) -> LinearRun:
    """Play `users` users. References read their sums every `block` users; shuffled ones when a batch is full.

    `model` is one of `MODELS`, or a function like those.
    `each` lets users choose one by one instead of a block at once: slower, and the same.
    """
    made = MODELS[one_of("model", model, tuple(MODELS))] if isinstance(model, str) else model
    integer("users", users, 2 * integer("block", block, 1))
    setting = Setting(
        users,
        world.dimension,
        epsilon,
        delta,
        constants,
        failure if failure is not None else 1.0 / users,
        exploration,
        shufflers,
        block,
    )
    source = seeded(seed)
    sums, level = made(setting, source)
    rule = level.rule(np.zeros(setting.statistics), 0)
    ends, regrets, held, regret, blind = [], [], True, 0.0, 0
    start = 0
    while start < users:
        block = sums.block
        count = min(block, users - start)
        offers = world.offer(count, source.generator)
        chosen = _one_by_one(rule, offers.features) if each else rule.choose(offers.features)
        rows = np.arange(count)
        means = offers.means[rows, chosen]
        regret += float((offers.means.max(axis=1) - means).sum())
        ends.append(start + count)
        regrets.append(regret)
        blind += count * _says_nothing(rule)
        if count == block:
            rewards = (source.generator.random(count) < means).astype(np.float64)
            estimate = sums.extend(statistics(offers.features[rows, chosen], rewards))
            rule = level.rule(estimate, start + count)
            held = held and (world.theta is None or rule.holds(world.theta))
        start += count
        if progress is not None:
            progress(count / users)
    known = held if world.theta is not None else None
    return LinearRun(np.asarray(ends), np.asarray(regrets), known, rule, blind / users)


def _one_by_one(rule: Rule, features: Floats) -> NDArray[np.int64]:
    return np.asarray([int(rule.choose(offered)) for offered in features], dtype=np.int64)


def _says_nothing(rule: Rule) -> bool:
    """Whether even the best known direction has a confidence interval wider than all rewards."""
    return bool(rule.radius * np.linalg.svd(np.asarray(rule.root), compute_uv=False)[-1] > 1.0)


def exponent(users: NDArray[np.int64], regret: Floats, first: float = 0.01) -> float:
    """The slope of log regret over log users, from the given share of the run on."""
    if not 0 < first < 1:
        raise InvalidParameter("first", first, "a number in (0, 1)")
    late = (users >= first * users[-1]) & (regret > 0.0)
    return float(np.polyfit(np.log(users[late]), np.log(regret[late]), 1)[0])
