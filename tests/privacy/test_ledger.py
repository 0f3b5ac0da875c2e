"""One user's account: what it adds up, what it refuses, and that it can be put away and taken up again."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from croupier.checks import InvalidParameter
from croupier.noise import Binomial, DiscreteGaussian, DiscreteLaplace, Skellam
from croupier.privacy import (
    BudgetExceeded,
    Charge,
    Guarantee,
    Ledger,
    Loss,
    concentrated_to_approximate,
    privacy_loss,
    renyi_to_approximate,
)
from croupier.protocols import discrete_gaussian, skellam

TENTH = privacy_loss(DiscreteLaplace(10))
GAUSSIAN = privacy_loss(DiscreteGaussian(100))
LEDGERS = {
    "basic": lambda: Ledger(1.0, 1e-5),
    "concentrated": lambda: Ledger(1.0, 1e-5, "concentrated"),
    "renyi": lambda: Ledger(1.0, 1e-5, "renyi", order=24),
}


@pytest.mark.parametrize("parts", [1, 3, 7, 10, 49, 1000])
def test_equal_parts_fill_a_budget_exactly(parts):
    ledger, part = Ledger(1.0), privacy_loss(DiscreteLaplace(parts))
    for batch in range(parts):
        ledger.charge(part, f"batch {batch}")
    assert ledger.left == pytest.approx(0.0, abs=1e-12)
    assert ledger.spent == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(BudgetExceeded, match="one more"):
        ledger.charge(part, "one more")
    assert len(ledger.charges) == parts


@pytest.mark.parametrize("parts", [1, 3, 20])
def test_equal_parts_of_concentrated_privacy_fill_a_budget(parts):
    ledger = Ledger(1.0, 1e-6, "concentrated")
    part = privacy_loss(DiscreteGaussian(parts / (2 * ledger.budget) * (1 + 1e-9)))
    for batch in range(parts):
        ledger.charge(part, f"batch {batch}")
    with pytest.raises(BudgetExceeded):
        ledger.charge(part, "one more")


@pytest.mark.parametrize("build", LEDGERS.values(), ids=LEDGERS)
def test_a_refused_report_is_not_charged_and_a_smaller_one_still_fits(build):
    ledger = build()
    delta = 1e-6 if ledger.method == "basic" else 0.0
    ledger.charge(GAUSSIAN, "first", delta=delta)
    before = ledger.to_json()
    with pytest.raises(BudgetExceeded, match="second costs"):
        ledger.charge(1000 * GAUSSIAN, "second", delta=delta)
    assert ledger.to_json() == before
    ledger.charge(GAUSSIAN, "third", delta=delta)
    assert [charge.what for charge in ledger.charges] == ["first", "third"]
    assert ledger.left == ledger.budget - ledger.spent


def test_basic_sums_add_both_epsilon_and_delta():
    ledger = Ledger(2.0, 1e-6)
    loss = privacy_loss(Binomial(268, 0.5))
    ledger.charge(loss, "first", delta=5e-7)
    assert ledger.charges == [Charge("first", loss.epsilon(5e-7), 5e-7)]
    with pytest.raises(BudgetExceeded, match="δ"):
        ledger.charge(loss, "second", delta=6e-7)
    ledger.charge(loss, "third", delta=5e-7)
    assert ledger.spent == pytest.approx(2 * loss.epsilon(5e-7), rel=1e-15)


def test_many_equal_parts_of_delta_fill_it():
    ledger, loss = Ledger(10.0, 1e-6), privacy_loss(Skellam(400))
    for batch in range(10):
        ledger.charge(loss, f"batch {batch}", delta=1e-7)
    with pytest.raises(BudgetExceeded, match="δ"):
        ledger.charge(loss, "one more", delta=1e-9)


@pytest.mark.parametrize("method", ["concentrated", "renyi"])
def test_noise_without_the_notion_is_refused(method):
    ledger = LEDGERS[method]()
    for loss in (privacy_loss(Binomial(10**4, 0.5)), replace(GAUSSIAN, distance=1e-12)):
        with pytest.raises(BudgetExceeded, match="inf"):
            ledger.charge(loss, "bits")
    assert ledger.charges == []


def test_noise_that_is_never_pure_is_refused_without_delta():
    with pytest.raises(BudgetExceeded, match="inf"):
        Ledger(1.0, 1e-6).charge(GAUSSIAN, "gaussian")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_the_full_budget_converts_back_to_what_was_promised(epsilon, delta):
    concentrated = Ledger(epsilon, delta, "concentrated").budget
    assert concentrated_to_approximate(concentrated, delta) <= epsilon
    assert concentrated_to_approximate(concentrated * (1 + 1e-6), delta) > epsilon
    order = 512
    renyi = Ledger(epsilon, delta, "renyi", order=order).budget
    known = {order: renyi}
    assert renyi_to_approximate(lambda a: known.get(a, math.inf), delta)[0] == pytest.approx(epsilon, rel=1e-12)


def test_each_method_adds_in_its_own_unit():
    assert LEDGERS["basic"]().cost(GAUSSIAN, 1e-6) == GAUSSIAN.epsilon(1e-6)
    assert LEDGERS["concentrated"]().cost(GAUSSIAN) == GAUSSIAN.zcdp
    assert LEDGERS["renyi"]().cost(GAUSSIAN) == GAUSSIAN.rdp(24)
    # Concentrated sums outlast basic ones: that is what they are for.
    counts = {}
    for name, build in LEDGERS.items():
        ledger = build()
        while len(ledger.charges) < 100:
            try:
                ledger.charge(GAUSSIAN, "batch", delta=1e-6 if name == "basic" else 0.0)
            except BudgetExceeded:
                break
        counts[name] = len(ledger.charges)
    assert counts["basic"] < counts["renyi"] <= counts["concentrated"] + 1


@pytest.mark.parametrize("build", LEDGERS.values(), ids=LEDGERS)
def test_a_ledger_survives_being_written_down(build):
    ledger = build()
    ledger.charge(GAUSSIAN, "λ, first", delta=1e-6 if ledger.method == "basic" else 0.0)
    again = Ledger.from_json(ledger.to_json())
    assert again == ledger
    assert (again.spent, again.left, again.budget) == (ledger.spent, ledger.left, ledger.budget)
    assert json.loads(ledger.to_json())["version"] == 1


def test_a_ledger_of_another_version_is_not_read():
    with pytest.raises(InvalidParameter, match="version"):
        Ledger.from_json(json.dumps(json.loads(Ledger(1.0).to_json()) | {"version": 2}))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 1, "delta": 1}, "delta"),
        ({"epsilon": 1, "method": "advanced"}, "method"),
        ({"epsilon": 1, "method": "concentrated"}, "delta"),
        ({"epsilon": 1, "delta": 1e-6, "method": "renyi"}, "order"),
        ({"epsilon": 1, "delta": 1e-6, "method": "renyi", "order": 1}, "order"),
        ({"epsilon": 0.1, "delta": 1e-6, "method": "renyi", "order": 2}, "order"),
    ],
)
def test_a_budget_that_means_nothing_is_refused_by_name(arguments, name):
    with pytest.raises(InvalidParameter) as refusal:
        Ledger(**arguments)
    assert refusal.value.name == name


def test_a_charge_at_an_impossible_delta_is_refused():
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(InvalidParameter, match="delta"):
        ledger.charge(TENTH, "batch", delta=-1e-9)
    assert ledger.charges == []


def test_a_promise_for_several_batches_is_charged_once_and_its_batches_are_counted():
    """What was charged pays for all of them; a restart in between forgets nothing, and one more is refused."""
    ledger = Ledger(1.0, 1e-6)
    promise = Guarantee("approximate", 0.6, 5e-7, unit="user", participations=3)
    for left in (2, 1, 0):
        ledger.take_part(promise, "ads")
        assert ledger.charges == [Charge("ads", 0.6, 5e-7, left, promise)]
        ledger = Ledger.from_json(ledger.to_json())
    with pytest.raises(BudgetExceeded, match="^ads promises for 3 batches, and this user took part in all of them"):
        ledger.take_part(promise, "ads")
    with pytest.raises(BudgetExceeded, match="^others costs ε = 0.6, and only 0.4 of 1 is left"):
        ledger.take_part(promise, "others")
    assert ledger.spent == 0.6


@pytest.mark.parametrize("row", [skellam, discrete_gaussian])
def test_batches_of_other_sizes_are_charged_what_they_cost_together(row):
    """The (ε, δ) of a Rényi or concentrated promise was composed of batches of one size."""
    asked = row(epsilon=0.9, participations=2, scaling=1.0)
    few, many = asked.plan(32), asked.plan(10_000)
    total = Loss.total([few.loss, many.loss])
    for first, second in ((few, many), (many, few)):
        ledger = Ledger(10.0, 1e-6)
        ledger.take_part(first.guarantee, "ads")
        ledger = Ledger.from_json(ledger.to_json())
        ledger.take_part(second.guarantee, "ads")
        assert total.epsilon(1e-6) <= ledger.spent <= 1.2 * total.epsilon(1e-6)
        with pytest.raises(BudgetExceeded, match="took part in all of them"):
            ledger.take_part(second.guarantee, "ads")
    exact = Ledger(few.guarantee.epsilon, 1e-6)
    exact.take_part(few.guarantee, "ads")
    with pytest.raises(BudgetExceeded, match="^ads costs ε = "):
        exact.take_part(many.guarantee, "ads")
    exact.take_part(few.guarantee, "ads")
    assert exact.spent == few.guarantee.epsilon


@pytest.mark.parametrize("change", [{"epsilon": 0.7}, {"delta": 1e-7}, {"participations": 2}])
def test_a_later_promise_that_does_not_add_up_with_the_first_is_refused(change):
    ledger, promise = Ledger(5.0, 1e-5), Guarantee("approximate", 0.6, 5e-7, unit="user", participations=3)
    ledger.take_part(promise, "ads")
    before = ledger.to_json()
    with pytest.raises(BudgetExceeded, match="^ads promises .* and what was paid for is "):
        ledger.take_part(replace(promise, **change), "ads")
    assert ledger.to_json() == before


def test_only_sums_of_epsilon_take_a_promise():
    with pytest.raises(InvalidParameter, match="^method = 'concentrated' .* basic"):
        Ledger(1.0, 1e-6, "concentrated").take_part(Guarantee("pure", 0.5), "ads")
    with pytest.raises(InvalidParameter, match="^unit = 'report' "):
        Guarantee("pure", 0.5, participations=2)
