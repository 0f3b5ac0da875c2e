"""Of what the front keeps, who stayed silent in blocks whose batches must be full: known when all turns are over.

Turns are counted in the order they were dealt, up to the one that brought a batch's last report. Which reports came
first, and which came too late for their batch, has then no part in it: the law of the count is that of tossing one coin
until so many heads have come (docs/decisions.md).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection, bindparam, delete, select

from croupier.noise import Source
from croupier.noise.source import below
from croupier.service.store.schema import BATCHES, BLOCKS, ISSUED, OFFERS

_OFFER = (OFFERS.c.experiment == ISSUED.c.experiment) & (OFFERS.c.number == ISSUED.c.offer)
_BLOCK = (BLOCKS.c.experiment == OFFERS.c.experiment) & (BLOCKS.c.number == OFFERS.c.block)
_FULL = BLOCKS.c.shares != "two-servers"
_CLOSED = (
    select(OFFERS.c.block, OFFERS.c.batches, ISSUED.c.offer, ISSUED.c.due, ISSUED.c.open, ISSUED.c.dealt)
    .select_from(ISSUED)
    .join(OFFERS, _OFFER)
    .join(BLOCKS, _BLOCK)
    .where(ISSUED.c.experiment == bindparam("e"), BLOCKS.c.state == "closed", _FULL)
    .order_by(ISSUED.c.due)
)
_USERS = select(BATCHES.c.number, BATCHES.c.users).where(
    BATCHES.c.experiment == bindparam("e"),
    BATCHES.c.number.in_(bindparam("numbers", expanding=True)),
    BATCHES.c.state.in_(("closed", "ready", "released")),
)
WANTED_LATER = (
    select(OFFERS.c.number).join(BLOCKS, _BLOCK).where(_OFFER, _FULL, BLOCKS.c.state.in_(("coming", "open", "closed")))
)
"""For a turn that is overdue: whether it will be asked for when its block's silent turns are counted."""


def silent_by_now(connection: Connection, experiment: str, now: float, source: Source) -> list[list[int]]:
    """Batches of blocks whose turns are all over by now, each with its silent turns; no batch is told twice."""
    turns: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    waits, offers = set(), defaultdict(set)
    for row in connection.execute(_CLOSED, {"e": experiment}):
        turns[row.block][json.loads(row.batches)[0]].append((row.dealt, row.open))
        offers[row.block].add(row.offer)
        if row.open and row.due > now:
            waits.add(row.block)
    told = []
    for block in sorted(turns.keys() - waits):
        users = connection.execute(_USERS, {"e": experiment, "numbers": list(turns[block])})
        told += [[row.number, silent_before(turns[block][row.number], row.users, source)] for row in users]
        these = (ISSUED.c.experiment == experiment, ISSUED.c.offer.in_(offers[block]))
        connection.execute(delete(ISSUED).where(*these))
    return sorted(told)


def silent_before(turns: Iterable[tuple[int, int]], reports: int, source: Source) -> int:
    """How many turns stayed silent before the last of so many reports.

    `turns` come in the order of dealing, in groups of one second: how many, and how many of them are silent. Within a
    second the order is drawn.

    >>> from croupier.noise import seeded
    >>> silent_before([(4, 1), (2, 2), (2, 0)], 5, seeded(1))
    3
    """
    found, missing = 0, reports
    for dealt, silent in turns:
        came = dealt - silent
        if came < missing:
            found, missing = found + silent, missing - came
            continue
        while missing:
            if below(came + silent, source) < silent:
                found, silent = found + 1, silent - 1
            else:
                came, missing = came - 1, missing - 1
        break
    return found
