"""An issuer of blind tokens: it admits each person once, and does not learn to what; for an app's own login server.

`TokenIssuer.answer` is all of the issuance protocol of Privacy Pass, token type 2 (RFC 9578, 6.2), that needs the key.
Who may have a token, and how many, is the issuer's to know. It cannot tell experiments apart: what it signs is blinded.
So a person has as many reports, in all experiments that are admitted to by this key together, as they got tokens.
"""

from __future__ import annotations

import secrets

from cryptography.hazmat.primitives.asymmetric import rsa

from croupier.checks import CroupierError, InvalidParameter
from croupier.messages.blind_rsa import EXPONENT, BlindingProblem, unit
from croupier.messages.blind_tokens import REQUEST, SIZE, TYPE, key_bytes, key_id

BITS = 8 * SIZE
_SPREAD = 64
"""Bits of the random multiple that is added to an exponent."""


class Unprocessable(CroupierError):
    """A request for a token that cannot be answered: over HTTP it is status 422."""


def make_key() -> rsa.RSAPrivateKey:
    """A new key, for tokens and nothing else."""
    return rsa.generate_private_key(public_exponent=EXPONENT, key_size=BITS)


class TokenIssuer:
    """Signs blinded tokens with an RSA key.

    >>> from croupier.messages.blind_tokens import challenge, check, request
    >>> issuer = TokenIssuer(make_key())
    >>> asked = challenge(issuer.public, "onboarding", front=bytes(32))
    >>> token_request = request(issuer.public, asked)
    >>> token = token_request.finish(issuer.answer(token_request.body))
    >>> len(token_request.body), len(token), len(check(issuer.public, token, asked))
    (259, 354, 32)
    """

    def __init__(self, key: object) -> None:
        form = f"an RSA key of {BITS} bits with the exponent {EXPONENT}"
        if not isinstance(key, rsa.RSAPrivateKey):
            raise InvalidParameter("key", type(key).__name__, form)
        numbers = key.private_numbers()
        public = numbers.public_numbers
        if public.n.bit_length() != BITS or public.e != EXPONENT:
            raise InvalidParameter("key", f"{public.n.bit_length()} bits, exponent {public.e}", form)
        self.public = key_bytes(public.n)
        self._numbers = numbers

    def answer(self, body: bytes) -> bytes:
        """The answer to a token request, as both travel."""
        if len(body) != REQUEST.size:
            raise Unprocessable(f"a token request has {REQUEST.size} bytes, and this one {len(body)}")
        kind, name, blinded = REQUEST.unpack(body)
        if kind != TYPE:
            raise Unprocessable(f"tokens of type {TYPE} are issued, and not of type {kind}")
        if name != key_id(self.public)[-1]:
            raise Unprocessable("the request is for another key than this issuer's")
        number = int.from_bytes(blinded, "big")
        if number >= self._numbers.public_numbers.n:
            raise Unprocessable("the request is no number below the key's modulus")
        return blind_sign(self._numbers, number).to_bytes(SIZE, "big")


def blind_sign(numbers: rsa.RSAPrivateNumbers, number: int) -> int:
    """A number to the private exponent: BlindSign of RFC 9474, 4.3.

    Neither the base nor the exponents are what was sent or the key's own: Python's powers take a time that depends on
    both. A wrong result, of which the key could be computed, does not leave.
    """
    modulus, exponent = numbers.public_numbers.n, numbers.public_numbers.e
    factor = unit(modulus)
    base = number * pow(factor, exponent, modulus) % modulus
    at_p = pow(base, numbers.dmp1 + secrets.randbits(_SPREAD) * (numbers.p - 1), numbers.p)
    at_q = pow(base, numbers.dmq1 + secrets.randbits(_SPREAD) * (numbers.q - 1), numbers.q)
    root = at_q + numbers.q * ((at_p - at_q) * numbers.iqmp % numbers.p)
    if pow(root, exponent, modulus) != base:
        raise BlindingProblem("the signature came out wrong, and is not sent")
    return root * pow(factor, -1, modulus) % modulus
