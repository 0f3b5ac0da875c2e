"""What the front keeps: experiments, offers, batches, and the sealed messages of batches not yet released."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from croupier.noise import Source
from croupier.service.dealing import deal
from croupier.service.store.batch_keys import BatchKeys
from croupier.service.store.database import Database, StoreProblem
from croupier.service.store.experiments import Experiments
from croupier.service.store.intake import Intake
from croupier.service.store.outbox import PLAYS, Dropped, Outbox
from croupier.service.store.schema import (
    BATCHES,
    EXPERIMENTS,
    HOLDERS,
    ISSUED,
    OFFERS,
    SEALS,
    SPENT,
    Arrival,
    OpenOffer,
    steps,
)
from croupier.service.store.share_sums import ShareSums
from croupier.service.store.vault import Vault

# Built once: putting a statement together takes longer than running it.
_OPEN_OFFERS = select(OFFERS).where(OFFERS.c.experiment == bindparam("e"), OFFERS.c.open)
_LOCK_OFFERS = _OPEN_OFFERS.order_by(OFFERS.c.number).with_for_update()
_KNOWN_OFFERS = select(OFFERS.c.number).where(
    OFFERS.c.experiment == bindparam("e"), OFFERS.c.number.in_(bindparam("numbers", expanding=True))
)
_OPEN_BATCHES = select(BATCHES.c.number, BATCHES.c.users, BATCHES.c.received, BATCHES.c.shares).where(
    BATCHES.c.experiment == bindparam("e"),
    BATCHES.c.state == "open",
    # With servers' noise a batch that has too few reports at its deadline goes on.
    (BATCHES.c.expires.is_(None)) | (BATCHES.c.expires > bindparam("now")) | (BATCHES.c.shares == "two-servers"),
)
_TURNS_OUT = (
    select(OFFERS.c.stream, func.sum(ISSUED.c.open).label("open"))
    .join(OFFERS, (OFFERS.c.experiment == ISSUED.c.experiment) & (OFFERS.c.number == ISSUED.c.offer))
    .where(ISSUED.c.experiment == bindparam("e"), ISSUED.c.due > bindparam("now"), ISSUED.c.due <= bindparam("latest"))
    .group_by(OFFERS.c.stream)
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


GUESSED = 20
"""What is guessed of how many turns are reported counts like so many reports."""
LEAST_REPORTING = 0.25
"""However few report, no more than four turns are given out for a report that is missing."""


def expected_turns(missing: int, reporting: float) -> int:
    """How many turns bring so many reports, or a few more, where this share of them is reported.

    Three standard deviations more than on average, since who is short of some waits until turns are overdue: what is
    too much is in the arm's next batch.

    >>> expected_turns(32, 1.0), expected_turns(32, 0.8), expected_turns(0, 0.8)
    (32, 50, 0)
    """
    return math.ceil((missing + 3.0 * math.sqrt(max(missing, 0) * (1.0 - reporting))) / reporting)


class FrontStore(Experiments, ShareSums, Outbox):
    """Experiments, offers, batches, and the messages or shares of batches that are open.

    `batch_keys` is the directory of keys that live as long as a batch; None keeps them in memory.
    """

    def __init__(self, url: str, source: Source, key: bytes, batch_keys: Path | None = None) -> None:
        self.database, self.source, self.vault = Database(url), source, Vault(key)
        self.batch_keys = BatchKeys(batch_keys)
        self.database.migrate(steps(self.vault), BATCHES.name)
        with self.database.read() as connection:
            known = connection.execute(select(SEALS.c.mark)).scalar()
        if known != self.vault.own_mark:
            self.close()
            raise StoreProblem(f"the store {self.database.name} was begun with another `store` key than this one")
        self._intake = Intake(self.database, source, self.vault, self.put_waiting)
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

    def assign(
        self, experiment: str, holders: Sequence[bytes | None], *, now: float, due: int, ahead: float, spare: int
    ) -> list[tuple[int, str] | str]:
        """Give out a turn each, or a word why not: by the odds of the offers that have turns to give.

        None is dealt before those are known that it was opened with. An offer gives out `ahead` times as many turns as
        its batch has users, and `spare` more: those that were reported and those that are not overdue count. In shares
        with servers' noise no report comes too late for its arm: as many are given out as are expected to fit. The
        holder of a ticket has one turn at a time: who asks again before it is due is given the same, and who has
        reported is `not-admitted`.
        """
        with self._intake.lock, self.database.write() as connection:
            rooms = self._rooms(connection, experiment, now, due, ahead, spare)
            marks = [None if holder is None else self.vault.mark(b"token", holder) for holder in holders]
            known = [mark for mark in marks if mark is not None]
            held = {row.mark: row.offer for row in connection.execute(_HELD, {"marks": known, "now": now})}
            spent = set(connection.execute(_REPORTED, {"marks": known}).scalars())
            given: Counter[int] = Counter()
            answers: list[tuple[int, str] | str] = []
            for mark in marks:
                if mark in spent:
                    answers.append("not-admitted")
                    continue
                number = None if mark is None else held.get(mark)
                if number not in rooms:
                    number = deal({at: room.odds for at, room in rooms.items() if room.turns > 0}, self.source)
                    if number is not None:
                        rooms[number].turns -= 1
                        given[number] += 1
                    if mark is not None and number is not None:
                        held[mark] = number
                        connection.execute(self._hold, {"mark": mark, "offer": number, "due": due})
                answers.append("nothing-open" if number is None else (number, rooms[number].envelope))
            for number, turns in given.items():
                row = {"experiment": experiment, "offer": number, "due": due, "open": turns}
                connection.execute(self._issue, row)
                connection.execute(_COUNT_GIVEN, {"e": experiment, "o": number, "k": turns})
        return answers

    def _rooms(
        self, connection: Connection, experiment: str, now: float, due: int, ahead: float, spare: int
    ) -> dict[int, OpenOffer]:
        # Turns that are due much later than any can be were given out before a clock was set back.
        names = {"e": experiment, "now": now, "latest": 2 * due - int(now)}
        offers = connection.execute(_OPEN_OFFERS if self.database.sqlite else _LOCK_OFFERS, names).all()
        open_batches = {row.number: row for row in connection.execute(_OPEN_BATCHES, names)}
        out = Counter({row.stream: int(row.open) for row in connection.execute(_TURNS_OUT, names)})
        waiting = self.waiting(connection, experiment)
        reporting = self._reporting(connection, experiment, out.total(), ahead)

        def places(offer: Any) -> int:
            """How many turns may be out: of each batch as many as are missing, and more for those who stay silent."""
            turns = []
            for batch in (open_batches[number] for number in json.loads(offer.batches)):
                missing = batch.users - batch.received - waiting.get(offer.stream, 0)
                if batch.shares == "two-servers":
                    turns.append(expected_turns(missing, reporting))
                else:
                    turns.append(int(ahead * batch.users) + spare - batch.users + missing)
            return min(turns)

        awaited = {offer.number: set(json.loads(offer.together)) for offer in offers}
        missing = set().union(*awaited.values()) - {offer.number for offer in offers}
        if missing:
            missing -= set(connection.execute(_KNOWN_OFFERS, names | {"numbers": sorted(missing)}).scalars())
        rooms = {}
        for offer in offers:
            if all(number in open_batches for number in json.loads(offer.batches)):
                turns = 0 if awaited[offer.number] & missing else places(offer) - out[offer.stream]
                rooms[offer.number] = OpenOffer(offer.envelope, offer.odds, turns)
        return rooms

    def _reporting(self, connection: Connection, experiment: str, out: int, ahead: float) -> float:
        """The share of turns that were reported, of those that are not out any more; at first one in `ahead`."""
        rows = connection.execute(PLAYS, {"e": experiment}).all()
        over, reported = int(sum(row.assigned for row in rows)) - out, int(sum(row.accepted for row in rows))
        return min(1.0, max(LEAST_REPORTING, (reported + GUESSED) / (over + ahead * GUESSED)))

    def accept(self, arrivals: Sequence[Arrival]) -> list[str]:
        """Take a group of reports in one transaction; see `Intake.accept`."""
        return self._intake.accept(arrivals)

    # Batches on their way out

    def finish(self, experiment: str) -> None:
        """The experiment has ended: whatever is open is deleted."""
        with self.database.write() as connection:
            connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.name == experiment).values(finished=True))
            dropped = self._drop(connection, "cancelled", BATCHES.c.experiment == experiment)
            keys = self.drop_sums(connection, experiment, (), everything=True)
        self._forget(Dropped(dropped.batches, dropped.keys + keys))

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
