"""Of what the front keeps, reports in shares that wait: accepted, and not yet counted.

A report waits in its stream: that of its arm, or of its offer. The front's share of it lies under the key of the
stream's lot, which is not in the database and is destroyed when a batch of the stream closes (see `batch_keys`); what
waits then is written again under the next lot's.
"""

from __future__ import annotations

import secrets
import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from croupier.messages.wire import REPORT_ID
from croupier.service.store.batch_keys import BatchKeys
from croupier.service.store.database import Database
from croupier.service.store.schema import PENDING, STREAMS, Arrival

Lots = dict[tuple[str, str], int | None]
"""By experiment and stream."""

# Built once: putting a statement together takes longer than running it.
_STREAM = select(STREAMS.c.lot, STREAMS.c.over).where(
    STREAMS.c.experiment == bindparam("e"), STREAMS.c.stream == bindparam("s")
)
_LOCK_STREAM = _STREAM.with_for_update(read=True)

NOT_SETTLING = -1
KEY = 16
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True)
class Waiting:
    """A report that waits: its name, its configuration, what the front has of it, and the analyzer's shares of it."""

    report: bytes
    configuration: bytes
    own: bytes
    sealed: bytes


def lot_key(experiment: str, stream: str, lot: int) -> str:
    """The name of the key that reports of a lot wait under."""
    return f"{experiment}.{stream}.{lot}"


class ShareWaiting:
    """Reports in shares, from their acceptance until they are settled."""

    database: Database
    batch_keys: BatchKeys

    def lots(self, connection: Connection, arrivals: Sequence[Arrival]) -> Lots:
        """The lot that each stream of these reports is at, which nobody changes until the transaction ends.

        None where the stream is over: no batch will take its reports.
        """
        streams = sorted({(arrival.experiment, arrival.stream) for arrival in arrivals if arrival.in_shares})
        return {stream: self._lot(connection, *stream) for stream in streams}

    def put_waiting(self, connection: Connection, arrivals: Sequence[Arrival], lots: Lots) -> None:
        """Write accepted reports, each under the key of its stream's lot, in no order."""
        streams = defaultdict(list)
        for arrival in arrivals:
            streams[arrival.experiment, arrival.stream].append(arrival)
        rows = []
        for (experiment, stream), some in sorted(streams.items(), key=lambda one: one[0]):
            lot = lots[experiment, stream]
            assert lot is not None, "what is over takes no report"
            payloads = [_LENGTH.pack(len(one.own)) + one.name + one.own + one.sealed for one in some]
            hidden = self.batch_keys.hide_all(lot_key(experiment, stream, lot), payloads)
            keys = secrets.token_bytes(KEY * len(some))
            rows += [
                {
                    "experiment": experiment,
                    "stream": stream,
                    "key": keys[KEY * place : KEY * (place + 1)],
                    "lot": lot,
                    "configuration": arrival.configuration,
                    "settling": NOT_SETTLING,
                    "payload": hidden[place],
                }
                for place, arrival in enumerate(some)
            ]
        self.database.put(connection, PENDING, rows)

    def _lot(self, connection: Connection, experiment: str, stream: str) -> int | None:
        query, names = _STREAM if self.database.sqlite else _LOCK_STREAM, {"e": experiment, "s": stream}
        row = connection.execute(query, names).first()
        if row is None:
            # Another may begin it at this moment: what counts is what stands there then.
            self._begin_streams(connection, experiment, [stream], 0)
            row = connection.execute(query, names).one()
        return None if row.over else int(row.lot)

    def _begin_streams(self, connection: Connection, experiment: str, streams: Sequence[str], lot: int) -> None:
        """Streams that nobody has reported to yet are at this lot."""
        rows = [{"experiment": experiment, "stream": stream, "lot": lot} for stream in sorted(streams)]
        connection.execute(self.database.insert(STREAMS).on_conflict_do_nothing(), rows)

    def _next_lot(self, connection: Connection, experiment: str, stream: str) -> list[str]:
        this = (STREAMS.c.experiment == experiment, STREAMS.c.stream == stream)
        query = select(STREAMS.c.lot).where(*this)
        lot = connection.execute(self.database.locked(query)).scalar()
        if lot is None:
            return []
        where = (PENDING.c.experiment == experiment, PENDING.c.stream == stream, PENDING.c.lot == lot)
        rows = connection.execute(select(PENDING.c.key, PENDING.c.payload).where(*where)).all()
        if rows:
            shown = self.batch_keys.show_all(lot_key(experiment, stream, lot), [row.payload for row in rows])
            hidden = self.batch_keys.hide_all(lot_key(experiment, stream, lot + 1), shown)
            anew = update(PENDING).where(*where, PENDING.c.key == bindparam("k"))
            connection.execute(
                anew.values(lot=lot + 1, payload=bindparam("p")),
                [{"k": row.key, "p": payload} for row, payload in zip(rows, hidden, strict=True)],
            )
        connection.execute(update(STREAMS).where(*this).values(lot=lot + 1))
        return [lot_key(experiment, stream, lot)]

    def _settling(self, connection: Connection, experiment: str, number: int, stream: str) -> list[Waiting]:
        """The reports of a group, in one order whoever asks."""
        query = select(PENDING).where(
            PENDING.c.experiment == experiment, PENDING.c.stream == stream, PENDING.c.settling == number
        )
        rows = connection.execute(query.order_by(PENDING.c.key)).all()
        lots = defaultdict(list)
        for place, row in enumerate(rows):
            lots[row.lot].append(place)
        shown: list[Any] = [None] * len(rows)
        for lot, places in lots.items():
            hidden = [rows[place].payload for place in places]
            opened = self.batch_keys.show_all(lot_key(experiment, stream, lot), hidden)
            for place, one in zip(places, opened, strict=True):
                shown[place] = one
        return [_waiting(row.configuration, one) for row, one in zip(rows, shown, strict=True)]

    def waiting(self, connection: Connection, experiment: str) -> dict[str, int]:
        """How many reports wait in each stream, those that are being settled too."""
        query = select(PENDING.c.stream, func.count()).where(PENDING.c.experiment == experiment)
        return {row[0]: row[1] for row in connection.execute(query.group_by(PENDING.c.stream))}

    def waiting_configurations(self, experiment: str) -> list[bytes]:
        """The configurations that reports wait under: their keys are still needed."""
        query = select(PENDING.c.configuration).where(PENDING.c.experiment == experiment).distinct()
        with self.database.read() as connection:
            return list(connection.execute(query).scalars())


def _waiting(configuration: bytes, shown: bytes) -> Waiting:
    (length,), begin = _LENGTH.unpack_from(shown), _LENGTH.size + REPORT_ID
    return Waiting(shown[_LENGTH.size : begin], configuration, shown[begin : begin + length], shown[begin + length :])
