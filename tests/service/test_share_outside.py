"""What an adversary tried who was given the claims and not the code's reasons: each of these succeeded once."""

import threading
from dataclasses import replace

from cases.service.machine import FRONT
from cases.service.share_attacker import closed_batch
from cases.service.shares import NAME, USERS, one_bit_a_user, opened
from croupier.messages.offer import Offer
from croupier.service import notary
from croupier.service.high_water import HighWater
from croupier.service.problems import Problem
from croupier.service.store import share_sums
from croupier.service.store.answers import Answered
from croupier.service.store.batch_keys import BatchKeys


def test_an_answer_does_not_leave_by_an_acknowledgement(tmp_path):
    """Else it leaves without a countersigned log, and without the mark that keeps a restored store from starting."""
    service = opened(tmp_path)
    number = closed_batch(service)
    base = f"{FRONT}/experiments/{NAME}/batches/{number}"
    refused = service.servers.ask("DELETE", f"{base}/messages", service.servers.bearer)
    assert refused.json()["type"].endswith("not-released")
    assert service.servers.ask("GET", f"{base}/receipt").json()["type"].endswith("not-released")
    service.settled(2)
    assert service.servers.ask("GET", f"{base}/receipt").status_code == 200
    assert HighWater(tmp_path / "front" / "answered")._reached.number > 0
    service.close()


def test_a_batch_is_one_arms(tmp_path):
    """Else the lot of the other arm outlives the batch that its reports are in."""
    service = opened(tmp_path)
    (offer,) = service.live.offers.values()
    other = Offer(NAME, offer.configuration, 77, 1 - offer.arm, offer.batches)
    signed = other.statement().signed("analyzer", service.servers.analyzer.analyzer.keys.sign)
    try:
        service.servers.front.front.open_offer(NAME, 77, signed, None)
        refused = ""
    except Problem as problem:
        refused = problem.token
    assert refused == "offer-conflict"
    service.close()


def test_keys_that_a_crash_left_behind_are_destroyed(tmp_path, monkeypatch):
    service = opened(tmp_path)
    store = service.servers.front.front.store
    with monkeypatch.context() as patch:
        patch.setattr(BatchKeys, "destroy", lambda self, names: None)
        number = closed_batch(service)
    assert f"{NAME}.sum.{number}" in store.batch_keys.names()
    monkeypatch.setattr(share_sums, "TIDY_SECONDS", 0.0)
    assert store.tidy_keys() >= 1
    assert f"{NAME}.sum.{number}" not in store.batch_keys.names()
    service.close()


def test_what_a_crash_left_at_the_analyzer_is_forgotten(tmp_path, monkeypatch):
    service = opened(tmp_path)
    store = service.servers.analyzer.store
    number = closed_batch(service)
    store.batch_keys.hide(f"{NAME}.sum.9999", b"of a batch that is over")
    service.servers.kill("analyzer")
    service.step()
    assert f"{NAME}.sum.9999" not in service.servers.analyzer.store.batch_keys.names()
    assert number in service.live.done
    service.close()


def named(number):
    return Answered(number, bytes([number]))


def test_the_mark_never_falls_whoever_raises_it(tmp_path):
    path = tmp_path / "answered"
    first, second = HighWater(path), HighWater(path)
    first.raise_to(named(7))
    second.raise_to(named(6))
    assert path.read_text() == "7 07"
    marks = [HighWater(path) for _ in range(4)]
    workers = [
        threading.Thread(target=lambda mark=mark: [mark.raise_to(named(n)) for n in range(8, 48)]) for mark in marks
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert path.read_text() == "47 2f"


def test_an_answer_to_a_group_whose_batch_was_given_up_counts_nobody(tmp_path, monkeypatch):
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path)
        for _ in range(USERS):
            service.reports(service.comes())
        front = service.servers.front.front
        group = front.group(NAME)
        front.cancel(NAME, group.batches[0])
        assert front.settle(NAME, group.number, bytes(USERS)) == 0
        with front.store.database.read() as connection:
            assert front.store._sum(connection, NAME, group.batches[0]) is None
            assert front.store.waiting(connection, NAME) == {"arm-0": USERS}, "they wait for the arm's next batch"
        service.settled(3)
        assert [record["users"] for record in service.records("released")] == [USERS]
        service.close()


def test_group_names_are_not_used_again(tmp_path, monkeypatch):
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path)
        front, numbers = service.servers.front.front, set()
        for _ in range(6):
            person = service.comes()
            if person is not None:
                service.reports(person)
            group = front.group(NAME)
            if group is not None:
                numbers.add(group.number)
                assert front.group(NAME) == group
            service.step()
        assert len(numbers) > 2
        assert sorted(numbers) != list(range(len(numbers)))
        service.close()


def test_nobody_but_the_analyzer_is_told_that_a_report_waits(tmp_path):
    service = opened(tmp_path)
    service.reports(service.comes(value=1.0))
    address = f"{FRONT}/experiments/{NAME}/batches"
    assert "waiting" not in service.servers.ask("GET", address).json()
    assert len(service.servers.ask("GET", address, service.servers.bearer).json()["waiting"]) == 1
    service.close()


def test_a_front_signs_its_own_sealing_key_and_no_other_of_the_same_id(tmp_path, monkeypatch):
    service = opened(tmp_path)
    monkeypatch.setattr(notary, "key_id", lambda public: next(iter(own)).id)
    own = service.servers.front.front.keys.sealing
    configured = service.live.state.configuration(service.live.configured.hash)
    keys = dict(configured.keys)
    keys["front"] = replace(keys["front"], seal=keys["analyzer"].seal)
    changed = replace(configured, revision=1, keys=keys)
    signed = changed.statement().signed("analyzer", service.servers.analyzer.analyzer.keys.sign)
    try:
        service.servers.front.front.register(NAME, signed)
        refused = ""
    except Problem as problem:
        refused = problem.token
    assert refused == "bad-signature"
    service.close()
