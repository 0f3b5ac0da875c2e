"""The analyzer's way to the front: one method a request, with retries, and problems as they were named there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx2

from croupier.checks import CroupierError, integer
from croupier.client.exchange import LONGEST_ANSWER, UNCOMPRESSED, Unfit, begun, extend
from croupier.client.steps import URN, Response, Unusable
from croupier.messages.signing import Statement, to_text
from croupier.service.groups import LONGEST_GROUP
from croupier.service.openapi import MOST_BATCHES
from croupier.service.store.outbox import PART_BYTES
from croupier.service.waits import Waits

QUICK, SLOW = 5.0, 60.0
"""Seconds for a whole call: one that reads or writes a little, and one that makes the front compute or send much."""
LONGEST_STATE = 16


class FrontAway(CroupierError):
    """The front does not answer."""


class BadAnswer(CroupierError):
    """The front answers more than any honest one has to say."""


class FrontRefused(CroupierError):
    """The front answered with a problem."""

    def __init__(self, problem: str, detail: str) -> None:
        super().__init__(f"the front refused: {problem}{': ' + detail if detail else ''}")
        self.problem = problem


class FrontClient:
    """A front's address and the secret that it knows this analyzer by."""

    def __init__(self, url: str, bearer: str, waits: Waits, http: httpx2.AsyncClient | None = None) -> None:
        self.url = url.rstrip("/")
        self._waits = waits
        self._http = http or httpx2.AsyncClient(timeout=SLOW)
        self._headers = {"authorization": f"Bearer {bearer}"} | UNCOMPRESSED

    async def close(self) -> None:
        await self._http.aclose()

    async def keys(self) -> dict[str, Any]:
        return await self._json("GET", "/keys")

    async def register(
        self, name: str, statement: Statement, proof_key: bytes | None, void: Sequence[bytes] = ()
    ) -> Statement:
        """Have a configuration signed; where reports come with proofs the front learns the key to check them with.

        Under the configurations `void`, by hash, it is to take no report any more.
        """
        body: dict[str, Any] = statement.to_dict() | {"void": [to_text(digest) for digest in void]}
        body |= {} if proof_key is None else {"proof_key": to_text(proof_key)}
        return Statement.from_dict("configuration", await self._json("PUT", f"/experiments/{quote(name)}", body, SLOW))

    async def open_offer(
        self,
        name: str,
        number: int,
        statement: Statement,
        deadline: float | None,
        together: Sequence[int] = (),
        odds: float | None = None,
        rule: str | None = None,
    ) -> None:
        """Open an offer, of which the front deals turns once it knows all those that are open together.

        `odds` are for the front alone, where the offer itself tells none; `rule` is what devices choose by, if they do.
        """
        body: dict[str, Any] = {"offer": statement.to_dict(), "deadline": deadline}
        body |= {"together": list(together), "odds": odds} | ({} if rule is None else {"rule": rule})
        await self._json("PUT", f"/experiments/{quote(name)}/offers/{number}", body, SLOW)

    async def head(self, name: str) -> Statement | None:
        """The newest head that was countersigned, if any was."""
        try:
            return Statement.from_dict("head", await self._json("GET", f"/experiments/{quote(name)}/head"))
        except FrontRefused as refusal:
            if refusal.problem == "unknown-experiment":
                return None
            raise

    async def witness(self, name: str, head: Statement, lines: Sequence[bytes]) -> Statement:
        """Have the head of the log countersigned: it extends the last one by lines of these digests."""
        body = {"head": head.to_dict(), "lines": [to_text(line) for line in lines]}
        return Statement.from_dict("head", await self._json("PUT", f"/experiments/{quote(name)}/head", body))

    async def standings(self, name: str, since: int, newest: int) -> dict[str, Any]:
        """The public counts, with all batches from a number on: the front shows so many at a time.

        It may know a page more than this log, whose `newest` batch is known; one that shows more never ends.
        """
        whole = page = await self._page(name, since)
        batches = page["batches"]
        while len(page["batches"]) >= MOST_BATCHES:
            page = await self._page(name, batches[-1]["batch"] + 1)
            batches += page["batches"]
            if len(batches) > newest - since + 1 + MOST_BATCHES:
                raise BadAnswer(f"the front at {self.url} shows more than {len(batches) - 1} batches from {since} on")
        return whole

    async def _page(self, name: str, since: int) -> dict[str, Any]:
        page = await self._json("GET", f"/experiments/{quote(name)}/batches?since={since}")
        batches = []
        for shown in page["batches"]:
            batches.append(_standing(shown))
            if batches[-1]["batch"] < since:
                raise BadAnswer(f"the front at {self.url} shows batch {batches[-1]['batch']} where {since} is due")
            since = batches[-1]["batch"] + 1
        return page | {"batches": batches}

    async def group(self, name: str) -> bytes | None:
        """The next reports in shares to be settled."""
        return _body(await self._send("GET", f"/experiments/{quote(name)}/groups", within=SLOW, most=LONGEST_GROUP))

    async def settle(self, name: str, group: int, answer: bytes) -> bytes | None:
        """Answer a group; the next one, if there is one."""
        return _body(
            await self._send("POST", f"/experiments/{quote(name)}/groups/{group}", answer, SLOW, LONGEST_GROUP)
        )

    async def share(self, name: str, batch: int) -> Statement:
        """The front's answer for a batch in shares."""
        return Statement.from_dict("release", await self._json("GET", f"{_batch(name, batch)}/share"))

    async def receipt(self, name: str, batch: int) -> Statement:
        return Statement.from_dict("release", await self._json("GET", f"{_batch(name, batch)}/receipt"))

    async def messages(self, name: str, batch: int, part: int) -> bytes:
        return (await self._send("GET", f"{_batch(name, batch)}/messages/{part}", within=SLOW, most=PART_BYTES)).content

    async def acknowledge(self, name: str, batch: int) -> None:
        await self._send("DELETE", f"{_batch(name, batch)}/messages")

    async def cancel(self, name: str, batch: int) -> None:
        await self._send("DELETE", _batch(name, batch))

    async def close_soon(self, name: str, batch: int) -> None:
        """A batch is not wanted any larger: it closes with what it has."""
        await self._send("POST", f"{_batch(name, batch)}/close")

    async def close_blocks(self, name: str) -> None:
        """Nothing more is wanted: what is open closes with what it has."""
        await self._send("POST", f"/experiments/{quote(name)}/close")

    async def finish(self, name: str) -> None:
        await self._send("POST", f"/experiments/{quote(name)}/finish")

    async def pause(self, name: str, *, paused: bool) -> None:
        """Have nobody dealt a turn for now, or again."""
        await self._send("POST", f"/experiments/{quote(name)}/{'pause' if paused else 'resume'}")

    async def wait_ready(self, seconds: float) -> None:
        """Wait until the front answers."""
        for _ in range(max(1, int(seconds / 0.1))):
            try:
                await self.keys()
                return
            except FrontAway:
                await asyncio.sleep(0.1)
        raise FrontAway(f"the front at {self.url} does not answer")

    async def _json(
        self, method: str, path: str, body: dict[str, Any] | None = None, within: float = QUICK
    ) -> dict[str, Any]:
        answer = await self._send(method, path, body, within)
        try:
            return answer.json()
        except Unusable:
            raise FrontRefused("no-json", f"{method} {path}") from None

    async def _send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | bytes | None = None,
        within: float = QUICK,
        most: int = LONGEST_ANSWER,
    ) -> Response:
        sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
        try:
            with self._waits.on("front"):
                async with asyncio.timeout(within):
                    answer = await self._read(method, path, most, sent)
        except TimeoutError:
            raise FrontAway(f"the front at {self.url} does not answer within {within:g} seconds") from None
        except Unfit as error:
            raise BadAnswer(f"the front at {self.url}: {error}") from None
        except httpx2.TransportError as error:
            raise FrontAway(f"the front at {self.url} does not answer ({_reason(error)})") from None
        if answer.status >= 500 or answer.status == 429:
            raise FrontAway(f"the front at {self.url} answers {answer.status}")
        if answer.status >= 400:
            try:
                problem = json.loads(answer.content)
                token, detail = str(problem["type"]).removeprefix(URN), str(problem.get("detail", ""))
            except (ValueError, KeyError, TypeError):
                token, detail = f"http-{answer.status}", ""
            raise FrontRefused(token, detail)
        return answer

    async def _read(self, method: str, path: str, most: int, sent: dict[str, Any]) -> Response:
        """An answer, read no further than it may be long."""
        async with self._http.stream(method, self.url + path, headers=self._headers, **sent) as answer:
            body = begun(answer.headers, most)
            async for part in answer.aiter_bytes():
                extend(body, part, most)
        return Response(answer.status_code, dict(answer.headers), bytes(body))


def _standing(shown: dict[str, Any]) -> dict[str, Any]:
    """What is read of a batch's standing, and no more of it is kept."""
    counts: dict[str, Any] = {key: integer(key, shown[key], 0, 2**53) for key in ("batch", "users", "received")}
    turns = shown.get("turns")
    counts["turns"] = None if turns is None else integer("turns", turns, 0, 2**53)
    return counts | {"state": str(shown["state"])[:LONGEST_STATE], "late": bool(shown.get("late"))}


def _reason(error: httpx2.TransportError) -> str:
    """A refused connection and a certificate that nobody here trusts are both a `ConnectError`."""
    if "CERTIFICATE" in str(error):
        return "its certificate is not trusted here: SSL_CERT_FILE may name its issuer's"
    return type(error).__name__


def _body(answer: Response) -> bytes | None:
    return None if answer.status == 204 else answer.content


def _batch(name: str, batch: int) -> str:
    return f"/experiments/{quote(name)}/batches/{batch}"
