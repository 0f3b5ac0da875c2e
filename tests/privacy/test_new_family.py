"""A family that the library does not know is one class: losses, divergence, composition and search ask it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb

from croupier.checks import Number
from croupier.noise.base import one_party, to_arb
from croupier.noise.ratio import RatioNoise
from croupier.noise.target import Target
from croupier.privacy import calibrate, privacy_loss
from croupier.search import least_passing_integer


@dataclass(frozen=True, repr=False)
class Staircase(RatioNoise):
    """P(x) ∝ e^{-ε ⌊|x|/width⌋}: a shift up to the width costs one step, wherever it happens."""

    epsilon: Number
    width: int
    purely_private = True

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        window = self.window()
        return float(np.dot(np.arange(window.start, window.stop) ** 2.0, window.pmf))

    def extent(self, floor: float) -> float:
        # The variance is summed over the table, so it cannot say how wide that will be.
        return -2.0 * math.log(floor) * self.width / float(self.epsilon)

    def _mass(self) -> arb:
        # The stair at zero is one short of twice the width, all others are twice the width.
        q = (-to_arb(self.epsilon)).exp()
        return 1 / (2 * self.width - 1 + 2 * self.width * q / (1 - q))

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        if real is float:
            x = np.asarray(x)
            down = np.floor((x + 1) / self.width) - np.floor(x / self.width)
            up = np.floor(-x / self.width) - np.floor(-(x + 1) / self.width)
            return np.exp(float(self.epsilon) * np.where(x >= 0, -down, up))
        stairs = abs(x + 1) // self.width - abs(x) // self.width
        return (-stairs * to_arb(self.epsilon)).exp()

    @property
    def _growth_limit(self) -> float:
        return 1.0 - 1e-9

    def log_ratio(self, shift: int) -> Number:
        return -(-abs(shift) // self.width) * Fraction(self.epsilon)

    def cumulant(self, t: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def share(self, users: int) -> Staircase:
        return one_party(self, users)

    times = share

    @classmethod
    def calibrated(cls, target: Target) -> Staircase:
        return cls(target.epsilon, least_passing_integer(lambda width: target.met(cls(target.epsilon, width)), 0, 1))


STAIRS = Staircase(Fraction(1, 2), 5)


def law(noise: Staircase, reach: int = 900) -> dict[int, float]:
    weights = {x: math.exp(-float(noise.epsilon) * (abs(x) // noise.width)) for x in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


@pytest.mark.parametrize(("sensitivity", "pure"), [(1, 0.5), (4, 0.5), (5, 0.5), (6, 1.0), (10, 1.0), (11, 1.5)])
def test_pure_epsilon_is_the_log_ratio_at_the_shift(sensitivity: int, pure: float) -> None:
    loss = privacy_loss(STAIRS, sensitivity)
    assert loss.pure == loss.epsilon(0.0) == pure
    assert loss.delta(pure) == 0.0 < loss.delta(pure * (1 - 1e-9))
    assert (3 * loss).pure == 3 * pure
    assert loss.zcdp == pure**2 / 2


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.49, 0.7])
@pytest.mark.parametrize("sensitivity", [1, 3, 5, 6])
def test_delta_is_the_direct_sum(sensitivity: int, epsilon: float) -> None:
    masses = law(STAIRS)
    shifted = ((mass, masses.get(x - sensitivity, 0.0)) for x, mass in masses.items() if abs(x) < 800)
    exact = math.fsum(max(0.0, mass - math.exp(epsilon) * other) for mass, other in shifted)
    assert privacy_loss(STAIRS, sensitivity).delta(epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-14)


def test_divergence_is_the_direct_sum() -> None:
    masses = law(STAIRS)
    total = math.fsum(mass**3 * masses[x - 2] ** -2.0 for x, mass in masses.items() if abs(x) < 800)
    assert privacy_loss(STAIRS, 2).rdp(3) == pytest.approx(math.log(total) / 2, rel=1e-9)


def test_its_own_search_calibrates_it() -> None:
    assert calibrate(Staircase, epsilon=0.5, sensitivity=7) == Staircase(0.5, 7)
