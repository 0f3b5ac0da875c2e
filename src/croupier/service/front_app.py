"""The front over HTTP: handlers parse, call the front, and answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from croupier.checks import InvalidParameter, between, integer
from croupier.client.device import REPORT_TYPE
from croupier.messages.signing import Statement, from_text, to_text
from croupier.noise import Source, secure
from croupier.service import front_worker, meters, openapi
from croupier.service.connections import most_held
from croupier.service.front import Assignment
from croupier.service.group_commit import Groups
from croupier.service.groups import LONGEST_ANSWER
from croupier.service.meters import Meters
from croupier.service.openapi import GROUP_TYPE, JSON, MESSAGES_TYPE, MOST_LINES
from croupier.service.pool import Pool
from croupier.service.problems import Problem, kind_of
from croupier.service.settings import FrontSettings, origins_of
from croupier.service.uploads import Uploads
from croupier.service.waits import LATE_SECONDS, Waits, watch
from croupier.service.web import (
    BASE,
    Place,
    Room,
    add_handlers,
    admit_pages,
    announced,
    body_of,
    check_bearer,
    check_type,
    fixed,
    healthz,
    json_of,
    known_bearer,
    readyz,
    stopping,
    whole,
)

log = logging.getLogger("croupier")

SWEEP_SECONDS = 1.0
LOOK_SECONDS = 0.5
LONGEST_HOLD = 10.0
MOST_HELD = 2**26
"""Uploads of so many bytes together are read and wait; who comes then is told to try again."""
LONGEST_DEADLINE = 2.0**53
CLOSE_SECONDS, LONGEST_CLOSE = 60.0, 1200.0
"""A batch that takes longer to close is told of; one that takes longer still is begun again."""
WORK_SECONDS = 60.0
"""A process that has not finished a group by then stands still: for other writers it waits half as long."""

T = TypeVar("T")
R = TypeVar("R")


class FrontApp:
    """The routes, and what runs beside them: group commit, closing of full batches, expiry."""

    def __init__(
        self, settings: FrontSettings, *, clock: Callable[[], float] = time.time, source: Source | None = None
    ) -> None:
        self.settings = settings
        self.known_bearer = known_bearer(settings.analyzer)
        self.front = front_worker.front_of(settings, clock, source or secure())
        # Turns and uploads are worked on in processes: this one is left to answer.
        self.waits = Waits(store=LATE_SECONDS, workers=LATE_SECONDS, closing=CLOSE_SECONDS)
        prepare = front_worker.prepare
        self.pool, self.closer = (
            Pool(count, seconds, partial(self.waits.on, kind), prepare, settings) if settings.openers else None
            # Closing seals as many messages as many users do: it has a process to itself, and nobody waits for it.
            for kind, count, seconds in (("workers", settings.openers, WORK_SECONDS), ("closing", 1, LONGEST_CLOSE))
        )
        self.meters = Meters(meters.FRONT, meters.COARSE)
        self._full = asyncio.Event()
        self._opened = asyncio.Event()
        self._waiting, self._most_waiting = 0, min(settings.queue, most_held())
        self._failed = False
        self._room = Room(MOST_HELD)
        self.known = Uploads(self.front)
        group = partial(
            Groups,
            size=settings.group_size,
            seconds=settings.group_seconds,
            queue=settings.queue,
            # One more than there are processes, so that none waits for its next group.
            at_once=1 + settings.openers,
        )
        self.turns: Groups[tuple[str, bytes | None], Assignment] = group(self._assign)
        self.uploads: Groups[tuple[str, bytes], str] = group(self._take)
        self.app = self._app()

    def _app(self) -> Starlette:
        base = BASE
        batch = base + "/batches/{batch}"
        routes = [
            # Routes are tried in order, and these two are asked for most.
            Route(base + "/reports", self.report, methods=["POST"]),
            Route(base + "/assignments", self.assign, methods=["POST"]),
            Route("/healthz", healthz),
            Route("/readyz", readyz(self._trouble)),
            Route("/metrics", self.metrics),
            Route("/openapi.json", fixed(openapi.document("front", openapi.FRONT))),
            Route("/keys", self.keys),
            Route(base, self.experiment),
            Route(base, self.register, methods=["PUT"]),
            Route(base + "/configurations/{hash}", self.configuration),
            Route(base + "/rules/{hash}", self.rule),
            Route(base + "/offers/{offer}", self.offer, methods=["PUT"]),
            Route(base + "/head", self.head),
            Route(base + "/head", self.countersign, methods=["PUT"]),
            Route(base + "/close", self.close_blocks, methods=["POST"]),
            Route(base + "/finish", self.finish, methods=["POST"]),
            Route(base + "/pause", partial(self.pause, paused=True), methods=["POST"]),
            Route(base + "/resume", partial(self.pause, paused=False), methods=["POST"]),
            Route(base + "/batches", self.batches),
            Route(batch, self.cancel, methods=["DELETE"]),
            Route(batch + "/receipt", self.receipt),
            Route(batch + "/messages/{part}", self.messages),
            Route(batch + "/messages", self.acknowledge, methods=["DELETE"]),
            Route(batch + "/share", self.share),
            Route(base + "/groups", self.group),
            Route(base + "/groups/{group}", self.settle, methods=["POST"]),
        ]
        app = Starlette(routes=routes, lifespan=self._lifespan)
        add_handlers(app, self.meters)
        admit_pages(app, origins_of(self.settings.origins))
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        pools = [pool for pool in (self.pool, self.closer) if pool is not None]
        await asyncio.gather(*(pool.warm() for pool in pools))
        tasks = [
            asyncio.create_task(work)
            for work in (self.turns.run(), self.uploads.run(), self._close(), self._sweep(), watch(self._look))
        ]
        log.info("started", extra={"fields": {"server": "front"}})
        if self.front.rules.admission.issuer is None:
            log.warning("everybody is admitted", extra={"fields": {"setting": "admission"}})
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for pool in pools:
                pool.close()
            self.front.store.close()
            log.info("stopped", extra={"fields": {"server": "front"}})

    async def _trouble(self) -> str:
        """Why nothing can be taken in. Writing is tried only where it has failed, since anyone may ask this."""
        if self.waits.trouble:
            return self.waits.trouble
        try:
            with self.waits.on("store"):
                async with asyncio.timeout(LATE_SECONDS):
                    await asyncio.to_thread(self.front.store.standings, "")
                    if self._failed:
                        await asyncio.to_thread(self.front.store.touch)
                        self._failed = False
        except Exception as error:
            return f"the store: {kind_of(error)}"
        return ""

    # For clients

    async def experiment(self, request: Request) -> Response:
        configuration = await asyncio.to_thread(self.front.configuration, request.path_params["name"])
        return JSONResponse(configuration)

    async def configuration(self, request: Request) -> Response:
        digest = from_text("hash", request.path_params["hash"])
        body = await asyncio.to_thread(self.front.configuration, request.path_params["name"], digest)
        return JSONResponse(body)

    async def rule(self, request: Request) -> Response:
        digest = from_text("hash", request.path_params["hash"])
        rule = await asyncio.to_thread(self.front.rule, request.path_params["name"], digest)
        return Response(rule, media_type=JSON)

    async def assign(self, request: Request) -> Response:
        name = request.path_params["name"]
        ticket = self.front.admit(name, from_text("ticket", request.headers.get("croupier-ticket", "")))
        turn = await self._turn(name, ticket, _patience(request))
        self.meters.add("assignments")
        return Response(turn.to_json(), 201, media_type=JSON)

    async def _turn(self, name: str, ticket: bytes | None, patience: float) -> Assignment:
        """A turn, now or as soon as there is one within the time that the client wants to wait."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        while True:
            opened = self._opened
            try:
                return await self.turns.submit((name, ticket))
            except Problem as problem:
                left = end - loop.time()
                full = self._waiting >= self._most_waiting
                if problem.token != "nothing-open" or left <= 0 or full or stopping(self.app):
                    raise
            self._waiting += 1
            try:
                # Another worker may have opened an offer, and expired turns become free: so look now and then.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(opened.wait(), min(left, LOOK_SECONDS))
            finally:
                self._waiting -= 1

    async def report(self, request: Request) -> Response:
        check_type(request, REPORT_TYPE)
        name = request.path_params["name"]
        most = await self.known.most(name, announced(request))
        with Place(self._room) as place:
            body = await body_of(request, most, place, partial(self.known.check, name))
            outcome = await self.uploads.submit((name, body))
        self.meters.add("reports", outcome)
        if outcome not in ("accepted", "repeated"):
            raise Problem(outcome)
        return Response(b'{"status":"%s"}' % outcome.encode(), 201 if outcome == "accepted" else 200, media_type=JSON)

    async def batches(self, request: Request) -> Response:
        since = request.query_params.get("since", "0")
        if not since.isascii() or not since.isdigit() or len(since) > 10:
            raise Problem("bad-request", "since is the number of a batch")
        trusted, name = self._trusted(request), request.path_params["name"]
        standings = await asyncio.to_thread(partial(self.front.standings, name, int(since), trusted=trusted))
        return JSONResponse(standings)

    async def head(self, request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(self.front.head, request.path_params["name"]))

    async def keys(self, _: Request) -> Response:
        keys = self.front.keys
        sealing = {key.suite: to_text(key.public) for key in keys.sealing}
        admission = self.front.rules.admission.to_dict()
        return JSONResponse({"verify": to_text(keys.verify), "seal": sealing, "admission": admission})

    async def metrics(self, _: Request) -> Response:
        await self._look()
        return self.meters.answer()

    async def _look(self) -> str:
        """What is wrong, as a gauge too: whoever answers for all workers sees that of each."""
        trouble = await self._trouble()
        self.meters.show("waiting_seconds", self.waits.ages)
        self.meters.show("ready", {"front": not trouble})
        return trouble

    def _trusted(self, request: Request) -> bool:
        """Whether it is the analyzer who asks; a wrong secret is refused."""
        if "authorization" not in request.headers:
            return False
        check_bearer(request, self.known_bearer)
        return True

    # For the analyzer

    async def register(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        body = await json_of(request)
        statement = Statement.from_dict("configuration", body)
        key = from_text("proof_key", body["proof_key"]) if "proof_key" in body else None
        void = body.get("void", [])
        if not isinstance(void, list):
            raise InvalidParameter("void", void, "a list of configurations' hashes")
        void = [to_text(from_text("void", one)) for one in void]
        signed = await asyncio.to_thread(self.front.register, request.path_params["name"], statement, key, void)
        return JSONResponse(signed.to_dict())

    async def offer(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        body = await json_of(request)
        deadline = body.get("deadline")
        if deadline is not None:
            deadline = float(between("deadline", deadline, 0, LONGEST_DEADLINE, "(]"))
        statement = Statement.from_dict("offer", body.get("offer"))
        name, number = request.path_params["name"], whole(request, "offer")
        together = body.get("together", [])
        if not isinstance(together, list):
            raise InvalidParameter("together", together, "a list of offers' numbers")
        together = [integer("together", one, 0, 2**32 - 1) for one in together]
        odds = body.get("odds")
        if odds is not None:
            odds = float(between("odds", odds, 0, 1, "(]"))
        rule = body.get("rule")
        if rule is not None and not isinstance(rule, str):
            raise InvalidParameter("rule", type(rule).__name__, "the text of a rule")
        opened = partial(self.front.open_offer, name, number, statement, deadline, together, odds, rule)
        signed = await asyncio.to_thread(opened)
        self._opened.set()
        self._opened = asyncio.Event()
        log.info("offer opened", extra={"fields": {"experiment": name, "offer": number}})
        return JSONResponse(signed.to_dict())

    async def countersign(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        body = await json_of(request)
        statement, lines = Statement.from_dict("head", body.get("head")), body.get("lines")
        if not isinstance(lines, list) or len(lines) > MOST_LINES:
            raise Problem("bad-request", f"lines are at most {MOST_LINES} digests")
        digests = [from_text("lines", line) for line in lines]
        signed = await asyncio.to_thread(self.front.countersign, request.path_params["name"], statement, digests)
        return JSONResponse(signed.to_dict())

    async def close_blocks(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        await asyncio.to_thread(self.front.close_blocks, request.path_params["name"])
        self._full.set()
        return Response(status_code=204)

    async def finish(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        await asyncio.to_thread(self.front.finish, request.path_params["name"])
        return Response(status_code=204)

    async def pause(self, request: Request, *, paused: bool) -> Response:
        check_bearer(request, self.known_bearer)
        await asyncio.to_thread(partial(self.front.pause, request.path_params["name"], paused=paused))
        return Response(status_code=204)

    async def cancel(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        await asyncio.to_thread(self.front.cancel, request.path_params["name"], whole(request, "batch"))
        return Response(status_code=204)

    async def receipt(self, request: Request) -> Response:
        trusted, name, number = self._trusted(request), request.path_params["name"], whole(request, "batch")
        return JSONResponse(await asyncio.to_thread(partial(self.front.receipt, name, number, trusted=trusted)))

    async def messages(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        name, number, part = request.path_params["name"], whole(request, "batch"), whole(request, "part")
        body = await asyncio.to_thread(self.front.part, name, number, part)
        return Response(body, media_type=MESSAGES_TYPE)

    async def group(self, request: Request) -> Response:
        """The next reports in shares to be settled."""
        check_bearer(request, self.known_bearer)
        return await self._next_group(request.path_params["name"])

    async def settle(self, request: Request) -> Response:
        """The analyzer's answer to a group; the next one is the answer to this."""
        check_bearer(request, self.known_bearer)
        name, number = request.path_params["name"], whole(request, "group")
        with Place(self._room) as place:
            answer = await body_of(request, LONGEST_ANSWER, place)
        if await self._work(self._settle, front_worker.settle, (name, number, answer)):
            self._full.set()
        return await self._next_group(name)

    def _settle(self, answer: tuple[str, int, bytes]) -> int:
        return self.front.settle(*answer)

    async def _next_group(self, name: str) -> Response:
        group = await asyncio.to_thread(self.front.group, name)
        return Response(status_code=204) if group is None else Response(group.to_bytes(), media_type=GROUP_TYPE)

    async def share(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        name, number = request.path_params["name"], whole(request, "batch")
        return JSONResponse(await asyncio.to_thread(self.front.share, name, number))

    async def acknowledge(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        await asyncio.to_thread(self.front.acknowledge, request.path_params["name"], whole(request, "batch"))
        return Response(status_code=204)

    # Beside the routes

    async def _assign(self, wishes: Sequence[tuple[str, bytes | None]]) -> list[Assignment | Problem]:
        return await self._work(self.front.assign, front_worker.assign, wishes)

    async def _take(self, uploads: Sequence[tuple[str, bytes]]) -> list[str | Problem]:
        answer = await self._work(self.front.take, front_worker.take, uploads)
        if "accepted" in answer:
            self._full.set()
        return answer

    async def _work(self, here: Callable[[T], R], there: Callable[[T], R], given: T) -> R:
        """Done in a process where there are any, else in a thread."""
        try:
            if self.pool is not None:
                return await self.pool.run(there, given)
            with self.waits.on("workers"):
                return await asyncio.to_thread(here, given)
        except Exception:
            self._failed = True
            raise

    async def _close(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), SWEEP_SECONDS)
            self._full.clear()
            await self._safely("close", self._close_full)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._safely("expire", self._swept)

    async def _swept(self) -> int:
        with self.waits.on("store"):
            return await asyncio.to_thread(self.front.sweep)

    async def _close_full(self) -> int:
        if self.closer is None:
            return await asyncio.to_thread(self.front.close_full)
        # Asked first, which costs little: a process is bothered only when there is something to close.
        await asyncio.to_thread(self.front.advance)
        return await self.closer.run(front_worker.close_full) if await asyncio.to_thread(self.front.store.full) else 0

    async def _safely(self, what: str, work: Callable[[], Awaitable[int]]) -> None:
        """Background work must outlive one bad moment of the store."""
        try:
            done = await work()
            if done:
                log.info(what, extra={"fields": {"batches": done}})
                self.meters.add("batches", what, done)
        except Exception as error:
            self._failed = True
            log.error(what, extra={"fields": {"error": kind_of(error)}})


def _patience(request: Request) -> float:
    """How long a client lets its request be held: `Prefer: wait=5` (RFC 7240)."""
    preference = re.search(r"\bwait=(\d{1,4})\b", request.headers.get("prefer", ""))
    return min(float(preference[1]), LONGEST_HOLD) if preference else 0.0
