"""Downloads as rows: every format says the same, and the rows are what the log says."""

import asyncio
import csv
import io
import json

import pytest
from pyarrow import parquet

from cases.service.both import Both, check_problem
from cases.service.long_logs import PLANS, long_log
from cases.service.world import Clock, keys_of
from croupier.service import exports
from croupier.service.experiment import plan
from croupier.service.experiment_log import Live
from croupier.service.store import AnalyzerStore
from croupier.service.waits import Waits

LENGTHS = {"bandit": 400, "counter": 60, "histogram": 30, "linear": 30}


@pytest.fixture(scope="module", params=list(LENGTHS))
def live(request, tmp_path_factory):
    store = AnalyzerStore(f"sqlite:///{tmp_path_factory.mktemp('exports')}/store.db")
    store.append(request.param, 0, *long_log(request.param, LENGTHS[request.param]))
    yield Live(plan(PLANS[request.param]), store, keys_of("analyzer"), Clock(), Waits(store=1.0))
    store.close()


def read(live, table, form):
    """A table as a person's program reads it: rows of the same keys; what is nothing is None."""

    async def whole():
        return b"".join([piece async for piece in exports.pieces(live, table, form)])

    data = asyncio.run(whole())
    if form == "json":
        return json.loads(data)
    if form == "parquet":
        return parquet.read_table(io.BytesIO(data)).to_pylist()
    return list(csv.DictReader(io.StringIO(data.decode())))


def has_arms(live):
    """Whether batches are those of arms: where devices choose by themselves nobody knows of whose action one is."""
    return bool(live.plan.arms) and live.name != "linear"


@pytest.mark.parametrize("table", exports.TABLES)
def test_every_format_has_the_same_rows(live, table):
    rows = read(live, table, "json")
    assert read(live, table, "parquet") == rows
    texts = [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows]
    assert read(live, table, "csv") == texts
    assert len({tuple(row) for row in rows}) <= 1, "all rows have the same columns"


def test_a_row_of_batches_is_what_its_record_says(live):
    rows = read(live, "batches", "json")
    records = {record["number"]: record for record in live.records}
    assert len(rows) == sum(record["event"] in exports.OVER for record in records.values())
    counted = [row for row in rows if row["event"] == "released"]
    events = {event["number"]: event for event in live.run.history.events}
    for row in counted:
        assert row["batch"] == records[row["record"]]["batch"]
        shown = events.get(row["record"])
        assert shown is None or (row["users"], row["arm"]) == (shown["users"], shown["arm"])
    if has_arms(live):
        assert sum(row["users"] for row in counted) == live.run.history.reports
        assert {row["arm_name"] for row in rows} == set(live.arms)


def test_the_curve_ends_where_the_experiment_stands(live):
    rows = read(live, "curve", "json")
    points = live.run.history.curve(live.program)
    assert points[-1]["reports"] == live.run.history.reports
    assert len(points) > 5
    if not has_arms(live):
        assert rows == []
        return
    now = {row["arm"]: row for row in live.program.show()["arms"] if row["batches"]}
    last = [row for row in rows if row["reports"] == points[-1]["reports"] and row["mean"] is not None]
    assert {row["arm"]: (row["mean"], row["lower"], row["upper"]) for row in last} == {
        arm: (row["mean"], row["lower"], row["upper"]) for arm, row in now.items()
    }


def test_no_fewer_reports_and_turns_are_told_than_released_batches_have(live):
    released = live.run.history.reports
    for known, told in ((0, released), (released - 5, released), (released + 5, released + 5)):
        live.standings = {"assigned": known, "accepted": known}
        assert (live.counted("assigned"), live.counted("accepted")) == (told, told)


def test_a_server_without_pyarrow_says_so_and_offers_the_rest(tmp_path, monkeypatch):
    both = Both(tmp_path)

    async def work():
        async with both.running():
            ask = both.http.get
            url = "http://analyzer.test/experiments"
            assert (await ask(url)).json()["formats"] == ["csv", "json", "parquet"]
            answer = await ask(f"{url}/colours/tables/result.parquet")
            assert answer.headers["content-disposition"] == 'attachment; filename="colours-result.parquet"'
            assert parquet.read_table(io.BytesIO(answer.content)).num_rows == 2
            monkeypatch.setattr(exports, "find_spec", lambda _: None)
            assert (await ask(url)).json()["formats"] == ["csv", "json"]
            answer = await ask(f"{url}/colours/tables/result.parquet")
            check_problem(answer, "no-such-format")
            assert "pyarrow" in answer.json()["detail"]
            for wrong in ("result.xls", "secrets.csv"):
                check_problem(await ask(f"{url}/colours/tables/{wrong}"), "not-found")

    asyncio.run(work())


def test_what_a_personalised_experiment_has_learnt_is_rows(live):
    if live.name != "linear":
        pytest.skip("it has arms, or none")
    rows, shown = read(live, "result", "json"), live.program.show()
    assert [row["what"] for row in rows] == ["gain"] + ["coefficient"] * 9 + ["choice"] * 3
    assert (rows[0]["gain"], rows[0]["sentence"]) == (shown["gain"]["gain"], shown["gain"]["sentence"])
    coefficients = [row for row in rows if row["what"] == "coefficient"]
    assert [(row["action"], row["value"]) for row in coefficients] == [
        (row["action"], row["value"]) for row in shown["coefficients"]
    ]
    assert all(row["lower"] <= row["value"] <= row["upper"] for row in coefficients)
