"""What the front answers devices: the configuration, turns, and whether a report is taken; and what anybody may see."""

from __future__ import annotations

import asyncio
import contextlib
import re
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from croupier.client.device import REPORT_TYPE
from croupier.messages.signing import from_text, to_text
from croupier.service.front import Assignment
from croupier.service.front_work import FrontWork
from croupier.service.openapi import JSON
from croupier.service.problems import Problem
from croupier.service.web import BASE, Place, announced, body_of, check_type, stopping

LOOK_SECONDS = 0.5
LONGEST_HOLD = 10.0
TAKEN = {"accepted": (201, b'{"status":"accepted"}'), "repeated": (200, b'{"status":"repeated"}')}


class ForDevices(FrontWork):
    """Requests that anybody may make."""

    app: Starlette

    def _for_devices(self) -> list[Route]:
        return [
            # Routes are tried in order, and these two are asked for most.
            Route(BASE + "/reports", self.report, methods=["POST"]),
            Route(BASE + "/assignments", self.assign, methods=["POST"]),
            Route("/keys", self.keys),
            Route(BASE, self.experiment),
            Route(BASE + "/configurations/{hash}", self.configuration),
            Route(BASE + "/rules/{hash}", self.rule),
            Route(BASE + "/head", self.head),
            Route(BASE + "/batches", self.batches),
        ]

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
        status, body = await self.taken(request, request.path_params["name"])
        return Response(body, status, media_type=JSON)

    async def taken(self, request: Request, name: str) -> tuple[int, bytes]:
        """What becomes of a report, on the disk when this returns: a status, and JSON."""
        check_type(request, REPORT_TYPE)
        most = await self.known.most(name, announced(request))
        with Place(self._room) as place:
            body = await body_of(request, most, place, partial(self.known.check, name))
            outcome = await self.uploads.submit((name, body))
        self.meters.add("reports", outcome)
        if outcome not in TAKEN:
            raise Problem(outcome)
        return TAKEN[outcome]

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


def _patience(request: Request) -> float:
    """How long a client lets its request be held: `Prefer: wait=5` (RFC 7240)."""
    preference = re.search(r"\bwait=(\d{1,4})\b", request.headers.get("prefer", ""))
    return min(float(preference[1]), LONGEST_HOLD) if preference else 0.0
