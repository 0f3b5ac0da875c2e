"""Both servers' applications in one process, joined without a network."""

import asyncio
import contextlib
from pathlib import Path

import httpx2

from cases.service.world import GENEROUS, SUITE, Clock
from croupier.client import AsyncClient, Refused
from croupier.service import keys as key_files
from croupier.service.analyzer_app import AnalyzerApp
from croupier.service.experiment import plan
from croupier.service.front_app import FrontApp
from croupier.service.problems import PROBLEMS, URN
from croupier.service.settings import AnalyzerSettings, FrontSettings

PLAN = {
    "name": "colours",
    "arms": ["red", "green"],
    "program": {"policy": "dp-klucb", "horizon": 400},
    "reward": {"protocol": "shuffled-bits"},
    "privacy": {"epsilon": 4.0, "honest_fraction": 1.0},
    "reports": {"report_within": 600, "report_at": [0, 0]},
    "batches": {"smallest": 32, "deadline": 50},
}
COUNTER = {
    "name": "colours",
    "program": {"kind": "counter", "users": 192, "shufflers": 2},
    "reward": {"protocol": "shuffled-bits"},
    "privacy": {"epsilon": 4.0, "honest_fraction": 0.9},
    "reports": {"report_within": 600, "report_at": [0, 0]},
}
"""Batches of 32, and of 96 above them."""


class Both:
    """Both applications, joined without a network, and a clock for each."""

    def __init__(
        self, directory: Path, suite: str = SUITE, experiment: dict = PLAN, origins: str = "", **front_settings
    ) -> None:
        self.directory, self.clock = directory, Clock()
        for server in ("analyzer", "front"):
            key_files.make(directory / server, suites=(suite,))
        self.bearer = key_files.make_bearer(directory / "bearer")
        self.admin = key_files.make_bearer(directory / "admin")
        front = FrontSettings(
            keys=str(directory / "front"),
            store=str(directory / "front.db"),
            analyzer="sha256:" + key_files.bearer_hash(self.bearer),
            url="http://front.test",
            openers=0,
            due_within=5,
            suite=suite,
            origins=origins,
            **{"admission": "everybody"} | front_settings,
        )
        self.front = FrontApp(front, clock=self.clock)
        self.http = httpx2.AsyncClient(transport=_Hosts(self))
        analyzer = AnalyzerSettings(
            keys=str(directory / "analyzer"),
            store=str(directory / "analyzer.db"),
            bearer=str(directory / "bearer"),
            admin=str(directory / "admin"),
            front="http://front.test",
            plain_http=True,
            url="http://analyzer.test",
            openers=0,
            poll=0.03,
            suite=suite,
            origins=origins,
        )
        self.analyzer = AnalyzerApp(analyzer, [plan(experiment)], clock=self.clock, http=self.http)

    @contextlib.asynccontextmanager
    async def running(self):
        async with (
            self.front.app.router.lifespan_context(self.front.app),
            self.analyzer.app.router.lifespan_context(self.analyzer.app),
        ):
            await self.until(lambda: self.live.open and self.front.front.store.longest_upload("colours"))
            yield self

    @property
    def live(self):
        return self.analyzer.analyzer.live["colours"]

    @property
    def keys(self):
        return self.live.keys

    async def until(self, condition, seconds=20.0):
        for _ in range(int(seconds / 0.01)):
            # Not in the middle of a change that is on its way to the disk.
            if not self.live.lock.locked() and condition():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"it did not come to that; trouble: {self.live.trouble!r}")

    @property
    def verify_keys(self):
        """What a device has pinned: the signing keys of both servers."""
        return {server: key_files.load(self.directory / server).verify for server in ("analyzer", "front")}

    async def users(self, count, value=1.0):
        """So many users take a turn and report; the outcomes."""
        outcomes = []
        for _ in range(count):
            client = AsyncClient(
                "http://analyzer.test", http=self.http, limits=GENEROUS, keys=self.verify_keys, background=False
            )
            try:
                turn = await client.play("colours", patience=2.0)
                await client._run(client.device.send_now(turn, value if turn.arm in (0, None) else 0.0))
                outcomes.append("accepted")
            except Refused as refusal:
                outcomes.append(refusal.problem)
        return outcomes

    async def operate(self, **body):
        headers = {"authorization": f"Bearer {self.admin}"}
        return await self.http.post("http://analyzer.test/experiments/colours/operations", json=body, headers=headers)


class _Hosts(httpx2.AsyncBaseTransport):
    """Sends each request to the application that its host names."""

    def __init__(self, both):
        self.both = both

    async def handle_async_request(self, request):
        app = getattr(self.both, request.url.host.removesuffix(".test")).app
        return await httpx2.ASGITransport(app, raise_app_exceptions=False).handle_async_request(request)


def check_problem(answer, token):
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["type"] == URN + token, body
    assert answer.status_code == body["status"] == PROBLEMS[token].status
    assert body["title"] == PROBLEMS[token].title
