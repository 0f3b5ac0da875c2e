"""Check a public transcript from the first line to the last: who signed what, every decision, every batch, the privacy.

Every line must hold the hash of the line before and the analyzer's signature, and the heads that the front has
countersigned must be those of the lines that they name. The program is run again on the released numbers; each offer
must be the one that it wants at that point. What no transcript can show is that a released number is what the messages
said: only the analyzer saw them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from croupier.checks import CroupierError, integer
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Batch, Offer
from croupier.messages.signing import Statement, from_text, to_text
from croupier.service import records
from croupier.service.programs import Program, program
from croupier.service.receipts import check_decoded, check_receipt
from croupier.service.records import LONGEST_LINE, Head

LARGEST = 2**63 - 1
MOST_RECORDS = 10**7
NO_RECORD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)
"""What comes of reading something else as a record."""

EVENTS = ("configured", "opened", "released", "expired", "refused", "operated")


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
    countersigned: int = 0
    """How many records, from the first on, the front has countersigned."""
    signers: dict[str, str] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    hashes: list[bytes] = field(default_factory=list)
    """Of every line."""

    @property
    def records(self) -> int:
        return len(self.hashes)

    @property
    def head(self) -> str:
        """The hash of the last line: who has the same has the same log."""
        return to_text(self.hashes[-1])

    def place_of(self, head: bytes) -> int:
        """The number of the record with this hash; a transcript without one is another, or ends before it."""
        if head not in self.hashes:
            raise BadTranscript(f"no record has the head {to_text(head)}: this is another log, or it ends before")
        return self.hashes.index(head)

    def check_head(self, statement: Statement) -> int:
        """Refuse a transcript that is not the log whose head the front has countersigned; returns its number."""
        statement.check("front", from_text("key", self.signers["front"]))
        head = Head.from_statement(statement, self.experiment)
        if head.number >= self.records:
            raise BadTranscript(
                f"record {head.number} was countersigned, and this transcript has {self.records} records"
            )
        if self.hashes[head.number] != head.hash:
            raise BadTranscript(f"the front has countersigned another record {head.number} than the one in here")
        return head.number

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        del found["hashes"]
        return found | {"records": self.records, "head": self.head}


@dataclass
class _Check:
    trust: Mapping[str, bytes]
    verdict: Verdict = field(default_factory=Verdict)
    program: Program | None = None
    configuration: Configuration | None = None
    configurations: dict[bytes, Configuration] = field(default_factory=dict)
    offers: set[int] = field(default_factory=set)
    batches: dict[int, Batch] = field(default_factory=dict)
    known: dict[int, bytes] = field(default_factory=dict)
    """Every batch that was ever opened, by number, and its hash."""
    arms: tuple[str, ...] = ()
    head: Head = field(default_factory=Head)
    _signer: Ed25519PublicKey | None = None
    last_pull: int = 0
    """The number of the newest record that a batch was pulled for."""

    def read(self, line: str) -> None:
        """Check a line: its place and its signature first, which cost little, then what it says."""
        record = records.read(line, self.head)
        records.check(line, record, self._key(record))
        if record["event"] not in EVENTS:
            raise CroupierError(f"{str(record['event'])[:60]!r} is no event")
        getattr(self, record["event"])(record)
        self.head = self.head.after(line)
        self.verdict.hashes.append(self.head.hash)

    def _key(self, record: dict[str, Any]) -> Ed25519PublicKey:
        """Who must have signed a record: the analyzer that is trusted, or the one that the first record names."""
        if self._signer is None:
            key = self.trust.get("analyzer")
            if key is None:
                begun = Configuration.from_text(Statement.from_dict("configuration", record["configuration"]).text)
                key = begun.verify_keys["analyzer"]
            self._signer = Ed25519PublicKey.from_public_bytes(key)
        return self._signer

    def configured(self, record: dict[str, Any]) -> None:
        statement = Statement.from_dict("configuration", record["configuration"])
        found = Configuration.from_text(statement.text)
        statement.check_both(found.verify_keys)
        for server, key in self.trust.items():
            if found.verify_keys[server] != key:
                raise CroupierError(f"the {server} that signed is not the one that is trusted")
        if self.configuration is None:
            if found.revision:
                raise CroupierError(f"a log begins with revision 0, and this is revision {found.revision}")
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
        if found.arms != self.arms[: len(found.arms)]:
            raise CroupierError(f"the arms are {found.arms}, and by what was signed and added before {self.arms}")
        self.configuration = self.configurations[statement.hash] = found
        verdict = self.verdict
        verdict.experiment, verdict.configurations = found.experiment, verdict.configurations + 1
        verdict.claimed_epsilon, verdict.claimed_delta = found.privacy.epsilon, found.privacy.delta
        verdict.signers = {server: to_text(key) for server, key in found.verify_keys.items()}

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
        self.offers.add(offer.number)
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

        self._witnessed(record)

    def _witnessed(self, record: dict[str, Any]) -> None:
        """Before it pulled, the analyzer showed its log: as far as the pull before, at least, and as it is here."""
        number = self.verdict.check_head(Statement.from_dict("head", record["witness"]))
        if number < self.last_pull:
            raise CroupierError(f"the front was shown record {number}, and record {self.last_pull} is due")
        self.last_pull, self.verdict.countersigned = record["number"], number + 1

    def expired(self, record: dict[str, Any]) -> None:
        self.running.expired(self._open(record).number)
        self.verdict.expired += 1

    def refused(self, record: dict[str, Any]) -> None:
        self.running.expired(self._open(record).number)
        self.verdict.refused += 1
        self._witnessed(record)

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


def verify(transcript: str | Iterable[bytes], trust: Mapping[str, bytes] | None = None) -> Verdict:
    """Check a transcript, a text or its lines; the first line that does not follow is refused by its number.

    Anybody can sign a transcript of his own: `trust` says whose signatures it must bear.
    """
    if isinstance(transcript, str):
        # Not `splitlines`, which breaks at signs that a name may hold.
        transcript = [line.encode("utf-8", "surrogatepass") for line in transcript.removesuffix("\n").split("\n")]
    check = _Check(trust or {})
    for number, line in enumerate(transcript, start=1):
        try:
            if number > MOST_RECORDS:
                raise CroupierError(f"more than {MOST_RECORDS:,} records")
            check.read(line.decode())
        except CroupierError as error:
            raise BadTranscript(_cut(f"line {number} does not follow: {error}")) from None
        except NO_RECORD as error:
            raise BadTranscript(f"line {number} is no record of a transcript ({type(error).__name__})") from None
    if check.program is None:
        raise BadTranscript("the transcript is empty")
    check.verdict.finished = check.program.finished
    check.verdict.result = check.program.show()
    return check.verdict


def lines_of(file: IO[bytes]) -> Iterable[bytes]:
    """The lines of a file one by one, however long it is; one that is longer than a record can be is refused."""
    while line := file.readline(LONGEST_LINE + 2):
        if len(line) > LONGEST_LINE + 1:
            raise BadTranscript(f"a line is longer than {LONGEST_LINE:,} bytes")
        yield line.removesuffix(b"\n")


def _cut(text: str) -> str:
    """One line of moderate length, whatever a transcript holds."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:400])


def _decoded(found: Any) -> Any:
    """A released number, or several: whole, and within what any batch can add up to."""
    for one in found if isinstance(found, list) else [found]:
        integer("decoded", one, -LARGEST, LARGEST)
    return found
