"""Notions of privacy, and how one implies another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from croupier.checks import InvalidParameter, between, finite, integer, one_of, positive

NOTIONS = ("pure", "approximate", "renyi", "concentrated")
NEIGHBOURS = ("replace",)
UNITS = ("report", "user")

ORDERS = tuple([1 + k / 10 for k in range(1, 10)] + list(range(2, 64)) + [2**k for k in range(6, 15)])
"""Orders at which Rényi divergence is evaluated; more orders could only lower the result of a conversion."""


@dataclass(frozen=True, repr=False)
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
        Pure ε adds up whatever their sizes; any other (ε, δ) is for batches of this size (`covering` is for others).

    Examples
    --------
    >>> print(Guarantee("pure", 0.5))
    0.5-DP when one report is replaced
    >>> print(Guarantee("approximate", 0.5, 1e-6, unit="user"))
    (0.5, 1e-6)-DP when one user is replaced
    >>> print(Guarantee("pure", 0.5, unit="user", participations=20))
    0.5-DP for a user in at most 20 batches, when all their reports are replaced
    >>> print(Guarantee("approximate", 0.5, 1e-6, unit="user", participations=20))
    (0.5, 1e-6)-DP for a user in at most 20 batches of this size, when all their reports are replaced
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
        self._check_amount("epsilon", self.epsilon)
        between("delta", self.delta, 0, 1, "[)")
        if self.notion == "pure" and self.delta:
            raise InvalidParameter("delta", self.delta, "0 for notion = 'pure'")
        if self.notion == "concentrated":
            self._check_amount("rho", self.rho)
        if self.notion == "renyi":
            self._check_amount("divergence", self.divergence)
            if self.order is None or not finite("order", self.order) > 1:
                raise InvalidParameter("order", self.order, "a number > 1 for notion = 'renyi'")
        if integer("participations", self.participations, 1) > 1 and self.unit != "user":
            raise InvalidParameter("unit", self.unit, "user: it is a user who takes part in several batches")

    def _check_amount(self, name: str, value: float | None) -> None:
        """Infinity is allowed: it promises nothing, and says so."""
        allowed = f"a number >= 0 for notion = {self.notion!r}"
        if value is None or not (value == math.inf or finite(name, value, allowed) >= 0):
            raise InvalidParameter(name, value, allowed)

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

    def __repr__(self) -> str:
        return f"Guarantee({self})"

    def __str__(self) -> str:
        if self.participations > 1:
            batches = f"{self.participations} batches" + ("" if self.notion == "pure" else " of this size")
            return f"{self._amount} for a user in at most {batches}, when all their reports are replaced"
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


def covering(one: Guarantee, other: Guarantee) -> Guarantee | None:
    """What a returning user keeps whose batches make one or the other promise; None where that is not known.

    Of B batches under ρ each costs ρ/B, so B of either kind cost the larger ρ. So it is with the Rényi divergence, at
    the lower of the two orders, since it grows with the order. The two ε say nothing about a mixture: each was composed
    of batches of one size.

    >>> promise = Guarantee("concentrated", 4.0, 1e-6, rho=0.40, unit="user", participations=2)
    >>> covered = covering(promise, replace(promise, epsilon=4.1, rho=0.42))
    >>> covered.rho, round(covered.epsilon, 3)
    (0.42, 4.733)
    """
    if one == other:
        return one
    if any(getattr(one, name) != getattr(other, name) for name in ("notion", "delta", "unit", "participations")):
        return None
    if one.rho is not None and other.rho is not None:
        rho = max(one.rho, other.rho)
        return replace(one, rho=rho, epsilon=concentrated_to_approximate(rho, one.delta))
    if one.order and other.order and one.divergence is not None and other.divergence is not None:
        order, divergence = min(one.order, other.order), max(one.divergence, other.divergence)
        epsilon = max(_at_order(order, divergence, one.delta), 0.0)
        return replace(one, order=order, divergence=divergence, epsilon=epsilon)
    return None


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
            epsilon = _at_order(order, bound, delta)
            if epsilon < best:
                best, chosen = epsilon, order
    return max(best, 0.0), chosen


def _at_order(order: float, divergence: float, delta: float) -> float:
    return divergence + math.log(1 / (order * delta)) / (order - 1) + math.log1p(-1 / order)


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
