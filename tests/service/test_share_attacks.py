"""Attacks on totals in shares: each fails, and each succeeds once its guard is removed.

The attacker is one server with all its keys, its stores and every other client. Values are powers of two without noise
where a test wants to see who is in a sum; noise is real where it is what protects.
"""

import json
import shutil
from dataclasses import replace

import pytest

from cases.service.machine import FRONT
from cases.service.shares import NAME, PLAN, USERS, one_bit_a_user, opened
from croupier.messages import shares as shares_module
from croupier.messages.offer import Batch
from croupier.messages.shares import SharedReport
from croupier.messages.signing import from_text
from croupier.service import settling as settling_module
from croupier.service.groups import Answer, BadGroup, Group, Reason, Sealed
from croupier.service.high_water import OldStore
from croupier.service.restoring import restored_analyzer, restored_front
from croupier.service.store import StoreProblem
from croupier.service.store.analyzer import AnalyzerStore, Held
from croupier.service.store.batch_keys import BatchKeys
from croupier.service.store.database import Database


def waiting_group(service, count=USERS):
    """The group that an honest front would show, after so many users have reported."""
    for _ in range(count):
        service.reports(service.comes())
    return service.servers.front.front.group(NAME)


def settle(service, group):
    """What becomes of each report of a group that some front shows the analyzer: None, or why it does not count."""
    settling = service.servers.analyzer.analyzer.settling
    answer = service.servers.run(settling._settle(service.live, group, group.to_bytes()))
    return list(answer.reasons)


def held(service, batch):
    """Which reports are in the analyzer's sum: it alone knows their number and names."""
    store = service.servers.analyzer.store
    with store.database.read() as connection:
        return store._sum(connection, NAME, batch)


# Copies: a victim's share counted m times under one noise tells m times its value


@pytest.fixture
def service(tmp_path, monkeypatch, validity):
    with one_bit_a_user(monkeypatch):
        found = opened(tmp_path, validity=validity)
        yield found
        found.close()


def test_a_copy_within_a_group_does_not_count(service):
    group = waiting_group(service)
    copies = replace(group, reports=(*group.reports, *[group.reports[0]] * 3))
    assert settle(service, copies) == [None] * USERS + [Reason.REPEATED] * 3
    assert held(service, group.batches[0]).reports == USERS


def test_without_the_memory_of_names_a_copy_counts(service, monkeypatch):
    """Both guards removed: what was counted is not looked up, and the table does not insist on it either."""
    monkeypatch.setattr(AnalyzerStore, "_reasons", lambda self, connection, opened: [None] * len(opened))

    def put(self, connection, table, rows):
        connection.execute(table.insert().prefix_with("OR IGNORE"), rows)

    monkeypatch.setattr(Database, "put", put)
    group = waiting_group(service)
    settle(service, replace(group, reports=(group.reports[0],) * 5))
    assert held(service, group.batches[0]).reports == 5


def test_a_copy_in_a_later_group_or_batch_or_after_a_restart_does_not_count(service):
    group = waiting_group(service)
    assert settle(service, group) == [None] * USERS
    assert settle(service, replace(group, number=group.number + 1)) == [Reason.REPEATED] * USERS
    service.servers.kill("analyzer")
    assert settle(service, replace(group, number=group.number + 2)) == [Reason.REPEATED] * USERS
    assert held(service, group.batches[0]).reports == USERS


def test_once_names_are_forgotten_under_a_key_that_still_opens_a_copy_counts(service, monkeypatch):
    """So names are forgotten only after their key is destroyed, and it is remembered that it was."""
    group = waiting_group(service)
    settle(service, group)
    key = service.servers.analyzer.analyzer.keys.newest("x25519-aes128gcm")
    service.servers.analyzer.store.forget_names(key.id)
    assert settle(service, replace(group, number=group.number + 1)) == [Reason.UNOPENABLE] * USERS
    monkeypatch.setattr(AnalyzerStore, "_destroyed", lambda self, connection: set())
    assert settle(service, replace(group, number=group.number + 2)) == [None] * USERS
    assert held(service, group.batches[0]).reports == 2 * USERS


def test_a_share_under_another_name_arm_or_configuration_does_not_open(service):
    group = waiting_group(service)
    victim = group.reports[0]
    renamed = replace(victim, report=bytes(16))
    other = replace(victim, configuration=bytes(32))
    cut, padded = replace(victim, sealed=victim.sealed[:-1]), replace(victim, sealed=victim.sealed + b"\0")
    swapped = replace(victim, sealed=group.reports[1].sealed)
    bad = (renamed, other, cut, padded, swapped)
    found = settle(service, replace(group, reports=(*bad, group.reports[2])))
    assert found == [Reason.UNOPENABLE] * 5 + [None]


def test_a_share_of_another_arm_does_not_open(tmp_path, monkeypatch, validity):
    """A front that moves a report to another arm's batch: the seal names the arm."""
    with one_bit_a_user(monkeypatch):
        together = {"program": {"policy": "vb-sdp-ae", "horizon": 100_000}}
        service = opened(tmp_path, experiment=PLAN | together, validity=validity)
        people = {}
        while len(people) < 2:
            person = service.comes()
            people.setdefault(person.arm, person)
            service.reports(person)
        group = service.servers.front.front.group(NAME)
        offers = {offer.arm: offer for offer in service.live.offers.values()}
        own = next(arm for arm, offer in offers.items() if offer.batches[0].number == group.batches[0])
        moved = replace(group, batches=(offers[1 - own].batches[0].number,))
        assert settle(service, moved) == [Reason.UNOPENABLE] * len(group.reports)
        service.close()


# Another encoding under the same signature: a report would count under a noise that was not made for it


def under_another_encoding(batch):
    """The same batch, as if its values went up to a hundred."""
    body = json.loads(batch.text)
    values = body["values"] | {"high": 100.0}
    return Batch(batch.number, batch.pin, json.dumps(body | {"values": values}))


@pytest.fixture(params=[True, False], ids=["bound", "not bound"])
def encoding_is_bound(request, monkeypatch):
    """The guard, and without it, at devices and servers alike."""
    if not request.param:
        monkeypatch.setattr(shares_module, "encoding_of", lambda asked: b"")
    return request.param


def test_a_share_under_another_encoding_does_not_open(encoding_is_bound, service):
    """A front that shows an honest analyzer reports for a batch of another encoding."""
    group = waiting_group(service)
    (number,) = group.batches
    offer = service.live.state.turns[number]
    service.live.state.turns[number] = replace(offer, batches=(under_another_encoding(offer.batches[0]),))
    assert settle(service, group) == [Reason.UNOPENABLE if encoding_is_bound else None] * USERS


def test_what_a_front_has_of_a_report_is_nothing_under_another_encoding(encoding_is_bound, service, validity):
    """An analyzer that has such a batch signed: to an honest front seeds stand for other numbers, and proofs fail."""
    group = waiting_group(service)
    settling, front = service.servers.analyzer.analyzer.settling, service.servers.front.front
    answer = service.servers.run(settling._settle(service.live, group, group.to_bytes()))
    (number,) = group.batches
    batch = front._batch(NAME, number)

    def counted(as_batch):
        counting = front._verified if validity == "prio3" else front._expanded
        with front.store.database.read() as connection:
            chosen = front.store._chosen(connection, front.store._lock_group(connection, NAME))
        found = counting(NAME, chosen, [as_batch], answer)
        return list(found.reasons), found.added[0][1]

    honest, other = counted(batch), counted(under_another_encoding(batch))
    assert honest[0] == [None] * USERS
    if not encoding_is_bound:
        assert other == honest
    elif validity == "prio3":
        assert other[0] == [Reason.INVALID] * USERS
    else:
        assert other[1] != honest[1]


# Asking again


def test_a_group_that_is_asked_again_gets_the_same_answer_and_another_under_its_number_is_refused(service):
    group = waiting_group(service)
    assert settle(service, group) == settle(service, group) == [None] * USERS
    assert held(service, group.batches[0]).reports == USERS
    with pytest.raises(StoreProblem, match="other reports than before"):
        settle(service, replace(group, reports=group.reports[:1]))


def shared(service, batch):
    """What the front answers for a batch."""
    address = f"{FRONT}/experiments/{NAME}/batches/{batch}/share"
    while (answer := service.servers.ask("GET", address, service.servers.bearer)) is None:
        service.servers.revive(defuse=False)
    return json.loads(answer.json()["body"])["share"] if answer.status_code == 200 else answer.json()["type"]


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("server", ["front", "analyzer"])
def test_noise_is_drawn_once_wherever_a_server_dies(tmp_path, server, committed):
    """With real noise: the front's answer and the total are the same after every crash."""
    service = opened(tmp_path)
    answers, totals, deaths = {}, {}, 0
    for transaction in range(1, 12):
        while service.live.open and len(service.people) < 100:
            person = service.comes(value=0.5)
            if person is None:
                break
            service.reports(person)
        victim = service.servers.alive[server]
        victim.die_at(transaction, committed)
        for _ in range(3):
            service.step()
            for record in service.records("released"):
                batch = record["batch"]
                assert totals.setdefault(batch, record["decoded"]) == record["decoded"]
                share = json.loads(record["receipt"]["body"])["share"]
                assert answers.setdefault(batch, share) == share == shared(service, batch)
        deaths += service.servers.alive[server] is not victim
        victim.fuse = 0
    assert len(totals) > 5
    assert deaths > 5
    service.close()


def test_an_answer_that_were_not_kept_would_be_drawn_anew(tmp_path, monkeypatch):
    """The guard removed: the analyzer draws again each time it is asked, and the average tells the sum."""
    service = opened(tmp_path)
    for _ in range(USERS):
        service.reports(service.comes(value=1.0))
    settling = service.servers.analyzer.analyzer.settling
    service.servers.run(settling.settle_all(service.live))
    service.servers.front.front.close_full()
    number = next(iter(service.live.open))
    service.servers.run(service.servers.analyzer.analyzer._witnessed(service.live))

    def total():
        return service.servers.run(settling.decoded(service.live, service.live.open[number]))[1].decoded

    assert len({total() for _ in range(8)}) == 1

    def redrawn(self, experiment, batch, add):
        ring = service.live.open[number].mechanism.ring
        receipt = json.loads(json.dumps(service.servers.front.front.share(NAME, number)))
        body = json.loads(receipt["body"])
        return add(Held(ring.encode([0]), body["reports"], from_text("set", body["set"])))

    monkeypatch.setattr(AnalyzerStore, "total", redrawn)
    monkeypatch.setattr(settling_module, "check_decoded", lambda *_: None)
    assert len({total() for _ in range(8)}) > 1
    service.close()


# Subsets


def test_a_batch_that_was_given_up_gives_nothing_out(service):
    for _ in range(USERS - 1):
        service.reports(service.comes())
    service.step()
    number = next(iter(service.live.open))
    service.servers.front.front.cancel(NAME, number)
    assert shared(service, number).endswith("batch-expired")
    front = service.servers.front.front
    with front.store.database.read() as connection:
        assert front.store._sum(connection, NAME, number) is None
    assert not [name for name in front.store.batch_keys.names() if name == f"{NAME}.sum.{number}"]


def test_an_open_batch_gives_nothing_out(service):
    service.reports(service.comes())
    service.step()
    assert shared(service, next(iter(service.live.open))).endswith("not-released")


# Restored backups


def test_a_front_that_was_restored_does_not_start_and_then_starts_safely(tmp_path):
    """Restored, it would answer for other reports of the same batch, or draw anew: the mark says that it is behind."""
    service = opened(tmp_path)
    for _ in range(USERS):
        service.reports(service.comes(value=1.0))
    service.servers.run(service.servers.analyzer.analyzer.settling.settle_all(service.live))
    home, backup = tmp_path / "front", tmp_path / "backup"
    backup.mkdir()
    for path in home.glob("store-*.db*"):
        shutil.copy(path, backup / path.name)
    service.settled(2)
    service.servers.run(service.servers.alive["front"].bury())
    for path in home.glob("store-*.db*"):
        path.unlink()
    for path in backup.iterdir():
        shutil.copy(path, home / path.name)
    with pytest.raises(OldStore, match="old copy"):
        service.servers.start("front")
    token = (tmp_path / "front" / "token").read_bytes()
    assert restored_front(service.servers._front) >= 1
    assert (tmp_path / "front" / "token").read_bytes() != token
    assert (tmp_path / "front" / "batches").is_dir()
    assert not list((tmp_path / "front" / "batches").iterdir())
    service.servers.start("front")
    assert shared(service, 0).endswith("batch-expired")
    service.close()


def test_an_analyzer_that_was_restored_has_new_keys_and_opens_nothing_old(service, tmp_path):
    group = waiting_group(service)
    before = service.servers.analyzer.analyzer.keys.sealing
    service.servers.run(service.servers.alive["analyzer"].bury())
    restored_analyzer(service.servers._analyzer)
    service.servers.start("analyzer")
    after = service.servers.analyzer.analyzer.keys.sealing
    assert not {key.id for key in before} & {key.id for key in after}
    assert {key.number for key in after}.isdisjoint(key.number for key in before)
    assert group is not None


# Bare sums


def everything_written(directory):
    """Every byte of both stores' files, write-ahead logs included."""
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file() and "db" in path.name)


@pytest.mark.parametrize("guarded", [True, False])
def test_no_file_holds_a_seed_or_a_sum_without_noise(tmp_path, monkeypatch, guarded):
    if not guarded:
        monkeypatch.setattr(BatchKeys, "hide", lambda self, name, payload: payload)
        monkeypatch.setattr(BatchKeys, "show", lambda self, name, hidden: hidden)
    seeds = []
    made = SharedReport.to_bytes
    monkeypatch.setattr(SharedReport, "to_bytes", lambda self: (seeds.append(self.share), made(self))[1])
    service = opened(tmp_path)
    people = [service.comes(value=1.0) for _ in range(USERS)]
    for person in people:
        service.reports(person)
    sums = []
    service.servers.run(service.servers.analyzer.analyzer.settling.settle_all(service.live))
    number = next(iter(service.live.open))
    for store in (service.servers.front.front.store, service.servers.analyzer.store):
        with store.database.read() as connection:
            sums.append(store._sum(connection, NAME, number).total)
    during = everything_written(tmp_path)
    service.settled(2)
    after = everything_written(tmp_path)
    found = [secret for secret in (*seeds, *sums) if secret in during or secret in after]
    assert bool(found) != guarded
    if guarded:
        names = service.servers.front.front.store.batch_keys.names()
        assert f"{NAME}.sum.{number}" not in names
        metrics = service.servers.ask("GET", f"{FRONT}/metrics").content
        assert not any(str(int.from_bytes(secret, "little")).encode() in metrics for secret in sums)
    service.close()


def test_groups_read_back_and_anything_else_is_refused():
    group = Group(3, (1, 2), (Sealed(bytes(16), bytes(32), b"shown", b"sealed"),))
    assert Group.from_bytes(group.to_bytes()) == group
    body = group.to_bytes()
    for bad in (b"", body[:-1], body + b"\0", body[:4], b"\xff" * 40):
        with pytest.raises(BadGroup):
            Group.from_bytes(bad)
    for bad in (b"\0\0", b"\0\0\0", b"\0\0\1shown", b"\0\1\1shown!", b"\0\1\x09shown"):
        with pytest.raises(BadGroup):
            Answer.from_bytes(bad, [5, 5, 5])
    assert Answer.from_bytes(b"\0\1\1shown", [5, 5, 5]).verifiers == (b"shown", b"", b"")
