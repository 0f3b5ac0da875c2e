"""Answers about totals in shares: one a batch, of one set of reports, whoever asks again and whatever is restored.

Each attack fails, and succeeds once its guard is removed: a server that forgets that it has answered draws another
noise, and the average tells the sum.
"""

import json
import shutil

import pytest

from cases.service import stores
from cases.service.share_attacker import (
    answered_anew,
    closed_batch,
    forgetful,
    held,
    of_both,
    settled,
    shared,
    total,
    waiting_group,
)
from cases.service.shares import NAME, PLAN, USERS, one_bit_a_user, opened
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.service.high_water import HighWater, OldStore
from croupier.service.restoring import restored_analyzer, restored_front
from croupier.service.store import StoreProblem

NOISY = PLAN | {"privacy": {"epsilon": 3.0}}
VALUES = (1.0, 0.0, 1.0)
STEPS = 127
"""Of a value of 1."""
ASKED = 100
"""At ε = 3 the average of so many noises has a deviation of 0.047 of a value: it rounds to a wrong sum once in 1e20."""


@pytest.fixture
def service(tmp_path, monkeypatch, validity):
    with one_bit_a_user(monkeypatch):
        found = opened(tmp_path, validity=validity)
        yield found
        found.close()


# Asking again


@pytest.mark.slow
@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.evidence)])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("server", ["front", "analyzer"])
def test_noise_is_drawn_once_wherever_a_server_dies(tmp_path, server, committed, every):
    """With real noise: the front's answer and the total are the same after every crash."""
    service = opened(tmp_path)
    answers, totals, deaths = {}, {}, 0
    for transaction in range(1, 12, every):
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
    assert len(totals) > 5 // every
    assert deaths > 5 // every
    service.close()


@pytest.mark.parametrize("guarded", [True, False], ids=["kept", "not kept"])
def test_a_front_answers_once_and_one_that_forgot_it_would_tell_the_sum(tmp_path, monkeypatch, guarded):
    """The analyzer asks again and again, and adds its own sum to the average."""
    service = opened(tmp_path, experiment=NOISY)
    for value in VALUES:
        service.reports(service.comes(value=value))
    settled(service)
    (number,) = service.live.open
    own = held(service, number)
    if guarded:
        service.step()
        assert len({shared(service, number) for _ in range(16)}) == 1
        with pytest.raises(StoreProblem, match="does not decrypt"):
            service.servers.front.front.store.batch_keys.show(f"{NAME}.sum.{number}", bytes(64))
    else:
        answers = [answered_anew(monkeypatch, service, number).body["share"] for _ in range(ASKED)]
        found = [of_both(service, number, share) for share in answers]
        assert len(set(found)) > ASKED / 4
        assert round(sum(found) / ASKED / STEPS) == sum(VALUES)
        assert held(service, number) == own
    service.close()


@pytest.mark.slow
@pytest.mark.parametrize("guarded", [True, False], ids=["kept", "not kept"])
def test_an_analyzer_draws_a_total_once_and_one_that_forgot_it_would_tell_the_sum(tmp_path, monkeypatch, guarded):
    """The front asks again and again, and takes its own noise, which it knows, from the average."""
    noises, draw = [], SumMechanism.server_noise
    monkeypatch.setattr(
        SumMechanism, "server_noise", lambda self, source: noises.append(draw(self, source)) or noises[-1]
    )
    service = opened(tmp_path, experiment=NOISY)
    number = closed_batch(service, VALUES)
    ((own,),) = noises
    if guarded:
        assert len({total(service, number) for _ in range(16)}) == 1
        assert len(noises) == 2
    else:
        with forgetful(monkeypatch, service.servers.analyzer.store):
            found = [total(service, number) - own for _ in range(ASKED)]
        assert len(set(found)) > ASKED / 4
        assert round(sum(found) / ASKED / STEPS) == sum(VALUES)
    service.close()


# Subsets: what two answers differ by is what somebody said


@pytest.mark.parametrize("guarded", [True, False], ids=["closed", "open"])
def test_a_front_answers_for_no_open_batch_and_one_that_did_would_tell_who_came_between(service, monkeypatch, guarded):
    (number,) = service.live.open
    found = []
    for _ in range(2):
        person = service.comes()
        service.reports(person)
        settled(service)
        if guarded:
            assert shared(service, number).endswith("not-released")
        else:
            found.append(of_both(service, number, answered_anew(monkeypatch, service, number).body["share"]))
    if not guarded:
        assert found[1] - found[0] == 1 << person.bit


@pytest.mark.parametrize("guarded", [True, False], ids=["once", "again"])
def test_an_analyzer_tells_one_total_a_batch_and_another_would_tell_who_came_between(service, monkeypatch, guarded):
    """A front that says of an open batch that it is closed, and then of the same one with another report in it."""
    (number,) = service.live.open
    store, link = service.servers.analyzer.store, service.servers.analyzer.analyzer.settling.link
    found = []
    for _ in range(2):
        person = service.comes()
        service.reports(person)
        settled(service)
        said = answered_anew(monkeypatch, service, number)

        async def share(*_, said=said):
            return said

        monkeypatch.setattr(link, "share", share)
        if guarded:
            found.append(total(service, number))
        else:
            with forgetful(monkeypatch, store):
                found.append(total(service, number))
    assert found[1] - found[0] == (0 if guarded else 1 << person.bit)


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


# Restored backups: a copy of a store that has not answered yet, with the keys of its batches


def copied(service, server, directory):
    """A server's store, and beside it the keys of its batches."""
    shutil.copytree(directory / server / "batches", directory / "copied keys", dirs_exist_ok=True)
    return stores.backup(store_of(service, server).database)


def store_of(service, server):
    return service.servers.front.front.store if server == "front" else service.servers.analyzer.store


def put_back(service, server, directory, copy, keys=True):
    """Stop a server, and put it back to its copy."""
    stores.restore(store_of(service, server).database, copy)
    service.servers.run(service.servers.alive[server].bury())
    if keys:
        shutil.copytree(directory / "copied keys", directory / server / "batches", dirs_exist_ok=True)


def about_to_answer(service, server):
    """A batch that this server is to add its noise to next."""
    for value in VALUES:
        service.reports(service.comes(value=value))
    settled(service)
    service.servers.run(service.servers.analyzer.analyzer._witnessed(service.live))
    if server == "analyzer":
        service.servers.front.front.close_full()
    return next(iter(service.live.open))


def answer_of(service, server, number):
    """What a server answers for that batch."""
    if server == "analyzer":
        return total(service, number)
    service.servers.front.front.close_full()
    return shared(service, number)


@pytest.mark.parametrize("guarded", [True, False], ids=["marked", "not marked"])
@pytest.mark.parametrize("server", ["front", "analyzer"])
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_an_old_copy_does_not_start_and_without_the_mark_it_draws_another_noise(
    tmp_path, monkeypatch, store, server, guarded
):
    drawn = iter(range(1000))
    monkeypatch.setattr(SumMechanism, "server_noise", lambda self, source: [next(drawn)])
    service = opened(tmp_path, store)
    number = about_to_answer(service, server)
    copy = copied(service, server, tmp_path)
    first = answer_of(service, server, number)
    put_back(service, server, tmp_path, copy)
    if guarded:
        with pytest.raises(OldStore, match="old copy"):
            service.servers.start(server)
    else:
        monkeypatch.setattr(HighWater, "check", lambda self, store: None)
        service.servers.start(server)
        assert answer_of(service, server, number) != first
    service.close()


@pytest.mark.parametrize("server", ["front", "analyzer"])
def test_an_old_copy_without_the_keys_of_its_batches_cannot_answer_even_without_the_mark(tmp_path, monkeypatch, server):
    service = opened(tmp_path)
    number = about_to_answer(service, server)
    copy = copied(service, server, tmp_path)
    answer_of(service, server, number)
    put_back(service, server, tmp_path, copy, keys=False)
    monkeypatch.setattr(HighWater, "check", lambda self, store: None)
    service.servers.start(server)
    with pytest.raises(StoreProblem, match="does not decrypt"):
        answer_of(service, server, number)
    service.close()


def test_a_front_that_was_restored_starts_safely(tmp_path):
    """What was open is void, and so are the turns that were out."""
    service = opened(tmp_path)
    for value in VALUES:
        service.reports(service.comes(value=value))
    settled(service)
    copy = copied(service, "front", tmp_path)
    service.settled(2)
    put_back(service, "front", tmp_path, copy)
    token = (tmp_path / "front" / "token").read_bytes()
    assert restored_front(service.servers._front) >= 1
    assert (tmp_path / "front" / "token").read_bytes() != token
    assert not list((tmp_path / "front" / "batches").iterdir())
    service.servers.start("front")
    assert shared(service, 0).endswith("batch-expired")
    service.close()


def test_an_analyzer_that_was_restored_has_new_keys_and_opens_nothing_old(service, tmp_path):
    waiting_group(service)
    before = service.servers.analyzer.analyzer.keys.sealing
    service.servers.run(service.servers.alive["analyzer"].bury())
    restored_analyzer(service.servers._analyzer)
    service.servers.start("analyzer")
    after = service.servers.analyzer.analyzer.keys.sealing
    assert not {key.id for key in before} & {key.id for key in after}
    assert {key.number for key in after}.isdisjoint(key.number for key in before)
