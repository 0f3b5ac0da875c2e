"""How operators come in over HTTP: a bearer token, or a session's cookie and then only from this server's own page.

What changes something under a cookie must name this server as its `Origin`, and show what only a page of this server
can have read. A cookie goes nowhere but here, and no script reads it.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from croupier.service.operators import NAME, Operators, Session
from croupier.service.problems import Problem
from croupier.service.register import Register
from croupier.service.web import json_of

CSRF = "croupier-csrf"
READING = ("GET", "HEAD")
MOST_WAITING = 8
"""A password takes a moment to check: one is at a time, and no more than so many wait for it."""
FREE, LONGEST_WAIT, MOST_NAMES = 5, 60.0, 1000
"""After so many wrong passwords in a row a name waits, each time twice as long, up to so many seconds."""


class Gate:
    """Tells who asks, and lets operators log in and out."""

    def __init__(self, operators: Operators, register: Register, url: str) -> None:
        self.operators, self.register = operators, register
        parts = urlsplit(url)
        self.origin, self.secure = f"{parts.scheme}://{parts.netloc}".lower(), parts.scheme == "https"
        # On one machine servers differ by their port, which cookies know nothing of.
        self.cookie = "__Host-croupier" if self.secure else f"croupier-{parts.port or 80}"
        self._guessing, self._waiting = asyncio.Lock(), 0
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def routes(self) -> list[Route]:
        return [
            Route("/session", self.show),
            Route("/session", self.enter, methods=["POST"]),
            Route("/session", self.leave, methods=["DELETE"]),
        ]

    async def reader(self, request: Request) -> str | None:
        """The operator who asks, if it is one; a token that is nobody's is refused."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme:
            known = await self._look(self.operators.of_token, token.strip()) if scheme.lower() == "bearer" else None
            if known is None:
                raise Problem("unauthorized")
            return str(known)
        session = await self.session(request)
        return None if session is None else session.operator

    async def operator(self, request: Request) -> str:
        """The operator who asks; anybody else is refused, and so is what another web site made a browser ask."""
        if "authorization" not in request.headers and request.method not in READING:
            session = await self.session(request)
            if session is not None:
                self._check_own(request, session)
        found = await self.reader(request)
        if found is None:
            raise Problem("unauthorized", "log in, or show a token")
        return found

    async def session(self, request: Request) -> Session | None:
        cookie = request.cookies.get(self.cookie, "")
        return await self._look(self.operators.session, cookie) if cookie else None

    def _check_own(self, request: Request, session: Session | None) -> None:
        """Refuse what does not come from a page of this server; without a session only where it says so itself."""
        said = request.headers.get("origin", "").lower()
        if said != self.origin and (said or session is not None):
            raise Problem("cross-site", f"operate from {self.origin}/")
        shown = request.headers.get(CSRF, "").encode()
        if session is not None and not hmac.compare_digest(shown, session.csrf.encode()):
            raise Problem("cross-site", f"{CSRF} is not this session's")

    async def _look(self, ask: Any, *about: str) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.operators.store.readers, ask, *about)

    async def show(self, request: Request) -> Response:
        """Who is logged in; nobody is no error."""
        session = await self.session(request)
        return self._said(session)

    async def enter(self, request: Request) -> Response:
        """Log in: `{"name": "...", "secret": "..."}`, a password or a text token."""
        self._check_own(request, None)
        body = await json_of(request)
        name, secret = body.get("name", ""), body.get("secret")
        if not isinstance(name, str) or not isinstance(secret, str):
            raise Problem("bad-request", "name and secret are texts")
        operator = await self._look(self.operators.of_token, secret)
        if operator is None and NAME.fullmatch(name):
            operator = await self._guess(name, secret)
        if operator is None:
            raise Problem("unauthorized", "the name or the password is wrong")
        loop = asyncio.get_running_loop()
        session = await loop.run_in_executor(self.operators.store.writer, self.operators.begin, operator)
        await self.register.note(operator, "entered")
        answer = self._said(session)
        answer.set_cookie(
            self.cookie,
            session.cookie,
            max_age=int(self.operators.lasts),
            path="/",
            secure=self.secure,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _guess(self, name: str, secret: str) -> str | None:
        """Whose password this is; guessing is slow, and slower for a name that was guessed at."""
        now = self.operators.clock()
        count, until = self._wrong.get(name, (0, 0.0))
        if now < until <= now + LONGEST_WAIT:
            raise Problem("too-busy", "too many wrong passwords for this name", retry_after=until - now)
        if self._waiting >= MOST_WAITING:
            raise Problem("too-busy", retry_after=1)
        self._waiting += 1
        try:
            async with self._guessing:
                found = await asyncio.to_thread(self.operators.of_password, name, secret)
        finally:
            self._waiting -= 1
        self._wrong.pop(name, None)
        if found is None:
            wait = 0.0 if count + 1 < FREE else min(LONGEST_WAIT, 2.0 ** (count + 1 - FREE))
            self._wrong[name] = count + 1, now + wait
            if len(self._wrong) > MOST_NAMES:
                self._wrong.popitem(last=False)
        return found

    async def leave(self, request: Request) -> Response:
        """Log out; who is not logged in has nothing to do."""
        session = await self.session(request)
        answer = Response(status_code=204)
        if session is not None:
            self._check_own(request, session)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self.operators.store.writer, self.operators.end, session)
            await self.register.note(session.operator, "left")
        answer.delete_cookie(self.cookie, path="/", secure=self.secure, httponly=True, samesite="strict")
        return answer

    def _said(self, session: Session | None) -> JSONResponse:
        body: dict[str, Any] = {"operator": None, "csrf": None, "expires": None}
        if session is not None:
            body = {"operator": session.operator, "csrf": session.csrf, "expires": int(session.expires)}
        return JSONResponse(body, headers={"cache-control": "no-store"})
