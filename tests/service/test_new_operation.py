"""What can happen to an experiment is written once: a made-up operation or event is known to all who listen."""

import asyncio
import json

import pytest

from cases.service.long_logs import PLANS, long_log
from cases.service.world import Clock, keys_of
from croupier.checks import CroupierError
from croupier.programs import Operation, interpreter
from croupier.programs.histogram import HistogramProgram
from croupier.service import views
from croupier.service.experiment import plan
from croupier.service.experiment_log import Asked, Live
from croupier.service.schemas import OPERATE, TEXT
from croupier.service.store import AnalyzerStore
from croupier.service.verifying import verify
from croupier.service.waits import Waits

TRUST = {server: keys_of(server).verify for server in ("analyzer", "front")}


@pytest.fixture
def make_live(tmp_path):
    """An analyzer's experiment after a few rounds; made again, it is read from its log."""
    store = AnalyzerStore(f"sqlite:///{tmp_path}/store.db")
    store.append("histogram", 0, *long_log("histogram", 9))
    yield lambda: Live(plan(PLANS["histogram"]), store, keys_of("analyzer"), Clock(), Waits(store=1.0))
    store.close()


@pytest.fixture
def extend(monkeypatch):
    """One row in one table."""

    def one_round_more(program, _):
        program.rounds += 1

    made_up = {"extend": Operation("extended", one_round_more)}
    monkeypatch.setattr(HistogramProgram, "operations", {**HistogramProgram.operations, **made_up})


def operated(live):
    asyncio.run(live.operate(Asked("extend")))


def test_a_new_operation_is_known_to_the_analyzer_the_history_and_who_verifies(make_live, extend):
    live = make_live()
    rounds = live.program.rounds
    operated(live)
    assert live.program.rounds == rounds + 1
    assert make_live().program.rounds == rounds + 1, "after a restart too"
    newest = views.state(live)["events"][-1]
    assert (newest["event"], newest["operation"], newest["done"]) == ("operated", "extend", "extended")
    verdict = verify(live.transcript(), TRUST)
    assert (verdict.operations, verdict.result["rounds"]) == (1, rounds + 1)


def test_the_description_of_the_server_leaves_room_for_it():
    known, any_other = OPERATE["properties"]["operation"]["anyOf"]
    assert {"start", "pause", "stop"} < {*known["enum"]}
    assert any_other == TEXT


def test_without_its_row_nobody_knows_it(make_live, monkeypatch, request):
    live = make_live()
    with pytest.raises(CroupierError, match="operation = 'extend'"):
        operated(live)
    with monkeypatch.context():
        request.getfixturevalue("extend")
        operated(live)
        transcript = live.transcript()
    monkeypatch.undo()
    with pytest.raises(CroupierError, match="operation = 'extend'"):
        make_live()
    with pytest.raises(CroupierError, match="line 10 does not follow: operation = 'extend'"):
        verify(transcript, TRUST)


def test_a_new_event_is_one_row_too(make_live, monkeypatch):
    live = make_live()
    assert live.count == 9

    def renamed(state, change):
        state.arms = (*state.arms, change.record["title"])

    monkeypatch.setitem(interpreter.EVENTS, "renamed", renamed)
    asyncio.run(live.record("renamed", title="Fruit of the year"))
    assert make_live().arms == live.arms == ("Fruit of the year",)
    newest = live.run.history.events[-1]
    assert (newest["event"], newest["title"]) == ("renamed", "Fruit of the year")
    assert verify(live.transcript(), TRUST).records == 10
    assert json.loads(live.transcript().splitlines()[-1])["event"] == "renamed"
