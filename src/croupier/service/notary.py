"""What the front signs: configurations and offers that it checked, and the head of a log that extends the last one.

It refuses what goes beyond its own rules or beyond what was signed before.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from croupier.checks import CroupierError
from croupier.client.limits import HIDE_EACH_OTHER
from croupier.messages.admission import EVERYBODY, Admission
from croupier.messages.configuration import BrokenPromise, Configuration, NotCovered
from croupier.messages.offer import Batch, Offer, configuration_of
from croupier.messages.sealing import SUITES, key_id
from croupier.messages.shares import stream_of, upload_length
from croupier.messages.signing import BadSignature, Statement
from croupier.messages.wire import LONGEST_UPLOAD
from croupier.personal import Personal, Rule
from croupier.programs.records import Head
from croupier.service.keys import Keys
from croupier.service.problems import Problem
from croupier.service.store import FrontStore, NewBatch

GRID = 10
"""Turns are due at one of about this many moments a period, so that they can be counted together."""


@dataclass(frozen=True)
class Rules:
    """What this front does and lends itself to; see `FrontSettings`."""

    ahead: float = 1.5
    spare: int = 2
    due_within: int = 30
    remember: int = 7 * 86_400
    admission: Admission = EVERYBODY
    largest_epsilon: float = 10.0
    smallest_batch: int = 2
    url: str = ""
    """The only address of itself that it signs; empty for any. An analyzer could name its own, and sit in between."""
    claim: float = 0.0
    """Seconds that a batch is left to the worker that began to close it; 0 where there is one worker."""


class Notary:
    """What the front signs for an analyzer, over its store and keys; the clock is an argument."""

    def __init__(self, store: FrontStore, keys: Keys, rules: Rules, clock: Callable[[], float]) -> None:
        self.store, self.keys, self.rules, self.clock = store, keys, rules, clock
        self._configurations: dict[tuple[str, bytes], Configuration] = {}

    def register(
        self, name: str, statement: Statement, proof_key: bytes | None = None, void: Sequence[str] = ()
    ) -> Statement:
        """Check an analyzer's configuration, sign it too, and serve it. Again is the same.

        Where reports come with proofs, `proof_key` is what both servers check them with. Reports under the
        configurations `void`, by hash, are refused from now on: the analyzer cannot open them any more.
        """
        configuration = Configuration.from_text(statement.text)
        if configuration.experiment != name:
            raise Problem("bad-request", f"the configuration is of {configuration.experiment!r}")
        _signed(statement, "analyzer", configuration)
        own = configuration.keys["front"]
        key = self.keys.by_id(key_id(own.seal))
        if own.verify != self.keys.verify or key is None or (key.suite, key.public) != (configuration.suite, own.seal):
            raise Problem("bad-signature", "the configuration names other keys than this front's")
        if configuration.validity.proved and not configuration.validity.is_checked_with(proof_key):
            raise Problem("bad-request", "the key of its proofs is missing, or not the one that is signed")
        self._check_rules(configuration)
        known = self._check_known(configuration)
        signed = statement.signed("front", self.keys.sign)
        envelope = json.dumps(signed.to_dict())
        kept = proof_key if configuration.validity.proved else None
        if not self.store.put_configuration(name, configuration.revision, statement.hash, envelope, known, kept):
            raise Problem("configuration-conflict")
        self.store.void(name, void)
        return signed

    def _check_rules(self, configuration: Configuration) -> None:
        """Refuse what this front does not lend itself to."""
        rules, epsilon = self.rules, configuration.privacy.epsilon
        if epsilon > rules.largest_epsilon:
            raise Problem("beyond-policy", f"ε = {epsilon:g} is above {rules.largest_epsilon:g}")
        if configuration.recipe["smallest"] < rules.smallest_batch:
            raise Problem("beyond-policy", f"batches below {rules.smallest_batch} users are not served")
        named = configuration.urls["front"].rstrip("/")
        if rules.url and named != rules.url:
            raise Problem("beyond-policy", f"this front's url is {rules.url}, and the configuration names {named}")
        if configuration.admission != rules.admission:
            raise Problem("beyond-policy", f"this front admits {rules.admission.words}")
        bare = configuration.trust in HIDE_EACH_OTHER and not configuration.recipe["front_noise"]
        if configuration.admission.kind == "everybody" and bare:
            raise Problem("beyond-policy", "where everybody is admitted, only noise of the front hides one user")

    def _check_known(self, configuration: Configuration) -> bytes | None:
        """A name belongs to the analyzer that used it first, and what was promised under it stays.

        Returns the hash of what it was compared with: that must still be so when it is written.
        """
        envelope = self.store.configuration(configuration.experiment)
        if envelope is None:
            return None
        statement = Statement("configuration", json.loads(envelope)["body"])
        known = Configuration.from_text(statement.text)
        if configuration.keys["analyzer"].verify != known.keys["analyzer"].verify:
            raise Problem("configuration-conflict", "this name belongs to another analyzer")
        try:
            configuration.check_promise(known.promise)
        except BrokenPromise as error:
            raise Problem("broken-promise", str(error)) from None
        return statement.hash

    def configuration(self, name: str, digest: bytes | None = None) -> dict[str, Any]:
        """The configuration that is served, or one by its hash: an envelope with both signatures."""
        envelope = self.store.configuration(name, digest)
        if envelope is None:
            raise Problem("unknown-experiment" if digest is None else "unknown-configuration")
        statement: dict[str, Any] = json.loads(envelope)
        return statement

    def open_offer(
        self,
        name: str,
        number: int,
        statement: Statement,
        deadline: float | None,
        together: Sequence[int] = (),
        odds: float | None = None,
        rule: str | None = None,
    ) -> Statement:
        """Check an offer against its signed configuration, sign it too, and open its batches. Again is the same.

        Its turns are dealt once all offers of `together` are known here, by its odds, or by these where it tells none.
        Where devices choose by themselves `rule` is the text of what they choose by.
        """
        configuration = self._configuration(name, configuration_of(statement))
        # Before it is read: a mechanism's text may make whoever reads it compute for long.
        _signed(statement, "analyzer", configuration)
        offer = Offer.from_text(statement.text)
        if offer.experiment != name or offer.number != number:
            raise Problem("bad-request", f"the offer is number {offer.number} of {offer.experiment!r}")
        try:
            configuration.check(offer)
        except NotCovered as error:
            raise Problem("not-covered", str(error)) from None
        _check_rule(configuration, offer, rule)
        odds = odds if offer.odds is None else offer.odds
        if odds is None:
            raise Problem("bad-request", "the offer tells no odds, and none came with it")
        if self.store.finished(name) and not (offer.block is not None and self.store.closing(name)):
            raise Problem("experiment-finished")
        for batch in offer.batches:
            known = self.store.batch(name, batch.number)
            if batch.pin != (offer.configuration if known is None else known[0]):
                raise Problem("not-covered", f"batch {batch.number} is pinned to another configuration")
        expires = None if deadline is None else self.clock() + deadline
        least = configuration.recipe["smallest"]
        batches = [self._new_batch(name, batch, expires, stream_of(offer), least) for batch in offer.batches]
        length = upload_length(offer, configuration.suite, proved=configuration.validity.proved)
        if length > LONGEST_UPLOAD:
            raise Problem("beyond-policy", f"an upload of {length} bytes, and {LONGEST_UPLOAD} is the most")
        signed = statement.signed("front", self.keys.sign)
        envelope, stream = json.dumps(signed.to_dict()), stream_of(offer)
        last = self._times(name, self.clock())[1]
        told = None if rule is None or offer.rule is None else (offer.rule, rule)
        said = (length, odds, together, stream, offer.block, last, told)
        if not self.store.put_offer(name, number, envelope, batches, *said):
            raise Problem("offer-conflict")
        return signed

    def rule(self, name: str, digest: bytes) -> str:
        """The text of a rule that an offer names by its hash."""
        found = self.store.rule(name, digest)
        if found is None:
            raise Problem("unknown-rule")
        return found

    def _new_batch(self, name: str, batch: Batch, expires: float | None, stream: str, least: int) -> NewBatch:
        length = batch.shape.length + self._overhead(name, batch)
        users, slots, mechanism = batch.mechanism.users, batch.shape.slots, batch.mechanism
        in_shares = mechanism.trust if mechanism.ring is not None else ""
        held = (users, slots, length, expires, batch.text, in_shares, min(least, users), stream)
        return NewBatch(batch.number, batch.hash, batch.pin, *held)

    def countersign(self, name: str, statement: Statement, lines: Sequence[bytes]) -> Statement:
        """Sign the head of an analyzer's log too, if it extends the one that was signed last. Again is the same.

        `lines` are the digests of the lines in between: no log that was countersigned can be written anew.
        """
        configuration = self._current(name)
        _signed(statement, "analyzer", configuration)
        head, known = Head.from_statement(statement, name), self._head(name)
        reached = known
        for line in lines if head != known else ():
            reached = reached.then(line)
        signed = statement.signed("front", self.keys.sign)
        if reached != head or not self.store.put_head(name, head, json.dumps(signed.to_dict()), known):
            raise Problem(
                "head-conflict",
                f"the log shown ends with record {head.number}, and does not extend the one that was countersigned "
                f"up to record {known.number}: restore its newest copy, or begin under a new name",
            )
        return signed

    def _head(self, name: str) -> Head:
        envelope = self.store.head(name)
        return (
            Head() if envelope is None else Head.from_statement(Statement("head", json.loads(envelope)["body"]), name)
        )

    def head(self, name: str) -> dict[str, Any]:
        """The newest head that was countersigned."""
        envelope = self.store.head(name)
        if envelope is None:
            raise Problem("unknown-experiment", "no log of it was countersigned yet")
        statement: dict[str, Any] = json.loads(envelope)
        return statement

    def _times(self, name: str, now: float) -> tuple[int, int]:
        """When a turn of this experiment that is given out now is overdue, and when its token expires."""
        reports = self._current(name).reports
        awaited = reports.at[1] + self.rules.due_within
        step = max(1, math.ceil(awaited / GRID))
        due = (int(now + awaited) // step + 1) * step
        return due, due + max(0, reports.within - math.floor(awaited))

    def _current(self, name: str) -> Configuration:
        """The configuration that is served now."""
        return Configuration.from_text(self.configuration(name)["body"])

    def _configuration(self, name: str, digest: bytes) -> Configuration:
        known = self._configurations.get((name, digest))
        if known is None:
            known = Configuration.from_text(self.configuration(name, digest)["body"])
            self._configurations[name, digest] = known
        return known

    def _overhead(self, name: str, batch: Batch) -> int:
        return SUITES[self._configuration(name, batch.pin).suite].overhead


def _check_rule(configuration: Configuration, offer: Offer, rule: str | None) -> None:
    """The text of a rule must be the one that the offer names, and fit what was signed."""
    if offer.rule is None and rule is None:
        return
    if rule is None or hashlib.sha256(rule.encode()).digest() != offer.rule:
        raise Problem("bad-request", f"the rule of offer {offer.number} is missing, or not the one that it names")
    try:
        Personal.read(configuration.program).check_rule(Rule.from_json(rule))
    except CroupierError as error:
        raise Problem("not-covered", str(error)) from None


def _signed(statement: Statement, server: str, configuration: Configuration) -> None:
    try:
        statement.check(server, configuration.verify_keys[server])
    except BadSignature as error:
        raise Problem("bad-signature", str(error)) from None
