"""Long logs and hostile files: work grows as the log does, memory not with its readers, and a bad file is one line."""

import asyncio
import json
import sys
import threading
import tracemalloc
from functools import partial
from itertools import islice

import pytest

from cases.service.forgery import resigned
from cases.service.long_logs import PLANS, long_log
from cases.service.world import Clock, keys_of
from croupier.checks import CroupierError
from croupier.cli import main, patience
from croupier.messages.configuration import Configuration
from croupier.messages.signing import Statement
from croupier.programs import records
from croupier.programs.records import LONGEST_LINE
from croupier.service import views
from croupier.service.experiment import plan
from croupier.service.experiment_log import Live, Run
from croupier.service.history import EVENTS
from croupier.service.store import AnalyzerStore
from croupier.service.verifying import lines_of, verify
from croupier.service.views import Shown
from croupier.service.waits import Waits

LONG, SHORT = 4_000, 100


@pytest.fixture(scope="module")
def long_lines():
    return list(long_log("histogram", LONG))


@pytest.fixture
def live(long_lines, tmp_path):
    store = AnalyzerStore(f"sqlite:///{tmp_path}/store.db")
    for start in range(0, len(long_lines), 1000):
        store.append("histogram", start, *long_lines[start : start + 1000])
    yield Live(plan(PLANS["histogram"]), store, keys_of("analyzer"), Clock(), Waits(store=1.0))
    store.close()


def calls_of(work):
    """How many functions are called, in Python and below."""
    count = 0

    def counted(*event):
        nonlocal count
        count += event[1] in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bandit", "counter", "histogram"])
def test_replaying_and_verifying_cost_as_much_more_as_the_log_is_longer(kind):
    lines = list(long_log(kind, 4 * SHORT))
    trust = {server: keys_of(server).verify for server in ("analyzer", "front")}

    def replay(some):
        run = Run(plan(PLANS[kind]))
        for line in some:
            run.read(line)
        return run

    for work in (replay, lambda some: verify([line.encode() for line in some], trust)):
        # What is planned and cached once is not counted.
        work(lines)
        short, long = (calls_of(partial(work, lines[:length])) for length in (SHORT, 4 * SHORT))
        assert 3.0 < long / short < 4.6, (kind, short, long)
    run = replay(lines)
    assert len(run.state.offers) == len(run.state.signed) <= 2
    assert len(run.state.open) <= 3
    assert len(run.history.events) == EVENTS


@pytest.mark.slow
def test_slow_readers_hold_a_page_each_and_not_the_log(live, long_lines):
    size = sum(map(len, long_lines))

    async def work():
        async def first(reader):
            return len(await anext(reader))

        tracemalloc.start()
        readers = [live.pages() for _ in range(30)]
        held = [await first(reader) for reader in readers]
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert max(held) < size / 20
        # As much as one and a half logs at the very most, where thirty of them were held before.
        assert taken < 1.5 * size
        for reader in readers:
            await reader.aclose()

    asyncio.run(work())


@pytest.mark.slow
def test_a_reader_sees_the_log_as_it_was_when_it_came(live, long_lines):
    async def work():
        reader = live.pages()
        found = await anext(reader)
        await live.record("operated", operation="stop")
        async for page in reader:
            found += page
        assert found.splitlines() == long_lines
        assert live.count == len(long_lines) + 1

    asyncio.run(work())


@pytest.mark.slow
def test_the_state_is_made_once_a_version_however_many_look(live, monkeypatch):
    made = []
    real = views.state
    monkeypatch.setattr(views, "state", lambda one: made.append(1) or real(one))
    shown = Shown(live, lambda _: "running")
    assert len({id(shown.text()) for _ in range(100)}) == 1
    assert len(made) == 1
    assert len(shown.text()) < 200_000
    live.version += 1
    shown.text()
    assert len(made) == 2
    assert json.loads(shown.text())["records"] == live.count


def first_line(**changes):
    """A log that begins with a configuration of a stranger's making, signed by himself as both servers."""
    record = json.loads(next(long_log("bandit", 1)))
    body = json.loads(record["configuration"]["body"])
    for path, value in changes.items():
        at = body
        *outer, last = path.split("__")
        for key in outer:
            at = at[key]
        at[last] = value
    statement = Statement("configuration", json.dumps(body, sort_keys=True, separators=(",", ":")))
    for server in ("analyzer", "front"):
        statement = statement.signed(server, keys_of(server).sign)
    return resigned([record | {"configuration": statement.to_dict()}], keys_of("analyzer").sign).encode()


def hostile():
    """Files by whoever wants to keep somebody busy."""
    honest = list(islice(long_log("bandit", 5), 5))
    true = "".join(line + "\n" for line in honest).encode()
    yield "nothing", b""
    yield "no JSON", b"hello\n"
    yield "not UTF-8", b"\xff\xfe\n"
    yield "halves of characters", b'{"event": "\\ud800", "number": 0}\n'
    yield "deep", b"[" * 10**6
    yield "deep inside", b'{"number": 0, "event":' + b'{"a":' * 10**5 + b"}" * 10**5 + b"}\n"
    yield "a giant number", b'{"number": ' + b"9" * 10**6 + b"}\n"
    yield "a large number", b'{"number": ' + b"9" * 4000 + b"}\n"
    yield "no number", true.replace(b'"decoded":', b'"decoded":NaN,"x":')
    yield "infinity", b'{"number": 0, "previous": 1e999}\n'
    yield "an event of another kind", b'{"number": 0, "event": ["configured"]}\n'
    yield "a private event", resigned([{"event": "_open"}], keys_of("analyzer").sign).encode()
    yield "a giant line", b'{"number":0,"a":"' + b"a" * (LONGEST_LINE + 10)
    yield "control signs", resigned([{"event": "\x1b[2J\n\r"}], keys_of("analyzer").sign).encode()
    yield "a huge revision", first_line(revision=10**30)
    yield "a later revision", first_line(revision=2**31 - 1)
    yield "billions of users", first_line(program__horizon=10**40)
    yield "billions of arms", first_line(program__arms=10**10)
    yield "a tiny ε", first_line(program__epsilon=1e-9)
    yield "no ε", first_line(program__epsilon="a")
    yield "something after the end", true + b"\n"


def test_a_hostile_file_is_refused_in_one_line(tmp_path, capsys):
    path = tmp_path / "hostile.jsonl"
    for what, data in hostile():
        path.write_bytes(data)
        assert main(["verify", str(path), "--patience", "5"]) == 2, what
        captured = capsys.readouterr()
        assert captured.out == "", what
        assert captured.err.startswith("croupier verify: "), what
        assert captured.err.count("\n") == 1, what
        assert captured.err.removesuffix("\n").isprintable(), what
        assert len(captured.err) < 600, what


def test_a_transcript_that_names_a_module_imports_nothing(tmp_path, monkeypatch, capsys):
    """Names such as os:system are looked up, and never imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "bomb.py").write_text("from pathlib import Path\nPath(__file__).with_name('went off').touch()\n")
    path = tmp_path / "hostile.jsonl"
    for name in ("bomb:ENTRY", "os:system", "bomb"):
        for key in ("program__name", "program__protocol_name", "program__kind", "recipe__protocol"):
            path.write_bytes(first_line(**{key: name}))
            main(["verify", str(path)])
            assert capsys.readouterr().err.count("\n") <= 1, (key, name)
            assert "bomb" not in sys.modules, (key, name)
    assert not (tmp_path / "went off").exists()


def test_whoever_is_not_trusted_makes_nobody_plan_anything(monkeypatch):
    """With the keys pinned, nothing of a stranger's file is looked at but its signature."""
    from croupier.programs import interpreter

    monkeypatch.setattr(interpreter, "program", lambda _: pytest.fail("it was planned"))
    with pytest.raises(CroupierError, match="line 1 does not follow: it was changed, or another key"):
        verify(first_line(program__epsilon=0.5).decode(), {"analyzer": keys_of("front").verify})


class Endless:
    """A file without an end."""

    def __init__(self, piece):
        self.piece = piece

    def readline(self, most):
        return (self.piece * (most // len(self.piece) + 1))[:most]


def test_a_file_without_an_end_is_not_read_to_its_end():
    with pytest.raises(CroupierError, match="longer than"):
        verify(lines_of(Endless(b"a")))


@pytest.mark.slow
def test_time_and_memory_are_bounded_whatever_is_computed(monkeypatch):
    def endless():
        with patience.limited(0.6) as pace:
            list(pace.of(range(3)))
            while True:
                try:
                    sum(range(1000))
                except Exception:
                    pytest.fail("time is up for everybody")

    with pytest.raises(CroupierError, match="checking line 3 takes longer than it may"):
        endless()
    monkeypatch.setattr(patience, "MEMORY", 2**28)
    with pytest.raises(MemoryError), patience.limited(60.0):
        bytearray(2**30)
    bytearray(2**30)


def test_limits_are_left_out_where_no_alarm_can_ring():
    found = []

    def work():
        with patience.limited(1.0) as pace:
            found.extend(pace.of([1, 2]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [1, 2]


@pytest.mark.slow
def test_a_log_that_was_changed_on_the_disk_is_not_gone_on_with(live, tmp_path, long_lines):
    from sqlalchemy import text

    with live.store.database.write() as connection:
        connection.execute(text("UPDATE lines SET line = replace(line, '2026', '2025') WHERE number = 77"))
    with pytest.raises(records.BadRecord, match="record 78 of the log of histogram: it does not hold the hash"):
        Live(live.plan, live.store, live.keys, live.clock, live.waits)
    assert Configuration.from_text(live.configured.text).experiment == "histogram"
