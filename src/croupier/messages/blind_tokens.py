"""Blind tokens: an issuer admits somebody once without learning where, and a front without learning whom.

These are the publicly verifiable tokens of Privacy Pass: token type 2, blind RSA with 2048 bits (RFC 9578, section 6).
The challenge that a token answers (RFC 9577) is computed by device and front alike from what both servers signed, and
is never taken from a server: a challenge of its own for each user would tell them apart.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from dataclasses import dataclass, field
from typing import ClassVar

from croupier.checks import InvalidParameter
from croupier.messages.admittance import Door, Kind, NotAdmitted
from croupier.messages.blind_rsa import PublicKey, blind, finalize, verify
from croupier.messages.signing import to_text

TYPE = 2
SIZE = 256
REQUEST_TYPE = "application/private-token-request"
RESPONSE_TYPE = "application/private-token-response"
TOKEN = struct.Struct(">H32s32s32s256s")
REQUEST = struct.Struct(">HB256s")

# A public key is DER all around its modulus: RSASSA-PSS with SHA-384, MGF1 and a salt of 48 bytes, exponent 65537
# (RFC 9578, 8.2.2). One form, so that nobody has to read ASN.1, and two keys are equal if their bytes are.
_BEFORE = bytes.fromhex(
    "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108"
    "300b0609608648016503040202a2030201300382010f003082010a0282010100"
)
_AFTER = bytes.fromhex("0203010001")
KEY_BYTES = len(_BEFORE) + SIZE + len(_AFTER)


class Tokens(Kind):
    """Who shows a token that the holder of an RSA key signed blindly."""

    name = "tokens"
    key = "an RSA public key (2048 bits, RSASSA-PSS, SPKI in DER)"
    key_length = KEY_BYTES
    # A token has no date: it is good, and spent, as long as its issuer's key is.
    lasting = True

    def fits(self, issuer: bytes | None) -> bool:
        return super().fits(issuer) and issuer is not None and _modulus(issuer) is not None

    def words(self, issuer: bytes) -> str:
        return f"who has a token of the key {to_text(key_id(issuer))}"

    def check(self, issuer: bytes, shown: bytes, door: Door) -> bytes:
        return check(issuer, shown, challenge(issuer, door.experiment, door.front))


@dataclass(frozen=True)
class TokenRequest:
    """A token on its way: `body` goes to the issuer with `headers`, and `finish` makes the token of its answer.

    Everything else stays on the device: whoever knows it can tell which token came of which request.
    """

    body: bytes
    said: bytes = field(repr=False)
    inverse: int = field(repr=False)
    issuer: bytes = field(repr=False)
    headers: ClassVar[dict[str, str]] = {"content-type": REQUEST_TYPE, "accept": RESPONSE_TYPE}

    def finish(self, answer: bytes) -> bytes:
        """The token, 354 bytes; what is no answer of the issuer's key is refused."""
        return self.said + finalize(read_key(self.issuer), self.said, answer, self.inverse)


def challenge(issuer: bytes, experiment: str, front: bytes) -> bytes:
    """What a token of one experiment at one front answers: a TokenChallenge (RFC 9577, 2.1).

    Its issuer's name is its key's, it names no origin, and its redemption context is a hash of the experiment's name
    and the front's signing key: what both servers signed and no revision changes. So all who take part have the same.
    """
    context = hashlib.sha256(b"croupier/2 admission\0" + experiment.encode() + b"\0" + front).digest()
    return challenge_of(to_text(key_id(issuer)).encode(), context, b"")


def challenge_of(issuer_name: bytes, context: bytes, origins: bytes) -> bytes:
    """The bytes of a TokenChallenge."""
    parts = (len(issuer_name).to_bytes(2, "big"), issuer_name, len(context).to_bytes(1, "big"), context)
    return TYPE.to_bytes(2, "big") + b"".join(parts) + len(origins).to_bytes(2, "big") + origins


def request(
    issuer: bytes, asked: bytes, *, nonce: bytes | None = None, salt: bytes | None = None, factor: int | None = None
) -> TokenRequest:
    """Begin a token that answers a challenge; only a test gives nonce, salt and factor."""
    nonce = secrets.token_bytes(32) if nonce is None else nonce
    name = key_id(issuer)
    said = TYPE.to_bytes(2, "big") + nonce + hashlib.sha256(asked).digest() + name
    blinded, inverse = blind(read_key(issuer), said, salt, factor)
    return TokenRequest(REQUEST.pack(TYPE, name[-1], blinded), said, inverse, issuer)


def check(issuer: bytes, token: bytes, asked: bytes) -> bytes:
    """The name under which a token is spent, or a refusal: another form, issuer or challenge, or forged."""
    if len(token) != TOKEN.size or token[:2] != TYPE.to_bytes(2, "big"):
        raise NotAdmitted(f"a token of type {TYPE} and {TOKEN.size} bytes is needed")
    _, _, digest, name, signature = TOKEN.unpack(token)
    if name != key_id(issuer):
        raise NotAdmitted("the token is of another issuer's key")
    if digest != hashlib.sha256(asked).digest():
        raise NotAdmitted("the token is for another experiment or front")
    said = token[:-SIZE]
    if not verify(read_key(issuer), said, signature):
        raise NotAdmitted("the issuer did not sign this token")
    # By what was signed, not by the signature: two of the same would be one token.
    return hashlib.sha256(said).digest()


def key_id(issuer: bytes) -> bytes:
    """What names an issuer's key in requests and tokens."""
    return hashlib.sha256(issuer).digest()


def read_key(issuer: bytes) -> PublicKey:
    """The public key in these bytes, or a refusal of any other form."""
    modulus = _modulus(issuer)
    if modulus is None:
        raise InvalidParameter("issuer", to_text(issuer)[:60], f"{Tokens.key} of {KEY_BYTES} bytes")
    return PublicKey(modulus)


def key_bytes(modulus: int) -> bytes:
    """A public key as it is signed and published."""
    return _BEFORE + modulus.to_bytes(SIZE, "big") + _AFTER


def _modulus(issuer: bytes) -> int | None:
    if len(issuer) != KEY_BYTES or not issuer.startswith(_BEFORE) or not issuer.endswith(_AFTER):
        return None
    modulus = int.from_bytes(issuer[len(_BEFORE) : -len(_AFTER)], "big")
    return modulus if modulus.bit_length() == 8 * SIZE and modulus % 2 else None
