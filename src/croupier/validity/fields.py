"""The two prime fields of Prio3, and arithmetic on the vectors of one report in plain whole numbers.

A vector is a list of numbers here, and an array over a whole group of reports in `croupier.validity.arrays`. Both
arithmetics have the operations of `Arithmetic`, so polynomials, circuits and proofs are written once. This module and
all that making shares needs is free of NumPy: a device may run it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from croupier.checks import InvalidParameter


@dataclass(frozen=True)
class Field:
    """A prime field with roots of unity of every order 2^k up to `two_adicity`; 7 generates them.

    >>> FIELD64.encode([1, FIELD64.modulus - 1]).hex()
    '010000000000000000000000ffffffff'
    """

    name: str
    modulus: int
    size: int
    two_adicity: int

    def root(self, order: int) -> int:
        """A number whose powers are the `order` roots of unity; `order` is a power of two.

        >>> FIELD64.root(4) ** 2 % FIELD64.modulus == FIELD64.modulus - 1
        True
        """
        return pow(7, (self.modulus - 1) // order, self.modulus)

    def inverse(self, number: int) -> int:
        """What gives one when multiplied by `number`."""
        return pow(number, -1, self.modulus)

    def encode(self, numbers: Sequence[int]) -> bytes:
        """Each number, least byte first."""
        return b"".join(number.to_bytes(self.size, "little") for number in numbers)

    def words(self, encoded: bytes) -> list[int]:
        """The whole numbers in these bytes, whether or not they are below the modulus."""
        return [int.from_bytes(encoded[i : i + self.size], "little") for i in range(0, len(encoded), self.size)]

    def decode(self, encoded: bytes, length: int) -> list[int]:
        """The `length` numbers in these bytes; other lengths and numbers beyond the field are refused."""
        if len(encoded) != length * self.size:
            raise InvalidParameter("encoded", f"{len(encoded)} bytes", f"{length * self.size} bytes")
        numbers = self.words(encoded)
        for number in numbers:
            if number >= self.modulus:
                raise InvalidParameter("encoded", number, f"numbers below {self.modulus}")
        return numbers


FIELD64 = Field("Field64", 2**64 - 2**32 + 1, 8, 32)
FIELD128 = Field("Field128", 2**128 - 7 * 2**66 + 1, 16, 66)


class Vector(Protocol):
    """What can be cut: a list of numbers, or an array whose first axis is the vector's."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> Self: ...


V = TypeVar("V", bound=Vector)


class Arithmetic(Protocol[V]):
    """Operations on vectors over a field; one of two vectors may have length one, and then meets every element.

    A matrix is a vector row by row. Where a width is asked for, it is the length of a row.
    """

    @property
    def field(self) -> Field: ...

    def constant(self, numbers: Sequence[int]) -> V:
        """The same numbers for every report."""

    def add(self, a: V, b: V) -> V: ...
    def sub(self, a: V, b: V) -> V: ...
    def mul(self, a: V, b: V) -> V: ...
    def join(self, parts: Sequence[V]) -> V: ...
    def repeat(self, a: V, times: int) -> V: ...

    def interleave(self, a: V, b: V) -> V:
        """a[0], b[0], a[1], b[1], …"""

    def row_sums(self, a: V, width: int) -> V: ...
    def column_sums(self, a: V, width: int) -> V: ...

    def are(self, a: V, number: int) -> Any:
        """Whether every element is this number: one answer, or an array with one for each report."""


class Numbers:
    """Arithmetic on the vectors of one report: lists of whole numbers.

    >>> one = Numbers(FIELD64)
    >>> one.mul([2, 3], [5]), one.sub([0], [1]) == [FIELD64.modulus - 1]
    ([10, 15], True)
    >>> one.row_sums([1, 2, 3, 4], 2), one.column_sums([1, 2, 3, 4], 2), one.interleave([1, 2], [3, 4])
    ([3, 7], [4, 6], [1, 3, 2, 4])
    """

    def __init__(self, field: Field) -> None:
        self.field = field

    def constant(self, numbers: Sequence[int]) -> list[int]:
        return [number % self.field.modulus for number in numbers]

    def _each(self, operation: Callable[[int, int], int], a: list[int], b: list[int]) -> list[int]:
        length = max(len(a), len(b))
        a, b = (one * length if len(one) == 1 else one for one in (a, b))
        return [operation(x, y) % self.field.modulus for x, y in zip(a, b, strict=True)]

    def add(self, a: list[int], b: list[int]) -> list[int]:
        return self._each(int.__add__, a, b)

    def sub(self, a: list[int], b: list[int]) -> list[int]:
        return self._each(int.__sub__, a, b)

    def mul(self, a: list[int], b: list[int]) -> list[int]:
        return self._each(int.__mul__, a, b)

    def join(self, parts: Sequence[list[int]]) -> list[int]:
        return [number for part in parts for number in part]

    def repeat(self, a: list[int], times: int) -> list[int]:
        return a * times

    def interleave(self, a: list[int], b: list[int]) -> list[int]:
        return [number for pair in zip(a, b, strict=True) for number in pair]

    def row_sums(self, a: list[int], width: int) -> list[int]:
        return [sum(a[start : start + width]) % self.field.modulus for start in range(0, len(a), width)]

    def column_sums(self, a: list[int], width: int) -> list[int]:
        return [sum(a[column::width]) % self.field.modulus for column in range(width)]

    def are(self, a: list[int], number: int) -> bool:
        return all(each == number for each in a)
