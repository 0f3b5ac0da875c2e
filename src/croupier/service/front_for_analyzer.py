"""What the front answers the analyzer alone, which it knows by a secret: experiments, offers, groups and batches."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from croupier.checks import InvalidParameter, between, integer
from croupier.messages.signing import Statement, from_text, to_text
from croupier.service import front_worker
from croupier.service.front_work import FrontWork
from croupier.service.groups import LONGEST_ANSWER
from croupier.service.openapi import GROUP_TYPE, MESSAGES_TYPE, MOST_LINES
from croupier.service.problems import Problem
from croupier.service.web import BASE, Place, body_of, check_bearer, json_of, whole

log = logging.getLogger("croupier")

LONGEST_DEADLINE = 2.0**53
BATCH = BASE + "/batches/{batch}"


class ForAnalyzer(FrontWork):
    """Requests with the analyzer's secret; receipts are everybody's where the experiment is public."""

    def _for_analyzer(self) -> list[Route]:
        return [
            Route(BASE, self.register, methods=["PUT"]),
            Route(BASE + "/offers/{offer}", self.offer, methods=["PUT"]),
            Route(BASE + "/head", self.countersign, methods=["PUT"]),
            Route(BASE + "/close", self.close_blocks, methods=["POST"]),
            Route(BASE + "/finish", self.finish, methods=["POST"]),
            Route(BASE + "/pause", partial(self.pause, paused=True), methods=["POST"]),
            Route(BASE + "/resume", partial(self.pause, paused=False), methods=["POST"]),
            Route(BATCH, self.cancel, methods=["DELETE"]),
            Route(BATCH + "/close", self.close_soon, methods=["POST"]),
            Route(BATCH + "/receipt", self.receipt),
            Route(BATCH + "/messages/{part}", self.messages),
            Route(BATCH + "/messages", self.acknowledge, methods=["DELETE"]),
            Route(BATCH + "/share", self.share),
            Route(BASE + "/groups", self.group),
            Route(BASE + "/groups/{group}", self.settle, methods=["POST"]),
        ]

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

    async def close_soon(self, request: Request) -> Response:
        check_bearer(request, self.known_bearer)
        await asyncio.to_thread(self.front.close_soon, request.path_params["name"], whole(request, "batch"))
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
