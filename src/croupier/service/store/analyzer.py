"""What the analyzer keeps: for each experiment a numbered log of records, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text, func, insert, select
from sqlalchemy.exc import IntegrityError

from croupier.protocols.mechanism import canonical
from croupier.service.store.database import Database, StoreProblem

META = MetaData()

_records = Table(
    "records",
    META,
    Column("experiment", String(63), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("body", Text, nullable=False),
)

STEPS = (META.create_all,)
"""Numbered migrations; a later one is added, never changed."""


class AnalyzerStore:
    """The logs of all experiments. A log only grows: the state of an experiment is what its log says."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.database.migrate(STEPS, _records.name)

    def close(self) -> None:
        self.database.close()

    def experiments(self) -> list[str]:
        with self.database.read() as connection:
            return list(connection.execute(select(_records.c.experiment).distinct()).scalars())

    def read(self, experiment: str, start: int = 0) -> list[dict[str, Any]]:
        """The records from a number on, in order."""
        query = select(_records.c.body).where(_records.c.experiment == experiment, _records.c.number >= start)
        with self.database.read() as connection:
            return [json.loads(body) for body in connection.execute(query.order_by(_records.c.number)).scalars()]

    def append(self, experiment: str, number: int, *bodies: dict[str, Any]) -> None:
        """Add records as number, number + 1, ...: on disk when this returns. A number that is taken is an error."""
        rows = [
            {"experiment": experiment, "number": number + i, "body": canonical(body)} for i, body in enumerate(bodies)
        ]
        try:
            with self.database.write() as connection:
                last = connection.execute(
                    select(func.max(_records.c.number)).where(_records.c.experiment == experiment)
                ).scalar()
                if number != (0 if last is None else last + 1):
                    raise StoreProblem(f"the log of {experiment} has grown elsewhere: is another analyzer at work?")
                connection.execute(insert(_records), rows)
        except IntegrityError:
            raise StoreProblem(f"the log of {experiment} has grown elsewhere: is another analyzer at work?") from None
