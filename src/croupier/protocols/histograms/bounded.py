"""Bounded Laplace noise, and the exact loss of a user who moves from one count to another under it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, Number, integer, positive
from croupier.noise import DiscreteLaplace, Noise
from croupier.noise.base import settle, to_arb
from croupier.noise.likelihoods import Pair
from croupier.noise.ratio import RatioNoise
from croupier.noise.window import SHALLOW, Floats
from croupier.privacy import Loss, NoisyNumber
from croupier.search import least_passing_integer


@dataclass(frozen=True, repr=False)
class BoundedLaplace(RatioNoise):
    """P(x) ∝ e^{-|x|/scale} for |x| <= bound: discrete Laplace noise that is surely no larger.

    >>> BoundedLaplace(scale=2, bound=26).support
    (-26, 26)
    """

    scale: Number
    bound: int

    def __post_init__(self) -> None:
        settle(self, scale=positive("scale", self.scale), bound=integer("bound", self.bound, 1))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        x = np.arange(-self.bound, self.bound + 1, dtype=np.float64)
        weights = np.exp(-np.abs(x) / float(self.scale))
        return float(np.dot(weights, x * x) / weights.sum())

    @property
    def support(self) -> tuple[int | None, int | None]:
        return (-self.bound, self.bound)

    @property
    def symmetric(self) -> bool:
        return True

    def _mass(self) -> arb:
        beta = (-1 / to_arb(self.scale)).exp()
        return (1 - beta) / (1 + beta - 2 * beta ** (self.bound + 1))

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        return DiscreteLaplace(self.scale)._growth(x, real)

    def cumulant(self, t: Floats) -> Floats:
        x = np.arange(-self.bound, self.bound + 1)
        return np.asarray(np.log(np.exp(np.multiply.outer(np.asarray(t), x)) @ self.pmf(x)))

    def share(self, users: int) -> Noise:
        return self._whole(users)

    def times(self, users: int) -> Noise:
        return self._whole(users)

    def _whole(self, users: int) -> Noise:
        if users != 1:
            raise InvalidParameter("users", users, "1: bounded noise is drawn by one party")
        return self


@dataclass(frozen=True)
class Move(NoisyNumber):
    """One count rises by one and another falls by one, under independent noise whose losses take few values.

    Both losses are added exactly, with no grid: pure ε-DP noise has a loss of ±ε, which a grid would blur.
    """

    def pairs(self, floor: float = SHALLOW) -> tuple[Pair, ...]:
        return (_product(replace(self, sensitivity=1), floor),)

    def pair(self) -> Pair:
        return self.pairs()[0]

    @property
    def pure(self) -> Number:
        return 2 * self.noise.log_ratio(1)

    def divergence(self, order: float) -> float:
        return math.inf

    @property
    def concentrated(self) -> float:
        return math.inf


def move_loss(noise: BoundedLaplace) -> Loss:
    """The exact loss of a move under this noise."""
    return Loss(((Move(noise, 1), 1),))


STEP = 2.0**-40
"""Losses closer than this are taken for one, the larger of them."""


@lru_cache(maxsize=64)
def _product(move: Move, floor: float) -> Pair:
    up, down = (NoisyNumber(move.noise, 1, way).pairs(floor)[0] for way in ("up", "down"))
    first, second = _merged(up), _merged(down)
    losses, where = np.unique(np.add.outer(first.losses, second.losses).ravel(), return_inverse=True)
    masses = _added(where, np.multiply.outer(first.masses, second.masses).ravel())
    impossible = first.impossible + second.impossible - first.impossible * second.impossible
    return Pair(losses, masses, impossible, first.cut + second.cut, first.error + second.error + 2.0 * STEP)


def _merged(pair: Pair) -> Pair:
    losses, where = np.unique(np.ceil(pair.losses / STEP) * STEP, return_inverse=True)
    return replace(pair, losses=losses, masses=_added(where, pair.masses))


def _added(where: NDArray[np.int64], masses: Floats) -> Floats:
    return np.asarray(np.bincount(where, masses), dtype=np.float64)


@lru_cache(maxsize=256)
def bounded_noise(epsilon: float, delta: float) -> BoundedLaplace:
    """Scale 2/ε and the least bound: only a count at its bound tells two inputs apart by more than ε."""
    # A hair more scale than 2/ε makes room for the rounding errors of the exact loss, which grow with the bound.
    exact = Fraction(epsilon)
    scale = 2 / exact * (1 + Fraction(1, 10**9) + Fraction(1, 10**11) / exact + Fraction(1, 10**12) / exact**2)
    guess = math.ceil(float(scale) * math.log(1.0 / delta))

    def met(bound: int) -> bool:
        return move_loss(BoundedLaplace(scale, bound)).delta(epsilon) <= delta

    return BoundedLaplace(scale, least_passing_integer(met, 0, max(guess, 1)))
