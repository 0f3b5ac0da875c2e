"""A server may answer anything, at any length and at any pace: a device reads so much of it and waits so long."""

import asyncio
import gzip
import socketserver
import threading
import time
from functools import cache

import httpx2
import pytest
from starlette.responses import JSONResponse

from croupier.client import AsyncClient, Client, Unreachable, exchange, steps
from croupier.client.device import Lost, Request, Response
from croupier.client.exchange import LONGEST_ANSWER, AsyncExchange, Exchange
from croupier.messages.signing import LONGEST
from croupier.protocols.mechanism import canonical
from croupier.service import crowd_wire
from croupier.service.crowd_wire import CrowdWire

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def whole(body, *headers):
    lines = [OK, *(line + b"\r\n" for line in headers), b"content-length: %d\r\n\r\n" % len(body), body]
    return [b"".join(lines)]


def dripping(first):
    """A byte at a time, without end."""
    yield first
    while True:
        time.sleep(0.02)
        yield b"a"


def silent():
    """Nothing, until nobody waits any longer."""
    time.sleep(1.0)
    return []


def endless(first, part):
    yield first
    while True:
        yield part


@cache
def bomb():
    return gzip.compress(bytes(2**26))


ATTACKS = {
    "a gzip bomb": (lambda: whole(bomb(), b"content-encoding: gzip"), "compressed"),
    "a body too long, as it says": (
        lambda: endless(OK + b"content-length: %d\r\n\r\n" % 10**12, bytes(65536)),
        "bytes",
    ),
    "a length that is no number": (lambda: [OK + b"content-length: 1e3\r\n\r\n"], "answer"),
    "a body without end": (lambda: endless(OK + b"connection: close\r\n\r\n", bytes(65536)), "answer"),
    "chunks without end": (
        lambda: endless(OK + b"transfer-encoding: chunked\r\n\r\n", b"10000\r\n" + bytes(65536) + b"\r\n"),
        "answer",
    ),
    "a head without end": (lambda: endless(OK, b"x: " + b"a" * 65536 + b"\r\n"), "answer"),
    "no HTTP": (lambda: [b"SSH-2.0-OpenSSH\r\n\r\n"], "answer"),
}
SLOW = {
    "a body that drips": (lambda: dripping(OK + b"content-length: 1000000\r\n\r\n"), "longer than"),
    "a head that drips": (lambda: dripping(OK + b"x: "), "longer than"),
    "a first line that drips": (lambda: dripping(b"HTTP/1.1 200 "), "longer than"),
    "an answer of 100 without end": (
        lambda: (time.sleep(0.01) or part for part in endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
        "answer",
    ),
    "no answer": (silent, "answer"),
}


class Server(socketserver.ThreadingTCPServer):
    """Answers whatever is asked in one way, and remembers what was asked and which answers came to an end."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, parts):
        super().__init__(("127.0.0.1", 0), Handler)
        self.parts, self.asked, self.ended = parts, [], threading.Semaphore(0)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        lines = [line := self.rfile.readline()]
        while line not in (b"\r\n", b""):
            lines.append(line := self.rfile.readline())
        if line:
            self.server.asked.append(b"".join(lines).decode())
        try:
            for part in self.server.parts():
                self.wfile.write(part)
        except OSError:
            pass
        self.server.ended.release()


@pytest.fixture
def served(monkeypatch):
    """Starts servers, and makes devices try but once."""
    monkeypatch.setattr(steps, "ATTEMPTS", 1)
    monkeypatch.setattr(steps, "FIRST_PAUSE", 0.0)
    servers = []

    def start(parts):
        servers.append(Server(parts))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def waiting(url):
    with Client(url) as client:
        client.join("colours")


def awaiting(url):
    async def work():
        async with AsyncClient(url) as client:
            await client.join("colours")

    asyncio.run(work())


def crowding(url):
    async def work():
        async with CrowdWire() as http, AsyncClient(url, http=http) as client:
            await client.join("colours")

    asyncio.run(work())


@pytest.mark.parametrize("join", [waiting, awaiting, crowding])
@pytest.mark.parametrize("attack", ATTACKS | SLOW)
def test_whatever_a_server_answers_ends_soon_and_is_no_answer(attack, join, served, monkeypatch):
    parts, reason = (ATTACKS | SLOW)[attack]
    server = served(parts)
    for patience in (0.4, 5.0):
        for module in (exchange, crowd_wire) if attack in SLOW else ():
            monkeypatch.setattr(module, "LONGEST_EXCHANGE", patience)
        with pytest.raises(Unreachable, match=reason):
            join(server.url)
        # The device holds nothing of it any longer.
        assert server.ended.acquire(timeout=20)
        # On a busy machine the time may be over before the device has asked.
        if server.asked:
            break
    assert "accept-encoding: identity" in server.asked[0].lower()


def exchanged(url):
    """What the three kinds of exchange make of an answer."""

    async def work():
        other = AsyncExchange()
        async with CrowdWire() as crowd:
            found = [await one.exchange(Request("GET", f"{url}/there")) for one in (other, crowd)]
        await other.close()
        return found

    one = Exchange()
    found = [one.exchange(Request("GET", f"{url}/there")), *asyncio.run(work())]
    one.close()
    return found


def test_the_longest_answer_is_read_and_a_byte_more_is_not(served):
    for answer in exchanged(served(lambda: whole(bytes(LONGEST_ANSWER))).url):
        assert isinstance(answer, Response)
        assert len(answer.content) == LONGEST_ANSWER
    for answer in exchanged(served(lambda: whole(bytes(LONGEST_ANSWER + 1))).url):
        assert answer == Lost(f"the answer has {LONGEST_ANSWER + 1} bytes, and {LONGEST_ANSWER} is the most")


@pytest.mark.parametrize("letter", ["a", '"', "\\", "\0", "é", "\N{GAME DIE}"])
def test_the_largest_statement_fits_into_an_answer(letter):
    count = (LONGEST - 40) // (len(canonical({"title": letter})) - len(canonical({"title": ""})))
    text = canonical({"title": letter * count})
    assert LONGEST - 60 < len(text) < LONGEST
    body = {"offer": {"body": text, "signatures": {"analyzer": "a" * 86, "front": "a" * 86}}, "token": "a" * 75}
    assert len(JSONResponse(body).body) < LONGEST_ANSWER


def test_no_redirect_is_followed_whatever_the_apps_client_does(served):
    server = served(lambda: [b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"])
    with httpx2.Client(follow_redirects=True) as http, pytest.raises(Unreachable, match="http-302"):
        Client(server.url, http=http).join("colours")
    assert [asked.split()[1] for asked in server.asked] == ["/experiments/colours"]


def test_a_client_of_the_apps_own_is_bounded_too_and_stays_open(served):
    big, small = served(ATTACKS["a gzip bomb"][0]), served(lambda: whole(b"{}"))
    with httpx2.Client(headers={"x-app": "mine"}) as http:
        client = Client(big.url, http=http)
        with pytest.raises(Unreachable, match="compressed"):
            client.join("colours")
        client.close()
        assert http.get(small.url).json() == {}
    assert "x-app: mine" in big.asked[0]


def test_an_app_inside_the_process_is_asked_like_any_other():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 201, "headers": [(b"x-way", scope["path"].encode())]})
        await send({"type": "http.response.body", "body": (await receive())["body"]})

    async def work():
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
            return await AsyncExchange(http).exchange(Request("POST", "http://here/there", b"sent"))

    found = asyncio.run(work())
    assert (found.status, found.headers["x-way"], found.content) == (201, "/there", b"sent")
    with httpx2.Client(transport=httpx2.MockTransport(lambda request: httpx2.Response(200, content=b"made"))) as http:
        assert Exchange(http).exchange(Request("GET", "http://here/there")).content == b"made"


def test_what_no_network_caused_is_raised():
    def broken(request):
        raise RuntimeError("a mistake of the app's own")

    with httpx2.Client(transport=httpx2.MockTransport(broken)) as http, pytest.raises(RuntimeError, match="own"):
        Exchange(http).exchange(Request("GET", "http://here/there"))


def test_nobody_at_the_address_is_said_with_its_reason(served):
    server = served(list)
    server.server_close()
    for answer in exchanged(server.url):
        assert answer.why.startswith("no answer (")
