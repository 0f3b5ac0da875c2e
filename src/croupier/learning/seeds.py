"""The public seed that all users share, and the random numbers that everyone derives from it alike."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter
from croupier.noise import Source

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

KEY_BYTES = 32


@dataclass(frozen=True)
class Seed:
    """Public randomness: not secret, but chosen independently of every user's data.

    A 64-bit word belongs to every index: the first half of AES-256 of the index, under the seed as the key. So a
    device computes the words that it needs, in any order, and gets the same ones as every other device.

    >>> Seed.of(7).words([5]) == Seed.of(7).words(range(6))[5:]
    array([ True])
    """

    key: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.key, bytes) or len(self.key) != KEY_BYTES:
            raise InvalidParameter("key", self.key, f"{KEY_BYTES} bytes")

    @classmethod
    def of(cls, value: int | str | bytes | Seed) -> Seed:
        """The seed that a published number, text or byte string stands for."""
        if isinstance(value, Seed):
            return value
        if isinstance(value, bool) or not isinstance(value, int | np.integer | str | bytes):
            raise InvalidParameter("seed", value, "a whole number, a text or bytes")
        return cls(b"\0" * KEY_BYTES).child(value if isinstance(value, str | bytes) else int(value))

    @classmethod
    def draw(cls, source: Source) -> Seed:
        """A fresh one."""
        return cls(source.words(KEY_BYTES // 8).astype("<u8").tobytes())

    def child(self, *labels: int | str | bytes) -> Seed:
        """An independent seed for one purpose."""
        digest = hashlib.blake2b(key=self.key, digest_size=KEY_BYTES)
        for label in labels:
            text = label if isinstance(label, bytes) else str(label).encode()
            # Kind and length first: no two lists of labels have the same text.
            digest.update(f"{type(label).__name__}:{len(text)}:".encode() + text)
        return Seed(digest.digest())

    def words(self, index: ArrayLike, second: ArrayLike = 0) -> Words:
        """The word of each index, or of each pair of indices."""
        first = np.asarray(index, dtype=np.uint64)
        pair = np.broadcast_arrays(first, np.asarray(second, dtype=np.uint64))
        blocks = np.ascontiguousarray(np.stack(pair, axis=-1), dtype="<u8")
        out = np.empty(blocks.size + 2, dtype="<u8")
        # Every block is a different index: this is the block cipher itself as a function, not a mode for messages.
        encryptor = Cipher(algorithms.AES(self.key), modes.ECB()).encryptor()
        encryptor.update_into(blocks.data.cast("B") if blocks.size else b"", out.data.cast("B"))
        return out[: blocks.size : 2].astype(np.uint64).reshape(pair[0].shape)

    def uniforms(self, index: ArrayLike, second: ArrayLike = 0) -> Floats:
        """A number in (0, 1) for each index, of 64 bits before it becomes a double."""
        return np.asarray((self.words(index, second).astype(np.float64) + 0.5) * 2.0**-64).clip(max=1.0 - 2.0**-53)

    def exponentials(self, index: ArrayLike) -> Floats:
        """A standard exponential time for each index."""
        return exponential(self.words(index))

    def order(self, count: int) -> NDArray[np.int64]:
        """A random order of range(count), the same for everyone."""
        return np.argsort(self.words(np.arange(count)), kind="stable").astype(np.int64)

    def __repr__(self) -> str:
        return f"Seed({self.key[:4].hex()}…)"


def exponential(words: Words) -> Floats:
    """-log(1 - V) for V in the middle of the cell of width 2^-64 that a word names; accurate at both ends."""
    upper = words >= np.uint64(2**63)
    # The complement of a large word is small, and so keeps all of its bits as a double.
    distance = np.where(upper, ~words, words).astype(np.float64)
    part = (distance + 0.5) * 2.0**-64
    return np.where(upper, -np.log(part), -np.log1p(-part))
