"""What a device's turns cost together, whatever batches their reports fall into."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from croupier.checks import InvalidParameter, between, finite, positive
from croupier.privacy.guarantee import concentrated_to_approximate
from croupier.privacy.ledger import Charge


@dataclass(frozen=True)
class Paid:
    """A turn that was paid for: its experiment's address, its cost by itself, its batches' hashes by number, its time.

    `rho` is its cost in zero-concentrated privacy, where that is known to hold.

    A clock that was set back makes it a turn of the future. Until its own time comes (again), it counts from when this
    was noticed: neither is the ledger locked for as long as the clock was ahead, nor does a clock that is wrong for a
    while make it forget.
    """

    experiment: str
    epsilon: float
    delta: float
    batches: dict[str, str]
    at: float
    noticed: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        between("delta", self.delta, 0, 1, "[)")
        # A time that is no number would never count.
        finite("at", self.at)
        if self.noticed is not None:
            finite("noticed", self.noticed)
        if self.rho is not None:
            positive("rho", self.rho)
        if not isinstance(self.batches, dict):
            raise InvalidParameter("batches", self.batches, "hashes by number")

    def since(self, now: float) -> float:
        """The time from which it counts."""
        if self.at <= now:
            return self.at
        return now if self.noticed is None else min(now, self.noticed)

    def seen(self, now: float) -> Paid:
        """The same turn, with what this look at the clock tells."""
        return self if self.at <= now else replace(self, noticed=self.since(now))


@dataclass(frozen=True)
class Group:
    """Turns that share batches: together they are one change of those batches' sums."""

    batches: frozenset[str]
    turns: tuple[Paid, ...]

    def cost(self, newest: Paid) -> tuple[list[float], float]:
        """Its ε, as numbers to be added up, and how many times the newest turn's δ it costs.

        k turns are k steps from neighbour to neighbour: (kε, δ(1 + e^ε + … + e^{(k-1)ε})). Where all of them have a ρ,
        they are one change of (Σ√ρ)², which is far better in δ.
        """
        if len(self.turns) > 1 and newest.delta and all(turn.rho is not None for turn in self.turns):
            rho = math.fsum(math.sqrt(turn.rho or 0.0) for turn in self.turns) ** 2
            return [_converted(rho, newest.delta)], 1.0
        return [turn.epsilon for turn in self.turns], _steps(newest.epsilon, len(self.turns))


def costs(turns: Iterable[Paid]) -> list[Charge]:
    """What each turn costs after those before it.

    Turns share a batch when its hash is the same: an experiment that is reached at two addresses is one.
    """
    charges, groups = [], dict[str, Group]()
    for turn in turns:
        hashes = frozenset(turn.batches.values())
        joined = {id(group): group for name in hashes if (group := groups.get(name)) is not None}.values()
        group = Group(hashes.union(*(past.batches for past in joined)), (*(t for p in joined for t in p.turns), turn))
        groups |= dict.fromkeys(group.batches, group)
        epsilons, due = group.cost(turn)
        before = [past.cost(turn) for past in joined]
        epsilons += [-epsilon for paid, _ in before for epsilon in paid]
        steps = due if math.isinf(due) else max(due - sum(times for _, times in before), 0.0)
        charges.append(
            Charge(turn.experiment, max(math.fsum(epsilons), 0.0), turn.delta * steps if turn.delta else 0.0)
        )
    return charges


def _steps(epsilon: float, turns: int) -> float:
    """1 + e^ε + … + e^{(turns-1)ε}, or infinity when that is too large to matter."""
    try:
        return math.expm1(epsilon * turns) / math.expm1(epsilon)
    except OverflowError:
        return math.inf


@lru_cache(maxsize=1024)
def _converted(rho: float, delta: float) -> float:
    return concentrated_to_approximate(rho, delta)
