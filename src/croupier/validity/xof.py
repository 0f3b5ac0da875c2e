"""Bytes and numbers from a seed: XofTurboShake128.

The library's call takes about 20 µs, nearly all of it around the hashing itself; a group is hashed report by report.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from Crypto.Hash import TurboSHAKE128

from croupier.validity.fields import Field

VERSION = 18
SEED = 32
"""Bytes of a seed, of a verification key, of a blind and of a part of the joint randomness."""


class Usage(IntEnum):
    """What the output is for; every use has a tag of its own."""

    MEASUREMENT_SHARE = 1
    PROOF_SHARE = 2
    JOINT_RANDOMNESS = 3
    PROVE_RANDOMNESS = 4
    QUERY_RANDOMNESS = 5
    JOINT_SEED = 6
    JOINT_PART = 7


class Stream(Protocol):
    """An output of any length."""

    def read(self, length: int, /) -> bytes: ...


def tag(algorithm: int, usage: int, context: bytes) -> bytes:
    """What separates one use, in one algorithm and one context, from all others."""
    return bytes([VERSION, 0]) + algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big") + context


def stream(seed: bytes, tag: bytes, binder: bytes) -> Stream:
    """The output for a seed, a tag and whatever else the parties agree on.

    >>> stream(bytes(32), b"tag", b"binder").read(4).hex()
    '034ea674'
    """
    message = b"".join((len(tag).to_bytes(2, "little"), tag, bytes([len(seed)]), seed, binder))
    return TurboSHAKE128.new(domain=1, data=message)


def derive_seed(seed: bytes, tag: bytes, binder: bytes) -> bytes:
    """Another seed."""
    return stream(seed, tag, binder).read(SEED)


def expand(field: Field, seed: bytes, tag: bytes, binder: bytes, length: int) -> list[int]:
    """`length` numbers of a field, each uniform: words that are no number of the field are passed over."""
    return numbers(field, stream(seed, tag, binder), length)


def numbers(field: Field, output: Stream, length: int) -> list[int]:
    """The first `length` words of an output that are below the modulus."""
    found: list[int] = []
    while len(found) < length:
        words = field.words(output.read((length - len(found)) * field.size))
        found += [word for word in words if word < field.modulus]
    return found
