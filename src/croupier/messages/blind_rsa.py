"""Blind RSA signatures (RFC 9474): a signer signs what it does not see, and knows neither message nor signature again.

The device multiplies the encoded message by r^e for a random unit r, the signer takes the e-th root, and the device
divides by r. For every message and every blinded message there is exactly one r between them, so the blinded message
is uniform whatever the message is: it hides the message from a signer with any amount of computing. The messages are
prepared by their users; with SHA-384 and a salt of 48 bytes this is RSABSSA-SHA384-PSS.

Python's whole numbers do not compute in constant time. What a device computes with secrets (r and the encoded message)
is fresh for every signature; a signer blinds its own exponentiation, see `croupier.service.issuing`.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA384

from croupier.checks import CroupierError

HASH = 48
SALT = 48
EXPONENT = 65537


class BlindingProblem(CroupierError):
    """A signature that does not fit its message, or numbers that cannot be of this key."""


@dataclass(frozen=True)
class PublicKey:
    """An RSA public key as numbers."""

    modulus: int
    exponent: int = EXPONENT

    @property
    def size(self) -> int:
        """The length of a signature in bytes."""
        return -(-self.modulus.bit_length() // 8)


def encode(message: bytes, bits: int, salt: bytes) -> bytes:
    """EMSA-PSS-ENCODE (RFC 8017, 9.1.1) with SHA-384: the message as a number of so many bits."""
    length = -(-bits // 8)
    space = length - HASH - 1
    if space < len(salt) + 1:
        raise BlindingProblem(f"a modulus of {bits + 1} bits is too short for a salt of {len(salt)} bytes")
    digest = _sha384(bytes(8) + _sha384(message) + salt)
    block = bytes(space - len(salt) - 1) + b"\x01" + salt
    masked = bytearray(a ^ b for a, b in zip(block, _mask(digest, space), strict=True))
    masked[0] &= 0xFF >> (8 * length - bits)
    return bytes(masked) + digest + b"\xbc"


def blind(key: PublicKey, message: bytes, salt: bytes | None = None, factor: int | None = None) -> tuple[bytes, int]:
    """What is sent to the signer, and what undoes the blinding; only a test gives salt and factor.

    >>> key = PublicKey(2**2048 - 1942289)
    >>> first, second = blind(key, b"a ballot"), blind(key, b"a ballot")
    >>> len(first[0]), first[0] == second[0]
    (256, False)
    """
    salt = secrets.token_bytes(SALT) if salt is None else salt
    number = int.from_bytes(encode(message, key.modulus.bit_length() - 1, salt), "big")
    if math.gcd(number, key.modulus) != 1:
        raise BlindingProblem("the encoded message shares a factor with the modulus")
    factor = unit(key.modulus) if factor is None else factor
    blinded = number * pow(factor, key.exponent, key.modulus) % key.modulus
    return blinded.to_bytes(key.size, "big"), pow(factor, -1, key.modulus)


def finalize(key: PublicKey, message: bytes, blind_signature: bytes, inverse: int, salt_length: int = SALT) -> bytes:
    """The signature of the message, checked: what a signer sends that is none is refused."""
    if len(blind_signature) != key.size:
        raise BlindingProblem(f"the issuer's answer has {len(blind_signature)} bytes, and {key.size} are due")
    number = int.from_bytes(blind_signature, "big") * inverse % key.modulus
    signature = number.to_bytes(key.size, "big")
    if not verify(key, message, signature, salt_length):
        raise BlindingProblem("the issuer's answer is no signature of what was sent")
    return signature


def verify(key: PublicKey, message: bytes, signature: bytes, salt_length: int = SALT) -> bool:
    """Whether this is a signature of the message: RSASSA-PSS with SHA-384."""
    try:
        _loaded(key).verify(signature, message, PSS(MGF1(SHA384()), salt_length), SHA384())
    except InvalidSignature:
        return False
    return True


def unit(modulus: int) -> int:
    """A uniform number that has an inverse."""
    while True:
        found = secrets.randbelow(modulus)
        if math.gcd(found, modulus) == 1:
            return found


@lru_cache(maxsize=16)
def _loaded(key: PublicKey) -> RSAPublicKey:
    return RSAPublicNumbers(key.exponent, key.modulus).public_key()


def _mask(seed: bytes, length: int) -> bytes:
    """MGF1 with SHA-384."""
    blocks = -(-length // HASH)
    return b"".join(_sha384(seed + counter.to_bytes(4, "big")) for counter in range(blocks))[:length]


def _sha384(data: bytes) -> bytes:
    return hashlib.sha384(data).digest()
