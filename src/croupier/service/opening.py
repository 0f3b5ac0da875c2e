"""Decryption in processes of its own: HPKE holds the interpreter lock, and a server has more to do."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from croupier.client.sealing import Unopenable, unseal

CHUNK = 2000
"""Ciphertexts that one process takes at a time."""

Job = tuple[str, bytes, bytes, bytes]
"""Suite, private key, context, ciphertext."""


def open_all(jobs: Sequence[Job]) -> list[bytes | None]:
    """The plaintexts; None where one does not open."""
    opened: list[bytes | None] = []
    for suite, private, info, ciphertext in jobs:
        try:
            opened.append(unseal(suite, private, ciphertext, info))
        except Unopenable:
            opened.append(None)
    return opened


class Opener:
    """A pool of `processes` processes that decrypt; none of them means: here and now."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor | None:
        # Spawned, not forked: a server has threads.
        if not self._processes:
            return None
        return ProcessPoolExecutor(self._processes, get_context("spawn"), _follow, (os.getpid(),))

    async def open(self, jobs: Sequence[Job]) -> list[bytes | None]:
        """Decrypt all of them, several processes at once."""
        if self._pool is None:
            return open_all(jobs)
        chunks = [jobs[i : i + CHUNK] for i in range(0, len(jobs), CHUNK)]
        try:
            opened = await self._gather(chunks)
        except BrokenProcessPool:
            # A process was killed from outside; opening changes nothing, so it is simply done again.
            self._pool = self._start()
            opened = await self._gather(chunks)
        return [plain for chunk in opened for plain in chunk]

    async def _gather(self, chunks: Sequence[Sequence[Job]]) -> list[list[bytes | None]]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(self._pool, open_all, chunk) for chunk in chunks))

    async def warm(self) -> None:
        """Start the processes before the first request needs them."""
        if self._pool is not None:
            await self._gather([[] for _ in range(self._processes)])

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _follow(parent: int) -> None:
    """Live exactly as long as the server: signals to the whole group are its business, and so is its death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
