"""Notions of privacy, and how one implies another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from croupier.checks import InvalidParameter, between, integer, one_of, positive

NOTIONS = ("pure", "approximate", "renyi", "concentrated")
NEIGHBOURS = ("replace",)
UNITS = ("report", "user")

ORDERS = tuple([1 + k / 10 for k in range(1, 10)] + list(range(2, 64)) + [2**k for k in range(6, 15)])
"""Orders at which Rényi divergence is evaluated; more orders could only lower the result of a conversion."""


@dataclass(frozen=True)
class Guarantee:
    """What is promised, and between which inputs: a notion with its numbers, the neighbouring relation and its unit.

    Parameters
    ----------
    notion : "pure", "approximate", "renyi" or "concentrated".
    epsilon, delta : (ε, δ)-DP, exact or rounded up, whatever the notion.
    rho : ρ, of concentrated privacy.
    order, divergence : one point of a Rényi curve.
    neighbours : "replace": two inputs are neighbours when one unit has another value. How many there are is public.
    unit : what is replaced: one "report", or all that one "user" gave.
    participations : in how many batches at most a user has one such report; the promise is for all of them together.

    Examples
    --------
    >>> print(Guarantee("pure", 0.5))
    0.5-DP when one report is replaced
    >>> print(Guarantee("approximate", 0.5, 1e-6, unit="user"))
    (0.5, 1e-6)-DP when one user is replaced
    >>> print(Guarantee("pure", 0.5, unit="user", participations=20))
    0.5-DP for a user in at most 20 batches, when all their reports are replaced
    """

    notion: str
    epsilon: float
    delta: float = 0.0
    rho: float | None = None
    order: float | None = None
    divergence: float | None = None
    neighbours: str = "replace"
    unit: str = "report"
    participations: int = 1

    def __post_init__(self) -> None:
        one_of("notion", self.notion, NOTIONS)
        one_of("neighbours", self.neighbours, NEIGHBOURS)
        one_of("unit", self.unit, UNITS)
        if integer("participations", self.participations, 1) > 1 and self.unit != "user":
            raise InvalidParameter("unit", self.unit, "user: it is a user who takes part in several batches")

    def to_dict(self) -> dict[str, Any]:
        """The guarantee as plain data, without what its notion does not have, nor participations where there is one."""
        said = {name: value for name, value in asdict(self).items() if value is not None}
        if self.participations == 1:
            del said["participations"]
        return said

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Guarantee:
        """Read a guarantee back; one that does not say between which inputs it holds is refused."""
        missing = [name for name in ("notion", "epsilon", "delta", "neighbours", "unit") if name not in data]
        if missing:
            raise InvalidParameter("guarantee", data, "one with " + ", ".join(missing))
        return cls(**data)

    def __str__(self) -> str:
        if self.participations > 1:
            whose = f"for a user in at most {self.participations} batches, when all their reports are replaced"
            return f"{self._amount} {whose}"
        return f"{self._amount} when one {self.unit} is replaced"

    @property
    def _amount(self) -> str:
        approximate = f"({self.epsilon:.6g}, {small(self.delta)})-DP"
        if self.notion == "pure":
            return f"{self.epsilon:.6g}-DP"
        if self.notion == "concentrated":
            return f"{self.rho:.6g}-zCDP, so {approximate}"
        if self.notion == "renyi":
            return f"({self.order:g}, {self.divergence:.6g})-RDP, so {approximate}"
        return approximate


def small(value: float) -> str:
    """A δ as the tables write it, three digits and no zero before its power.

    >>> small(1e-6), small(2.4e-12), small(0.0)
    ('1e-6', '2.4e-12', '0')
    """
    return f"{value:.3g}".replace("e-0", "e-")


def renyi_to_approximate(divergence: Callable[[float], float], delta: float) -> tuple[float, float]:
    """The least ε with (ε, δ)-DP from a Rényi curve, and the order that gave it ([CZ23] Lemma 10).

    >>> epsilon, order = renyi_to_approximate(lambda order: 0.5 * order, 1e-6)
    >>> round(epsilon, 3)
    5.222
    """
    delta = float(between("delta", delta, 0, 1))
    best, chosen = math.inf, math.nan
    for order in ORDERS:
        bound = divergence(order)
        if math.isfinite(bound):
            epsilon = bound + math.log(1 / (order * delta)) / (order - 1) + math.log1p(-1 / order)
            if epsilon < best:
                best, chosen = epsilon, order
    return max(best, 0.0), chosen


def concentrated_to_approximate(rho: float, delta: float) -> float:
    """The least ε with (ε, δ)-DP from ρ-zCDP, never above ρ + 2√(ρ log 1/δ) ([CZ23] Lemma 10 with ρ = ½ε²)."""
    rho, delta = float(positive("rho", rho)), float(between("delta", delta, 0, 1))
    # The best order is near 1 + √(log(1/δ)/ρ); the curve is flat there, so a fine grid around it suffices.
    centre = math.sqrt(math.log(1 / delta) / rho)
    epsilon = min(
        rho * order + math.log(1 / (order * delta)) / (order - 1) + math.log1p(-1 / order)
        for order in (1 + centre * 2 ** (k / 64) for k in range(-256, 257))
    )
    return max(epsilon, 0.0)


def pure_to_concentrated(epsilon: float) -> float:
    """ρ = ½ε² ([CZ23] Lemma 10)."""
    return 0.5 * float(positive("epsilon", epsilon)) ** 2


def pure_to_renyi(epsilon: float, order: float) -> float:
    """The Rényi divergence that ε-DP allows at most: ½ε²α, and never above ε ([CZ23] Lemma 10)."""
    if order <= 1:
        raise InvalidParameter("order", order, "a number > 1")
    return min(pure_to_concentrated(epsilon) * order, float(epsilon))


def advanced_composition(epsilon: float, delta: float, count: int) -> float:
    """The ε that each of `count` mechanisms may have so that all together have `epsilon` ([CZ23] Theorem 7).

    They are then (epsilon, count·δ₀ + delta)-DP if each is (ε, δ₀)-DP. The theorem is stated for epsilon < 1.

    >>> round(advanced_composition(0.9, 1e-6, 100), 5)
    0.00856
    """
    between("epsilon", epsilon, 0, 1)
    between("delta", delta, 0, 1)
    return float(epsilon) / (2.0 * math.sqrt(2.0 * integer("count", count, 1) * math.log(1.0 / float(delta))))
