"""One request and its answer over httpx2: bounded in size and in total time, whatever the server does."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from croupier.checks import CroupierError
from croupier.client.device import Lost, Request, Response
from croupier.messages.signing import LONGEST

if TYPE_CHECKING:
    import httpx2

TIMEOUT = 30.0
"""No single wait for the network is longer, in seconds."""

LONGEST_EXCHANGE = 60.0
"""Nor is a request with its answer, in seconds."""

LONGEST_ANSWER = 4 * LONGEST + 2**16
"""No answer has more bytes: the largest is a statement, whose characters take at most four, and its signatures."""

LONGEST_STATE = 2**26
"""Nor has one that says how an experiment stands, to who does not ask for a turn."""

UNCOMPRESSED = {"accept-encoding": "identity"}
"""What comes compressed may be of any size unpacked."""


class Unfit(CroupierError):
    """An answer that is not read to its end."""


class Exchange:
    """An httpx2 client as devices use it; one that was given stays its owner's."""

    def __init__(self, http: httpx2.Client | None = None) -> None:
        self._http, self._own = http, http is None

    def exchange(self, request: Request) -> Response | Lost:
        """Send a request and read its answer.

        In a thread of its own, because httpx2 knows no limit on the whole: neither on a head that comes byte by byte
        nor on looking up a name.
        """
        httpx2 = needed()
        if self._http is None:
            self._http = httpx2.Client(timeout=TIMEOUT)
        response: Future[Response] = Future()
        threading.Thread(target=_settle, args=(response, self._http, request), daemon=True).start()
        try:
            return response.result(LONGEST_EXCHANGE)
        except TimeoutError:
            # Without its connection the thread ends.
            self.close()
            return TOO_SLOW
        except Unfit as error:
            return Lost(str(error))
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            return lost(error)

    def wait(self, seconds: float) -> None:
        """Let some time pass before the next request."""
        time.sleep(seconds)

    def close(self) -> None:
        if self._own and self._http is not None:
            self._http.close()
            self._http = None


class AsyncExchange:
    """The same within an event loop."""

    def __init__(self, http: httpx2.AsyncClient | None = None) -> None:
        self._http, self._own = http, http is None

    async def exchange(self, request: Request) -> Response | Lost:
        """Send a request and read its answer."""
        httpx2 = needed()
        if self._http is None:
            self._http = httpx2.AsyncClient(timeout=TIMEOUT, limits=httpx2.Limits(max_connections=None))
        try:
            async with asyncio.timeout(LONGEST_EXCHANGE), self._http.stream(**_options(request)) as answer:
                body = begun(answer.headers)
                async for part in answer.aiter_bytes():
                    extend(body, part)
                return _response(answer, body)
        except TimeoutError:
            return TOO_SLOW
        except Unfit as error:
            return Lost(str(error))
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            return lost(error)

    async def wait(self, seconds: float) -> None:
        """Let some time pass before the next request."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        if self._own and self._http is not None:
            await self._http.aclose()
            self._http = None


TOO_SLOW = Lost(f"the answer took longer than {LONGEST_EXCHANGE:g} s")


def needed() -> Any:
    """The module httpx2, or one line that says how to get it."""
    try:
        import httpx2
    except ImportError:
        raise CroupierError("the client needs httpx2: install croupier[client]") from None
    return httpx2


def lost(error: Exception) -> Lost:
    """Why there is no answer."""
    return Lost(f"no answer ({str(error) or type(error).__name__})")


def begun(headers: Any, most: int = LONGEST_ANSWER) -> bytearray:
    """An empty body; refuses an answer that says of itself that it is compressed or too long."""
    if (coding := headers.get("content-encoding", "identity").lower()) != "identity":
        raise Unfit(f"the answer is compressed ({coding[:40]}), which was not asked for")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 10 or int(length) > most:
        raise Unfit(f"the answer has {length[:20]} bytes, and {most} is the most")
    return bytearray()


def extend(body: bytearray, part: bytes, most: int = LONGEST_ANSWER) -> None:
    """Add what came of an answer, until it is too long."""
    if len(body) + len(part) > most:
        raise Unfit(f"the answer has more than {most} bytes")
    body += part


def read(http: Any, most: int = LONGEST_ANSWER, **options: Any) -> Response:
    """Send a request by a client of httpx2, or by the module itself, and read its answer while it is not too long."""
    with http.stream(**options) as answer:
        body = begun(answer.headers, most)
        for part in answer.iter_bytes():
            extend(body, part, most)
    return _response(answer, body)


def _settle(response: Future[Response], http: httpx2.Client, request: Request) -> None:
    try:
        response.set_result(read(http, **_options(request)))
    except BaseException as error:
        response.set_exception(error)


def _options(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.url,
        "content": request.content or None,
        "headers": UNCOMPRESSED | request.headers,
        "follow_redirects": False,
    }


def _response(answer: httpx2.Response, body: bytearray) -> Response:
    return Response(answer.status_code, {k.lower(): v for k, v in answer.headers.items()}, bytes(body))
