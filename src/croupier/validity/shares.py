"""Additive shares between two servers: each alone is uniform and tells nothing, both together add up to the numbers.

One share is expanded from a seed of 32 bytes, the other is what is missing. Shares may be added up: the two sums are
shares of the sum. Nothing here needs NumPy: a device may run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from croupier.checks import InvalidParameter, integer
from croupier.validity.fields import FIELD64, FIELD128
from croupier.validity.xof import SEED, stream, tag

ALGORITHM = 0xFFFFCC01
"""Among the numbers that the draft of Prio3 leaves to private use: shares without a proof."""
USAGE = 1


@dataclass(frozen=True)
class Ring:
    """Whole numbers modulo `modulus`, each in eight bytes, or in sixteen where it does not fit.

    >>> ring = Ring(FIELD64.modulus)
    >>> seed, context = bytes(range(32)), b"experiment, arm, report"
    >>> other = ring.split([5, -3], seed, context)
    >>> ring.signed(ring.add(ring.decode(other, 2), ring.expand(seed, context, 2)))
    [5, -3]
    """

    modulus: int

    def __post_init__(self) -> None:
        integer("modulus", self.modulus, 2, 2**128)

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return 8 if self.modulus <= 2**64 else 16

    def share_bits(self, length: int) -> int:
        """How much both shares of so many numbers take: a seed, and the numbers."""
        return 8 * (SEED + self.size * length)

    def encode(self, numbers: Sequence[int]) -> bytes:
        """Each number, least byte first."""
        return b"".join(number.to_bytes(self.size, "little") for number in numbers)

    def decode(self, encoded: bytes, length: int) -> list[int]:
        """The `length` numbers in these bytes; other lengths and numbers beyond the modulus are refused."""
        if len(encoded) != length * self.size:
            raise InvalidParameter("share", f"{len(encoded)} bytes", f"{length * self.size} bytes")
        numbers = self._words(encoded)
        if any(number >= self.modulus for number in numbers):
            raise InvalidParameter("share", max(numbers), f"numbers below {self.modulus}")
        return numbers

    def expand(self, seed: bytes, context: bytes, length: int) -> list[int]:
        """The share that a seed stands for, within a context: `length` uniform numbers.

        Words that would make some remainders likelier than others are passed over.
        """
        if len(seed) != SEED:
            raise InvalidParameter("seed", f"{len(seed)} bytes", f"{SEED} bytes")
        output = stream(seed, tag(ALGORITHM, USAGE, context), b"")
        whole = 2 ** (8 * self.size) // self.modulus * self.modulus
        found: list[int] = []
        while len(found) < length:
            words = self._words(output.read((length - len(found)) * self.size))
            found += [word % self.modulus for word in words if word < whole]
        return found

    def split(self, numbers: Sequence[int], seed: bytes, context: bytes) -> bytes:
        """The other share of these numbers, which may be negative."""
        mask = self.expand(seed, context, len(numbers))
        return self.encode([(number - part) % self.modulus for number, part in zip(numbers, mask, strict=True)])

    def add(self, *vectors: Sequence[int]) -> list[int]:
        """The sum of vectors, which have the same length and may be negative."""
        return [sum(column) % self.modulus for column in zip(*vectors, strict=True)]

    def total(self, vectors: Iterable[Sequence[int]], length: int) -> list[int]:
        """The sum of any number of vectors of this length."""
        return self.add([0] * length, *vectors)

    def signed(self, numbers: Sequence[int]) -> list[int]:
        """The numbers of least size that these stand for: those beyond the half are negative."""
        return [number - self.modulus if number > self.modulus // 2 else number for number in numbers]

    def _words(self, encoded: bytes) -> list[int]:
        return [int.from_bytes(encoded[i : i + self.size], "little") for i in range(0, len(encoded), self.size)]


FIELDS = {field.name: Ring(field.modulus) for field in (FIELD64, FIELD128)}
"""Fields so large that no honest sum wraps around, by name."""
