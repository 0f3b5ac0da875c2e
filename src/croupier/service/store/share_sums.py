"""Of what the front keeps, reports in shares: those that wait, the group that is being settled, and running sums.

A report waits in its stream: that of its arm, or of its offer. The analyzer settles one group at a time. Only then the
front adds its shares of the accepted ones to the batch's running sum, and deletes their seeds, in one transaction. When
the batch closes the sum is replaced by the sum with noise, in one transaction too. Seeds and sums lie under keys that
are not in the database (see `batch_keys`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from croupier.messages.wire import REPORT_ID
from croupier.service.groups import Group, Sealed, set_hash
from croupier.service.store.batch_keys import BatchKeys
from croupier.service.store.database import Database
from croupier.service.store.intake import close_offers
from croupier.service.store.schema import (
    ANSWERS,
    BATCHES,
    GROUPS,
    HOLDERS,
    ISSUED,
    OFFERS,
    PARTS,
    PENDING,
    POOLS,
    STREAMS,
    SUMS,
    TOTALS,
    Arrival,
)
from croupier.validity.shares import Ring
from croupier.validity.xof import SEED

NOT_SETTLING = -1
TIDY_SECONDS = 600.0
"""No transaction takes as long: a key that is older and that nothing needs was left behind."""

_WAITING = (
    select(PENDING.c.stream, func.count().label("waiting"))
    .where(PENDING.c.experiment == bindparam("e"), PENDING.c.settling == NOT_SETTLING)
    .group_by(PENDING.c.stream)
)


@dataclass(frozen=True)
class Waiting:
    """A report that waits: its name, its configuration, its seed and the analyzer's shares of it."""

    report: bytes
    configuration: bytes
    seed: bytes
    sealed: bytes

    @property
    def for_analyzer(self) -> Sealed:
        return Sealed(self.report, self.configuration, self.sealed)


@dataclass(frozen=True)
class Sum:
    """The sum of a batch's shares so far: for each number of its total, and which reports are in it."""

    numbers: tuple[int, ...]
    settled: bytes


def lot_key(experiment: str, stream: str, lot: int) -> str:
    """The name of the key that reports of a lot wait under."""
    return f"{experiment}.{stream}.{lot}"


def sum_key(experiment: str, batch: int) -> str:
    """The name of the key that a batch's running sum lies under."""
    return f"{experiment}.sum.{batch}"


class ShareSums:
    """Reports in shares, from their acceptance to their batch's answer."""

    database: Database
    batch_keys: BatchKeys

    # Groups

    def group(self, experiment: str, most: int) -> Group | None:
        """The group that is being settled, or a new one: reports of one stream that its open batches have room for.

        Asked again it is the same, until it is settled.
        """
        with self.database.write() as connection:
            row = self._lock_group(connection, experiment)
            if row is None or not row.open:
                chosen = self._choose(connection, experiment)
                if chosen is None:
                    return None
                # Never one that was used: a front that was restored would else repeat what the analyzer knows.
                number = secrets.randbelow(2**31)
                row = self._begin_group(connection, experiment, number, *chosen, most)
            waiting = self._settling(connection, experiment, row.number, row.stream)
            if not waiting:
                connection.execute(update(GROUPS).where(GROUPS.c.experiment == experiment).values(open=False))
        reports = tuple(report.for_analyzer for report, _ in waiting)
        return Group(row.number, tuple(json.loads(row.batches)), reports) if reports else None

    def _lock_group(self, connection: Connection, experiment: str) -> Any:
        query = select(GROUPS).where(GROUPS.c.experiment == experiment)
        return connection.execute(query if self.database.sqlite else query.with_for_update()).first()

    def _choose(self, connection: Connection, experiment: str) -> tuple[str, list[int], int] | None:
        """The stream with the most reports that can be settled now, its batches, and their room."""
        waiting = {row.stream: row.waiting for row in connection.execute(_WAITING, {"e": experiment})}
        if not waiting:
            return None
        offers = select(OFFERS.c.stream, OFFERS.c.batches).where(OFFERS.c.experiment == experiment, OFFERS.c.open)
        best: tuple[int, str, list[int], int] | None = None
        for stream, listed in connection.execute(offers):
            batches = json.loads(listed)
            room = self._room(connection, experiment, batches)
            ready = min(room, waiting.get(stream, 0))
            if ready > 0 and (best is None or ready > best[0]):
                best = ready, stream, batches, room
        return None if best is None else best[1:]

    def _room(self, connection: Connection, experiment: str, batches: Sequence[int]) -> int:
        query = select(BATCHES.c.users, BATCHES.c.received).where(
            BATCHES.c.experiment == experiment,
            BATCHES.c.number.in_(batches),
            BATCHES.c.state == "open",
            BATCHES.c.shares != "",
        )
        rows = connection.execute(query).all()
        return min((row.users - row.received for row in rows), default=0) if len(rows) == len(batches) else 0

    def _begin_group(
        self,
        connection: Connection,
        experiment: str,
        number: int,
        stream: str,
        batches: list[int],
        room: int,
        most: int,
    ) -> Any:
        waits = (PENDING.c.experiment == experiment, PENDING.c.stream == stream)
        query = select(PENDING.c.key).where(*waits, PENDING.c.settling == NOT_SETTLING).limit(min(room, most))
        keys = list(connection.execute(query).scalars())
        connection.execute(update(PENDING).where(*waits, PENDING.c.key.in_(keys)).values(settling=number))
        row = {"experiment": experiment, "number": number, "open": True}
        row |= {"stream": stream, "batches": json.dumps(batches)}
        wish = self.database.insert(GROUPS).values(row)
        connection.execute(wish.on_conflict_do_update(index_elements=["experiment"], set_=row))
        return self._lock_group(connection, experiment)

    def _settling(
        self, connection: Connection, experiment: str, number: int, stream: str
    ) -> list[tuple[Waiting, bytes]]:
        """The reports of a group, each with its row's key, in one order whoever asks."""
        query = select(PENDING).where(
            PENDING.c.experiment == experiment, PENDING.c.stream == stream, PENDING.c.settling == number
        )
        rows = connection.execute(query.order_by(PENDING.c.key)).all()
        return [(self._waiting(row), row.key) for row in rows]

    def _waiting(self, row: Any) -> Waiting:
        shown = self.batch_keys.show(lot_key(row.experiment, row.stream, row.lot), row.payload)
        at = REPORT_ID + SEED
        return Waiting(shown[:REPORT_ID], row.configuration, shown[REPORT_ID:at], shown[at:])

    def settle(
        self,
        experiment: str,
        number: int,
        accepted: Callable[[int], Sequence[bool]],
        share: Callable[[Waiting, str, Sequence[int]], Sequence[Sequence[int]]],
        rings: Callable[[int], Ring],
    ) -> int:
        """Add the shares of a group's accepted reports to its batches, delete all its seeds; how many were accepted.

        `accepted` reads the answer for so many reports, `share` expands a report of a stream for each of these batches,
        `rings` says what a batch's numbers are. A group that is settled already stays so.
        """
        with self.database.write() as connection:
            row = self._lock_group(connection, experiment)
            if row is None or row.number != number or not row.open:
                return 0
            batches = json.loads(row.batches)
            reports = self._settling(connection, experiment, number, row.stream)
            counted = [report for (report, _), good in zip(reports, accepted(len(reports)), strict=True) if good]
            if not self._all_open(connection, experiment, batches):
                counted = []
            if counted:
                shares = [share(report, row.stream, batches) for report in counted]
                for place, batch in enumerate(batches):
                    self._add(connection, experiment, batch, rings(batch), [each[place] for each in shares], counted)
                self._count(connection, experiment, batches, len(counted))
            connection.execute(delete(PENDING).where(PENDING.c.experiment == experiment, PENDING.c.settling == number))
            connection.execute(update(GROUPS).where(GROUPS.c.experiment == experiment).values(open=False))
            if refused := len(reports) - len(counted):
                more = {"refused": TOTALS.c.refused + refused}
                connection.execute(update(TOTALS).where(TOTALS.c.experiment == experiment).values(more))
            connection.execute(update(ANSWERS).values(number=ANSWERS.c.number + 1))
        return len(counted)

    def _all_open(self, connection: Connection, experiment: str, batches: Sequence[int]) -> bool:
        """Whether these batches still take reports; nobody gives one up before this transaction ends."""
        query = select(BATCHES.c.state).where(BATCHES.c.experiment == experiment, BATCHES.c.number.in_(batches))
        query = query.order_by(BATCHES.c.number)
        states = connection.execute(query if self.database.sqlite else query.with_for_update()).scalars().all()
        return states == ["open"] * len(batches)

    def _add(
        self,
        connection: Connection,
        experiment: str,
        batch: int,
        ring: Ring,
        shares: Sequence[Sequence[int]],
        counted: Sequence[Waiting],
    ) -> None:
        known = self._sum(connection, experiment, batch)
        numbers = ring.total(shares if known is None else [known.numbers, *shares], len(shares[0]))
        settled = set_hash((report.report for report in counted), bytes(32) if known is None else known.settled)
        hidden = self.batch_keys.hide(sum_key(experiment, batch), ring.encode(numbers))
        row = {"experiment": experiment, "batch": batch, "settled": settled, "payload": hidden}
        wish = self.database.insert(SUMS).values(row)
        connection.execute(wish.on_conflict_do_update(index_elements=["experiment", "batch"], set_=row))

    def _sum(self, connection: Connection, experiment: str, batch: int) -> Sum | None:
        where = (SUMS.c.experiment == experiment, SUMS.c.batch == batch)
        row = connection.execute(select(SUMS.c.settled, SUMS.c.payload).where(*where)).first()
        if row is None:
            return None
        shown = self.batch_keys.show(sum_key(experiment, batch), row.payload)
        return Sum(tuple(int.from_bytes(shown[i : i + 8], "little") for i in range(0, len(shown), 8)), row.settled)

    def _count(self, connection: Connection, experiment: str, batches: Sequence[int], counted: int) -> None:
        these = (BATCHES.c.experiment == experiment, BATCHES.c.number.in_(batches))
        connection.execute(update(BATCHES).where(*these).values(received=BATCHES.c.received + counted))
        self._mark_full(connection, experiment, BATCHES.c.number.in_(batches) & (BATCHES.c.received >= BATCHES.c.users))

    def _mark_full(self, connection: Connection, experiment: str, which: Any) -> int:
        """Close the open ones of these batches: nobody is given a turn for them any more."""
        query = select(BATCHES.c.number).where(BATCHES.c.experiment == experiment, BATCHES.c.state == "open", which)
        numbers = set(connection.execute(query).scalars())
        if numbers:
            these = (BATCHES.c.experiment == experiment, BATCHES.c.number.in_(numbers))
            connection.execute(update(BATCHES).where(*these).values(state="closed"))
            close_offers(connection, experiment, numbers)
        return len(numbers)

    # Closing

    def close_due(self, now: float) -> int:
        """Close the batches whose deadline has come and that have enough reports; how many.

        A batch that a group is being settled for waits for that.
        """
        due = (
            (BATCHES.c.shares == "two-servers")
            & (BATCHES.c.state == "open")
            & (BATCHES.c.expires <= now)
            & (BATCHES.c.received >= BATCHES.c.least)
        )
        with self.database.read() as connection:
            listed = connection.execute(select(BATCHES.c.experiment, BATCHES.c.number).where(due)).all()
        closed = 0
        for experiment in sorted({row.experiment for row in listed}):
            with self.database.write() as connection:
                group = self._lock_group(connection, experiment)
                busy = set(json.loads(group.batches)) if group is not None and group.open else set()
                closed += self._mark_full(connection, experiment, due & BATCHES.c.number.not_in(busy))
        return closed

    def answer(
        self,
        experiment: str,
        number: int,
        add_noise: Callable[[Sum], list[int]],
        receipt: Callable[[Sum, int, list[int]], str],
    ) -> bool:
        """Replace a closed batch's sum by the sum with noise, signed, in one transaction; then destroy its keys.

        False when another worker has done it. The noise itself is written nowhere.
        """
        this = (BATCHES.c.experiment == experiment, BATCHES.c.number == number)
        gone: list[str] = []
        with self.database.write() as connection:
            query = select(BATCHES).where(*this, BATCHES.c.state == "closed")
            batch = connection.execute(
                query if self.database.sqlite else query.with_for_update(skip_locked=True)
            ).first()
            if batch is None:
                return False
            known = self._sum(connection, experiment, number)
            assert known is not None
            signed = receipt(known, batch.received, add_noise(known))
            connection.execute(delete(SUMS).where(SUMS.c.experiment == experiment, SUMS.c.batch == number))
            connection.execute(update(BATCHES).where(*this).values(state="ready", receipt=signed))
            connection.execute(update(ANSWERS).values(number=ANSWERS.c.number + 1))
            gone = [sum_key(experiment, number), *self._next_lot(connection, experiment, batch.stream)]
        self.batch_keys.destroy(gone)
        return True

    def _next_lot(self, connection: Connection, experiment: str, stream: str) -> list[str]:
        this = (STREAMS.c.experiment == experiment, STREAMS.c.stream == stream)
        query = select(STREAMS.c.lot).where(*this)
        lot = connection.execute(query if self.database.sqlite else query.with_for_update()).scalar()
        if lot is None:
            return []
        where = (PENDING.c.experiment == experiment, PENDING.c.stream == stream, PENDING.c.lot == lot)
        for row in connection.execute(select(PENDING).where(*where)).all():
            shown = self.batch_keys.show(lot_key(experiment, stream, lot), row.payload)
            hidden = self.batch_keys.hide(lot_key(experiment, stream, lot + 1), shown)
            connection.execute(
                update(PENDING).where(*where, PENDING.c.key == row.key).values(lot=lot + 1, payload=hidden)
            )
        connection.execute(update(STREAMS).where(*this).values(lot=lot + 1))
        return [lot_key(experiment, stream, lot)]

    def give_up(self) -> int:
        """Delete whatever is not released yet, and all that waits; how many batches."""
        unfinished = BATCHES.c.state.in_(("open", "closed", "ready"))
        with self.database.write() as connection:
            count = connection.execute(update(BATCHES).where(unfinished).values(state="cancelled")).rowcount
            connection.execute(update(OFFERS).values(open=False))
            for table in (PENDING, SUMS, STREAMS, POOLS, PARTS, ISSUED, HOLDERS):
                connection.execute(delete(table))
            connection.execute(update(GROUPS).values(open=False))
        return int(count)

    def give(self, experiment: str, number: int) -> None:
        """The analyzer is given a batch's answer."""
        this = (BATCHES.c.experiment == experiment, BATCHES.c.number == number)
        with self.database.write() as connection:
            connection.execute(update(BATCHES).where(*this).values(given=True))

    def given_out(self, experiment: str, number: int) -> bool:
        """Whether the analyzer was given a batch's answer, or there is none to give."""
        query = select(BATCHES.c.given, BATCHES.c.shares)
        with self.database.read() as connection:
            row = connection.execute(
                query.where(BATCHES.c.experiment == experiment, BATCHES.c.number == number)
            ).first()
        return row is None or not row.shares or bool(row.given)

    @property
    def answers(self) -> int:
        """How many answers this store has given."""
        with self.database.read() as connection:
            return int(connection.execute(select(ANSWERS.c.number)).scalar_one())

    # Waiting

    def put_waiting(self, connection: Connection, arrivals: Sequence[Arrival]) -> None:
        """Write accepted reports, each under the key of its stream's lot, in no order."""
        rows = []
        for experiment, stream in sorted({(arrival.experiment, arrival.stream) for arrival in arrivals}):
            lot = self._lot(connection, experiment, stream)
            for arrival in arrivals:
                if (arrival.experiment, arrival.stream) == (experiment, stream):
                    payload = arrival.name + arrival.seed + arrival.sealed
                    rows.append(
                        {
                            "experiment": experiment,
                            "stream": stream,
                            "key": secrets.token_bytes(16),
                            "lot": lot,
                            "configuration": arrival.configuration,
                            "settling": NOT_SETTLING,
                            "payload": self.batch_keys.hide(lot_key(experiment, stream, lot), payload),
                        }
                    )
        if rows:
            connection.execute(insert(PENDING), rows)

    def _lot(self, connection: Connection, experiment: str, stream: str) -> int:
        this = (STREAMS.c.experiment == experiment, STREAMS.c.stream == stream)
        query = select(STREAMS.c.lot).where(*this)
        lot = connection.execute(query if self.database.sqlite else query.with_for_update(read=True)).scalar()
        if lot is None:
            row = {"experiment": experiment, "stream": stream, "lot": 0}
            connection.execute(self.database.insert(STREAMS).values(row).on_conflict_do_nothing())
            return 0
        return int(lot)

    def waiting(self, connection: Connection, experiment: str) -> dict[str, int]:
        """How many reports wait in each stream, those that are being settled too."""
        query = select(PENDING.c.stream, func.count()).where(PENDING.c.experiment == experiment)
        return {row[0]: row[1] for row in connection.execute(query.group_by(PENDING.c.stream))}

    def waiting_configurations(self, experiment: str) -> list[bytes]:
        """The configurations that reports wait under: their keys are still needed."""
        query = select(PENDING.c.configuration).where(PENDING.c.experiment == experiment).distinct()
        with self.database.read() as connection:
            return list(connection.execute(query).scalars())

    def refused(self, experiment: str) -> int:
        """How many reports the analyzer could not count."""
        with self.database.read() as connection:
            query = select(TOTALS.c.refused).where(TOTALS.c.experiment == experiment)
            return int(connection.execute(query).scalar() or 0)

    def tidy_keys(self) -> int:
        """Destroy the keys that nothing here needs: a crash may have come between a commit and their end; how many.

        One that was made a moment ago may belong to a transaction that is not committed yet.
        """
        old = self.batch_keys.names(older_than=TIDY_SECONDS)
        if not old:
            return 0
        with self.database.read() as connection:
            needed = {sum_key(*row) for row in connection.execute(select(SUMS.c.experiment, SUMS.c.batch))}
            lots = select(PENDING.c.experiment, PENDING.c.stream, PENDING.c.lot).distinct()
            needed |= {lot_key(*row) for row in connection.execute(lots)}
            current = select(STREAMS.c.experiment, STREAMS.c.stream, STREAMS.c.lot)
            needed |= {lot_key(*row) for row in connection.execute(current)}
        orphans = [name for name in old if name not in needed]
        self.batch_keys.destroy(orphans)
        return len(orphans)

    def drop_sums(self, connection: Connection, experiment: str, batches: Sequence[int], everything: bool) -> list[str]:
        """Delete what is held of batches that give nothing out; the names of their keys.

        What waits for them alone goes with them: under devices, whose reports fit no other batch, or with `everything`.
        """
        group = self._lock_group(connection, experiment)
        if group is not None and group.open and (everything or {*batches} & {*json.loads(group.batches)}):
            # What it was for is gone: its reports wait again, and an answer that still comes counts nobody.
            settling = (PENDING.c.experiment == experiment, PENDING.c.settling == group.number)
            connection.execute(update(PENDING).where(*settling).values(settling=NOT_SETTLING))
            connection.execute(update(GROUPS).where(GROUPS.c.experiment == experiment).values(open=False))
        dropped = [SUMS.c.experiment == experiment] + ([] if everything else [SUMS.c.batch.in_(batches)])
        connection.execute(delete(SUMS).where(*dropped))
        gone = [sum_key(experiment, batch) for batch in batches]
        if everything:
            gone = [name for name in self.batch_keys.names() if name.startswith(f"{experiment}.")]
        where = [PENDING.c.experiment == experiment]
        lots = [STREAMS.c.experiment == experiment]
        if not everything:
            query = select(BATCHES.c.stream).where(
                BATCHES.c.experiment == experiment, BATCHES.c.number.in_(batches), BATCHES.c.shares == "devices"
            )
            own = list(connection.execute(query).scalars())
            where.append(PENDING.c.stream.in_(own))
            lots.append(STREAMS.c.stream.in_(own))
        connection.execute(delete(PENDING).where(*where))
        query = select(STREAMS.c.stream, STREAMS.c.lot).where(*lots)
        return gone + [lot_key(experiment, stream, lot) for stream, lot in connection.execute(query)]
