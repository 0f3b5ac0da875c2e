"""What every store keeps, on SQLite and PostgreSQL: nothing is lost, nothing counts twice, nothing is left behind."""

import hashlib
import sqlite3
import threading
from collections import Counter
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import select, update

from cases.service.arrivals import KEY, NOW, arrival, batch, close_all, message, released
from croupier.noise import secure
from croupier.service.store import AnalyzerStore, FrontStore, StoreProblem, schema
from croupier.service.store.database import BUSY_SECONDS, Database
from croupier.service.store.intake import Intake
from croupier.service.store.migrations import steps
from croupier.service.store.vault import Vault


@pytest.fixture
def store(store_url):
    found = FrontStore(store_url, secure(), KEY)
    found.put_configuration("e", 0, b"c" * 32, "{}", None)
    yield found
    found.close()


@pytest.mark.slow
def test_a_full_batch_leaves_whole_and_once(store):
    assert store.put_offer("e", 0, "o", [batch()])
    assert store.accept([arrival(1), arrival(2)]) == ["accepted"] * 2
    assert store.accept([arrival(3), arrival(4), arrival(5)]) == ["accepted", "accepted", "batch-closed"]
    assert store.standings("e")[0].state == "closed"
    (closing,) = close_all(store)
    assert (closing.reports, closing.messages, closing.length) == (4, 8, 8)
    found = released(store)
    assert sorted(found) == sorted(message(who, slot) for who in (1, 2, 3, 4) for slot in (0, 1))
    assert hashlib.sha256(b"".join(found)).digest() == closing.digest
    # Asking again gives the same bytes in the same order.
    assert released(store) == found
    assert close_all(store) == []


def test_acknowledging_deletes_and_saying_so_twice_changes_nothing(store):
    store.put_offer("e", 0, "o", [batch(users=1)])
    store.accept([arrival(1)])
    close_all(store)
    for _ in range(2):
        store.acknowledge("e", 0)
        assert store.receipt("e", 0) == ("released", "receipt")
        assert store.part("e", 0, 0) is None
    assert store.accept([arrival(2)]) == ["batch-closed"]


def test_a_report_sent_again_is_recognised_even_after_its_batch_has_left(store):
    store.put_offer("e", 0, "o", [batch(users=2)])
    assert store.accept([arrival(1)]) == ["accepted"]
    assert store.accept([arrival(1), arrival(1)]) == ["repeated", "repeated"]
    store.accept([arrival(2)])
    close_all(store)
    store.acknowledge("e", 0)
    assert store.accept([arrival(1)]) == ["repeated"]
    assert store.standings("e")[0].received == 2


def test_one_token_is_one_report(store):
    store.put_offer("e", 0, "o", [batch()])
    token = b"t" * 32
    assert store.accept([arrival(1, token=token), arrival(2, token=token)]) == ["accepted", "token-spent"]
    assert store.accept([arrival(3, token=token)]) == ["token-spent"]
    assert store.standings("e")[0].received == 1


@pytest.mark.slow
def test_a_report_enters_all_of_its_batches_or_none(store):
    store.put_offer("e", 0, "o", [batch(0, users=2), batch(1, users=3, name=b"up")])
    assert store.accept([arrival(w, batches=(0, 1)) for w in (1, 2, 3)]) == ["accepted", "accepted", "batch-closed"]
    assert [one.received for one in store.standings("e")] == [2, 2]
    # The next offer shares the batch above.
    assert store.put_offer("e", 1, "p", [batch(2, users=2, name=b"next"), batch(1, users=3, name=b"up")])
    assert store.accept([arrival(w, offer=1, batches=(2, 1)) for w in (4, 5)]) == ["accepted", "batch-closed"]
    assert {one.number: one.received for one in store.standings("e")} == {0: 2, 1: 3, 2: 1}
    assert {c.number for c in close_all(store)} == {0, 1}
    users = {found[:4] for found in released(store, 1)}
    assert users == {b"0001", b"0002", b"0004"}


def test_a_batch_that_is_not_full_in_time_is_deleted_and_never_released(store):
    store.put_offer("e", 0, "o", [batch(users=2, expires=NOW + 10)])
    store.accept([arrival(1)])
    assert store.expire(NOW + 9.9) == 0
    assert store.expire(NOW + 10) == 1
    assert store.expire(NOW + 10) == 0
    assert store.standings("e")[0].state == "expired"
    assert store.accept([arrival(2)]) == ["batch-closed"]
    assert close_all(store) == []
    assert turns(store) == []


def test_a_full_batch_does_not_expire(store):
    store.put_offer("e", 0, "o", [batch(users=1, expires=NOW + 10)])
    store.accept([arrival(1)])
    assert store.expire(NOW + 100) == 0
    assert len(close_all(store)) == 1


def test_what_is_cancelled_or_finished_is_deleted(store):
    store.put_offer("e", 0, "o", [batch(0)])
    store.put_offer("e", 1, "p", [batch(1, name=b"p")])
    store.accept([arrival(1)])
    store.cancel("e", 0)
    assert [one.state for one in store.standings("e")] == ["cancelled", "open"]
    assert store.finished("e") is False
    store.finish("e")
    assert [one.state for one in store.standings("e")] == ["cancelled", "cancelled"]
    assert store.finished("e") is True
    assert store.finished("unknown") is None


def turns(store, count=100, now=NOW, due=1010, ahead=1.5, spare=2):
    given = store.assign("e", [None] * count, now=now, due=due, ahead=ahead, spare=spare)
    return [turn[0] for turn in given if turn != "nothing-open"]


def test_turns_run_ahead_of_reports_by_the_stated_factor(store):
    store.put_offer("e", 0, "o", [batch(users=4)])
    assert len(turns(store, ahead=1.5, spare=2)) == 8
    assert turns(store) == []
    # A turn that was reported counts as one that is out.
    store.accept([arrival(1)])
    assert turns(store) == []
    assert len(turns(store, ahead=2.0, spare=2)) == 2


def test_overdue_turns_are_given_to_somebody_else(store):
    store.put_offer("e", 0, "o", [batch(users=4)])
    assert len(turns(store, due=1010)) == 8
    assert turns(store, now=1009.0, due=1020) == []
    assert len(turns(store, now=1010.0, due=1020)) == 8


def test_turns_given_out_before_a_clock_was_set_back_stand_in_nobodys_way(store):
    store.put_offer("e", 0, "o", [batch(users=4)])
    assert len(turns(store, now=NOW + 3600, due=1010 + 3600)) == 8
    assert len(turns(store)) == 8
    assert turns(store) == []


def test_turns_go_to_open_offers_by_the_places_they_have(store):
    store.put_offer("e", 0, "o", [batch(0, users=300)])
    store.put_offer("e", 1, "p", [batch(1, users=100, name=b"p")])
    given = Counter(turns(store, count=400, ahead=1.0, spare=0))
    assert given == {0: 300, 1: 100}
    store.cancel("e", 1)
    assert turns(store, now=2000.0, due=3000, count=1) == [0]


def test_offers_and_configurations_are_put_once_and_again_is_the_same(store):
    assert store.put_offer("e", 0, "o", [batch()])
    assert store.put_offer("e", 0, "o", [batch()])
    assert not store.put_offer("e", 0, "other", [batch()])
    assert not store.put_offer("e", 1, "p", [batch(name=b"changed")])
    assert store.offer("e", 1) is None
    assert store.offer("e", 0) == "o"
    assert store.put_configuration("e", 0, b"c" * 32, "{}", None)
    assert not store.put_configuration("e", 0, b"d" * 32, "{}", b"c" * 32)
    assert store.put_configuration("e", 1, b"d" * 32, '{"new": 1}', b"c" * 32)
    assert not store.put_configuration("e", 0, b"c" * 31, "{}", b"d" * 32)
    assert store.configuration("e") == '{"new": 1}'
    assert store.configuration("e", b"c" * 32) == "{}"
    assert store.configuration("e", b"x" * 32) is None
    assert store.configuration("f") is None


def test_counts_are_kept_of_turns_and_reports(store):
    store.put_offer("e", 0, "o", [batch(users=10)])
    turns(store, count=7)
    store.accept([arrival(1), arrival(2)])
    assert store.plays("e") == (7, 2)
    assert store.plays("f") == (0, 0)


def test_spent_tokens_are_forgotten_when_they_are_void_anyway(store):
    store.put_offer("e", 0, "o", [batch(users=10)])
    store.accept([arrival(1)])
    store.prune(2000)
    assert store.accept([arrival(1)]) == ["repeated"]
    store.prune(2001)  # its `expires` is 2000
    assert store.accept([arrival(1)]) == ["accepted"]


def test_everything_is_there_after_a_restart(store_url):
    first = FrontStore(store_url, secure(), KEY)
    first.put_configuration("e", 0, b"c" * 32, "{}", None)
    first.put_offer("e", 0, "o", [batch(users=3)])
    first.accept([arrival(1), arrival(2)])
    # No close: the process just ends, and another one has opened the store.
    second = FrontStore(store_url, secure(), KEY)
    assert second.accept([arrival(1), arrival(3)]) == ["repeated", "accepted"]
    (closing,) = close_all(second)
    assert closing.messages == 6
    assert sorted(released(second)) == sorted(message(who, slot) for who in (1, 2, 3) for slot in (0, 1))
    first.close()
    second.close()


def test_several_workers_fill_a_batch_to_exactly_its_users(store_url):
    """Each worker has a store of its own on the same database; 60 reports race for 25 places."""
    stores = [FrontStore(store_url, secure(), KEY) for _ in range(3)]
    stores[0].put_configuration("e", 0, b"c" * 32, "{}", None)
    stores[0].put_offer("e", 0, "o", [batch(users=25)])
    outcomes, failures = [], []

    def work(index, store):
        try:
            for first in range(0, 20, 4):
                group = [arrival(100 * index + first + i) for i in range(4)]
                outcomes.extend(zip(group, store.accept(group), strict=True))
                store.assign("e", [None] * 2, now=NOW, due=1010, ahead=1.5, spare=2)
                store.expire(NOW)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    taken = [one for one, outcome in outcomes if outcome == "accepted"]
    assert len(taken) == 25
    assert {outcome for _, outcome in outcomes} == {"accepted", "batch-closed"}
    found = [close_all(store) for store in stores]
    assert sum(map(len, found)) == 1
    assert sorted(released(stores[0])) == sorted(m for one in taken for _, messages in one.parts for m in messages)
    for store in stores:
        store.close()


def test_the_same_token_at_two_workers_counts_once(store_url):
    stores = [FrontStore(store_url, secure(), KEY) for _ in range(2)]
    stores[0].put_configuration("e", 0, b"c" * 32, "{}", None)
    stores[0].put_offer("e", 0, "o", [batch(users=100)])
    outcomes = []
    barrier = threading.Barrier(2)

    def work(index):
        for who in range(15):
            barrier.wait()
            outcomes.append((who, stores[index].accept([arrival(who, report=b"r%014d%d" % (who, index))])[0]))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for who in range(15):
        assert sorted(outcome for w, outcome in outcomes if w == who) == ["accepted", "token-spent"]
    assert stores[0].standings("e")[0].received == 15
    for store in stores:
        store.close()


def test_a_failed_transaction_leaves_no_trace(store, monkeypatch):
    store.put_offer("e", 0, "o", [batch(users=3)])
    store.accept([arrival(1)])

    def crash(*_):
        raise RuntimeError("in the middle")

    with monkeypatch.context() as broken:
        broken.setitem(Intake.accept.__globals__, "_count", crash)
        with pytest.raises(RuntimeError):
            store.accept([arrival(2)])
    assert store.standings("e")[0].received == 1
    assert store.accept([arrival(2), arrival(3)]) == ["accepted", "accepted"]
    close_all(store)
    assert sorted(released(store)) == sorted(message(who, slot) for who in (1, 2, 3) for slot in (0, 1))


def test_the_analyzers_log_only_grows(store_url):
    store = AnalyzerStore(store_url)
    store.append("e", 0, "a", "b")
    store.append("e", 2, "c")
    store.append("f", 0, "x")
    assert list(store.read("e")) == ["a", "b", "c"]
    assert list(store.read("e", 2)) == store.page("e", 2) == ["c"]
    assert store.page("e", 0, 2) == ["a", "b"]
    assert store.page("e", 3) == []
    store.touch()
    assert sorted(store.experiments()) == ["e", "f"]
    other = AnalyzerStore(store_url)
    for number in (0, 2, 4):
        with pytest.raises(StoreProblem, match="another analyzer"):
            other.append("e", number, "late")
    other.append("e", 3, "d")
    assert list(store.read("e")) == ["a", "b", "c", "d"]
    store.close()
    other.close()


def test_migrations_run_once_and_another_versions_store_is_refused(store_url):
    ran = []
    known = steps(Vault(KEY))
    more = (*known, lambda connection: ran.append(1))
    database = Database(store_url)
    database.migrate(known)
    database.migrate(more)
    database.migrate(more)
    assert ran == [1]
    with pytest.raises(StoreProblem, match="another version"):
        database.migrate(known)
    database.close()


def test_a_store_opened_with_another_key_or_changed_is_refused_not_released(store_url):
    store = FrontStore(store_url, secure(), KEY)
    store.put_offer("e", 0, "o", [batch(users=1)])
    store.accept([arrival(1)])
    with pytest.raises(StoreProblem, match="another `store` key"):
        FrontStore(store_url, secure(), bytes(32))
    with store.database.write() as connection:
        (row,) = connection.execute(select(schema.POOLS))
        connection.execute(update(schema.POOLS).values(payload=row.payload[:-1] + bytes([row.payload[-1] ^ 1])))
    with pytest.raises(StoreProblem, match="another key, or a changed store"):
        close_all(store)
    assert store.standings("e")[0].state == "closed"
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////proc/nowhere/store.db",
        "postgresql://nobody@127.0.0.1:1/none",
        "postgresql://x@/none?host=/nowhere",
    ],
)
def test_a_store_out_of_reach_is_one_clear_line(url):
    with pytest.raises(StoreProblem, match="cannot be reached") as refusal:
        Database(url)
    assert "\n" not in str(refusal.value)


def test_other_databases_are_refused():
    for url in ("mysql://x/y", "nonsense"):
        with pytest.raises(ValueError, match="store"):
            Database(url)


def test_a_commit_whose_answer_is_lost_loses_no_report(store, monkeypatch):
    """It took effect, and the store that wrote does not know: the same report is then known, and its messages there."""
    store.put_offer("e", 0, "o", [batch(users=4)])
    store.accept([arrival(1)])
    real = store.database.write

    @contextmanager
    def lost():
        with real() as connection:
            yield connection
        raise ConnectionError("no answer to COMMIT")

    with monkeypatch.context() as broken:
        broken.setattr(store.database, "write", lost)
        with pytest.raises(ConnectionError):
            store.accept([arrival(2)])
    assert store.accept([arrival(2), arrival(3), arrival(4)]) == ["repeated", "accepted", "accepted"]
    close_all(store)
    assert sorted(released(store)) == sorted(message(who, slot) for who in (1, 2, 3, 4) for slot in (0, 1))


def test_one_ticket_spent_in_two_batches_at_the_same_moment_counts_once_and_harms_nobody(store_url):
    stores = [FrontStore(store_url, secure(), KEY) for _ in range(2)]
    stores[0].put_configuration("e", 0, b"c" * 32, "{}", None)
    for number in range(2):
        stores[0].put_offer("e", number, "o", [batch(number, users=1000, name=b"b%d" % number)])
    outcomes, failures = [], []
    barrier = threading.Barrier(2)

    def work(index):
        try:
            for round_ in range(20):
                barrier.wait()
                ticket = arrival(
                    index, offer=index, batches=(index,), token=b"t%031d" % round_, report=b"r%015d" % index
                )
                other = arrival(1000 + 2 * round_ + index, offer=index, batches=(index,))
                outcomes.append((round_, *stores[index].accept([ticket, other])))
        except Exception as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for round_ in range(20):
        found = [(ticket, other) for at, ticket, other in outcomes if at == round_]
        assert sorted(found) == [("accepted", "accepted"), ("token-spent", "accepted")]
    for store in stores:
        store.close()


def test_somebody_who_reads_the_file_makes_no_writer_wait(tmp_path):
    """Deleted bytes then stay in the log until the reader has left; that is tried again, without holding the lock."""
    store = FrontStore(f"sqlite:///{tmp_path / 'front.db'}", secure(), KEY)
    store.put_offer("e", 0, "offer", [batch(users=1)])
    with closing(sqlite3.connect(tmp_path / "front.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM batches").fetchall()
        assert store.accept([arrival(1)]) == ["accepted"]
        close_all(store)
        waits = []
        with pytest.MonkeyPatch.context() as patch:
            scrub = store.database.scrub
            patch.setattr(store.database, "scrub", lambda tables: waits.append(scrub(tables)) or waits[-1])
            store.acknowledge("e", 0)
            store.prune(0)
            assert waits == [False, False]
            reader.rollback()
            store.prune(0)
            assert waits == [False, False, True]
        with store.database.read() as connection:
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 1000 * BUSY_SECONDS
    store.close()


def test_the_other_servers_store_is_called_that(store_url):
    FrontStore(store_url, secure(), KEY).close()
    with pytest.raises(StoreProblem, match="another server's"):
        AnalyzerStore(store_url)


def test_the_analyzers_store_is_not_the_shufflers(store_url):
    AnalyzerStore(store_url).close()
    with pytest.raises(StoreProblem, match="another server's"):
        FrontStore(store_url, secure(), KEY)


def test_rows_that_are_put_together_are_read_as_they_were(store):
    """A column at a time or a row at a time: small and large numbers, empty and long bytes, quotes and backslashes."""
    numbers, texts = (-1, 0, 1, 2**15, 2**31, 2**62), ("", "a", '{x,"y"}', "NULL", "\\N", "ü%s")
    rows = [
        {
            "experiment": "e",
            "stream": text,
            "key": bytes(size),
            "lot": number,
            "configuration": text.encode() * size,
            "settling": -number,
            "payload": bytes(range(256)) * size,
        }
        for size, (number, text) in enumerate(zip(numbers, texts, strict=True))
    ]
    with store.database.write() as connection:
        store.database.put(connection, schema.PENDING, rows)
    with store.database.read() as connection:
        read = connection.execute(select(schema.PENDING)).mappings().all()
    assert sorted(map(dict, read), key=lambda row: len(row["key"])) == rows
