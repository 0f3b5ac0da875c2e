"""What the analyzer keeps: for each experiment a numbered log of lines; in shares also its part of open batches.

Of a batch in shares it keeps the sum of its own shares, under a key that is not in the database, and the names of the
reports that it has opened. In one transaction a sum is replaced by the total with noise. Names are remembered for as
long as the key that their shares were sealed to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError

from croupier.service.groups import Reason, set_hash
from croupier.service.store import operators
from croupier.service.store.answers import Answered, Answers
from croupier.service.store.batch_keys import BatchKeys
from croupier.service.store.columns import filled, keys, of_experiment
from croupier.service.store.database import Database, StoreProblem
from croupier.validity.shares import Ring

META = MetaData()

_lines = Table(
    "lines",
    META,
    *of_experiment(number=BigInteger),
    Column("line", Text, nullable=False),
)
_pulse = Table("pulse", META, Column("number", Integer, primary_key=True))
_settled = Table(
    # The newest group of each experiment and what became of its reports: asked again, the same.
    "settled",
    META,
    *of_experiment(),
    *filled(number=BigInteger, digest=LargeBinary, answer=LargeBinary),
)
_names = Table(
    # Reports that were opened, whether or not they count, under the key that they were sealed to.
    "names",
    META,
    *keys(key=LargeBinary, name=LargeBinary),
    sqlite_with_rowid=False,
)
_sums = Table(
    "sums",
    META,
    *of_experiment(batch=BigInteger),
    *filled(reports=BigInteger, settled=LargeBinary, payload=LargeBinary),
)
_totals = Table(
    # With noise, before they are logged.
    "totals",
    META,
    *of_experiment(batch=BigInteger),
    Column("total", LargeBinary, nullable=False),
)
_destroyed = Table(
    # The ids of sealing keys that are no more: nothing that was sealed to one counts, also if its file came back.
    "destroyed",
    META,
    Column("key", LargeBinary, primary_key=True),
)
_answers = Answers(META)

Beside = tuple[str, int, str]
"""A log's name, and a line's number and text."""

PAGE_RECORDS, PAGE_CHARACTERS = 64, 2**18
"""A log is read in pieces of at most so many records, and of few more characters than this."""

READERS = 4


def _begin_pulse(connection: Connection) -> None:
    connection.execute(insert(_pulse).values(number=0))
    _answers.begin(connection)


STEPS = (META.create_all, _begin_pulse, operators.META.create_all, META.create_all, _answers.begin_names)
"""Numbered migrations; a later one is added, never changed."""


@dataclass(frozen=True)
class Opened:
    """A report that opened: its name, the id of the key that it was sealed to, and this server's share of each part, or
    why it does not count.

    One part counts for all batches of its group, or there is one for each.
    """

    name: bytes
    key: bytes
    parts: tuple[tuple[Ring, list[int]], ...] = ()
    reason: Reason | None = None
    verifier: bytes = b""
    """What this server shows the front of its proof; it is not stored."""

    def ring(self, place: int) -> Ring:
        return self.parts[min(place, len(self.parts) - 1)][0]

    def share(self, place: int) -> list[int]:
        return self.parts[min(place, len(self.parts) - 1)][1]


@dataclass(frozen=True)
class Held:
    """This server's sum of a batch, encoded: of how many reports, and which."""

    total: bytes
    reports: int
    settled: bytes


def _sum_key(experiment: str, batch: int) -> str:
    return f"{experiment}.sum.{batch}"


class AnalyzerStore(operators.Operators):
    """The logs of all experiments. A log only grows: the state of an experiment is what its log says.

    `writer` and `readers` are threads for whoever must not stand still when the disk does: with threads of their own
    writing and reading stand in nobody else's way.
    """

    def __init__(self, url: str, batch_keys: Path | None = None) -> None:
        self.database = Database(url)
        self.batch_keys = BatchKeys(batch_keys)
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

    def append(self, experiment: str, number: int, *lines: str, beside: Beside | None = None) -> None:
        """Add lines as number, number + 1, ...: on disk when this returns. A number that is taken is an error.

        `beside` is a line of another log, which is added together with these or not at all.
        """
        added = [(experiment, number + i, line) for i, line in enumerate(lines)]
        first = {experiment: number} | ({} if beside is None else {beside[0]: beside[1]})
        try:
            with self.database.write() as connection:
                for log, due in first.items():
                    last = connection.execute(select(func.max(_lines.c.number)).where(_lines.c.experiment == log))
                    if due != 1 + (-1 if (known := last.scalar()) is None else known):
                        raise StoreProblem(f"the log of {log} has grown elsewhere: is another analyzer at work?")
                rows = added if beside is None else [*added, beside]
                connection.execute(insert(_lines), [dict(zip(_lines.c.keys(), row, strict=True)) for row in rows])
        except IntegrityError:
            raise StoreProblem(f"the log of {experiment} has grown elsewhere: is another analyzer at work?") from None

    # In shares

    @property
    def answers(self) -> Answered:
        """The newest answer that this store has given."""
        with self.database.read() as connection:
            return _answers.newest(connection)

    def answer_name(self, number: int) -> bytes | None:
        """The name of an earlier answer, if this store gave it."""
        with self.database.read() as connection:
            return _answers.name(connection, number)

    def settle(
        self, experiment: str, group: int, digest: bytes, batches: Sequence[int], opened: Sequence[Opened | None]
    ) -> tuple[Reason | None, ...]:
        """Count the reports of a group that opened, are in order and were not there before; why others do not count.

        All in one transaction: their names, this server's sums and what becomes of them. Asked again, that is the same.
        """
        with self.database.write() as connection:
            known = connection.execute(select(_settled).where(_settled.c.experiment == experiment)).first()
            if known is not None and known.number == group:
                if known.digest != digest:
                    raise StoreProblem(f"group {group} of {experiment} came with other reports than before")
                return tuple(Reason(code) if code else None for code in known.answer)
            reasons = self._reasons(connection, opened)
            old = (Reason.REPEATED, Reason.UNOPENABLE)
            fresh = [one for one, why in zip(opened, reasons, strict=True) if one and why not in old]
            good = [one for one, why in zip(opened, reasons, strict=True) if one and why is None]
            if fresh:
                self.database.put(connection, _names, [{"key": one.key, "name": one.name} for one in fresh])
            if good:
                for place, batch in enumerate(batches):
                    self._add(connection, experiment, batch, place, good)
            answer = bytes(reason or 0 for reason in reasons)
            row = {"experiment": experiment, "number": group, "digest": digest, "answer": answer}
            wish = self.database.insert(_settled).values(row)
            connection.execute(wish.on_conflict_do_update(index_elements=["experiment"], set_=row))
            _answers.add(connection)
        return tuple(reasons)

    def _reasons(self, connection: Connection, opened: Sequence[Opened | None]) -> list[Reason | None]:
        """Why each of these reports does not count: one that was there before under its key is not looked at again."""
        seen: set[tuple[bytes, bytes]] = set()
        destroyed = self._destroyed(connection)
        for key in {one.key for one in opened if one is not None}:
            names = [one.name for one in opened if one is not None and one.key == key]
            query = select(_names.c.name).where(_names.c.key == key, self.database.among(_names.c.name, "names"))
            seen |= {(key, name) for name in connection.execute(query, {"names": names}).scalars()}
        reasons: list[Reason | None] = []
        for one in opened:
            if one is None or one.key in destroyed:
                reasons.append(Reason.UNOPENABLE)
            else:
                reasons.append(Reason.REPEATED if (one.key, one.name) in seen else one.reason)
                seen.add((one.key, one.name))
        return reasons

    def _add(self, connection: Connection, experiment: str, batch: int, place: int, counted: Sequence[Opened]) -> None:
        ring = counted[0].ring(place)
        shares = [one.share(place) for one in counted]
        known, length = self._sum(connection, experiment, batch), len(shares[0])
        reports, settled = (0, bytes(32)) if known is None else (known.reports, known.settled)
        numbers = ring.total(shares if known is None else [ring.decode(known.total, length), *shares], length)
        row = {
            "experiment": experiment,
            "batch": batch,
            "reports": reports + len(counted),
            "settled": set_hash((one.name for one in counted), settled),
            "payload": self.batch_keys.hide(_sum_key(experiment, batch), ring.encode(numbers)),
        }
        wish = self.database.insert(_sums).values(row)
        connection.execute(wish.on_conflict_do_update(index_elements=["experiment", "batch"], set_=row))

    def _sum(self, connection: Connection, experiment: str, batch: int) -> Held | None:
        row = connection.execute(select(_sums).where(_sums.c.experiment == experiment, _sums.c.batch == batch)).first()
        if row is None:
            return None
        return Held(self.batch_keys.show(_sum_key(experiment, batch), row.payload), row.reports, row.settled)

    def total(self, experiment: str, batch: int, add: Callable[[Held | None], bytes]) -> bytes:
        """The total of a batch: what `add` makes of this server's sum, once; the sum is deleted with it.

        Asked again, it is the same: what was drawn is never drawn anew.
        """
        this = (_totals.c.experiment == experiment, _totals.c.batch == batch)
        with self.database.write() as connection:
            known = connection.execute(select(_totals.c.total).where(*this)).scalar()
            if known is not None:
                return bytes(known)
            total = add(self._sum(connection, experiment, batch))
            connection.execute(insert(_totals).values(experiment=experiment, batch=batch, total=total))
            connection.execute(delete(_sums).where(_sums.c.experiment == experiment, _sums.c.batch == batch))
            _answers.add(connection)
        self.batch_keys.destroy([_sum_key(experiment, batch)])
        return total

    def forget_batch(self, experiment: str, batch: int) -> None:
        """A batch is over: nothing of it is kept beside the log."""
        with self.database.write() as connection:
            for table in (_sums, _totals):
                connection.execute(delete(table).where(table.c.experiment == experiment, table.c.batch == batch))
        self.batch_keys.destroy([_sum_key(experiment, batch)])

    def give_up(self, keys: Collection[bytes]) -> None:
        """Forget every sum and total that is not logged, and every name: these keys, by their ids, are destroyed, and
        so are all that a name is remembered for.
        """
        with self.database.write() as connection:
            for table in (_sums, _totals, _settled):
                connection.execute(delete(table))
            self._destroy(connection, {*keys, *connection.execute(select(_names.c.key).distinct()).scalars()})
            # Another way begins: the store that was copied is not this one any more.
            _answers.add(connection)

    def forget_others(self, experiment: str, open_batches: set[int]) -> None:
        """Forget what a crash may have left of batches that are over."""
        with self.database.write() as connection:
            for table in (_sums, _totals):
                over = (table.c.experiment == experiment, table.c.batch.not_in(open_batches))
                connection.execute(delete(table).where(*over))
        begin = f"{experiment}.sum."
        kept = {begin + str(batch) for batch in open_batches}
        self.batch_keys.destroy(name for name in self.batch_keys.names() if name.startswith(begin) and name not in kept)

    def forget_names(self, key: bytes) -> None:
        """The names of reports that were sealed to a key: once it is destroyed none of them can come again."""
        with self.database.write() as connection:
            self._destroy(connection, {key})

    def _destroy(self, connection: Connection, keys: Collection[bytes]) -> None:
        for key in sorted(keys):
            connection.execute(self.database.insert(_destroyed).values(key=key).on_conflict_do_nothing())
            connection.execute(delete(_names).where(_names.c.key == key))

    @property
    def destroyed(self) -> set[bytes]:
        """The ids of the sealing keys that were destroyed and whose names are forgotten."""
        with self.database.read() as connection:
            return self._destroyed(connection)

    def _destroyed(self, connection: Connection) -> set[bytes]:
        return set(connection.execute(select(_destroyed.c.key)).scalars())

    def touch(self) -> None:
        """Write something, to see whether one can."""
        with self.database.write() as connection:
            connection.execute(_pulse.update().values(number=_pulse.c.number))
