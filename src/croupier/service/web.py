"""What both servers' HTTP has in common: problem documents, bearer tokens, bounded bodies, and health."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from croupier.checks import CroupierError
from croupier.client.configuration import NAME
from croupier.service.keys import bearer, bearer_hash, bearer_matches
from croupier.service.meters import Meters
from croupier.service.problems import Problem, kind_of

log = logging.getLogger("croupier")

MOST_JSON = 2**20
BODY_SECONDS = 20.0
"""A body that is not there by then will not come."""

BASE = "/experiments/{name:experiment}"
"""Where an experiment's resources are; what cannot be a name leads nowhere."""

_STATUS = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "wrong-type"}


class _Experiment(StringConvertor):
    # Starlette ends a route with `$`, which lets a newline follow.
    regex = NAME.pattern + r"(?!\n)"


register_url_convertor("experiment", _Experiment())


def known_bearer(setting: str) -> str:
    """The hash of the token that is accepted: given as `sha256:...`, or of the secret in a file."""
    if setting.startswith("sha256:"):
        return setting.removeprefix("sha256:")
    return bearer_hash(bearer(Path(setting)))


def check_bearer(request: Request, known: str) -> None:
    """Refuse a request without the right bearer token."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not bearer_matches(token.strip(), known):
        raise Problem("unauthorized")


class Room:
    """How many bytes of bodies may be held at a time: those that have come, not those that were announced."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, size: int) -> None:
        if size > self._left:
            raise Problem("too-busy", retry_after=1)
        self._left -= size

    def give(self, size: int) -> None:
        self._left += size


async def body_of(request: Request, most: int, room: Room | None = None) -> bytes:
    """The body, read no further than it may be long, and no longer than `BODY_SECONDS`; it has its place in `room`."""
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdigit() and (len(said) > 18 or int(said) > most):
        raise Problem("too-large", f"at most {most} bytes")
    pieces, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                if room is not None:
                    room.take(len(piece))
                size += len(piece)
                if size > most:
                    raise Problem("too-large", f"at most {most} bytes")
                pieces.append(piece)
    except BaseException as error:
        if room is not None:
            room.give(size)
        if isinstance(error, TimeoutError):
            raise Problem("too-slow", retry_after=1) from None
        if isinstance(error, ClientDisconnect):
            raise Problem("bad-request", "the body ended early") from None
        raise
    return b"".join(pieces)


async def json_of(request: Request) -> dict[str, Any]:
    """The body as a JSON object."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Problem("wrong-type", "application/json is due")
    try:
        body = json.loads(await body_of(request, MOST_JSON))
        # Python reads more than JSON: NaN, and halves of characters that no text can hold.
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise Problem("bad-request", "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Problem("bad-request", "the body is not a JSON object")
    return body


def whole(request: Request, name: str) -> int:
    """A number in the address."""
    text = request.path_params[name]
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) >= 2**32:
        raise Problem("not-found", f"{text[:20]!r} is no number")
    return int(text)


def admit_pages(app: Starlette, origins: list[str]) -> None:
    """Let pages of these web sites do what clients do, and nothing that needs a bearer token."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["content-type", "prefer", "croupier-ticket"],
            expose_headers=["retry-after"],
            max_age=86_400,
        )


def stopping(app: Starlette) -> bool:
    """Whether the server has been told to end, so that requests held open should too."""
    told: Callable[[], bool] | None = getattr(app.state, "stopping", None)
    return told is not None and told()


def answer_problem(problem: Problem) -> Response:
    """A refusal as RFC 9457 wants it."""
    # RFC 9110 knows whole seconds only; the document has the time as it is.
    headers = {} if problem.retry_after is None else {"retry-after": str(max(1, math.ceil(problem.retry_after)))}
    if problem.token == "unauthorized":
        headers["www-authenticate"] = "Bearer"
    return Response(problem.document(), problem.status, headers, media_type="application/problem+json")


def add_handlers(app: Starlette, meters: Meters) -> None:
    """Turn every refusal into a problem document, and anything unforeseen into one that says nothing."""

    async def refused(_: Request, error: Exception) -> Response:
        problem = error if isinstance(error, Problem) else Problem("bad-request", str(error))
        meters.add("problems", problem.token)
        return answer_problem(problem)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        token = _STATUS.get(error.status_code, "bad-request")
        meters.add("problems", token)
        answer = answer_problem(Problem(token))
        if token == "method-not-allowed":
            answer.headers["allow"] = ", ".join(_methods(request))
        return answer

    async def failed(_: Request, error: Exception) -> Response:
        meters.add("problems", "internal")
        log.error("internal", extra={"fields": {"error": kind_of(error)}})
        return answer_problem(Problem("internal"))

    app.router.redirect_slashes = False
    app.add_exception_handler(CroupierError, refused)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, failed)


def _methods(request: Request) -> list[str]:
    """What an address takes, over all its routes."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    return sorted({m for r in routes if r.matches(request.scope)[0] != Match.NONE for m in r.methods or ()})


async def healthz(_: Request) -> Response:
    """The process is alive."""
    return JSONResponse({"status": "alive"})


def readyz(trouble: Callable[[], Awaitable[str]]) -> Callable[[Request], Awaitable[Response]]:
    """Whether the server can do its work, and if not, why not."""

    async def answer(_: Request) -> Response:
        found = await trouble()
        if found:
            raise Problem("not-ready", found, retry_after=1)
        return JSONResponse({"status": "ready"})

    return answer
