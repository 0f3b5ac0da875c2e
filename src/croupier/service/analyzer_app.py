"""The analyzer over HTTP: experiments, their live state, transcripts, an operator's wishes, and the pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.service import keys as key_files
from croupier.service import openapi
from croupier.service.analyzer import Analyzer
from croupier.service.connections import most_held
from croupier.service.experiment import Plan, check_length
from croupier.service.link import ShufflerLink
from croupier.service.live import Live
from croupier.service.openapi import PAGES
from croupier.service.opening import Opener
from croupier.service.problems import Problem
from croupier.service.schemas import LONGEST_ARM
from croupier.service.settings import AnalyzerSettings, origins_of, store_url
from croupier.service.showing import History, participation, state
from croupier.service.store import AnalyzerStore
from croupier.service.web import (
    BASE,
    Meters,
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
        http: httpx.AsyncClient | None = None,
    ) -> None:
        if len({plan.name for plan in plans}) != len(plans):
            raise CroupierError("two experiments have the same name")
        self.settings = settings
        for plan in plans:
            check_length(plan, settings.suite)
        keys = key_files.load(Path(settings.keys))
        keys.newest(settings.suite)
        self.known_admin = known_bearer(settings.admin)
        self.store = AnalyzerStore(store_url(settings.store))
        own = settings.shuffler_internal or settings.shuffler
        self.link = ShufflerLink(own, key_files.bearer(Path(settings.bearer)), http)
        self.opener = Opener(settings.openers)
        urls = {"analyzer": settings.public_url, "shuffler": settings.shuffler.rstrip("/")}
        self.analyzer = Analyzer(plans, self.store, keys, self.link, self.opener, urls, settings.suite, clock)
        self.histories = {name: History(live) for name, live in self.analyzer.live.items()}
        self.meters = Meters()
        self.app = self._app()

    def _app(self) -> Starlette:
        base = BASE
        routes = [
            Route("/healthz", healthz),
            Route("/readyz", readyz(self._trouble)),
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
        log.info("started", extra={"fields": {"server": "analyzer", "experiments": len(tasks)}})
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
        found = [
            f"{live.name}: {live.trouble or 'not signed by both servers yet'}"
            for live in self.analyzer.live.values()
            if live.trouble or live.configured is None
        ]
        return "; ".join(found)

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
            raise Problem("not-ready", "the shuffler has not signed this experiment yet", retry_after=1)
        return JSONResponse(live.configured.to_dict())

    async def state(self, request: Request) -> Response:
        return _json(state(self._history(request)))

    async def stream(self, request: Request) -> Response:
        """The state again whenever it changes, as server-sent events."""
        history = self._history(request)
        live = history.live

        async def events() -> AsyncIterator[str]:
            shown, quiet = -1, 0.0
            yield f"retry: {RETRY_MILLISECONDS}\n\n"
            while not stopping(self.app) and not await request.is_disconnected():
                if live.version != shown:
                    shown, quiet = live.version, 0.0
                    yield f"data: {json.dumps(_finite(state(history)), ensure_ascii=False)}\n\n"
                elif quiet >= KEEP_ALIVE:
                    quiet = 0.0
                    yield ": still here\n\n"
                await asyncio.sleep(LOOK_SECONDS)
                quiet += LOOK_SECONDS

        return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def participation(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(participation, self._live(request)))

    async def transcript(self, request: Request) -> Response:
        live = self._live(request)
        headers = {"content-disposition": f'attachment; filename="{live.name}.jsonl"'}
        return Response(live.transcript(), media_type="application/jsonl", headers=headers)

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
        async with live.lock:
            try:
                live.operate(operation, arm, name)
            except CroupierError as error:
                raise Problem("operation-refused", str(error)) from None
            live.registered = False
        return JSONResponse({"record": len(live.records) - 1})

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
        return PlainTextResponse(
            self.meters.text(
                {
                    "records": {one.name: len(one.records) for one in live},
                    "open_batches": {one.name: len(one.open) for one in live},
                    "reports_accepted": {one.name: one.standings.get("accepted", 0) for one in live},
                    "turns_assigned": {one.name: one.standings.get("assigned", 0) for one in live},
                    "finished": {one.name: int(one.program.finished) for one in live},
                    "trouble": {one.name: int(bool(one.trouble)) for one in live},
                }
            )
        )

    def _live(self, request: Request) -> Live:
        return self.analyzer.find(request.path_params["name"])

    def _history(self, request: Request) -> History:
        return self.histories[self._live(request).name]


def _json(body: Any) -> Response:
    return JSONResponse(_finite(body))


def _finite(body: Any) -> Any:
    """JSON has no infinity: it becomes null."""
    if isinstance(body, dict):
        return {key: _finite(value) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [_finite(value) for value in body]
    return None if isinstance(body, float) and not math.isfinite(body) else body
