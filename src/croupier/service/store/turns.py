"""Of what the front keeps, turns: how many each offer has to give, who holds one, and what is left of a deal."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from croupier.messages.block import due, reporting_share, room
from croupier.noise import Source
from croupier.service.dealing import ByDeals, ByOdds
from croupier.service.store.blocks import Blocks
from croupier.service.store.intake import Intake
from croupier.service.store.outbox import PLAYS
from croupier.service.store.schema import BATCHES, BLOCKS, EPOCHS, HOLDERS, ISSUED, OFFERS, SPENT, OpenOffer
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
_HELD = select(HOLDERS.c.mark, HOLDERS.c.offer, HOLDERS.c.due).where(
    HOLDERS.c.mark.in_(bindparam("marks", expanding=True)), HOLDERS.c.due > bindparam("now")
)
_REPORTED = select(SPENT.c.token).where(SPENT.c.token.in_(bindparam("marks", expanding=True)))
_DEALT_BLOCK = (
    # The newest of the newest epoch: on one that is closed turns are dealt until the next is here.
    select(BLOCKS)
    .where(BLOCKS.c.experiment == bindparam("e"), BLOCKS.c.state.in_(("open", "cut", "closed")))
    .order_by(BLOCKS.c.epoch.desc(), BLOCKS.c.number.desc())
    .limit(1)
)
_EPOCH = select(EPOCHS).where(EPOCHS.c.experiment == bindparam("e"), EPOCHS.c.epoch == bindparam("epoch"))
_OF_EPOCH = (
    select(OFFERS)
    .join(BLOCKS, (BLOCKS.c.experiment == OFFERS.c.experiment) & (BLOCKS.c.number == OFFERS.c.block))
    .where(
        OFFERS.c.experiment == bindparam("e"),
        OFFERS.c.number.in_(bindparam("numbers", expanding=True)),
        OFFERS.c.stream.startswith("arm-"),
        BLOCKS.c.epoch == bindparam("epoch"),
    )
)
_TAKE_BACK = (
    update(ISSUED)
    .where(ISSUED.c.experiment == bindparam("e"), ISSUED.c.offer == bindparam("o"), ISSUED.c.due == bindparam("d"))
    .values(open=ISSUED.c.open - 1, dealt=ISSUED.c.dealt - 1)
)
_COUNT_GIVEN = (
    update(OFFERS)
    .where(OFFERS.c.experiment == bindparam("e"), OFFERS.c.number == bindparam("o"))
    .values(assigned=OFFERS.c.assigned + bindparam("k"))
)

ENDLESS = 2**62


def expected_turns(missing: int, reporting: float) -> int:
    """How many turns bring so many reports, or a few more, where this share of them is reported.

    Three standard deviations more than on average, since who is short of some waits until turns are overdue: what is
    too much is in the arm's next batch.

    >>> expected_turns(32, 1.0), expected_turns(32, 0.8), expected_turns(0, 0.8)
    (32, 50, 0)
    """
    return math.ceil((missing + 3.0 * math.sqrt(max(missing, 0) * (1.0 - reporting))) / reporting)


@dataclass(frozen=True)
class _Asked:
    """Somebody asks for a turn: in which experiment, when, when it would be due, and how far turns run ahead."""

    experiment: str
    now: float
    due: int
    ahead: float
    spare: int

    @property
    def names(self) -> dict[str, Any]:
        # Turns that are due much later than any can be were given out before a clock was set back.
        return {"e": self.experiment, "now": self.now, "latest": 2 * self.due - int(self.now)}


class Turns(Blocks):
    """Turns, from the offers that have some to give."""

    source: Source
    vault: Vault
    _intake: Intake

    def _prepare_turns(self) -> None:
        wish = self.database.insert(ISSUED)
        self._issue = wish.on_conflict_do_update(
            index_elements=["experiment", "offer", "due"],
            set_={name: ISSUED.c[name] + wish.excluded[name] for name in ("open", "dealt")},
        )
        wish = self.database.insert(HOLDERS)
        self._hold = wish.on_conflict_do_update(
            index_elements=["mark"], set_={"offer": wish.excluded.offer, "due": wish.excluded.due}
        )

    def assign(
        self, experiment: str, holders: Sequence[bytes | None], *, now: float, due: int, ahead: float, spare: int
    ) -> list[tuple[int, str] | str]:
        """Give out a turn each, or a word why not: by the odds of the offers that have turns to give.

        None is dealt before those are known that it was opened with. An offer gives out `ahead` times as many turns as
        its batch has users, and `spare` more: those that were reported and those that are not overdue count. In shares
        with servers' noise no report comes too late for its arm: as many are given out as are expected to fit, and in
        blocks everybody is given one, up to as many as the experiment still wants. The holder of a ticket has one turn
        at a time: who asks again before it is due is given the same, and who has reported is `not-admitted`.
        """
        with self._intake.lock, self.database.write() as connection:
            asked = _Asked(experiment, now, due, ahead, spare)
            hand = self._hand(connection, asked)
            marks = [None if holder is None else self.vault.mark(b"token", holder) for holder in holders]
            known = [mark for mark in marks if mark is not None]
            rows = connection.execute(_HELD, {"marks": known, "now": now})
            held: dict[bytes | None, tuple[int, int]] = {row.mark: (row.offer, row.due) for row in rows}
            if hand.epoch is not None:
                self._show_held(connection, experiment, hand, [offer for offer, _ in held.values()])
            spent = set(connection.execute(_REPORTED, {"marks": known}).scalars())
            given: Counter[int] = Counter()
            answers: list[tuple[int, str] | str] = []
            for mark in marks:
                if mark in spent:
                    answers.append("not-admitted")
                    continue
                number, was_due = held.get(mark, (None, due))
                if number not in hand.offers:
                    number = hand.next(self.source)
                    if number is not None:
                        given[number] += 1
                elif was_due != due:
                    # The same turn, which is due later now.
                    connection.execute(_TAKE_BACK, {"e": experiment, "o": number, "d": was_due})
                    row = {"experiment": experiment, "offer": number, "due": due, "open": 1, "dealt": 1}
                    connection.execute(self._issue, row)
                if mark is not None and number is not None and held.get(mark) != (number, due):
                    held[mark] = number, due
                    connection.execute(self._hold, {"mark": mark, "offer": number, "due": due})
                answers.append("nothing-open" if number is None else (number, hand.offers[number].envelope))
            for number, turns in given.items():
                row = {"experiment": experiment, "offer": number, "due": due, "open": turns, "dealt": turns}
                connection.execute(self._issue, row)
                connection.execute(_COUNT_GIVEN, {"e": experiment, "o": number, "k": turns})
            if given and hand.epoch is not None:
                this = (EPOCHS.c.experiment == experiment, EPOCHS.c.epoch == hand.epoch)
                connection.execute(update(EPOCHS).where(*this).values(deal=json.dumps(hand.left)))
        return answers

    def _hand(self, connection: Connection, asked: _Asked) -> ByOdds | ByDeals:
        """What can be dealt now."""
        names = asked.names
        offers = connection.execute(_OPEN_OFFERS if self.database.sqlite else _LOCK_OFFERS, names).all()
        block = None
        if any(offer.block is not None for offer in offers):
            block = connection.execute(_DEALT_BLOCK, names).first()
        if block is None:
            return ByOdds(self._rooms(connection, asked, [offer for offer in offers if offer.block is None]))
        return self._deal(connection, asked, block, [offer for offer in offers if offer.block == block.number])

    def _rooms(self, connection: Connection, asked: _Asked, offers: Sequence[Any]) -> dict[int, OpenOffer]:
        names = asked.names
        open_batches = {row.number: row for row in connection.execute(_OPEN_BATCHES, names)}
        out = self._turns_out(connection, asked)
        waiting = self.waiting(connection, asked.experiment)
        reporting = self._reporting(connection, asked, out.total())

        def places(offer: Any) -> int:
            """How many turns it has to give: as many as its batches miss reports, and more for who stays silent."""
            turns = []
            for batch in (open_batches[number] for number in json.loads(offer.batches)):
                came, gone = batch.received + waiting.get(offer.stream, 0), out[offer.stream]
                if batch.shares == "two-servers":
                    turns.append(expected_turns(batch.users - came, reporting) - gone)
                else:
                    turns.append(room(batch.users, came, gone, asked.ahead, asked.spare))
            return min(turns)

        awaited = {offer.number: set(json.loads(offer.together)) for offer in offers}
        missing = set().union(*awaited.values()) - {offer.number for offer in offers}
        if missing:
            missing -= set(connection.execute(_KNOWN_OFFERS, names | {"numbers": sorted(missing)}).scalars())
        rooms = {}
        for offer in offers:
            if all(number in open_batches for number in json.loads(offer.batches)):
                turns = 0 if awaited[offer.number] & missing else places(offer)
                rooms[offer.number] = OpenOffer(offer.envelope, offer.odds, turns)
        return rooms

    def _deal(self, connection: Connection, asked: _Asked, block: Any, offers: Sequence[Any]) -> ByDeals:
        """The turns of the newest block, of which a deal is under way."""
        if block.shares == "two-servers":
            turns = ENDLESS if block.left is None else self._left(connection, asked, block, offers)
            rooms = {offer.number: OpenOffer(offer.envelope, offer.odds, turns) for offer in offers}
        elif block.state == "open":
            rooms = self._side_by_side(connection, asked, block, self._rooms(connection, asked, offers), offers)
            turns = ENDLESS
        else:
            rooms, turns = {}, 0
        places = {json.loads(offer.batches)[0]: offer.number for offer in offers if offer.number in rooms}
        by_place = {at: places[batch] for at, batch in enumerate(json.loads(block.batches)) if batch in places}
        epoch = connection.execute(_EPOCH, asked.names | {"epoch": block.epoch}).one()
        left = Counter({int(place): count for place, count in json.loads(epoch.deal).items()})
        # The newest epoch is dealt until the experiment wants nothing more.
        return ByDeals(rooms, by_place, left, turns if epoch.until is None else 0, block.epoch)

    def _side_by_side(
        self, connection: Connection, asked: _Asked, block: Any, rooms: dict[int, OpenOffer], offers: Sequence[Any]
    ) -> dict[int, OpenOffer]:
        """Where batches must be full: an arm whose batch is ahead has no turns to give until the others catch up.

        Turns that are out count by how many of them are reported.
        """
        waiting = self.waiting(connection, block.experiment)
        open_to = [batch for batch in self._batches(connection, block) if batch.state == "open"]
        came = [batch.received + waiting.get(batch.stream, 0) for batch in open_to]
        out = self._turns_out(connection, asked)
        reporting = self._reporting(connection, asked, out.total())
        dealt = due(came, [batch.users for batch in open_to], [reporting * out[batch.stream] for batch in open_to])
        wait = {batch.stream for batch, now in zip(open_to, dealt, strict=True) if not now}
        for offer in offers:
            if offer.number in rooms and offer.stream in wait:
                rooms[offer.number].turns = 0
        return rooms

    def _left(self, connection: Connection, asked: _Asked, block: Any, offers: Sequence[Any]) -> int:
        """How many turns bring as many reports as are wanted at all, beyond those that are out.

        However many that are, each batch of an open block gets the least that it can close with.
        """
        waiting = self.waiting(connection, asked.experiment)
        odds = {offer.stream: offer.odds for offer in offers}
        wanted, short = block.left, 0
        for batch in self._batches(connection, block):
            came = batch.received + waiting.get(batch.stream, 0)
            wanted -= came
            if batch.state == "open":
                short = max(short, math.ceil((batch.least - came) / odds.get(batch.stream, 1.0)))
        out = self._turns_out(connection, asked)
        reporting = self._reporting(connection, asked, out.total())
        return expected_turns(max(wanted, short), reporting) - sum(out[stream] for stream in odds)

    def _show_held(self, connection: Connection, experiment: str, hand: ByOdds | ByDeals, held: Iterable[int]) -> None:
        """In blocks of two servers a turn is as good in the next one of its epoch: its holder is shown the same again.

        One of an epoch that has ended is not: the report might come after the last of that epoch was counted.
        """
        names = {"e": experiment, "numbers": [*held], "epoch": hand.epoch}
        for offer in connection.execute(_OF_EPOCH, names):
            hand.offers.setdefault(offer.number, OpenOffer(offer.envelope, offer.odds, 0))

    def _turns_out(self, connection: Connection, asked: _Asked) -> Counter[str]:
        return Counter({row.stream: int(row.open) for row in connection.execute(_TURNS_OUT, asked.names)})

    def _reporting(self, connection: Connection, asked: _Asked, out: int) -> float:
        """The share of turns that were reported, of those that are not out any more; at first one in `ahead`."""
        rows = connection.execute(PLAYS, {"e": asked.experiment}).all()
        over, reported = int(sum(row.assigned for row in rows)) - out, int(sum(row.accepted for row in rows))
        return reporting_share(reported, over, asked.ahead)
