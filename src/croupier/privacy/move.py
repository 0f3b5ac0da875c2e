"""The exact loss of a user who moves from one count to another, under noise whose losses take few values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from croupier.checks import Number
from croupier.noise import Noise
from croupier.noise.likelihoods import Pair
from croupier.noise.window import SHALLOW, Floats
from croupier.privacy.loss import Loss
from croupier.privacy.released import NoisyNumber


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

    def of_group(self, users: int) -> NoisyNumber | None:
        """Not known: several users may move between several counts."""
        return None

    def divergence(self, order: float) -> float:
        return math.inf

    @property
    def concentrated(self) -> float:
        return math.inf


def move_loss(noise: Noise) -> Loss:
    """The exact loss of a user who moves from one count to another, each under this noise."""
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
