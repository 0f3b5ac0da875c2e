"""How both stores reach their database: SQLite with full sync, or PostgreSQL, and numbered migrations on either."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    MetaData,
    Select,
    Table,
    any_,
    bindparam,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from croupier.checks import CroupierError, InvalidParameter

MIGRATION_LOCK = 0x63726F75
"""The PostgreSQL advisory lock under which migrations run."""

SQLITE = ("journal_mode=WAL", "synchronous=FULL", "fullfsync=ON", "secure_delete=ON", "wal_autocheckpoint=2000")
"""A commit is on the disk, and what is deleted is overwritten."""

BUSY_SECONDS = 30.0
"""How long one of SQLite's writers waits for the others."""

ARRAYS = {bytes: "bytea[]", str: "text[]", int: "bigint[]", float: "double precision[]", bool: "boolean[]"}
"""How PostgreSQL is given a column. What does not fit its own type, such as a text that is too long, is refused."""

Step = Callable[[Connection], None]


class StoreProblem(CroupierError):
    """A store that cannot be reached or used."""


class Database:
    """An engine and its dialect's few peculiarities."""

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise InvalidParameter("store", url, "a file, or an address as postgresql://host/database") from None
        if parsed.drivername in ("postgres", "postgresql"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.sqlite = parsed.get_backend_name() == "sqlite"
        if not self.sqlite and parsed.get_backend_name() != "postgresql":
            raise InvalidParameter("store", parsed.drivername, "sqlite or postgresql")
        self.name = parsed.render_as_string(hide_password=True)
        self._puts: dict[Table, tuple[str, tuple[str, ...]]] = {}
        try:
            if self.sqlite:
                if parsed.database:
                    Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
                self.engine = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})
                _prepare_sqlite(self.engine)
            else:
                self.engine = create_engine(parsed, pool_pre_ping=True, pool_size=8, isolation_level="READ COMMITTED")
                _prepare_postgresql(self.engine)
            with self.engine.connect() as connection:
                if not self.sqlite:
                    _check_postgresql(connection, self.name)
        except StoreProblem:
            self.engine.dispose()
            raise
        except (SQLAlchemyError, OSError, ImportError) as error:
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise StoreProblem(f"the store {self.name} cannot be reached: {reason}") from None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction that may write: all of it is on disk when this ends, or none of it."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One transaction that only reads, and so waits for nobody."""
        with self.engine.connect().execution_options(croupier_read=True) as connection:
            yield connection

    def insert(self, table: Table) -> Any:
        """An INSERT that can say ON CONFLICT, in the dialect at hand."""
        if self.sqlite:
            from sqlalchemy.dialects.sqlite import insert as dialect_insert
        else:
            from sqlalchemy.dialects.postgresql import insert as dialect_insert  # type: ignore[assignment]
        return dialect_insert(table)

    def put(self, connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
        """Insert whole rows, as many as come: the statement is made once, and the driver gets them as they are."""
        if not rows:
            return
        if table not in self._puts:
            self._puts[table] = self._put(table, rows[0])
        statement, names = self._puts[table]
        given: Any = [tuple(row[name] for name in names) for row in rows]
        # A column at a time PostgreSQL runs one statement, where rows would be as many.
        connection.exec_driver_sql(statement, given if self.sqlite else tuple(map(list, zip(*given, strict=True))))

    def _put(self, table: Table, names: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """The text of an INSERT of these columns, and their order in it."""
        columns = [table.c[name] for name in names]
        quoted = ", ".join(map(self.engine.dialect.identifier_preparer.format_column, columns))
        if self.sqlite:
            values = f"VALUES ({', '.join('?' for _ in columns)})"
        else:
            values = f"SELECT * FROM unnest({', '.join(f'%b::{ARRAYS[one.type.python_type]}' for one in columns)})"
        return f"INSERT INTO {table.name} ({quoted}) {values}", tuple(one.name for one in columns)

    def among(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Whether a column has one of the values that this name is given; PostgreSQL gets them as one, however many."""
        if self.sqlite:
            return column.in_(bindparam(name, expanding=True))
        return column == any_(bindparam(name, type_=ARRAY(column.type)))

    def locked(self, query: Select[Any], *, read: bool = False, skip_locked: bool = False) -> Select[Any]:
        """A query whose rows nobody else changes before the transaction ends; SQLite has one writer at a time anyway.

        With `read` others may do the same, with `skip_locked` rows that others hold are left out.
        """
        return query if self.sqlite else query.with_for_update(read=read, skip_locked=skip_locked)

    def migrate(self, steps: Sequence[Step], own: str = "") -> None:
        """Run the steps that this database has not seen, in order, each once; `own` is a table of the first."""
        try:
            self._migrate(steps, own)
        except BaseException:
            self.close()
            raise

    def _migrate(self, steps: Sequence[Step], own: str) -> None:
        metadata = MetaData()
        done = Table("migrations", metadata, Column("number", Integer, primary_key=True))
        with self.write() as connection:
            if not self.sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
            metadata.create_all(connection)
            last = max(connection.execute(select(done.c.number)).scalars(), default=0)
            if last and own and own not in inspect(connection).get_table_names():
                raise StoreProblem(f"the store {self.name} is another server's: it has no table {own!r}")
            if last > len(steps):
                raise StoreProblem(f"the store {self.name} was written by another version (migration {last})")
            for number, step in enumerate(steps, start=1):
                if number > last:
                    step(connection)
                    connection.execute(insert(done).values(number=number))

    def scrub(self, tables: Sequence[str]) -> bool:
        """Leave no deleted bytes behind where the database lets us: SQLite's log, PostgreSQL's dead rows.

        False when a reader stood in the way; then it is to be tried again.
        """
        if self.sqlite:
            raw = self.engine.raw_connection()
            try:
                cursor = raw.cursor()
                # It would hold the lock while it waits for a reader, and every writer would wait with it.
                cursor.execute("PRAGMA busy_timeout=0")
                busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                # Whoever is given this connection next must wait again as others do.
                raw.cursor().execute(f"PRAGMA busy_timeout={int(1000 * BUSY_SECONDS)}")
                raw.close()
            return not busy
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in tables:
                connection.exec_driver_sql(f"VACUUM {table}")
        return True

    def close(self) -> None:
        """Close every connection: those in use, in threads that nobody waits for any more, as they come back."""
        event.listen(self.engine.pool, "checkin", lambda _, record: record.close())
        self.engine.dispose()


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        # Transactions are begun below, so that a writer takes its lock at once and never half-way.
        connection.isolation_level = None
        for pragma in SQLITE:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get("croupier_read")
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


_REPLICAS = "SELECT count(*) FROM pg_stat_replication WHERE coalesce(sync_state, '') NOT IN ('sync', 'quorum')"
"""Those that may be behind; who may not see a replica's state is told nothing of it, which counts as behind."""


def _check_postgresql(connection: Connection, name: str) -> None:
    """Refuse a server that may forget what it has said is kept: at a crash, or when a replica takes its place."""
    if connection.execute(text("SHOW fsync")).scalar() == "off":
        raise StoreProblem(f"the store {name} has fsync = off: what it says is kept may be lost")
    behind = connection.execute(text(_REPLICAS)).scalar()
    if behind:
        remedy = "name them in synchronous_standby_names"
        raise StoreProblem(f"the store {name} has {behind} asynchronous replicas, which may be behind: {remedy}")


def _prepare_postgresql(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        # An answer comes after a commit, and a commit after the disk has it, whatever the role's default is.
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            if cursor.fetchone()[0] not in ("on", "remote_apply"):
                cursor.execute("SET synchronous_commit = on")
        connection.commit()
