"""The loss of a release that is private but for a rare event, in which everything may be told."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from croupier.checks import Number, between
from croupier.noise import Noise
from croupier.noise.likelihoods import Pair
from croupier.noise.window import EPSILON, SHALLOW
from croupier.privacy.loss import Loss
from croupier.privacy.released import Released


@dataclass(frozen=True, eq=False)
class _OrTold(Pair):
    """From the ε of the release on, nothing but the rare event is left; the table's rounding would blur that."""

    chance: float = 0.0
    pure: Number = math.inf

    def delta(self, epsilon: float) -> float:
        found = super().delta(epsilon)
        return min(found, self.chance * (1.0 + 8.0 * EPSILON)) if epsilon >= self.pure else found


@dataclass(frozen=True)
class Told(Released):
    """A release, or with probability `chance` at most a view that only one of the two inputs can lead to.

    The probability of such a view counts once in δ. A statistical distance of the same size would cost (1 + e^ε) times
    as much, since it stands for any change of either view.
    """

    release: Released
    chance: Fraction
    tabulated = True

    @property
    def noise(self) -> Noise:  # type: ignore[override]
        return self.release.noise

    @property
    def pure(self) -> Number:
        return math.inf

    def divergence(self, order: float) -> float:
        return math.inf

    @property
    def concentrated(self) -> float:
        return math.inf

    def pairs(self, floor: float = SHALLOW) -> tuple[Pair, ...]:
        return tuple(self._mixed(pair) for pair in self.release.pairs(floor))

    def pair(self) -> Pair:
        return self._mixed(self.release.pair())

    def _mixed(self, pair: Pair) -> Pair:
        rest = 1.0 - float(self.chance)
        return _OrTold(
            pair.losses,
            rest * pair.masses,
            float(self.chance) + rest * pair.impossible,
            rest * pair.cut,
            pair.error,
            pair.substitute,
            chance=float(self.chance),
            pure=self.release.pure,
        )

    def towards(self, direction: str) -> Told:
        return replace(self, release=self.release.towards(direction))

    def __str__(self) -> str:
        return f"{self.release}, all told with probability {float(self.chance):.3g}"


def told_loss(loss: Loss, chance: Number) -> Loss:
    """The loss of one release that has this loss, and tells all with probability `chance` at most.

    >>> from croupier.noise import DiscreteLaplace
    >>> from croupier.privacy import privacy_loss
    >>> told_loss(privacy_loss(DiscreteLaplace(2)), 1e-6).delta(0.5) <= 1.000001e-6
    True
    """
    chance = Fraction(between("chance", chance, 0, 1, "[]"))
    release = loss.single
    if release is None or loss.distance:
        raise ValueError(f"one tabulated release without a distance is needed, not {loss}")
    return Loss(((Told(release, chance), 1),)) if chance else loss
