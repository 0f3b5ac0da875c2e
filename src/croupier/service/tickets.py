"""Tickets: how a third party that knows people admits each of them once, without the analyzer having a say.

An issuer, such as an app's login server, signs tickets with its own key; a front that is told the issuer's public
key gives turns to ticket holders only. The token of a turn is named by its ticket, so that one ticket is one report in
an experiment however often its holder asks for a turn. Tickets expire at the end of a day (UTC), so that all those of a
day look alike: a front and an issuer who compare notes do not learn who got one at which second.
"""

from __future__ import annotations

import secrets
import struct

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from croupier.service.problems import Problem

DAY = 86_400
_TICKET = struct.Struct(">16sQ64s")


def issue(key: Ed25519PrivateKey, experiment: str, expires: int) -> bytes:
    """One ticket for one experiment, valid until the end of the day of `expires` (seconds of Unix time).

    >>> key = Ed25519PrivateKey.generate()
    >>> ticket = issue(key, "onboarding", expires=100)
    >>> check(key.public_key().public_bytes_raw(), ticket, "onboarding", now=99.0, longest=DAY) == ticket[:16]
    True
    """
    name, day = secrets.token_bytes(16), -(-expires // DAY) * DAY
    return _TICKET.pack(name, day, key.sign(_said(experiment, name, day)))


def check(issuer: bytes, ticket: bytes, experiment: str, now: float, longest: float) -> bytes:
    """A ticket's name, or a refusal: another signer or experiment, expired, valid for too long or to an odd second."""
    if len(ticket) != _TICKET.size:
        raise Problem("not-admitted", f"a ticket of {_TICKET.size} bytes is needed")
    name, expires, signature = _TICKET.unpack(ticket)
    try:
        Ed25519PublicKey.from_public_bytes(issuer).verify(signature, _said(experiment, name, expires))
    except InvalidSignature:
        raise Problem("not-admitted", "the ticket is not one of the issuer's for this experiment") from None
    if expires % DAY:
        raise Problem("not-admitted", "the ticket does not expire at the end of a day, so it tells when it was issued")
    if not now < expires <= now + longest:
        raise Problem("not-admitted", "the ticket has expired, or is valid for longer than spent ones are remembered")
    return bytes(name)


def _said(experiment: str, name: bytes, expires: int) -> bytes:
    return b"croupier/2 ticket\0" + experiment.encode() + b"\0" + name + expires.to_bytes(8, "big")
