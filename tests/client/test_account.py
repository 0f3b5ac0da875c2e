"""The device's account: atomic, locked, renewed, and never more generous than its limits."""

import dataclasses
import json
import math
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from client_cases import Server, both_signed, configuration
from scipy.stats import poisson

from croupier.checks import CroupierError, InvalidParameter
from croupier.client import BadSignature, Limits
from croupier.client.account import Account, Pending, write_atomically
from croupier.privacy import BudgetExceeded
from croupier.protocols import counted_messages

ANALYZER, SHUFFLER = Server.make(), Server.make()


def pending(name="r1"):
    return Pending("colours", "http://shuffler.test/x", name, "Ym9keQ", 100)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_a_charge_and_its_report_are_on_disk_together_before_anything_is_sent(tmp_path):
    path = tmp_path / "account.json"
    account = Account(path, Limits())
    account.charge(1.0, 1e-9, pending())
    account.close()
    again = Account(path, Limits())
    assert again.ledger.spent == 1.0
    assert again.pending == {"r1": pending()}
    again.settle("r1")
    again.close()
    last = Account(path, Limits())
    assert last.pending == {}
    assert last.ledger.spent == 1.0
    last.close()


def test_only_the_owner_reads_the_account(tmp_path):
    path = tmp_path / "account.json"
    account = Account(path, Limits())
    account.charge(1.0, 1e-9, pending())
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    account.close()


def test_a_spent_budget_refuses_and_charges_nothing(tmp_path):
    account = Account(tmp_path / "a.json", Limits(epsilon_per_period=2.5))
    account.charge(1.0, 1e-9, pending("r1"))
    account.charge(1.0, 1e-9, pending("r2"))
    with pytest.raises(BudgetExceeded):
        account.charge(1.0, 1e-9, pending("r3"))
    assert account.ledger.spent == 2.0
    assert set(account.pending) == {"r1", "r2"}
    assert account.left == 0.5
    account.close()


def test_the_ledger_renews_when_the_period_since_its_first_charge_is_over():
    clock = Clock()
    account = Account(None, Limits(epsilon_per_period=1.0, shortest_period=1), clock=clock, period=60)
    account.charge(1.0, 0.0, pending())
    clock.now += 59.9
    assert account.left == 0.0
    with pytest.raises(BudgetExceeded):
        account.charge(1.0, 0.0, pending())
    clock.now += 0.1
    assert account.left == 1.0
    account.charge(1.0, 0.0, pending())
    clock.now += 59.9
    assert account.left == 0.0


def test_no_experiment_can_make_the_ledger_renew_sooner_than_the_device_wants():
    clock = Clock()
    account = Account(None, Limits(epsilon_per_period=1.0, shortest_period=3600), clock=clock)
    found = configuration(ANALYZER, SHUFFLER)
    hasty = configuration(ANALYZER, SHUFFLER, privacy=type(found.privacy)(1.0, 1e-9, 1.0, "x", 1))
    account.trust(hasty, both_signed(hasty.statement(), ANALYZER, SHUFFLER), None)
    account.charge(1.0, 0.0, pending())
    clock.now += 3599.0
    assert account.left == 0.0
    clock.now += 1.0
    assert account.left == 1.0


def test_the_period_is_the_longest_of_the_experiments_joined():
    account = Account(None, Limits(shortest_period=1))
    for period in (60, 3600, 600):
        found = configuration(ANALYZER, SHUFFLER)
        found = configuration(
            ANALYZER, SHUFFLER, experiment=f"e{period}", privacy=type(found.privacy)(1.0, 1e-9, 1.0, "x", period)
        )
        account.trust(found, both_signed(found.statement(), ANALYZER, SHUFFLER), None)
    assert account.period == 3600


def test_tighter_limits_later_do_not_forget_what_was_spent(tmp_path):
    path = tmp_path / "a.json"
    account = Account(path, Limits(epsilon_per_period=4.0))
    account.charge(3.0, 0.0, pending())
    account.close()
    tight = Account(path, Limits(epsilon_per_period=3.5))
    assert tight.left == 0.5
    tight.close()


def test_an_account_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path):
    path = tmp_path / "a.json"
    for text in ("", "{", "[]", "{}", '{"version": 2}', json.dumps({"version": 1, "ledger": "{}"})):
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
    found = configuration(ANALYZER, SHUFFLER)
    account.trust(found, both_signed(found.statement(), ANALYZER, SHUFFLER), None)
    imposter = Server.make()
    forged = configuration(ANALYZER, imposter)
    with pytest.raises(BadSignature, match="other keys than this device trusts"):
        account.trust(forged, both_signed(forged.statement(), ANALYZER, imposter), None)


def test_other_keys_than_the_pinned_are_refused_at_first_sight():
    account = Account(None, Limits())
    found = configuration(ANALYZER, SHUFFLER)
    signed = both_signed(found.statement(), ANALYZER, SHUFFLER)
    with pytest.raises(BadSignature, match="other keys than this device trusts"):
        account.trust(found, signed, {"analyzer": ANALYZER.public.verify, "shuffler": bytes(32)})
    account.trust(found, signed, found.verify_keys)


def test_a_stale_revision_is_refused():
    account = Account(None, Limits())
    for revision in (0, 2, 1):
        found = configuration(ANALYZER, SHUFFLER, revision=revision)
        account.trust(found, both_signed(found.statement(), ANALYZER, SHUFFLER), None)
    found = configuration(ANALYZER, SHUFFLER, revision=0)
    with pytest.raises(BadSignature, match="stale"):
        account.trust(found, both_signed(found.statement(), ANALYZER, SHUFFLER), None)


def test_turns_that_share_a_batch_cost_what_that_many_steps_from_neighbour_to_neighbour_cost():
    """And that is no less than what the noise of the batch gives, summed directly."""
    mechanism = counted_messages(epsilon=1.0, delta=1e-6).plan(100)
    claim, rate = mechanism.guarantee, float(mechanism.share.rate) * mechanism.honest
    account = Account(None, Limits(epsilon_per_period=9.0, delta_per_period=0.1))
    counts = np.arange(400)
    for turns in range(1, 5):
        account.charge(claim.epsilon, claim.delta, pending(f"r{turns}"), [7])
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
    for number, name in ((1, "colours"), (2, "colours"), (1, "fruit")):
        one = dataclasses.replace(pending(f"{name} {number}"), experiment=name)
        account.charge(1.0, 1e-9, one, [number])
    assert [charge.delta for charge in account.ledger.charges] == [1e-9] * 3


def test_groups_of_turns_that_a_later_turn_joins_are_one_from_then_on():
    account = Account(None, Limits(epsilon_per_period=9.0))
    for number, batches in enumerate(([1, 9], [2, 8], [1, 2], [9])):
        account.charge(1.0, 1e-9, pending(f"r{number}"), batches)
    total = math.fsum(charge.delta for charge in account.ledger.charges)
    assert total == pytest.approx(1e-9 * sum(math.exp(step) for step in range(4)))
    assert [(group.batches, group.turns) for group in account.groups] == [((1, 2, 8, 9), 4)]


def test_shared_batches_are_remembered_on_disk_and_forgotten_with_the_period(tmp_path):
    clock, path = Clock(), tmp_path / "account.json"
    account = Account(path, Limits(), clock)
    account.charge(1.0, 1e-9, pending("r1"), [3])
    account.close()
    again = Account(path, Limits(), clock)
    again.charge(1.0, 1e-9, pending("r2"), [3])
    assert again.ledger.charges[1].delta == pytest.approx(math.e * 1e-9)
    clock.now += 86_400
    assert again.left == 4.0
    assert again.groups == []
    again.close()


def test_a_turn_that_shares_a_batch_too_often_is_refused_before_it_is_played():
    account = Account(None, Limits(epsilon_per_period=100.0, delta_per_period=1e-6))
    account.charge(2.0, 1e-7, pending("r1"), [3])
    account.check(2.0, 1e-7, "colours", [3])
    account.charge(2.0, 1e-7, pending("r2"), [3])
    account.check(2.0, 1e-7, "colours", [4])
    with pytest.raises(BudgetExceeded, match="δ"):
        account.check(2.0, 1e-7, "colours", [3])


def test_a_clock_that_was_ahead_does_not_lock_the_ledger():
    clock = Clock()
    account = Account(None, Limits(), clock)
    clock.now = 1e9
    account.charge(4.0, 0.0, pending())
    clock.now = 1000.0
    assert account.left == 0.0
    clock.now += 86_399
    assert account.left == 0.0
    clock.now += 1
    assert account.left == 4.0


@pytest.mark.parametrize("where", ["", "occupied/account.json", "directory"])
def test_a_place_that_cannot_hold_an_account_is_named(where, tmp_path):
    (tmp_path / "occupied").write_text("a file, not a directory")
    (tmp_path / "directory").mkdir()
    with pytest.raises(InvalidParameter, match="account"):
        Account(tmp_path / where if where else Path(""), Limits())


def test_threads_that_share_an_account_lose_no_charge(tmp_path):
    account = Account(tmp_path / "account.json", Limits(epsilon_per_period=1000.0))
    threads = [
        threading.Thread(target=lambda n=n: [account.charge(1.0, 0.0, pending(f"{n} {i}")) for i in range(20)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    account.close()
    again = Account(tmp_path / "account.json", Limits(epsilon_per_period=1000.0))
    assert again.ledger.spent == len(again.pending) == 80
    again.close()
