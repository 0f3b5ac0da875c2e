"""Of what the front keeps, blocks: batches whose turns are dealt by the same odds, and which close at one instant.

With servers' noise a block has every report of its epoch that was accepted between two *cuts*: the cut before it, and
its own. A cut is one transaction for all arms: from then on reports go to the next lot. The block closes when all that
came before the cut is settled, in one transaction too. So no arm's batch ends earlier than another's, whatever crashes.
Where a batch must be full a block closes when all its batches are, and is given up as a whole at its deadline.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from croupier.messages.block import Block
from croupier.noise import Source
from croupier.service.store.intake import end_offers
from croupier.service.store.outbox import Dropped, Outbox
from croupier.service.store.schema import BATCHES, BLOCKS, EPOCHS, EXPERIMENTS, ISSUED, OFFERS, PENDING, STREAMS
from croupier.service.store.share_groups import ShareGroups
from croupier.service.store.share_waiting import lot_key
from croupier.service.store.silent import silent_by_now

CUT, CLOSE, AGAIN, GIVE_UP, FORGET = "cut", "close", "again", "give up", "forget"
"""What can be due for a block."""

# Built once: putting a statement together takes longer than running it.
_GOING = select(BLOCKS).where(BLOCKS.c.state.in_(("open", "cut"))).order_by(BLOCKS.c.experiment, BLOCKS.c.number)
_THIS = select(BLOCKS).where(BLOCKS.c.experiment == bindparam("e"), BLOCKS.c.number == bindparam("b"))
_BATCHES = (
    select(*(BATCHES.c[name] for name in ("number", "users", "received", "least", "state", "stream", "shares")))
    .where(BATCHES.c.experiment == bindparam("e"), BATCHES.c.block == bindparam("b"))
    .order_by(BATCHES.c.number)
)
_WAITING = (
    select(PENDING.c.stream, func.count().label("waiting"))
    .where(
        PENDING.c.experiment == bindparam("e"),
        PENDING.c.stream.in_(bindparam("streams", expanding=True)),
        PENDING.c.lot <= bindparam("lot"),
    )
    .group_by(PENDING.c.stream)
)
_PLAYS = (
    select(OFFERS.c.stream, func.sum(OFFERS.c.assigned).label("dealt"), func.sum(OFFERS.c.accepted).label("accepted"))
    .where(OFFERS.c.experiment == bindparam("e"), OFFERS.c.stream.in_(bindparam("streams", expanding=True)))
    .group_by(OFFERS.c.stream)
)
_OUT = (
    select(OFFERS.c.stream, func.sum(ISSUED.c.open).label("open"))
    .join(OFFERS, (OFFERS.c.experiment == ISSUED.c.experiment) & (OFFERS.c.number == ISSUED.c.offer))
    .where(
        ISSUED.c.experiment == bindparam("e"),
        OFFERS.c.stream.in_(bindparam("streams", expanding=True)),
        ISSUED.c.due > bindparam("now"),
    )
    .group_by(OFFERS.c.stream)
)
_FINISHED = select(EXPERIMENTS.c.finished).where(EXPERIMENTS.c.name == bindparam("e"))
_UNTIL = select(EPOCHS.c.until).where(EPOCHS.c.experiment == bindparam("e"), EPOCHS.c.epoch == bindparam("epoch"))


@dataclass(frozen=True)
class Due:
    """What is to be done with a block, and whether no report of its epoch can come any more."""

    what: str
    over: bool = False


class Blocks(ShareGroups, Outbox):
    """Blocks, from the first of their offers until all their batches are closed."""

    source: Source

    def join_block(
        self, connection: Connection, experiment: str, block: Block, shares: str, expires: float | None, last: float
    ) -> None:
        """A batch of a block was opened; with the last of them the block is open, and its epoch is dealt.

        `last` is when a turn that is given out now can no longer be reported.
        """
        row = {
            "experiment": experiment,
            "number": block.number,
            "epoch": block.epoch,
            "batches": json.dumps(list(block.batches)),
            "users": block.users,
            "left": block.left,
            "shares": shares,
            "state": "coming",
            "lot": 0,
            "expires": expires,
        }
        connection.execute(self.database.insert(BLOCKS).values(row).on_conflict_do_nothing())
        begun = {"experiment": experiment, "epoch": block.epoch, "deal": "{}"}
        connection.execute(self.database.insert(EPOCHS).values(begun).on_conflict_do_nothing())
        # Two of its offers may come at the same moment: the later one sees both.
        names = {"e": experiment, "b": block.number}
        state = connection.execute(self.database.locked(_THIS), names).one().state
        batches = connection.execute(_BATCHES, names).all()
        if state == "coming" and len(batches) == len(block.batches):
            self._open_block(connection, experiment, block, [batch.stream for batch in batches], last)

    def _open_block(
        self, connection: Connection, experiment: str, block: Block, streams: Sequence[str], last: float
    ) -> None:
        lots = select(func.max(STREAMS.c.lot)).where(STREAMS.c.experiment == experiment, STREAMS.c.stream.in_(streams))
        this = (BLOCKS.c.experiment == experiment, BLOCKS.c.number == block.number)
        lot = connection.execute(lots).scalar() or 0
        connection.execute(update(BLOCKS).where(*this).values(state="open", lot=lot))
        # Turns are now dealt in this block: those of blocks that are closed have waited for it.
        closed = select(BLOCKS.c.number).where(BLOCKS.c.experiment == experiment, BLOCKS.c.state == "closed")
        before = (OFFERS.c.block.in_(closed.where(BLOCKS.c.epoch <= block.epoch)), OFFERS.c.open)
        ended = connection.execute(select(OFFERS.c.number).where(OFFERS.c.experiment == experiment, *before))
        end_offers(connection, experiment, list(ended.scalars()))
        older = (EPOCHS.c.experiment == experiment, EPOCHS.c.epoch < block.epoch, EPOCHS.c.until.is_(None))
        connection.execute(update(EPOCHS).where(*older).values(until=last))
        self._wait_for_late(connection, experiment)

    def _wait_for_late(self, connection: Connection, experiment: str) -> None:
        """Blocks of epochs that are not dealt any more have no other deadline than that of their last reports."""
        going = (
            BLOCKS.c.experiment == experiment,
            BLOCKS.c.shares == "two-servers",
            BLOCKS.c.state.in_(("open", "cut")),
        )
        ended = (EPOCHS.c.experiment == BLOCKS.c.experiment) & (EPOCHS.c.epoch == BLOCKS.c.epoch)
        late = select(BLOCKS.c.number, EPOCHS.c.until).join(EPOCHS, ended).where(*going, EPOCHS.c.until.is_not(None))
        for number, until in connection.execute(late).all():
            for table, own in ((BLOCKS, BLOCKS.c.number), (BATCHES, BATCHES.c.block)):
                these = (table.c.experiment == experiment, own == number)
                connection.execute(update(table).where(*these).values(expires=until))

    # How a block goes on

    def advance(self, now: float) -> int:
        """Do with every block what is due; how many batches were given up."""
        with self.database.read() as connection:
            due = [row for row in connection.execute(_GOING).all() if self._due(connection, row, now) is not None]
        return sum(self._advance(row.experiment, row.number, now) for row in due)

    def _advance(self, experiment: str, number: int, now: float) -> int:
        gone = Dropped(0, [])
        with self.database.write() as connection:
            self._lock_group(connection, experiment)
            query = self.database.locked(_THIS)
            block = connection.execute(query, {"e": experiment, "b": number}).first()
            if block is None or block.state not in ("open", "cut"):
                return 0
            if block.shares == "two-servers":
                self._lock_streams(connection, block)
            due = self._due(connection, block, now)
            if due is not None and due.what == CUT:
                self._cut(connection, block, due.over, now)
                # What has come may be settled already.
                block = connection.execute(query, {"e": experiment, "b": number}).one()
                due = self._due(connection, block, now)
            if due is not None:
                gone = self._end(connection, block, due, now)
        return self._forget(gone)

    def _due(self, connection: Connection, block: Any, now: float) -> Due | None:
        batches = [row for row in self._batches(connection, block) if row.state == "open"]
        if not batches:
            return Due(FORGET)
        if block.shares != "two-servers":
            if all(batch.received >= batch.users for batch in batches):
                return Due(CLOSE, over=True)
            return Due(GIVE_UP) if block.expires is not None and block.expires <= now else None
        return self._due_of_two_servers(connection, block, batches, now)

    def _due_of_two_servers(self, connection: Connection, block: Any, batches: Sequence[Any], now: float) -> Due | None:
        waiting = self._came(connection, block, [batch.stream for batch in batches])
        have = [batch.received + waiting[batch.stream] for batch in batches]
        until = connection.execute(_UNTIL, {"e": block.experiment, "epoch": block.epoch}).scalar()
        over = self._is_over(connection, block, batches, until, now)
        full = sum(have) >= block.users
        least = all(came >= batch.least for came, batch in zip(have, batches, strict=True))
        # When no more can come nothing is gained by leaving a few reports out.
        enough = any(have) if over else full or least
        if block.state == "cut":
            if waiting.total():
                return None
            # Some of those who came could not be counted: then others are needed.
            return Due(CLOSE if enough else AGAIN)
        if over:
            return Due(CUT if enough else GIVE_UP, over=True)
        late = block.expires is not None and block.expires <= now
        return Due(CUT) if until is None and (full or (late and least)) else None

    def _is_over(
        self, connection: Connection, block: Any, batches: Sequence[Any], until: float | None, now: float
    ) -> bool:
        """Whether no report of the block's epoch can come any more."""
        if connection.execute(_FINISHED, {"e": block.experiment}).scalar():
            return True
        return until is not None and (now >= until or not self._somebody_out(connection, block, batches))

    def _batches(self, connection: Connection, block: Any) -> Sequence[Any]:
        return connection.execute(_BATCHES, {"e": block.experiment, "b": block.number}).all()

    def _came(self, connection: Connection, block: Any, streams: Sequence[str]) -> Counter[str]:
        """How many reports of the block wait, by stream, those that are being settled too."""
        names = {"e": block.experiment, "streams": list(streams), "lot": block.lot}
        return Counter({row.stream: row.waiting for row in connection.execute(_WAITING, names)})

    def _somebody_out(self, connection: Connection, block: Any, batches: Sequence[Any]) -> bool:
        """Whether a turn of the block's epoch has not been reported."""
        names = {"e": block.experiment, "streams": [batch.stream for batch in batches]}
        return any(row.dealt > row.accepted for row in connection.execute(_PLAYS, names))

    def _lock_streams(self, connection: Connection, block: Any) -> None:
        """Nobody's report is accepted for the block's arms until this transaction ends."""
        streams = [batch.stream for batch in self._batches(connection, block)]
        self._begin_streams(connection, block.experiment, streams, block.lot)
        these = (STREAMS.c.experiment == block.experiment, STREAMS.c.stream.in_(streams))
        connection.execute(self.database.locked(select(STREAMS.c.lot).where(*these).order_by(STREAMS.c.stream))).all()

    def _cut(self, connection: Connection, block: Any, over: bool, now: float) -> None:
        """From now on no report is in the block that is not in it already."""
        streams = [batch.stream for batch in self._batches(connection, block)]
        these = (STREAMS.c.experiment == block.experiment, STREAMS.c.stream.in_(streams))
        ends = {"over": True} if over else {}
        connection.execute(update(STREAMS).where(*these).values(lot=block.lot + 1, **ends))
        self._count_turns(connection, block, over, now)
        self._set_block(connection, block, state="cut")

    def _count_turns(self, connection: Connection, block: Any, over: bool, now: float) -> None:
        """Keep for the receipts how many turns are over by now, of each batch's stream: those that are out are not."""
        batches = self._batches(connection, block)
        names = {"e": block.experiment, "streams": [batch.stream for batch in batches]}
        dealt = {row.stream: int(row.dealt) for row in connection.execute(_PLAYS, names)}
        out = {row.stream: int(row.open) for row in connection.execute(_OUT, names | {"now": now})}
        for batch in batches:
            turns = dealt.get(batch.stream, 0) - out.get(batch.stream, 0)
            self._set_batch(connection, block, batch.number, turns=turns, over=over)

    def _set_batch(self, connection: Connection, block: Any, number: int, **values: Any) -> None:
        this = (BATCHES.c.experiment == block.experiment, BATCHES.c.number == number)
        connection.execute(update(BATCHES).where(*this).values(values))

    def _set_block(self, connection: Connection, block: Any, **values: Any) -> None:
        this = (BLOCKS.c.experiment == block.experiment, BLOCKS.c.number == block.number)
        connection.execute(update(BLOCKS).where(*this).values(values))

    def _end(self, connection: Connection, block: Any, due: Due, now: float) -> Dropped:
        """Close a block, give it up, or let it go on; what was closed or dropped, and keys that nothing needs."""
        if due.what == FORGET:
            self._set_block(connection, block, state="over")
            return Dropped(0, [])
        batches = [batch for batch in self._batches(connection, block) if batch.state == "open"]
        lots = []
        if block.shares == "two-servers":
            lots = [lot_key(block.experiment, batch.stream, block.lot) for batch in batches]
        if due.what == AGAIN:
            self._set_block(connection, block, state="open", lot=block.lot + 1)
            return Dropped(0, lots)
        if due.what == GIVE_UP:
            if block.shares == "two-servers":
                self._count_turns(connection, block, due.over, now)
            return self._give_up_block(connection, block, batches, lots)
        # Of arms that nobody reported, when no more can come, there is nothing to release.
        filled, empty = ([b.number for b in batches if bool(b.received) is had] for had in (True, False))
        ours = BATCHES.c.experiment == block.experiment
        connection.execute(update(BATCHES).where(ours, BATCHES.c.number.in_(filled)).values(state="closed"))
        gone = self._drop(connection, "expired", ours & BATCHES.c.number.in_(empty))
        self._set_block(connection, block, state="closed")
        if block.shares != "two-servers":
            self._count_turns(connection, block, due.over, now)
            silent = silent_by_now(connection, block.experiment, now, self.source)
            self._set_batch(connection, block, batches[0].number, silent=json.dumps(silent))
        if block.shares != "two-servers" or not self._is_newest(connection, block):
            self._end_turns(connection, block)
        return Dropped(gone.batches, gone.keys + lots)

    def _give_up_block(self, connection: Connection, block: Any, batches: Sequence[Any], lots: list[str]) -> Dropped:
        numbers = [batch.number for batch in batches]
        this = (BATCHES.c.experiment == block.experiment) & BATCHES.c.number.in_(numbers)
        dropped = self._drop(connection, "expired", this)
        self._set_block(connection, block, state="over")
        if block.shares == "two-servers":
            # Nothing of this epoch will be counted any more.
            streams = [batch.stream for batch in batches]
            ours = (STREAMS.c.experiment == block.experiment, STREAMS.c.stream.in_(streams))
            connection.execute(update(STREAMS).where(*ours).values(over=True))
            these = (PENDING.c.experiment == block.experiment, PENDING.c.stream.in_(streams))
            connection.execute(delete(PENDING).where(*these))
        return Dropped(dropped.batches, dropped.keys + lots)

    def _is_newest(self, connection: Connection, block: Any) -> bool:
        """Whether turns are dealt on this block's offers, until a newer one is open."""
        newer = (BLOCKS.c.experiment == block.experiment, BLOCKS.c.state.in_(("open", "cut", "closed")))
        query = select(BLOCKS.c.number).where(*newer, BLOCKS.c.epoch >= block.epoch)
        query = query.order_by(BLOCKS.c.epoch.desc(), BLOCKS.c.number.desc())
        return bool(connection.execute(query).scalars().first() == block.number)

    def close_blocks(self, experiment: str, now: float) -> None:
        """No turn is dealt and no report accepted any more; from now on what is open can close, however little came."""
        with self.database.write() as connection:
            # Reports that are being accepted come first.
            connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.name == experiment).values(finished=True))
            connection.execute(update(EPOCHS).where(EPOCHS.c.experiment == experiment).values(until=now))

    def closing(self, experiment: str) -> bool:
        """Whether blocks may still be opened of an experiment that takes nothing more: for what has come."""
        with self.database.read() as connection:
            return (
                connection.execute(select(EPOCHS.c.epoch).where(EPOCHS.c.experiment == experiment)).first() is not None
            )

    def end_blocks(self, connection: Connection, experiment: str) -> None:
        """The experiment has ended: on no block turns are dealt any more."""
        connection.execute(update(BLOCKS).where(BLOCKS.c.experiment == experiment).values(state="over"))
        connection.execute(delete(EPOCHS).where(EPOCHS.c.experiment == experiment))
        offers = select(OFFERS.c.number).where(OFFERS.c.experiment == experiment, OFFERS.c.open)
        end_offers(connection, experiment, list(connection.execute(offers).scalars()))

    def _end_turns(self, connection: Connection, block: Any) -> None:
        offers = select(OFFERS.c.number).where(
            OFFERS.c.experiment == block.experiment, OFFERS.c.block == block.number, OFFERS.c.open
        )
        end_offers(connection, block.experiment, list(connection.execute(offers).scalars()))
