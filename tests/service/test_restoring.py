"""Restored servers: what was open is given up in public, nothing is told twice, and all goes on by itself.

A store is restored at every moment of a batch's life, to what it was then or to an older copy; `croupier serve
restored` dies at each of its steps, and is run again or not.
"""

import json
from contextlib import contextmanager, suppress
from itertools import product

import pytest

from cases.service import blocks, stores
from cases.service.machine import Killed
from cases.service.shares import DUE_WITHIN, KINDS, NAME, PLAN, USERS, one_bit_a_user, opened
from croupier.messages.configuration import Configuration
from croupier.messages.sealing import key_id
from croupier.service import keys as key_files
from croupier.service.experiment_log import Asked
from croupier.service.groups import Reason
from croupier.service.high_water import HighWater, OldStore, OtherBranch
from croupier.service.keys import KeyProblem
from croupier.service.releasing import DESTROYED
from croupier.service.restoring import restored_analyzer, restored_front
from croupier.service.store import AnalyzerStore, FrontStore, share_sums
from croupier.service.store import analyzer as analyzer_store
from croupier.service.store.batch_keys import BatchKeys
from croupier.service.verifying import verify

SHUFFLED = PLAN | {"privacy": {"epsilon": 8.0, "trust": "shuffler"}, "batches": {"smallest": 30, "deadline": 60}}
STAGES = ("nobody has reported", "reports wait", "reports are settled", "the answer is ready", "the total is drawn")


def moments(first):
    """Every kind of experiment and store at every stage; all but a few, beginning with a stage, are evidence."""
    quick = {(stores.KINDS[place % 2], kind, STAGES[first + place]) for place, kind in enumerate(KINDS)}
    quick |= {(stores.KINDS[first], "bandit", STAGES[3])}
    return [
        pytest.param(*about, marks=() if about in quick else pytest.mark.evidence)
        for about in product(stores.KINDS, KINDS, STAGES)
    ]


def brought_to(service, stage):
    """A batch as far as this; who has reported, and one who has a turn and has not."""
    late = service.comes()
    # Their turn is somebody else's, too.
    service.servers.clock.now += 4 * DUE_WITHIN
    people = []
    if stage != STAGES[0]:
        people = [service.comes() for _ in range(USERS)]
        for person in people:
            assert service.reports(person) == "accepted"
    analyzer = service.servers.analyzer.analyzer
    if stage in STAGES[2:]:
        service.servers.run(analyzer.settling.settle_all(service.live))
    if stage in STAGES[3:]:
        service.servers.front.front.close_full()
    if stage == STAGES[4]:
        # The total is on disk, and dies before it is logged.
        service.servers.run(analyzer._witnessed(service.live))
        ready = [n for n in service.live.open if service.servers.front.front.store.receipt(NAME, n)[0] == "ready"]
        for number in ready:
            service.servers.run(analyzer.settling.decoded(service.live, service.live.open[number]))
        assert ready
    return people, late


@pytest.fixture
def begin():
    """Begins services that end with the test."""
    begun = []

    def opening(*about, **more):
        begun.append(opened(*about, **more))
        return begun[-1]

    yield opening
    for service in begun:
        service.close()


def stop(service, server):
    service.servers.run(service.servers.alive[server].bury())


def restart(service, server):
    """What `croupier serve restored` and a start do."""
    restored(service, server)
    service.servers.start(server)


def restored(service, server):
    if server == "front":
        restored_front(service.servers._front)
    else:
        restored_analyzer(service.servers._analyzer)


def goes_on(service, rounds=30):
    """Users come again, and a batch of theirs is released; who they are."""
    released, people = len(service.records("released")), []
    for _ in range(rounds):
        person = service.comes()
        if person is not None:
            people.append(person)
            assert service.reports(person) == "accepted"
        service.step()
        assert service.live.trouble == ""
        if len(service.records("released")) > released:
            return people
        service.servers.clock.now += 4
    raise AssertionError("nothing was released after the restore")


def sealing_keys(service):
    """The ids of the analyzer's keys that the log names, in order."""
    configured = [record["configuration"]["body"] for record in service.records("configured")]
    return [key_id(Configuration.from_text(text).keys["analyzer"].seal) for text in configured]


@pytest.mark.slow
@pytest.mark.parametrize(("store", "kind", "stage"), moments(0))
def test_a_restored_analyzer_gives_up_what_was_open_and_goes_on_under_a_new_key(
    begin, tmp_path, monkeypatch, store, kind, stage
):
    with one_bit_a_user(monkeypatch, kind):
        service = begin(tmp_path, store, experiment=KINDS[kind])
        people, late = brought_to(service, stage)
        opened_before = set(service.live.open)
        stop(service, "analyzer")
        restart(service, "analyzer")
        service.step()
        given_up = service.records("expired")
        assert {record["batch"] for record in given_up} == opened_before
        assert {record["reason"] for record in given_up} == {DESTROYED}
        before, after = sealing_keys(service)
        assert before != after
        assert service.reports(late) == "unopenable-report"
        fresh = goes_on(service)
        seen = service.counted()
        assert seen
        assert seen <= {person.bit for person in fresh}, "nothing from before is in any total"
        assert not {person.bit for person in people} & seen


@pytest.mark.parametrize("plan", [blocks.PLAN, SHUFFLED])
def test_blocks_and_shuffled_batches_are_given_up_too(begin, tmp_path, monkeypatch, plan):
    service = begin(tmp_path, experiment=plan, validity="none", admission="everybody")
    before = set(service.live.open)
    assert before
    stop(service, "analyzer")
    restart(service, "analyzer")
    service.step()
    assert {record["batch"] for record in service.records("expired")} == before
    assert service.live.open
    assert service.live.trouble == ""


@pytest.mark.slow
@pytest.mark.parametrize(("store", "kind", "stage"), moments(1))
def test_a_restored_front_gives_up_what_was_open_and_turns_are_void(begin, tmp_path, monkeypatch, store, kind, stage):
    with one_bit_a_user(monkeypatch, kind):
        service = begin(tmp_path, store, experiment=KINDS[kind])
        people, late = brought_to(service, stage)
        opened_before = set(service.live.open)
        stop(service, "front")
        restart(service, "front")
        service.step()
        assert {record["batch"] for record in service.records("expired")} == opened_before
        assert [service.reports(person) for person in (*people, late)] == ["bad-token"] * (len(people) + 1)
        fresh = goes_on(service)
        assert service.counted() <= {person.bit for person in fresh}


@pytest.mark.slow
@pytest.mark.parametrize("server", ["front", "analyzer"])
def test_the_log_of_a_restored_server_verifies_and_says_what_was_given_up(begin, tmp_path, server):
    service = begin(tmp_path)
    brought_to(service, STAGES[3])
    stop(service, server)
    restart(service, server)
    service.step()
    goes_on(service)
    verdict = verify(service.live.transcript())
    assert verdict.expired == 1
    assert verdict.released >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "stage"),
    [
        ("sqlite", STAGES[2]),
        ("postgresql", STAGES[4]),
        *(pytest.param(store, STAGES[3], marks=pytest.mark.evidence) for store in stores.KINDS),
    ],
)
def test_an_old_copy_of_the_analyzers_store_is_refused_and_tells_nothing_again(
    begin, tmp_path, monkeypatch, store, stage
):
    """The copy is from before the reports were settled: it would count them again, and draw another noise."""
    with one_bit_a_user(monkeypatch):
        service = begin(tmp_path, store)
        copy = stores.backup(service.servers.analyzer.store.database)
        _, late = brought_to(service, stage)
        stores.restore(service.servers.analyzer.store.database, copy)
        stop(service, "analyzer")
        with pytest.raises(OldStore, match="serve restored"):
            service.servers.start("analyzer")
        restart(service, "analyzer")
        service.step()
        assert service.reports(late) == "unopenable-report"
        fresh = goes_on(service)
        assert service.counted() <= {person.bit for person in fresh}


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.evidence)])
def test_a_copy_that_is_behind_the_countersigned_log_says_so_and_answers_nothing(begin, tmp_path, monkeypatch, store):
    with one_bit_a_user(monkeypatch):
        service = begin(tmp_path, store)
        copy = stores.backup(service.servers.analyzer.store.database)
        goes_on(service)
        goes_on(service)
        stores.restore(service.servers.analyzer.store.database, copy)
        stop(service, "analyzer")
        restart(service, "analyzer")
        service.step()
        assert "head-conflict" in service.live.trouble
        assert not service.records("released")


# A copy that went on elsewhere, and has answered more


def store_of(service, server):
    return service.servers.front.front.store if server == "front" else service.servers.analyzer.store


def goes_on_elsewhere(service, server, copy, mark, then, said):
    """A copy of a store and its mark goes on, said to be restored or not, and answers more often than this store."""
    stores.restore(store_of(service, server).database, copy)
    stop(service, server)
    mark.write_bytes(then)
    if said:
        restored(service, server)
    service.servers.start(server)
    answers = share_sums.ANSWERS if server == "front" else analyzer_store._answers
    for _ in range(50):
        with store_of(service, server).database.write() as connection:
            answers.add(connection)
    stop(service, server)


@pytest.mark.parametrize("said", [True, False], ids=["restored", "plainly copied"])
@pytest.mark.parametrize("server", ["front", "analyzer"])
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.evidence)])
def test_a_copy_that_went_on_elsewhere_is_refused_by_name(begin, tmp_path, store, server, said):
    service = begin(tmp_path, store)
    mark = tmp_path / server / "answered"
    copy, then = stores.backup(store_of(service, server).database), mark.read_bytes()
    brought_to(service, STAGES[4])
    here = mark.read_bytes()
    goes_on_elsewhere(service, server, copy, mark, then, said)
    # That store is brought here, where others were answered.
    mark.write_bytes(here)
    number, name = here.decode().split()
    with pytest.raises(OtherBranch, match=f"answer {number}, {name}: it is a copy that went on elsewhere.*restored"):
        service.servers.start(server)
    # A count alone would not have known.
    mark.write_text(number)
    service.servers.start(server)
    stop(service, server)
    mark.write_bytes(here)
    restart(service, server)


@pytest.mark.parametrize("server", ["front", "analyzer"])
def test_without_its_mark_a_store_that_has_answered_does_not_start(begin, tmp_path, server):
    service = begin(tmp_path)
    brought_to(service, STAGES[4])
    stop(service, server)
    (tmp_path / server / "answered").unlink()
    with pytest.raises(OldStore, match="is missing: .*restored"):
        service.servers.start(server)
    restart(service, server)


@pytest.mark.slow
def test_a_mark_that_is_far_behind_knows_its_store(tmp_path):
    """As that of a host which was down for long."""
    store, other = (AnalyzerStore(f"sqlite:///{tmp_path}/{name}.db") for name in ("this", "other"))
    HighWater(tmp_path / "answered").check(store)
    for one in (store, other):
        with one.database.write() as connection:
            for _ in range(2000):
                analyzer_store._answers.add(connection)
    HighWater(tmp_path / "answered").check(store)
    with pytest.raises(OtherBranch):
        HighWater(tmp_path / "answered").check(other)
    store.close()
    other.close()


# `croupier serve restored` dies at any of its steps

ANALYZER_STEPS = (
    (key_files, "destroy"),
    (BatchKeys, "destroy"),
    (AnalyzerStore, "give_up"),
    (AnalyzerStore, "end_sessions"),
    (HighWater, "begin_again"),
    (key_files, "rotate"),
)
FRONT_STEPS = (
    (key_files, "renew"),
    (BatchKeys, "destroy"),
    (FrontStore, "give_up"),
    (HighWater, "begin_again"),
)


@contextmanager
def deadly(monkeypatch, where, name, done):
    """Dies at this step: before it, or when it is done."""
    step = getattr(where, name)

    def dies(*about, **more):
        if done:
            step(*about, **more)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(where, name, dies)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("where", ANALYZER_STEPS, ids=lambda step: step[1])
@pytest.mark.parametrize("again", [pytest.param(True, marks=pytest.mark.evidence), False])
def test_restoring_an_analyzer_dies_anywhere(begin, tmp_path, monkeypatch, where, done, again):
    """Run again, it goes on. If not, the server does not start, or stands still and says why, or has been restored."""
    with one_bit_a_user(monkeypatch):
        service = begin(tmp_path)
        people, late = brought_to(service, STAGES[2])
        copies = {person.bit: person.body for person in people}
        stop(service, "analyzer")
        with deadly(monkeypatch, *where, done), pytest.raises(Killed):
            restored_analyzer(service.servers._analyzer)
        if again:
            restart(service, "analyzer")
        else:
            with suppress(KeyProblem):
                service.servers.start("analyzer")
            if service.servers.alive["analyzer"].dead:
                # Somebody makes the key that is missed, and does not say that the store was restored.
                key_files.make(tmp_path / "analyzer")
                service.servers.start("analyzer")
        service.settled(3)
        if service.live.trouble:
            assert not again
            assert "croupier serve restored" in service.live.trouble
            stop(service, "analyzer")
            restart(service, "analyzer")
        fresh = goes_on(service)
        seen = service.counted()
        # Where nothing had been done yet, nothing was lost.
        untouched = where[1] == "destroy" and where[0] is key_files and not done and not again
        assert seen <= {person.bit for person in fresh} | (copies.keys() if untouched else set())
        if not untouched:
            assert service.reports(late) == "unopenable-report"


@pytest.mark.parametrize("done", [pytest.param(False, marks=pytest.mark.evidence), True])
@pytest.mark.parametrize("where", FRONT_STEPS, ids=lambda step: step[1])
def test_restoring_a_front_dies_anywhere_and_is_run_again(begin, tmp_path, monkeypatch, where, done):
    with one_bit_a_user(monkeypatch):
        service = begin(tmp_path)
        _, late = brought_to(service, STAGES[3])
        stop(service, "front")
        with deadly(monkeypatch, *where, done), pytest.raises(Killed):
            restored_front(service.servers._front)
        restart(service, "front")
        service.step()
        assert service.reports(late) == "bad-token"
        fresh = goes_on(service)
        assert service.counted() <= {person.bit for person in fresh}


def test_a_machine_lost_with_its_sealing_keys_is_restored_from_what_may_be_backed_up(begin, tmp_path, monkeypatch):
    """Of the keys `sign`, `proofs`, `bearer` and `admin` alone, and the database, as docs/operations.md has it."""
    with one_bit_a_user(monkeypatch):
        service = begin(tmp_path)
        _, late = brought_to(service, STAGES[1])
        stop(service, "analyzer")
        home = tmp_path / "analyzer"
        for path in [*home.glob("seal-*"), home / "token", home / "store", *(home / "batches").iterdir()]:
            path.unlink()
        restart(service, "analyzer")
        service.step()
        assert service.reports(late) == "unopenable-report"
        assert service.counted() <= {person.bit for person in goes_on(service)}


# Names are forgotten with their key: if the key came back, copies would count


def test_a_running_analyzer_beside_a_restore_counts_nothing_under_its_old_key(begin, tmp_path, monkeypatch):
    with one_bit_a_user(monkeypatch):
        service = begin(tmp_path)
        brought_to(service, STAGES[1])
        group = service.servers.front.front.group(NAME)
        restored_analyzer(service.servers._analyzer)
        settling = service.servers.analyzer.analyzer.settling
        answer = service.servers.run(settling._settle(service.live, group, b"digest"))
        assert answer.reasons == (Reason.UNOPENABLE,) * USERS


def test_a_destroyed_key_whose_file_is_put_back_is_destroyed_again(begin, tmp_path, monkeypatch):
    with one_bit_a_user(monkeypatch):
        service = begin(tmp_path)
        (file,) = (tmp_path / "analyzer").glob("seal-*.json")
        body = file.read_bytes()
        stop(service, "analyzer")
        restored_analyzer(service.servers._analyzer)
        file.write_bytes(body)
        file.chmod(0o600)
        service.servers.start("analyzer")
        assert not file.exists()
        assert json.loads(body)["private"] not in {
            key_files.to_text(key.private) for key in service.servers.analyzer.analyzer.keys.sealing
        }
        goes_on(service)


@pytest.mark.parametrize("moment", ["rename", "unlink"])
def test_a_key_that_was_being_destroyed_is_gone_at_the_next_start(tmp_path, monkeypatch, moment):
    keys = key_files.make(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(f"pathlib.Path.{moment}", lambda *about: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            key_files.destroy(tmp_path, keys.sealing[0])
    left = key_files.load(tmp_path).sealing
    assert [key.id for key in left] == ([keys.sealing[0].id] if moment == "rename" else [])
    if moment == "unlink":
        assert not list(tmp_path.glob("*seal*")) + list(tmp_path.glob(".*seal*"))


def test_a_stop_while_an_answer_is_ready_ends_the_experiment(begin, tmp_path, monkeypatch):
    """Nobody will ask for it: the front deletes it, and does not refuse for ever."""
    with one_bit_a_user(monkeypatch):
        service = begin(tmp_path)
        brought_to(service, STAGES[3])
        (number,) = service.live.open
        service.servers.run(service.live.operate(Asked("stop")))
        service.settled(4)
        assert service.live.trouble == ""
        front = service.servers.front.front.store
        assert front.receipt(NAME, number) == ("cancelled", None)
        assert front.finished(NAME)
        assert not front.batch_keys.names()
