"""The analyzer's part of batches in shares: it settles groups of reports, and adds its noise when a batch closes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

from croupier.checks import CroupierError, InvalidParameter
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import key_id
from croupier.messages.shares import form, scopes, share_info
from croupier.messages.signing import Statement, from_text
from croupier.noise import Source
from croupier.protocols import Decoded
from croupier.service.decryption import Job, Opener
from croupier.service.experiment_log import Live
from croupier.service.front_client import FrontClient
from croupier.service.groups import Answer, Group, Reason, Sealed
from croupier.service.high_water import HighWater
from croupier.service.keys import Keys, SealingKey
from croupier.service.receipts import BadRelease, check_decoded, check_share
from croupier.service.share_proofs import Proofs, checked
from croupier.service.store.analyzer import AnalyzerStore, Held, Opened
from croupier.service.waits import Waits

log = logging.getLogger("croupier")

MOST_GROUPS = 256
"""So many groups are settled before anything else is looked at, such as which batches are full."""

T = TypeVar("T")

Opening = tuple[SealingKey, tuple[int, ...]]
"""What opens shares, and the length of each part."""


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
        mark.check(store)

    async def settle_all(self, live: Live) -> None:
        """Settle what waits at the front, group after group; so many at a time, if a front has more without end."""
        body = await self.link.group(live.name)
        for _ in range(MOST_GROUPS):
            if body is None:
                return
            group = Group.from_bytes(body)
            answer = await self._settle(live, group, hashlib.sha256(body).digest())
            body = await self.link.settle(live.name, group.number, answer.to_bytes())
            live.settled += 1

    async def _settle(self, live: Live, group: Group, digest: bytes) -> Answer:
        """What becomes of a group's reports, on disk before it is said.

        What is shown of proofs is not stored: asked again, the same bytes are computed again.
        """
        if any(number not in live.open for number in group.batches):
            # Operators have ended what the group was for: nobody counts.
            return Answer((Reason.ENDED,) * len(group.reports), (b"",) * len(group.reports))
        offer = live.state.turns[group.batches[0]]
        if tuple(batch.number for batch in offer.batches) != group.batches:
            raise CroupierError(f"group {group.number} is for batches {group.batches}, which no turn is")
        found = await self._found(live, offer, group)
        reasons = await self._write(lambda: self.store.settle(live.name, group.number, digest, group.batches, found))
        await self._write(lambda: self.mark.raise_to(self.store.answers))
        shown = (
            # What counts has something to show; if a key is gone meanwhile, what is shown proves nothing.
            b"" if reason else (one and one.verifier) or bytes(len(report.verifier))
            for report, one, reason in zip(group.reports, found, reasons, strict=True)
        )
        return Answer(reasons, tuple(shown))

    async def _found(self, live: Live, offer: Offer, group: Group) -> list[Opened | None]:
        """Of each report what was found in it; None for those that do not open."""
        openings = {digest: self._opening(live, offer, digest) for digest in {r.configuration for r in group.reports}}
        scope = scopes(offer)
        todo = [_jobs(live.name, scope, report, openings[report.configuration]) for report in group.reports]
        places = [place for place, one in enumerate(todo) if one is not None]
        ready = [one for one in todo if one is not None]
        some = [group.reports[place] for place in places]
        reading = self._proved if live.plan.validity == "prio3" else self._plain
        found: list[Opened | None] = [None] * len(todo)
        for place, one in zip(places, await reading(live, offer, some, ready), strict=True):
            found[place] = one
        return found

    def _opening(self, live: Live, offer: Offer, digest: bytes) -> Opening | None:
        """The key that reports under a configuration are sealed to, and how long their shares are; None where they
        cannot be reports of this experiment, or their proofs cannot be checked.
        """
        if digest not in live.state.configurations:
            return None
        configuration = live.state.configuration(digest)
        validity, key = configuration.validity, self.keys.by_id(key_id(configuration.keys["analyzer"].seal))
        if key is None or (validity.proved and not validity.is_checked_with(self.keys.proof_key(live.name))):
            return None
        return key, form(offer, configuration.suite, proved=validity.proved).parts

    async def _proved(
        self, live: Live, offer: Offer, reports: Sequence[Sealed], ready: Sequence[tuple[bytes, list[Job]]]
    ) -> list[Opened | None]:
        mechanism = offer.batches[0].mechanism
        ring, prio3 = mechanism.ring, mechanism.prio3
        assert ring is not None
        assert prio3 is not None
        names = [report.report for report in reports]
        jobs = [job for _, jobs in ready for job in jobs]
        work = Proofs(prio3, self.keys.proof_key(live.name), jobs, names, [report.verifier for report in reports])
        read: list[Opened | None] = []
        for name, (key, _), found in zip(names, ready, await self.opener.run(checked, work), strict=True):
            if found is None:
                read.append(None)
            elif found.reason is not None:
                read.append(Opened(name, key, reason=found.reason))
            else:
                part = ring, ring.decode(found.share, prio3.circuit.outputs)
                read.append(Opened(name, key, (part,), verifier=found.verifier))
        return read

    async def _plain(
        self, live: Live, offer: Offer, reports: Sequence[Sealed], ready: Sequence[tuple[bytes, list[Job]]]
    ) -> list[Opened | None]:
        plain = iter(await self.opener.open([job for _, jobs in ready for job in jobs]))
        return [
            _read(offer, report.report, key, list(islice(plain, len(jobs))))
            for report, (key, jobs) in zip(reports, ready, strict=True)
        ]

    async def decoded(self, live: Live, batch: Batch) -> tuple[Statement, Decoded, int]:
        """The front's answer, what the batch's total says, and how many reports are in it.

        The total is on disk, and this server's sum deleted, before anybody is told.
        """
        answer = await self.link.share(live.name, batch.number)
        body = check_share(answer, live.state.configuration(batch.pin), batch, live.state.turns[batch.number].block)
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
            return ring.encode(ring.add(theirs, ring.decode(held.total, length), noise))

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


def _jobs(name: str, scope: Sequence[bytes], report: Sealed, opening: Opening | None) -> tuple[bytes, list[Job]] | None:
    """What must be decrypted of a report, and the id of the key; None where it has no such shares."""
    if opening is None or sum(opening[1]) != len(report.sealed):
        return None
    key, lengths = opening
    jobs: list[Job] = []
    at = 0
    for part, (of, length) in enumerate(zip(scope, lengths, strict=True)):
        info = share_info(name, report.configuration, of, part, report.report)
        jobs.append((key.suite, key.private, info, report.sealed[at : at + length]))
        at += length
    return key.id, jobs


def _read(offer: Offer, name: bytes, key: bytes, plain: list[bytes | None]) -> Opened | None:
    parts: list[Any] = []
    for batch, share in zip(offer.batches, plain, strict=False):
        ring = batch.mechanism.ring
        if share is None or ring is None:
            return None
        try:
            parts.append((ring, ring.decode(share, batch.mechanism.outputs or 1)))
        except InvalidParameter:
            return Opened(name, key, reason=Reason.MALFORMED)
    return Opened(name, key, tuple(parts))
