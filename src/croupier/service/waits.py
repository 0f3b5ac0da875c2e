"""What a server waits for, and since when: the store, the other server, a process that decrypts.

Whoever is asked for an answer may give none: a stopped process, a frozen disk. Such a wait ends late or never, so it is
seen while it lasts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count

log = logging.getLogger("croupier")

LATE_SECONDS = 3.0
"""What takes longer than this is told to whoever looks after the server."""

LOOK_SECONDS = 1.0


class Waits:
    """Everything that is waited for now, by a word for it, and after how many seconds each is late."""

    def __init__(self, **late: float) -> None:
        self._late = late
        self._since: dict[str, dict[int, float]] = {kind: {} for kind in late}
        self._numbers = count()

    @contextmanager
    def on(self, kind: str) -> Iterator[None]:
        """Wait for something of this kind as long as the block lasts."""
        number = next(self._numbers)
        self._since[kind][number] = time.monotonic()
        try:
            yield
        finally:
            del self._since[kind][number]

    @property
    def ages(self) -> dict[str, float]:
        """For how many seconds the oldest of each kind has been waited for; 0 where nothing is late.

        These are public, and a wait that is not late is that of somebody's report: it would tell when that one came.
        """
        now = time.monotonic()
        oldest = {kind: now - min(begun.values()) if begun else 0.0 for kind, begun in self._since.items()}
        return {kind: age if age > self._late[kind] else 0.0 for kind, age in oldest.items()}

    @property
    def trouble(self) -> str:
        """What takes too long, in words."""
        late = {kind: age for kind, age in self.ages.items() if age}
        return "; ".join(f"{kind}: no answer for {age:.0f} seconds" for kind, age in late.items())


async def watch(trouble: Callable[[], Awaitable[str]]) -> None:
    """Put into the log when a server is in trouble and when it is not any more, without being asked."""
    known = ""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        reason = await trouble()
        if bool(reason) != bool(known):
            what = {"what": reason} if reason else {"from": known}
            tell = log.warning if reason else log.info
            tell("not ready" if reason else "ready again", extra={"fields": what})
        known = reason
