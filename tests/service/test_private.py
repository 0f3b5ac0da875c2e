"""An experiment that is private: whatever comes of it, a stranger reads the same at the public port."""

import asyncio
import json
import re

import pytest

from cases.service.both import PLAN, Both, check_problem
from cases.service.forgery import resigned
from cases.service.operator import Browser, known, quick
from croupier.service import http_operations
from croupier.service.analyzer_app import LOOK_AGAIN
from croupier.service.verifying import BadTranscript, verify

PRIVATE = PLAN | {"public": False}
PLACES = {"name": "colours", "page": "dashboard.js", "table": "batches", "format": "json"}
GUARDED = {
    "/audit",
    "/audit.{format}",
    "/experiments/{name}/state",
    "/experiments/{name}/transcript",
    "/experiments/{name}/tables/{table}.{format}",
}
OF_THE_SERVER = re.compile(r"^croupier_(problems_total|waiting_seconds).*\n", re.MULTILINE)
"""Metrics that no experiment is named in: refusals, and how long the server waits for its own parts."""


@pytest.fixture
def both(tmp_path, monkeypatch):
    quick(monkeypatch)
    return Both(tmp_path, experiment=PRIVATE)


def running(both, work):
    async def run():
        async with both.running():
            await work()

    asyncio.run(run())


async def read_by_a_stranger(both):
    """Everything that the analyzer answers to a GET without any secret, by its path; a refusal by its name."""
    found = {}
    for one in http_operations.ANALYZER:
        path = one.path.format(**PLACES)
        if one.method == "get" and not path.endswith("/live"):
            answer = await both.http.get(f"http://analyzer.test{path}")
            text = OF_THE_SERVER.sub("", answer.text)
            found[one.path] = answer.json()["type"] if answer.status_code >= 400 else text
    return found


@pytest.mark.slow
def test_whatever_comes_of_it_a_stranger_reads_the_same(both):
    async def work():
        before = await read_by_a_stranger(both)
        refused = {path for path, said in before.items() if said == "urn:croupier:error:unauthorized"}
        assert refused == GUARDED
        assert before["/experiments"].startswith('{"experiments":[],')
        assert "colours" not in before["/metrics"] + before["/readyz"]
        check_problem(await both.http.get("http://analyzer.test/experiments/colours/live"), "unauthorized")
        for number in (1, 2):
            assert set(await both.users(32)) == {"accepted"}
            await both.until(lambda number=number: number in both.live.open)
        await both.until(lambda: both.live.standings["accepted"])
        assert await read_by_a_stranger(both) == before
        both.live.trouble = "the front refused: batch 2 has 17 of 32 reports"
        answer = await both.http.get("http://analyzer.test/readyz")
        assert answer.json()["detail"] == "private experiments that do not go on: 1"

    running(both, work)


SHARES = {
    "name": "colours",
    "public": False,
    "arms": ["red", "green"],
    "program": {"policy": "split"},
    "reports": {"report_within": 600, "report_at": [0, 0]},
    "batches": {"smallest": 32, "deadline": 50},
}


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [PRIVATE, SHARES], ids=["messages", "shares"])
def test_the_front_tells_odds_and_counts_to_the_analyzer_alone(experiment, tmp_path):
    both = Both(tmp_path, experiment=experiment)
    base = "http://front.test/experiments/colours"

    async def work():
        ask, trusted = both.http.get, {"authorization": f"Bearer {both.bearer}"}
        turn = await both.http.post(f"{base}/assignments")
        assert json.loads(turn.json()["offer"]["body"])["odds"] is None
        assert set(await both.users(70)) == {"accepted"}
        await both.until(lambda: any(record["event"] == "released" for record in both.live.records))
        for path in ("/batches", "/batches/0/receipt", "/batches/0/messages/0"):
            check_problem(await ask(base + path), "unauthorized")
        assert (await ask(f"{base}/batches", headers=trusted)).json()["accepted"] == 64
        for path in ("", "/head"):
            assert (await ask(base + path)).status_code == 200
        metrics = (await ask("http://front.test/metrics")).text
        assert "colours" not in metrics
        # Who reads the log sees the odds, and that they are those of the program.
        opened = [record for record in both.live.records if record["event"] == "opened"]
        assert {record["odds"] for record in opened} <= {0.5, 1.0}
        assert verify(both.live.transcript()).offers == len(opened)
        lying = [one | ({"odds": 0.25} if one["event"] == "opened" else {}) for one in both.live.records]
        with pytest.raises(BadTranscript, match="has odds 0.25"):
            verify(resigned(lying, both.keys.sign))

    running(both, work)


def test_an_offer_without_odds_needs_them_beside_it(both):
    async def work():
        (offer,) = both.live.state.signed.values()
        trusted = {"authorization": f"Bearer {both.bearer}"}
        url = "http://front.test/experiments/colours/offers/0"
        for odds, token in ((None, "bad-request"), (0, "bad-request"), (1.5, "bad-request")):
            body = {"offer": offer.to_dict(), "odds": odds}
            check_problem(await both.http.put(url, json=body, headers=trusted), token)
        body = {"offer": offer.to_dict(), "odds": 1.0}
        assert (await both.http.put(url, json=body, headers=trusted)).status_code == 200

    running(both, work)


def test_operators_read_all_of_it(both):
    token = known(both)

    async def work():
        browser = Browser(both)
        await browser.log_in()
        assert await both.users(3) == ["accepted"] * 3
        for path in ("state", "transcript"):
            answer = await browser.ask("GET", f"/experiments/colours/{path}")
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "no-store"
        listed = (await browser.ask("GET", "/experiments")).json()["experiments"]
        assert [(one["name"], one["public"]) for one in listed] == [("colours", False)]
        metrics = await both.http.get("http://analyzer.test/metrics", headers={"authorization": f"Bearer {token}"})
        assert 'croupier_records{experiment="colours"}' in metrics.text

    running(both, work)


def test_a_stream_ends_with_the_session_that_opened_it(both, monkeypatch):
    known(both)
    monkeypatch.setattr("croupier.service.analyzer_app.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("croupier.service.analyzer_app.LOOK_AGAIN", 0.01)
    assert LOOK_AGAIN <= 5.0

    async def work():
        browser = Browser(both)
        await browser.log_in()
        stream = asyncio.create_task(browser.ask("GET", "/experiments/colours/live"))
        await asyncio.sleep(0.2)
        assert not stream.done()
        both.analyzer.store.end_sessions("anna")
        answer = await asyncio.wait_for(stream, 10)
        assert b'"standing":"running"' in answer.content

    running(both, work)
