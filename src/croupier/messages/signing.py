"""Statements that travel with their signatures: a text, and who signed exactly that text.

A statement's body is canonical JSON, but nobody has to make it again to check it: the signature is over the bytes as
they were sent, so a client in another language needs no JSON of its own kind.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from croupier.checks import InvalidParameter
from croupier.messages.no_turn import NoTurn
from croupier.texts import canonical

SERVERS = ("analyzer", "front")
KINDS = ("configuration", "offer", "release", "head")
VERSION = 2
"""Of configurations, offers, receipts, heads and records."""
LONGEST = 2**20
"""No text that is signed or read is longer than this."""


class BadSignature(NoTurn):
    """A statement that its signer did not sign, or not in these words."""


def to_text(data: bytes) -> str:
    """Bytes as URL-safe base64 without padding, the form of every key, token and signature in JSON."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_text(name: str, text: object) -> bytes:
    """Read such bytes back, or refuse what is no such text."""
    if not isinstance(text, str) or not text.isascii():
        raise InvalidParameter(name, text, "bytes as URL-safe base64")
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidParameter(name, text[:60], "bytes as URL-safe base64") from None
    if to_text(data) != text:
        raise InvalidParameter(name, text[:60], "bytes as URL-safe base64, without padding")
    return data


@dataclass(frozen=True)
class Statement:
    """A kind, a body as text, and signatures by the name of the server that made them.

    >>> key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    >>> statement = Statement.of("offer", {"offer": 3}).signed("analyzer", key)
    >>> statement.check("analyzer", key.public_key().public_bytes_raw())
    >>> statement.body["offer"]
    3
    """

    kind: str
    text: str
    signatures: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, body: dict[str, Any]) -> Statement:
        assert kind in KINDS
        return cls(kind, canonical(body))

    @property
    def hash(self) -> bytes:
        """What names this statement: SHA-256 of its text."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def body(self) -> dict[str, Any]:
        return read_object(self.kind, self.text)

    def signed(self, server: str, key: Ed25519PrivateKey) -> Statement:
        """The same statement with one more signature."""
        return Statement(self.kind, self.text, {**self.signatures, server: key.sign(self._signed_bytes)})

    def check(self, server: str, key: bytes) -> None:
        """Refuse the statement unless the holder of this Ed25519 key signed it."""
        signature = self.signatures.get(server)
        if signature is None:
            raise BadSignature(f"this {self.kind} is not signed by the {server}")
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, self._signed_bytes)
        except (InvalidSignature, ValueError):
            raise BadSignature(f"the {server}'s signature does not fit this {self.kind}") from None

    def check_both(self, keys: Mapping[str, bytes]) -> None:
        """Refuse the statement unless both servers signed it."""
        for server in SERVERS:
            self.check(server, keys[server])

    @property
    def _signed_bytes(self) -> bytes:
        return b"croupier/2 " + self.kind.encode() + b"\0" + self.text.encode()

    def to_dict(self) -> dict[str, Any]:
        """The envelope as it travels."""
        return {"body": self.text, "signatures": {name: to_text(s) for name, s in sorted(self.signatures.items())}}

    @classmethod
    def from_dict(cls, kind: str, data: object) -> Statement:
        """Read an envelope; signatures by others than the two servers are left out."""
        if not isinstance(data, dict) or not isinstance(data.get("body"), str):
            raise InvalidParameter(kind, str(data)[:60], "an object with a text 'body' and 'signatures'")
        signatures = data.get("signatures")
        if not isinstance(signatures, dict):
            raise InvalidParameter("signatures", str(signatures)[:60], "an object of signatures by server")
        known = {name: from_text("signature", signatures[name]) for name in SERVERS if name in signatures}
        return cls(kind, data["body"], known)


def read_version(kind: str, text: str) -> dict[str, Any]:
    """The JSON object in a text of this version of the format, without the version."""
    body = read_object(kind, text)
    if body.pop("version", None) != VERSION:
        raise InvalidParameter(kind, text[:60], f"version {VERSION} of one")
    return body


def read_object(kind: str, text: object) -> dict[str, Any]:
    """The JSON object in a text, or a refusal; nothing that is signed is longer than `LONGEST`."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise InvalidParameter(kind, str(text)[:60], f"a text of at most {LONGEST} characters")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InvalidParameter(kind, text[:60], "a JSON object")
    return body
