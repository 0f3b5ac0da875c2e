"""Decryption, many ciphertexts at a time, in processes of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from croupier.messages.sealing import Unopenable, unseal
from croupier.service.pool import Pool
from croupier.service.waits import Waits

CHUNK = 2000
"""Ciphertexts that one process takes at a time."""

CHUNK_SECONDS = 20.0
"""A process that has not finished them by then stands still: it takes well below one second."""

T = TypeVar("T")
R = TypeVar("R")

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
    """Decrypts in so many processes at once, and does what else goes with it; none of them means: here and now."""

    def __init__(self, processes: int, waits: Waits) -> None:
        self.pool = Pool(processes, CHUNK_SECONDS, partial(waits.on, "decryption")) if processes else None

    async def open(self, jobs: Sequence[Job]) -> list[bytes | None]:
        """Decrypt all of them."""
        if self.pool is None:
            return open_all(jobs)
        chunks = [jobs[i : i + CHUNK] for i in range(0, len(jobs), CHUNK)]
        opened = await asyncio.gather(*(self.pool.run(open_all, chunk) for chunk in chunks))
        return [plain for chunk in opened for plain in chunk]

    async def run(self, work: Callable[[T], R], given: T) -> R:
        """Do other work where decryption is done."""
        return work(given) if self.pool is None else await self.pool.run(work, given)

    async def warm(self) -> None:
        """Start the processes before the first batch needs them."""
        if self.pool is not None:
            await self.pool.warm()

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()
