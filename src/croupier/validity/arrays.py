"""Arithmetic on the vectors of a whole group of reports: NumPy arrays of unsigned 64-bit words.

The first axis is the vector's, the last the reports'. A number of Field64 is one word. One of Field128 is two, the low
one first, on an axis between. All numbers are kept below the modulus.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from croupier.validity.fields import FIELD64, FIELD128, Field

Words: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

HALF = np.uint64(32)
LOW = np.uint64(2**32 - 1)


class Arrays(ABC):
    """What does not depend on the field; see `croupier.validity.fields.Arithmetic`."""

    field: Field

    @abstractmethod
    def add(self, a: Words, b: Words) -> Words: ...

    @abstractmethod
    def sub(self, a: Words, b: Words) -> Words: ...

    @abstractmethod
    def mul(self, a: Words, b: Words) -> Words: ...

    @abstractmethod
    def below_modulus(self, a: Words) -> Mask:
        """Whether each word, or pair of words, is a number of the field."""

    @property
    def words(self) -> tuple[int, ...]:
        """The axis of words that a number has, if it has more than one."""
        return () if self.field.size == 8 else (self.field.size // 8,)

    def columns(self, reports: Sequence[Sequence[int]]) -> Words:
        """Vectors of several reports, given report by report as whole numbers."""
        length = len(reports[0]) if reports else 0
        return self.decode([self.field.encode(numbers) for numbers in reports], length)[0]

    def decode(self, reports: Sequence[bytes], length: int) -> tuple[Words, Mask]:
        """The `length` numbers of each report, and which reports have nothing but numbers of the field.

        Words beyond the field become zero, so that whoever ignores the second answer still has numbers.
        """
        rows = np.frombuffer(b"".join(reports), "<u8").reshape(len(reports), length, *self.words)
        found = np.ascontiguousarray(np.moveaxis(rows, 0, -1)).astype(np.uint64, copy=False)
        inside = self.below_modulus(found)
        if not inside.all():
            found = np.where(np.expand_dims(inside, tuple(range(1, len(self.words) + 1))), found, np.uint64(0))
        return found, np.asarray(inside.all(axis=0))

    def encode(self, a: Words) -> list[bytes]:
        """The encoding of each report's vector."""
        rows = np.ascontiguousarray(np.moveaxis(a, -1, 0)).astype("<u8", copy=False)
        size, joined = rows[0].nbytes if len(rows) else 0, rows.tobytes()
        return [joined[start : start + size] for start in range(0, len(joined), size)] if size else [b""] * len(rows)

    def constant(self, numbers: Sequence[int]) -> Words:
        encoded = self.field.encode([number % self.field.modulus for number in numbers])
        return np.frombuffer(encoded, "<u8").astype(np.uint64).reshape(len(numbers), *self.words, 1)

    def join(self, parts: Sequence[Words]) -> Words:
        reports = np.broadcast_shapes(*(part.shape[-1:] for part in parts))
        return np.concatenate([np.broadcast_to(part, (*part.shape[:-1], *reports)) for part in parts])

    def repeat(self, a: Words, times: int) -> Words:
        return a if times == 1 else np.concatenate([a] * times)

    def interleave(self, a: Words, b: Words) -> Words:
        return np.stack([a, b], axis=1).reshape(2 * len(a), *a.shape[1:])

    def row_sums(self, a: Words, width: int) -> Words:
        return self._sums(a.reshape(len(a) // width, width, *a.shape[1:]).swapaxes(0, 1))

    def column_sums(self, a: Words, width: int) -> Words:
        return self._sums(a.reshape(len(a) // width, width, *a.shape[1:]))

    def total(self, a: Words) -> Words:
        """The sum over all reports, as the vector of one."""
        return self._sums(np.moveaxis(a, -1, 0)[..., None]) if a.shape[-1] else self.constant([0] * len(a))

    def _sums(self, a: Words) -> Words:
        """The sum over the first axis: halves are added until one is left."""
        while len(a) > 1:
            half = len(a) // 2
            added = self.add(a[:half], a[half : 2 * half])
            a = added if len(a) % 2 == 0 else np.concatenate([added, a[-1:]])
        only: Words = a[0]
        return only

    def are(self, a: Words, number: int) -> Any:
        equal: Mask = (a == self.constant([number])).all(axis=tuple(range(a.ndim - 1)))
        return equal


def wide_product(a: Words, b: Words) -> tuple[Words, Words]:
    """The high and the low word of each product of two words, from the products of their halves."""
    a_low, a_high, b_low, b_high = a & LOW, a >> HALF, b & LOW, b >> HALF
    low, high = a_low * b_low, a_high * b_high
    first = a_high * b_low
    first += low >> HALF
    second = a_low * b_high
    second += first & LOW
    high += first >> HALF
    high += second >> HALF
    second <<= HALF
    low &= LOW
    second |= low
    return high, second


class Arrays64(Arrays):
    """Field64. With its modulus p = 2^64 - 2^32 + 1, 2^64 is 2^32 - 1 and 2^96 is -1.

    >>> ops = Arrays64()
    >>> edge = ops.columns([[FIELD64.modulus - 1, 2**32]])
    >>> [int(number) for number in ops.mul(edge, edge)[:, 0]] == [1, 2**32 - 1]
    True
    """

    field = FIELD64
    _modulus = np.uint64(FIELD64.modulus)

    def below_modulus(self, a: Words) -> Mask:
        return a < self._modulus

    def add(self, a: Words, b: Words) -> Words:
        total = a + b
        total -= self._modulus * ((total < a) | (total >= self._modulus))
        return total

    def sub(self, a: Words, b: Words) -> Words:
        rest = a - b
        rest += self._modulus * (a < b)
        return rest

    def mul(self, a: Words, b: Words) -> Words:
        high, low = wide_product(a, b)
        top = high >> HALF
        rest = low - top
        rest -= LOW * (low < top)
        high &= LOW
        high *= LOW
        rest += high
        rest += LOW * (rest < high)
        rest -= self._modulus * (rest >= self._modulus)
        return rest


class Arrays128(Arrays):
    """Field128. With its modulus p = 2^128 - 7 · 2^66 + 1, 2^128 is 28 · 2^64 - 1.

    >>> ops = Arrays128()
    >>> edge = ops.columns([[FIELD128.modulus - 1]])
    >>> FIELD128.decode(ops.encode(ops.mul(edge, edge))[0], 1)
    [1]
    """

    field = FIELD128
    _low, _high = (np.uint64(word) for word in (FIELD128.modulus % 2**64, FIELD128.modulus >> 64))

    def below_modulus(self, a: Words) -> Mask:
        return ~self._reached(a[..., 0, :], a[..., 1, :])

    def _reached(self, low: Words, high: Words) -> Mask:
        reached: Mask = (high > self._high) | ((high == self._high) & (low >= self._low))
        return reached

    def _less_modulus(self, low: Words, high: Words, where: Mask) -> Words:
        """The number, less the modulus where it is told."""
        less = self._low * where
        return np.stack([low - less, high - self._high * where - (low < less)], axis=-2)

    def add(self, a: Words, b: Words) -> Words:
        low = a[..., 0, :] + b[..., 0, :]
        # A high word of the field is below 2^64 - 1, so it can take the carry.
        carried = a[..., 1, :] + (low < b[..., 0, :])
        high = carried + b[..., 1, :]
        return self._less_modulus(low, high, (high < carried) | self._reached(low, high))

    def sub(self, a: Words, b: Words) -> Words:
        low = a[..., 0, :] - b[..., 0, :]
        owed = (a[..., 0, :] < b[..., 0, :]).astype(np.uint64)
        high = a[..., 1, :] - b[..., 1, :]
        negative = (a[..., 1, :] < b[..., 1, :]) | (high < owed)
        high = high - owed
        more = self._low * negative
        low = low + more
        high += self._high * negative
        high += low < more
        return np.stack([low, high], axis=-2)

    def mul(self, a: Words, b: Words) -> Words:
        return self._number(self._folded(self._product_digits(a, b)))

    def _product_digits(self, a: Words, b: Words) -> list[npt.NDArray[np.int64]]:
        """The eight digits of a product, base 2^32, before anything is carried: each is below 2^35."""
        ours, theirs = ([x[..., 0, :] & LOW, x[..., 0, :] >> HALF, x[..., 1, :] & LOW, x[..., 1, :] >> HALF]
                        for x in (a, b))  # fmt: skip
        digits: list[Any] = [0] * 8
        for i, one in enumerate(ours):
            for j, other in enumerate(theirs):
                product = one * other
                digits[i + j] = digits[i + j] + (product & LOW)
                product >>= HALF
                digits[i + j + 1] = digits[i + j + 1] + product
        return [digit.view(np.int64) for digit in digits]

    def _folded(self, digits: list[npt.NDArray[np.int64]]) -> list[npt.NDArray[np.int64]]:
        """The same number by four digits, which may be negative: digit k + 4 is 28 times itself at k + 2, less at k."""
        for place in (3, 2, 1, 0):
            top = digits[place + 4]
            digits[place + 2] = digits[place + 2] + 28 * top
            digits[place] = digits[place] - top
        return digits[:4]

    def _number(self, digits: list[npt.NDArray[np.int64]]) -> Words:
        """The number of these digits, each below 2^48 in size.

        What is carried out of the top goes back in twice: the first time it is below 2^17, the second -1, 0 or 1, and
        a third time nothing is left over.
        """
        carried: Any = 0
        for _ in range(3):
            digits[2] = digits[2] + 28 * carried
            carried = -carried
            for place in range(4):
                digits[place] = digits[place] + carried
                carried = digits[place] >> 32
                digits[place] &= 2**32 - 1
        words = [digit.view(np.uint64) for digit in digits]
        low, high = words[0] | words[1] << HALF, words[2] | words[3] << HALF
        return self._less_modulus(low, high, self._reached(low, high))


def arrays(field: Field) -> Arrays:
    """The arithmetic of groups over a field."""
    return {FIELD64: Arrays64, FIELD128: Arrays128}[field]()
