"""Encryption to one server at a time: HPKE (RFC 9180) in one shot, with a fresh encapsulation for every message."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from croupier.checks import CroupierError, InvalidParameter, one_of

TAG = 16
KEY_ID = 8


class Unopenable(CroupierError):
    """A ciphertext that this key and this context do not open."""


@dataclass(frozen=True)
class SealingSuite:
    """One choice of primitives: its number on the wire, its name, and how its keys are made and read."""

    number: int
    name: str
    hpke: Suite
    encapsulation: int
    generate: Callable[[], bytes]
    read_private: Callable[[bytes], Any]
    read_public: Callable[[bytes], Any]
    public_of: Callable[[bytes], bytes]

    @property
    def overhead(self) -> int:
        """How much longer a ciphertext is than its plaintext."""
        return self.encapsulation + TAG


def _hybrid_private(data: bytes) -> MLKEM768X25519PrivateKey:
    if len(data) != 96:
        raise ValueError("a hybrid private key has 96 bytes")
    return MLKEM768X25519PrivateKey(
        MLKEM768PrivateKey.from_seed_bytes(data[:64]), X25519PrivateKey.from_private_bytes(data[64:])
    )


def _hybrid_public(data: bytes) -> MLKEM768X25519PublicKey:
    if len(data) != 1216:
        raise ValueError("a hybrid public key has 1216 bytes")
    return MLKEM768X25519PublicKey(
        MLKEM768PublicKey.from_public_bytes(data[:1184]), X25519PublicKey.from_public_bytes(data[1184:])
    )


def _hybrid_generate() -> bytes:
    return MLKEM768PrivateKey.generate().private_bytes_raw() + X25519PrivateKey.generate().private_bytes_raw()


def _hybrid_public_of(data: bytes) -> bytes:
    lattice = MLKEM768PrivateKey.from_seed_bytes(data[:64]).public_key().public_bytes_raw()
    return lattice + X25519PrivateKey.from_private_bytes(data[64:]).public_key().public_bytes_raw()


def _curve(number: int, name: str, aead: AEAD) -> SealingSuite:
    return SealingSuite(
        number,
        name,
        Suite(KEM.X25519, KDF.HKDF_SHA256, aead),
        KEM.X25519.enc_length(),
        lambda: X25519PrivateKey.generate().private_bytes_raw(),
        X25519PrivateKey.from_private_bytes,
        X25519PublicKey.from_public_bytes,
        lambda data: X25519PrivateKey.from_private_bytes(data).public_key().public_bytes_raw(),
    )


SUITES: dict[str, SealingSuite] = {
    suite.name: suite
    for suite in (
        _curve(1, "x25519-aes128gcm", AEAD.AES_128_GCM),
        _curve(2, "x25519-chacha20poly1305", AEAD.CHACHA20_POLY1305),
        SealingSuite(
            3,
            "mlkem768-x25519-aes128gcm",
            Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM),
            KEM.MLKEM768_X25519.enc_length(),
            _hybrid_generate,
            _hybrid_private,
            _hybrid_public,
            _hybrid_public_of,
        ),
    )
}
"""Every suite by name; all derive keys with HKDF-SHA256. The last one also withstands a quantum computer."""

DEFAULT_SUITE = "x25519-aes128gcm"


def suite(name: str) -> SealingSuite:
    """A suite by its name, or a refusal that lists them."""
    return SUITES[one_of("suite", name, tuple(SUITES))]


def key_id(public: bytes) -> bytes:
    """What names a public key on the wire: the first eight bytes of its SHA-256."""
    return hashlib.sha256(public).digest()[:KEY_ID]


def seal(suite_name: str, public: bytes, plaintext: bytes, info: bytes) -> bytes:
    """Encrypt to a public key within a context; the encapsulated key comes first.

    >>> private = SUITES[DEFAULT_SUITE].generate()
    >>> public = SUITES[DEFAULT_SUITE].public_of(private)
    >>> unseal(DEFAULT_SUITE, private, seal(DEFAULT_SUITE, public, b"one", b"here"), b"here")
    b'one'
    """
    return SUITES[suite_name].hpke.encrypt(plaintext, _public(suite_name, public), info)


def unseal(suite_name: str, private: bytes, ciphertext: bytes, info: bytes) -> bytes:
    """Decrypt, or raise `Unopenable`: another key, another context, or changed bytes."""
    try:
        return SUITES[suite_name].hpke.decrypt(ciphertext, _private(suite_name, private), info)
    except (InvalidTag, ValueError):
        raise Unopenable("the ciphertext does not open") from None


def check_public(suite_name: str, public: bytes) -> None:
    """Refuse what is no public key of this suite."""
    try:
        suite(suite_name).read_public(public)
    except ValueError:
        raise InvalidParameter("public key", public.hex()[:60], f"a public key of {suite_name}") from None


@lru_cache(maxsize=64)
def _public(suite_name: str, public: bytes) -> Any:
    return SUITES[suite_name].read_public(public)


@lru_cache(maxsize=64)
def _private(suite_name: str, private: bytes) -> Any:
    return SUITES[suite_name].read_private(private)
