"""What the front does beside its routes: turns and uploads in groups, closing of full batches, expiry.

Groups are worked on in processes: the one that has the routes is left to answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from starlette.applications import Starlette
from starlette.requests import Request

from croupier.noise import Source, secure
from croupier.service import front_worker, meters
from croupier.service.connections import most_held
from croupier.service.front import Assignment
from croupier.service.group_commit import Groups
from croupier.service.meters import Meters
from croupier.service.pool import Pool
from croupier.service.problems import Problem, kind_of
from croupier.service.settings import FrontSettings
from croupier.service.uploads import Uploads
from croupier.service.waits import LATE_SECONDS, Waits, watch
from croupier.service.web import Room, check_bearer, known_bearer

log = logging.getLogger("croupier")

SWEEP_SECONDS = 1.0
MOST_HELD = 2**26
"""Uploads of so many bytes together are read and wait; who comes then is told to try again."""
CLOSE_SECONDS, LONGEST_CLOSE = 60.0, 1200.0
"""A batch that takes longer to close is told of; one that takes longer still is begun again."""
WORK_SECONDS = 60.0
"""A process that has not finished a group by then stands still: for other writers it waits half as long."""

T = TypeVar("T")
R = TypeVar("R")


class FrontWork:
    """The front, its processes, and the groups that they work on."""

    def __init__(
        self, settings: FrontSettings, *, clock: Callable[[], float] = time.time, source: Source | None = None
    ) -> None:
        self.settings = settings
        self.known_bearer = known_bearer(settings.analyzer)
        self.front = front_worker.front_of(settings, clock, source or secure())
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
