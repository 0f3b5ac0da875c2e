"""Tickets: how a third party that knows people admits each of them once, without the analyzer having a say.

An issuer, such as an app's login server, signs tickets with its own key; a shuffler that is told the issuer's public
key gives turns to ticket holders only. The token of a turn is named by its ticket, so that one ticket is one report in
an experiment however often its holder asks for a turn.
"""

from __future__ import annotations

import secrets
import struct

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from croupier.service.problems import Problem

_TICKET = struct.Struct(">16sQ64s")


def issue(key: Ed25519PrivateKey, experiment: str, expires: int) -> bytes:
    """One ticket for one experiment, valid until `expires` (seconds of Unix time).

    >>> key = Ed25519PrivateKey.generate()
    >>> ticket = issue(key, "onboarding", expires=100)
    >>> check(key.public_key().public_bytes_raw(), ticket, "onboarding", now=99.0, longest=60) == ticket[:16]
    True
    """
    name = secrets.token_bytes(16)
    return _TICKET.pack(name, expires, key.sign(_said(experiment, name, expires)))


def check(issuer: bytes, ticket: bytes, experiment: str, now: float, longest: float) -> bytes:
    """A ticket's name, or a refusal: another signer, another experiment, expired, or valid for too long."""
    if len(ticket) != _TICKET.size:
        raise Problem("not-admitted", "a ticket is needed")
    name, expires, signature = _TICKET.unpack(ticket)
    try:
        Ed25519PublicKey.from_public_bytes(issuer).verify(signature, _said(experiment, name, expires))
    except InvalidSignature:
        raise Problem("not-admitted", "the ticket is not one of the issuer's for this experiment") from None
    if not now < expires <= now + longest:
        raise Problem("not-admitted", "the ticket has expired, or is valid for longer than spent ones are remembered")
    return bytes(name)


def _said(experiment: str, name: bytes, expires: int) -> bytes:
    return b"croupier/2 ticket\0" + experiment.encode() + b"\0" + name + expires.to_bytes(8, "big")
