"""Counters of other authors in the central and local models: references to compare with, never to deploy.

The central ones trust the server and draw continuous noise inside the simulation. All are calibrated exactly, so a
comparison is at equal (ε, δ).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, between, integer
from croupier.continual import Tree, counter, prefixes
from croupier.noise import SeededSource
from croupier.privacy import gaussian_scale
from croupier.simulation.counting import RunningSum, TreeSum, as_numbers

Floats = NDArray[np.float64]


class ReferenceSum(RunningSum):
    """A trusted server that adds noise to true prefix sums; values in [0, 1]."""

    def __init__(self, users: int, source: SeededSource, std: float) -> None:
        self.users, self._source, self._std = integer("users", users, 1), source, std
        self._sum, self._seen = 0.0, 0

    def noise(self, count: int) -> Floats:
        """The noise in the first `count` estimates."""
        raise TypeError("a reference states its noise")

    def next_noise(self) -> float:
        """The noise in the next estimate."""
        raise TypeError("a reference states its noise")

    def variances(self, count: int) -> Floats:
        """The variance of the noise in the first `count` estimates, exactly."""
        raise TypeError("a reference states its noise")

    def mean_squares(self, values: Floats) -> Floats:
        # No user waits for a batch, so the error is the noise alone.
        return self.variances(len(values))

    def update(self, value: Any) -> float:
        if self._seen >= self.users:
            raise InvalidParameter("users", self._seen + 1, f"at most {self.users}, as planned")
        self._sum += float(between("value", value, 0, 1, "[]"))
        self._seen += 1
        return self._sum + self.next_noise()

    def run(self, values: ArrayLike) -> Floats:
        array = as_numbers(values)
        if array.ndim != 1 or not 1 <= len(array) <= self.users:
            raise InvalidParameter("values", array.shape, f"an array (t,) with t at most {self.users}, as planned")
        outside = ~((array >= 0.0) & (array <= 1.0))
        if outside.any():
            raise InvalidParameter("value", float(array[outside][0]), "a number in [0, 1]")
        return np.cumsum(array) + self.noise(len(array))

    def bound(self, failure: float) -> float:
        """Gaussian quantiles at failure/n for the worst estimate."""
        from scipy.special import ndtri

        return float(-ndtri(float(between("failure", failure, 0, 1)) / (2.0 * self.users))) * self._std


class CentralTree(ReferenceSum):
    """The binary tree mechanism ([DNPR10], [CSS11]): noise on every node, leaves included."""

    def __init__(self, users: int, source: SeededSource, *, epsilon: float, delta: float) -> None:
        self._tree = Tree(users, 1, 2, max(1, math.ceil(math.log2(max(users, 2)))))
        self.memory_nodes = self._tree.levels
        self._node = gaussian_scale(epsilon, delta) * math.sqrt(self._tree.levels)
        self._levels = np.zeros(self._tree.levels + 1)
        super().__init__(users, source, self._node * math.sqrt(self._tree.worst((1.0,) * self._tree.levels)))

    def noise(self, count: int) -> Floats:
        drawn = [self._source.generator.normal(0.0, self._node, count // size) for size in self._tree.sizes]
        return prefixes(self._tree, drawn)[1 : count + 1]

    def variances(self, count: int) -> Floats:
        return prefixes(self._tree, [np.full(count // size, self._node**2) for size in self._tree.sizes])[1 : count + 1]

    def next_noise(self) -> float:
        level = min((self._seen & -self._seen).bit_length() - 1, self._tree.levels - 1)
        self._levels[:level] = 0.0
        fresh = self._source.generator.normal(0.0, self._node)
        # Nodes of the top level are never merged: they add up.
        self._levels[level] = fresh + (self._levels[level] if level == self._tree.levels - 1 else 0.0)
        return float(self._levels.sum())


class SquareRoot(ReferenceSum):
    """The square-root factorization ([FHU23], [HUU23]): noise_t = Σ_j f_j z_{t-j}.

    f_0 = 1, f_j = f_{j-1}(1 - 1/2j): the lower-triangular matrix of ones is F². With S_t = Σ_{j<t} f_j² a user moves
    the released vector by √S_n, so z has deviation √S_n σ and estimate t the variance S_n S_t σ².
    """

    def __init__(self, users: int, source: SeededSource, *, epsilon: float, delta: float) -> None:
        j = np.arange(1, integer("users", users, 1))
        self._factors = np.concatenate(([1.0], np.cumprod(1.0 - 0.5 / j)))
        spread = float(np.sum(self._factors**2))
        self._scale = math.sqrt(spread) * gaussian_scale(epsilon, delta)
        self._drawn: list[float] = []
        self.memory_nodes = users
        super().__init__(users, source, math.sqrt(spread) * self._scale)

    def noise(self, count: int) -> Floats:
        from scipy.signal import fftconvolve

        drawn = self._source.generator.normal(0.0, self._scale, count)
        return np.asarray(fftconvolve(drawn, self._factors[:count])[:count])

    def variances(self, count: int) -> Floats:
        return np.asarray(self._scale**2 * np.cumsum(self._factors[:count] ** 2))

    def next_noise(self) -> float:
        self._drawn.append(self._source.generator.normal(0.0, self._scale))
        return float(np.dot(self._factors[: self._seen][::-1], self._drawn))


def local_sum(users: int, source: SeededSource, *, epsilon: float) -> TreeSum:
    """Everyone hides their own value and nobody is trusted: batches of one, ε-private without any δ."""
    return TreeSum(counter(users, 1, epsilon=epsilon, delta=0, over="local-laplace", smallest=1, binary=True), source)
