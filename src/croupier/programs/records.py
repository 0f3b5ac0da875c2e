"""The lines of a log: each holds its number, the hash of all lines before, and the analyzer's signature.

So nobody can change, drop, insert or reorder a line, and whoever compares the hash of the last line, the head, with
somebody else has compared the whole log.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.messages.signing import VERSION, Statement, from_text, to_text
from croupier.protocols.mechanism import canonical

LABEL = b"croupier/2 record\0"
LONGEST_LINE = 2**24
"""Bytes; no record is longer than this."""

Record = dict[str, Any]


class BadRecord(CroupierError):
    """A line that does not follow the one before, or that its analyzer did not sign."""


@dataclass(frozen=True)
class Head:
    """The end of a log: the number of its last line, and the hash of all lines.

    Each line's digest is hashed together with the hash before it, so digests show that one head extends another.

    >>> head = Head()
    >>> key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    >>> line = make(head, {"event": "operated", "operation": "stop"}, key)
    >>> record = read(line, head)
    >>> check(line, record, key.public_key())
    >>> head.after(line).number
    0
    """

    number: int = -1
    hash: bytes = bytes(32)

    def after(self, line: str) -> Head:
        """Where the log ends with one more line."""
        return self.then(digest(line))

    def then(self, digest: bytes) -> Head:
        """Where it ends with one more line of this digest."""
        return Head(self.number + 1, hashlib.sha256(self.hash + digest).digest())

    def statement(self, experiment: str) -> Statement:
        """The head as a statement, which the analyzer signs and the front countersigns."""
        body = {"version": VERSION, "experiment": experiment, "number": self.number, "head": to_text(self.hash)}
        return Statement.of("head", body)

    @classmethod
    def from_statement(cls, statement: Statement, experiment: str) -> Head:
        """The head that a statement is about; one of another experiment is refused."""
        body = statement.body
        if (body.get("version"), body.get("experiment")) != (VERSION, experiment):
            raise InvalidParameter("head", statement.text[:60], f"version {VERSION} of a head of {experiment!r}")
        number = integer("number", body.get("number"), 0, 2**53 - 1)
        return cls(number, from_text("head", body.get("head")))


def digest(line: str) -> bytes:
    """What a line is in the hash of the log: SHA-256 of its text."""
    return hashlib.sha256(line.encode()).digest()


def make(head: Head, body: Record, key: Ed25519PrivateKey) -> str:
    """The line that follows a head."""
    record = body | {"number": head.number + 1, "previous": to_text(head.hash)}
    line = canonical(record | {"signature": to_text(key.sign(LABEL + canonical(record).encode()))})
    if len(line.encode()) > LONGEST_LINE:
        raise BadRecord(f"record {head.number + 1} would be longer than {LONGEST_LINE} bytes")
    return line


def read(line: str, head: Head) -> Record:
    """The record in a line that follows a head; who signed it is for `check`."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise BadRecord("this is no JSON object")
    # As it is written: 1.0 and true are equal to 1, and no numbers of records.
    if repr(record.get("number")) != str(head.number + 1):
        raise BadRecord(f"it is number {str(record.get('number'))[:20]}, and {head.number + 1} is due")
    if record.get("previous") != to_text(head.hash):
        raise BadRecord("it does not hold the hash of the lines before")
    return record


def check(line: str, record: Record, key: Ed25519PublicKey) -> None:
    """Refuse a record that the holder of this key did not sign, or not in these very words."""
    if canonical(record) != line:
        raise BadRecord("it is not in canonical form")
    said = canonical({name: value for name, value in record.items() if name != "signature"})
    try:
        key.verify(from_text("signature", record.get("signature")), LABEL + said.encode())
    except InvalidSignature:
        raise BadRecord("it was changed, or another key than the analyzer's signed it") from None
