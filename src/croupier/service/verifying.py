"""Check a public transcript from the first line to the last: who signed what, every decision, every batch, the privacy.

The program is run again on the released numbers; each offer must be the one that it wants at that point. What no
transcript can show is that a released number is what the messages said: only the analyzer saw them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from croupier.checks import CroupierError, integer
from croupier.client.configuration import Batch, Configuration, Offer
from croupier.client.signing import Statement, to_text
from croupier.service.programs import Program, program
from croupier.service.receipts import check_decoded, check_receipt

LARGEST = 2**63 - 1


class BadTranscript(CroupierError):
    """A transcript that does not follow, and the line where it stops following."""


@dataclass
class Verdict:
    """What was checked, and what it came to."""

    experiment: str = ""
    claimed_epsilon: float = 0.0
    claimed_delta: float = 0.0
    worst_delta: float = 0.0
    configurations: int = 0
    offers: int = 0
    released: int = 0
    reports: int = 0
    damaged: int = 0
    expired: int = 0
    refused: int = 0
    operations: int = 0
    smallest: int = 0
    finished: bool = False
    signers: dict[str, str] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Check:
    trust: Mapping[str, bytes]
    verdict: Verdict = field(default_factory=Verdict)
    program: Program | None = None
    configuration: Configuration | None = None
    configurations: dict[bytes, Configuration] = field(default_factory=dict)
    offers: dict[int, Offer] = field(default_factory=dict)
    batches: dict[int, Batch] = field(default_factory=dict)
    known: dict[int, bytes] = field(default_factory=dict)
    """Every batch that was ever opened, by number, and its hash."""
    arms: tuple[str, ...] = ()

    def configured(self, record: dict[str, Any]) -> None:
        statement = Statement.from_dict("configuration", record["configuration"])
        found = Configuration.from_text(statement.text)
        statement.check_both(found.verify_keys)
        if self.configuration is None:
            self.program, self.arms = program(found.program), found.arms
        else:
            before = self.configuration
            found.check_promise(before.promise)
            if found.experiment != before.experiment:
                raise CroupierError(f"{found.experiment!r} follows {before.experiment!r}")
            if found.revision != before.revision + 1:
                raise CroupierError(f"revision {found.revision} follows {before.revision}")
            if any(found.keys[server].verify != before.keys[server].verify for server in found.keys):
                raise CroupierError("a server changed the key that it signs with")
        if found.arms != self.arms:
            raise CroupierError(f"the arms are {found.arms}, and by what was signed and added before {self.arms}")
        self.configuration = self.configurations[statement.hash] = found
        verdict = self.verdict
        verdict.experiment, verdict.configurations = found.experiment, verdict.configurations + 1
        verdict.claimed_epsilon, verdict.claimed_delta = found.privacy.epsilon, found.privacy.delta
        verdict.signers = {server: to_text(key) for server, key in found.verify_keys.items()}
        for server, key in self.trust.items():
            if found.verify_keys[server] != key:
                raise CroupierError(f"the {server} that signed is not the one that is trusted")

    def opened(self, record: dict[str, Any]) -> None:
        statement = Statement.from_dict("offer", record["offer"])
        offer = Offer.from_text(statement.text)
        configuration = self.configurations[offer.configuration]
        statement.check("analyzer", configuration.verify_keys["analyzer"])
        configuration.check(offer)
        wanted = {turn.number: turn for turn in self.running.wanted}
        if offer.number not in wanted:
            raise CroupierError(f"offer {offer.number} does not follow: the program wants {sorted(wanted)}")
        turn = wanted[offer.number]
        if offer.arm != turn.arm or tuple((b.number, b.mechanism) for b in offer.batches) != turn.batches:
            raise CroupierError(f"offer {offer.number} is not the one that the program wants: {turn}")
        if offer.number in self.offers:
            raise CroupierError(f"offer {offer.number} was opened twice")
        self.offers[offer.number] = offer
        for batch in offer.batches:
            if batch.number not in self.known and batch.pin == offer.configuration:
                self.batches[batch.number], self.known[batch.number] = batch, batch.hash
            elif self.known.get(batch.number) != batch.hash:
                raise CroupierError(f"batch {batch.number} is pinned to another configuration than it was opened under")
        verdict = self.verdict
        verdict.offers += 1
        verdict.worst_delta = max(verdict.worst_delta, offer.delta(configuration.privacy.epsilon))
        least = min(batch.mechanism.users for batch in offer.batches)
        verdict.smallest = min(verdict.smallest or least, least)

    def released(self, record: dict[str, Any]) -> None:
        batch, decoded = self._open(record), _decoded(record["decoded"])
        check_receipt(Statement.from_dict("release", record["receipt"]), self.configurations[batch.pin], batch)
        check_decoded(batch, decoded, integer("damaged", record["damaged"], 0))
        self.running.released(batch.number, decoded)
        self.verdict.released += 1
        self.verdict.reports += batch.mechanism.users
        self.verdict.damaged += record["damaged"]

    def expired(self, record: dict[str, Any]) -> None:
        self.running.expired(self._open(record).number)
        self.verdict.expired += 1

    def refused(self, record: dict[str, Any]) -> None:
        self.running.expired(self._open(record).number)
        self.verdict.refused += 1

    def operated(self, record: dict[str, Any]) -> None:
        if self.running.finished:
            raise CroupierError("nothing is operated after the end")
        self.running.operate(record["operation"], record.get("arm"))
        if record["operation"] == "add":
            self.arms = (*self.arms, record["name"])
        self.verdict.operations += 1

    @property
    def running(self) -> Program:
        if self.program is None:
            raise CroupierError("nothing may come before the configuration")
        return self.program

    def _open(self, record: dict[str, Any]) -> Batch:
        if record["batch"] not in self.batches:
            raise CroupierError(f"batch {record['batch']} was never opened, or is over")
        return self.batches.pop(record["batch"])


def verify(transcript: str, trust: Mapping[str, bytes] | None = None) -> Verdict:
    """Check a transcript; the first line that does not follow is refused by its number.

    Anybody can sign a transcript of his own: `trust` says whose signatures it must bear.
    """
    check = _Check(trust or {})
    kinds = ("configured", "opened", "released", "expired", "refused", "operated")
    # Not `splitlines`, which breaks at signs that a name may hold.
    for number, line in enumerate(transcript.removesuffix("\n").split("\n"), start=1):
        try:
            record = json.loads(line)
            if record["event"] not in kinds:
                raise CroupierError(f"{record['event']!r} is no event")
            getattr(check, record["event"])(record)
        except CroupierError as error:
            raise BadTranscript(f"line {number} does not follow: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise BadTranscript(f"line {number} is no record of a transcript ({type(error).__name__})") from None
    if check.program is None:
        raise BadTranscript("the transcript is empty")
    check.verdict.finished = check.program.finished
    check.verdict.result = check.program.show()
    return check.verdict


def _decoded(found: Any) -> Any:
    """A released number, or several: whole, and within what any batch can add up to."""
    for one in found if isinstance(found, list) else [found]:
        integer("decoded", one, -LARGEST, LARGEST)
    return found
