"""A small HTTP client for crowds: keep-alive connections and nothing else, so that the users cost more than their wire.

It exchanges requests for answers as `croupier.client.exchange` does, within its bounds, and leaves TLS to that one.
"""

from __future__ import annotations

import asyncio
from typing import Self
from urllib.parse import urlsplit

from croupier.client.device import Lost, Request, Response
from croupier.client.exchange import LONGEST_EXCHANGE, TOO_SLOW, AsyncExchange, Unfit, check_head, lost

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class LeanHTTP:
    """A pool of connections; over plain http, to servers that say how long their answers are."""

    def __init__(self) -> None:
        self._secure = AsyncExchange()
        self._idle: dict[str, list[Connection]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection[1].close()
        await self._secure.close()

    async def exchange(self, request: Request) -> Response | Lost:
        """Send one request over a free connection; a connection that the server closed is opened again."""
        if request.url.startswith("https:"):
            return await self._secure.exchange(request)
        try:
            async with asyncio.timeout(LONGEST_EXCHANGE):
                return await self._exchanged(request)
        except TimeoutError:
            return TOO_SLOW
        except Unfit as error:
            return Lost(str(error))
        except (OSError, EOFError) as error:
            return lost(error)

    async def wait(self, seconds: float) -> None:
        """Let some time pass before the next request."""
        await asyncio.sleep(seconds)

    async def _exchanged(self, request: Request) -> Response:
        parts = urlsplit(request.url)
        head = [f"{request.method} {parts.path} HTTP/1.1", f"host: {parts.netloc}"]
        head += [f"content-length: {len(request.content)}", "accept-encoding: identity"]
        head += [f"{name}: {value}" for name, value in request.headers.items()]
        message = "\r\n".join(head).encode() + b"\r\n\r\n" + request.content
        idle = self._idle.setdefault(parts.netloc, [])
        while idle:
            connection = idle.pop()
            try:
                return await _answered(connection, message, idle)
            except (OSError, EOFError):
                continue
        host, _, port = parts.netloc.partition(":")
        fresh = await asyncio.open_connection(host, int(port or 80))
        return await _answered(fresh, message, idle)


async def _answered(connection: Connection, message: bytes, idle: list[Connection]) -> Response:
    reader, writer = connection
    try:
        writer.write(message)
        try:
            # The reader's own limit, 64 KiB, bounds the head.
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ", 2)[1])
        except (asyncio.LimitOverrunError, ValueError, IndexError):
            raise Unfit("the answer's head is not one of HTTP, or too long") from None
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:-2])}
        if "content-length" not in headers:
            raise Unfit("the answer does not say how long it is")
        length = check_head(headers)
        content = await reader.readexactly(length) if length else b""
    except BaseException:
        writer.close()
        raise
    idle.append(connection)
    return Response(status, headers, content)
