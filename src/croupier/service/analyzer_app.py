"""The analyzer over HTTP: experiments, their live state, transcripts, an operator's wishes, and the pages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.service import keys as key_files
from croupier.service import meters, openapi
from croupier.service.analyzer import Analyzer
from croupier.service.connections import most_held
from croupier.service.decryption import Opener
from croupier.service.epochs import Epochs
from croupier.service.experiment import Plan, check_length
from croupier.service.experiment_log import Live
from croupier.service.front_client import FrontClient
from croupier.service.high_water import HighWater
from croupier.service.keys import ANSWERED, BATCH_KEYS
from croupier.service.meters import Meters
from croupier.service.openapi import JSON, PAGES
from croupier.service.problems import Problem, kind_of
from croupier.service.schemas import LONGEST_ARM
from croupier.service.settings import AnalyzerSettings, origins_of, store_url
from croupier.service.store import AnalyzerStore
from croupier.service.views import Shown
from croupier.service.waits import LATE_SECONDS, Waits, watch
from croupier.service.web import (
    BASE,
    add_handlers,
    admit_pages,
    check_bearer,
    fixed,
    healthz,
    json_of,
    known_bearer,
    readyz,
    seated,
    stopping,
)

log = logging.getLogger("croupier")

KEEP_ALIVE = 15.0
LOOK_SECONDS = 0.25
RETRY_MILLISECONDS = 1000
TOUCH_SECONDS = 5.0
OPERATE_SECONDS = 10.0
PAGE_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Nothing but what this server serves, and no text that becomes code."""


class AnalyzerApp:
    """The routes, and one task an experiment that drives it."""

    def __init__(
        self,
        settings: AnalyzerSettings,
        plans: list[Plan],
        *,
        clock: Callable[[], float] = time.time,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        if len({plan.name for plan in plans}) != len(plans):
            raise CroupierError("two experiments have the same name")
        self.settings = settings
        for plan in plans:
            check_length(plan, settings.suite)
        keys = key_files.load(Path(settings.keys))
        keys.newest(settings.suite)
        self.known_admin = known_bearer(settings.admin)
        directory = Path(settings.keys)
        self.store = AnalyzerStore(store_url(settings.store), directory / BATCH_KEYS)
        own = settings.front_internal or settings.front
        self.waits = Waits(store=LATE_SECONDS, front=LATE_SECONDS, decryption=LATE_SECONDS)
        self.link = FrontClient(own, key_files.bearer(Path(settings.bearer)), self.waits, http)
        self.opener = Opener(settings.openers, self.waits)
        urls = {"analyzer": settings.public_url, "front": settings.front.rstrip("/")}
        self.analyzer = Analyzer(
            plans,
            self.store,
            keys,
            self.link,
            self.opener,
            urls,
            settings.suite,
            clock,
            self.waits,
            mark=HighWater(directory / ANSWERED),
            epochs=Epochs(directory, settings.suite, settings.epoch, clock()),
        )
        self.shown = {name: Shown(live) for name, live in self.analyzer.live.items()}
        self._disk = ""
        self.meters = Meters(meters.ANALYZER)
        self.app = self._app()

    def _app(self) -> Starlette:
        base = BASE
        routes = [
            Route("/healthz", healthz),
            Route("/readyz", readyz(self._trouble, self._stalled)),
            Route("/metrics", self.metrics),
            Route("/openapi.json", fixed(openapi.document("analyzer", openapi.ANALYZER))),
            Route("/", self.page),
            Route("/participate/{name:experiment}", self.page),
            Route("/pages/{page}", self.page),
            Route("/experiments", self.experiments),
            Route(base, self.experiment),
            Route(base + "/state", self.state),
            Route(base + "/live", seated(self.stream, most_held())),
            Route(base + "/participation", self.participation),
            Route(base + "/transcript", self.transcript),
            Route(base + "/operations", self.operate, methods=["POST"]),
        ]
        app = Starlette(routes=routes, lifespan=self._lifespan)
        add_handlers(app, self.meters)
        admit_pages(app, origins_of(self.settings.origins))
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        await self.opener.warm()
        tasks = [
            asyncio.create_task(self.analyzer.run(name, self.settings.poll), name=name) for name in self.analyzer.live
        ]
        tasks += [asyncio.create_task(watch(self._trouble)), asyncio.create_task(self._touch())]
        log.info("started", extra={"fields": {"server": "analyzer", "experiments": len(self.analyzer.live)}})
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.link.close()
            self.opener.close()
            self.store.close()
            log.info("stopped", extra={"fields": {"server": "analyzer"}})

    async def _trouble(self) -> str:
        """Why some experiment does not go on."""
        troubles = [
            f"{live.name}: {live.trouble or 'not signed by both servers yet'}"
            for live in self.analyzer.live.values()
            if live.trouble or live.configured is None
        ]
        return "; ".join(filter(None, [*troubles, self._disk, self.waits.trouble]))

    def _stalled(self) -> dict[str, str]:
        """Why experiments wait for users in vain."""
        return {live.name: live.stalled for live in self.analyzer.live.values() if live.stalled}

    async def _touch(self) -> None:
        """See now and then whether the disk still takes what it is given, also when there is nothing to write."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                with self.waits.on("store"):
                    await loop.run_in_executor(self.store.writer, self.store.touch)
                self._disk = ""
            except Exception as error:
                self._disk = f"the store: {kind_of(error)}"
            await asyncio.sleep(TOUCH_SECONDS)

    async def experiments(self, _: Request) -> Response:
        """Every experiment, in short."""
        return JSONResponse(
            {
                "experiments": [
                    {"name": live.name, "title": live.plan.title, "finished": live.program.finished}
                    for live in self.analyzer.live.values()
                ]
            }
        )

    async def experiment(self, request: Request) -> Response:
        """The signed configuration: what a client joins by."""
        live = self._live(request)
        if live.configured is None:
            raise Problem("not-ready", "the front has not signed this experiment yet", retry_after=1)
        return JSONResponse(live.configured.to_dict())

    async def state(self, request: Request) -> Response:
        return Response(self._shown(request).text(), media_type=JSON)

    async def stream(self, request: Request) -> Response:
        """The state again whenever it changes, as server-sent events."""
        shown = self._shown(request)

        async def events() -> AsyncIterator[bytes]:
            sent, quiet = b"", 0.0
            yield b"retry: %d\n\n" % RETRY_MILLISECONDS
            while not stopping(self.app) and not await request.is_disconnected():
                text = shown.text()
                if text is not sent:
                    sent, quiet = text, 0.0
                    yield b"data: "
                    yield text
                    yield b"\n\n"
                elif quiet >= KEEP_ALIVE:
                    quiet = 0.0
                    yield b": still here\n\n"
                await asyncio.sleep(LOOK_SECONDS)
                quiet += LOOK_SECONDS

        return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def participation(self, request: Request) -> Response:
        return Response(await asyncio.to_thread(self._shown(request).participation), media_type=JSON)

    async def transcript(self, request: Request) -> Response:
        """The log as it is now; whoever reads slowly holds a page of it, not all."""
        live = self._live(request)
        headers = {"content-disposition": f'attachment; filename="{live.name}.jsonl"'}
        return StreamingResponse(live.pages(), media_type="application/jsonl", headers=headers)

    async def operate(self, request: Request) -> Response:
        """Pause, resume, retire or add an arm, or stop: `{"operation": "pause", "arm": 1}`."""
        check_bearer(request, self.known_admin)
        live, body = self._live(request), await json_of(request)
        operation, arm, name = str(body.get("operation")), body.get("arm"), body.get("name")
        if arm is not None:
            integer("arm", arm, 0)
        # What is in the log stays there: a name that no configuration can hold must not get in.
        if name is not None and not (isinstance(name, str) and len(name) <= LONGEST_ARM):
            raise InvalidParameter("name", str(name)[:60], f"a text of at most {LONGEST_ARM} characters")
        try:
            async with asyncio.timeout(OPERATE_SECONDS):
                return JSONResponse({"record": await live.operate(operation, arm, name)})
        except CroupierError as error:
            raise Problem("operation-refused", str(error)) from None
        except TimeoutError:
            raise Problem("not-ready", "the store gives no answer: this may be done later, or not") from None

    async def page(self, request: Request) -> Response:
        """The dashboard, a participant's page, and what they are made of."""
        name = request.path_params.get("page")
        if name is None:
            name = "participate.html" if "name" in request.path_params else "dashboard.html"
        if name not in PAGES:
            raise Problem("not-found")
        text = resources.files("croupier.service.pages").joinpath(name).read_text(encoding="utf-8")
        return Response(text, media_type=PAGES[name], headers=PAGE_HEADERS)

    async def metrics(self, _: Request) -> Response:
        live = self.analyzer.live.values()
        show = self.meters.show
        show("records", {experiment.name: experiment.count for experiment in live})
        show("open_batches", {experiment.name: len(experiment.open) for experiment in live})
        show("reports_accepted", {experiment.name: experiment.counted("accepted") for experiment in live})
        show("turns_assigned", {experiment.name: experiment.counted("assigned") for experiment in live})
        show("finished", {experiment.name: experiment.program.finished for experiment in live})
        show("trouble", {experiment.name: bool(experiment.trouble) for experiment in live})
        show("stalled", {experiment.name: bool(experiment.stalled) for experiment in live})
        show("waiting_seconds", self.waits.ages)
        show("ready", {"analyzer": not await self._trouble()})
        return self.meters.answer()

    def _live(self, request: Request) -> Live:
        return self.analyzer.find(request.path_params["name"])

    def _shown(self, request: Request) -> Shown:
        return self.shown[self._live(request).name]
