"""What uploads an experiment takes, as one process knows it: how long they are, and how they begin."""

from __future__ import annotations

import asyncio

from croupier.service.front import Front
from croupier.service.problems import Problem


class Uploads:
    """Looks at an upload before it is read.

    What is known stays true: the longest upload of an experiment never gets shorter, and a configuration stays one of
    its own. So the store is asked only about what is not known yet, such as an offer that another worker opened.
    """

    def __init__(self, front: Front) -> None:
        self._front = front
        self._longest: dict[str, int] = {}
        self._configurations: set[tuple[str, bytes]] = set()

    async def most(self, name: str, announced: int | None) -> int:
        """How long an upload may be: as long as those of any offer, open or not, so that a late one is told so."""
        known = self._longest.get(name, 0)
        if announced is None or announced > known:
            longest = await asyncio.to_thread(self._front.store.longest_upload, name)
            if longest is None:
                raise Problem("unknown-experiment")
            if not longest:
                raise Problem("wrong-batch", "there is no such offer")
            known = self._longest[name] = longest
        return known

    async def check(self, name: str, begin: bytes) -> None:
        """Refuse an upload by its first bytes: another version, key or configuration than there is."""
        envelope, _ = self._front.job(name, begin)
        known = (name, envelope.configuration)
        if known not in self._configurations:
            if await asyncio.to_thread(self._front.store.configuration, *known) is None:
                raise Problem("unopenable-report", "no such configuration")
            self._configurations.add(known)
