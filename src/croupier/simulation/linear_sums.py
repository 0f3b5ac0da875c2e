"""Running sums of (xy, xxᵀ), as [TKMS23] has them, in several hands: a planned counter, a trusted server, nobody."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from croupier.continual import CounterPlan, Tree, Weights, binary_tree, gaussian_deviation
from croupier.noise import SeededSource
from croupier.simulation.counting import TreeSum

Floats = NDArray[np.float64]


class BlockSums(Protocol):
    """Running sums that are read whenever `block` more users are in."""

    block: int

    def extend(self, block: Floats) -> Floats: ...


class ShuffledSums:
    """The sums of a planned counter."""

    def __init__(self, plan: CounterPlan, source: SeededSource) -> None:
        self._running, self.block = TreeSum(plan, source), plan.tree.smallest

    def extend(self, block: Floats) -> Floats:
        return np.asarray(self._running.extend(block))


class TrustedTree:
    """Gaussian noise on the nodes of a binary tree, added by a trusted server to sums of whole blocks.

    It weighs a node's own sum with its children's [Hon15], as the concurrent counter does. `std` is the noise that
    hides a user in one sum; one who is in a node of every level needs √levels times as much in each.
    """

    def __init__(self, users: int, block: int, dimension: int, std: float, source: SeededSource) -> None:
        self.block, self._generator, self._blocks = block, source.generator, 0
        self.tree = binary_tree(users, block)
        self._node = std * math.sqrt(self.tree.levels)
        noise = (self._node**2,) * self.tree.levels
        self._weights = Weights.best(self.tree.degree, noise)
        self.variances = self._weights.variances(self.tree.degree, noise)
        self._true, self._estimates = np.zeros((2, self.tree.levels, dimension))

    def deviation(self, failure: float, *, directions: float = 1.0, strength: float = 1.0) -> float:
        return gaussian_deviation(self.tree, self.variances, failure, directions=directions, strength=strength)

    def extend(self, block: Floats) -> Floats:
        self._blocks += 1
        self._true += block.sum(axis=0)
        for level, weight in enumerate(self._weights.own):
            if self._blocks % self.tree.degree**level:
                break
            own = self._true[level] + self._generator.normal(0.0, self._node, block.shape[1])
            below = self._estimates[level - 1] if level else 0.0
            self._estimates[level] += weight * own + (1.0 - weight) * below
            self._true[level] = 0.0
            self._estimates[:level] = 0.0
        return np.asarray(self._estimates.sum(axis=0))


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
