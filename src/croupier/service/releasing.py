"""What the analyzer does with batches that the front releases: it pulls and checks them, and puts what they tell into
the log.
"""

from __future__ import annotations

import hashlib
import logging
from functools import partial
from typing import Any

from croupier.messages.configuration import IN_SHARES
from croupier.messages.offer import Batch
from croupier.messages.signing import BadSignature, Statement, from_text
from croupier.messages.wire import message_info
from croupier.protocols import Decoded, TamperedMessage
from croupier.service.experiment_log import Live
from croupier.service.front_client import FrontRefused
from croupier.service.publishing import Publishing
from croupier.service.receipts import IN_BLOCK, BadRelease, check_decoded, check_receipt

log = logging.getLogger("croupier")

DESTROYED = "the key that it was sealed to is destroyed"
"""Why a batch was given up after this server's store was restored."""


class Releasing(Publishing):
    """Follows every batch to its end."""

    async def _give_up(self, live: Live) -> None:
        """Give up, in public, the batches that are sealed to a key that was destroyed, as when a store was restored."""
        void = set(self._void(live)) if live.open else set()
        for number in sorted(number for number, batch in live.open.items() if batch.pin in void):
            await live.record("expired", partial(_is_open, live, number), batch=number, reason=DESTROYED)
            await self._forget(live, number)

    async def _follow_all(self, live: Live, standings: dict[int, dict[str, Any]]) -> None:
        """Do what is due for every batch.

        One that was pulled before a crash, and not logged, holds back all others until it is in the log.
        """
        left = sorted(standings)
        while left:
            known, refused, held_back = live.count, None, []
            for number in left:
                try:
                    await self._follow(live, standings[number])
                except FrontRefused as refusal:
                    if refusal.problem != "not-released" or standings[number]["state"] != "ready":
                        raise
                    refused = refusal
                    held_back.append(number)
            if refused is not None and live.count == known:
                raise refused
            left = held_back

    async def _follow(self, live: Live, standing: dict[str, Any]) -> None:
        """Do what is due for a batch by where it stands at the front."""
        number, state = standing["batch"], standing["state"]
        if number in live.open and state == "ready":
            await self._take(live, number)
        elif number in live.open and state in ("expired", "cancelled", "released"):
            if state == "released":
                # This log is older than the front's store, as after a backup: what was in the batch is gone.
                log.warning("lost", extra={"fields": {"experiment": live.name, "batch": number}})
            # Where a batch must be full nobody was dealt a turn while it was paused: that too few came says nothing.
            few = state == "expired" and (live.open[number].mechanism.fits_any_batch or not live.state.paused)
            told = ("received", "turns") if few else ()
            about = {"batch": number} | {key: standing[key] for key in told if standing[key] is not None}
            await live.record("expired", lambda: number in live.open, **about)
            await self._forget(live, number)
        elif number in live.done and state == "ready":
            await self._delete(live, number)
        elif state == "open" and number in live.done:
            await self.link.cancel(live.name, number)
            await self._forget(live, number)
        elif state == "open" and number in live.program.unwanted:
            # Where a batch may have any size, nothing is gained by throwing away what has come.
            end = self.link.close_soon if live.open[number].mechanism.fits_any_batch else self.link.cancel
            await end(live.name, number)

    async def _delete(self, live: Live, number: int) -> None:
        """Have the front delete what is over: an answer that was taken, or one that nobody will ask for."""
        try:
            await self.link.acknowledge(live.name, number)
        except FrontRefused as refusal:
            if refusal.problem != "not-released":
                raise
            await self.link.cancel(live.name, number)

    async def _forget(self, live: Live, number: int) -> None:
        """Nothing of a batch in shares is kept once it is over."""
        if live.plan.trust in IN_SHARES:
            await self.settling.forget(live, number)

    async def _take(self, live: Live, number: int) -> None:
        """Pull a released batch, check it, decode it, log it, and only then let the front delete it.

        The front countersigns the log first: what was decoded before cannot be chosen after these messages are seen.
        """
        batch = live.open[number]
        witness = await self._witnessed(live)
        body: dict[str, Any] = {"batch": number, "witness": witness.to_dict()}
        try:
            if batch.mechanism.ring is None:
                receipt, reading = await self._decoded(live, batch)
                users = batch.mechanism.users
            else:
                receipt, reading, users = await self.settling.decoded(live, batch)
        except (BadRelease, BadSignature, TamperedMessage) as error:
            log.warning("refused", extra={"fields": {"experiment": live.name, "batch": number, "why": str(error)}})
            event, body["reason"] = "refused", str(error)
        else:
            decoded = list(reading.decoded) if isinstance(reading.decoded, tuple) else reading.decoded
            event = "released"
            body |= {"decoded": decoded, "damaged": reading.damaged, "users": users, "receipt": receipt.to_dict()}
            body |= {key: receipt.body[key] for key in IN_BLOCK if key in receipt.body}
        await live.record(event, lambda: number in live.open, **body)
        await self.link.acknowledge(live.name, number)
        await self._forget(live, number)

    async def _decoded(self, live: Live, batch: Batch) -> tuple[Statement, Decoded]:
        pinned = self._configuration(live, batch.pin)
        receipt = await self.link.receipt(live.name, batch.number)
        body = check_receipt(receipt, pinned, batch, live.state.turns[batch.number].block)
        hashed, messages = hashlib.sha256(), list[bytes]()
        for part in range(body["parts"]):
            payload = await self.link.messages(live.name, batch.number, part)
            hashed.update(payload)
            if not payload or len(payload) % body["length"]:
                raise BadRelease("a part of the release is empty or cut")
            messages += [payload[i : i + body["length"]] for i in range(0, len(payload), body["length"])]
            if len(messages) > body["messages"]:
                break
        if len(messages) != body["messages"]:
            raise BadRelease(f"{len(messages)} messages came where {body['messages']} were announced")
        if hashed.digest() != from_text("sha256", body["sha256"]):
            raise BadRelease("the messages are not those of the receipt")
        if len(set(messages)) != len(messages):
            raise BadRelease("a message came twice")
        key = self._key(batch.number, pinned)
        info = message_info(live.name, batch.pin, batch.hash)
        opened = await self.opener.open([(key.suite, key.private, info, message) for message in messages])
        decoded = batch.mechanism.read(opened)
        check_decoded(batch, decoded.decoded, decoded.damaged)
        return receipt, decoded


def _is_open(live: Live, number: int) -> bool:
    return number in live.open
