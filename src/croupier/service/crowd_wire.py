"""The wire of a simulated crowd, over aiohttp: a sixth of what a request costs with httpx2, and no more when many wait.

It exchanges requests for answers as `croupier.client.exchange` does, within its bounds and with the certificates that
it trusts. Proxies are left aside: to look for one costs more than the request.
"""

from __future__ import annotations

import asyncio
from typing import Self

import aiohttp
import httpx2

from croupier.client.device import Lost, Request, Response
from croupier.client.exchange import LONGEST_EXCHANGE, TIMEOUT, TOO_SLOW, Unfit, begun, extend, lost


class CrowdWire:
    """Connections that all users of one process share."""

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=httpx2.create_ssl_context()),
            timeout=aiohttp.ClientTimeout(total=LONGEST_EXCHANGE, sock_connect=TIMEOUT, sock_read=TIMEOUT),
            headers={"accept-encoding": "identity"},
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def exchange(self, request: Request) -> Response | Lost:
        """Send a request and read its answer."""
        try:
            async with self._http.request(
                request.method,
                request.url,
                data=request.content or None,
                headers=request.headers,
                allow_redirects=False,
            ) as answer:
                body = begun(answer.headers)
                async for part in answer.content.iter_any():
                    extend(body, part)
                return Response(answer.status, {k.lower(): v for k, v in answer.headers.items()}, bytes(body))
        except Unfit as error:
            return Lost(str(error))
        except aiohttp.ClientError as error:
            return lost(error)
        except TimeoutError:
            return TOO_SLOW

    async def wait(self, seconds: float) -> None:
        """Let some time pass before the next request."""
        await asyncio.sleep(seconds)
