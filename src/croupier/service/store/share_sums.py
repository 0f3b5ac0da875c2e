"""Of what the front keeps, the running sums of batches in shares, and their answers.

When a batch closes its sum is replaced by the sum with noise, in one transaction. Until then it lies under a key of its
own that is not in the database (see `batch_keys`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update

from croupier.service.groups import set_hash
from croupier.service.store.answers import Answered
from croupier.service.store.intake import close_offers
from croupier.service.store.schema import ANSWERS, BATCHES, PENDING, STREAMS, SUMS, InBlock, in_block_of
from croupier.service.store.share_waiting import ShareWaiting, Waiting, lot_key
from croupier.validity.shares import Ring

TIDY_SECONDS = 600.0
"""No transaction takes as long: a key that is older and that nothing needs was left behind."""


@dataclass(frozen=True)
class Sum:
    """The sum of a batch's shares so far, encoded, and which reports are in it."""

    total: bytes
    settled: bytes


def sum_key(experiment: str, batch: int) -> str:
    """The name of the key that a batch's running sum lies under."""
    return f"{experiment}.sum.{batch}"


class ShareSums(ShareWaiting):
    """Running sums of open batches, and the answers of closed ones."""

    def _add(
        self,
        connection: Connection,
        experiment: str,
        batch: int,
        ring: Ring,
        more: Sequence[int],
        counted: Sequence[Waiting],
    ) -> None:
        """Add what these reports add up to."""
        known = self._sum(connection, experiment, batch)
        numbers = list(more) if known is None else ring.add(ring.decode(known.total, len(more)), more)
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
        return Sum(self.batch_keys.show(sum_key(experiment, batch), row.payload), row.settled)

    def _count(self, connection: Connection, experiment: str, batches: Sequence[int], counted: int) -> None:
        these = (BATCHES.c.experiment == experiment, BATCHES.c.number.in_(batches))
        connection.execute(update(BATCHES).where(*these).values(received=BATCHES.c.received + counted))
        # Those of a block close together.
        full = BATCHES.c.number.in_(batches) & (BATCHES.c.received >= BATCHES.c.users) & BATCHES.c.block.is_(None)
        self._mark_full(connection, experiment, full)

    def _mark_full(self, connection: Connection, experiment: str, which: Any) -> int:
        """Close the open ones of these batches: nobody is given a turn for them any more."""
        query = select(BATCHES.c.number).where(BATCHES.c.experiment == experiment, BATCHES.c.state == "open", which)
        numbers = set(connection.execute(query).scalars())
        if numbers:
            these = (BATCHES.c.experiment == experiment, BATCHES.c.number.in_(numbers))
            connection.execute(update(BATCHES).where(*these).values(state="closed"))
            close_offers(connection, experiment, numbers)
        return len(numbers)

    def answer(
        self,
        experiment: str,
        number: int,
        add_noise: Callable[[Sum], list[int]],
        receipt: Callable[[Sum, int, dict[str, int], list[int], InBlock | None], str],
    ) -> bool:
        """Replace a closed batch's sum by the sum with noise, signed, in one transaction; then destroy its keys.

        False when another worker has done it. The noise itself is written nowhere.
        """
        this = (BATCHES.c.experiment == experiment, BATCHES.c.number == number)
        gone: list[str] = []
        with self.database.write() as connection:
            query = select(BATCHES).where(*this, BATCHES.c.state == "closed")
            batch = connection.execute(self.database.locked(query, skip_locked=True)).mappings().first()
            if batch is None:
                return False
            known = self._sum(connection, experiment, number)
            assert known is not None
            refused = json.loads(batch["refused"])
            signed = receipt(known, batch["received"], refused, add_noise(known), in_block_of(batch))
            connection.execute(delete(SUMS).where(SUMS.c.experiment == experiment, SUMS.c.batch == number))
            connection.execute(update(BATCHES).where(*this).values(state="ready", receipt=signed))
            ANSWERS.add(connection)
            gone = [sum_key(experiment, number)]
            if batch["block"] is None or batch["shares"] == "devices":
                gone += self._next_lot(connection, experiment, batch["stream"])
        self.batch_keys.destroy(gone)
        return True

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
    def answers(self) -> Answered:
        """The newest answer that this store has given."""
        with self.database.read() as connection:
            return ANSWERS.newest(connection)

    def answer_name(self, number: int) -> bytes | None:
        """The name of an earlier answer, if this store gave it."""
        with self.database.read() as connection:
            return ANSWERS.name(connection, number)

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
            current = select(STREAMS.c.experiment, STREAMS.c.stream, STREAMS.c.lot).where(STREAMS.c.over.is_not(True))
            needed |= {lot_key(*row) for row in connection.execute(current)}
        orphans = [name for name in old if name not in needed]
        self.batch_keys.destroy(orphans)
        return len(orphans)
