"""What strangers send to stop a server: each attack is performed over real sockets, and others go on being answered."""

import asyncio
import ssl
import threading
import time
from dataclasses import replace
from functools import partial

import httpx2
import pytest
from sqlalchemy import update
from starlette.responses import StreamingResponse

from cases.service.attacker import ADDRESS, BASE, Attacker
from cases.service.both import Both, check_problem
from cases.service.processes import QUICK, home_of, written
from cases.service.sockets import CHUNKED, HEAD, READ, Quick, Server, Wire, wait_until
from cases.service.tls import make_certificate
from cases.service.world import GENEROUS
from croupier.client import Client
from croupier.client.device import REPORT_TYPE
from croupier.messages.wire import LONGEST_UPLOAD, Envelope
from croupier.service.connections import MOST_HEAD, MOST_LINES, MOST_PIPELINED, Bounded, new_loop
from croupier.service.front_client import FrontClient
from croupier.service.problems import URN, Problem
from croupier.service.processes import Child, both
from croupier.service.store.schema import EXPERIMENTS
from croupier.service.uploads import Uploads
from croupier.service.web import Room, body_of, seated

EXPERIMENT = """
name = "colours"
arms = ["red", "green"]
[program]
policy = "dp-klucb"
horizon = 4000
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 4.0
honest_fraction = 0.9
[reward]
protocol = "shuffled-bits"
[batches]
smallest = 100
deadline = 600
"""
STALLED = 70


@pytest.fixture(scope="module")
def server():
    with Server() as found:
        yield found


@pytest.fixture(autouse=True)
def _no_connection_is_left():
    yield
    Wire.close_all()


# Heads

LONG = {
    "an endless header": (HEAD + b"a: ", b"x" * 2**16),
    "an endless request line": (b"GET /", b"x" * 2**16),
    "an endless name of a header": (HEAD, b"x" * 2**16),
    "endless headers": (HEAD, b"a: b\r\n" * 2**12),
    "endless empty lines": (b"", b"\r\n" * 2**15),
}


@pytest.mark.parametrize("attack", LONG)
def test_a_head_without_an_end_is_refused_after_a_few_kilobytes(server, attack):
    begin, more = LONG[attack]
    wire = Wire(server.address).send(begin, *[more] * 512)
    assert wire.sent < 512 * len(more)
    assert wire.status() in (431, None)
    server.wait_open(0)


def test_a_head_is_taken_up_to_its_limits_and_not_beyond(server):
    last = HEAD + b"connection: close\r\n"
    for length, status in ((MOST_HEAD - 200, 200), (MOST_HEAD, 431)):
        assert Wire(server.address).send(last + b"a: " + b"x" * length + b"\r\n\r\n").status() == status
    for lines, status in ((MOST_LINES - 2, 200), (MOST_LINES, 431)):
        assert Wire(server.address).send(last + b"a: b\r\n" * lines + b"\r\n").status() == status


@pytest.mark.parametrize("pieces", [(b"",), (HEAD,), (HEAD, b"a: b\r\n"), (b"\r\n",)])
def test_a_head_that_never_ends_or_never_begins_is_dropped(server, pieces):
    assert Wire(server.address).send(*pieces).status() == (408 if pieces != (b"",) else None)
    server.wait_open(0)


@pytest.mark.parametrize("drip", [b"a: b\r\n", b"\r\n", b"x"])
def test_a_head_that_comes_in_drops_is_dropped(server, drip):
    wire = Wire(server.address).send(b"" if drip == b"\r\n" else HEAD).drip(drip)
    assert wire.sent < 1000
    server.wait_open(0)


@pytest.mark.slow
def test_a_connection_that_was_answered_may_ask_again_and_not_wait_for_ever(server):
    wire = Wire(server.address)
    for _ in range(3):
        assert b"200 OK" in wire.send(HEAD + b"\r\n").answer()
    assert wire.rest() in (b"", b"hello")
    wire = Wire(server.address).send(HEAD + b"\r\n")
    assert b"200 OK" in wire.answer()
    assert wire.drip(b"\r\n").sent < 1000
    server.wait_open(0)


# Bodies

FRAMING = {
    "an endless trailer": (b"5\r\nhello\r\n0\r\na: ", b"x" * 2**16),
    "endless trailers": (b"5\r\nhello\r\n0\r\n", b"a: b\r\n" * 2**12),
    "an endless extension of a chunk": (b"5;", b"x" * 2**16),
    "an endless length of a chunk": (b"", b"0" * 2**16),
}


@pytest.mark.parametrize("attack", FRAMING)
def test_what_stands_between_the_pieces_of_a_body_has_an_end(server, attack):
    begin, more = FRAMING[attack]
    wire = Wire(server.address).send(CHUNKED + begin, *[more] * 512)
    assert wire.sent < 512 * len(more)
    assert wire.status() in (431, None)
    server.wait_open(0)


def test_bodies_come_through_whole_or_in_pieces_with_trailers_or_without(server):
    for body in (
        READ + b"content-length: 1000000\r\n\r\n" + bytes(10**6),
        CHUNKED + b"f4240\r\n" + bytes(10**6) + b"\r\n0\r\n\r\n",
        CHUNKED + b"a\r\n" + bytes(10) + b"\r\n0\r\nsome: trailer\r\n\r\n",
        CHUNKED + b"1;some=extension\r\nx\r\n" * 50_000 + b"0\r\n\r\n",
    ):
        answer = Wire(server.address).send(body).rest()
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert answer.rpartition(b"\r\n")[2] in (b"1000000", b"10", b"50000")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["content-length: 999999999", "transfer-encoding: chunked"])
def test_a_body_that_nobody_reads_ends_soon_after_the_answer(server, kind):
    chunked = "chunked" in kind
    piece = b"10000\r\n" + bytes(2**16) + b"\r\n" if chunked else bytes(2**16)
    head = f"POST /nowhere HTTP/1.1\r\nhost: x\r\n{kind}\r\n\r\n".encode()
    wire = Wire(server.address).send(head).drip(piece)
    assert wire.sent < 1000 * len(piece)
    assert wire.status() in (404, None)
    # A stalled one too; who sends a small body gets to read the answer, and may go on.
    assert Wire(server.address).send(head).status() == 404
    wire = Wire(server.address).send(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n")
    assert b"404" in wire.answer()
    assert b"200 OK" in wire.send(bytes(100), HEAD + b"\r\n").answer()
    assert wire.rest() in (b"", b"hello")
    server.wait_open(0)


# Many at once


def test_pipelined_requests_are_answered_in_order_and_a_flood_of_them_is_not(server):
    few = HEAD + b"\r\n"
    answers = Wire(server.address).send(few * MOST_PIPELINED + HEAD + b"connection: close\r\n\r\n").rest()
    assert answers.count(b"200 OK") == MOST_PIPELINED + 1
    flood = Wire(server.address).send(few * 10_000)
    assert flood.rest().count(b"200 OK") <= MOST_PIPELINED + 1
    server.wait_open(0)


def test_who_goes_away_with_requests_in_line_causes_no_failure(server):
    server.let.clear()
    wire = Wire(server.address).send(HEAD + b"\r\n" + b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n" * 2)
    assert b"200 OK" in wire.answer()
    wire.close()
    server.wait_open(0)
    server.let.set()
    wait_until(lambda: not server.server.server_state.tasks)
    assert b'outcome="internal"' not in server.meters.answer().body


def test_an_upgrade_is_not_made(server):
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: AAAA\r\n\r\n"
    assert Wire(server.address).send(HEAD + upgrade).status() == 200


def test_what_is_no_http_is_refused(server):
    assert Wire(server.address).send(b"\x16\x03\x01 hello\r\n\r\n").status() == 400
    assert Wire(server.address).send(b"GET http://[ HTTP/1.1\r\n\r\n").status() == 400


class Few(Quick):
    head_seconds, linger_seconds = 60.0, 60.0


def test_when_all_connections_are_taken_who_has_waited_longest_makes_room(monkeypatch):
    monkeypatch.setitem(Bounded.__init__.__globals__, "most_connections", lambda: 20)
    with Server(Few) as server:
        waiting = [Wire(server.address).send(HEAD)]
        server.wait_open(1)
        time.sleep(0.05)  # the server's clock has ticks of a millisecond
        waiting += [Wire(server.address).send(HEAD) for _ in range(19)]
        server.wait_open(20)
        for _ in range(30):
            assert Wire(server.address).send(HEAD + b"connection: close\r\n\r\n").status() == 200
        assert waiting[0].status() == 408
        # One at a time goes, and there is room again when others have been answered.
        assert b"200 OK" in waiting[19].send(b"\r\n").answer()


def test_when_all_connections_are_at_work_a_new_one_is_refused(monkeypatch):
    monkeypatch.setitem(Bounded.__init__.__globals__, "most_connections", lambda: 20)
    with Server(Few) as server:
        held = [Wire(server.address) for _ in range(20)]
        for wire in held:
            wire.send(b"GET /hold HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        wait_until(lambda: len(server.server.server_state.tasks) == 20)
        assert Wire(server.address).status() == 503
        server.let.set()
        assert [wire.status() for wire in held] == [200] * 20


@pytest.mark.slow
def test_a_handshake_that_never_ends_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setitem(new_loop.__globals__, "HEAD_SECONDS", 0.5)
    make_certificate(tmp_path)
    files = {"ssl_certfile": tmp_path / "certificate.pem", "ssl_keyfile": tmp_path / "key.pem"}
    with Server(**files) as server:
        assert Wire(server.address).rest() == b""
        assert Wire(server.address).send(b"\x16\x03\x01\x02\x00").rest() == b""


@pytest.mark.slow
def test_an_answer_that_nobody_reads_is_not_kept(server):
    lazy = Wire(server.address).send(b"GET /much HTTP/1.1\r\nhost: x\r\n\r\n")
    server.wait_open(1)
    server.wait_open(0)
    assert len(lazy.rest()) < 2**25
    read = Wire(server.address).send(b"GET /much HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").rest()
    assert len(read) > 2**25


# The servers themselves


def answer_to_a_long_head(home, certificate):
    port = home.front_port
    wire = Wire(("127.0.0.1", port))
    if certificate:
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        wire.socket = context.wrap_socket(wire.socket)
    return wire.send(HEAD + b"a: " + b"x" * 20_000 + b"\r\n\r\n").status()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one worker", "two workers", "tls"])
def test_a_server_has_these_limits_however_it_runs(kind, tmp_path):
    home = home_of(tmp_path)
    home.prepare()
    settings = {"openers": 0, "workers": 2 if kind == "two workers" else 1}
    certificate = ""
    if kind == "tls":
        make_certificate(tmp_path / "tls")
        certificate = str(tmp_path / "tls" / "certificate.pem")
        settings |= {"certificate": certificate, "certificate_key": tmp_path / "tls" / "key.pem"}
    child = Child(home.command("front", [], **settings), home.front_url, tmp_path / "log.jsonl")
    try:
        if certificate:
            wait_until(lambda: "started" in child.log.read_text())
            time.sleep(0.2)
        else:
            child.wait_answering()
        assert answer_to_a_long_head(home, certificate) == 431
    finally:
        child.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    directory = tmp_path_factory.mktemp("service")
    home = home_of(directory)
    with both(home, [written(directory, EXPERIMENT)], **QUICK) as children:
        assert honest(home, 1) == 1
        yield home, children


def honest(home, count):
    """How many of so many users' reports were accepted."""
    for _ in range(count):
        with Client(home.analyzer_url, limits=GENEROUS, background=False) as client:
            client._run(client.device.send_now(client.play("colours", patience=10.0), 1.0))
    return count


def resident(child):
    """How much memory a server has, in MiB."""
    with open(f"/proc/{child.process.pid}/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def flood(address, stop):
    while not stop.is_set():
        Wire(address).send(HEAD + b"a: ", *[b"x" * 2**16] * 500).close()


@pytest.mark.slow
def test_endless_heads_neither_stop_reports_nor_fill_the_memory(service):
    home, children = service
    before = {name: resident(child) for name, child in children.items()}
    stop = threading.Event()
    ports = (home.front_port, home.analyzer_port) * 2
    threads = [threading.Thread(target=flood, args=(("127.0.0.1", port), stop)) for port in ports]
    for thread in threads:
        thread.start()
    try:
        assert honest(home, 10) == 10
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for name, child in children.items():
        assert resident(child) - before[name] < 50


def stalled(home, begin=b"", length=LONGEST_UPLOAD):
    """The head of a report, and all of its body but for the last byte."""
    head = f"POST /experiments/colours/reports HTTP/1.1\r\nhost: x\r\ncontent-type: {REPORT_TYPE}\r\n"
    head += f"content-length: {length}\r\n\r\n"
    wire = Wire(("127.0.0.1", home.front_port))
    return wire.send(head.encode(), begin, bytes(length - 1 - len(begin)))


@pytest.mark.slow
def test_stalled_uploads_take_nobodys_place(service):
    home, _ = service
    waiting = [stalled(home) for _ in range(STALLED)]
    assert honest(home, 5) == 5
    assert {wire.status() for wire in waiting} <= {413, None}


@pytest.mark.slow
def test_content_types_may_have_parameters_and_any_case(service):
    home, _ = service
    kinds = (f"{REPORT_TYPE}; charset=binary", REPORT_TYPE.upper(), f"{REPORT_TYPE.title()} ;a=b", "a/b")
    url = f"{home.front_url}/experiments/colours/reports"
    answers = [httpx2.post(url, content=b"x", headers={"content-type": kind}).json()["type"] for kind in kinds]
    assert answers == [URN + "malformed-report"] * 3 + [URN + "wrong-type"]


# Uploads, in one process: here it can be said how much room there is


def sealed_reports(both, count):
    async def work():
        attacker = Attacker(both)
        return [attacker.report(await attacker.turn()) for _ in range(count)]

    return work()


async def never(*pieces):
    for piece in pieces:
        yield piece
    await asyncio.Event().wait()


def running(both, work):
    async def run():
        async with both.running():
            await work(both.http, both.front)

    asyncio.run(run())


@pytest.fixture
def both_here(tmp_path):
    return Both(tmp_path)


@pytest.mark.slow
def test_the_upload_that_has_been_coming_for_longest_makes_room_for_others(both_here):
    """Even where offers take long uploads, and attackers send what begins well."""

    async def work(http, front):
        (body,) = await sealed_reports(both_here, 1)
        room = front._room = Room(10 * len(body))
        send = partial(http.post, ADDRESS, headers={"content-type": REPORT_TYPE})
        waiting = [asyncio.create_task(send(content=never(body[:-1]))) for _ in range(STALLED)]
        while len(room.coming) < 10:
            await asyncio.sleep(0)
        assert await both_here.users(5) == ["accepted"] * 5
        assert (await send(content=body)).status_code == 201
        for task in waiting:
            task.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        answers = [one for one in ended if isinstance(one, httpx2.Response)]
        assert len(answers) >= STALLED - 10
        for answer in answers:
            check_problem(answer, "too-slow")
        assert (room.left, room.coming) == (10 * len(body), {})

    running(both_here, work)


@pytest.mark.slow
def test_a_body_must_come_at_a_least_rate(both_here, monkeypatch):
    async def drops():
        while True:
            yield b"x"
            await asyncio.sleep(0.01)

    async def work(http, _):
        monkeypatch.setitem(body_of.__globals__, "BODY_SECONDS", 0.3)
        trusted = {"authorization": f"Bearer {both_here.bearer}", "content-type": "application/json"}
        check_problem(await http.put(BASE, content=drops(), headers=trusted), "too-slow")
        monkeypatch.setitem(body_of.__globals__, "BODY_SECONDS", 10.0)
        monkeypatch.setitem(body_of.__globals__, "BODY_STEP", 5)
        monkeypatch.setitem(body_of.__globals__, "MOST_JSON", 100)
        check_problem(await http.put(BASE, content=drops(), headers=trusted), "too-large")

    running(both_here, work)


def test_the_first_bytes_of_an_upload_are_checked_before_the_rest_is_read(both_here):
    async def work(http, front):
        (body,) = await sealed_reports(both_here, 1)
        envelope = Envelope.from_bytes(body)
        send = partial(http.post, ADDRESS, headers={"content-type": REPORT_TYPE})
        for token, begin in (
            ("malformed-report", bytes([body[0] + 1]) + body[1:]),
            ("unopenable-report", replace(envelope, suite=99).to_bytes()),
            ("unopenable-report", replace(envelope, key=bytes(len(envelope.key))).to_bytes()),
            ("unopenable-report", replace(envelope, configuration=bytes(32)).to_bytes()),
        ):
            check_problem(await send(content=never(begin[:100])), token)
        assert front._room.coming == {}
        assert (await send(content=body)).status_code == 201

    running(both_here, work)


def test_no_upload_may_be_longer_than_any_offers_and_all_workers_learn_of_longer_ones(both_here):
    async def work(http, front):
        (body,) = await sealed_reports(both_here, 1)
        send = partial(http.post, ADDRESS, headers={"content-type": REPORT_TYPE})
        longer = body + b"x"
        for content in (longer, never(longer)):
            check_problem(await send(content=content), "too-large")
        # As if another worker had opened an offer with longer uploads.
        with front.front.store.database.write() as connection:
            connection.execute(update(EXPERIMENTS).values(longest_upload=len(longer)))
        check_problem(await send(content=longer), "unopenable-report")
        other = ADDRESS.replace("colours", "other")
        check_problem(await http.post(other, content=body, headers={"content-type": REPORT_TYPE}), "unknown-experiment")

    running(both_here, work)


@pytest.mark.slow
def test_late_and_repeated_reports_are_told_so_when_the_offers_that_are_open_take_shorter_ones(both_here):
    async def work(http, front):
        bodies = await sealed_reports(both_here, 2)
        send = partial(http.post, ADDRESS, headers={"content-type": REPORT_TYPE})
        assert (await send(content=bodies[0])).status_code == 201
        await both_here.users(31)
        await both_here.until(lambda: 0 in both_here.live.done)
        front.known = Uploads(front.front)  # as after a restart
        assert (await send(content=bodies[0])).json() == {"status": "repeated"}
        check_problem(await send(content=bodies[1]), "batch-closed")

    running(both_here, work)


# Requests that are held open


@pytest.mark.slow
def test_so_many_turns_are_waited_for_and_no_more(both_here):
    async def work(http, front):
        ask = partial(http.post, f"{BASE}/assignments", headers={"prefer": "wait=10"})
        while (await http.post(f"{BASE}/assignments")).status_code == 201:
            pass
        front._most_waiting = 2
        waiting = [asyncio.create_task(ask()) for _ in range(2)]
        while front._waiting < 2:
            await asyncio.sleep(0.01)
        check_problem(await ask(), "nothing-open")
        assert not any(task.done() for task in waiting)
        both_here.clock.now += 10  # turns that are not reported are given to others
        assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [201, 201]

    running(both_here, work)


def test_so_many_streams_are_open_and_no_more():
    async def endless(_):
        async def pieces():
            while True:
                yield b"x"

        return StreamingResponse(pieces())

    async def work():
        seat = seated(endless, 2)
        streams = [(await seat(None)).body_iterator for _ in range(2)]
        for stream in streams:
            assert await anext(stream) == b"x"
        with pytest.raises(Problem, match="too-busy"):
            await seat(None)
        await streams[0].aclose()
        assert await anext((await seat(None)).body_iterator) == b"x"

    asyncio.run(work())


@pytest.mark.slow
def test_batches_are_shown_so_many_at_a_time_and_the_analyzer_sees_all(both_here, monkeypatch):
    async def work(_, front):
        monkeypatch.setitem(FrontClient.standings.__globals__, "MOST_BATCHES", 1)
        monkeypatch.setattr(front.front, "standings", partial(front.front.standings, most=1))
        assert await both_here.users(32) == ["accepted"] * 32
        await both_here.until(lambda: front.front.store.standings("colours", 1))
        found = await both_here.analyzer.link.standings("colours", 0, 1)
        assert [one["batch"] for one in found["batches"]] == [0, 1]

    running(both_here, work)
