"""Experiments come and go while the server runs: created, started, paused, resumed, stopped, archived, and noted."""

import asyncio
import json

import pytest
from sqlalchemy import text

from cases.service.both import PLAN, Both, check_problem
from croupier.programs.records import BadRecord
from croupier.service.register import LOG
from croupier.service.verifying import verify

TOML = """
name = "second"
title = "A second one"
arms = ["left", "right"]
[program]
horizon = 200
[privacy]
epsilon = 4.0
[reward]
protocol = "shuffled-bits"
[reports]
report_at = [0, 0]
[batches]
deadline = 50
"""


@pytest.fixture
def both(tmp_path):
    return Both(tmp_path)


class Desk:
    """Somebody with the operators' secret, over HTTP."""

    def __init__(self, both):
        self.both = both
        self.headers = {"authorization": f"Bearer {both.admin}"}

    async def ask(self, method, path, **more):
        return await self.both.http.request(method, f"http://analyzer.test{path}", headers=self.headers, **more)

    async def operate(self, experiment, operation, /, **more):
        return await self.ask("POST", f"/experiments/{experiment}/operations", json={"operation": operation} | more)

    async def standing(self, name):
        listed = (await self.ask("GET", "/experiments")).json()["experiments"]
        return {one["name"]: one["standing"] for one in listed}.get(name)

    async def until(self, condition, seconds=20.0):
        for _ in range(int(seconds / 0.01)):
            if condition():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it did not come to that")

    async def audit(self):
        lines = (await self.ask("GET", "/audit")).json()["audit"]
        return [{k: v for k, v in line.items() if k not in ("number", "at")} for line in lines]


def running(both, work):
    async def run():
        async with both.running():
            await work(Desk(both))

    asyncio.run(run())


@pytest.mark.slow
def test_an_experiment_is_created_started_stopped_and_archived_without_a_restart(both, tmp_path):
    live = both.analyzer.analyzer.live

    async def work(desk):
        answer = await desk.ask("POST", "/experiments", json={"text": TOML})
        assert answer.status_code == 201
        expected = {"name": "second", "title": "A second one", "finished": False}
        assert answer.json() == expected | {"standing": "created", "public": True}
        check_problem(await desk.ask("POST", "/experiments", json={"text": TOML}), "name-taken")
        check_problem(await both.http.get("http://analyzer.test/experiments/second"), "not-ready")
        assert (await both.http.get("http://analyzer.test/readyz")).status_code == 200
        check_problem(await desk.operate("second", "pause"), "operation-refused")
        answer = await desk.operate("second", "start")
        assert answer.json() == {"record": None, "standing": "running"}
        check_problem(await desk.operate("second", "start"), "operation-refused")
        await desk.until(lambda: live["second"].standings.get("batches"))
        assert (await both.http.post("http://front.test/experiments/second/assignments")).status_code == 201
        check_problem(await desk.operate("second", "archive"), "operation-refused")
        assert (await desk.operate("second", "stop")).json()["standing"] == "finished"
        again = await desk.operate("second", "stop")
        check_problem(again, "operation-refused")
        assert again.json()["detail"] == "it has ended already"
        await desk.until(lambda: live["second"].standings.get("finished"))
        assert (await desk.operate("second", "archive")).json()["standing"] == "archived"
        assert "second" not in live
        check_problem(await desk.operate("second", "start"), "operation-refused")
        check_problem(await desk.ask("POST", "/experiments", json={"text": TOML}), "name-taken")
        shown = (await both.http.get("http://analyzer.test/experiments")).json()["experiments"]
        assert [one["name"] for one in shown] == ["colours"], "what is put away is in nobody's way"
        assert await desk.standing("second") == "archived"

    running(both, work)
    again = Both(tmp_path)

    async def later(desk):
        assert "second" not in again.analyzer.analyzer.live
        state = (await desk.ask("GET", "/experiments/second/state")).json()
        assert (state["standing"], state["finished"], state["arms"]) == ("archived", True, ["left", "right"])
        assert verify((await desk.ask("GET", "/experiments/second/transcript")).text).finished
        assert await desk.audit() == [
            {"who": "the server", "event": "created", "experiment": "colours"},
            {"who": "the server", "event": "started", "experiment": "colours"},
            {"who": "admin", "event": "created", "experiment": "second"},
            {"who": "admin", "event": "started", "experiment": "second"},
            {"who": "admin", "event": "operated", "experiment": "second", "operation": "stop"},
            {"who": "admin", "event": "archived", "experiment": "second"},
        ]

    running(again, later)


def test_an_experiment_that_was_created_or_started_is_there_after_a_restart_without_its_file(both, tmp_path):
    async def work(desk):
        for name in ("second", "third"):
            body = {"text": TOML.replace("second", name), "start": name == "third"}
            assert (await desk.ask("POST", "/experiments", json=body)).status_code == 201
        await desk.until(lambda: both.analyzer.analyzer.live["third"].open)

    running(both, work)
    again = Both(tmp_path)

    async def later(desk):
        live = again.analyzer.analyzer.live
        assert list(live) == ["colours", "second", "third"]
        assert (await desk.standing("second"), await desk.standing("third")) == ("created", "running")
        await desk.until(lambda: live["third"].caught_up)
        assert (await again.http.post("http://front.test/experiments/third/assignments")).status_code == 201
        assert (await desk.operate("second", "start")).status_code == 200
        await desk.until(lambda: live["second"].standings.get("batches"))

    running(again, later)


@pytest.mark.slow
def test_nobody_is_dealt_a_turn_while_an_experiment_is_paused_and_reports_still_count(both, tmp_path):
    async def turn(both):
        return await both.http.post("http://front.test/experiments/colours/assignments")

    async def work(desk):
        assert await both.users(20) == ["accepted"] * 20
        waiting = await asyncio.gather(*(turn(both) for _ in range(3)))
        assert {answer.status_code for answer in waiting} == {201}
        assert (await desk.operate("colours", "pause")).json()["standing"] == "paused"
        check_problem(await desk.operate("colours", "pause"), "operation-refused")
        await both.until(lambda: both.live.standings["paused"])
        answer = await turn(both)
        check_problem(answer, "nothing-open")
        assert answer.json()["detail"] == "the experiment is paused"
        assert (await both.http.get("http://front.test/experiments/colours/batches")).json()["paused"]
        metrics = (await both.http.get("http://analyzer.test/metrics")).text
        assert 'croupier_paused{experiment="colours"} 1.0' in metrics
        # The deadline passes, and says nothing about how many come.
        both.clock.now += 60
        await both.until(lambda: 0 in both.live.done)
        (expired,) = [record for record in both.live.records if record["event"] == "expired"]
        assert "received" not in expired
        assert not both.live.open, "nothing is opened for nobody"

    running(both, work)
    again = Both(tmp_path)

    async def later(desk):
        live = again.live
        assert await desk.standing("colours") == "paused"
        check_problem(await turn(again), "nothing-open")
        assert (await desk.operate("colours", "resume")).json()["standing"] == "running"
        await again.until(lambda: live.open and not live.standings["paused"])
        assert await again.users(3) == ["accepted"] * 3
        assert verify(live.transcript()).operations == 2

    async def run():
        async with (
            again.front.app.router.lifespan_context(again.front.app),
            again.analyzer.app.router.lifespan_context(again.analyzer.app),
        ):
            await again.until(lambda: again.live.caught_up)
            await later(Desk(again))

    asyncio.run(run())


def test_arms_are_named_as_people_name_them(both):
    async def work(desk):
        for arm in ("blue", "", 7, -1, True, 1.5, ["red"]):
            answer = await desk.operate("colours", "pause", arm=arm)
            assert answer.status_code in (400, 409), arm
        assert (await desk.operate("colours", "pause", arm="green")).status_code == 200
        assert both.live.program.show()["arms"][1]["paused"]
        assert (await desk.operate("colours", "add", name="blue")).status_code == 200
        await both.until(lambda: "blue" in both.live.arms)
        assert (await desk.audit())[-2:] == [
            {"who": "admin", "event": "operated", "experiment": "colours", "operation": "pause", "arm": "green"},
            {"who": "admin", "event": "operated", "experiment": "colours", "operation": "add", "name": "blue"},
        ]
        (record,) = [one for one in both.live.records if one.get("operation") == "pause"]
        assert (record["arm"], "who" in record) == (1, False), "a public log names no operator"

    running(both, work)


def test_users_are_split_otherwise_when_an_operator_says_so(tmp_path):
    split = PLAN | {"program": {"policy": "split"}, "reward": {}, "privacy": {}, "batches": {"smallest": 32}}
    both = Both(tmp_path, experiment=split)

    async def work(desk):
        for wrong in ({"red": 1}, {"red": 1, "blue": 2}, {"red": 0, "green": 1}, [1, 2], {"red": "x", "green": 1}):
            answer = await desk.operate("colours", "ramp", shares=wrong)
            assert answer.status_code in (400, 409), wrong
        assert (await desk.operate("colours", "ramp", shares={"green": 1, "red": 9})).status_code == 200
        await both.until(lambda: len(both.live.offers) == 4)
        odds = {(offer.block.epoch, offer.arm): offer.odds for offer in both.live.offers.values()}
        assert odds == {(0, 0): 0.5, (0, 1): 0.5, (1, 0): 0.9, (1, 1): 0.1}
        assert verify(both.live.transcript()).operations == 1
        assert (await desk.audit())[-1]["shares"] == {"green": 1.0, "red": 9.0}
        answer = await desk.ask("GET", "/audit.csv")
        assert '{""green"": 1.0, ""red"": 9.0}' in answer.text

    running(both, work)


def test_what_was_asked_and_who_asked_are_written_together_or_not_at_all(both, monkeypatch):
    async def work(desk):
        before, audited = both.live.count, len(await desk.audit())
        check_problem(await desk.operate("colours", "retire", arm="nobody"), "operation-refused")
        real = both.analyzer.store.append

        def full(*_, **__):
            raise OSError("no space left on the disk")

        with monkeypatch.context() as broken:
            broken.setattr(both.analyzer.store, "append", full)
            check_problem(await desk.operate("colours", "pause"), "internal")
            check_problem(await desk.ask("POST", "/experiments", json={"text": TOML}), "internal")
        assert both.analyzer.store.append == real
        await both.until(lambda: not both.live.stale)
        assert (both.live.count, len(await desk.audit())) == (before, audited)
        assert not both.live.state.paused
        assert (await desk.operate("colours", "pause")).status_code == 200
        assert len(await desk.audit()) == audited + 1

    running(both, work)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("name = ", "text is not TOML"),
        ('name = "x"', "program.horizon"),
        ("[" * 5000, "text is not TOML"),
        (TOML.replace("shuffled-bits", "os:system"), "protocol"),
        (TOML + "\nextra = 1", "extra"),
        ("public = 3\n" + TOML, "public = 3"),
        (3, "text is"),
        (None, "text is"),
    ],
)
def test_an_experiment_that_cannot_be_is_refused_and_leaves_no_trace(wrong, said, both):
    async def work(desk):
        before = await desk.audit()
        answer = await desk.ask("POST", "/experiments", json={"text": wrong})
        check_problem(answer, "bad-request")
        assert said in answer.json()["detail"]
        assert await desk.audit() == before

    running(both, work)


def test_a_file_that_says_something_new_is_noted_and_an_archived_one_stays_away(both, tmp_path):
    async def stop(desk):
        assert (await desk.operate("colours", "stop")).status_code == 200
        await both.until(lambda: both.live.standings.get("finished"))
        assert (await desk.operate("colours", "archive")).status_code == 200

    renamed = Both(tmp_path, experiment=PLAN | {"title": "Another title"})
    assert [line["event"] for line in renamed.analyzer.desk.register.newest] == ["created", "started", "created"]
    assert renamed.live.plan.title == "Another title"
    both = renamed
    running(both, stop)
    again = Both(tmp_path, experiment=PLAN | {"title": "Another title"})
    assert again.analyzer.analyzer.live == {}


def test_an_operators_log_that_was_changed_is_not_gone_on_with(both, tmp_path):
    with both.analyzer.store.database.write() as connection:
        change = "UPDATE lines SET line = replace(line, 'the server', 'somebody') WHERE experiment = :log"
        connection.execute(text(change), {"log": LOG})
    with pytest.raises(BadRecord, match="record 0 of the operators' log: it was changed"):
        Both(tmp_path)


def test_an_experiment_that_cannot_go_on_stands_in_nobody_elses_way(both, tmp_path, caplog):
    """Such as one whose module is gone."""
    register = both.analyzer.desk.register
    source = json.loads(json.dumps(PLAN)) | {"name": "odd", "reward": {"protocol": "nowhere_at_all:protocol"}}
    register.write("the server", "created", experiment="odd", plan=source, file=True)
    register.write("the server", "started", experiment="odd")
    again = Both(tmp_path)

    async def work(_):
        answer = await again.http.get("http://analyzer.test/readyz")
        check_problem(answer, "not-ready")
        assert "odd: " in answer.json()["detail"]
        check_problem(await again.http.get("http://analyzer.test/experiments/odd"), "unknown-experiment")
        assert await again.users(1) == ["accepted"]

    running(again, work)
