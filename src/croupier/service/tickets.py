"""Tickets: how a third party that knows people admits each of them once, without the analyzer having a say.

An issuer, such as an app's login server, signs tickets with its own key; a front that is told the issuer's public
key gives turns to ticket holders only. The token of a turn is named by its ticket, so that one ticket is one report in
an experiment however often its holder asks for a turn. Tickets expire at the end of a day (UTC), so that all those of a
day look alike: a front and an issuer who compare notes do not learn who got one at which second. Who got one they do
learn: `croupier.service.issuing` has tokens that do not tell.
"""

from __future__ import annotations

import secrets

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from croupier.messages.tickets import DAY, TICKET, check, said

__all__ = ["DAY", "check", "issue"]


def issue(key: Ed25519PrivateKey, experiment: str, expires: int) -> bytes:
    """One ticket for one experiment, valid until the end of the day of `expires` (seconds of Unix time).

    >>> key = Ed25519PrivateKey.generate()
    >>> ticket = issue(key, "onboarding", expires=100)
    >>> check(key.public_key().public_bytes_raw(), ticket, "onboarding", now=99.0, longest=DAY) == ticket[:16]
    True
    """
    name, day = secrets.token_bytes(16), -(-expires // DAY) * DAY
    return TICKET.pack(name, day, key.sign(said(experiment, name, day)))
