"""The device's account: atomic, locked, renewed, and never more generous than its limits."""

import dataclasses
import hashlib
import json
import math
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from cases.client import Server, both_signed, configuration
from croupier.checks import CroupierError, InvalidParameter
from croupier.client import BadSignature, Limits
from croupier.client.account import Account, NotKept, Pending, Seen, Spent, Taken, write_atomically
from croupier.messages.admission import Admission
from croupier.messages.configuration import BrokenPromise
from croupier.privacy import BudgetExceeded
from croupier.protocols import counted_messages

ANALYZER, FRONT = Server.make(), Server.make()
COLOURS = "https://analyzer.test/experiments/colours"
DAY = 86_400


def taken(name="r1", experiment=COLOURS):
    return Taken(name, experiment, 50.0, 100.0, "{}")


def pending(name="r1", experiment=COLOURS):
    return Pending(experiment, "https://front.test/x", name, "Ym9keQ", 100.0)


def batches(*numbers, pin="", experiment=COLOURS):
    """Batches of an experiment, each with a hash of its own."""
    return {number: hashlib.sha256(f"{experiment} {number} {pin}".encode()).digest() for number in numbers}


def join(account, found, address=COLOURS, pinned=None):
    account.trust(address, found, both_signed(found.statement(), ANALYZER, FRONT), pinned)


def lasting(period, **changes):
    """A configuration whose period has so many seconds."""
    found = configuration(ANALYZER, FRONT)
    return configuration(ANALYZER, FRONT, privacy=dataclasses.replace(found.privacy, period=period), **changes)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_a_charge_and_its_turn_are_on_disk_together_and_its_report_takes_its_place(tmp_path):
    path = tmp_path / "account.json"
    account = Account(path, Limits())
    account.charge(1.0, 1e-9, taken(), seen=Seen(1, "green"))
    account.close()
    again = Account(path, Limits())
    assert again.ledger.spent == 1.0
    assert again.taken == {"r1": taken()}
    assert again.seen == {COLOURS: Seen(1, "green")}
    assert again.record("r1", 0.5)
    assert again.seal("r1", lambda found: dataclasses.replace(pending(), body=str(found.outcome[0]))).body == "0.5"
    assert not again.record("r1", 1.0)
    assert again.seal("r1", lambda _: pending("r2")) is None
    again.close()
    last = Account(path, Limits())
    assert last.taken == {}
    assert last.pending["r1"].body == "0.5"
    last.settle("r1")
    assert last.pending == {}
    assert last.ledger.spent == 1.0
    last.close()


def test_what_cannot_be_written_has_not_happened(tmp_path, monkeypatch):
    account = Account(tmp_path / "a.json", Limits())
    account.charge(1.0, 0.0, taken("r1"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    for change in (
        lambda: account.charge(1.0, 0.0, taken("r2")),
        lambda: account.record("r1", 1.0),
        lambda: account.seal("r1", lambda _: pending()),
        lambda: account.drop("r1"),
    ):
        with pytest.raises(NotKept, match="No space left"):
            change()
    assert account.taken == {"r1": taken()}
    assert (account.pending, account.ledger.spent) == ({}, 1.0)
    account.close()


def test_a_closed_account_changes_nothing_any_more(tmp_path):
    path = tmp_path / "a.json"
    account = Account(path, Limits())
    account.charge(1.0, 0.0, taken())
    account.close()
    other = Account(path, Limits())
    with pytest.raises(NotKept, match="closed"):
        account.drop("r1")
    assert other.taken == account.taken == {"r1": taken()}
    other.close()


def test_only_the_owner_reads_the_account(tmp_path):
    path = tmp_path / "account.json"
    account = Account(path, Limits())
    account.charge(1.0, 1e-9, taken())
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    account.close()


def test_a_spent_budget_refuses_and_charges_nothing(tmp_path):
    account = Account(tmp_path / "a.json", Limits(epsilon_per_period=2.5))
    account.charge(1.0, 1e-9, taken("r1"))
    account.charge(1.0, 1e-9, taken("r2"))
    with pytest.raises(BudgetExceeded):
        account.charge(1.0, 1e-9, taken("r3"))
    assert account.ledger.spent == 2.0
    assert set(account.taken) == {"r1", "r2"}
    assert account.left == 0.5
    account.close()


def test_the_ledger_renews_when_the_period_since_its_first_charge_is_over():
    clock = Clock()
    account = Account(None, Limits(epsilon_per_period=1.0, shortest_period=1), clock=clock, period=60)
    account.charge(1.0, 0.0, taken())
    clock.now += 59.9
    assert account.left == 0.0
    with pytest.raises(BudgetExceeded):
        account.charge(1.0, 0.0, taken())
    clock.now += 0.1
    assert account.left == 1.0
    account.charge(1.0, 0.0, taken())
    clock.now += 59.9
    assert account.left == 0.0


def test_no_experiment_can_make_the_ledger_renew_sooner_than_the_device_wants():
    clock = Clock()
    account = Account(None, Limits(epsilon_per_period=1.0, shortest_period=3600), clock=clock)
    join(account, lasting(1))
    account.charge(1.0, 0.0, taken())
    clock.now += 3599.0
    assert account.left == 0.0
    clock.now += 1.0
    assert account.left == 1.0


def test_the_period_is_the_longest_of_the_experiments_joined():
    account = Account(None, Limits(shortest_period=1))
    for period in (60, 3600, 600):
        join(account, lasting(period, experiment=f"e{period}"), f"https://analyzer.test/experiments/e{period}")
    assert account.period == 3600


def test_tighter_limits_later_do_not_forget_what_was_spent(tmp_path):
    path = tmp_path / "a.json"
    account = Account(path, Limits(epsilon_per_period=4.0))
    account.charge(3.0, 0.0, taken())
    account.close()
    tight = Account(path, Limits(epsilon_per_period=3.5))
    assert tight.left == 0.5
    tight.close()


def test_an_account_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path):
    path = tmp_path / "a.json"
    kept = {"version": 3, "period": 1, "turns": [], "trusted": {}, "taken": [], "pending": [], "seen": {}}
    turn = {"experiment": "x", "epsilon": 1.0, "delta": 0.0, "batches": {}, "at": 1.0, "noticed": None}
    odd = [{"at": math.nan}, {"at": None}, {"epsilon": -1.0}, {"delta": math.nan}, {"batches": []}, {"more": 1}]
    texts = [json.dumps(kept | {"turns": [turn | one]}) for one in odd]
    for text in (*texts, "", "{", "[]", "{}", '{"version": 3}', json.dumps(kept | {"version": 2})):
        path.write_text(text)
        with pytest.raises(InvalidParameter, match="a readable account"):
            Account(path, Limits())


def test_two_processes_cannot_spend_one_account(tmp_path):
    account = Account(tmp_path / "a.json", Limits())
    with pytest.raises(CroupierError, match="in use by another process"):
        Account(tmp_path / "a.json", Limits())
    account.close()
    Account(tmp_path / "a.json", Limits()).close()


def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_atomically(path, b"old")

    def crash(*_):
        raise OSError("no more power")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(OSError, match="no more power"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_other_keys_than_the_first_seen_are_refused():
    account = Account(None, Limits())
    join(account, configuration(ANALYZER, FRONT))
    imposter = Server.make()
    forged = configuration(ANALYZER, imposter)
    with pytest.raises(BadSignature, match="other keys than this device trusts"):
        account.trust(COLOURS, forged, both_signed(forged.statement(), ANALYZER, imposter), None)


def test_other_keys_than_the_pinned_are_refused_at_first_sight():
    account = Account(None, Limits())
    found = configuration(ANALYZER, FRONT)
    with pytest.raises(BadSignature, match="other keys than this device trusts"):
        join(account, found, pinned={"analyzer": ANALYZER.public.verify, "front": bytes(32)})
    join(account, found, pinned=found.verify_keys)


def test_an_experiment_of_the_same_name_elsewhere_is_another_one():
    account = Account(None, Limits())
    join(account, configuration(ANALYZER, FRONT, revision=5))
    other = Server.make()
    elsewhere = configuration(other, FRONT)
    account.trust(
        "https://other.test/experiments/colours", elsewhere, both_signed(elsewhere.statement(), other, FRONT), None
    )
    assert [one.revision for one in account.trusted.values()] == [5, 0]


def test_a_stale_revision_is_refused():
    account = Account(None, Limits())
    for revision in (0, 2, 1):
        join(account, configuration(ANALYZER, FRONT, revision=revision))
    with pytest.raises(BadSignature, match="revision 0 is stale: 2 has been seen"):
        join(account, configuration(ANALYZER, FRONT, revision=0))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: {"privacy": dataclasses.replace(found.privacy, epsilon=2.0)}, "epsilon was 1.0, and is 2.0"),
        (lambda found: {"privacy": dataclasses.replace(found.privacy, epsilon=0.5)}, "epsilon was 1.0, and is 0.5"),
        (lambda found: {"privacy": dataclasses.replace(found.privacy, delta=1e-5)}, "privacy.delta"),
        (lambda found: {"privacy": dataclasses.replace(found.privacy, honest_fraction=0.8)}, "honest_fraction"),
        (lambda found: {"privacy": dataclasses.replace(found.privacy, unit="a day of a device")}, "privacy.unit"),
        (lambda found: {"privacy": dataclasses.replace(found.privacy, period=60)}, "privacy.period"),
        (lambda found: {"recipe": found.recipe | {"smallest": 39}}, "recipe.smallest was 40, and is 39"),
        (lambda found: {"recipe": found.recipe | {"values": {"low": 0, "high": 2}}}, "recipe.values"),
        (lambda found: {"program": {"kind": "counter"}}, "program.kind was 'bandit', and is 'counter'"),
        (lambda found: {"admission": Admission("tickets", bytes(32))}, "admission"),
    ],
)
def test_a_later_revision_with_another_promise_is_refused_and_says_what_changed(change, said, tmp_path):
    path = tmp_path / "account.json"
    account = Account(path, Limits())
    found = configuration(ANALYZER, FRONT)
    join(account, found)
    account.close()
    again = Account(path, Limits())
    kept = dict(again.trusted)
    with pytest.raises(BrokenPromise, match=said):
        join(again, configuration(ANALYZER, FRONT, revision=1, **change(found)))
    assert again.trusted == kept
    # Titles, arms, sealing keys and addresses may change.
    renewed = Server(ANALYZER.sign, Server.make().seal)
    changed = {"title": "What colour?", "arms": ("red", "green", "blue"), "revision": 1}
    changed["keys"] = {"analyzer": renewed.public, "front": FRONT.public}
    join(again, configuration(ANALYZER, FRONT, **changed))
    again.close()


def test_turns_that_share_a_batch_cost_what_that_many_steps_from_neighbour_to_neighbour_cost():
    """And that is no less than what the noise of the batch gives, summed directly."""
    mechanism = counted_messages(epsilon=1.0, delta=1e-6).plan(100)
    claim, rate = mechanism.guarantee, float(mechanism.share.rate) * mechanism.honest
    account = Account(None, Limits(epsilon_per_period=9.0, delta_per_period=0.1))
    counts = np.arange(400)
    for turns in range(1, 5):
        account.charge(claim.epsilon, claim.delta, taken(f"r{turns}"), batches(7))
        charged = math.fsum(charge.delta for charge in account.ledger.charges)
        assert charged == pytest.approx(claim.delta * sum(math.exp(step) for step in range(turns)))
        here, there = poisson.pmf(counts, rate), poisson.pmf(counts - turns, rate)
        exact = max(
            np.maximum(p - math.exp(turns * claim.epsilon) * q, 0.0).sum() for p, q in ((here, there), (there, here))
        )
        assert exact <= charged
    # Plain addition would not have been enough.
    assert exact > 3 * turns * claim.delta


def test_turns_in_different_batches_or_experiments_add_up():
    account = Account(None, Limits(epsilon_per_period=9.0))
    for number, name in ((1, COLOURS), (2, COLOURS), (1, "https://analyzer.test/experiments/fruit")):
        account.charge(1.0, 1e-9, taken(f"{name} {number}", name), batches(number, experiment=name))
    assert [charge.delta for charge in account.ledger.charges] == [1e-9] * 3


def test_groups_of_turns_that_a_later_turn_joins_are_one_from_then_on():
    account = Account(None, Limits(epsilon_per_period=9.0))
    for number, some in enumerate(([1, 9], [2, 8], [1, 2], [9])):
        account.charge(1.0, 1e-9, taken(f"r{number}"), batches(*some))
    total = math.fsum(charge.delta for charge in account.ledger.charges)
    assert total == pytest.approx(1e-9 * sum(math.exp(step) for step in range(4)))


def test_one_batch_reached_at_two_addresses_is_still_one():
    account = Account(None, Limits(epsilon_per_period=9.0))
    for address in (COLOURS, "https://mirror.test/experiments/colours"):
        account.charge(1.0, 1e-9, taken(address, address), batches(1))
    assert [charge.delta for charge in account.ledger.charges] == pytest.approx([1e-9, math.e * 1e-9])


def test_shared_batches_are_remembered_on_disk_and_count_together_within_a_period(tmp_path):
    clock, path = Clock(), tmp_path / "account.json"
    account = Account(path, Limits(), clock)
    account.charge(1.0, 1e-9, taken("r1"), batches(3))
    account.close()
    again = Account(path, Limits(), clock)
    clock.now += DAY - 1
    again.charge(1.0, 1e-9, taken("r2"), batches(3))
    assert again.ledger.charges[1].delta == pytest.approx(math.e * 1e-9)
    clock.now += 1
    # The first turn counts no longer, so the second one is alone in its window.
    assert [charge.delta for charge in again.ledger.charges] == [1e-9]
    # A longer period counts both again.
    join(again, lasting(2 * DAY))
    assert math.fsum(charge.delta for charge in again.ledger.charges) == pytest.approx((1.0 + math.e) * 1e-9)
    again.close()


def test_a_turn_that_shares_a_batch_too_often_is_refused_before_it_is_played():
    account = Account(None, Limits(epsilon_per_period=100.0, delta_per_period=1e-6))
    account.charge(2.0, 1e-7, taken("r1"), batches(3))
    account.check(2.0, 1e-7, COLOURS, batches(3))
    account.charge(2.0, 1e-7, taken("r2"), batches(3))
    account.check(2.0, 1e-7, COLOURS, batches(4))
    with pytest.raises(BudgetExceeded, match="δ"):
        account.check(2.0, 1e-7, COLOURS, batches(3))


def test_a_batch_that_was_shared_too_often_to_compute_is_refused_and_costs_nothing_without_delta():
    account = Account(None, Limits(epsilon_per_period=1e6, delta_per_period=0.9))
    for number in range(3):
        account.charge(400.0, 0.0, taken(f"r{number}"), batches(3))
    with pytest.raises(BudgetExceeded, match="δ = inf"):
        account.charge(400.0, 1e-9, taken("r3"), batches(3))


def test_a_batch_that_was_reported_to_is_refused_under_another_pin(tmp_path):
    clock, path = Clock(), tmp_path / "account.json"
    account = Account(path, Limits(), clock)
    account.charge(1.0, 1e-9, taken(), batches(3, 4))
    account.close()
    clock.now += 100 * DAY
    again = Account(path, Limits(), clock)
    for attempt in (
        lambda: again.check(1.0, 1e-9, COLOURS, batches(4, pin="other")),
        lambda: again.charge(1.0, 1e-9, taken("r2"), batches(4, pin="other")),
    ):
        with pytest.raises(BrokenPromise, match="batch 4 of .*colours has another pin"):
            attempt()
    # Another analyzer's batch of the same number is another batch.
    again.check(1.0, 1e-9, "https://other.test/experiments/colours", batches(4, pin="other"))
    assert set(again.taken) == {"r1"}
    again.close()


def test_a_longer_period_that_is_joined_later_counts_what_was_spent_before():
    """29 days of four turns each, and then an experiment with a period of 30 days: these 116 turns are in it."""
    clock = Clock()
    account = Account(None, Limits(), clock)
    for _ in range(29):
        for _ in range(4):
            account.charge(1.0, 0.0, taken())
        clock.now += DAY
    assert account.left == 4.0
    join(account, lasting(30 * DAY))
    assert account.left == 0.0
    # Not before the turns of the last day are 30 days old.
    with pytest.raises(Spent) as refusal:
        account.charge(1.0, 0.0, taken())
    assert refusal.value.until == clock.now + 29 * DAY
    clock.now += 29 * DAY - 1
    with pytest.raises(Spent, match="there is enough in 1 s"):
        account.charge(1.0, 0.0, taken())
    clock.now += 1
    account.charge(1.0, 0.0, taken())


def test_turns_are_kept_as_long_as_any_period_that_may_be_joined_and_no_longer():
    clock = Clock()
    limits = Limits(longest_period=10 * DAY)
    account = Account(None, limits, clock)
    account.charge(1.0, 1e-9, taken("r1"), batches(1))
    clock.now += 10 * DAY - 1
    account.charge(1.0, 1e-9, taken("r2"), batches(2))
    assert len(account.turns) == 2
    clock.now += 1
    # What is forgotten is decided by the time of the turn before: one charge at a wrong time forgets nothing.
    account.charge(1.0, 1e-9, taken("r3"), batches(3))
    assert len(account.turns) == 3
    clock.now += 1
    account.charge(1.0, 1e-9, taken("r4"), batches(4))
    assert [list(turn.batches) for turn in account.turns] == [["2"], ["3"], ["4"]]


def test_a_refusal_says_when_there_is_enough_again_or_that_there_never_is():
    clock = Clock()
    account = Account(None, Limits(epsilon_per_period=3.0), clock)
    assert account.renews_at is None
    for number, at in enumerate((1000.0, 1010.0, 1020.0)):
        clock.now = at
        account.charge(1.0, 0.0, taken(f"r{number}"))
    assert account.renews_at == 1000.0 + DAY
    for cost, until in ((1.0, 1000.0), (2.0, 1010.0), (3.0, 1020.0)):
        with pytest.raises(Spent) as refusal:
            account.check(cost, 0.0, COLOURS)
        assert refusal.value.until == until + DAY
    with pytest.raises(Spent, match="never") as refusal:
        account.check(3.5, 0.0, COLOURS)
    assert refusal.value.until is None


def test_a_clock_that_was_ahead_does_not_lock_the_ledger():
    clock = Clock()
    account = Account(None, Limits(), clock)
    clock.now = 1e9
    account.charge(4.0, 0.0, taken())
    clock.now = 1000.0
    assert account.left == 0.0
    clock.now += DAY - 1
    assert account.left == 0.0
    clock.now += 1
    assert account.left == 4.0


def test_a_clock_that_starts_in_the_past_does_not_make_the_ledger_forget(tmp_path):
    """A device without a battery for its clock is in 1970 until the network tells it the time."""
    clock, path = Clock(), tmp_path / "account.json"
    clock.now = 1e9
    account = Account(path, Limits(), clock)
    account.charge(3.0, 0.0, taken("r1"))
    clock.now = 0.0
    account.charge(1.0, 0.0, taken("r2"))
    assert account.left == 0.0
    account.close()
    again = Account(path, Limits(), clock)
    assert again.left == 0.0
    clock.now = 1e9 + 60.0
    assert again.left == 1.0
    again.close()


CHARGE = st.tuples(st.just("charge"), st.sampled_from([0.25, 0.5, 1.0]), st.lists(st.integers(0, 2), max_size=2))
WAIT = st.tuples(st.just("wait"), st.integers(0, 9))
RARE = st.tuples(st.sampled_from(["join", "back"]), st.integers(1, 40))
HISTORY = st.lists(st.one_of(CHARGE, CHARGE, WAIT, WAIT, RARE), min_size=15, max_size=50)


def cost(turns):
    """What turns cost together, by a search for those that share batches: (Σε, Σδ)."""
    left, epsilon, delta = list(turns), 0.0, 0.0
    while left:
        group = [left.pop()]
        for one in group:
            near = [other for other in left if {*one[2]} & {*other[2]}]
            group += near
            left = [other for other in left if other not in near]
        epsilon += sum(one[1] for one in group)
        # Steps of the same ε; with several the dearest stands for all.
        delta += sum(1e-6 * math.exp(max(one[1] for one in group) * step) for step in range(len(group)))
    return epsilon, delta


@pytest.mark.slow
@pytest.mark.parametrize("examples", [70, pytest.param(200, marks=pytest.mark.evidence)])
def test_every_window_holds_the_budget_at_most_once_from_the_first_turn_under_its_period(examples):
    """In true time: a clock that is set back never makes the device spend more."""
    settings(derandomize=True, deadline=None, max_examples=examples)(given(history=HISTORY)(check_every_window))()


def check_every_window(history):
    limits = Limits(shortest_period=5, longest_period=40, epsilon_per_period=2.0, delta_per_period=4e-6)
    now, wrong, paid, periods = 1000, 0, [], []
    account = Account(None, limits, lambda: float(now - wrong))
    for number, (what, value, *some) in enumerate(history):
        if what == "wait":
            now += value
        elif what == "back":
            wrong += value
        elif what == "join":
            join(account, lasting(value, experiment=f"e{number}"), f"https://a.test/experiments/e{number}")
        else:
            before = account.left
            # One promise a batch: turns of different ε never share one.
            address = f"https://analyzer.test/experiments/by-{value}"
            try:
                account.charge(value, 1e-6, taken(str(number), address), batches(*some[0], experiment=address))
            except BudgetExceeded:
                continue
            assert account.left == pytest.approx(before - value)
            paid.append((now, value, [(value, batch) for batch in some[0]], number))
            periods.append(account.period)
    for last in range(len(paid)):
        for period in {*periods[: last + 1]}:
            window = [one for one in paid[: last + 1] if paid[last][0] - period < one[0] <= paid[last][0]]
            # The window that ends here has a turn that was paid for under this period, namely its last.
            epsilon, delta = cost(window)
            assert epsilon <= limits.epsilon_per_period * (1.0 + 1e-9)
            assert delta <= limits.delta_per_period * (1.0 + 1e-9)


@pytest.mark.parametrize("where", ["", "occupied/account.json", "directory"])
def test_a_place_that_cannot_hold_an_account_is_named(where, tmp_path):
    (tmp_path / "occupied").write_text("a file, not a directory")
    (tmp_path / "directory").mkdir()
    with pytest.raises(InvalidParameter, match="account"):
        Account(tmp_path / where if where else Path(""), Limits())


def test_threads_that_share_an_account_lose_no_charge(tmp_path):
    account = Account(tmp_path / "account.json", Limits(epsilon_per_period=1000.0))
    threads = [
        threading.Thread(target=lambda n=n: [account.charge(1.0, 0.0, taken(f"{n} {i}")) for i in range(20)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    account.close()
    again = Account(tmp_path / "account.json", Limits(epsilon_per_period=1000.0))
    assert again.ledger.spent == len(again.taken) == 80
    again.close()
