"""One-time tokens: the front's own word that somebody was given this turn. It keeps none until one is spent."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct

from croupier.service.problems import Problem

_TOKEN = struct.Struct(">16sQ32s")


def issue(key: bytes, experiment: str, offer: int, expires: int, ticket: bytes | None = None) -> bytes:
    """A token for one turn: an id, when it expires, and the front's seal on both.

    The id is random, or follows from a ticket: then all tokens of that ticket are spent together.

    >>> token = issue(bytes(32), "homepage", 3, expires=100)
    >>> len(token), redeem(bytes(32), token, "homepage", 3) == hashlib.sha256(token[:16]).digest()
    (56, True)
    """
    name = secrets.token_bytes(16) if ticket is None else _admitted(experiment, ticket)
    return _TOKEN.pack(name, expires, _seal(key, experiment, offer, expires, name))


def holder(experiment: str, ticket: bytes) -> bytes:
    """What the spending of a ticket's tokens is remembered by; see `redeem`."""
    return hashlib.sha256(_admitted(experiment, ticket)).digest()


def _admitted(experiment: str, ticket: bytes) -> bytes:
    # Without the key, so that a ticket stays spent when the key is replaced.
    return hashlib.sha256(b"croupier/2 admitted\0" + experiment.encode() + b"\0" + ticket).digest()[:16]


def redeem(key: bytes, token: bytes, experiment: str, offer: int) -> bytes:
    """Check a token and return what its spending is remembered by: a hash, which no later theft turns into a token.

    Whether it has expired is another question: a report that was accepted in time may be sent again later.
    """
    name, expires, seal = _TOKEN.unpack(token)
    if not hmac.compare_digest(seal, _seal(key, experiment, offer, expires, name)):
        raise Problem("bad-token")
    return hashlib.sha256(name).digest()


def expiry(token: bytes) -> int:
    """When a token expires."""
    return int(_TOKEN.unpack(token)[1])


def _seal(key: bytes, experiment: str, offer: int, expires: int, name: bytes) -> bytes:
    said = b"croupier/2 token\0" + experiment.encode() + b"\0" + struct.pack(">IQ", offer, expires) + name
    return hmac.digest(key, said, "sha256")
