"""Servers as processes: none is taken for another, a home has one master, and whatever goes wrong is said."""

import contextlib
import http.server
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cases.service.processes import home_of, written
from croupier.checks import CroupierError
from croupier.cli import main
from croupier.cli import up as up_command
from croupier.cli.crowd import WHOSE_KEYS
from croupier.cli.up import default_experiment
from croupier.messages.signing import to_text
from croupier.service import keys as key_files
from croupier.service import processes
from croupier.service.processes import COMMAND, Child, both, free_port
from croupier.service.settings import AnalyzerSettings, FrontSettings

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


@contextlib.contextmanager
def stranger(before_each_answer=lambda: None):
    """Somebody else's server, which answers everything with 200; yields its port and what it was asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            before_each_answer()
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("server", ["analyzer", "front"])
def test_a_port_where_another_server_runs_is_refused_before_anything_is_started(server, tmp_path):
    with stranger() as (port, asked):
        home = home_of(tmp_path)
        object.__setattr__(home, f"{server}_port", port)
        with pytest.raises(CroupierError, match=f"127.0.0.1:{port} cannot be listened on"), both(home, []):
            raise AssertionError("the stranger was taken for our own")
    assert asked == []
    assert not list(home.directory.glob("*/log.jsonl"))


def test_an_answer_does_not_count_when_the_server_that_should_have_given_it_has_ended(tmp_path):
    child = None
    with stranger(lambda: child.process.wait()) as (port, _):
        command = [sys.executable, "-c", "import sys; sys.exit('croupier serve: the port is taken')"]
        child = Child(command, f"http://127.0.0.1:{port}", tmp_path / "log.jsonl")
        with pytest.raises(CroupierError) as refusal:
            child.wait_answering()
    assert str(refusal.value) == "the port is taken"


def test_a_refusal_is_said_at_once_and_an_earlier_runs_is_not(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"event": "trouble", "what": "the front refused: long ago"}) + "\n")
    line = json.dumps({"event": "trouble", "what": "the front refused: beyond-policy: ε = 12 is above 10"})
    says = f"import sys, time; print({line!r}, flush=True); time.sleep(600)"
    child = Child([sys.executable, "-c", says], f"http://127.0.0.1:{free_port()}", log)
    try:
        with pytest.raises(CroupierError) as refusal:
            child.wait_answering()
        assert str(refusal.value) == "the front refused: beyond-policy: ε = 12 is above 10"
    finally:
        child.kill()


def test_a_server_that_is_never_ready_says_what_its_trouble_is(tmp_path):
    child = Child(SLEEPS, f"http://127.0.0.1:{free_port()}", tmp_path / "log.jsonl")
    try:
        with pytest.raises(CroupierError, match="is not ready after 0.1 seconds: it said nothing"):
            child.wait_answering(0.1)
    finally:
        child.kill()


INFO = json.dumps({"at": "now", "level": "info", "event": "opened", "experiment": "colours"})
ERROR = json.dumps({"at": "now", "level": "critical", "event": "internal", "error": "OSError", "where": "store.py:3"})


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (f"print({INFO!r}, flush=True); os.kill(os.getpid(), signal.SIGKILL)", "was killed (signal 9)"),
        (f"print({INFO!r}); sys.exit(3)", "has ended with status 3"),
        (f"print({ERROR!r}); print({INFO!r}); sys.exit(1)", "has ended with status 1: internal, OSError, store.py:3"),
        ("sys.exit('croupier serve: the port is taken')", "has ended with status 1: the port is taken"),
    ],
)
def test_how_a_server_ended_is_said_without_words_that_have_nothing_to_do_with_it(code, how, tmp_path):
    command = [sys.executable, "-c", f"import os, signal, sys; {code}"]
    child = Child(command, "http://127.0.0.1:1", tmp_path / "log.jsonl")
    child.process.wait()
    assert child.how_it_ended == how
    for kept, rest in ((True, f"the same command goes on; its log: {child.log}"), (False, "--scratch keeps nothing")):
        with pytest.raises(CroupierError) as said:
            up_command._wait({"analyzer": child}, kept)
        assert str(said.value) == f"the analyzer {how} ({rest})"


def test_a_home_has_one_master_and_servers_that_outlive_theirs_keep_it(tmp_path):
    home = home_of(tmp_path)
    with home.held(), pytest.raises(CroupierError, match=f"{home.directory} is in use"), home.held():
        raise AssertionError("two have it")
    with home.held() as lock:
        child = Child(SLEEPS, "http://127.0.0.1:1", tmp_path / "log.jsonl", lock)
    try:
        with pytest.raises(CroupierError, match="is in use"), home.held():
            raise AssertionError("an orphan and somebody else have it")
    finally:
        child.kill()
    with home.held():
        pass


@pytest.mark.parametrize("server", ["front", "analyzer"])
def test_stores_are_their_owners_alone(server, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_run", lambda *_: None)  # all but listening
    key_files.make(tmp_path / "keys")
    key_files.make_bearer(tmp_path / "bearer")
    where = {"keys": str(tmp_path / "keys"), "store": str(tmp_path / "store.db"), "openers": 0}
    before = os.umask(0o022)
    try:
        if server == "front":
            processes.serve_front(FrontSettings(analyzer="sha256:" + "0" * 64, admission="everybody", **where))
        else:
            bearer = str(tmp_path / "bearer")
            settings = AnalyzerSettings(bearer=bearer, admin=bearer, front="https://front.test", **where)
            processes.serve_analyzer(settings, [default_experiment()])
    finally:
        after = os.umask(before)
    assert after == 0o022
    found = list(tmp_path.glob("store.db*"))
    assert found
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}


class Up:
    """A `croupier up` that runs, and what it says."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.said = directory / "up.txt"
        with self.said.open("wb") as file:
            command = [*COMMAND, "up", "--no-browser", *arguments]
            self.process = subprocess.Popen(command, stdout=file, stderr=file, cwd=directory)

    def wait_saying(self, word: str) -> str:
        """Wait until it says this, or ends."""
        while word not in self.said.read_text() and self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
        assert word in self.said.read_text(), self.said.read_text()
        return self.said.read_text()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def check_users_come(printed, capsys):
    """They report with the keys of the command that was printed, and take no turn without them."""
    command, keys = (shlex.split(part) for part in printed.groups())
    assert main([*command, "--users", "3", "--json", *keys]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["outcomes"] == {"accepted": 3}
    assert main([*command, "--users", "3"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"croupier crowd: {told['experiment']} is safe as long as one of two servers is honest: {WHOSE_KEYS}"


@pytest.mark.slow
@pytest.mark.parametrize("crowd", [True, False])
def test_up_ends_its_servers_and_itself_when_it_is_told_to(crowd, tmp_path, capsys):
    """While users come, and while it waits for them; who they may be sent by is the command that it prints."""
    up = Up(tmp_path, "--port", "0", "--home", "home", *(("--crowd", "1000000") if crowd else ()))
    try:
        said = up.wait_saying("simulated users come" if crowd else "--front-key")
        pinned = json.loads(re.search(r"^apps +keys = (.*)$", said, re.MULTILINE)[1])
        for server in ("analyzer", "front"):
            assert pinned[server] == to_text(key_files.load(tmp_path / "home" / server / "keys").verify)
        if not crowd:
            check_users_come(re.search(r"^users +croupier (.*) --users 5000 (.*)$", said, re.MULTILINE), capsys)
        assert up.end() == (130 if crowd else 0)
    finally:
        up.process.kill()
        up.process.wait()
    ports = [
        int(line.split()[1].rpartition(":")[2]) for line in said.splitlines() if line.startswith(("analyzer", "front"))
    ]
    assert len(ports) == 2
    for port in ports:
        processes.check_free("127.0.0.1", port)
    assert "Traceback" not in up.said.read_text()


@pytest.mark.slow
def test_an_epsilon_that_the_front_does_not_serve_is_said_in_one_line(tmp_path):
    text = 'name = "a"\narms = ["x", "y"]\n[program]\nhorizon = 1000\n[privacy]\nepsilon = 12.0\n'
    up = Up(tmp_path, "--port", "0", written(tmp_path, text))
    assert up.process.wait(120) == 2
    starting, line = up.said.read_text().splitlines()
    assert starting.startswith("Starting")
    assert line.startswith("croupier up: ")
    assert "ε = 12 is above 10" in line
    assert line.count("croupier") == 1
