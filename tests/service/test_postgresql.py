"""What PostgreSQL must keep to: a commit is on its disk, and on that of every replica that may take its place."""

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import event, text

from cases.service.stores import new_store, postgres, postgres_engine
from croupier.noise import secure
from croupier.service.store import AnalyzerStore, Arrival, FrontStore, NewBatch, StoreProblem
from croupier.service.store.database import Database
from croupier.service.store.share_groups import Counting, ShareGroups
from croupier.validity.shares import Ring

pytestmark = pytest.mark.slow

STORES = (AnalyzerStore, lambda url: FrontStore(url, secure(), bytes(32)))


@pytest.fixture
def url(tmp_path):
    return new_store("postgresql", tmp_path)


def set_up(*statements):
    with postgres_engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in (*statements, "SELECT pg_reload_conf()"):
            connection.execute(text(statement))


def wait_for(query, value):
    """Until the server says so; settings and replicas come a moment later."""
    for _ in range(500):
        with postgres_engine().connect() as connection:
            if (said := connection.execute(text(query)).scalar()) == value:
                return
        time.sleep(0.01)
    raise AssertionError(f"{query} says {said!r}, not {value!r}")


def test_a_server_that_does_not_wait_for_its_disk_is_refused(url):
    set_up("ALTER SYSTEM SET fsync = off")
    try:
        wait_for("SHOW fsync", "off")
        for store in STORES:
            with pytest.raises(StoreProblem, match="has fsync = off: what it says is kept may be lost"):
                store(url)
    finally:
        set_up("ALTER SYSTEM RESET fsync")
        wait_for("SHOW fsync", "on")
    AnalyzerStore(url).close()


@pytest.mark.parametrize("set_to", ["off", "local", "remote_write", "on", "remote_apply"])
def test_a_commit_waits_for_the_disk_whatever_the_roles_default_is(url, set_to):
    database = Database(f"{url}%20-csynchronous_commit%3D{set_to}")
    with database.read() as connection:
        said = connection.execute(text("SHOW synchronous_commit")).scalar()
    assert said == (set_to if set_to == "remote_apply" else "on")
    database.close()


@contextmanager
def replica(directory):
    """One that is sent what is written, as `pg_stat_replication` shows it."""
    own = next(Path(f"/proc/{postgres().get_pid()}/exe").resolve().parent.glob("pg_receivewal"))
    command = [own, "-D", directory, "-d", postgres().get_uri(), "--no-loop", "--synchronous"]
    environment = os.environ | {"PGAPPNAME": "replica"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", 1)
            yield
        finally:
            process.terminate()
    wait_for("SELECT count(*) FROM pg_stat_replication", 0)


@pytest.mark.skipif(not Path("/proc/self/exe").exists(), reason="there is no /proc to find PostgreSQL's programs by")
def test_a_replica_that_may_be_behind_is_refused_and_one_that_is_waited_for_is_not(url, tmp_path):
    with replica(tmp_path):
        for store in STORES:
            with pytest.raises(StoreProblem, match="has 1 asynchronous replicas, .* synchronous_standby_names"):
                store(url)
        try:
            set_up("ALTER SYSTEM SET synchronous_standby_names = 'replica'")
            wait_for("SELECT sync_state FROM pg_stat_replication", "sync")
            AnalyzerStore(url).close()
        finally:
            set_up("ALTER SYSTEM RESET synchronous_standby_names")


@pytest.mark.parametrize(
    ("states", "refused"),
    [
        ("", 0),
        ("('sync')", 0),
        ("('quorum'), ('quorum')", 0),
        ("('async')", 1),
        ("('sync'), ('potential')", 1),
        # Who may not see a replica's state is shown nothing of it.
        ("(NULL::text), ('sync'), ('async')", 2),
    ],
)
def test_every_replica_that_is_not_waited_for_counts(url, states, refused):
    """A view of the store's own in the place of PostgreSQL's."""
    name = url.rpartition("%3D")[2]
    rows = f"(VALUES {states})" if states else "(SELECT 'sync' WHERE false)"
    with postgres_engine().begin() as connection:
        connection.execute(
            text(f"CREATE VIEW {name}.pg_stat_replication AS SELECT * FROM {rows} AS replicas (sync_state)")
        )
    before_the_systems = f"{url},pg_catalog"
    if refused:
        with pytest.raises(StoreProblem, match=f"has {refused} asynchronous replicas"):
            Database(before_the_systems)
    else:
        Database(before_the_systems).close()


READ = """
SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relid = 'pending'::regclass
"""
"""Rows of what waits that this transaction has read so far."""


def filled(url, reports):
    """A front's store in which so many reports wait for a batch."""
    store = FrontStore(url, secure(), bytes(32))
    store.put_configuration("e", 0, b"c" * 32, "{}", None)
    batch = NewBatch(0, b"b" * 32, b"c" * 32, reports, 0, 0, None, shares="two-servers", stream="a")
    store.put_offer("e", 0, "o", [batch], stream="a")
    names = [b"%016d" % who for who in range(reports)]
    arrivals = [
        Arrival("e", 0, b"t" + name, name, 1010, 2000, (), False, "a", name, b"c" * 32, b"own", b"sealed")
        for name in names
    ]
    assert set(store.accept(arrivals)) == {"accepted"}
    return store


def test_choosing_a_group_reads_what_waits_a_few_times_and_not_once_for_each_report(url):
    """PostgreSQL knows nothing yet of a table that fills within seconds: a query within another was run row by row."""
    store = filled(url, 2000)
    read = []

    @event.listens_for(store.database.engine, "commit")
    def note(connection):
        read.append(connection.exec_driver_sql(READ).scalar())

    assert len(store.group("e", 1000).reports) == 1000
    store.close()
    assert 1000 < sum(read) < 5 * 2000


def test_two_who_ask_for_the_first_group_at_the_same_moment_get_the_same(url, monkeypatch):
    """Else one group would stand over the other, whose reports nobody would ever settle."""
    store, meet, choose = filled(url, 20), threading.Barrier(2), ShareGroups._choose

    def choose_together(*given):
        found = choose(*given)
        with suppress(threading.BrokenBarrierError):
            meet.wait(0.5)
        return found

    monkeypatch.setattr(ShareGroups, "_choose", choose_together)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: store.group("e", 10), range(2))
    assert first == second
    assert len(first.reports) == 10
    counting = Counting([None] * 10, [(Ring(61), [0])])
    assert store.settle("e", first.number, lambda _: counting) == 10
    assert len(store.group("e", 100).reports) == 10
    store.close()
