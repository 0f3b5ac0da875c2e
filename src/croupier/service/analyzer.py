"""The analyzer: it publishes the turns that programs want, and runs them on the batches that the front releases.

It learns arms and noisy sums, never who sent what. Each experiment is its log (see `experiment_log`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from croupier.checks import CroupierError
from croupier.messages.admission import Admission
from croupier.messages.configuration import IN_SHARES, Configuration, ServerKeys
from croupier.messages.offer import Batch
from croupier.messages.sealing import key_id
from croupier.messages.signing import BadSignature, Statement, from_text
from croupier.messages.wire import message_info
from croupier.noise import Source, secure
from croupier.programs import Wanted
from croupier.programs.records import Head
from croupier.protocols import Decoded, TamperedMessage
from croupier.service.decryption import Opener
from croupier.service.epochs import Epochs
from croupier.service.experiment import Plan, Site
from croupier.service.experiment_log import Live
from croupier.service.front_client import FrontAway, FrontClient, FrontRefused
from croupier.service.high_water import HighWater
from croupier.service.keys import Keys, SealingKey
from croupier.service.openapi import MOST_LINES
from croupier.service.problems import Problem, kind_of
from croupier.service.receipts import IN_BLOCK, BadRelease, check_decoded, check_receipt
from croupier.service.settling import Settling
from croupier.service.store import AnalyzerStore
from croupier.service.waits import Waits

log = logging.getLogger("croupier")

DESTROYED = "the key that it was sealed to is destroyed"
"""Why a batch was given up after this server's store was restored."""


class Analyzer:
    """Drives live experiments: publishes turns, takes released batches in, keeps the log."""

    def __init__(
        self,
        plans: list[Plan],
        store: AnalyzerStore,
        keys: Keys,
        link: FrontClient,
        opener: Opener,
        urls: dict[str, str],
        suite: str,
        clock: Callable[[], float],
        waits: Waits,
        source: Source | None = None,
        mark: HighWater | None = None,
        epochs: Epochs | None = None,
    ) -> None:
        self.clock, self.epochs = clock, epochs or Epochs(None, suite, 0.0, clock())
        self.settling = Settling(store, keys, link, opener, source or secure(), mark or HighWater(None), waits)
        self.keys, self.link, self.opener, self.urls, self.suite = keys, link, opener, urls, suite
        self.destroyed = store.destroyed
        """The ids of sealing keys that are no more."""
        self.live: dict[str, Live] = {}
        for plan in plans:
            self.add(plan)
        self._site: Site | None = None

    def add(self, plan: Plan) -> Live:
        """Take an experiment in, as far as its log says it has come."""
        live = self.live[plan.name] = self.read(plan)
        return live

    def read(self, plan: Plan) -> Live:
        """An experiment as its log says it stands."""
        return Live(plan, self.settling.store, self.keys, self.clock, self.settling.waits)

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
            await self.step(live, published)
            if live.trouble:
                log.info("recovered", extra={"fields": {"experiment": live.name, "from": live.trouble}})
            live.trouble = ""
        except FrontAway as error:
            self._trouble(live, error)
            self._site, pause = None, max(poll, 0.5)
            published.clear()
        except CroupierError as error:
            self._trouble(live, error)
            pause = max(poll, 2.0)
            published.clear()
            # A front that has lost its store is told again.
            live.registered = False
        except Exception as error:
            # A store or an answer as nobody expects it: the experiment goes on.
            self._trouble(live, CroupierError(f"something went wrong here: {kind_of(error)}"))
            pause = max(poll, 2.0)
            published.clear()
            live.registered = False
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
        """One round: configuration, turns, releases. Whatever was begun before a crash is taken up again.

        Operators change things while the network is waited for: what was decided before is looked at again after.
        """
        async with live.lock:
            await live.refreshed()
        await self._renew_keys()
        await self._give_up(live)
        self._check_keys(live)
        await self._configure(live)
        await self._publish(live, published)
        if live.plan.trust in IN_SHARES:
            if not live.caught_up:
                await self.settling.forget_others(live)
            if live.open:
                await self.settling.settle_all(live)
        # Everything when there may be something left from before a crash; later only what can still change.
        since = min(live.open, default=live.state.newest) if live.caught_up else 0
        live.caught_up = True
        standings = await self.link.standings(live.name, since, live.state.newest)
        if standings != live.standings:
            live.standings = standings
            live.version += 1
        states = {standing["batch"]: standing["state"] for standing in standings["batches"]}
        if standings["paused"] != live.state.paused:
            await self.link.pause(live.name, paused=live.state.paused)
        # A front that was restored from a backup has never heard of some turns.
        published -= {
            number for number, offer in live.offers.items() if any(b.number not in states for b in offer.batches)
        }
        counts = {standing["batch"]: standing["received"] for standing in standings["batches"]}
        await self._follow_all(live, states, counts)
        await self._decide(live)
        # A stop may find a batch full and not yet ready: it is looked for until the front has deleted it.
        if any(number in live.done and state in ("open", "closed", "ready") for number, state in states.items()):
            live.caught_up = False
        if live.program.ending and not standings["finished"]:
            await self._publish(live, published)
            # With what they have: those who report from now on would be in none.
            await self.link.close_blocks(live.name)
        elif live.program.finished and not live.open and not (standings["finished"] and live.over):
            await self._witnessed(live)
            await self.link.finish(live.name)
            live.standings = standings | {"finished": True}
            live.over = True
        else:
            await self._publish(live, published)

    async def _decide(self, live: Live) -> None:
        """Put a decision into the log, in the words of its program."""
        if live.state.decided is None and (decision := live.program.decision) is not None:
            await live.record("decided", lambda: live.state.decided is None, decision=decision)

    async def _renew_keys(self) -> None:
        """Offer a new sealing key when the old one's time is over, and destroy those that nothing comes under."""
        now = self.clock()
        if (renewed := self.epochs.renewed(self.keys, now)) is not None:
            self.keys = self.settling.keys = renewed
            # A new key is a new revision of every configuration.
            self._site = None
        for key in self.epochs.over(self.keys, self.live.values(), now):
            # First the key, then the names: a name may be forgotten once nothing opens under its key.
            self.keys = self.settling.keys = self.epochs.destroy(self.keys, key)
            await self.settling.forget_names(key.id)
            self.destroyed.add(key.id)
            log.info("key destroyed", extra={"fields": {"key": key.number}})

    async def _give_up(self, live: Live) -> None:
        """Give up, in public, the batches that are sealed to a key that was destroyed, as when a store was restored."""
        void = set(self._void(live)) if live.open else set()
        for number in sorted(number for number, batch in live.open.items() if batch.pin in void):
            await live.record("expired", partial(_is_open, live, number), batch=number, reason=DESTROYED)
            await self._forget(live, number)

    def _void(self, live: Live) -> list[bytes]:
        """The configurations whose reports nobody can open any more, by hash."""
        known = live.state.configurations
        return [digest for digest in known if self._key_id(live.state.configuration(digest)) in self.destroyed]

    async def _follow_all(self, live: Live, states: dict[int, str], counts: dict[int, int]) -> None:
        """Do what is due for every batch.

        One that was pulled before a crash, and not logged, holds back all others until it is in the log.
        """
        left = sorted(states)
        while left:
            known, refused, held_back = live.count, None, []
            for number in left:
                try:
                    await self._follow(live, number, states[number], counts[number])
                except FrontRefused as refusal:
                    if refusal.problem != "not-released" or states[number] != "ready":
                        raise
                    refused = refusal
                    held_back.append(number)
            if refused is not None and live.count == known:
                raise refused
            left = held_back

    async def _follow(self, live: Live, number: int, state: str, received: int) -> None:
        """Do what is due for a batch that the front has in this state."""
        if number in live.open and state == "ready":
            await self._take(live, number)
        elif number in live.open and state in ("expired", "cancelled", "released"):
            if state == "released":
                # This log is older than the front's store, as after a backup: what was in the batch is gone.
                log.warning("lost", extra={"fields": {"experiment": live.name, "batch": number}})
            # Nobody was dealt a turn while it was paused: that too few came says nothing.
            few = state == "expired" and not live.state.paused
            about = {"batch": number} | ({"received": received} if few else {})
            await live.record("expired", lambda: number in live.open, **about)
            await self._forget(live, number)
        elif number in live.done and state == "ready":
            await self._delete(live, number)
        elif state == "open" and (number in live.done or number in live.program.unwanted):
            await self.link.cancel(live.name, number)
            if number in live.done:
                await self._forget(live, number)

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

    async def _configure(self, live: Live) -> None:
        """Have the current configuration signed by both; a changed one is a new revision."""
        if self._site is None:
            answer = await self.link.keys()
            if self.suite not in answer["seal"]:
                raise CroupierError(f"the front has no key for {self.suite}")
            front = ServerKeys.from_dict({"seal": answer["seal"][self.suite], "verify": answer["verify"]})
            keys = {"analyzer": self.keys.public(self.suite), "front": front}
            self._site = Site(self.suite, keys, self.urls, Admission.from_dict(answer["admission"]))
            for one in self.live.values():
                one.registered = False
        known = None if live.configured is None else Configuration.from_text(live.configured.text)
        retired = tuple(sorted(arm for arm in live.program.retired if arm < len(live.arms)))
        chosen = live.program.chosen
        told = known is None or (known.retired, known.chosen) == (retired, chosen)
        if live.registered and told and (not live.held or live.behind):
            return
        key, revision = self.keys.proof_key(live.name), 0 if known is None else known.revision
        wanted = live.plan.configuration(revision, live.arms, self._site, retired, key, chosen)
        live.held = known is not None and wanted != known and live.behind
        if known is not None and live.held:
            wanted = known
        elif known is not None and wanted != known:
            wanted = live.plan.configuration(known.revision + 1, live.arms, self._site, retired, key, chosen)
        own = wanted.statement().signed("analyzer", self.keys.sign)
        signed = await self.link.register(live.name, own, key if wanted.validity.proved else None, self._void(live))
        signed.check_both(wanted.verify_keys)
        if known is not None:
            # A log that is older than the one that was countersigned must not go on as if nothing had been lost.
            await self._witnessed(live)
        if wanted != known:
            await live.record("configured", configuration=signed.to_dict())
        # An operator may have added an arm meanwhile: it waits for the next revision.
        live.registered = live.held or wanted.arms == live.arms

    async def _publish(self, live: Live, published: set[int]) -> None:
        """Open the turns that the program wants: all are in the log before the front hears of any.

        The front is told which are open together, and deals none before it knows them all: who waits for a turn would
        else be dealt the first one, whatever the odds.
        """
        held = live.state.paused and not live.program.ending
        for turn in () if held else live.program.wanted:
            if turn.number in live.state.opened:
                continue
            if turn.arm is not None and turn.arm >= len(Configuration.from_text(live.configured.text).arms):  # type: ignore[union-attr]
                live.registered = live.held
                return
            offer = live.offer_of(turn)
            statement = offer.statement().signed("analyzer", self.keys.sign)
            apart: dict[str, Any] = {"odds": turn.odds} if offer.odds is None else {}
            apart |= {} if turn.rule is None else {"rule": turn.rule}
            await live.record("opened", partial(_wanted, live, turn), offer=statement.to_dict(), **apart)
        together = dict(live.state.signed)
        for number in sorted(together.keys() - published):
            if number in live.state.signed:
                state = live.state
                told = (live.plan.deadline, sorted(together), state.odds.get(number), state.rules.get(number))
                await self.link.open_offer(live.name, number, together[number], *told)
                published.add(number)

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

    async def _witnessed(self, live: Live) -> Statement:
        """The end of the log, countersigned by the front, which is shown all lines since the last time."""
        assert live.configured is not None
        run, last = live.run, live.run.head.number
        if live.witnessed is None:
            known = await self.link.head(live.name)
            live.witnessed = -1 if known is None else Head.from_statement(known, live.name).number
        reached, live.witnessed = live.witnessed, None
        while True:
            stop = min(reached + MOST_LINES, last)
            head = Head(stop, run.hashes[stop])
            shown = head.statement(live.name).signed("analyzer", self.keys.sign)
            signed = await self.link.witness(live.name, shown, run.digests[reached + 1 : stop + 1])
            signed.check("front", Configuration.from_text(live.configured.text).verify_keys["front"])
            if Head.from_statement(signed, live.name) != head:
                raise CroupierError(f"the front countersigned another head than that of record {head.number}")
            if stop == last:
                live.witnessed = last
                return signed
            reached = stop

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

    def _check_keys(self, live: Live) -> None:
        """Before users report to a batch that nobody could open, or whose proofs nobody could check: the key that it is
        pinned to must be here, and that of the proofs of its turns.
        """
        for number, batch in live.open.items():
            self._key(number, self._configuration(live, batch.pin))
        for number, offer in live.offers.items():
            validity = self._configuration(live, offer.configuration).validity
            if validity.proved and not validity.is_checked_with(self.keys.proof_key(live.name)):
                raise CroupierError(f"the key for proofs of turn {number} is missing here: put `proofs` back, restart")

    def _key(self, number: int, pinned: Configuration) -> SealingKey:
        key = self.keys.by_id(self._key_id(pinned))
        if key is None:
            remedy = "put its file back, restart; if it is lost, `croupier serve restored analyzer` gives the batch up"
            raise CroupierError(f"the key that batch {number} is sealed to is missing here: {remedy}")
        return key

    def _key_id(self, pinned: Configuration) -> bytes:
        return key_id(pinned.keys["analyzer"].seal)

    def _configuration(self, live: Live, digest: bytes) -> Configuration:
        return live.state.configuration(digest)

    def find(self, name: str) -> Live:
        """A live experiment by name."""
        if name not in self.live:
            raise Problem("unknown-experiment")
        return self.live[name]


def _is_open(live: Live, number: int) -> bool:
    return number in live.open


def _wanted(live: Live, turn: Wanted) -> bool:
    return turn in live.program.wanted
