"""A load generator in a process of its own: requests made beforehand, keep-alive connections, one latency a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np


@dataclass(frozen=True)
class Load:
    """What came back: the seconds that it took, each request's latency, its status and its body.

    `cpu` are the seconds that whoever sent them computed.
    """

    seconds: float
    cpu: float
    latencies: np.ndarray
    statuses: list[int]
    bodies: list[bytes]

    @property
    def rate(self) -> float:
        return len(self.statuses) / self.seconds

    def quantile(self, level: float) -> float:
        return float(np.quantile(self.latencies, level))


class _Connection(asyncio.Protocol):
    """Sends the next request as soon as the last one is answered."""

    def __init__(self, waiting: list[tuple[int, bytes]], found: list[tuple[float, int, bytes]]) -> None:
        self.waiting, self.found, self.buffer = waiting, found, b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed a connection"))

    def _next(self) -> None:
        if not self.waiting:
            self.done.set_result(None)
            self.transport.close()
            return
        self.index, request = self.waiting.pop()
        self.began = time.perf_counter()
        self.transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self.buffer.lower().find(b"content-length:")
        length = int(self.buffer[at + 15 : self.buffer.index(b"\r", at)]) if 0 <= at < head else 0
        if len(self.buffer) < head + 4 + length:
            return
        body = self.buffer[head + 4 :]
        self.found[self.index] = (time.perf_counter() - self.began, int(self.buffer[9:12]), body)
        self.buffer = b""
        self._next()


def post(port: int, path: str, bodies: Sequence[bytes], kind: str, connections: int = 64) -> Load:
    """POST all bodies to a port of this machine, so many at a time, from another process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (port, path, list(bodies), kind, connections))


def _run(port: int, path: str, bodies: list[bytes], kind: str, connections: int) -> Load:
    import uvloop

    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: {kind}\r\ncontent-length: "
    waiting = [(i, head.encode() + b"%d\r\n\r\n%s" % (len(body), body)) for i, body in enumerate(bodies)][::-1]
    found: list[tuple[float, int, bytes]] = [(0.0, 0, b"")] * len(bodies)

    async def work() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        began, computed = time.perf_counter(), time.process_time()
        made = [
            await loop.create_connection(lambda: _Connection(waiting, found), "127.0.0.1", port)
            for _ in range(min(connections, len(bodies)))
        ]
        await asyncio.gather(*(connection.done for _, connection in made))
        return time.perf_counter() - began, time.process_time() - computed

    took = uvloop.run(work())
    return Load(*took, np.array([one[0] for one in found]), [one[1] for one in found], [one[2] for one in found])
