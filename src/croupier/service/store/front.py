"""What the front keeps: experiments, offers, batches, and the sealed messages of batches not yet released."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from croupier.noise import Source
from croupier.noise.source import below
from croupier.programs.records import Head
from croupier.service.shuffling import random_order, without_copies
from croupier.service.store.database import Database, StoreProblem
from croupier.service.store.intake import Intake, close_offers
from croupier.service.store.schema import (
    BATCHES,
    CONFIGURATIONS,
    EXPERIMENTS,
    HEADS,
    HOLDERS,
    ISSUED,
    OFFERS,
    PARTS,
    POOLS,
    SEALS,
    SPENT,
    TOTALS,
    Arrival,
    Closing,
    NewBatch,
    Standing,
    part_place,
    pool_place,
    steps,
)
from croupier.service.store.vault import Vault

MOST_NUMBER = 2**32
PART_BYTES = 2**22
"""A release is read in parts of about this length."""


# Built once: putting a statement together takes longer than running it.
_OPEN_OFFERS = select(OFFERS).where(OFFERS.c.experiment == bindparam("e"), OFFERS.c.open)
_LOCK_OFFERS = _OPEN_OFFERS.order_by(OFFERS.c.number).with_for_update()
_OPEN_BATCHES = select(BATCHES.c.number, BATCHES.c.users, BATCHES.c.received).where(
    BATCHES.c.experiment == bindparam("e"),
    BATCHES.c.state == "open",
    (BATCHES.c.expires.is_(None)) | (BATCHES.c.expires > bindparam("now")),
)
_TURNS_OUT = (
    select(ISSUED.c.offer, func.sum(ISSUED.c.open).label("open"))
    .where(ISSUED.c.experiment == bindparam("e"), ISSUED.c.due > bindparam("now"), ISSUED.c.due <= bindparam("latest"))
    .group_by(ISSUED.c.offer)
)
_HELD = select(HOLDERS.c.mark, HOLDERS.c.offer).where(
    HOLDERS.c.mark.in_(bindparam("marks", expanding=True)), HOLDERS.c.due > bindparam("now")
)
_REPORTED = select(SPENT.c.token).where(SPENT.c.token.in_(bindparam("marks", expanding=True)))
_COUNT_GIVEN = (
    update(OFFERS)
    .where(OFFERS.c.experiment == bindparam("e"), OFFERS.c.number == bindparam("o"))
    .values(assigned=OFFERS.c.assigned + bindparam("k"))
)
_STANDINGS = (
    select(BATCHES.c.number, BATCHES.c.users, BATCHES.c.received, BATCHES.c.state, BATCHES.c.expires)
    .where(BATCHES.c.experiment == bindparam("e"), BATCHES.c.number >= bindparam("since"))
    .order_by(BATCHES.c.number)
    .limit(bindparam("most"))
)
_PLAYS = (
    select(OFFERS.c.assigned, OFFERS.c.accepted)
    .where(OFFERS.c.experiment == bindparam("e"), OFFERS.c.open)
    .union_all(select(TOTALS.c.assigned, TOTALS.c.accepted).where(TOTALS.c.experiment == bindparam("e")))
)
_FINISHED = select(EXPERIMENTS.c.finished).where(EXPERIMENTS.c.name == bindparam("e"))
_LONGEST_UPLOAD = select(EXPERIMENTS.c.longest_upload).where(EXPERIMENTS.c.name == bindparam("e"))
_FULL = select(BATCHES.c.experiment, BATCHES.c.number).where(BATCHES.c.state == "closed")


class FrontStore:
    """Experiments, offers, batches, and the messages of batches that are open."""

    def __init__(self, url: str, source: Source, key: bytes) -> None:
        self.database, self.source, self.vault = Database(url), source, Vault(key)
        self.database.migrate(steps(self.vault), BATCHES.name)
        with self.database.read() as connection:
            known = connection.execute(select(SEALS.c.mark)).scalar()
        if known != self.vault.own_mark:
            self.close()
            raise StoreProblem(f"the store {self.database.name} was begun with another `store` key than this one")
        self._intake = Intake(self.database, source, self.vault)
        self._unscrubbed = False
        wish = self.database.insert(ISSUED)
        self._issue = wish.on_conflict_do_update(
            index_elements=["experiment", "offer", "due"], set_={"open": ISSUED.c.open + wish.excluded.open}
        )
        wish = self.database.insert(HOLDERS)
        self._hold = wish.on_conflict_do_update(
            index_elements=["mark"], set_={"offer": wish.excluded.offer, "due": wish.excluded.due}
        )

    def close(self) -> None:
        self.database.close()

    # Experiments and offers

    def put_configuration(
        self, experiment: str, revision: int, digest: bytes, envelope: str, known: bytes | None
    ) -> bool:
        """Make this the current configuration in the place of the one that was known, by its hash; False when the
        revision is taken by another or an older one, or another than the known one is current now.
        """
        with self.database.write() as connection:
            query = select(EXPERIMENTS.c.hash, EXPERIMENTS.c.revision).where(EXPERIMENTS.c.name == experiment)
            found = connection.execute(query if self.database.sqlite else query.with_for_update()).first()
            if found is not None and found.hash == digest:
                return True
            if (None if found is None else found.hash) != known:
                return False
            if found is not None and revision <= found.revision:
                return False
            row = {"hash": digest, "experiment": experiment, "revision": revision, "envelope": envelope}
            connection.execute(self.database.insert(CONFIGURATIONS).values(row).on_conflict_do_nothing())
            current = {"name": experiment, "hash": digest, "revision": revision}
            if found is None:
                connection.execute(insert(EXPERIMENTS).values(current | {"finished": False}))
            else:
                connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.name == experiment).values(current))
        return True

    def configuration(self, experiment: str, digest: bytes | None = None) -> str | None:
        """The envelope of the current configuration, or of the one with this hash."""
        query = select(CONFIGURATIONS.c.envelope).where(CONFIGURATIONS.c.experiment == experiment)
        if digest is None:
            query = query.join(EXPERIMENTS, EXPERIMENTS.c.hash == CONFIGURATIONS.c.hash)
        else:
            query = query.where(CONFIGURATIONS.c.hash == digest)
        with self.database.read() as connection:
            return connection.execute(query).scalar()

    def put_offer(
        self, experiment: str, number: int, envelope: str, batches: Sequence[NewBatch], upload: int = 0
    ) -> bool:
        """Open an offer and those of its batches that are new; False when either exists with other contents.

        Reports on it have `upload` bytes.
        """
        with self.database.write() as connection:
            known = connection.execute(
                select(OFFERS.c.envelope).where(OFFERS.c.experiment == experiment, OFFERS.c.number == number)
            ).scalar()
            if known is not None:
                return bool(known == envelope)
            for batch in batches:
                row = {"experiment": experiment, "received": 0, "state": "open", "receipt": None} | vars(batch)
                found = connection.execute(
                    select(BATCHES.c.hash, BATCHES.c.state, BATCHES.c.length).where(
                        BATCHES.c.experiment == experiment, BATCHES.c.number == batch.number
                    )
                ).first()
                if found is None:
                    connection.execute(insert(BATCHES).values(row))
                elif (found.hash, found.state, found.length) != (batch.hash, "open", batch.length):
                    connection.rollback()
                    return False
            none = {"experiment": experiment, "assigned": 0, "accepted": 0}
            connection.execute(self.database.insert(TOTALS).values(none).on_conflict_do_nothing())
            connection.execute(
                insert(OFFERS).values(
                    experiment=experiment,
                    number=number,
                    envelope=envelope,
                    batches=json.dumps([batch.number for batch in batches]),
                    open=True,
                    assigned=0,
                    accepted=0,
                )
            )
            shorter = (EXPERIMENTS.c.name == experiment) & (EXPERIMENTS.c.longest_upload < upload)
            connection.execute(update(EXPERIMENTS).where(shorter).values(longest_upload=upload))
        return True

    def longest_upload(self, experiment: str) -> int | None:
        """How long a report on any of its offers is at most, closed ones too; None when the experiment is unknown."""
        with self.database.read() as connection:
            return connection.execute(_LONGEST_UPLOAD, {"e": experiment}).scalar()

    def offer(self, experiment: str, number: int) -> str | None:
        """An offer's envelope."""
        query = select(OFFERS.c.envelope).where(OFFERS.c.experiment == experiment, OFFERS.c.number == number)
        with self.database.read() as connection:
            return connection.execute(query).scalar()

    def put_head(self, experiment: str, head: Head, envelope: str, known: Head) -> bool:
        """Keep the head of an analyzer's log in the place of the one that was known; False when that is another now."""
        this = HEADS.c.experiment == experiment
        row = {"experiment": experiment, "number": head.number, "hash": head.hash, "envelope": envelope}
        with self.database.write() as connection:
            query = select(HEADS.c.number, HEADS.c.hash).where(this)
            found = connection.execute(query if self.database.sqlite else query.with_for_update()).first()
            if (Head() if found is None else Head(*found)) != known:
                return False
            if found is None:
                connection.execute(self.database.insert(HEADS).values(row))
            elif head != known:
                connection.execute(update(HEADS).where(this).values(row))
        return True

    def may_pull(self, experiment: str, batch: int) -> bool:
        """Whether a batch may leave: the one that left last may again, another when a head was kept since."""
        this = HEADS.c.experiment == experiment
        with self.database.write() as connection:
            query = select(HEADS.c.number, HEADS.c.pulled, HEADS.c.pulled_at).where(this)
            found = connection.execute(query if self.database.sqlite else query.with_for_update()).first()
            if found is None or (found.pulled != batch and found.number <= found.pulled_at):
                return False
            if found.pulled != batch:
                connection.execute(update(HEADS).where(this).values(pulled=batch, pulled_at=found.number))
        return True

    def head(self, experiment: str) -> str | None:
        """The envelope of the newest head."""
        with self.database.read() as connection:
            return connection.execute(select(HEADS.c.envelope).where(HEADS.c.experiment == experiment)).scalar()

    def finish(self, experiment: str) -> None:
        """The experiment has ended: whatever is open is deleted."""
        with self.database.write() as connection:
            connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.name == experiment).values(finished=True))
            dropped = self._drop(connection, "cancelled", BATCHES.c.experiment == experiment)
        self._scrub(dropped)

    def finished(self, experiment: str) -> bool | None:
        """Whether it has ended; None when it is unknown."""
        with self.database.read() as connection:
            return connection.execute(_FINISHED, {"e": experiment}).scalar()

    # Turns

    def assign(
        self, experiment: str, holders: Sequence[bytes | None], *, now: float, due: int, ahead: float, spare: int
    ) -> list[tuple[int, str] | str]:
        """Give out a turn each, or a word why not: offers by chance, in proportion to the turns they have to give.

        An offer gives out `ahead` times as many turns as its batch has users, and `spare` more: those that were
        reported and those that are not overdue count. The holder of a ticket has one turn at a
        time: who asks again before it is due is given the same, and who has reported is `not-admitted`.
        """
        with self._intake.lock, self.database.write() as connection:
            rooms = self._rooms(connection, experiment, now, due, ahead, spare)
            marks = [None if one is None else self.vault.mark(b"token", one) for one in holders]
            known = [mark for mark in marks if mark is not None]
            held = {row.mark: row.offer for row in connection.execute(_HELD, {"marks": known, "now": now})}
            spent = set(connection.execute(_REPORTED, {"marks": known}).scalars())
            given: Counter[int] = Counter()
            found: list[tuple[int, str] | str] = []
            for mark in marks:
                if mark in spent:
                    found.append("not-admitted")
                    continue
                number = None if mark is None else held.get(mark)
                if number not in rooms:
                    number = self._drawn(rooms)
                    given.update([] if number is None else [number])
                    if mark is not None and number is not None:
                        held[mark] = number
                        connection.execute(self._hold, {"mark": mark, "offer": number, "due": due})
                found.append("nothing-open" if number is None else (number, rooms[number][0]))
            for number, turns in given.items():
                row = {"experiment": experiment, "offer": number, "due": due, "open": turns}
                connection.execute(self._issue, row)
                connection.execute(_COUNT_GIVEN, {"e": experiment, "o": number, "k": turns})
        return found

    def _drawn(self, rooms: dict[int, tuple[str, int]]) -> int | None:
        """An offer by chance, with one turn less to give."""
        total = sum(room for _, room in rooms.values())
        if total <= 0:
            return None
        at = below(total, self.source)
        for number, (envelope, room) in rooms.items():
            if at < room:
                rooms[number] = (envelope, room - 1)
                return number
            at -= room
        raise AssertionError("a number below the sum is below a part of it")

    def _rooms(
        self, connection: Connection, experiment: str, now: float, due: int, ahead: float, spare: int
    ) -> dict[int, tuple[str, int]]:
        # Turns that are due much later than any can be were given out before a clock was set back.
        names = {"e": experiment, "now": now, "latest": 2 * due - int(now)}
        offers = connection.execute(_OPEN_OFFERS if self.database.sqlite else _LOCK_OFFERS, names).all()
        places = {
            row.number: int(ahead * row.users) + spare - row.received
            for row in connection.execute(_OPEN_BATCHES, names)
        }
        out = {row.offer: int(row.open) for row in connection.execute(_TURNS_OUT, names)}
        rooms = {}
        for offer in offers:
            batches = json.loads(offer.batches)
            if all(number in places for number in batches):
                least = min(places[number] for number in batches)
                rooms[offer.number] = (offer.envelope, max(0, least - out.get(offer.number, 0)))
        return rooms

    def accept(self, arrivals: Sequence[Arrival]) -> list[str]:
        """Take a group of reports in one transaction; see `Intake.accept`."""
        return self._intake.accept(arrivals)

    # Batches on their way out

    def standings(self, experiment: str, since: int = 0, most: int = MOST_NUMBER) -> list[Standing]:
        """The next batches from a number on, and how full they are."""
        names = {"e": experiment, "since": since, "most": most}
        with self.database.read() as connection:
            return [Standing(*row) for row in connection.execute(_STANDINGS, names)]

    def plays(self, experiment: str) -> tuple[int, int]:
        """Turns given out so far, and reports accepted."""
        with self.database.read() as connection:
            found = connection.execute(_PLAYS, {"e": experiment}).all()
        return sum(row.assigned for row in found), sum(row.accepted for row in found)

    def full(self) -> list[tuple[str, int]]:
        """The batches that have all their reports and are not ready yet."""
        with self.database.read() as connection:
            return [(row.experiment, row.number) for row in connection.execute(_FULL)]

    def batch(self, experiment: str, number: int) -> tuple[bytes, str] | None:
        """What a batch is pinned to, and its mechanism; None when it was never opened."""
        query = select(BATCHES.c.configuration, BATCHES.c.mechanism)
        with self.database.read() as connection:
            where = (BATCHES.c.experiment == experiment, BATCHES.c.number == number)
            found = connection.execute(query.where(*where)).first()
        return None if found is None else (found.configuration, found.mechanism)

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
            found = connection.execute(query if self.database.sqlite else query.with_for_update(skip_locked=True))
            batch = found.mappings().first()
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
            )
            connection.execute(delete(POOLS).where(*where))
            connection.execute(update(BATCHES).where(*this).values(state="ready", receipt=receipt(closing)))
        return True

    def receipt(self, experiment: str, number: int) -> tuple[str, str | None] | None:
        """A batch's state, and its receipt once it is ready."""
        query = select(BATCHES.c.state, BATCHES.c.receipt)
        with self.database.read() as connection:
            found = connection.execute(
                query.where(BATCHES.c.experiment == experiment, BATCHES.c.number == number)
            ).first()
        return None if found is None else (found.state, found.receipt)

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
        """Delete an open batch: nothing of it will be released."""
        with self.database.write() as connection:
            one = (BATCHES.c.experiment == experiment) & (BATCHES.c.number == number)
            dropped = self._drop(connection, "cancelled", one)
        self._scrub(dropped)

    def expire(self, now: float) -> int:
        """Delete the batches whose time is over and that are not full; returns how many."""
        late = BATCHES.c.expires <= now
        with self.database.read() as connection:
            if connection.execute(select(BATCHES.c.number).where(late, BATCHES.c.state == "open")).first() is None:
                return 0
        with self.database.write() as connection:
            dropped = self._drop(connection, "expired", late)
        self._scrub(dropped)
        return dropped

    def touch(self) -> None:
        """Write something, to see whether one can."""
        with self.database.write() as connection:
            connection.execute(update(SEALS).values(mark=SEALS.c.mark))

    def prune(self, now: int) -> None:
        """Forget turns that are overdue, and spent tokens whose day has come."""
        with self.database.write() as connection:
            connection.execute(delete(SPENT).where(SPENT.c.expires < now))
            connection.execute(delete(ISSUED).where(ISSUED.c.due < now))
            connection.execute(delete(HOLDERS).where(HOLDERS.c.due < now))
        self._scrub(0)

    def _scrub(self, gone: int) -> None:
        if gone or self._unscrubbed:
            self._unscrubbed = not self.database.scrub(["parts", "pools"])

    def _drop(self, connection: Connection, state: str, which: Any) -> int:
        query = select(BATCHES.c.experiment, BATCHES.c.number).where(which, BATCHES.c.state == "open")
        # In one order everywhere, so that no two transactions wait for each other.
        query = query.order_by(BATCHES.c.experiment, BATCHES.c.number)
        found = connection.execute(query if self.database.sqlite else query.with_for_update()).all()
        dropped: dict[str, set[int]] = defaultdict(set)
        for experiment, number in found:
            dropped[experiment].add(number)
            connection.execute(
                update(BATCHES)
                .where(BATCHES.c.experiment == experiment, BATCHES.c.number == number)
                .values(state=state)
            )
            connection.execute(delete(POOLS).where(POOLS.c.experiment == experiment, POOLS.c.batch == number))
        for experiment, numbers in dropped.items():
            close_offers(connection, experiment, numbers)
        return len(found)
