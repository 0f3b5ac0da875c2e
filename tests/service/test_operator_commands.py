"""Operators' commands at real servers: an experiment's whole life, through a `kill -9`; and what is refused before."""

import csv
import io
import json

import httpx2
import pytest

from cases.service.blocks import LEAST, PLAN
from cases.service.machine import ANALYZER
from cases.service.processes import QUICK, home_of, written
from cases.service.shares import one_bit_a_user, opened
from croupier.cli import main
from croupier.service.crowd import Crowd, run
from croupier.service.experiment_log import Asked
from croupier.service.keys import bearer
from croupier.service.processes import Child, both
from croupier.service.verifying import verify

EXPERIMENT = """
name = "{name}"
title = "Which colour?"
public = false
arms = ["red", "green"]
[program]
horizon = 4000
[privacy]
epsilon = 4.0
[reports]
report_within = 600
report_at = [0, 0]
[batches]
deadline = 100
"""


class Operator:
    """Somebody at a terminal."""

    def __init__(self, url, token, capsys):
        self.url, self.token, self.capsys = url, token, capsys

    def __call__(self, command, *arguments, token=True):
        shown = ("--token", self.token) if token else ()
        status = main([command, self.url, *arguments, *shown])
        said = self.capsys.readouterr()
        return status, said.out, said.err

    def rows(self, command, *arguments):
        status, out, err = self(command, *arguments, "--json")
        assert status == 0, err
        return json.loads(out)


@pytest.mark.slow
def test_an_experiments_whole_life_by_commands_through_a_kill(tmp_path, capsys):
    home = home_of(tmp_path)
    file = written(tmp_path, EXPERIMENT.format(name="colours"))
    with both(home, [], **QUICK) as children:
        ask = Operator(home.analyzer_url, bearer(home.admin), capsys)
        assert ask.rows("status") == []
        assert ask("create", file)[1] == f"colours is created: {home.analyzer_url}/#colours\n"
        status, _, err = ask("create", file)
        assert (status, err) == (
            2,
            "croupier create: the analyzer refused: there is an experiment called 'colours', or there was one\n",
        )
        assert ask("start", "colours")[1] == "start colours: done; the experiment is running\n"
        children["analyzer"].kill()
        command = home.command("analyzer", [], **QUICK["analyzer"])
        children["analyzer"] = Child(command, home.analyzer_url, children["analyzer"].log)
        children["analyzer"].wait_answering(path="/readyz")
        assert [one["standing"] for one in ask.rows("status")] == ["running"]
        assert run(Crowd(home.analyzer_url, "colours", 70, (0.5, 0.5), seed=1, keys=home.verify_keys))["accepted"] == 70
        assert ask.rows("pause", "colours")[0]["standing"] == "paused"
        children["analyzer"].kill()
        children["analyzer"] = Child(command, home.analyzer_url, children["analyzer"].log)
        children["analyzer"].wait_answering(path="/readyz")
        (state,) = ask.rows("status", "colours")
        assert (state["standing"], state["arms"]) == ("paused", ["red", "green"])
        assert ask.rows("resume", "colours")[0]["standing"] == "running"
        assert "pause green of colours: done" in ask("pause", "colours", "green")[1]
        assert ask("add", "colours", "blue")[0] == 0
        assert ask("retire", "colours", "green")[0] == 0
        status, _, err = ask("retire", "colours", "purple")
        assert (status, "one of red, green, blue" in err) == (2, True)
        status, out, err = ask("status", "colours", token=False)
        assert (status, out) == (2, "")
        assert err == "croupier status: the analyzer refused: show a token: --token, --token-file or CROUPIER_TOKEN\n"
        assert ask.rows("stop", "colours")[0]["standing"] == "finished"
        status, out, _ = ask("export", "colours")
        released = [row for row in csv.DictReader(io.StringIO(out)) if row["event"] == "released"]
        (state,) = ask.rows("status", "colours")
        assert sum(int(row["users"]) for row in released) == state["reports"] > 0
        transcript = tmp_path / "colours.jsonl"
        assert ask("export", "colours", "--table", "transcript", "--out", str(transcript))[0] == 0
        assert verify(transcript.read_text()).finished
        assert _until(lambda: ask("retire", "colours")[0] == 0)
        assert "archived" in ask("status")[1]
        _, out, _ = ask("export")
        done = [(row["who"], row["event"], row["operation"], row["arm"]) for row in csv.DictReader(io.StringIO(out))]
        assert done == [
            ("admin", "created", "", ""),
            ("admin", "started", "", ""),
            ("admin", "operated", "pause", ""),
            ("admin", "operated", "resume", ""),
            ("admin", "operated", "pause", "green"),
            ("admin", "operated", "add", ""),
            ("admin", "operated", "retire", "green"),
            ("admin", "operated", "stop", ""),
            ("admin", "archived", "", ""),
        ]


def _until(condition, times=100):
    import time

    for _ in range(times):
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_a_token_is_read_from_a_file_or_the_environment_and_never_sent_in_the_clear(tmp_path, monkeypatch, capsys):
    from croupier.cli import operator

    asked = []

    def answer(request):
        asked.append(request.headers)
        return httpx2.Response(200, json={"experiments": []})

    monkeypatch.setattr("httpx2.stream", httpx2.Client(transport=httpx2.MockTransport(answer)).stream)
    (tmp_path / "token").write_text("from-a-file\n")
    (tmp_path / "admin").write_bytes(bytes(32))
    (tmp_path / "admin").chmod(0o600)
    (tmp_path / "odd").write_bytes(b"\xff" * 31)
    url = "https://analyzer.example"
    assert main(["status", url, "--token-file", str(tmp_path / "token")]) == 0
    assert main(["status", url, "--token-file", str(tmp_path / "admin")]) == 0
    assert main(["status", url]) == 0
    monkeypatch.setenv(operator.TOKEN, "from-the-environment")
    assert main(["status", url]) == 0
    assert main(["status", "http://127.0.0.1:1", "--token", "given"]) == 0
    shown = [headers.get("authorization", "").removeprefix("Bearer ") for headers in asked]
    assert shown == ["from-a-file", "A" * 43, "", "from-the-environment", "given"]
    for arguments, why in (
        (["http://analyzer.example"], "would be read on its way"),
        (["analyzer.example"], "is no address"),
        ([url, "--token", "a", "--token-file", "b"], "not both"),
        ([url, "--token-file", str(tmp_path / "nowhere")], "cannot be read"),
        ([url, "--token-file", str(tmp_path / "odd")], "holds no token"),
    ):
        assert main(["status", *arguments]) == 2
        assert why in capsys.readouterr().err


def test_an_analyzer_that_does_not_answer_is_said_in_one_line(capsys):
    assert main(["stop", "http://127.0.0.1:9", "colours"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("croupier stop: http://127.0.0.1:9 does not answer: ")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_an_arm_that_was_just_added_stands_in_the_table_without_a_difference(tmp_path, monkeypatch, capsys):
    with one_bit_a_user(monkeypatch, marks=False):
        service = opened(tmp_path, experiment=PLAN)
        for _ in range(4 * LEAST):
            service.reports(service.comes())
            service.step()
        service.servers.run(service.live.operate(Asked("add", name="blue")))
        state = service.servers.ask("GET", f"{ANALYZER}/experiments/{service.name}/state").json()
        service.close()
    monkeypatch.setattr("croupier.cli.operator.Analyzer.get", lambda *_: state)
    assert state["arms"][-1] == "blue"
    assert [len(point["difference"]) for point in state["curve"][-1:]] == [2], "no block since the arm was added"
    assert main(["status", ANALYZER, service.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    (heading,) = (line for line in lines if line.startswith("arm"))
    (blue,) = (line for line in lines if line.startswith("blue"))
    assert heading.split()[:3] == ["arm", "standing", "reports"]
    assert blue.rstrip().endswith("–")


@pytest.mark.parametrize("given", [["0.25", "0.5"], ["=3", "tour=1"], ["plain=x", "tour=1"], ["plain=", "tour=1"]])
def test_shares_that_name_no_arm_or_no_number_are_told_their_form(given, capsys):
    assert main(["ramp", "http://127.0.0.1:8400", "screens", *given, "--token", "x"]) == 2
    said = (
        f"croupier ramp: shares = {given[0]!r} is not allowed: it must be ARM=SHARE, an arm and a number, as plain=9\n"
    )
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("command", "status", "body"),
    [
        (["status"], 404, '{"type": "urn:croupier:error:not-found", "title": "There is nothing here", "status": 404}'),
        (["status", "colours"], 404, "<html>not found</html>"),
        (["stop", "colours"], 405, '{"type": "urn:croupier:error:method-not-allowed", "title": "The method does not"}'),
    ],
)
def test_a_server_that_is_no_analyzer_is_said_to_be_none(command, status, body, monkeypatch, capsys):
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, text=body))
    monkeypatch.setattr("httpx2.stream", httpx2.Client(transport=transport).stream)
    assert main([command[0], "http://127.0.0.1:8401", *command[1:]]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"croupier {command[0]}: this is no analyzer (")
    assert err.endswith("): is it the front's port? `croupier up` prints both\n")


def test_what_an_analyzer_does_not_have_it_says_itself(monkeypatch, capsys):
    body = '{"type": "urn:croupier:error:unknown-experiment", "title": "There is no such experiment", "status": 404}'
    transport = httpx2.MockTransport(lambda _: httpx2.Response(404, text=body))
    monkeypatch.setattr("httpx2.stream", httpx2.Client(transport=transport).stream)
    assert main(["status", "http://127.0.0.1:8400", "colours"]) == 2
    assert capsys.readouterr().err == "croupier status: the analyzer refused: There is no such experiment\n"


def answered(monkeypatch, answers):
    """An analyzer that has these answers, by the path that is asked for."""

    def answer(request):
        found = answers.get(request.url.path)
        unknown = {"type": "urn:croupier:error:unknown-experiment", "title": "There is no such experiment"}
        return httpx2.Response(404, json=unknown) if found is None else httpx2.Response(200, json=found)

    monkeypatch.setattr("httpx2.stream", httpx2.Client(transport=httpx2.MockTransport(answer)).stream)


def test_a_name_that_there_is_not_is_told_those_that_there_are(monkeypatch, capsys):
    answered(monkeypatch, {"/experiments": {"experiments": [{"name": "colours"}, {"name": "steps"}]}})
    assert main(["status", "http://127.0.0.1:8400", "colors"]) == 2
    said = "http://127.0.0.1:8400 has no experiment 'colors'; it has: colours, steps; did you mean colours?"
    assert capsys.readouterr().err == f"croupier status: {said}\n"


def test_an_experiment_that_goes_on_and_stands_still_says_why(monkeypatch, capsys):
    state = {"stalled": "batch 3 has fewer than 32 reports", "trouble": ""}
    paths = {"/experiments/colours/operations": {"standing": "stalled"}, "/experiments/colours/state": state}
    answered(monkeypatch, paths)
    assert main(["resume", "http://127.0.0.1:8400", "colours"]) == 0
    said = "resume colours: done; the experiment is stalled\nbatch 3 has fewer than 32 reports\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("name", ["x.xlsx", "x.tsv", "x.CSVV"])
def test_a_file_is_not_called_what_it_is_not(name, monkeypatch, tmp_path, capsys):
    asked = []

    def answer(request):
        asked.append(request.url.path)
        return httpx2.Response(200, text="a,b\n")

    monkeypatch.setattr("httpx2.stream", httpx2.Client(transport=httpx2.MockTransport(answer)).stream)
    monkeypatch.chdir(tmp_path)
    url = "http://127.0.0.1:8400"
    assert main(["export", url, "colours", "--out", name]) == 2
    err = capsys.readouterr().err
    assert (
        err
        == f"croupier export: out = '{name}' is not allowed: it must be called .csv, .json, .parquet; or say --format\n"
    )
    assert (asked, list(tmp_path.iterdir())) == ([], [])
    assert main(["export", url, "colours", "--out", name, "--format", "csv"]) == 0
    assert main(["export", url, "colours", "--out", "rows.JSON"]) == 0
    assert main(["export", url, "colours", "--out", "rows"]) == 0
    assert main(["export", url, "colours", "--out", "log.jsonl", "--table", "transcript"]) == 0
    capsys.readouterr()
    assert main(["export", url, "colours", "--table", "transcript", "--format", "json"]) == 2
    assert "format = 'json' is not allowed: it must be left out" in capsys.readouterr().err
    tables = "/experiments/colours/tables/batches"
    assert asked == [f"{tables}.csv", f"{tables}.json", f"{tables}.csv", "/experiments/colours/transcript"]
