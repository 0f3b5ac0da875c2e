"""What both servers' HTTP has in common: problem documents, bearer tokens, bounded bodies, and health."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from croupier.checks import CroupierError
from croupier.messages.configuration import NAME
from croupier.service import logs
from croupier.service.keys import bearer, bearer_hash, bearer_matches
from croupier.service.meters import Meters
from croupier.service.problems import Problem

MOST_JSON = 2**20
BODY_SECONDS = 10.0
BODY_STEP = 2**14
"""A body of which not so many bytes, or the rest, come in `BODY_SECONDS` will not come."""
FIRST_BYTES = 64
"""So many bytes of a body can be looked at before the rest is read."""

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
    """How many bytes of bodies may be held at a time: those that have come, not those that were announced.

    Where there are too many, the body that has been coming for longest makes room: it may never come.
    """

    def __init__(self, most: int) -> None:
        self.left = most
        self.coming: dict[Place, None] = {}


class Place:
    """One body's bytes in a room, until the end of a `with` block."""

    def __init__(self, room: Room) -> None:
        self._room, self._size = room, 0
        self._clock: asyncio.Timeout | None = None

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def begin(self, clock: asyncio.Timeout) -> None:
        """The body begins to come; it will not when the clock is at its end."""
        self._clock = clock
        self._room.coming[self] = None

    def end(self) -> None:
        """The body is whole, or will not be."""
        self._room.coming.pop(self, None)

    def take(self, size: int) -> None:
        """Hold so many bytes more."""
        room = self._room
        while size > room.left:
            slowest = next(iter(room.coming), self)
            if slowest is self:
                raise Problem("too-busy", retry_after=1)
            slowest._give_way()
        room.left -= size
        self._size += size

    def _give_way(self) -> None:
        self._leave()
        assert self._clock is not None
        if not self._clock.expired():
            self._clock.reschedule(0.0)

    def _leave(self) -> None:
        self.end()
        self._room.left += self._size
        self._size = 0


Look = Callable[[bytes], Awaitable[None]]
Endpoint = Callable[[Request], Awaitable[Response]]
ShortAnswer = Callable[[Request, str], Awaitable[tuple[int, bytes]]]


async def body_of(request: Request, most: int, place: Place | None = None, look: Look | None = None) -> bytes:
    """The body, read no further than it may be long, and no longer than it comes at a least rate.

    Its bytes have their place, and the first of them are looked at before the rest is read.
    """
    check_length(request, most)
    place = place or Place(Room(most))
    pieces: list[bytes] = []
    size, step = 0, BODY_STEP
    try:
        async with asyncio.timeout(BODY_SECONDS) as clock:
            place.begin(clock)
            async for piece in request.stream():
                size += len(piece)
                if size > most:
                    raise too_large(most)
                place.take(len(piece))
                pieces.append(piece)
                if look is not None and size >= FIRST_BYTES:
                    await look(b"".join(pieces))
                    look = None
                if size >= step:
                    step = size + BODY_STEP
                    clock.reschedule(asyncio.get_running_loop().time() + BODY_SECONDS)
    except TimeoutError:
        raise Problem("too-slow", retry_after=1) from None
    except ClientDisconnect:
        raise Problem("bad-request", "the body ended early") from None
    finally:
        place.end()
    return b"".join(pieces)


def announced(request: Request) -> int | None:
    """How long a request says that its body is."""
    said = request.headers.get("content-length", "")
    return int(said[:19]) if said.isascii() and said.isdigit() else None


def check_length(request: Request, most: int) -> None:
    """Refuse a body that is too long by its own account."""
    if (announced(request) or 0) > most:
        raise too_large(most)


def too_large(most: int) -> Problem:
    return Problem("too-large", f"at most {most} bytes")


def check_type(request: Request, due: str) -> None:
    """Refuse another media type than this; its parameters do not matter."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != due:
        raise Problem("wrong-type", f"{due} is due")


async def json_of(request: Request) -> dict[str, Any]:
    """The body as a JSON object."""
    check_type(request, "application/json")
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


def seated(answer: Endpoint, most: int) -> Endpoint:
    """An endpoint that streams to so many at a time; who comes then is told to try again."""
    taken = 0

    async def during(pieces: AsyncIterable[Any]) -> AsyncIterator[Any]:
        nonlocal taken
        taken += 1
        try:
            async for piece in pieces:
                yield piece
        finally:
            taken -= 1

    async def seat(request: Request) -> Response:
        if taken >= most:
            raise Problem("too-busy", retry_after=10)
        response = await answer(request)
        assert isinstance(response, StreamingResponse)
        response.body_iterator = during(response.body_iterator)
        return response

    return seat


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


class ShortWay(Starlette):
    """An application with a way of its own for the one request that comes most: past the layers of routes and
    middleware, which take longer than the rest of it.
    """

    def shorten(self, path: str, answer: ShortAnswer, meters: Meters) -> None:
        """POST requests to addresses that match, with one name in them, are answered like this: a status, and JSON."""
        self._short, self._answer, self._meters = re.compile(path).fullmatch, answer, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._short(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        request = Request(scope, receive) if found else None
        # What pages of other sites may do is the middleware's to say.
        if found is None or request is None or "origin" in request.headers:
            await super().__call__(scope, receive, send)
            return
        problem = None
        try:
            status, body = await self._answer(request, found[1])
        except Problem as refused:
            problem = refused
        except CroupierError as error:
            problem = Problem("bad-request", str(error))
        except Exception as error:
            problem = unforeseen(error)
        if problem is not None:
            await refusal(problem, self._meters)(scope, receive, send)
            return
        head = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body})


def refusal(problem: Problem, meters: Meters) -> Response:
    """A problem document, and counted."""
    meters.add("problems", problem.token)
    return answer_problem(problem)


def unforeseen(error: Exception) -> Problem:
    """A refusal that says nothing; the log does."""
    logs.failed(error)
    return Problem("internal")


def add_handlers(app: Starlette, meters: Meters) -> None:
    """Turn every refusal into a problem document, and anything unforeseen into one that says nothing."""

    async def refused(_: Request, problem: Any) -> Response:
        return refusal(problem, meters)

    async def unfit(_: Request, error: Exception) -> Response:
        return refusal(Problem("bad-request", str(error)), meters)

    async def failed(_: Request, error: Exception) -> Response:
        return refusal(unforeseen(error), meters)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        token = _STATUS.get(error.status_code, "bad-request")
        meters.add("problems", token)
        answer = answer_problem(Problem(token))
        if token == "method-not-allowed":
            answer.headers["allow"] = ", ".join(_methods(request))
        return answer

    app.router.redirect_slashes = False
    app.add_exception_handler(Problem, refused)
    app.add_exception_handler(CroupierError, unfit)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, failed)


def _methods(request: Request) -> list[str]:
    """What an address takes, over all its routes."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    return sorted({m for r in routes if r.matches(request.scope)[0] != Match.NONE for m in r.methods or ()})


def fixed(body: Any) -> Endpoint:
    """An endpoint that always answers the same."""
    answer = JSONResponse(body)

    async def same(_: Request) -> Response:
        return answer

    return same


async def healthz(_: Request) -> Response:
    """The process is alive."""
    return JSONResponse({"status": "alive"})


def readyz(
    trouble: Callable[[], Awaitable[str]], stalled: Callable[[], dict[str, str]] = dict
) -> Callable[[Request], Awaitable[Response]]:
    """Whether the server can do its work, and if not, why not; and which experiments wait for users in vain."""

    async def answer(_: Request) -> Response:
        reason = await trouble()
        if reason:
            raise Problem("not-ready", reason, retry_after=1)
        waiting = stalled()
        return JSONResponse({"status": "ready"} | ({"stalled": waiting} if waiting else {}))

    return answer
