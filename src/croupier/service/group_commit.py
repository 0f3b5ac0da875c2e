"""Group commit: requests that come within a few milliseconds are worked on together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from croupier.service.problems import Problem

T = TypeVar("T")
R = TypeVar("R")


class Groups(Generic[T, R]):
    """Collects single items into groups of at most `size`, waiting `seconds` for company, and works on each group.

    `at_once` groups are under way at a time. A result that is an exception is raised to who handed its item in.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], Awaitable[Sequence[R | Problem]]],
        *,
        size: int,
        seconds: float,
        queue: int,
        at_once: int = 1,
    ) -> None:
        self._work, self._size, self._seconds = work, size, seconds
        self._queue: asyncio.Queue[tuple[T, asyncio.Future[R]]] = asyncio.Queue(queue)
        self._room = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: T) -> R:
        """Hand in one item and wait for what becomes of it."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((item, future))
        except asyncio.QueueFull:
            raise Problem("too-busy", retry_after=1) from None
        return await future

    async def run(self) -> None:
        """Work until cancelled; what was handed in by then is still finished."""
        try:
            while True:
                group = [await self._queue.get()]
                try:
                    if self._queue.qsize() < self._size - 1:
                        await asyncio.sleep(self._seconds)
                    await self._room.acquire()
                except asyncio.CancelledError:
                    await self._finish([*group, *self._drain(self._queue.qsize())])
                    raise
                group += self._drain(self._size - 1)
                task = asyncio.create_task(self._run_group(group))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            if self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def _drain(self, most: int) -> list[tuple[T, asyncio.Future[R]]]:
        return [self._queue.get_nowait() for _ in range(min(most, self._queue.qsize()))]

    async def _run_group(self, group: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            await self._finish(group)
        finally:
            self._room.release()

    async def _finish(self, group: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._work([item for item, _ in group])
        except Exception as error:
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(group, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
