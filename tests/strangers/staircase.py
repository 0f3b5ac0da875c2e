"""Staircase noise [GV14]: of all purely private noises for one number, the one of least error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
from flint import arb

from croupier.checks import between, integer
from croupier.noise import Noise, Window, one_party


@dataclass(frozen=True, repr=False)
class Staircase(Noise):
    """P(x) = c·e^{-ε·level(x)}: pure privacy ε for a number that one user can move by `width`."""

    epsilon: float
    width: int
    purely_private = True
    mean = 0.0

    def __post_init__(self) -> None:
        between("epsilon", self.epsilon, 0, 100), integer("width", self.width, 1, 10**6)

    @property
    def r(self) -> int:
        """Half of the lowest step: the r with the least variance, or nearly."""
        return max(1, math.ceil(self.width / (1 + math.exp(self.epsilon / 2))))

    @property
    def variance(self) -> float:
        window = self.window(1e-290)
        return float(window.pmf @ np.square(np.arange(window.start, window.stop, dtype=float)))

    def level(self, x: Any) -> Any:
        """Which step a number stands on: 0 below r, then one more for every `width` numbers."""
        return np.maximum(0, 1 + (np.abs(x) - self.r) // self.width)

    def log_ratio(self, shift: int) -> Fraction:
        """One level for each `width`, or part of it: this is what makes the noise private, exactly."""
        return Fraction(self.epsilon) * math.ceil(abs(shift) / self.width)

    def cumulant(self, t: Any) -> Any:
        t = np.asarray(t, dtype=float)
        inside = np.abs(t) < self.epsilon / self.width
        u = np.where(inside, t, 0.0)[..., None]
        low, step, b = np.arange(1 - self.r, self.r), np.arange(self.width), math.exp(-self.epsilon)
        sides = [np.exp(v * (self.r + step)).sum(-1) * b / (1 - b * np.exp(v[..., 0] * self.width)) for v in (u, -u)]
        return np.where(inside, np.log(self.top(math.exp) * (np.exp(u * low).sum(-1) + sum(sides))), np.inf)

    def top(self, exp: Any) -> Any:
        """c, with whatever exponential is wanted: of a double, or of a ball."""
        b = exp(-self.epsilon)
        return 1 / (2 * self.r - 1 + 2 * self.width * b / (1 - b))

    def window(self, floor: float = 1e-40) -> Window:
        c = self.top(math.exp)
        last = max(1, math.floor(math.log(c / floor) / self.epsilon))
        reach = self.r + last * self.width - 1
        pmf = c * np.exp(-self.epsilon * self.level(np.arange(-reach, reach + 1)))
        outside = 1.001 * self.width * c * math.exp(-self.epsilon * (last + 1)) / -math.expm1(-self.epsilon)
        return Window(-reach, pmf, outside, outside, 2.0**-52 * (8 + self.epsilon * last))

    def cells(self) -> Any:
        """Values and their exact probabilities, likely ones first: what exact samples are drawn by."""
        for x in count():
            mass = self.top(lambda v: arb(v).exp()) * (-arb(self.epsilon) * int(self.level(x))).exp()
            yield from [(x, mass), (-x, mass)] if x else [(x, mass)]

    def share(self, users: int) -> Noise:
        return one_party(self, users)

    times = share
