"""What the analyzer keeps: for each experiment a numbered log of lines, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table, Text, func, insert, select
from sqlalchemy.exc import IntegrityError

from croupier.service.store.database import Database, StoreProblem

META = MetaData()

_lines = Table(
    "lines",
    META,
    Column("experiment", String(63), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("line", Text, nullable=False),
)
_pulse = Table("pulse", META, Column("number", Integer, primary_key=True))

PAGE_RECORDS, PAGE_CHARACTERS = 64, 2**18
"""A log is read in pieces of at most so many records, and of few more characters than this."""

READERS = 4


def _begin_pulse(connection: Connection) -> None:
    connection.execute(insert(_pulse).values(number=0))


STEPS = (META.create_all, _begin_pulse)
"""Numbered migrations; a later one is added, never changed."""


class AnalyzerStore:
    """The logs of all experiments. A log only grows: the state of an experiment is what its log says.

    `writer` and `readers` are threads for whoever must not stand still when the disk does: with threads of their own
    writing and reading stand in nobody else's way.
    """

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.database.migrate(STEPS, _lines.name)
        self.writer = ThreadPoolExecutor(1, "store-writer")
        self.readers = ThreadPoolExecutor(READERS, "store-reader")

    def close(self) -> None:
        for threads in (self.writer, self.readers):
            threads.shutdown(wait=False, cancel_futures=True)
        self.database.close()

    def experiments(self) -> list[str]:
        with self.database.read() as connection:
            return list(connection.execute(select(_lines.c.experiment).distinct()).scalars())

    def page(self, experiment: str, start: int, end: int | None = None) -> list[str]:
        """The next few lines from a number on, and before another; none when there are no more."""
        query = select(_lines.c.line).where(_lines.c.experiment == experiment, _lines.c.number >= start)
        if end is not None:
            query = query.where(_lines.c.number < end)
        lines: list[str] = []
        size = 0
        with self.database.read() as connection:
            for line in connection.execute(query.order_by(_lines.c.number).limit(PAGE_RECORDS)).scalars():
                lines.append(line)
                size += len(line)
                if size >= PAGE_CHARACTERS:
                    break
        return lines

    def read(self, experiment: str, start: int = 0) -> Iterator[str]:
        """The lines from a number on, in order, of which few are held at a time."""
        while page := self.page(experiment, start):
            yield from page
            start += len(page)

    def append(self, experiment: str, number: int, *lines: str) -> None:
        """Add lines as number, number + 1, ...: on disk when this returns. A number that is taken is an error."""
        rows = [{"experiment": experiment, "number": number + i, "line": line} for i, line in enumerate(lines)]
        try:
            with self.database.write() as connection:
                last = connection.execute(
                    select(func.max(_lines.c.number)).where(_lines.c.experiment == experiment)
                ).scalar()
                if number != (0 if last is None else last + 1):
                    raise StoreProblem(f"the log of {experiment} has grown elsewhere: is another analyzer at work?")
                connection.execute(insert(_lines), rows)
        except IntegrityError:
            raise StoreProblem(f"the log of {experiment} has grown elsewhere: is another analyzer at work?") from None

    def touch(self) -> None:
        """Write something, to see whether one can."""
        with self.database.write() as connection:
            connection.execute(_pulse.update().values(number=_pulse.c.number))
