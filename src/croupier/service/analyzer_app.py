"""The analyzer over HTTP: experiments, their live state, transcripts, what operators ask, and the pages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from croupier.checks import CroupierError, InvalidParameter, between, integer
from croupier.service import exports, http_operations, meters, openapi
from croupier.service import keys as key_files
from croupier.service.analyzer import Analyzer
from croupier.service.connections import most_held
from croupier.service.decryption import Opener
from croupier.service.desk import Desk
from croupier.service.epochs import Epochs
from croupier.service.experiment import Plan
from croupier.service.experiment_log import Asked, Live
from croupier.service.front_client import FrontClient
from croupier.service.gate import Gate
from croupier.service.high_water import HighWater
from croupier.service.keys import ANSWERED, BATCH_KEYS
from croupier.service.meters import Meters
from croupier.service.openapi import JSON
from croupier.service.operators import Operators
from croupier.service.pages import page
from croupier.service.problems import Problem, kind_of
from croupier.service.register import Entry, Register
from croupier.service.schemas import LONGEST_ARM
from croupier.service.settings import AnalyzerSettings, origins_of, store_url, toml_of
from croupier.service.store import AnalyzerStore
from croupier.service.views import Shown
from croupier.service.waits import LATE_SECONDS, Waits, watch
from croupier.service.web import (
    BASE,
    add_handlers,
    admit_pages,
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
NOT_KEPT = {"cache-control": "no-store"}
TOUCH_SECONDS = 5.0
OPERATE_SECONDS = 10.0
LARGEST_SHARE = 1e6
LOOK_AGAIN = 5.0
"""Whether somebody may still see what is private is looked at again so often."""
DESCRIBED = fixed(openapi.document("analyzer", http_operations.ANALYZER))


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
        directory = Path(settings.keys)
        keys, mark = key_files.load(directory), HighWater(directory / ANSWERED)
        self.store = AnalyzerStore(store_url(settings.store), directory / BATCH_KEYS)
        try:
            mark.check(self.store)
            # If the file of a key that was destroyed came back, reports under it could count twice.
            keys = keys.without(key_files.destroy_again(directory, keys, self.store.destroyed))
            keys.newest(settings.suite)
        except CroupierError:
            self.store.close()
            raise
        own = settings.front_internal or settings.front
        self.waits = Waits(store=LATE_SECONDS, front=LATE_SECONDS, decryption=LATE_SECONDS)
        self.link = FrontClient(own, key_files.bearer(Path(settings.bearer)), self.waits, http)
        self.opener = Opener(settings.openers, self.waits)
        urls = {"analyzer": settings.public_url, "front": settings.front.rstrip("/")}
        self.analyzer = Analyzer(
            self.store,
            keys,
            self.link,
            self.opener,
            urls,
            settings.suite,
            clock,
            self.waits,
            mark=mark,
            epochs=Epochs(directory, settings.suite, settings.epoch, clock()),
        )
        register = Register(self.store, keys, clock)
        self.desk = Desk(self.analyzer, register, settings.poll)
        self.desk.take_in(plans)
        operators = Operators(self.store, known_bearer(settings.admin), settings.session, clock)
        self.gate = Gate(operators, register, settings.public_url)
        self._shown: dict[str, Shown] = {}
        self._disk = ""
        self.meters = Meters(meters.ANALYZER)
        self.app = self._app()

    def _app(self) -> Starlette:
        base = BASE
        routes = [
            Route("/healthz", healthz),
            Route("/readyz", readyz(self._trouble, self._stalled)),
            Route("/metrics", self.metrics),
            Route("/openapi.json", DESCRIBED),
            *self.gate.routes(),
            Route("/", page),
            Route("/participate/{name:experiment}", page),
            Route("/pages/{page}", page),
            Route("/audit", self.audit),
            Route("/audit.{format}", self.audit_file),
            Route("/experiments", self.experiments),
            Route("/experiments", self.create, methods=["POST"]),
            Route(base, self.experiment),
            Route(base + "/state", self.state),
            Route(base + "/live", seated(self.stream, most_held())),
            Route(base + "/participation", self.participation),
            Route(base + "/transcript", self.transcript),
            Route(base + "/tables/{table}.{format}", self.table),
            Route(base + "/operations", self.operate, methods=["POST"]),
        ]
        app = Starlette(routes=routes, lifespan=self._lifespan)
        add_handlers(app, self.meters)
        admit_pages(app, origins_of(self.settings.origins))
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        await self.opener.warm()
        self.desk.begin()
        tasks = [asyncio.create_task(watch(self._trouble)), asyncio.create_task(self._touch())]
        log.info("started", extra={"fields": {"server": "analyzer", "experiments": len(self.analyzer.live)}})
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.desk.end()
            await self.link.close()
            self.opener.close()
            self.store.close()
            log.info("stopped", extra={"fields": {"server": "analyzer"}})

    async def _trouble(self) -> str:
        """Why some experiment does not go on; of a private one no more than that it does not."""
        troubles, private = [], 0
        for live in self.analyzer.live.values():
            why = live.trouble or ("" if live.configured else "not signed by both servers yet")
            if why and self.desk.entry(live.name).started:
                private += not live.plan.public
                troubles += [f"{live.name}: {why}"] if live.plan.public else []
        troubles += [f"{name}: {why}" for name, why in self.desk.unfit.items()]
        hidden = f"private experiments that do not go on: {private}" if private else ""
        return "; ".join(filter(None, [*troubles, hidden, self._disk, self.waits.trouble]))

    def _stalled(self) -> dict[str, str]:
        """Why experiments wait for users in vain."""
        return {live.name: live.stalled for live in self.analyzer.live.values() if live.stalled and live.plan.public}

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

    async def experiments(self, request: Request) -> Response:
        """Every experiment, in short: private ones and those that are put away to operators alone."""
        operator = await self.gate.reader(request)
        shown = [self._short(live) for live in self.analyzer.live.values() if live.plan.public or operator]
        if operator:
            shown += [self._away(entry) for entry in self.desk.register.entries.values() if entry.archived]
        return JSONResponse({"experiments": shown, "formats": exports.formats()}, headers=NOT_KEPT)

    def _short(self, live: Live) -> dict[str, Any]:
        about = {"name": live.name, "title": live.plan.title, "finished": live.program.finished}
        return about | {"standing": self.desk.standing(live), "public": live.plan.public}

    def _away(self, entry: Entry) -> dict[str, Any]:
        about = {"name": entry.name, "title": entry.plan.get("title", entry.name), "finished": True}
        return about | {"standing": "archived", "public": entry.plan.get("public", True)}

    async def create(self, request: Request) -> Response:
        """A new experiment, as its file would say: `{"text": "name = ...", "start": true}`."""
        who, body = await self.gate.operator(request), await json_of(request)
        text, start = body.get("text"), body.get("start", False)
        if not isinstance(text, str) or not isinstance(start, bool):
            raise Problem("bad-request", "text is an experiment as TOML, and start is true or false")
        live = await self.desk.create(who, toml_of("text", text))
        if start:
            await self.desk.operate(who, live, Asked("start"))
        return JSONResponse(self._short(live), 201)

    async def audit(self, request: Request) -> Response:
        """Who did what, the newest last."""
        await self.gate.operator(request)
        return JSONResponse({"audit": list(self.desk.register.newest)}, headers=NOT_KEPT)

    async def audit_file(self, request: Request) -> Response:
        """All of it, as rows."""
        await self.gate.operator(request)
        rows = await asyncio.to_thread(self.desk.register.rows)
        form = request.path_params["format"]
        return _file(exports.written(rows, form, exports.AUDIT), "audit", form)

    async def experiment(self, request: Request) -> Response:
        """The signed configuration: what a client joins by."""
        live = await self.desk.find(request.path_params["name"])
        if live.configured is None:
            raise Problem("not-ready", "the front has not signed this experiment yet", retry_after=1)
        return JSONResponse(live.configured.to_dict())

    async def state(self, request: Request) -> Response:
        live = await self._seen(request)
        return Response(self._shown_of(live).text(), media_type=JSON, headers=_kept(live))

    async def stream(self, request: Request) -> Response:
        """The state again whenever it changes, as server-sent events."""
        live = await self._seen(request)
        shown = self._shown_of(live)

        async def events() -> AsyncIterator[bytes]:
            sent, quiet, since = b"", 0.0, 0.0
            yield b"retry: %d\n\n" % RETRY_MILLISECONDS
            while not stopping(self.app) and not await request.is_disconnected():
                if not live.plan.public and since >= LOOK_AGAIN:
                    since = 0.0
                    if await self.gate.reader(request) is None:
                        return
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
                quiet, since = quiet + LOOK_SECONDS, since + LOOK_SECONDS

        return StreamingResponse(events(), media_type="text/event-stream", headers=NOT_KEPT)

    async def participation(self, request: Request) -> Response:
        shown = self._shown_of(await self.desk.find(request.path_params["name"]))
        return Response(await asyncio.to_thread(shown.participation), media_type=JSON)

    async def transcript(self, request: Request) -> Response:
        """The log as it is now; whoever reads slowly holds a page of it, not all."""
        live = await self._seen(request)
        headers = {"content-disposition": f'attachment; filename="{live.name}.jsonl"'} | _kept(live)
        return StreamingResponse(live.pages(), media_type="application/jsonl", headers=headers)

    async def table(self, request: Request) -> Response:
        """Batches, the result or the curve as rows."""
        live, table, form = await self._seen(request), request.path_params["table"], request.path_params["format"]
        return _file(exports.pieces(live, table, form), f"{live.name}-{table}", form)

    async def operate(self, request: Request) -> Response:
        """What an operator asks of an experiment: `{"operation": "pause", "arm": "red"}`."""
        who = await self.gate.operator(request)
        live, body = await self.desk.find(request.path_params["name"]), await json_of(request)
        arm, name, shares = body.get("arm"), body.get("name"), body.get("shares")
        if arm is not None and not isinstance(arm, str):
            integer("arm", arm, 0)
        # What is in the log stays there: a name that no configuration can hold must not get in.
        if name is not None and not (isinstance(name, str) and len(name) <= LONGEST_ARM):
            raise InvalidParameter("name", str(name)[:60], f"a text of at most {LONGEST_ARM} characters")
        if shares is not None:
            if not isinstance(shares, dict):
                raise InvalidParameter("shares", str(shares)[:60], "an object with a number for each arm")
            shares = {one: float(between("shares", share, 0, LARGEST_SHARE, "(]")) for one, share in shares.items()}
        try:
            async with asyncio.timeout(OPERATE_SECONDS):
                record = await self.desk.operate(who, live, Asked(str(body.get("operation")), arm, name, shares))
        except Problem:
            raise
        except CroupierError as error:
            raise Problem("operation-refused", str(error)) from None
        except TimeoutError:
            raise Problem("not-ready", "the store gives no answer: this may be done later, or not") from None
        return JSONResponse({"record": record, "standing": self.desk.standing(live)})

    async def metrics(self, request: Request) -> Response:
        operator = await self.gate.reader(request)
        live, show = self.analyzer.live.values(), self.meters.show
        show("records", {experiment.name: experiment.count for experiment in live})
        show("open_batches", {experiment.name: len(experiment.open) for experiment in live})
        show("reports_accepted", {experiment.name: experiment.counted("accepted") for experiment in live})
        show("turns_assigned", {experiment.name: experiment.counted("assigned") for experiment in live})
        show("finished", {experiment.name: experiment.program.finished for experiment in live})
        show("paused", {experiment.name: experiment.state.paused for experiment in live})
        show("trouble", {experiment.name: bool(experiment.trouble) for experiment in live})
        show("stalled", {experiment.name: bool(experiment.stalled) for experiment in live})
        show("waiting_seconds", self.waits.ages)
        show("ready", {"analyzer": not await self._trouble()})
        seen = {experiment.name for experiment in live if experiment.plan.public or operator}
        return self.meters.answer(seen)

    async def _seen(self, request: Request) -> Live:
        """An experiment that whoever asks may see the results of."""
        live = await self.desk.find(request.path_params["name"])
        operator = await self.gate.reader(request)
        if operator is None and not live.plan.public:
            raise Problem("unauthorized", "this experiment is private: log in, or show a token")
        return live

    def _shown_of(self, live: Live) -> Shown:
        shown = self._shown.get(live.name)
        if shown is None or shown.live is not live:
            shown = self._shown[live.name] = Shown(live, self.desk.standing)
        return shown


def _file(pieces: AsyncIterator[bytes], name: str, form: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}.{form}"'} | NOT_KEPT
    return StreamingResponse(pieces, media_type=exports.FORMATS[form], headers=headers)


def _kept(live: Live) -> dict[str, str]:
    """What is private is kept by nobody on its way."""
    return {} if live.plan.public else NOT_KEPT
