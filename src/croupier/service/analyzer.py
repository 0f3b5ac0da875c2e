"""The analyzer: it publishes the turns that programs want, and runs them on the batches that the shuffler releases.

It learns arms and noisy sums, never who sent what. Each experiment is its log (see `live`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable

from croupier.checks import CroupierError
from croupier.client.configuration import Admission, Batch, Configuration, ServerKeys
from croupier.client.sealing import key_id
from croupier.client.signing import BadSignature, Statement, from_text, to_text
from croupier.client.wire import message_info
from croupier.protocols.carriers import TamperedMessage
from croupier.service.decoding import Decoded, decode
from croupier.service.experiment import Plan, Site
from croupier.service.keys import Keys
from croupier.service.link import ShufflerAway, ShufflerLink
from croupier.service.live import Live
from croupier.service.opening import Opener
from croupier.service.problems import Problem, kind_of
from croupier.service.receipts import BadRelease, check_decoded, check_receipt
from croupier.service.store import AnalyzerStore

log = logging.getLogger("croupier")


class Analyzer:
    """Drives live experiments: publishes turns, takes released batches in, keeps the log."""

    def __init__(
        self,
        plans: list[Plan],
        store: AnalyzerStore,
        keys: Keys,
        link: ShufflerLink,
        opener: Opener,
        urls: dict[str, str],
        suite: str,
        clock: Callable[[], float],
    ) -> None:
        self.keys, self.link, self.opener, self.urls, self.suite = keys, link, opener, urls, suite
        self.live = {plan.name: Live(plan, store, keys, clock) for plan in plans}
        self._site: Site | None = None

    async def run(self, name: str, poll: float) -> None:
        """Drive one experiment until it is finished or this is cancelled."""
        live = self.live[name]
        published: set[int] = set()
        while True:
            await asyncio.sleep(await self.round(live, published, poll))

    async def round(self, live: Live, published: set[int], poll: float) -> float:
        """One step, whatever comes of it; returns how long to wait for the next."""
        pause = poll
        try:
            async with live.lock:
                await self.step(live, published)
            if live.trouble:
                log.info("recovered", extra={"fields": {"experiment": live.name, "from": live.trouble}})
            live.trouble = ""
        except ShufflerAway as error:
            self._trouble(live, error)
            self._site, pause = None, max(poll, 0.5)
            published.clear()
        except CroupierError as error:
            self._trouble(live, error)
            pause = max(poll, 2.0)
            published.clear()
            # A shuffler that has lost its store is told again.
            live.registered = False
        except Exception as error:
            # A store or an answer as nobody expects it: the log is read again, and the experiment goes on.
            self._trouble(live, CroupierError(f"something went wrong here: {kind_of(error)}"))
            pause = max(poll, 2.0)
            published.clear()
            live.registered, live.stale = False, True
        if live.program.finished and not live.open and not live.trouble:
            pause = max(poll, 5.0)
        return pause

    def _trouble(self, live: Live, error: CroupierError) -> None:
        live.caught_up = False
        if live.trouble != str(error):
            live.trouble = str(error)
            live.version += 1
            log.warning("trouble", extra={"fields": {"experiment": live.name, "what": str(error)}})

    async def step(self, live: Live, published: set[int]) -> None:
        """One round: configuration, turns, releases. Whatever was begun before a crash is taken up again."""
        if live.stale:
            live.restore()
        await self._configure(live)
        await self._publish(live, published)
        # Everything when there may be something left from before a crash; later only what can still change.
        since = 0 if not live.caught_up else min(live.open, default=max(live.done, default=0))
        standings = await self.link.standings(live.name, since)
        if standings != live.standings:
            live.standings = standings
            live.version += 1
        states = {one["batch"]: one["state"] for one in standings["batches"]}
        # A stop may find a batch full and not yet ready: it is looked for until the shuffler has deleted it.
        left = any(number in live.done and state in ("open", "closed", "ready") for number, state in states.items())
        for number, state in sorted(states.items()):
            if number in live.open and state == "ready":
                await self._take(live, number)
            elif number in live.open and state in ("expired", "cancelled", "released"):
                if state == "released":
                    # This log is older than the shuffler's store, as after a backup: what was in the batch is gone.
                    log.warning("lost", extra={"fields": {"experiment": live.name, "batch": number}})
                live.record("expired", batch=number)
            elif number in live.done and state == "ready":
                await self.link.acknowledge(live.name, number)
            elif state == "open" and (number in live.done or number in live.program.unwanted):
                await self.link.cancel(live.name, number)
        live.caught_up = not left
        if live.program.finished and not live.open and not standings["finished"]:
            await self.link.finish(live.name)
        else:
            await self._publish(live, published)

    async def _configure(self, live: Live) -> None:
        """Have the current configuration signed by both; a changed one is a new revision."""
        if self._site is None:
            found = await self.link.keys()
            if self.suite not in found["seal"]:
                raise CroupierError(f"the shuffler has no key for {self.suite}")
            shuffler = ServerKeys.from_dict({"seal": found["seal"][self.suite], "verify": found["verify"]})
            keys = {"analyzer": self.keys.public(self.suite), "shuffler": shuffler}
            self._site = Site(self.suite, keys, self.urls, Admission.from_dict(found["admission"]))
            for one in self.live.values():
                one.registered = False
        if live.registered and (not live.held or live.behind):
            return
        known = None if live.configured is None else Configuration.from_text(live.configured.text)
        wanted = live.plan.configuration(0 if known is None else known.revision, live.arms, self._site)
        live.held = known is not None and wanted != known and live.behind
        if known is not None and live.held:
            wanted = known
        elif known is not None and wanted != known:
            wanted = live.plan.configuration(known.revision + 1, live.arms, self._site)
        signed = await self.link.register(live.name, wanted.statement().signed("analyzer", self.keys.sign))
        signed.check_both(wanted.verify_keys)
        if wanted != known:
            live.record("configured", configuration=signed.to_dict())
        live.registered = True

    async def _publish(self, live: Live, published: set[int]) -> None:
        """Open the turns that the program wants; each is in the log before the shuffler hears of it."""
        for turn in live.program.wanted:
            if turn.number in published:
                continue
            if turn.number not in live.signed:
                if turn.arm is not None and turn.arm >= len(Configuration.from_text(live.configured.text).arms):  # type: ignore[union-attr]
                    live.registered = live.held
                    continue
                statement = live.offer_of(turn).statement().signed("analyzer", self.keys.sign)
                live.record("opened", offer=statement.to_dict())
            await self.link.open_offer(live.name, turn.number, live.signed[turn.number], live.plan.deadline)
            published.add(turn.number)

    async def _take(self, live: Live, number: int) -> None:
        """Pull a released batch, check it, decode it, log it, and only then let the shuffler delete it."""
        batch = live.open[number]
        try:
            receipt, found = await self._decoded(live, batch)
        except (BadRelease, BadSignature, TamperedMessage) as error:
            log.warning("refused", extra={"fields": {"experiment": live.name, "batch": number, "why": str(error)}})
            live.record("refused", batch=number, reason=str(error))
        else:
            decoded = list(found.decoded) if isinstance(found.decoded, tuple) else found.decoded
            live.record("released", batch=number, decoded=decoded, damaged=found.damaged, receipt=receipt.to_dict())
        await self.link.acknowledge(live.name, number)

    async def _decoded(self, live: Live, batch: Batch) -> tuple[Statement, Decoded]:
        pinned = self._configuration(live, batch.pin)
        receipt = await self.link.receipt(live.name, batch.number)
        body = check_receipt(receipt, pinned, batch)
        hashed, messages = hashlib.sha256(), []
        for part in range(body["parts"]):
            payload = await self.link.messages(live.name, batch.number, part)
            hashed.update(payload)
            if len(payload) % body["length"]:
                raise BadRelease("a part of the release is cut")
            messages += [payload[i : i + body["length"]] for i in range(0, len(payload), body["length"])]
        if hashed.digest() != from_text("sha256", body["sha256"]):
            raise BadRelease("the messages are not those of the receipt")
        if len(messages) != body["messages"]:
            raise BadRelease(f"{len(messages)} messages came where {body['messages']} were announced")
        if len(set(messages)) != len(messages):
            raise BadRelease("a message came twice")
        key = self.keys.by_id(key_id(pinned.keys["analyzer"].seal))
        if key is None:
            raise CroupierError(f"the key that batch {batch.number} is sealed to is missing here")
        info = message_info(live.name, batch.pin, batch.hash)
        opened = await self.opener.open([(key.suite, key.private, info, message) for message in messages])
        decoded = decode(batch.mechanism, opened)
        check_decoded(batch, decoded.decoded, decoded.damaged)
        return receipt, decoded

    def _configuration(self, live: Live, digest: bytes) -> Configuration:
        for record in live.records:
            if record["event"] == "configured":
                statement = Statement.from_dict("configuration", record["configuration"])
                if statement.hash == digest:
                    return Configuration.from_text(statement.text)
        raise CroupierError(f"the configuration {to_text(digest)} is not in the log")

    def find(self, name: str) -> Live:
        """A live experiment by name."""
        if name not in self.live:
            raise Problem("unknown-experiment")
        return self.live[name]
