"""Raw connections, and a web server in a thread whose limits are short: for what no HTTP client would send."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from typing import Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from croupier.service.connections import Bounded, new_loop
from croupier.service.meters import Meters
from croupier.service.web import add_handlers, body_of

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n"
READ = b"POST /read HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
CHUNKED = READ + b"transfer-encoding: chunked\r\n\r\n"


class Quick(Bounded):
    """The same bounds, in little time."""

    head_seconds, linger_seconds, unread_seconds, look_seconds = 0.5, 0.3, 3.0, 0.05


class Server:
    """A small server: `/` answers, `/read` reads, `/hold` answers when it is let, `/much` answers much."""

    def __init__(self, protocol: type[Bounded] = Quick, **options: Any) -> None:
        self.meters, self.let = Meters(("problems",)), threading.Event()
        routes = [
            Route("/", self._hello),
            Route("/read", self._read, methods=["POST"]),
            Route("/hold", self._hold),
            Route("/much", self._much),
        ]
        app = Starlette(routes=routes)
        add_handlers(app, self.meters)
        self.listener = socket.create_server(("127.0.0.1", 0))
        options |= {"ws": "none", "lifespan": "off", "log_config": None, "access_log": False}
        config = uvicorn.Config(app, http=protocol, **options)
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(self.server.serve([self.listener]))

    def __enter__(self) -> Server:
        self.address = self.listener.getsockname()
        self._thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.let.set()
        Wire.close_all()
        self.server.should_exit = True
        self._thread.join()

    async def _hello(self, _: Request) -> Response:
        return PlainTextResponse("hello")

    async def _read(self, request: Request) -> Response:
        return PlainTextResponse(str(len(await body_of(request, 2**20))))

    async def _hold(self, _: Request) -> Response:
        while not self.let.is_set():
            await asyncio.sleep(0.01)
        return PlainTextResponse("held")

    async def _much(self, _: Request) -> Response:
        return PlainTextResponse(bytes(2**25))

    @property
    def open(self) -> int:
        return len(self.server.server_state.connections)

    def wait_open(self, count: int) -> None:
        wait_until(lambda: self.open == count)


def wait_until(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


class Wire:
    """One connection."""

    open: ClassVar[list[Wire]] = []

    def __init__(self, address: Any) -> None:
        self.socket = socket.create_connection(address, timeout=20)
        self.sent = 0
        self.open.append(self)

    def send(self, *pieces: bytes) -> Wire:
        """Send until all is sent, or the other side has enough."""
        with contextlib.suppress(OSError):
            for piece in pieces:
                self.socket.sendall(piece)
                self.sent += len(piece)
        return self

    def drip(self, piece: bytes, pause: float = 0.02, most: int = 1000) -> Wire:
        """Send a piece again and again, until the other side has enough."""
        with contextlib.suppress(OSError):
            for _ in range(most):
                self.socket.sendall(piece)
                self.sent += len(piece)
                time.sleep(pause)
        return self

    def rest(self) -> bytes:
        """Whatever comes until the other side closes; a reset is an end as good as any."""
        found = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := self.socket.recv(2**20):
                found += piece
        self.close()
        return bytes(found)

    def answer(self) -> bytes:
        """One small answer; the connection stays."""
        found = b""
        while b"\r\n\r\n" not in found:
            piece = self.socket.recv(2**16)
            assert piece, found
            found += piece
        return found

    def status(self) -> int | None:
        """The last answer's status, when the other side has closed."""
        found = self.rest().rpartition(b"HTTP/1.1 ")
        return int(found[2][:3]) if found[1] else None

    def close(self) -> None:
        self.socket.close()

    @classmethod
    def close_all(cls) -> None:
        while cls.open:
            cls.open.pop().close()
