"""The front's part of batches in shares: it settles groups of reports with the analyzer, and adds its noise at the end.

Where reports come with proofs the front is Prio3's helper. It checks its share when the report comes, keeps what it
found until the analyzer has found its own, and then decides for itself.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from croupier.messages.offer import Batch, Offer
from croupier.messages.proofs import front_share
from croupier.messages.shares import arm_scope, share_info
from croupier.messages.signing import Statement, to_text
from croupier.service.groups import MOST_BYTES, MOST_REPORTS, Answer, BadGroup, Group, Reason, Sealed
from croupier.service.high_water import HighWater
from croupier.service.keys import Keys
from croupier.service.notary import Notary, Rules
from croupier.service.problems import Problem
from croupier.service.store import Arrival, FrontStore
from croupier.service.store.schema import InBlock
from croupier.service.store.share_groups import Chosen, Counting
from croupier.service.store.share_sums import Sum
from croupier.service.store.share_waiting import Waiting
from croupier.validity import Prepared, Prio3, Refusal, Verifier
from croupier.validity.shares import Ring

VERSION = 2
HELPER = 1
MARK = 8
GONE = {"expired": "batch-expired", "cancelled": "batch-expired"}


class FrontShares(Notary):
    """What the front does with reports in shares, from the moment they are opened until their batch is answered."""

    def __init__(
        self, store: FrontStore, keys: Keys, rules: Rules, clock: Callable[[], float], mark: HighWater | None = None
    ) -> None:
        super().__init__(store, keys, rules, clock)
        self.given = mark or HighWater(None)
        self.given.check(store)
        self._offers: dict[tuple[str, int], Offer] = {}
        self._proof_keys: dict[tuple[str, bytes], bytes] = {}

    def _prepared(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Reports as they are kept: of those with proofs, what this front finds about its share of them."""
        alike: dict[tuple[str, bytes], list[int]] = defaultdict(list)
        for place, arrival in enumerate(arrivals):
            name, digest = arrival.experiment, arrival.configuration
            if arrival.in_shares and self._configuration(name, digest).validity.proved:
                alike[name, digest].append(place)
        kept = list(arrivals)
        for (name, digest), places in alike.items():
            some = [arrivals[place] for place in places]
            # All mechanisms of an experiment have one encoding.
            batch = self._offer(name, some[0].offer).batches[0]
            prio3 = _prio3(batch)
            shares = [front_share(prio3, arrival.own) for arrival in some]
            found = Verifier(prio3, HELPER, self._proof_key(name, digest)).prepare(
                [arrival.name for arrival in some],
                [share.public for share in shares],
                [share.share for share in shares],
                [_info(name, digest, _scope(arrival.stream, batch), arrival.name) for arrival in some],
            )
            for place, own in zip(places, found.kept, strict=True):
                kept[place] = replace(arrivals[place], own=own + _mark(_scope(arrivals[place].stream, batch)))
        return kept

    def group(self, name: str) -> Group | None:
        """The next reports in shares for the analyzer to settle, if any can be counted now."""
        if self.store.finished(name) is None:
            raise Problem("unknown-experiment")
        most = max(1, min(MOST_REPORTS, MOST_BYTES // (self.store.longest_upload(name) or 1)))
        chosen = self.store.group(name, most)
        if chosen is None:
            return None
        shown = [one.own[:length] for one, length in zip(chosen.reports, self._shown(name, chosen), strict=True)]
        reports = zip(chosen.reports, shown, strict=True)
        sealed = (Sealed(one.report, one.configuration, verifier, one.sealed) for one, verifier in reports)
        return Group(chosen.number, chosen.batches, tuple(sealed))

    def _shown(self, name: str, chosen: Chosen) -> list[int]:
        """How long each report's verifier shares are: nothing where it comes without a proof."""
        prio3 = self._batch(name, chosen.batches[0]).mechanism.prio3
        size = 0 if prio3 is None else prio3.sizes.verifier
        return [size if self._is_proved(name, report) else 0 for report in chosen.reports]

    def settle(self, name: str, number: int, answer: bytes) -> int:
        """The analyzer has settled a group: what both accept counts, and nothing of it is kept. Again is the same."""

        def count(chosen: Chosen) -> Counting:
            read = Answer.from_bytes(answer, self._shown(name, chosen))
            batches = [self._batch(name, batch) for batch in chosen.batches]
            counting = self._verified if self._is_proved(name, chosen.reports[0]) else self._expanded
            return counting(name, chosen, batches, read)

        try:
            counted = self.store.settle(name, number, count)
        except BadGroup as error:
            raise Problem("bad-request", str(error)) from None
        self.given.raise_to(self.store.answers)
        return counted

    def _verified(self, name: str, chosen: Chosen, batches: Sequence[Batch], answer: Answer) -> Counting:
        """Of reports with proofs those that both servers' verifier shares prove, whatever the analyzer says."""
        prio3, ring = _prio3(batches[0]), _ring(batches[0])
        scope = _scope(chosen.stream, batches[0])
        infos = [_info(name, one.configuration, scope, one.report) for one in chosen.reports]
        prepared = Prepared.resume(prio3, HELPER, [report.own[:-MARK] for report in chosen.reports], infos)
        # Checked when it came, and under another encoding than that of this batch it proves nothing.
        fits = [report.own[-MARK:] == _mark(scope) for report in chosen.reports]
        theirs = [
            Refusal.PROOF if reason or not fit else verifier
            for reason, fit, verifier in zip(answer.reasons, fits, answer.verifiers, strict=True)
        ]
        finished = prepared.finish(prepared.combine(theirs))
        added = ring.decode(finished.aggregate(), prio3.circuit.outputs)
        reasons = [
            said or (None if found is None else Reason.INVALID)
            for said, found in zip(answer.reasons, finished.refusals, strict=True)
        ]
        return Counting(reasons, [(ring, added)] * len(batches))

    def _expanded(self, name: str, chosen: Chosen, batches: Sequence[Batch], answer: Answer) -> Counting:
        """Of reports without proofs what their seeds stand for, as the analyzer says."""
        good = [report for report, reason in zip(chosen.reports, answer.reasons, strict=True) if reason is None]
        shares = [self._expand(name, report, chosen.stream, batches) for report in good]
        added = []
        for place, batch in enumerate(batches):
            ring = _ring(batch)
            added.append((ring, ring.total([share[place] for share in shares], batch.mechanism.outputs or 1)))
        return Counting(answer.reasons, added)

    def _expand(self, name: str, report: Waiting, stream: str, batches: Sequence[Batch]) -> list[list[int]]:
        first = batches[0].mechanism
        if first.fits_any_batch:
            info = _info(name, report.configuration, _scope(stream, batches[0]), report.report)
            return [_ring(batches[0]).expand(report.own, info, first.outputs or 1)] * len(batches)
        return [
            _ring(batch).expand(
                report.own,
                share_info(name, report.configuration, batch.hash, part, report.report),
                batch.mechanism.outputs or 1,
            )
            for part, batch in enumerate(batches)
        ]

    def _answer(self, name: str, number: int) -> bool:
        """Close a batch in shares: its sum, with a whole noise of this front's own, signed."""
        batch = self._batch(name, number)
        ring, length = _ring(batch), batch.mechanism.outputs or 1
        try:
            noise = batch.mechanism.server_noise(self.store.source)
        finally:
            # From here on no image of the memory tells this noise.
            self.store.source.renew()

        def receipt(
            known: Sum, reports: int, refused: dict[str, int], share: list[int], in_block: InBlock | None
        ) -> str:
            body = {
                "version": VERSION,
                "experiment": name,
                "configuration": to_text(batch.pin),
                "batch": number,
                "batch_hash": to_text(batch.hash),
                "reports": reports,
                "refused": refused,
                "set": to_text(known.settled),
                "share": to_text(ring.encode(share)),
            } | told_of(in_block)
            return json.dumps(Statement.of("release", body).signed("front", self.keys.sign).to_dict())

        return self.store.answer(name, number, lambda known: ring.add(ring.decode(known.total, length), noise), receipt)

    def share(self, name: str, number: int) -> dict[str, Any]:
        """What this front answers for a batch in shares: one answer, however often it is asked for."""
        state, receipt = self._state(name, number)
        if receipt is None or state not in ("ready", "released"):
            raise Problem(GONE.get(state, "not-released"))
        if state == "ready" and not self.store.may_pull(name, number):
            raise Problem("not-released", "the log is to be countersigned before the next batch is pulled")
        self.store.give(name, number)
        self.given.raise_to(self.store.answers)
        statement: dict[str, Any] = json.loads(receipt)
        return statement

    # What is known

    def _is_proved(self, name: str, report: Waiting) -> bool:
        return self._configuration(name, report.configuration).validity.proved

    def _proof_key(self, name: str, digest: bytes) -> bytes:
        if (name, digest) not in self._proof_keys:
            key = self.store.proof_key(name, digest)
            assert key is not None
            self._proof_keys[name, digest] = key
        return self._proof_keys[name, digest]

    def _state(self, name: str, number: int) -> tuple[str, str | None]:
        state = self.store.receipt(name, number)
        if state is None:
            raise Problem("unknown-batch")
        return state

    def _offer(self, name: str, number: int) -> Offer:
        offer = self._offers.get((name, number))
        if offer is None:
            envelope = self.store.offer(name, number)
            if envelope is None:
                raise Problem("wrong-batch", "there is no such offer")
            offer = self._offers[name, number] = Offer.from_text(json.loads(envelope)["body"])
        return offer

    def _batch(self, name: str, number: int) -> Batch:
        stored = self.store.batch(name, number)
        if stored is None:
            raise Problem("unknown-batch")
        return Batch(number, *stored)


def told_of(in_block: InBlock | None) -> dict[str, Any]:
    """What a receipt says of a batch's block."""
    return {} if in_block is None else asdict(in_block)


def _scope(stream: str, batch: Batch) -> bytes:
    return arm_scope(stream, batch.asked)


def _mark(scope: bytes) -> bytes:
    """What a scope is known by, beside what is kept of a report."""
    return hashlib.sha256(scope).digest()[:MARK]


def _info(name: str, configuration: bytes, scope: bytes, report: bytes) -> bytes:
    return share_info(name, configuration, scope, 0, report)


def _ring(batch: Batch) -> Ring:
    ring = batch.mechanism.ring
    assert ring is not None
    return ring


def _prio3(batch: Batch) -> Prio3:
    prio3 = batch.mechanism.prio3
    assert prio3 is not None
    return prio3
