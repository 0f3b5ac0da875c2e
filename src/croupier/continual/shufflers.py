"""The concurrent shuffle model ([TKMS23] Alg. 1): several shufflers at once, and every user in all that are active.

A server assigns mechanisms to idle shufflers, users arrive and take part in every active one, and a shuffler that is
full releases its batch and is idle again. What one user pays is the composition of the mechanisms that were active
when they came. Each of them was active at one moment, so a user's total is never more than that of one such moment,
and the budget is checked before the user takes part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from croupier.checks import InvalidParameter, between, integer, one_of, positive
from croupier.privacy import BudgetExceeded, Guarantee, Ledger, Loss
from croupier.protocols import Release, SumMechanism

ACCOUNTS = ("exact", "sums")


@dataclass
class Batch:
    """One mechanism at work in one shuffler."""

    number: int
    shuffler: int
    mechanism: SumMechanism
    kind: int
    missing: int
    """How many users it still wants."""


class ConcurrentShufflers:
    """`count` shufflers, and a budget for every user.

    `account="exact"` composes the exact losses of all that is active when a user comes. That is sound whether the
    server's choices are fixed in advance or follow from earlier answers: what a user takes part in was settled before
    their value entered anything, so given the past it is a fixed list. `"sums"` keeps the budget by plain sums, as the
    user's own `Ledger` adds them up (`method`): never less, and easier to explain. Either way a user whom the budget
    does not cover is refused before anything is sent. A person who comes twice is two users here; only the device can
    add those up. Nothing but the present is remembered; an experiment's log is its program's (`croupier.programs`).

    >>> from croupier.protocols import shuffled_bits
    >>> half = shuffled_bits(epsilon=0.5, delta=5e-7)
    >>> shufflers = ConcurrentShufflers(2, epsilon=1.0, delta=1e-6, account="sums")
    >>> small, large = shufflers.activate(0, half.plan(users=100)), shufflers.activate(1, half.plan(users=300))
    >>> shufflers.arrive(100)
    >>> [batch.number for batch in shufflers.full]
    [0]
    >>> shufflers.release(small, decoded=57).sum, shufflers.idle
    (28.5, [0])
    """

    def __init__(
        self,
        count: int,
        *,
        epsilon: float,
        delta: float,
        account: str = "exact",
        method: str = "basic",
    ) -> None:
        self.count = integer("shufflers", count, 1)
        self.epsilon = float(positive("epsilon", epsilon))
        self.delta = float(between("delta", delta, 0, 1, "[)"))
        self.account = one_of("account", account, ACCOUNTS)
        Ledger(epsilon, delta, method=method)  # a budget that the method cannot hold is refused now
        self.method = method
        self.users = 0
        self.mechanisms: list[SumMechanism] = []
        self.active: dict[int, Batch] = {}
        self._numbers: dict[SumMechanism, int] = {}
        self._batches = 0
        self._taken: set[tuple[int, ...]] = set()
        self._covered: set[tuple[int, ...]] = set()

    @property
    def idle(self) -> list[int]:
        """Shufflers without a batch."""
        return [number for number in range(self.count) if number not in self.active]

    @property
    def full(self) -> list[Batch]:
        """Batches that have all their users and wait to be released."""
        return [batch for batch in self._in_order() if batch.missing == 0]

    @property
    def open(self) -> list[Batch]:
        """What the next user takes part in: every active batch, shufflers in order."""
        return [batch for batch in self._in_order() if batch.missing > 0]

    @property
    def room(self) -> int | None:
        """How many users can come before a batch is full; None when nothing is active."""
        return min([batch.missing for batch in self.active.values()], default=None)

    def activate(self, shuffler: int, mechanism: SumMechanism) -> int:
        """Give an idle shuffler a mechanism and return the number of its batch."""
        integer("shuffler", shuffler, 0, self.count - 1)
        if shuffler in self.active:
            raise InvalidParameter("shuffler", shuffler, f"an idle one: {self.idle}")
        if not isinstance(mechanism, SumMechanism):
            raise InvalidParameter("mechanism", mechanism, "a planned mechanism of croupier.protocols")
        if self.account == "sums":
            self._check([*(batch.mechanism for batch in self.open), mechanism])
        number = self._declare(mechanism)
        batch = Batch(self._batches, shuffler, mechanism, number, mechanism.users)
        self.active[shuffler] = batch
        self._batches += 1
        return batch.number

    def arrive(self, users: int = 1) -> None:
        """Let users take part in everything active; no more than fit before a batch is full."""
        integer("users", users, 1)
        if self.room is not None and users > self.room:
            raise InvalidParameter("users", users, f"at most {self.room}: then a batch is full and must be released")
        present = tuple(sorted([batch.kind for batch in self.active.values()]))
        if present and present not in self._covered:
            # Whoever takes part in less than another does pays no more.
            if not any(Counter(present) <= Counter(taken) for taken in self._taken):
                self._check([self.mechanisms[kind] for kind in present])
                self._taken.add(present)
            self._covered.add(present)
        for batch in self.active.values():
            batch.missing -= users
        self.users += users

    def release(self, batch: int, decoded: int | tuple[int, ...]) -> Release:
        """Take in what a full batch's view decodes to, free its shuffler, and return the release."""
        open_batch = self._find(batch)
        if open_batch.missing:
            raise InvalidParameter("batch", batch, f"a full one: {open_batch.missing} users are missing")
        _check_decoded(open_batch.mechanism, decoded)
        del self.active[open_batch.shuffler]
        return Release(open_batch.mechanism, decoded)

    def abandon(self, batch: int) -> None:
        """Free the shuffler of a batch that will not fill or cannot be read; nothing of it is released."""
        open_batch = self._find(batch)
        del self.active[open_batch.shuffler]

    def loss(self) -> Loss:
        """The exact loss of the user who pays most ε at the budget's δ."""
        if not self._taken:
            raise InvalidParameter("users", self.users, "at least one who took part in something")
        totals = [composed(tuple(self.mechanisms[kind] for kind in taken)) for taken in sorted(self._taken)]
        return totals[0] if len(totals) == 1 else max(totals, key=lambda loss: loss.epsilon(self.delta))

    @property
    def privacy(self) -> Guarantee:
        """What every user is sure of: exact, or the budget itself where sums keep it."""
        epsilon = self.epsilon if self.account == "sums" else self.loss().epsilon(self.delta)
        return Guarantee("approximate", epsilon, self.delta, unit="user")

    def _in_order(self) -> list[Batch]:
        return [self.active[number] for number in sorted(self.active)]

    def _declare(self, mechanism: SumMechanism) -> int:
        number = self._numbers.setdefault(mechanism, len(self.mechanisms))
        if number == len(self.mechanisms):
            self.mechanisms.append(mechanism)
        return number

    def _find(self, batch: int) -> Batch:
        for open_batch in self.active.values():
            if open_batch.number == batch:
                return open_batch
        raise InvalidParameter("batch", batch, f"an active one: {[b.number for b in self._in_order()]}")

    def _check(self, present: Sequence[SumMechanism]) -> None:
        """Refuse what one user could not pay."""
        if self.account == "exact":
            cost = composed(tuple(present)).delta(self.epsilon)
            if cost > self.delta * (1.0 + 1e-9):
                raise BudgetExceeded(
                    f"{len(present)} mechanisms at once cost δ = {cost:.3g} at ε = {self.epsilon:g}, "
                    f"and δ = {self.delta:.3g} is the budget"
                )
            return
        ledger = Ledger(self.epsilon, self.delta, method=self.method)
        for mechanism in present:
            what = f"{mechanism.protocol} with {mechanism.users} users"
            ledger.charge(mechanism.loss, what, delta=mechanism.guarantee.delta)


@lru_cache(maxsize=256)
def composed(mechanisms: tuple[SumMechanism, ...]) -> Loss:
    """The loss of one user who takes part in all of these; many servers ask for the same one."""
    return Loss.total(mechanism.loss for mechanism in mechanisms)


def _check_decoded(mechanism: SumMechanism, decoded: object) -> None:
    """One whole number, or one for each coordinate."""
    numbers: tuple[object, ...] = (decoded,)
    if mechanism.coordinates:
        if not isinstance(decoded, tuple) or len(decoded) != mechanism.dimension:
            raise InvalidParameter("decoded", decoded, f"a tuple of {mechanism.dimension} whole numbers")
        numbers = decoded
    for number in numbers:
        integer("decoded", number, -(2**63), 2**63 - 1)
