"""What can be downloaded as rows: batches as they came, how things stand, how they went; as CSV, JSON or Parquet."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, Protocol

from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.service.arm_standing import with_standing
from croupier.service.experiment_log import Live
from croupier.service.problems import Problem

FORMATS = {"csv": "text/csv", "json": "application/json", "parquet": "application/vnd.apache.parquet"}
BATCHES = (
    *("record", "at", "event", "block", "epoch", "batch", "offer", "arm", "arm_name", "odds", "turns"),
    *("wanted", "users", "sum", "mean"),
)
"""The columns of `batches`; block, epoch and turns are for policies in blocks. Of several metrics each has its own sum
and mean, and the primary one's are in these too."""
METRICS = (
    *("metric", "role", "arm", "arm_name", "control", "control_name"),
    *("difference", "lower", "upper", "better", "margin", "state"),
)
"""The columns of `metrics`."""
AUDIT = ("number", "at", "who", "event", "experiment", "operation", "arm", "name", "shares", "operator")
"""The columns of the operators' log."""
OVER = ("released", "expired", "refused")

Row = dict[str, Any]


def formats() -> list[str]:
    """Those that this server can write."""
    return [name for name in FORMATS if name != "parquet" or find_spec("pyarrow")]


class Writer(Protocol):
    """Makes a file of rows, piece by piece."""

    def rows(self, some: Sequence[Row]) -> bytes:
        """The next few rows."""

    def end(self) -> bytes:
        """What comes after the last one."""


class Csv:
    """A line a row, the names of the columns first."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns, self._begun = columns, False

    def rows(self, some: Sequence[Row]) -> bytes:
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, lineterminator="\n")
        if not self._begun:
            writer.writeheader()
            self._begun = True
        writer.writerows({key: _finite(row.get(key)) for key in self._columns} for row in some)
        return text.getvalue().encode()

    def end(self) -> bytes:
        return b"" if self._begun else self.rows([])


class Json:
    """A list of objects, which pandas reads as rows."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns, self._begun = columns, False

    def rows(self, some: Sequence[Row]) -> bytes:
        texts = [json.dumps({key: _finite(row.get(key)) for key in self._columns}, ensure_ascii=False) for row in some]
        if not texts:
            return b""
        first, self._begun = not self._begun, True
        return (("[\n" if first else ",\n") + ",\n".join(texts)).encode()

    def end(self) -> bytes:
        return b"\n]\n" if self._begun else b"[]\n"


class Parquet:
    """Columns, in one piece at the end."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._held: list[Row] = []

    def rows(self, some: Sequence[Row]) -> bytes:
        self._held += [{key: _finite(row.get(key)) for key in self._columns} for row in some]
        return b""

    def end(self) -> bytes:
        import pyarrow
        import pyarrow.parquet

        columns = {key: [row[key] for row in self._held] for key in self._columns}
        file = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
        return file.getvalue()


WRITERS: dict[str, Callable[[Sequence[str]], Writer]] = {"csv": Csv, "json": Json, "parquet": Parquet}


def writer(form: str, columns: Sequence[str]) -> Writer:
    """What writes this format, or a refusal where it cannot be written here."""
    if form not in FORMATS:
        raise Problem("not-found", f"there are {', '.join(FORMATS)}")
    if form not in formats():
        raise Problem("no-such-format", "Parquet needs pyarrow, which this server does not have: take csv or json")
    return WRITERS[form](columns)


def _finite(value: Any) -> Any:
    """A value of a cell: JSON has no infinity, and columns have no objects."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Batches:
    """Reads a log's lines, and gives a row for every batch that is over: what was asked, and what came of it."""

    def __init__(self, arms: Sequence[str]) -> None:
        self._arms = list(arms)
        self._turns: dict[int, tuple[Offer, float]] = {}

    def of(self, lines: Iterable[str]) -> Iterator[Row]:
        for line in lines:
            record = json.loads(line)
            if record["event"] == "opened":
                offer = Offer.from_text(record["offer"]["body"])
                odds = record["odds"] if offer.odds is None else offer.odds
                self._turns |= {batch.number: (offer, odds) for batch in offer.batches}
            elif record["event"] == "configured":
                self._arms = list(Configuration.from_text(record["configuration"]["body"]).arms)
            elif record["event"] in OVER:
                yield self._row(record)

    def _row(self, record: Row) -> Row:
        offer, odds = self._turns.pop(record["batch"])
        mechanism = next(batch for batch in offer.batches if batch.number == record["batch"]).mechanism
        row = {key: record[key] for key in ("at", "event", "batch")} | {"record": record["number"]}
        row |= {"offer": offer.number, "arm": offer.arm, "odds": odds, "wanted": mechanism.users}
        if offer.block is not None:
            row |= {"block": offer.block.number, "epoch": offer.block.epoch, "turns": record.get("turns")}
        row["arm_name"] = None if offer.arm is None else self._arms[offer.arm]
        if record["event"] == "released":
            users = record.get("users", mechanism.users)
            row |= {"users": users} | mechanism.for_users(users).summary(record["decoded"])
        return row


def result(live: Live) -> list[Row]:
    """How an experiment stands: a row an arm, a point of a counter, or an item."""
    shown = with_standing(live.program)
    if "arms" in shown:
        return [
            {"arm_name": live.arms[row["arm"]]} | row | _to_control(row["arm"], shown, live) for row in shown["arms"]
        ]
    if "points" in shown:
        return [dict(zip(("users", "estimate", "bound"), point, strict=True)) for point in shown["points"]]
    if "coefficients" in shown:
        return _learnt(shown)
    if "top" in shown:
        return [row | {"off_by_at_most": shown["radius"]} for row in shown["top"]]
    return [{key: value for key, value in shown.items() if isinstance(value, str | int | float)}]


def _to_control(arm: int, shown: dict[str, Any], live: Live) -> Row:
    """An arm's odds, and its difference to the control with the interval that holds at every look; nothing of these
    where arms are not compared.
    """
    if "control" not in shown:
        return {}
    control, odds = shown["control"], shown["odds"]
    now = shown["curve"][-1] if shown["curve"] and arm != control else {}
    ends = {"difference": "difference", "difference_lower": "lower", "difference_upper": "upper"}
    told = {name: now[key][arm] if now and arm < len(now[key]) else None for name, key in ends.items()}
    known = told["difference"] is not None and math.isfinite(told["difference"])
    return {
        "odds": odds[arm] if arm < len(odds) else 0.0,
        "control": control,
        "control_name": live.arms[control],
        **{name: value if known else None for name, value in told.items()},
        "confidence": shown["decision"]["confidence"],
    }


def _learnt(shown: dict[str, Any]) -> list[Row]:
    """What a personalised experiment has learnt: its gain, every coefficient, and who chose what."""
    rows: list[Row] = [{"what": "coefficient"} | row for row in shown["coefficients"]]
    rows += [{"what": "choice"} | row for row in shown["choices"]]
    return ([{"what": "gain"} | shown["gain"]] if shown["gain"] else []) + rows


def metrics(live: Live) -> list[Row]:
    """How every metric stands with every arm against the control, a row each; none where the reward is the only one."""
    named = [
        {"arm_name": live.arms[row["arm"]], "control_name": live.arms[row["control"]]} | row
        for row in live.program.show().get("metrics", ())
    ]
    return [{key: row[key] for key in METRICS} for row in named]


def curve(live: Live) -> list[Row]:
    """How estimates went: a row for each moment and arm, with what is known of each arm then."""
    points = live.program.show().get("curve") or live.run.history.curve(live.program)
    rows = []
    for point in points:
        lists = {key: value for key, value in point.items() if isinstance(value, list)}
        common = {"at": datetime.fromtimestamp(point["at"], UTC).isoformat(), "reports": point["reports"]}
        for arm in range(max(map(len, lists.values()), default=0)):
            own = {key: values[arm] if arm < len(values) else None for key, values in lists.items()}
            rows.append(common | {"arm": arm, "arm_name": live.arms[arm]} | own)
    return rows


AT_HAND = {"result": result, "curve": curve, "metrics": metrics}
TABLES = ("batches", *AT_HAND)
"""What can be downloaded of an experiment."""


def pieces(live: Live, table: str, form: str) -> AsyncIterator[bytes]:
    """One of an experiment's tables as a file, in pieces; whoever reads slowly holds a page of its log, not all."""
    if table in AT_HAND:
        return written(AT_HAND[table](live), form, METRICS if table == "metrics" else ())
    if table not in TABLES:
        raise Problem("not-found", f"there are {', '.join(TABLES)}")
    own = [f"{key}_{one['name']}" for one in live.plan.recipe.get("sums", ()) for key in ("sum", "mean")]
    return _batches(live, writer(form, (*BATCHES, *own)))


async def _batches(live: Live, out: Writer) -> AsyncIterator[bytes]:
    reader = Batches(live.plan.arms)

    def made(page: str) -> bytes:
        return out.rows(list(reader.of(page.rstrip("\n").split("\n"))))

    async for page in live.pages():
        yield await asyncio.to_thread(made, page)
    yield await asyncio.to_thread(out.end)


def written(rows: Sequence[Row], form: str, columns: Sequence[str] = ()) -> AsyncIterator[bytes]:
    """Rows that are at hand as a file."""
    out = writer(form, columns or list(dict.fromkeys(key for row in rows for key in row)))

    async def made() -> AsyncIterator[bytes]:
        yield out.rows(rows)
        yield await asyncio.to_thread(out.end)

    return made()
