"""One user's own account of what their reports have cost, which refuses the one that would exceed the budget.

Programs choose later mechanisms from earlier answers, so the ledger is a filter: only ways of adding up that stay true
under such choices are used. Sums of ε and of δ are; so are sums of ρ (zero-concentrated) and sums of the Rényi
divergence at one order fixed in advance. Numerical composition and [CZ23] Theorem 7 are not, so they are not offered.
The server cannot link a user's reports, so the ledger lives with the client.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from croupier.checks import CroupierError, InvalidParameter, between, finite, integer, one_of, positive
from croupier.privacy.guarantee import Guarantee, concentrated_to_approximate, covering
from croupier.search import bracket

if TYPE_CHECKING:
    from croupier.privacy.loss import Loss

METHODS = ("basic", "concentrated", "renyi")
VERSION = 1


class BudgetExceeded(CroupierError):
    """A charge that the budget does not cover; nothing was charged."""


@dataclass(frozen=True)
class Charge:
    """One report's cost, in the ledger's own unit (and in δ, for basic sums), and what it was for."""

    what: str
    cost: float
    delta: float = 0.0
    batches_left: int = 0
    """How many more batches it pays for, where a promise is for several."""
    promise: Guarantee | None = None
    """That promise: a later batch may make another, if its size is another."""

    def __post_init__(self) -> None:
        for name in ("cost", "delta"):
            if not getattr(self, name) >= 0:
                raise InvalidParameter(name, getattr(self, name), "a number >= 0")
        integer("batches_left", self.batches_left, 0)

    def to_dict(self) -> dict[str, Any]:
        """The charge as plain data."""
        return vars(self) | {"promise": None if self.promise is None else self.promise.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Charge:
        """Read a charge back."""
        promise = data.get("promise")
        return cls(**data | {"promise": None if promise is None else Guarantee.from_dict(promise)})


@dataclass
class Ledger:
    """A budget of (epsilon, delta) for one user.

    Parameters
    ----------
    epsilon, delta : the budget: what all charges together may cost.
    method : how charges add up: "basic" (ε and δ), "concentrated" (ρ) or "renyi" (at one order).
    order : the Rényi order, fixed in advance.
    charges : what is spent already.

    Examples
    --------
    >>> from croupier.noise import DiscreteLaplace
    >>> from croupier.privacy import privacy_loss
    >>> ledger = Ledger(epsilon=1.0)
    >>> half = privacy_loss(DiscreteLaplace(scale=2))
    >>> ledger.charge(half, "batch 1"); ledger.charge(half, "batch 2")
    >>> ledger.charge(half, "batch 3")
    Traceback (most recent call last):
    croupier.privacy.ledger.BudgetExceeded: batch 3 costs ε = 0.5, and only 0 of 1 is left
    """

    epsilon: float
    delta: float = 0.0
    method: str = "basic"
    order: float | None = None
    charges: list[Charge] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.epsilon = float(positive("epsilon", self.epsilon))
        self.delta = float(between("delta", self.delta, 0, 1, "[)"))
        one_of("method", self.method, METHODS)
        if self.method != "basic" and self.delta == 0.0:
            raise InvalidParameter("delta", self.delta, f"a number in (0, 1) for method = {self.method!r}")
        if self.method == "renyi":
            if self.order is None or finite("order", self.order) <= 1:
                raise InvalidParameter("order", self.order, "a number > 1, fixed in advance")
            if self.budget <= 0.0:
                raise InvalidParameter("order", self.order, "large enough that the budget at this order is positive")

    @property
    def unit(self) -> str:
        return {"basic": "ε", "concentrated": "ρ", "renyi": f"divergence at order {self.order}"}[self.method]

    @property
    def budget(self) -> float:
        """The budget in the ledger's unit; its conversion back gives (epsilon, delta)."""
        if self.method == "basic":
            return self.epsilon
        if self.method == "concentrated":
            return _largest_rho(self.epsilon, self.delta)
        assert self.order is not None
        order = self.order
        return self.epsilon - math.log(1 / (order * self.delta)) / (order - 1) - math.log1p(-1 / order)

    @property
    def spent(self) -> float:
        return math.fsum(charge.cost for charge in self.charges)

    @property
    def left(self) -> float:
        return max(self.budget - self.spent, 0.0)

    def cost(self, loss: Loss, delta: float = 0.0) -> float:
        """What a loss costs in the ledger's unit; for basic sums, its ε at the given δ."""
        if self.method == "basic":
            return loss.epsilon(delta)
        return loss.zcdp if self.method == "concentrated" else loss.rdp(self.order or math.nan)

    def charge(self, loss: Loss, what: str, *, delta: float = 0.0) -> None:
        """Charge a loss (for basic sums: its ε at `delta`, and that delta), or refuse and charge nothing.

        Charge before the report is sent: a crash in between then errs to the safe side.
        """
        self.take(Charge(what, self.cost(loss, delta), delta if self.method == "basic" else 0.0))

    def take_part(self, promise: Guarantee, what: str) -> None:
        """Take part in one more batch of an experiment whose promise is for at most so many; refuse one too many.

        The first batch is charged for all of them: their noise was made so that together they cost no more. A batch of
        another size may promise otherwise. Where both promises say what adds up (ρ, or Rényi divergence), the charge
        rises to what covers both (`covering`); elsewhere such a batch is refused.

        >>> ledger, promise = Ledger(epsilon=1.0), Guarantee("pure", 0.5, unit="user", participations=2)
        >>> for batch in range(3):
        ...     ledger.take_part(promise, "ads")
        Traceback (most recent call last):
        croupier.privacy.ledger.BudgetExceeded: ads promises for 2 batches, and this user took part in all of them
        >>> ledger.spent
        0.5
        """
        if self.method != "basic":
            raise InvalidParameter("method", self.method, "basic, to take part in batches under one promise")
        for place, charge in enumerate(self.charges):
            if charge.what == what:
                self._take_part_again(place, promise)
                return
        self.take(Charge(what, promise.epsilon, promise.delta, promise.participations - 1, promise))

    def _take_part_again(self, place: int, promise: Guarantee) -> None:
        paid = self.charges[place]
        if not paid.batches_left:
            batches = f"{promise.participations} batches" if promise.participations > 1 else "one batch"
            raise BudgetExceeded(f"{paid.what} promises for {batches}, and this user took part in all of them")
        covered = None if paid.promise is None else covering(paid.promise, promise)
        if covered is None:
            raise BudgetExceeded(f"{paid.what} promises {promise}, and what was paid for is {paid.promise}")
        # What covers several sizes is converted by a looser formula, and may be above or below what was paid.
        cost = max(paid.cost, covered.epsilon)
        others = replace(self, charges=self.charges[:place] + self.charges[place + 1 :])
        again = replace(paid, cost=cost, batches_left=paid.batches_left - 1, promise=covered)
        others.check(again)
        self.charges[place] = again

    def take(self, charge: Charge) -> None:
        """Charge what a signed promise says that it costs, or refuse and charge nothing."""
        self.check(charge)
        self.charges.append(charge)

    def check(self, charge: Charge) -> None:
        """Refuse a charge that the budget does not cover."""
        # One part in 10^12 forgives the last rounding of a budget cut into equal parts, and no more.
        if not self.spent + charge.cost <= self.budget * (1.0 + 1e-12):
            raise BudgetExceeded(
                f"{charge.what} costs {self.unit} = {charge.cost:.6g}, "
                f"and only {self.left:.6g} of {self.budget:.6g} is left"
            )
        if math.fsum(c.delta for c in self.charges) + charge.delta > self.delta * (1.0 + 1e-12):
            raise BudgetExceeded(
                f"{charge.what} costs δ = {charge.delta:.3g}, which exceeds what is left of δ = {self.delta:.3g}"
            )

    def to_json(self) -> str:
        """The ledger as text, for the device to keep."""
        body = {"version": VERSION, "epsilon": self.epsilon, "delta": self.delta, "method": self.method}
        return json.dumps(body | {"order": self.order, "charges": [charge.to_dict() for charge in self.charges]})

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        body = json.loads(text)
        if body.pop("version", None) != VERSION:
            raise InvalidParameter("version", text[:40], f"a ledger of version {VERSION}")
        charges = [Charge.from_dict(charge) for charge in body.pop("charges")]
        return cls(**body, charges=charges)


def _largest_rho(epsilon: float, delta: float) -> float:
    """The largest ρ whose conversion stays within (epsilon, delta), rounded down."""
    _, kept = bracket(
        lambda rho: concentrated_to_approximate(rho, delta) <= epsilon, epsilon, 0.0, absolute=1e-12 * epsilon
    )
    return kept
