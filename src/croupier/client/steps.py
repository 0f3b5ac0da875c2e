"""One conversation with a server, step by step: requests and pauses that a driver carries out, and their answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from croupier.messages.no_turn import NoTurn

URN = "urn:croupier:error:"
ATTEMPTS = 8
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
PASSING = (408, 429)
"""Refusals that say nothing about the request itself: try again, as after any 5xx."""


class Refused(NoTurn):
    """A server's refusal: `problem` is its token, as `nothing-open`; `retry_after` is in seconds where it is given."""

    def __init__(self, problem: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(f"{problem}: {detail}" if detail else problem)
        self.problem, self.detail, self.retry_after = problem, detail, retry_after


class Unreachable(NoTurn):
    """No answer, after all attempts."""


class Unusable(NoTurn):
    """An answer that no device can use: it is malformed, or asks for what cannot be computed."""


class TimedOut(NoTurn):
    """No turn within the time that the app gave."""


@dataclass(frozen=True)
class Request:
    """One HTTP request."""

    method: str
    url: str
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    def taken(self, wire: Any) -> Any:
        """Have a wire carry this step out; the answer, or what is to be awaited for it."""
        return wire.exchange(self)


@dataclass(frozen=True)
class Response:
    """Its answer."""

    status: int
    headers: dict[str, str]
    content: bytes

    def settles(self, taken: Callable[[Response], bool] | None) -> bool:
        """Whether this ends a request well; a refusal that no waiting mends is raised. See `fetch`."""
        if 200 <= self.status < 300 and (taken is None or taken(self)):
            return True
        problem, named = _problem(self)
        if 400 <= self.status < 500 and self.status not in PASSING and (named or taken is None):
            raise problem
        return False

    @property
    def trouble(self) -> tuple[str, float]:
        """Why it settles nothing, and how many seconds it asks to wait."""
        problem, _ = _problem(self)
        return str(problem), problem.retry_after or 0.0

    def json(self) -> dict[str, Any]:
        """The JSON object in it, or a refusal."""
        try:
            body = json.loads(self.content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise Unusable(f"the answer {self.content[:60]!r} is no JSON object")
        return body


@dataclass(frozen=True)
class Lost:
    """No answer that could be used, and why."""

    why: str

    def settles(self, _: Callable[[Response], bool] | None) -> bool:
        return False

    @property
    def trouble(self) -> tuple[str, float]:
        return self.why, 0.0


@dataclass(frozen=True)
class Pause:
    """Wait so many seconds."""

    seconds: float

    def taken(self, wire: Any) -> Any:
        return wire.wait(self.seconds)


Steps = Generator["Request | Pause", "Response | Lost | None", Any]


def fetch(request: Request, taken: Callable[[Response], bool] | None = None, attempts: int | None = None) -> Steps:
    """Send until there is an answer that says something; a problem document becomes `Refused`.

    With `taken`, which knows an acceptance, nothing but the front's own words end it: a network's page settles
    nothing.
    """
    pause, last = FIRST_PAUSE, "no answer"
    for left in reversed(range(attempts or ATTEMPTS)):
        answer = yield request
        if answer is not None:
            if answer.settles(taken):
                return answer
            last, asked = answer.trouble
            pause = max(pause, asked)
        if left:
            yield Pause(min(pause, LONGEST_PAUSE))
        pause *= 2
    raise Unreachable(f"{request.method} {request.url}: {last}")


def accepted(answer: Response) -> bool:
    """Whether it is the front that says so, and not a page that some network shows first."""
    try:
        return json.loads(answer.content)["status"] in ("accepted", "repeated")
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _problem(answer: Response) -> tuple[Refused, bool]:
    """The refusal, and whether it has one of our names."""
    body: Any = None
    try:
        body = json.loads(answer.content)
        kind, detail = str(body["type"]), str(body.get("detail") or body.get("title") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        kind, detail = f"http-{answer.status}", ""
    return Refused(kind.removeprefix(URN), detail, _wait(answer, body)), kind.startswith(URN)


def _wait(answer: Response, body: Any) -> float | None:
    """How long to wait, as the problem document says, or else its header, which knows whole seconds only."""
    said = body.get("retry_after") if isinstance(body, dict) else None
    try:
        seconds = float(answer.headers.get("retry-after", "") if said is None else said)
    except (ValueError, TypeError, OverflowError):
        return None
    return seconds if 0 <= seconds < math.inf else None
