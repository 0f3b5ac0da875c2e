"""How reports get into the front's store: in groups, one transaction a group, mixed before they are written.

Sealed messages lie in *pools*: one row holds the messages of many reports in a random order under a random key, so the
store knows neither who sent a message, nor when, nor which messages came together. A pool is encrypted each time that
it is written, so two states of it, side by side in a database's log, do not tell what came in between.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.exc import IntegrityError

from croupier.messages.signing import from_text
from croupier.noise import Source
from croupier.service.shuffling import mixed
from croupier.service.store.database import Database
from croupier.service.store.schema import (
    BATCHES,
    EXPERIMENTS,
    ISSUED,
    OFFERS,
    PENDING,
    POOLS,
    SPENT,
    TOTALS,
    Arrival,
    pool_place,
)
from croupier.service.store.share_waiting import ShareWaiting
from croupier.service.store.vault import Vault

POOL_BYTES = 2**15
"""A pool is closed to more messages when it is about this long."""

ATTEMPTS = 3
"""A group is tried so often when others spend its tokens at the same time."""

POOLS_OPEN = 1024
"""The pools of so many batches are remembered."""

Key = tuple[str, int]
"""An experiment's name and a batch's number."""

# Built once: putting a statement together takes longer than running it.
_FIND_BATCHES = (
    select(*(BATCHES.c[name] for name in ("number", "users", "received", "length", "state", "shares", "block")))
    .where(BATCHES.c.experiment == bindparam("e"), BATCHES.c.number.in_(bindparam("numbers", expanding=True)))
    .order_by(BATCHES.c.number)
)
_LOCK_BATCHES = _FIND_BATCHES.with_for_update()
_COUNT_BATCH = (
    update(BATCHES)
    .where(BATCHES.c.experiment == bindparam("e"), BATCHES.c.number == bindparam("b"))
    .values(received=bindparam("now_received"), state=bindparam("now_state"))
)
_COUNT_OFFER = (
    update(OFFERS)
    .where(OFFERS.c.experiment == bindparam("e"), OFFERS.c.number == bindparam("o"))
    .values(accepted=OFFERS.c.accepted + bindparam("k"))
)
_COUNT_TURN = (
    update(ISSUED)
    .where(
        ISSUED.c.experiment == bindparam("e"),
        ISSUED.c.offer == bindparam("o"),
        ISSUED.c.due == bindparam("d"),
    )
    .values(open=ISSUED.c.open - bindparam("k"))
)
_ENDED = select(OFFERS.c.number).where(
    OFFERS.c.experiment == bindparam("e"), OFFERS.c.number.in_(bindparam("numbers", expanding=True)), ~OFFERS.c.open
)
_FINISHED = select(EXPERIMENTS.c.name, EXPERIMENTS.c.finished, EXPERIMENTS.c.void).where(
    EXPERIMENTS.c.name.in_(bindparam("names", expanding=True))
)
# Nobody ends it until the reports are written.
_LOCK_FINISHED = _FINISHED.order_by(EXPERIMENTS.c.name).with_for_update(read=True)
_WAITING = select(func.count()).where(PENDING.c.experiment == bindparam("e"), PENDING.c.stream == bindparam("s"))


class Intake:
    """Takes reports in; remembers the pool that each open batch's next messages are mixed into."""

    def __init__(
        self,
        database: Database,
        source: Source,
        vault: Vault,
        shares: ShareWaiting,
    ) -> None:
        self.database, self.source, self.vault, self._shares = database, source, vault, shares
        self.lock = threading.Lock()
        self._pools: dict[Key, tuple[bytes, tuple[bytes, ...]]] = {}
        self._find = _FIND_BATCHES if database.sqlite else _LOCK_BATCHES
        self._find_spent = select(SPENT.c.token, SPENT.c.report).where(database.among(SPENT.c.token, "tokens"))
        wish = database.insert(POOLS)
        self._pour_one = wish.on_conflict_do_update(
            index_elements=["experiment", "batch", "key"], set_={"payload": wish.excluded.payload}
        )

    def accept(self, arrivals: Sequence[Arrival]) -> list[str]:
        """Take a group of reports in one transaction; each is accepted whole or not at all.

        Returns one word a report: `accepted`, `repeated` (the same report again), `token-spent`, `token-expired`,
        `batch-closed` or, in shares, `experiment-finished` or `unopenable-report`.
        """
        marked = [self._marked(arrival) for arrival in arrivals]
        for _ in range(ATTEMPTS - 1):
            # Two processes may spend one ticket at the same moment, in two batches: the later one looks again.
            with suppress(IntegrityError):
                return self._accept(marked)
        return self._accept(marked)

    def _accept(self, arrivals: Sequence[Arrival]) -> list[str]:
        with self.lock, self._forgetting(arrivals):
            with self.database.write() as connection:
                batches = self._lock_batches(connection, arrivals)
                tokens = {"tokens": [arrival.token for arrival in arrivals]}
                spent = {row.token: row.report for row in connection.execute(self._find_spent, tokens)}
                self._count_waiting(connection, arrivals, batches)
                names = {"names": sorted({arrival.experiment for arrival in arrivals if arrival.in_shares})}
                query = _FINISHED if self.database.sqlite else _LOCK_FINISHED
                rows = connection.execute(query, names).all() if names["names"] else []
                ended = {row.name for row in rows if row.finished}
                void = {from_text("void", one) for row in rows for one in json.loads(row.void or "[]")}
                lots = self._shares.lots(connection, arrivals)
                over = {stream for stream, lot in lots.items() if lot is None}
                outcomes, taken = _decide(arrivals, batches, spent, ended, void, over)
                self._note_late(connection, arrivals, outcomes, batches)
                if taken:
                    pools = self._pour(connection, [report for report in taken if not report.in_shares], batches)
                    self._shares.put_waiting(connection, [report for report in taken if report.in_shares], lots)
                    _count(self.database, connection, taken, batches)
            if taken:
                for key, pool in pools.items():
                    self._pools.pop(key, None)
                    if batches[key]["received"] < batches[key]["users"]:
                        self._pools[key] = pool
                # Of batches that have ended elsewhere; a pool that is forgotten is followed by another.
                while len(self._pools) > POOLS_OPEN:
                    del self._pools[next(iter(self._pools))]
        return outcomes

    def _count_waiting(
        self, connection: Connection, arrivals: Sequence[Arrival], batches: dict[Key, dict[str, Any]]
    ) -> None:
        """Reports to a batch of devices' noise count as received while they wait: the batch takes no more than fit."""
        for experiment, stream in {(arrival.experiment, arrival.stream) for arrival in arrivals if arrival.parts}:
            if stream:
                waiting = connection.execute(_WAITING, {"e": experiment, "s": stream}).scalar_one()
                for arrival in arrivals:
                    if (arrival.experiment, arrival.stream) == (experiment, stream):
                        for number, _ in arrival.parts:
                            batch = batches.get((experiment, number), {})
                            batch.setdefault("waiting", waiting)

    def _note_late(
        self, connection: Connection, arrivals: Sequence[Arrival], outcomes: Sequence[str], batches: dict[Key, Any]
    ) -> None:
        """Who reports too late for a full batch of a block was not silent: that is noted once a turn."""
        late = {
            self.vault.mark(b"late", arrival.token): arrival
            for arrival, outcome in zip(arrivals, outcomes, strict=True)
            if outcome == "batch-closed"
            and any(
                batches.get((arrival.experiment, number), {}).get("block") is not None for number, _ in arrival.parts
            )
        }
        if not late:
            return
        for known in connection.execute(self._find_spent, {"tokens": sorted(late)}):
            del late[known.token]
        marks = sorted(late.items())
        if marks:
            rows = [{"token": mark, "report": report.report, "expires": report.expires} for mark, report in marks]
            self.database.put(connection, SPENT, rows)
            _count_turns(connection, [report for _, report in marks])

    @contextmanager
    def _forgetting(self, arrivals: Sequence[Arrival]) -> Iterator[None]:
        """A commit that fails may have taken effect: the pools it wrote are then not written over."""
        try:
            yield
        except BaseException:
            for arrival in arrivals:
                for number, _ in arrival.parts:
                    self._pools.pop((arrival.experiment, number), None)
            raise

    def _marked(self, arrival: Arrival) -> Arrival:
        mark = self.vault.mark
        return replace(arrival, token=mark(b"token", arrival.token), report=mark(b"report", arrival.report))

    def _lock_batches(self, connection: Connection, arrivals: Sequence[Arrival]) -> dict[Key, dict[str, Any]]:
        wanted: dict[str, set[int]] = defaultdict(set)
        for arrival in arrivals:
            wanted[arrival.experiment].update(number for number, _ in arrival.parts)
        locked = {}
        for experiment in sorted(wanted):
            names = {"e": experiment, "numbers": sorted(wanted[experiment])}
            for row in connection.execute(self._find, names).mappings():
                locked[experiment, row["number"]] = dict(row)
        return locked

    def _pour(
        self, connection: Connection, taken: Sequence[Arrival], batches: dict[Key, dict[str, Any]]
    ) -> dict[Key, tuple[bytes, tuple[bytes, ...]]]:
        """Mix the new messages into each batch's pool, and write the pool anew."""
        fresh: dict[Key, list[bytes]] = defaultdict(list)
        for arrival in taken:
            for number, sealed in arrival.parts:
                fresh[arrival.experiment, number] += sealed
        pools = {}
        for (experiment, number), messages in fresh.items():
            key, old = self._pools.get((experiment, number), (secrets.token_bytes(16), ()))
            if len(old) * batches[experiment, number]["length"] >= POOL_BYTES:
                key, old = secrets.token_bytes(16), ()
            pool = tuple(mixed((*old, *messages), self.source))
            hidden = self.vault.hide(experiment, number, pool_place(key), b"".join(pool))
            row = {"experiment": experiment, "batch": number, "key": key, "payload": hidden}
            connection.execute(self._pour_one, row)
            pools[experiment, number] = (key, pool)
        return pools


def _count(
    database: Database, connection: Connection, taken: Sequence[Arrival], batches: dict[Key, dict[str, Any]]
) -> None:
    """Tokens are spent, turns are over, batches are fuller, and those that are full close."""
    # In one order everywhere, so that no two transactions wait for each other.
    spent = sorted(taken, key=lambda report: report.token)
    marks = [{"token": report.token, "report": report.report, "expires": report.expires} for report in spent]
    database.put(connection, SPENT, marks)
    # Offers before turns, as `assign` has it: two transactions then never wait for each other.
    offers = Counter((report.experiment, report.offer) for report in taken)
    connection.execute(_COUNT_OFFER, [{"e": e, "o": o, "k": k} for (e, o), k in sorted(offers.items())])
    _count_late(connection, offers)
    _count_turns(connection, taken)
    rows = []
    closed: dict[str, set[int]] = defaultdict(set)
    # In shares a report counts for its batch when it is settled.
    shuffled = [report for report in taken if not report.in_shares]
    if not shuffled:
        return
    for experiment, number in sorted(
        {(report.experiment, number) for report in shuffled for number, _ in report.parts}
    ):
        batch = batches[experiment, number]
        # One of a block waits for the others.
        full = batch["received"] >= batch["users"] and batch["block"] is None
        state = {"now_received": batch["received"], "now_state": "closed" if full else "open"}
        rows.append({"e": experiment, "b": number} | state)
        if full:
            closed[experiment].add(number)
    connection.execute(_COUNT_BATCH, rows)
    for experiment, numbers in closed.items():
        close_offers(connection, experiment, numbers)


def _count_turns(connection: Connection, reports: Sequence[Arrival]) -> None:
    """Turns that were reported are not out any more, nor silent."""
    turns = Counter((report.experiment, report.offer, report.due) for report in reports)
    connection.execute(_COUNT_TURN, [{"e": e, "o": o, "d": d, "k": k} for (e, o, d), k in sorted(turns.items())])


def _count_late(connection: Connection, offers: Counter[tuple[str, int]]) -> None:
    """Of offers that have ended the counts stand in the experiment's, and so do reports that come late."""
    for experiment in {experiment for experiment, _ in offers}:
        numbers = [number for name, number in offers if name == experiment]
        ended = connection.execute(_ENDED, {"e": experiment, "numbers": numbers}).scalars()
        if late := sum(offers[experiment, number] for number in ended):
            more = {"accepted": TOTALS.c.accepted + late}
            connection.execute(update(TOTALS).where(TOTALS.c.experiment == experiment).values(more))


def close_offers(connection: Connection, experiment: str, gone: set[int]) -> None:
    """An offer ends with the first of its batches."""
    query = select(OFFERS.c.number, OFFERS.c.batches).where(OFFERS.c.experiment == experiment, OFFERS.c.open)
    end_offers(
        connection, experiment, [row.number for row in connection.execute(query) if gone & set(json.loads(row.batches))]
    )


def end_offers(connection: Connection, experiment: str, ended: Sequence[int]) -> None:
    """No turns are given out on these offers any more, and their counts go to the experiment's."""
    # Another transaction may end some of them at this moment: then they are counted there.
    these = (OFFERS.c.experiment == experiment, OFFERS.c.number.in_(ended), OFFERS.c.open)
    counts = update(OFFERS).where(*these).values(open=False).returning(OFFERS.c.assigned, OFFERS.c.accepted)
    if ended_turns := connection.execute(counts).all() if ended else []:
        more = {
            "assigned": TOTALS.c.assigned + sum(row.assigned for row in ended_turns),
            "accepted": TOTALS.c.accepted + sum(row.accepted for row in ended_turns),
        }
        connection.execute(update(TOTALS).where(TOTALS.c.experiment == experiment).values(more))


def _decide(
    arrivals: Sequence[Arrival],
    batches: dict[tuple[str, int], dict[str, Any]],
    spent: dict[bytes, bytes],
    ended: set[str],
    void: set[bytes],
    over: set[tuple[str, str]],
) -> tuple[list[str], list[Arrival]]:
    """Which reports of a group are accepted, in the order they came; counts are updated in `batches`."""
    outcomes, taken = [], []
    for arrival in arrivals:
        known = spent.get(arrival.token)
        keys = [(arrival.experiment, number) for number, _ in arrival.parts]
        if known is not None:
            outcomes.append("repeated" if known == arrival.report else "token-spent")
        elif arrival.late:
            outcomes.append("token-expired")
        elif arrival.experiment in ended:
            outcomes.append("experiment-finished")
        elif arrival.configuration in void:
            outcomes.append("unopenable-report")
        elif (arrival.experiment, arrival.stream) in over:
            # Its time ran out while it was looked at.
            outcomes.append("token-expired")
        elif any(key not in batches or not _has_room(batches[key]) for key in keys):
            outcomes.append("batch-closed")
        else:
            for key in keys:
                batches[key]["waiting" if arrival.in_shares else "received"] += 1
            spent[arrival.token] = arrival.report
            taken.append(arrival)
            outcomes.append("accepted")
    return outcomes, taken


def _has_room(batch: dict[str, Any]) -> bool:
    return bool(batch["state"] == "open" and batch["received"] + batch.get("waiting", 0) < batch["users"])
