"""A small HTTP client for crowds: keep-alive connections and nothing else, so that the users cost more than their wire.

It offers the one method of `httpx.AsyncClient` that `croupier.client.AsyncClient` calls, and leaves TLS to that one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

import httpx

from croupier.client.client import TIMEOUT


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status_code: int
    headers: dict[str, str]
    content: bytes


class LeanHTTP:
    """A pool of connections; over plain http, to servers that say how long their answers are."""

    def __init__(self) -> None:
        self._secure: httpx.AsyncClient | None = None
        self._idle: dict[str, list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection[1].close()
        if self._secure is not None:
            await self._secure.aclose()

    async def request(
        self, method: str, url: str, content: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer | httpx.Response:
        """Send one request over a free connection; a connection that the server closed is opened again."""
        parts = urlsplit(url)
        if parts.scheme == "https":
            if self._secure is None:
                self._secure = httpx.AsyncClient(timeout=TIMEOUT, limits=httpx.Limits(max_connections=None))
            return await self._secure.request(method, url, content=content, headers=headers)
        head = [f"{method} {parts.path} HTTP/1.1", f"host: {parts.netloc}", f"content-length: {len(content or b'')}"]
        head += [f"{name}: {value}" for name, value in (headers or {}).items()]
        message = "\r\n".join(head).encode() + b"\r\n\r\n" + (content or b"")
        idle = self._idle.setdefault(parts.netloc, [])
        try:
            while idle:
                connection = idle.pop()
                try:
                    return await self._exchange(connection, message, idle)
                except (OSError, EOFError):
                    continue
            host, _, port = parts.netloc.partition(":")
            fresh = await asyncio.open_connection(host, int(port or 80))
            return await self._exchange(fresh, message, idle)
        except (OSError, EOFError) as error:
            raise httpx.ConnectError(str(error)) from None

    async def _exchange(
        self,
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        message: bytes,
        idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
    ) -> Answer:
        reader, writer = connection
        try:
            writer.write(message)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ", 2)[1])
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:-2])}
            length = int(headers.get("content-length", "0"))
            content = await reader.readexactly(length) if length else b""
        except BaseException:
            writer.close()
            raise
        idle.append(connection)
        return Answer(status, headers, content)
