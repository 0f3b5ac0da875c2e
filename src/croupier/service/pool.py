"""Processes that work for a server: Python runs one thread at a time in each, and HPKE waits for nobody."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from multiprocessing import get_context
from typing import Any, TypeVar

from croupier.checks import CroupierError
from croupier.service import logs

log = logging.getLogger("croupier")

R = TypeVar("R")
Waiting = Callable[[], AbstractContextManager[None]]

ATTEMPTS = 3
COLLECT = 10_000, 10, 10
"""Garbage is looked for after so many new objects: a few for each of some hundred requests at a time."""


class Stuck(CroupierError):
    """Work that no process finishes in its time."""


class Pool:
    """`count` processes, each made ready by `prepare(*given)`; one that is killed, or stands still, is replaced.

    A piece of work has `seconds`, and `waiting` around it. It is done again when a process dies or stands still over
    it, so it must be such that twice is as good as once.
    """

    def __init__(
        self, count: int, seconds: float, waiting: Waiting, prepare: Callable[..., None] | None = None, *given: Any
    ) -> None:
        self.count, self.seconds, self._waiting = count, seconds, waiting
        self._prepare, self._given = prepare, given
        self._executor = self._start()
        # One more than there are processes, so that none waits for its next piece. The time of others does not run yet.
        self._room = asyncio.Semaphore(count + 1)

    def _start(self) -> ProcessPoolExecutor:
        # Spawned, not forked: a server has threads.
        begin = (os.getpid(), self._prepare, self._given)
        return ProcessPoolExecutor(self.count, get_context("spawn"), _begin, begin)

    async def run(self, work: Callable[..., R], *given: Any) -> R:
        """Let one of the processes do this."""
        async with self._room:
            with self._waiting():
                for _ in range(ATTEMPTS):
                    executor = self._executor
                    try:
                        return await self._within(executor, work, *given)
                    except (BrokenProcessPool, TimeoutError) as error:
                        self._replace(executor, type(error).__name__)
        raise Stuck(f"no process has finished its work in {self.seconds:g} seconds, {ATTEMPTS} times over")

    async def _within(self, executor: ProcessPoolExecutor, work: Callable[..., R], *given: Any) -> R:
        async with asyncio.timeout(self.seconds):
            return await asyncio.get_running_loop().run_in_executor(executor, work, *given)

    def _replace(self, executor: ProcessPoolExecutor, why: str) -> None:
        """Processes of one executor live and die together; of many who wait for them the first one replaces them."""
        if self._executor is executor:
            log.warning("processes replaced", extra={"fields": {"why": why}})
            self._executor = self._start()
            _end(executor)

    async def warm(self) -> None:
        """Start the processes before the first request needs them."""
        await asyncio.gather(*(self.run(_nothing) for _ in range(self.count)))

    def close(self) -> None:
        """End them; one that does not finish in its time is not waited for."""
        executor = self._executor
        patience = threading.Timer(self.seconds, _kill, (executor,))
        patience.daemon = True
        patience.start()
        executor.shutdown(cancel_futures=True)
        patience.cancel()


def _end(executor: ProcessPoolExecutor) -> None:
    """What is left of an executor that has lost a process: it ends the others by a signal that they do not heed."""
    _kill(executor)
    executor.shutdown(wait=False, cancel_futures=True)


def _kill(executor: ProcessPoolExecutor) -> None:
    for process in list((executor._processes or {}).values()):
        process.kill()


def _nothing() -> None:
    # Long enough that another process takes the next one.
    time.sleep(0.05)


def _begin(parent: int, prepare: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    """Live exactly as long as the server: signals to the whole group are its business, and so is its death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    logs.set_up()
    logs.catch_all()
    if prepare is not None:
        prepare(*given)
    spare_collector()


def spare_collector() -> None:
    """What is here now stays: the garbage collector need not look at it again and again while requests come and go."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
