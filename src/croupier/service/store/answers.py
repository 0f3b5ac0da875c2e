"""What a store has answered: how often, and a random name of each answer.

A count alone cannot tell a store from a copy that went another way and answered as often. No two ways have a name in
common after the place where they part, so a mark that holds one name knows the store that continues it. Names are kept
for good, a few bytes a group of reports: some host's mark may be far behind.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Connection, LargeBinary, MetaData, Table, insert, select, update

NAME_BYTES = 16


class Answered(NamedTuple):
    """How many answers a store has given, and the name of the last one; before the first one that of the store."""

    number: int
    name: bytes


class Answers:
    """The tables of a store's answers."""

    def __init__(self, metadata: MetaData) -> None:
        self.count = Table("answers", metadata, Column("number", BigInteger, primary_key=True))
        self.names = Table(
            "answer_names",
            metadata,
            Column("number", BigInteger, primary_key=True),
            Column("name", LargeBinary, nullable=False),
        )

    def begin(self, connection: Connection) -> None:
        connection.execute(insert(self.count).values(number=0))

    def begin_names(self, connection: Connection) -> None:
        """Of a new store, or of one that had a count alone."""
        self.names.create(connection, checkfirst=True)
        self._name(connection, int(connection.execute(select(self.count.c.number)).scalar_one()))

    def add(self, connection: Connection) -> None:
        """One more answer, with the transaction that it is given in; from here on no other copy is this store."""
        count = update(self.count).values(number=self.count.c.number + 1).returning(self.count.c.number)
        self._name(connection, int(connection.execute(count).scalar_one()))

    def _name(self, connection: Connection, number: int) -> None:
        connection.execute(insert(self.names).values(number=number, name=secrets.token_bytes(NAME_BYTES)))

    def newest(self, connection: Connection) -> Answered:
        query = select(self.names).order_by(self.names.c.number.desc()).limit(1)
        return Answered(*connection.execute(query).one())

    def name(self, connection: Connection, number: int) -> bytes | None:
        """The name of an answer; None where it was not given."""
        return connection.execute(select(self.names.c.name).where(self.names.c.number == number)).scalar()
