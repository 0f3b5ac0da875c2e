"""The analyzer's part of batches in shares: it settles groups of reports, and adds its noise when a batch closes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from croupier.checks import CroupierError, InvalidParameter
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import SUITES, key_id
from croupier.messages.shares import part_lengths, scopes, share_info
from croupier.messages.signing import Statement, from_text
from croupier.noise import Source
from croupier.protocols import Decoded
from croupier.service.decryption import Job, Opener
from croupier.service.experiment_log import Live
from croupier.service.front_client import FrontClient
from croupier.service.groups import Group, Sealed, bitmap
from croupier.service.high_water import HighWater
from croupier.service.keys import Keys
from croupier.service.receipts import BadRelease, check_decoded, check_share
from croupier.service.store.analyzer import AnalyzerStore, Held, Opened
from croupier.service.waits import Waits

log = logging.getLogger("croupier")

T = TypeVar("T")


class Settling:
    """Settles reports in shares with the front, one group of an experiment at a time."""

    def __init__(
        self,
        store: AnalyzerStore,
        keys: Keys,
        link: FrontClient,
        opener: Opener,
        source: Source,
        mark: HighWater,
        waits: Waits,
    ) -> None:
        self.store, self.keys, self.link, self.opener = store, keys, link, opener
        self.source, self.mark, self.waits = source, mark, waits
        mark.check(store.answers)

    async def settle_all(self, live: Live) -> None:
        """Settle what waits at the front, group after group."""
        body = await self.link.group(live.name)
        while body is not None:
            group = Group.from_bytes(body)
            answer = await self._settle(live, group, hashlib.sha256(body).digest())
            body = await self.link.settle(live.name, group.number, answer)

    async def _settle(self, live: Live, group: Group, digest: bytes) -> bytes:
        """Which reports of a group count, on disk before it is said."""
        if any(number not in live.open for number in group.batches):
            # Operators have ended what the group was for: nobody counts.
            return bitmap([False] * len(group.reports))
        offer = live.state.turns[group.batches[0]]
        if tuple(batch.number for batch in offer.batches) != group.batches:
            raise CroupierError(f"group {group.number} is for batches {group.batches}, which no turn is")
        opened = await self._opened(live, offer, group)
        answer = await self._write(lambda: self.store.settle(live.name, group.number, digest, group.batches, opened))
        await self._write(lambda: self.mark.raise_to(self.store.answers))
        return answer

    async def _opened(self, live: Live, offer: Offer, group: Group) -> list[Opened | None]:
        """The group's reports as they open; None for those that do not, or hold no numbers."""
        jobs: list[Job] = []
        places: list[tuple[bytes, range] | None] = []
        for report in group.reports:
            prepared = self._jobs(live, offer, report)
            places.append(None if prepared is None else (prepared[0], range(len(jobs), len(jobs) + len(prepared[1]))))
            jobs += [] if prepared is None else prepared[1]
        plain = await self.opener.open(jobs)
        return [
            None if place is None else _read(offer, report, place[0], [plain[at] for at in place[1]])
            for report, place in zip(group.reports, places, strict=True)
        ]

    def _jobs(self, live: Live, offer: Offer, report: Sealed) -> tuple[bytes, list[Job]] | None:
        """What must be decrypted of a report, and the id of the key; None when it cannot be one of this experiment."""
        if report.configuration not in live.state.configurations:
            return None
        configuration = live.state.configuration(report.configuration)
        key = self.keys.by_id(key_id(configuration.keys["analyzer"].seal))
        lengths = part_lengths(offer, SUITES[configuration.suite].overhead)
        if key is None or sum(lengths) != len(report.sealed):
            return None
        jobs: list[Job] = []
        at = 0
        for part, (scope, length) in enumerate(zip(scopes(offer), lengths, strict=True)):
            info = share_info(live.name, report.configuration, scope, part, report.report)
            jobs.append((key.suite, key.private, info, report.sealed[at : at + length]))
            at += length
        return key.id, jobs

    async def decoded(self, live: Live, batch: Batch) -> tuple[Statement, Decoded, int]:
        """The front's answer, what the batch's total says, and how many reports are in it.

        The total is on disk, and this server's sum deleted, before anybody is told.
        """
        answer = await self.link.share(live.name, batch.number)
        body = check_share(answer, live.state.configuration(batch.pin), batch)
        mechanism, ring = batch.mechanism, batch.mechanism.ring
        assert ring is not None
        length = mechanism.outputs or 1
        theirs = ring.decode(from_text("share", body["share"]), length)

        def add(held: Held | None) -> bytes:
            if held is None or (held.reports, held.settled) != (body["reports"], from_text("set", body["set"])):
                raise BadRelease("the two servers do not hold the same reports")
            try:
                noise = mechanism.server_noise(self.source)
            finally:
                # From here on no image of the memory tells this noise.
                self.source.renew()
            return ring.encode(ring.add(theirs, held.numbers, noise))

        total = await self._write(lambda: self.store.total(live.name, batch.number, add))
        await self._write(lambda: self.mark.raise_to(self.store.answers))
        told = mechanism.told(ring.decode(total, length))
        check_decoded(batch, told, 0, body["reports"])
        return answer, Decoded(told, 0), int(body["reports"])

    async def forget(self, live: Live, batch: int) -> None:
        """A batch is over, and in the log if it was released."""
        await self._write(lambda: self.store.forget_batch(live.name, batch))

    async def forget_others(self, live: Live) -> None:
        """What is left of batches that are over, as after a crash."""
        await self._write(lambda: self.store.forget_others(live.name, set(live.open)))

    async def forget_names(self, key: bytes) -> None:
        """A sealing key was destroyed: nothing under it can come again."""
        await self._write(lambda: self.store.forget_names(key))

    async def _write(self, work: Callable[[], T]) -> T:
        with self.waits.on("store"):
            return await asyncio.get_running_loop().run_in_executor(self.store.writer, work)


def _read(offer: Offer, report: Sealed, key: bytes, plain: list[bytes | None]) -> Opened | None:
    parts: list[Any] = []
    for batch, share in zip(offer.batches, plain, strict=False):
        ring = batch.mechanism.ring
        if share is None or ring is None:
            return None
        try:
            parts.append((ring, ring.decode(share, batch.mechanism.outputs or 1)))
        except InvalidParameter:
            return None
    return Opened(report.report, key, tuple(parts))
