"""Groups of reports in shares, on their way from the front to the analyzer; `docs/wire.md` gives every byte."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.messages.wire import HASH, REPORT_ID

_LENGTH = struct.Struct(">I")
_REPORT = struct.Struct(f">{REPORT_ID}s{HASH}sI")
MOST_REPORTS = 1000
"""A group has no more reports."""


class BadGroup(CroupierError):
    """Bytes that are no group of reports."""


@dataclass(frozen=True)
class Sealed:
    """One report as the analyzer gets it: its name, its configuration, and its sealed shares one after the other."""

    report: bytes
    configuration: bytes
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
            pieces += (_REPORT.pack(one.report, one.configuration, len(one.sealed)), one.sealed)
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
                report, configuration, length = _REPORT.unpack_from(data, at)
                at += _REPORT.size + length
                reports.append(Sealed(report, configuration, data[at - length : at]))
        except (struct.error, ValueError, KeyError, TypeError, InvalidParameter) as error:
            raise BadGroup(f"this is no group of reports ({error})") from None
        if at != len(data) or not batches or not 1 <= len(reports) <= MOST_REPORTS:
            raise BadGroup(f"a group of {len(reports)} reports for {len(batches)} batches, or cut")
        return cls(number, batches, tuple(reports))


def bitmap(accepted: Sequence[bool]) -> bytes:
    """Which reports of a group count, a bit each, the first in the highest bit.

    >>> bitmap([True, False, True]).hex()
    'a0'
    """
    padded = [*accepted, *[False] * (-len(accepted) % 8)]
    return bytes(
        sum(bit << (7 - place) for place, bit in enumerate(padded[i : i + 8])) for i in range(0, len(padded), 8)
    )


def bits(answer: bytes, count: int) -> list[bool]:
    """The same read back; anything but one bit for each of `count` reports is refused."""
    accepted = [bool(byte >> (7 - place) & 1) for byte in answer for place in range(8)]
    if len(answer) != -(-count // 8) or any(accepted[count:]):
        raise BadGroup(f"{len(answer)} bytes where one bit for each of {count} reports is due")
    return accepted[:count]


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
