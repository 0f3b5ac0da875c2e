"""How a front's store of any earlier version becomes one of this version: steps that are numbered and never change."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Table, insert, inspect, update

from croupier.service.store.schema import ANSWERS, BATCHES, EXPERIMENTS, ISSUED, META, OFFERS, PAUSED, SEALS, STREAMS
from croupier.service.store.vault import Vault


def steps(vault: Vault) -> tuple[Callable[[Connection], None], ...]:
    """Numbered migrations; a later one is added, never changed."""

    def keep_the_keys_mark(connection: Connection) -> None:
        """With another key every spent token would be unknown again, and every pool unreadable."""
        connection.execute(insert(SEALS).values(mark=vault.own_mark))
        ANSWERS.begin(connection)

    steps = META.create_all, keep_the_keys_mark, add_blocks, add_pauses, add_voids, add_rules
    return (*steps, ANSWERS.begin_names, add_silent, add_ends)


def add_pauses(connection: Connection) -> None:
    PAUSED.create(connection, checkfirst=True)


def add_blocks(connection: Connection) -> None:
    """A store that was begun before there were blocks gets their tables and columns."""
    META.create_all(connection)
    _add_columns(connection, OFFERS, BATCHES)


def add_voids(connection: Connection) -> None:
    _add_columns(connection, EXPERIMENTS)


def add_rules(connection: Connection) -> None:
    _add_columns(connection, OFFERS)


def add_silent(connection: Connection) -> None:
    _add_columns(connection, BATCHES, ISSUED)
    connection.execute(update(ISSUED).where(ISSUED.c.dealt.is_(None)).values(dealt=ISSUED.c.open))


def add_ends(connection: Connection) -> None:
    _add_columns(connection, STREAMS)


def _add_columns(connection: Connection, *tables: Table) -> None:
    for table in tables:
        known = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in known:
                kind = column.type.compile(connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}")
