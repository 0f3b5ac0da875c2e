"""Tickets: an issuer's signature that somebody is admitted once. Issuer and front together can tell who it was.

A ticket is a random name of 16 bytes, when it expires, and an Ed25519 signature of both and of the experiment.
"""

from __future__ import annotations

import struct

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from croupier.messages.admittance import Door, Kind, NotAdmitted
from croupier.messages.signing import to_text

DAY = 86_400
TICKET = struct.Struct(">16sQ64s")


class Tickets(Kind):
    """Who shows a ticket of the holder of an Ed25519 key."""

    name = "tickets"
    key = "an Ed25519 public key"
    key_length = 32
    # Tickets end with a day, so a shorter memory would refuse good ones.
    shortest_memory = DAY

    def words(self, issuer: bytes) -> str:
        return f"who has a ticket of {to_text(issuer)}"

    def check(self, issuer: bytes, shown: bytes, door: Door) -> bytes:
        return check(issuer, shown, door.experiment, door.now, door.memory)


def check(issuer: bytes, ticket: bytes, experiment: str, now: float, longest: float) -> bytes:
    """A ticket's name, or a refusal: another signer or experiment, expired, valid for too long or to an odd second."""
    if len(ticket) != TICKET.size:
        raise NotAdmitted(f"a ticket of {TICKET.size} bytes is needed")
    name, expires, signature = TICKET.unpack(ticket)
    try:
        Ed25519PublicKey.from_public_bytes(issuer).verify(signature, said(experiment, name, expires))
    except InvalidSignature:
        raise NotAdmitted("the ticket is not one of the issuer's for this experiment") from None
    if expires % DAY:
        raise NotAdmitted("the ticket does not expire at the end of a day, so it tells when it was issued")
    if not now < expires <= now + longest:
        raise NotAdmitted("the ticket has expired, or is valid for longer than spent ones are remembered")
    return bytes(name)


def said(experiment: str, name: bytes, expires: int) -> bytes:
    """What an issuer signs."""
    return b"croupier/2 ticket\0" + experiment.encode() + b"\0" + name + expires.to_bytes(8, "big")
