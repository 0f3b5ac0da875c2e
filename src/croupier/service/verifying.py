"""Check a public transcript from the first line to the last: who signed what, every decision, every batch, the privacy.

Every line must hold the hash of the line before and the analyzer's signature, and the heads that the front has
countersigned must be those of the lines that they name. The program is run again on the released numbers; each offer
must be the one that it wants at that point. What no transcript can show is that a released number is what the messages
said: only the analyzer saw them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from croupier.checks import CroupierError, integer
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.signing import Statement, from_text, to_text
from croupier.programs import Change, State, records
from croupier.programs.records import LONGEST_LINE, Head, Record
from croupier.service.receipts import IN_BLOCK, check_decoded, check_receipt, check_share
from croupier.texts import one_line

LARGEST = 2**63 - 1
MOST_RECORDS = 10**7
NO_RECORD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)
"""What comes of reading something else as a record."""


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
    validity: str = ""
    refused_reports: dict[str, int] = field(default_factory=dict)
    """How many reports did not count, by reason, as the front signed it."""
    operations: int = 0
    smallest: int = 0
    blocks: int = 0
    """Of how many blocks all batches were released."""
    arms: list[str] = field(default_factory=list)
    decision: dict[str, Any] | None = None
    """What the log tells as decided, which its blocks lead to."""
    metric: str = ""
    """What decides, where it has a name."""
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
        verdict = asdict(self)
        del verdict["hashes"]
        return verdict | {"records": self.records, "head": self.head}


class _Check:
    """Goes through a log line by line: the interpreter says what a record means, and this whether to believe it."""

    def __init__(self, trust: Mapping[str, bytes]) -> None:
        self.trust, self.verdict = trust, Verdict()
        self.state, self.head = State(), Head()
        self._known: dict[int, bytes] = {}
        """Every batch that was ever opened, by number, and its hash."""
        self._signer: Ed25519PublicKey | None = None
        self._in_block: Counter[int] = Counter()
        self._last_pull = 0
        """The number of the newest record that a batch was pulled for."""

    def read(self, line: str) -> None:
        """Check a line: its place and its signature first, which cost little, then what it says."""
        record = records.read(line, self.head)
        records.check(line, record, self._key(record))
        event = record["event"]
        if event in CHECKS:
            CHECKS[event](self, record)
        change = self.state.apply(record)
        if event in NOTES:
            NOTES[event](self, change)
        self.head = self.head.after(line)
        self.verdict.hashes.append(self.head.hash)

    def _key(self, record: Record) -> Ed25519PublicKey:
        """Who must have signed a record: the analyzer that is trusted, or the one that the first record names."""
        if self._signer is None:
            key = self.trust.get("analyzer")
            if key is None:
                begun = Configuration.from_text(Statement.from_dict("configuration", record["configuration"]).text)
                key = begun.verify_keys["analyzer"]
            self._signer = Ed25519PublicKey.from_public_bytes(key)
        return self._signer

    # Before what a record says is let happen

    def _check_configured(self, record: Record) -> None:
        statement = Statement.from_dict("configuration", record["configuration"])
        configuration = Configuration.from_text(statement.text)
        statement.check_both(configuration.verify_keys)
        for server, key in self.trust.items():
            if configuration.verify_keys[server] != key:
                raise CroupierError(f"the {server} that signed is not the one that is trusted")
        before = self.state.configured
        if before is not None and Configuration.from_text(before.text).verify_keys != configuration.verify_keys:
            raise CroupierError("a server changed the key that it signs with")

    def _check_opened(self, record: Record) -> None:
        statement = Statement.from_dict("offer", record["offer"])
        offer = Offer.from_text(statement.text)
        configuration = self.state.configuration(offer.configuration)
        statement.check("analyzer", configuration.verify_keys["analyzer"])
        configuration.check(offer)
        for batch in offer.batches:
            known = self._known.get(batch.number)
            if batch.pin != offer.configuration if known is None else batch.hash != known:
                raise CroupierError(f"batch {batch.number} is pinned to another configuration than it was opened under")

    def _check_released(self, record: Record) -> None:
        batch, decoded = self.state.batch(record["batch"]), _decoded(record["decoded"])
        receipt = Statement.from_dict("release", record["receipt"])
        check = check_receipt if batch.mechanism.ring is None else check_share
        signed = check(receipt, self.state.configuration(batch.pin), batch, self.state.turns[batch.number].block)
        users = signed["reports"]
        if record.get("users", batch.mechanism.users) != users:
            raise CroupierError(f"{record['users']} users, and the front signed for {users}")
        for key in IN_BLOCK:
            if repr(record.get(key)) != repr(signed.get(key)):
                raise CroupierError(f"{key} = {record.get(key)!r}, and the front signed for {signed.get(key)!r}")
        check_decoded(batch, decoded, integer("damaged", record["damaged"], 0), users)
        self._check_witnessed(record)

    def _check_witnessed(self, record: Record) -> None:
        """Before it pulled, the analyzer showed its log: as far as the pull before, at least, and as it is here."""
        number = self.verdict.check_head(Statement.from_dict("head", record["witness"]))
        if number < self._last_pull:
            raise CroupierError(f"the front was shown record {number}, and record {self._last_pull} is due")
        self._last_pull, self.verdict.countersigned = record["number"], number + 1

    # After it has happened

    def _note_configured(self, _: Change) -> None:
        assert self.state.configured is not None
        configuration, verdict = Configuration.from_text(self.state.configured.text), self.verdict
        verdict.experiment, verdict.configurations = configuration.experiment, verdict.configurations + 1
        verdict.claimed_epsilon, verdict.claimed_delta = configuration.privacy.epsilon, configuration.privacy.delta
        verdict.validity = configuration.validity.kind
        verdict.signers = {server: to_text(key) for server, key in configuration.verify_keys.items()}

    def _note_opened(self, change: Change) -> None:
        offer, verdict = change.offer, self.verdict
        assert offer is not None
        self._known |= {batch.number: batch.hash for batch in offer.batches}
        verdict.offers += 1
        verdict.worst_delta = max(verdict.worst_delta, offer.delta(verdict.claimed_epsilon))
        least = min(batch.mechanism.users for batch in offer.batches)
        verdict.smallest = min(verdict.smallest or least, least)

    def _note_released(self, change: Change) -> None:
        assert change.batch is not None
        assert change.offer is not None
        if (block := change.offer.block) is not None:
            self._in_block[block.number] += 1
            self.verdict.blocks += self._in_block[block.number] == len(block.batches)
        self.verdict.released += 1
        self.verdict.reports += change.record.get("users", change.batch.mechanism.users)
        self.verdict.damaged += change.record["damaged"]
        known = Counter(self.verdict.refused_reports)
        known.update(Statement.from_dict("release", change.record["receipt"]).body.get("refused", {}))
        self.verdict.refused_reports = dict(sorted(known.items()))

    def _note_expired(self, _: Change) -> None:
        self.verdict.expired += 1

    def _note_refused(self, _: Change) -> None:
        self.verdict.refused += 1

    def _note_operated(self, _: Change) -> None:
        self.verdict.operations += 1


CHECKS: dict[str, Callable[[_Check, Record], None]] = {
    "configured": _Check._check_configured,
    "opened": _Check._check_opened,
    "released": _Check._check_released,
    "refused": _Check._check_witnessed,
}
"""What must be true of a record beyond that it follows: signatures, keys, privacy, receipts, heads."""

NOTES: dict[str, Callable[[_Check, Change], None]] = {
    "configured": _Check._note_configured,
    "opened": _Check._note_opened,
    "released": _Check._note_released,
    "expired": _Check._note_expired,
    "refused": _Check._note_refused,
    "operated": _Check._note_operated,
}
"""What the verdict says of it."""


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
            raise BadTranscript(one_line(f"line {number} does not follow: {error}")) from None
        except NO_RECORD as error:
            raise BadTranscript(f"line {number} is no record of a transcript ({type(error).__name__})") from None
    if check.state.configured is None:
        raise BadTranscript("the transcript is empty")
    program = check.state.program
    check.verdict.finished, check.verdict.decision = program.finished, check.state.decided
    check.verdict.metric = program.show().get("metric", "")
    check.verdict.arms = list(check.state.arms)
    check.verdict.result = check.state.program.show()
    return check.verdict


def lines_of(file: IO[bytes]) -> Iterable[bytes]:
    """The lines of a file one by one, however long it is; one that is longer than a record can be is refused."""
    while line := file.readline(LONGEST_LINE + 2):
        if len(line) > LONGEST_LINE + 1:
            raise BadTranscript(f"a line is longer than {LONGEST_LINE:,} bytes")
        yield line.removesuffix(b"\n")


def _decoded(decoded: Any) -> Any:
    """A released number, or several: whole, and within what any batch can add up to."""
    for entry in decoded if isinstance(decoded, list) else [decoded]:
        integer("decoded", entry, -LARGEST, LARGEST)
    return decoded
