"""Connections within bounds: how long and how slow a request may be, and how many may be open, whoever sends.

The web server leaves this to a proxy in front of it, and there may be none. What a body may be is the handlers' part
(`web.body_of`). Where there are too many connections, the one that has kept us waiting for longest makes room.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

MOST_HEAD = 2**14
"""Bytes of a head, of a body's trailers, or between two pieces of a body. After a pipelined request twice as many."""
MOST_LINES = 100
MOST_PIPELINED = 8
"""Requests of one connection that wait for the answer to the one before."""
MOST_CONNECTIONS = 4096
HEAD_SECONDS = 10.0
"""From the connection, or the answer before, to the end of the head."""
MESSAGE_SECONDS = 300.0
"""From the head to the end of the body; handlers wait for less."""
LINGER_SECONDS = 2.0
"""What is still sent after the answer is read for so long, so that the sender gets to read the answer."""
UNREAD_SECONDS = 30.0
LEAST_READ = 2**15
"""An answer of which less than this is read in `UNREAD_SECONDS` is not read."""
LOOK_SECONDS = 1.0
SHUTDOWN_SECONDS = 5.0
SHARE = 16
"""This part of the connections makes room at a time."""


class Refused(Exception):
    """Ends the parsing of what was sent."""


class Watch:
    """Looks at all connections of a process once in a while, instead of a timer for each request."""

    def __init__(self, connections: set[Any], most: int) -> None:
        self._connections, self._most = connections, most
        self._looks = self._full = False
        self._spare = 0
        """Connections that were told to go, and may not be gone yet."""

    def admit(self, new: Bounded) -> None:
        """Make room for a connection, or refuse it."""
        if not self._looks:
            self._look_later(new.loop, new.look_seconds)
        if len(self._connections) > self._most:
            if not self._spare and not self._full:
                self._make_room(new.loop.time(), new)
            if self._full:
                new.refuse(503)
            else:
                self._spare -= 1

    def _make_room(self, now: float, new: Bounded) -> None:
        """The connections that have kept us waiting for longest go, several at once: to find them takes time."""
        others = (other for other in self._connections if other is not new and not other.transport.is_closing())
        waiting = sorted((other for other in others if other.waits(now)), key=lambda other: other.since)
        told = waiting[: max(1, self._most // SHARE)]
        for other in told:
            other.refuse(408)
        # Where nobody waits, nobody need be asked again until the next look.
        self._spare, self._full = len(told), not told

    def _look(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._looks = self._full = False
        self._spare = 0
        if self._connections:
            self._look_later(loop, seconds)
        now = loop.time()
        for connection in list(self._connections):
            connection.look(now)

    def _look_later(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._looks = True
        loop.call_later(seconds, self._look, loop, seconds)


class Bounded(HttpToolsProtocol):
    """A connection of the web server's, within these bounds."""

    most_head, most_lines, most_pipelined = MOST_HEAD, MOST_LINES, MOST_PIPELINED
    head_seconds, linger_seconds, unread_seconds = HEAD_SECONDS, LINGER_SECONDS, UNREAD_SECONDS
    look_seconds = LOOK_SECONDS

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._watch: Watch = vars(server_state).setdefault("watch", Watch(self.connections, most_connections()))
        self._left = self.most_head
        self._earlier: list[RequestResponseCycle] = []
        """Requests whose answers come before the newest one's."""
        self._seen: tuple[RequestResponseCycle | None, float] = None, self.head_seconds
        self.since = self.loop.time()
        """When it was first seen to wait for what it waits for."""
        self._unread, self._unread_since = 0, 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        for cycle in self._earlier:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        size = len(data)
        if size < self._left:
            self._left -= size
            super().data_received(data)
            return
        # No more is parsed than there is room for; whatever makes sense makes room again.
        view, at = memoryview(data), 0
        while at < size and not self.transport.is_closing():
            piece = view[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            super().data_received(piece)  # type: ignore[arg-type]
            if self._left <= 0:
                self.refuse(431)

    # What the parser finds

    def on_headers_complete(self) -> None:
        if len(self.headers) > self.most_lines:
            self._stop(431)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._earlier = [*(earlier for earlier in self._earlier if not earlier.response_complete), cycle]
            if len(self._earlier) > self.most_pipelined:
                self._stop(429)
        super().on_headers_complete()
        self._left = self.most_head

    def on_body(self, body: bytes) -> None:
        self._left = self.most_head
        super().on_body(body)

    # What it waits for, and how it ends

    def waits(self, now: float) -> float:
        """How many seconds it may keep us waiting from `since` on; 0 when it is we who are at work."""
        cycle = self.cycle
        answered = cycle is None or cycle.response_complete
        if cycle is not None and cycle.more_body:
            seconds = self.linger_seconds if answered else MESSAGE_SECONDS
        else:
            seconds = self.head_seconds if answered else 0.0
        if self._seen != (cycle, seconds):
            self._seen, self.since = (cycle, seconds), now
        return seconds

    def look(self, now: float) -> None:
        """End a connection that has kept us waiting for too long, or does not read what it asked for."""
        seconds = self.waits(now)
        if seconds and now - self.since > seconds:
            self.refuse(408)
        size = self.transport.get_write_buffer_size()
        if not self._unread or not size or size <= self._unread - LEAST_READ:
            self._unread, self._unread_since = size, now
        elif now - self._unread_since > self.unread_seconds:
            self.transport.abort()

    def refuse(self, status: int) -> None:
        """Close, and say why where that can be told from another request's answer."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or not cycle.more_body:
            free = cycle is None or cycle.response_complete
        else:
            free = not (cycle.response_started or self.pipeline)
        # Who has begun nothing is told nothing when it takes too long.
        idle = status == 408 and self._left == self.most_head and (cycle is None or cycle.response_complete)
        if free and not idle:
            self.transport.write(_refusal(status))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or was refused while it was parsed."""
        self.refuse(400)

    def resume_writing(self) -> None:
        self._unread = 0
        super().resume_writing()

    def _stop(self, status: int) -> None:
        self.refuse(status)
        raise Refused


def _refusal(status: int) -> bytes:
    """A whole answer, with a problem document that says no more than the status (RFC 9457)."""
    phrase = HTTPStatus(status).phrase
    body = json.dumps({"type": "about:blank", "title": phrase, "status": status}).encode()
    head = [
        f"HTTP/1.1 {status} {phrase}",
        "content-type: application/problem+json",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def most_connections() -> int:
    """How many may be open: a part of the files that this process may have open, since stores need some too."""
    try:
        import resource
    except ImportError:  # no such limit on this system
        return MOST_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(MOST_CONNECTIONS, soft * 3 // 4))


def most_held() -> int:
    """How many requests may be held open: there must be connections for the others."""
    return max(1, most_connections() // 2)


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose TLS has ends: a handshake is as long as a head, and closing is shorter."""
    try:
        from uvloop import new_event_loop as new
    except ImportError:  # not on every system
        new = asyncio.new_event_loop  # type: ignore[assignment]
    loop = new()
    create: Callable[..., Any] = loop.create_server

    async def create_server(*given: Any, **options: Any) -> Any:
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": HEAD_SECONDS, "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        return await create(*given, **options)

    loop.create_server = create_server  # type: ignore[method-assign]
    return loop
