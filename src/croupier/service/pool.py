"""Processes that work for a server: Python runs one thread at a time in each, and HPKE waits for nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

from croupier.service import logs

R = TypeVar("R")


class Pool:
    """`count` processes, each made ready by `prepare(*given)`; one that is killed is replaced.

    Work is done again when a process dies over it, so it must be such that twice is as good as once.
    """

    def __init__(self, count: int, prepare: Callable[..., None] | None = None, *given: Any) -> None:
        self.count, self._prepare, self._given = count, prepare, given
        self._executor = self._start()

    def _start(self) -> ProcessPoolExecutor:
        # Spawned, not forked: a server has threads.
        begin = (os.getpid(), self._prepare, self._given)
        return ProcessPoolExecutor(self.count, get_context("spawn"), _begin, begin)

    async def run(self, work: Callable[..., R], *given: Any) -> R:
        """Let one of the processes do this."""
        loop, executor = asyncio.get_running_loop(), self._executor
        try:
            return await loop.run_in_executor(executor, work, *given)
        except BrokenProcessPool:
            if self._executor is executor:
                self._executor = self._start()
                _end(executor)
            return await loop.run_in_executor(self._executor, work, *given)

    async def warm(self) -> None:
        """Start the processes before the first request needs them."""
        await asyncio.gather(*(self.run(_nothing) for _ in range(self.count)))

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)


def _end(executor: ProcessPoolExecutor) -> None:
    """What is left of an executor that has lost a process: it ends the others by a signal that they do not heed."""
    for process in list((executor._processes or {}).values()):
        process.kill()
    executor.shutdown(wait=False, cancel_futures=True)


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
