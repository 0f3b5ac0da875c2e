"""The report as bytes, from its sealed messages to the body of an upload; `docs/wire.md` gives every byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from croupier.checks import CroupierError
from croupier.messages.sealing import KEY_ID

VERSION = 2
REPORT_ID, TOKEN, HASH = 16, 56, 32
LONGEST_UPLOAD = 2**21
"""No upload is longer than this."""

_HEADER = struct.Struct(f">BB{KEY_ID}s{HASH}s")
HEADER = _HEADER.size
"""Bytes of an upload before the sealed report."""
_BUNDLE = struct.Struct(f">{REPORT_ID}s{TOKEN}sIB")
_PART = struct.Struct(">IHH")


class Malformed(CroupierError):
    """Bytes that are no report."""


def message_info(experiment: str, pin: bytes, batch: bytes) -> bytes:
    """What a message sealed to the analyzer is bound to: experiment, the batch's pinned configuration, and its hash."""
    return b"croupier/2 message\0" + experiment.encode() + b"\0" + pin + batch


def report_info(experiment: str, configuration: bytes) -> bytes:
    """What a report sealed to the front is bound to."""
    return b"croupier/2 report\0" + experiment.encode() + b"\0" + configuration


@dataclass(frozen=True)
class Envelope:
    """The body of an upload: which key opens it, under which configuration, and the sealed report."""

    suite: int
    key: bytes
    configuration: bytes
    sealed: bytes

    def to_bytes(self) -> bytes:
        return _HEADER.pack(VERSION, self.suite, self.key, self.configuration) + self.sealed

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope:
        if len(data) <= _HEADER.size:
            raise Malformed(f"an upload has more than {_HEADER.size} bytes, and this one has {len(data)}")
        version, suite, key, configuration = _HEADER.unpack_from(data)
        if version != VERSION:
            raise Malformed(f"an upload of version {version}, where {VERSION} is known")
        return cls(suite, key, configuration, data[_HEADER.size :])


@dataclass(frozen=True)
class Part:
    """The sealed messages that a report adds to one batch."""

    batch: int
    messages: tuple[bytes, ...]


@dataclass(frozen=True)
class Report:
    """What the front reads: its own token, the report's name, the offer, and sealed messages for each batch."""

    report: bytes
    token: bytes
    offer: int
    parts: tuple[Part, ...]

    def to_bytes(self) -> bytes:
        pieces = [_BUNDLE.pack(self.report, self.token, self.offer, len(self.parts))]
        for part in self.parts:
            pieces.append(_PART.pack(part.batch, len(part.messages), len(part.messages[0])))
            pieces += part.messages
        return b"".join(pieces)

    @classmethod
    def from_bytes(cls, data: bytes) -> Report:
        """Read a report; every byte must have its place."""
        try:
            report, token, offer, count = _BUNDLE.unpack_from(data)
            at, parts = _BUNDLE.size, []
            for _ in range(count):
                batch, number, length = _PART.unpack_from(data, at)
                at += _PART.size
                end = at + number * length
                if not number or not length or end > len(data):
                    raise Malformed("a report is shorter than it says")
                parts.append(Part(batch, tuple(data[i : i + length] for i in range(at, end, length))))
                at = end
        except struct.error:
            raise Malformed("a report is shorter than its header") from None
        if at != len(data) or not parts:
            raise Malformed("a report has bytes that belong to nothing")
        return cls(report, token, offer, tuple(parts))


def upload_bytes(parts: Iterable[tuple[int, int]], overhead: int) -> int:
    """The length of every upload of an offer, whatever is in it: for each batch the number of its sealed messages and
    their length, and what sealing adds to the whole.
    """
    return _HEADER.size + _BUNDLE.size + sum(_PART.size + number * length for number, length in parts) + overhead
