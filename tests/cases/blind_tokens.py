"""Two issuers of blind tokens, and tokens of theirs."""

from __future__ import annotations

from croupier.messages.blind_tokens import challenge, request
from croupier.service.issuing import TokenIssuer, make_key

ISSUERS = (TokenIssuer(make_key()), TokenIssuer(make_key()))
FRONT = bytes(range(32))


def asked(issuer: TokenIssuer = ISSUERS[0], experiment: str = "colours", front: bytes = FRONT) -> bytes:
    """The challenge of an experiment."""
    return challenge(issuer.public, experiment, front)


def token_of(issuer: TokenIssuer, experiment: str = "colours", front: bytes = FRONT) -> bytes:
    """A token, asked for and answered as over HTTP."""
    made = request(issuer.public, asked(issuer, experiment, front))
    return made.finish(issuer.answer(made.body))
