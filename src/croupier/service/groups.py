"""Groups of reports in shares, from the front to the analyzer, and the answers to them; `docs/wire.md` has bytes."""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.messages.wire import HASH, REPORT_ID

_LENGTH = struct.Struct(">I")
_REPORT = struct.Struct(f">{REPORT_ID}s{HASH}sII")
MOST_REPORTS = 1000
"""A group has no more reports."""
MOST_BYTES = 2**24
"""Nor more uploads than so many bytes, if it has more than one."""
LONGEST_GROUP = 2 * MOST_BYTES
"""Nor has it more bytes in all: beside its share every report has a head and perhaps verifier shares."""
LONGEST_ANSWER = 2**21


class BadGroup(CroupierError):
    """Bytes that are no group of reports, or no answer to one."""


class Reason(IntEnum):
    """Why a report in shares does not count, as an answer says it; in public by its name, in small letters."""

    UNOPENABLE = 1
    """The analyzer cannot open its share: it is damaged, or of another report, arm, experiment or key."""
    REPEATED = 2
    """A report of this name was there before, under the same key."""
    MALFORMED = 3
    """It opens, and holds no share: it has another length, or a word that is no number of the field."""
    INVALID = 4
    """Its proof does not hold: the value is out of range, or the two shares do not belong together."""
    ENDED = 5
    """Its batch was ended meanwhile."""

    @property
    def word(self) -> str:
        return self.name.lower()


def counted(reasons: Iterable[Reason | None]) -> dict[str, int]:
    """How many do not count for each reason.

    >>> counted([None, Reason.INVALID, Reason.REPEATED, Reason.INVALID])
    {'invalid': 2, 'repeated': 1}
    """
    return dict(sorted(Counter(reason.word for reason in reasons if reason is not None).items()))


@dataclass(frozen=True)
class Sealed:
    """One report as the analyzer gets it: its name, its configuration, the front's verifier share where the report
    comes with a proof, and the analyzer's sealed shares one after the other.
    """

    report: bytes
    configuration: bytes
    verifier: bytes
    sealed: bytes


@dataclass(frozen=True)
class Group:
    """Reports that are settled together: all for one arm, or one offer, and added to the same batches."""

    number: int
    batches: tuple[int, ...]
    reports: tuple[Sealed, ...]

    def to_bytes(self) -> bytes:
        head = json.dumps({"group": self.number, "batches": list(self.batches)}).encode()
        pieces = [_LENGTH.pack(len(head)), head]
        for one in self.reports:
            lengths = len(one.verifier), len(one.sealed)
            pieces += (_REPORT.pack(one.report, one.configuration, *lengths), one.verifier, one.sealed)
        return b"".join(pieces)

    @classmethod
    def from_bytes(cls, data: bytes) -> Group:
        """Read a group; every byte must have its place."""
        try:
            (length,) = _LENGTH.unpack_from(data)
            head = json.loads(data[_LENGTH.size : _LENGTH.size + length])
            number = integer("group", head["group"], 0, 2**53)
            batches = tuple(integer("batch", batch, 0, 2**32 - 1) for batch in head["batches"])
            at, reports = _LENGTH.size + length, []
            while at < len(data):
                report, configuration, shown, sealed = _REPORT.unpack_from(data, at)
                middle, at = at + _REPORT.size + shown, at + _REPORT.size + shown + sealed
                reports.append(Sealed(report, configuration, data[middle - shown : middle], data[middle:at]))
        except (struct.error, ValueError, KeyError, TypeError, InvalidParameter) as error:
            raise BadGroup(f"this is no group of reports ({error})") from None
        if at != len(data) or not batches or not 1 <= len(reports) <= MOST_REPORTS:
            raise BadGroup(f"a group of {len(reports)} reports for {len(batches)} batches, or cut")
        return cls(number, batches, tuple(reports))


@dataclass(frozen=True)
class Answer:
    """What becomes of each report of a group: why it does not count, or None and the analyzer's verifier share.

    >>> answer = Answer((None, Reason.INVALID), (b"shown", b""))
    >>> answer.to_bytes().hex(), Answer.from_bytes(answer.to_bytes(), [5, 5]) == answer
    ('000473686f776e', True)
    """

    reasons: tuple[Reason | None, ...]
    verifiers: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        return bytes(reason or 0 for reason in self.reasons) + b"".join(self.verifiers)

    @classmethod
    def from_bytes(cls, data: bytes, lengths: Sequence[int]) -> Answer:
        """Read the answer to a group whose reports have verifier shares of these lengths."""
        try:
            reasons = [Reason(code) if code else None for code in data[: len(lengths)]]
        except ValueError as error:
            raise BadGroup(f"an answer with a reason that nobody knows ({error})") from None
        due = [0 if reason else length for reason, length in zip(reasons, lengths, strict=False)]
        if len(data) != len(lengths) + sum(due):
            raise BadGroup(f"an answer of {len(data)} bytes, which is none to {len(lengths)} reports")
        at, verifiers = len(lengths), []
        for length in due:
            verifiers.append(data[at : at + length])
            at += length
        return cls(tuple(reasons), tuple(verifiers))


def set_hash(reports: Iterable[bytes], before: bytes = bytes(HASH)) -> bytes:
    """What names a set of reports, in whatever order and groups they came: the XOR of the hashes of their names.

    >>> one, two = set_hash([b"a", b"b"]), set_hash([b"b"], set_hash([b"a"]))
    >>> one == two
    True
    """
    mixed = int.from_bytes(before, "big")
    for report in reports:
        mixed ^= int.from_bytes(hashlib.sha256(report).digest(), "big")
    return mixed.to_bytes(HASH, "big")
