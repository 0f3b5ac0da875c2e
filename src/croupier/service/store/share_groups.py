"""Of what the front keeps, the group of reports in shares that is being settled.

The analyzer settles one group of an experiment at a time. Only then the front adds its shares of the accepted ones to
their batches' running sums, and deletes their seeds, in one transaction.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from croupier.service.groups import Reason, counted
from croupier.service.store.intake import close_offers
from croupier.service.store.schema import (
    ANSWERS,
    BATCHES,
    BLOCKS,
    EPOCHS,
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
)
from croupier.service.store.share_sums import ShareSums, sum_key
from croupier.service.store.share_waiting import NOT_SETTLING, Waiting, lot_key
from croupier.validity.shares import Ring

_WAITING = (
    select(PENDING.c.stream, PENDING.c.lot, func.count().label("waiting"))
    .where(PENDING.c.experiment == bindparam("e"), PENDING.c.settling == NOT_SETTLING)
    .group_by(PENDING.c.stream, PENDING.c.lot)
)
_LOTS = select(BLOCKS.c.number, BLOCKS.c.lot).where(
    BLOCKS.c.experiment == bindparam("e"), BLOCKS.c.state.in_(("open", "cut")), BLOCKS.c.shares == "two-servers"
)
ANY_LOT = 2**62


@dataclass(frozen=True)
class Choice:
    """Reports that can be settled now: their stream, its batches, how many, and up to which lot."""

    stream: str
    batches: list[int]
    count: int
    lot: int


@dataclass(frozen=True)
class Chosen:
    """A group as the front has it: its number, its stream, the batches that it is for, and its reports."""

    number: int
    stream: str
    batches: tuple[int, ...]
    reports: tuple[Waiting, ...]


@dataclass(frozen=True)
class Counting:
    """What becomes of a group: why reports do not count, and what the others add to each batch."""

    reasons: Sequence[Reason | None]
    added: Sequence[tuple[Ring, Sequence[int]]]


class ShareGroups(ShareSums):
    """Groups of reports, from the moment they are chosen until they are in their batches' sums; and their end."""

    def group(self, experiment: str, most: int) -> Chosen | None:
        """The group that is being settled, or a new one: reports of one stream that its open batches have room for.

        Asked again it is the same, until it is settled.
        """
        with self.database.write() as connection:
            row = self._lock_group(connection, experiment) or self._first_group(connection, experiment)
            if not row.open:
                choice = self._choose(connection, experiment)
                if choice is None:
                    return None
                # Never one that was used: a front that was restored would else repeat what the analyzer knows.
                number = secrets.randbelow(2**31)
                row = self._begin_group(connection, experiment, number, choice, most)
            chosen = self._chosen(connection, row)
            if not chosen.reports:
                connection.execute(update(GROUPS).where(GROUPS.c.experiment == experiment).values(open=False))
        return chosen if chosen.reports else None

    def _chosen(self, connection: Connection, row: Any) -> Chosen:
        reports = self._settling(connection, row.experiment, row.number, row.stream)
        return Chosen(row.number, row.stream, tuple(json.loads(row.batches)), tuple(reports))

    def _lock_group(self, connection: Connection, experiment: str) -> Any:
        query = select(GROUPS).where(GROUPS.c.experiment == experiment)
        return connection.execute(self.database.locked(query)).first()

    def _first_group(self, connection: Connection, experiment: str) -> Any:
        """A row to lock before the first group is chosen: two who ask at the same moment would else choose one each."""
        row = {"experiment": experiment, "number": NOT_SETTLING, "open": False, "stream": "", "batches": "[]"}
        connection.execute(self.database.insert(GROUPS).on_conflict_do_nothing(), row)
        return self._lock_group(connection, experiment)

    def _choose(self, connection: Connection, experiment: str) -> Choice | None:
        """The stream with the most reports that can be settled now.

        In a block of two servers that are all that came before its cut; else as many as its batches have room for.
        """
        waiting = connection.execute(_WAITING, {"e": experiment}).all()
        if not waiting:
            return None
        lots = {row.number: row.lot for row in connection.execute(_LOTS, {"e": experiment})}
        offers = select(OFFERS.c.stream, OFFERS.c.batches, OFFERS.c.block)
        ready = []
        for stream, listed, block in connection.execute(offers.where(OFFERS.c.experiment == experiment, OFFERS.c.open)):
            batches, lot = json.loads(listed), lots.get(block, ANY_LOT)
            count = sum(row.waiting for row in waiting if row.stream == stream and row.lot <= lot)
            if count:
                room = self._room(connection, experiment, batches, any_number=block in lots)
                ready.append(Choice(stream, batches, min(count, room), lot))
        best = max(ready, key=lambda choice: choice.count, default=None)
        return best if best is not None and best.count else None

    def _room(self, connection: Connection, experiment: str, batches: Sequence[int], *, any_number: bool) -> int:
        query = select(BATCHES.c.users, BATCHES.c.received).where(
            BATCHES.c.experiment == experiment,
            BATCHES.c.number.in_(batches),
            BATCHES.c.state == "open",
            BATCHES.c.shares != "",
        )
        rows = connection.execute(query).all()
        if len(rows) < len(batches):
            return 0
        return ANY_LOT if any_number else min(row.users - row.received for row in rows)

    def _begin_group(
        self,
        connection: Connection,
        experiment: str,
        number: int,
        choice: Choice,
        most: int,
    ) -> Any:
        waits = (
            PENDING.c.experiment == experiment,
            PENDING.c.stream == choice.stream,
            PENDING.c.lot <= choice.lot,
            PENDING.c.settling == NOT_SETTLING,
        )
        # By name, not by a query within: of a table that fills so fast PostgreSQL knows too little to plan that well.
        some = connection.execute(select(PENDING.c.key).where(*waits).limit(min(choice.count, most))).scalars().all()
        chosen = update(PENDING).where(*waits, self.database.among(PENDING.c.key, "keys"))
        connection.execute(chosen.values(settling=number), {"keys": some})
        row = {"number": number, "open": True, "stream": choice.stream, "batches": json.dumps(choice.batches)}
        connection.execute(update(GROUPS).where(GROUPS.c.experiment == experiment).values(row))
        return self._lock_group(connection, experiment)

    def settle(self, experiment: str, number: int, count: Callable[[Chosen], Counting]) -> int:
        """Add what `count` makes of a group to its batches, and delete its reports; how many of them count.

        A group that is settled already stays so.
        """
        with self.database.write() as connection:
            row = self._lock_group(connection, experiment)
            if row is None or row.number != number or not row.open:
                return 0
            chosen = self._chosen(connection, row)
            if self._all_open(connection, experiment, chosen.batches):
                counting = count(chosen)
            else:
                counting = Counting([Reason.ENDED] * len(chosen.reports), ())
            verdicts = zip(chosen.reports, counting.reasons, strict=True)
            good = [report for report, reason in verdicts if reason is None]
            if good:
                for batch, (ring, more) in zip(chosen.batches, counting.added, strict=True):
                    self._add(connection, experiment, batch, ring, more, good)
                self._count(connection, experiment, chosen.batches, len(good))
            self._refuse(connection, experiment, chosen.batches, counted(counting.reasons))
            connection.execute(delete(PENDING).where(PENDING.c.experiment == experiment, PENDING.c.settling == number))
            connection.execute(update(GROUPS).where(GROUPS.c.experiment == experiment).values(open=False))
            ANSWERS.add(connection)
        return len(good)

    def _refuse(self, connection: Connection, experiment: str, batches: Sequence[int], refused: dict[str, int]) -> None:
        """Count what does not count, in all and for each batch; one group at a time, so nobody else counts now."""
        if not refused:
            return
        rows = [(TOTALS, TOTALS.c.experiment == experiment)]
        rows += [(BATCHES, (BATCHES.c.experiment == experiment) & (BATCHES.c.number == one)) for one in batches]
        for table, this in rows:
            known = json.loads(connection.execute(select(table.c.refused).where(this)).scalar() or "{}")
            total = {word: known.get(word, 0) + refused.get(word, 0) for word in sorted({*known, *refused})}
            connection.execute(update(table).where(this).values(refused=json.dumps(total)))

    def _all_open(self, connection: Connection, experiment: str, batches: Sequence[int]) -> bool:
        """Whether these batches still take reports; nobody gives one up before this transaction ends."""
        query = select(BATCHES.c.state).where(BATCHES.c.experiment == experiment, BATCHES.c.number.in_(batches))
        query = query.order_by(BATCHES.c.number)
        states = connection.execute(self.database.locked(query)).scalars().all()
        return states == ["open"] * len(batches)

    def refused(self, experiment: str) -> dict[str, int]:
        """How many reports did not count, by reason."""
        with self.database.read() as connection:
            query = select(TOTALS.c.refused).where(TOTALS.c.experiment == experiment)
            known: dict[str, int] = json.loads(connection.execute(query).scalar() or "{}")
        return known

    def close_due(self, now: float) -> int:
        """Close the batches whose deadline has come and that have enough reports; how many.

        A batch that a group is being settled for waits for that.
        """
        due = (
            (BATCHES.c.shares == "two-servers")
            & (BATCHES.c.state == "open")
            & (BATCHES.c.expires <= now)
            & (BATCHES.c.received >= BATCHES.c.least)
            & BATCHES.c.block.is_(None)
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

    def close_soon(self, experiment: str, number: int, now: float) -> bool:
        """Let an open batch close with what it has, and give nobody a turn for it; False where it has nothing."""
        this = (BATCHES.c.experiment == experiment, BATCHES.c.number == number)
        with self.database.write() as connection:
            query = select(BATCHES.c.received, BATCHES.c.stream).where(*this, BATCHES.c.state == "open")
            batch = connection.execute(self.database.locked(query)).first()
            if batch is None:
                return True
            if not batch.received and not self.waiting(connection, experiment).get(batch.stream):
                return False
            connection.execute(update(BATCHES).where(*this).values(least=1, expires=now))
            close_offers(connection, experiment, {number})
        return True

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

    def give_up(self) -> int:
        """Delete whatever is not released yet, and all that waits; how many batches."""
        unfinished = BATCHES.c.state.in_(("open", "closed", "ready"))
        with self.database.write() as connection:
            count = connection.execute(update(BATCHES).where(unfinished).values(state="cancelled")).rowcount
            connection.execute(update(OFFERS).values(open=False))
            connection.execute(update(BLOCKS).values(state="over"))
            for table in (PENDING, SUMS, STREAMS, EPOCHS, POOLS, PARTS, ISSUED, HOLDERS):
                connection.execute(delete(table))
            connection.execute(update(GROUPS).values(open=False))
            # Another way begins: the store that was copied is not this one any more.
            ANSWERS.add(connection)
        return int(count)
