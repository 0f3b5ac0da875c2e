"""Both servers in one process for chaos tests: they die at any transaction, the wire loses what it is told to lose."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from cases.service.world import Clock
from croupier.noise import Source, seeded
from croupier.service import keys as key_files
from croupier.service.analyzer_app import AnalyzerApp
from croupier.service.experiment import Plan
from croupier.service.front_app import FrontApp
from croupier.service.settings import AnalyzerSettings, FrontSettings

ANALYZER, FRONT = "http://analyzer.test", "http://front.test"
REQUEST_LOST, ANSWER_LOST, ARRIVES = "the request is lost", "the answer is lost", "arrives"


class SlowTime(asyncio.SelectorEventLoop):
    """A loop on which nobody is late, however busy the machine: here a server that gives no answer is a dead one.

    A request that is given up goes on at the other server, and would happen at some later step.
    """

    def time(self) -> float:
        return super().time() / 100.0


class Killed(Exception):
    """The process is dead: nothing that it still tries happens."""


class Mortal:
    """A server whose process can die before or after the commit of any transaction that it writes."""

    def __init__(self, application: FrontApp | AnalyzerApp, database: Any) -> None:
        self.application, self.dead, self.tasks = application, False, list[asyncio.Task[None]]()
        self.fuse, self.committed = 0, False
        self._database, self._write, self._read = database, database.write, database.read
        database.write, database.read = self.write, self.read

    def die_at(self, transaction: int, committed: bool) -> None:
        """Die at the so-many-th transaction from now (never, if 0); `committed` says on which side of it."""
        self.fuse, self.committed = transaction, committed

    @contextmanager
    def write(self) -> Iterator[Any]:
        self._alive()
        self.fuse -= 1
        dies = self.fuse == 0
        with self._write() as connection:
            yield connection
            if dies and not self.committed:
                self._die()
        if dies:
            self._die()

    @contextmanager
    def read(self) -> Iterator[Any]:
        self._alive()
        with self._read() as connection:
            yield connection

    def _alive(self) -> None:
        if self.dead:
            raise Killed

    def _die(self) -> None:
        self.dead = True
        raise Killed

    async def bury(self) -> None:
        """Nothing in memory survives, and nothing is put in order first."""
        self.dead = True
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self._database.close()


class Servers:
    """Both servers on their stores and keys, one event loop, one clock, and the wire between everybody."""

    def __init__(self, directory: Path, stores: dict[str, str], plans: list[Plan], **front: Any) -> None:
        self.clock, self.loop, self.plans = Clock(), SlowTime(), plans
        self.keys = {server: key_files.make(directory / server) for server in stores}
        self.bearer = key_files.make_bearer(directory / "bearer")
        self.admin = key_files.make_bearer(directory / "admin")
        self._front = FrontSettings(
            keys=str(directory / "front"),
            store=stores["front"],
            analyzer="sha256:" + key_files.bearer_hash(self.bearer),
            url=FRONT,
            openers=0,
            group_seconds=0.0,
            **{"admission": "everybody"} | front,
        )
        self._analyzer = AnalyzerSettings(
            keys=str(directory / "analyzer"),
            store=stores["analyzer"],
            bearer=str(directory / "bearer"),
            admin=str(directory / "admin"),
            front=FRONT,
            url=ANALYZER,
            openers=0,
            plain_http=True,
        )
        self.wire = Wire(self)
        self.http = httpx2.AsyncClient(transport=self.wire)
        self.alive: dict[str, Mortal] = {}
        self._seeds = count()
        for server in ("front", "analyzer"):
            self.start(server)

    @property
    def front(self) -> FrontApp:
        return self.alive["front"].application  # type: ignore[return-value]

    @property
    def analyzer(self) -> AnalyzerApp:
        return self.alive["analyzer"].application  # type: ignore[return-value]

    def start(self, server: str) -> None:
        """Open a server on what is on disk. What runs beside its routes is left to the test, but for group commit."""
        if server == "front":
            front = FrontApp(self._front, clock=self.clock, source=self.source())
            mortal = Mortal(front, front.front.store.database)
            mortal.tasks = [self.loop.create_task(groups.run()) for groups in (front.turns, front.uploads)]
        else:
            analyzer = AnalyzerApp(self._analyzer, self.plans, clock=self.clock, http=self.http)
            mortal = Mortal(analyzer, analyzer.store.database)
            self.published: dict[str, set[int]] = {plan.name: set() for plan in self.plans}
        self.alive[server] = mortal

    def source(self) -> Source:
        """Chance that comes out alike when Hypothesis tries the same steps again."""
        return seeded(next(self._seeds))

    def kill(self, server: str) -> None:
        self.run(self.alive[server].bury())
        self.start(server)

    def revive(self, defuse: bool = True) -> None:
        """Start again whoever has died, and defuse the others."""
        for server, mortal in self.alive.items():
            if defuse:
                mortal.fuse = 0
            if mortal.dead:
                self.kill(server)

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def ask(self, method: str, url: str, secret: str = "", **more: Any) -> httpx2.Response | None:
        """One request; None when no answer came."""
        headers = more.pop("headers", {}) | ({"authorization": f"Bearer {secret}"} if secret else {})
        try:
            return self.run(self.http.request(method, url, headers=headers, **more))  # type: ignore[no-any-return]
        except httpx2.TransportError:
            return None

    def close(self) -> None:
        for mortal in self.alive.values():
            self.run(mortal.bury())
        self.run(self.http.aclose())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()


class Wire(httpx2.AsyncBaseTransport):
    """Brings requests to the application that the host names, loses what it is told to, and notes what was released."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.fates: list[str] = []
        self.released: dict[str, bytes] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        fate = self.fates.pop(0) if self.fates else ARRIVES
        server = self.servers.alive[request.url.host.removesuffix(".test")]
        if fate == REQUEST_LOST or server.dead:
            raise httpx2.ConnectError(REQUEST_LOST)
        transport = httpx2.ASGITransport(server.application.app, raise_app_exceptions=False)
        answer = await transport.handle_async_request(request)
        content = await answer.aread()
        if server.dead or fate == ANSWER_LOST:
            raise httpx2.ReadError(ANSWER_LOST)
        assert answer.status_code < 500, (request.url, content)
        if "/messages/" in request.url.path and answer.status_code == 200:
            before = self.released.setdefault(request.url.path, content)
            assert before == content, f"{request.url.path} was released in two different orders"
        return httpx2.Response(answer.status_code, headers=answer.headers, content=content)
