"""Of what the front keeps, batches on their way out: how full they are, closing, releasing, deleting."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from croupier.noise import Source
from croupier.service.shuffling import random_order, without_copies
from croupier.service.store.batch_keys import BatchKeys
from croupier.service.store.database import Database
from croupier.service.store.intake import close_offers
from croupier.service.store.schema import (
    BATCHES,
    OFFERS,
    PARTS,
    POOLS,
    TOTALS,
    Closing,
    Standing,
    in_block_of,
    part_place,
    pool_place,
)
from croupier.service.store.vault import Vault

MOST_NUMBER = 2**32
PART_BYTES = 2**22
"""A release is read in parts of at most this length."""

# Built once: putting a statement together takes longer than running it.
_STANDINGS = (
    select(*(BATCHES.c[name] for name in ("number", "users", "received", "state", "expires", "turns")))
    .where(BATCHES.c.experiment == bindparam("e"), BATCHES.c.number >= bindparam("since"))
    .order_by(BATCHES.c.number)
    .limit(bindparam("most"))
)
PLAYS = (
    select(OFFERS.c.assigned, OFFERS.c.accepted)
    .where(OFFERS.c.experiment == bindparam("e"), OFFERS.c.open)
    .union_all(select(TOTALS.c.assigned, TOTALS.c.accepted).where(TOTALS.c.experiment == bindparam("e")))
)
NOT_GIVEN = (BATCHES.c.shares != "") & BATCHES.c.state.in_(("closed", "ready")) & ~BATCHES.c.given
"""Batches in shares whose answer nobody has seen."""
_FULL = select(BATCHES.c.experiment, BATCHES.c.number, BATCHES.c.shares).where(BATCHES.c.state == "closed")


@dataclass(frozen=True)
class Dropped:
    """What a transaction deleted: how many batches, and the names of keys that nothing needs once it is committed."""

    batches: int
    keys: list[str]


class Outbox:
    """Batches and the messages of those that are not yet released."""

    database: Database
    source: Source
    vault: Vault
    batch_keys: BatchKeys
    _unscrubbed = False

    def standings(self, experiment: str, since: int = 0, most: int = MOST_NUMBER) -> list[Standing]:
        """The next batches from a number on, and how full they are."""
        names = {"e": experiment, "since": since, "most": most}
        with self.database.read() as connection:
            return [Standing(*row) for row in connection.execute(_STANDINGS, names)]

    def plays(self, experiment: str) -> tuple[int, int]:
        """Turns given out so far, and reports accepted."""
        with self.database.read() as connection:
            rows = connection.execute(PLAYS, {"e": experiment}).all()
        return sum(row.assigned for row in rows), sum(row.accepted for row in rows)

    def full(self) -> list[tuple[str, int, bool]]:
        """The batches that have all their reports and are not ready yet, and whether those are in shares."""
        with self.database.read() as connection:
            return [(row.experiment, row.number, bool(row.shares)) for row in connection.execute(_FULL)]

    def batch(self, experiment: str, number: int) -> tuple[bytes, str] | None:
        """What a batch is pinned to, and its mechanism; None when it was never opened."""
        query = select(BATCHES.c.configuration, BATCHES.c.mechanism)
        with self.database.read() as connection:
            where = (BATCHES.c.experiment == experiment, BATCHES.c.number == number)
            row = connection.execute(query.where(*where)).first()
        return None if row is None else (row.configuration, row.mechanism)

    def claim(self, experiment: str, number: int, now: float, until: float) -> bool:
        """Whether this worker may close a full batch; others leave it alone until then."""
        this = (BATCHES.c.experiment == experiment, BATCHES.c.number == number)
        free = (BATCHES.c.state == "closed", BATCHES.c.claimed <= now)
        with self.database.write() as connection:
            return connection.execute(update(BATCHES).where(*this, *free).values(claimed=until)).rowcount == 1

    def close_batch(
        self, experiment: str, number: int, receipt: Callable[[Closing], str], own: Sequence[bytes] = ()
    ) -> bool:
        """Mix a full batch's messages and this server's `own` into a uniformly random order, and make them ready to
        leave, in one step. False when another worker does it, or has.
        """
        this = (BATCHES.c.experiment == experiment, BATCHES.c.number == number)
        query = select(BATCHES).where(*this, BATCHES.c.state == "closed")
        with self.database.write() as connection:
            locked = connection.execute(self.database.locked(query, skip_locked=True))
            batch = locked.mappings().first()
            if batch is None:
                return False
            length, where = batch["length"], (POOLS.c.experiment == experiment, POOLS.c.batch == number)
            pools = b"".join(
                self.vault.show(experiment, number, pool_place(row.key), row.payload)
                for row in connection.execute(select(POOLS.c.key, POOLS.c.payload).where(*where))
            ) + b"".join(own)
            # Rows of an array, not objects: a batch may hold millions of messages.
            messages = without_copies(np.frombuffer(pools, dtype=np.uint8).reshape(-1, length))
            order = random_order(len(messages), self.source)
            digest, step, count = hashlib.sha256(), max(1, PART_BYTES // length), 0
            for start in range(0, len(order), step):
                part = messages[order[start : start + step]].tobytes()
                digest.update(part)
                hidden = self.vault.hide(experiment, number, part_place(count), part)
                row = {"experiment": experiment, "batch": number, "part": count, "payload": hidden}
                connection.execute(insert(PARTS).values(row))
                count += 1
            closing = Closing(
                experiment,
                number,
                batch["hash"],
                batch["configuration"],
                batch["received"],
                len(messages),
                length,
                count,
                digest.digest(),
                in_block_of(batch),
            )
            connection.execute(delete(POOLS).where(*where))
            connection.execute(update(BATCHES).where(*this).values(state="ready", receipt=receipt(closing)))
        return True

    def receipt(self, experiment: str, number: int) -> tuple[str, str | None] | None:
        """A batch's state, and its receipt once it is ready."""
        query = select(BATCHES.c.state, BATCHES.c.receipt)
        with self.database.read() as connection:
            row = connection.execute(
                query.where(BATCHES.c.experiment == experiment, BATCHES.c.number == number)
            ).first()
        return None if row is None else (row.state, row.receipt)

    def part(self, experiment: str, number: int, part: int) -> bytes | None:
        """One part of a released batch; asking again gives the same bytes."""
        where = (PARTS.c.experiment == experiment, PARTS.c.batch == number, PARTS.c.part == part)
        with self.database.read() as connection:
            hidden = connection.execute(select(PARTS.c.payload).where(*where)).scalar()
        return None if hidden is None else self.vault.show(experiment, number, part_place(part), hidden)

    def acknowledge(self, experiment: str, number: int) -> None:
        """The analyzer has the batch: its messages are deleted. Saying so twice changes nothing."""
        with self.database.write() as connection:
            changed = connection.execute(
                update(BATCHES)
                .where(BATCHES.c.experiment == experiment, BATCHES.c.number == number, BATCHES.c.state == "ready")
                .values(state="released")
            ).rowcount
            if changed:
                connection.execute(delete(PARTS).where(PARTS.c.experiment == experiment, PARTS.c.batch == number))
        self._scrub(changed)

    def cancel(self, experiment: str, number: int) -> None:
        """Delete a batch that is open, or in shares one whose answer was not given: nothing of it will be released."""
        with self.database.write() as connection:
            this = (BATCHES.c.experiment == experiment) & (BATCHES.c.number == number)
            dropped = self._drop(connection, "cancelled", this, (BATCHES.c.state == "open") | NOT_GIVEN)
        self._forget(dropped)

    def expire(self, now: float) -> int:
        """Delete the batches whose time is over and that are not full; returns how many."""
        late = (BATCHES.c.expires <= now) & (BATCHES.c.shares != "two-servers") & BATCHES.c.block.is_(None)
        with self.database.read() as connection:
            if connection.execute(select(BATCHES.c.number).where(late, BATCHES.c.state == "open")).first() is None:
                return 0
        with self.database.write() as connection:
            dropped = self._drop(connection, "expired", late)
        return self._forget(dropped)

    def drop_sums(self, connection: Connection, experiment: str, batches: Sequence[int], everything: bool) -> list[str]:
        """See `ShareGroups.drop_sums`."""
        raise AssertionError("a store has sums of shares, too")

    def _forget(self, dropped: Dropped) -> int:
        """What a committed transaction has dropped is destroyed for good; how many batches that were."""
        if dropped.keys:
            self.batch_keys.destroy(dropped.keys)
        self._scrub(dropped.batches)
        return dropped.batches

    def _scrub(self, gone: int) -> None:
        if gone or self._unscrubbed:
            self._unscrubbed = not self.database.scrub(["parts", "pools", "pending", "sums"])

    def _drop(self, connection: Connection, state: str, which: Any, such: Any = BATCHES.c.state == "open") -> Dropped:
        query = select(BATCHES.c.experiment, BATCHES.c.number).where(which, such)
        # In one order everywhere, so that no two transactions wait for each other.
        query = query.order_by(BATCHES.c.experiment, BATCHES.c.number)
        batches = connection.execute(self.database.locked(query)).all()
        dropped: dict[str, set[int]] = defaultdict(set)
        for experiment, number in batches:
            dropped[experiment].add(number)
            connection.execute(
                update(BATCHES)
                .where(BATCHES.c.experiment == experiment, BATCHES.c.number == number)
                .values(state=state, receipt=None)
            )
            connection.execute(delete(POOLS).where(POOLS.c.experiment == experiment, POOLS.c.batch == number))
        for experiment, numbers in dropped.items():
            close_offers(connection, experiment, numbers)
        keys = [
            key
            for experiment, numbers in dropped.items()
            for key in self.drop_sums(connection, experiment, sorted(numbers), everything=False)
        ]
        return Dropped(len(batches), keys)
