"""The device's account: atomic, locked, renewed, and never more generous than its limits."""

import json
import os
import stat

import pytest
from client_cases import Server, both_signed, configuration

from croupier.checks import CroupierError, InvalidParameter
from croupier.client import BadSignature, Limits
from croupier.client.account import Account, Pending, write_atomically
from croupier.privacy import BudgetExceeded

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
