"""The concurrent shuffle model against a naive one that keeps, for every user, the list of mechanisms they were in."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from croupier.checks import InvalidParameter
from croupier.continual import ConcurrentShufflers
from croupier.privacy import BudgetExceeded
from croupier.protocols import SumMechanism, discrete_gaussian, laplace, shuffled_bits

POOL = [
    laplace(epsilon=epsilon, binary=True).plan(users)
    for epsilon, users in [(0.25, 1), (0.25, 3), (0.5, 2), (0.5, 4), (0.75, 5), (1.0, 2), (2.0, 3)]
]
"""Pure ε that are binary fractions, so that naive sums are exact; the last one alone is over a budget of 1."""


@dataclass
class NaiveBatch:
    number: int
    mechanism: SumMechanism
    users: list[int] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.users) == self.mechanism.users


class ShufflersAgainstNaive(RuleBasedStateMachine):
    """Every operation on both; the naive side decides what must be refused, and sums up every user by hand."""

    account = "exact"

    @initialize(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        self.count = count
        self.shufflers = ConcurrentShufflers(count, epsilon=1.0, delta=0.0, account=self.account)
        self.busy: dict[int, NaiveBatch] = {}
        self.histories: list[list[SumMechanism]] = []
        self.batches = 0

    def waiting(self) -> bool:
        return any(batch.full for batch in self.busy.values())

    def room(self) -> int:
        return min((batch.mechanism.users - len(batch.users) for batch in self.busy.values()), default=7)

    def refused(self, operation, *kinds: type[Exception]) -> None:  # type: ignore[no-untyped-def]
        """A refusal of the right kind, after which everything is as before."""
        before = self.state()
        with pytest.raises(kinds):
            operation()
        assert self.state() == before

    def state(self) -> tuple[object, ...]:
        shufflers = self.shufflers
        active = [replace(batch) for batch in shufflers.active.values()]
        return list(shufflers.mechanisms), shufflers.users, active, shufflers._batches, set(shufflers._taken)

    @precondition(lambda self: len(self.busy) < self.count)
    @rule(choice=st.integers(0, 2), mechanism=st.sampled_from(POOL), some=st.integers(0, 5))
    def activate_and_maybe_arrive(self, choice: int, mechanism: SumMechanism, some: int) -> None:
        self.activate(choice, mechanism)
        if some and self.room() > 0:
            self.arrive(some)

    def activate(self, choice: int, mechanism: SumMechanism) -> None:
        idle = [shuffler for shuffler in range(self.count) if shuffler not in self.busy]
        shuffler = idle[choice % len(idle)]
        beside = [batch.mechanism for batch in self.busy.values()]
        if self.account == "sums" and cost([*beside, mechanism]) > 1.0:
            # Whether a full one that waits still counts is tested apart.
            if not self.waiting():
                self.refused(lambda: self.shufflers.activate(shuffler, mechanism), BudgetExceeded)
            return
        assert self.shufflers.activate(shuffler, mechanism) == self.batches
        self.busy[shuffler] = NaiveBatch(self.batches, mechanism)
        self.batches += 1

    @precondition(lambda self: self.room() > 0)
    @rule(some=st.integers(1, 5))
    def users_arrive(self, some: int) -> None:
        self.arrive(some)

    def arrive(self, some: int) -> None:
        users = min(some, self.room())
        active = list(self.busy.values())
        together = [batch.mechanism for batch in active]
        if cost(together) > 1.0:
            self.refused(lambda: self.shufflers.arrive(users), BudgetExceeded)
            return
        self.shufflers.arrive(users)
        for _ in range(users):
            for batch in active:
                batch.users.append(len(self.histories))
            self.histories.append(together)

    @precondition(waiting)
    @rule(decoded=st.integers(-5, 50), latest=st.booleans())
    def release(self, decoded: int, latest: bool) -> None:
        shuffler = [shuffler for shuffler, batch in self.busy.items() if batch.full][-1 if latest else 0]
        batch = self.busy.pop(shuffler)
        release = self.shufflers.release(batch.number, decoded)
        assert (release.mechanism, release.decoded) == (batch.mechanism, decoded)
        assert shuffler in self.shufflers.idle

    @precondition(lambda self: self.busy)
    @rule(choice=st.integers(0, 2))
    def abandon(self, choice: int) -> None:
        shuffler = sorted(self.busy)[choice % len(self.busy)]
        self.shufflers.abandon(self.busy.pop(shuffler).number)

    @rule(mechanism=st.sampled_from(POOL), extra=st.integers(1, 3))
    def do_what_cannot_be_done(self, mechanism: SumMechanism, extra: int) -> None:
        wrong = [-1, self.count, *self.busy]
        for shuffler in wrong:
            self.refused(lambda shuffler=shuffler: self.shufflers.activate(shuffler, mechanism), InvalidParameter)
        self.refused(lambda: self.shufflers.arrive(0), InvalidParameter)
        if self.busy:
            self.refused(lambda: self.shufflers.arrive(self.room() + extra), InvalidParameter)
        filling = [batch.number for batch in self.busy.values() if not batch.full]
        for number in [-1, self.batches, *filling]:
            self.refused(lambda number=number: self.shufflers.release(number, 1), InvalidParameter)
        self.refused(lambda: self.shufflers.abandon(self.batches), InvalidParameter)

    @invariant()
    def shows_what_the_naive_one_holds(self) -> None:
        shufflers = self.shufflers
        assert shufflers.users == len(self.histories)
        assert shufflers.idle == [s for s in range(self.count) if s not in self.busy]
        held = {s: (b.number, b.mechanism, b.mechanism.users - len(b.users)) for s, b in self.busy.items()}
        assert {b.shuffler: (b.number, b.mechanism, b.missing) for b in shufflers.active.values()} == held
        in_order = sorted(self.busy)
        assert [b.number for b in shufflers.full] == [self.busy[s].number for s in in_order if self.busy[s].full]
        assert [b.number for b in shufflers.open] == [self.busy[s].number for s in in_order if not self.busy[s].full]
        assert shufflers.room == min((missing for _, _, missing in held.values()), default=None)

    @invariant()
    def no_batch_holds_more_than_it_wants(self) -> None:
        assert all(len(batch.users) <= batch.mechanism.users for batch in self.busy.values())

    @invariant()
    def every_user_is_within_the_budget_by_naive_summation(self) -> None:
        totals = [cost(history) for history in self.histories]
        assert all(total <= 1.0 for total in totals)
        if max(totals, default=0.0) > 0.0:
            stated = self.shufflers.privacy
            assert stated.epsilon >= max(totals)
            assert stated.epsilon == (max(totals) if self.account == "exact" else 1.0)
            assert stated.delta == 0.0


def cost(mechanisms: list[SumMechanism]) -> float:
    return sum(mechanism.guarantee.epsilon for mechanism in mechanisms)


class AdaptiveShufflersAgainstNaive(ShufflersAgainstNaive):
    account = "sums"


# A failing run is shown as it was found: shrinking it would take minutes.
MANY = settings(
    derandomize=True, deadline=None, max_examples=40, stateful_step_count=30, phases=(Phase.explicit, Phase.generate)
)
TestFixed = ShufflersAgainstNaive.TestCase
TestFixed.settings = MANY
TestAdaptive = AdaptiveShufflersAgainstNaive.TestCase
TestAdaptive.settings = MANY


def fresh(**options: object) -> ConcurrentShufflers:
    return ConcurrentShufflers(2, **{"epsilon": 1.0, "delta": 0.0} | options)  # type: ignore[arg-type]


def test_a_full_batch_that_waits_does_not_count_against_the_next_one() -> None:
    """No further user can enter it, so an adaptive server may open another one at full cost."""
    shufflers = fresh(account="sums")
    first = shufflers.activate(0, POOL[5])
    shufflers.arrive(2)
    shufflers.activate(1, POOL[5])
    with pytest.raises(InvalidParameter, match="users = 1"):
        shufflers.arrive(1)
    shufflers.release(first, 1)
    shufflers.arrive(2)


def test_a_refused_mechanism_leaves_no_trace() -> None:
    shufflers = fresh(account="sums")
    with pytest.raises(BudgetExceeded):
        shufflers.activate(0, POOL[6])
    assert shufflers.mechanisms == []
    assert shufflers.activate(0, POOL[2]) == 0


@pytest.mark.parametrize("order", [(0.25, 1.0), (1.0, 0.25)])
def test_what_is_stated_holds_for_the_user_who_paid_most(order: tuple[float, float]) -> None:
    """With pure noise every δ at the budget's ε is zero: the largest must be found by ε."""
    shufflers = ConcurrentShufflers(1, epsilon=1.0, delta=0.0)
    for number, epsilon in enumerate(order):
        shufflers.activate(0, laplace(epsilon=epsilon, binary=True).plan(2))
        shufflers.arrive(2)
        shufflers.release(number, 1)
    assert shufflers.privacy.epsilon == 1.0
    assert shufflers.loss().epsilon(0.0) == 1.0


def test_what_is_stated_holds_at_the_budgets_delta_where_loss_curves_cross() -> None:
    """One mechanism has more δ at the budget's ε, another more ε at its δ; the statement is about the latter."""
    budget, delta = 1.2, 1e-5
    pure, bits = laplace(epsilon=1.0, binary=True).plan(10), shuffled_bits(epsilon=0.9, delta=delta).plan(10)
    assert pure.loss.epsilon(delta) > bits.loss.epsilon(delta)
    assert pure.loss.delta(budget) < bits.loss.delta(budget)
    shufflers = ConcurrentShufflers(1, epsilon=budget, delta=delta)
    for number, mechanism in enumerate((pure, bits)):
        shufflers.activate(0, mechanism)
        shufflers.arrive(mechanism.users)
        shufflers.release(number, 1)
    assert shufflers.privacy.epsilon == pure.loss.epsilon(delta)


def bits_of_published(mechanism: SumMechanism) -> int:
    return mechanism.noise.trials  # type: ignore[attr-defined, no-any-return]


def composed_delta(trials: list[int], epsilon: float) -> float:
    """δ(ε) of releases with fair binomial noise at sensitivity one, by the sum over all joint outcomes."""
    here, there = np.ones(1), np.ones(1)
    for n in trials:
        law = np.exp([math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]) / 2.0**n
        here = np.multiply.outer(here, np.append(law, 0.0)).ravel()
        there = np.multiply.outer(there, np.append(0.0, law)).ravel()
    return float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum())


def small_bits(users: int, bits: int) -> SumMechanism:
    """Fair bits, so many a user, whose stated guarantee is their exact one."""
    plan = shuffled_bits(epsilon=0.9, delta=0.5, constants="published").plan(users)
    share = type(plan.share)(bits, 0.5)  # type: ignore[call-arg]
    delta = composed_delta([users * bits], 0.5) * (1 + 1e-6)
    return replace(plan, share=share, guarantee=replace(plan.guarantee, epsilon=0.5, delta=delta))


BOTH = small_bits(4, 10), small_bits(10, 6)


def take_part_in_both(shufflers: ConcurrentShufflers) -> None:
    for number, mechanism in enumerate(BOTH):
        shufflers.activate(number, mechanism)
    shufflers.arrive(1)


@pytest.mark.parametrize("account", ["exact", "sums"])
def test_an_exact_account_charges_the_composition_and_sums_charge_the_sum(account: str) -> None:
    exact, added = composed_delta([40, 60], 1.0), sum(mechanism.guarantee.delta for mechanism in BOTH)
    assert exact < 0.7 * added
    needed = {"exact": exact, "sums": added}[account]
    # Composed numerically ε is right to 4e-3, in which δ moves by less than five percent here.
    enough = fresh(delta=1.05 * needed, account=account)
    take_part_in_both(enough)
    assert enough.privacy.epsilon <= 1.0
    little = fresh(delta=0.99 * needed, account=account)
    with pytest.raises(BudgetExceeded):
        take_part_in_both(little)
    assert little.users == 0


def test_concentrated_sums_are_used_when_asked_for() -> None:
    level = discrete_gaussian(epsilon=0.2).plan(40)

    def four(**options: object) -> ConcurrentShufflers:
        shufflers = ConcurrentShufflers(4, epsilon=2.2, account="sums", **options)  # type: ignore[arg-type]
        for number in range(4):
            shufflers.activate(number, level)
        return shufflers

    assert len(four(delta=1e-6, method="concentrated").open) == 4
    with pytest.raises(BudgetExceeded):
        four(delta=4e-6)


def test_the_same_mechanism_twice_is_charged_twice() -> None:
    shufflers = fresh()
    shufflers.activate(0, POOL[4])
    shufflers.activate(1, POOL[4])
    with pytest.raises(BudgetExceeded, match="2 mechanisms at once"):
        shufflers.arrive(1)
    assert shufflers.users == 0
    assert [batch.missing for batch in shufflers.open] == [5, 5]


def test_users_of_an_abandoned_batch_have_paid() -> None:
    shufflers = fresh()
    number = shufflers.activate(0, POOL[4])
    shufflers.arrive(2)
    shufflers.abandon(number)
    assert shufflers.loss().pure == 0.75
    assert shufflers.idle == [0, 1]


def test_nobody_has_a_loss_before_the_first_user() -> None:
    shufflers = fresh()
    shufflers.activate(0, POOL[0])
    with pytest.raises(InvalidParameter, match="users = 0"):
        shufflers.loss()


BAD = [
    (lambda: ConcurrentShufflers(0, epsilon=1.0, delta=0.0), "shufflers = 0", ">= 1"),
    (lambda: ConcurrentShufflers(1.5, epsilon=1.0, delta=0.0), "shufflers = 1.5", "whole number"),  # type: ignore[arg-type]
    (lambda: fresh(epsilon=0), "epsilon = 0", "> 0"),
    (lambda: fresh(delta=1.0), "delta = 1.0", r"\[0, 1\)"),
    (lambda: fresh(account="free"), "account = 'free'", "exact, sums"),
    (lambda: fresh(account="sums", method="best"), "method = 'best'", "basic"),
    (lambda: fresh(account="sums", method="concentrated"), "delta = 0.0", "concentrated"),
    (lambda: fresh().activate(2, POOL[0]), "shuffler = 2", r"\[0, 1\]"),
    (lambda: fresh().activate(0, "laplace"), "mechanism = 'laplace'", "a planned mechanism"),
    (lambda: fresh().activate(0, laplace(epsilon=1.0)), "mechanism = ", "a planned mechanism"),
    (lambda: fresh().arrive(0), "users = 0", ">= 1"),
    (lambda: fresh().release(0, 1), "batch = 0", "an active one"),
    (lambda: fresh().abandon(0), "batch = 0", "an active one"),
]


@pytest.mark.parametrize(("make", "found", "allowed"), BAD, ids=[found for _, found, _ in BAD])
def test_bad_input_is_refused_by_name(make, found: str, allowed: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter, match=f"{found}.*{allowed}"):
        make()


@pytest.mark.parametrize("decoded", ["three", 2.5, None, True, (3,), (1, 2)])
def test_what_no_view_decodes_to_is_refused_and_the_batch_waits_on(decoded: object) -> None:
    shufflers = fresh()
    number = shufflers.activate(0, POOL[2])
    shufflers.arrive(2)
    with pytest.raises(InvalidParameter, match="decoded"):
        shufflers.release(number, decoded)  # type: ignore[arg-type]
    assert [batch.number for batch in shufflers.full] == [number]
    assert shufflers.release(number, 2).sum == 2.0


def test_a_batch_with_users_missing_is_not_released() -> None:
    shufflers = fresh()
    number = shufflers.activate(0, POOL[3])
    shufflers.arrive(3)
    with pytest.raises(InvalidParameter, match="1 users are missing"):
        shufflers.release(number, 3)
    shufflers.arrive(1)
    shufflers.release(number, 3)


def test_a_busy_shuffler_is_refused_with_the_idle_ones_named() -> None:
    shufflers = fresh()
    shufflers.activate(0, POOL[0])
    with pytest.raises(InvalidParameter, match=r"shuffler = 0 .* an idle one: \[1\]"):
        shufflers.activate(0, POOL[0])


def test_an_adaptive_user_pays_no_more_than_a_fixed_one_would_state() -> None:
    """Sums are never below the exact composition, so the adaptive budget covers the exact loss too."""
    level = shuffled_bits(epsilon=0.3, delta=1e-7).plan(30)
    shufflers = ConcurrentShufflers(3, epsilon=0.9, delta=3e-7, account="sums")
    for number in range(3):
        shufflers.activate(number, level)
    shufflers.arrive(30)
    assert shufflers.loss().delta(0.9) <= 3e-7
    assert shufflers.privacy.epsilon == 0.9
