"""What a valid report is, for the four types: how a measurement is encoded, and which products its proof is about.

A circuit feeds numbers that are linear in the encoded measurement into several calls of one gadget, a formula of degree
two, and says which linear outputs must be zero. Two gadgets suffice: x² - x, and a sum of products of pairs. Each of
the four types has a single gadget, so this module knows no more.

Numbers that enter a gadget are written wire by wire, and within a wire call by call. The wires of pairs are ordered
here with all left factors first; the draft alternates left and right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from croupier.checks import InvalidParameter, integer
from croupier.validity.fields import FIELD64, FIELD128, Arithmetic, Field, V

RANGES = 0xFFFFCC02
"""Among the numbers that the draft of Prio3 leaves to private use: vectors whose numbers have ranges of their own."""


@dataclass(frozen=True)
class Range:
    """Whole numbers from 0 to `most`, as bits of which the last has the weight that makes all together `most`.

    >>> Range(5).weights, Range(5).encode("measurement", 4)
    ((1, 2, 2), [0, 1, 1])
    """

    most: int

    @property
    def bits(self) -> int:
        return self.most.bit_length()

    @property
    def weights(self) -> tuple[int, ...]:
        return (*(1 << bit for bit in range(self.bits - 1)), self.most - (1 << (self.bits - 1)) + 1)

    def encode(self, name: str, number: object) -> list[int]:
        """The bits of a number."""
        rest = integer(name, number, 0, self.most)
        last = int(rest >= 1 << (self.bits - 1))
        rest -= last * self.weights[-1]
        return [*(rest >> bit & 1 for bit in range(self.bits - 1)), last]

    def decode(self, ops: Arithmetic[V], numbers: V) -> V:
        """Each number from its bits, or a share of it from shares of them."""
        every = ops.constant(self.weights * (len(numbers) // self.bits))
        return ops.row_sums(ops.mul(numbers, every), self.bits)


class Circuit(ABC):
    """One type of measurement, and the figures that a proof about it needs."""

    def __init__(
        self,
        algorithm: int,
        field: Field,
        *,
        length: int,
        outputs: int,
        pairs: int,
        calls: int,
        checks: int = 1,
        joint_length: int = 0,
    ) -> None:
        self.algorithm, self.field = algorithm, field
        self.length = length
        """How many numbers encode a measurement."""
        self.outputs = outputs
        """How many numbers are added up over reports."""
        self.pairs = pairs
        """How many products one call of the gadget adds up; 0 for the gadget x² - x."""
        self.calls = calls
        self.checks = checks
        """How many outputs must be zero."""
        self.joint_length = joint_length
        """How many numbers it takes from the randomness that all shares fix together."""
        self.arity = 2 * pairs or 1
        self.points = 1 << calls.bit_length()
        """Values of a wire's polynomial: its random start, one for each call, and zeros up to a power of two."""
        self.query_length = 1 + (checks if checks > 1 else 0)
        self.proof_length = self.arity + 2 * self.points - 1
        self.verifier_length = self.arity + 2

    @abstractmethod
    def encode(self, measurement: Any) -> list[int]:
        """The numbers of a measurement; one out of range is refused here, for a proof hides nothing about it."""

    def measurement(self, added: Sequence[int]) -> Any:
        """The measurement that adds these numbers to a sum."""
        return added[0]

    @abstractmethod
    def wires(self, ops: Arithmetic[V], numbers: V, joint: V, shares: int) -> V:
        """What enters the gadget. A constant is divided by the number of shares, for every share adds it once."""

    @abstractmethod
    def check(self, ops: Arithmetic[V], numbers: V, products: V, shares: int) -> V:
        """What must be zero, given what the gadget returned at each call."""

    def truncate(self, ops: Arithmetic[V], numbers: V) -> V:
        """The numbers that are added up over reports, from those that encode one."""
        return numbers

    def decode(self, totals: list[int]) -> Any:
        """A result, from the numbers that were added up."""
        return totals

    def gadget(self, ops: Arithmetic[V], inputs: V, points: int) -> V:
        """The gadget at each of `points` places of its wires."""
        if not self.pairs:
            return ops.sub(ops.mul(inputs, inputs), inputs)
        half = self.pairs * points
        return ops.column_sums(ops.mul(inputs[:half], inputs[half:]), points)

    def left_first(self, ops: Arithmetic[V], alternating: V) -> V:
        """One number for each wire, from the draft's order to ours."""
        return ops.join([alternating[::2], alternating[1::2]]) if self.pairs else alternating

    def alternating(self, ops: Arithmetic[V], left_first: V) -> V:
        """One number for each wire, from our order to the draft's."""
        return ops.interleave(left_first[: self.pairs], left_first[self.pairs :]) if self.pairs else left_first


class Count(Circuit):
    """Zero or one: x · x - x is zero."""

    def __init__(self) -> None:
        super().__init__(1, FIELD64, length=1, outputs=1, pairs=1, calls=1)

    def __repr__(self) -> str:
        return "Count()"

    def encode(self, measurement: Any) -> list[int]:
        return [integer("measurement", measurement, 0, 1)]

    def wires(self, ops: Arithmetic[V], numbers: V, joint: V, shares: int) -> V:
        return ops.repeat(numbers, 2)

    def check(self, ops: Arithmetic[V], numbers: V, products: V, shares: int) -> V:
        return ops.sub(products, numbers)

    def decode(self, totals: list[int]) -> int:
        return totals[0]


class Sum(Circuit):
    """A whole number from 0 to `max_measurement`: x² - x is zero for each of its bits."""

    def __init__(self, max_measurement: int) -> None:
        self.range = Range(integer("max_measurement", max_measurement, 1, 2**62))
        bits = self.range.bits
        super().__init__(2, FIELD64, length=bits, outputs=1, pairs=0, calls=bits, checks=bits)

    def __repr__(self) -> str:
        return f"Sum(max_measurement={self.range.most})"

    def encode(self, measurement: Any) -> list[int]:
        return self.range.encode("measurement", measurement)

    def wires(self, ops: Arithmetic[V], numbers: V, joint: V, shares: int) -> V:
        return numbers

    def check(self, ops: Arithmetic[V], numbers: V, products: V, shares: int) -> V:
        return products

    def truncate(self, ops: Arithmetic[V], numbers: V) -> V:
        return self.range.decode(ops, numbers)

    def decode(self, totals: list[int]) -> int:
        return totals[0]


class Bits(Circuit):
    """Many bits at once: the sum of r^j · x · (x - 1) over the bits of a chunk, with one random r for each chunk."""

    def __init__(
        self, algorithm: int, field: Field, length: int, outputs: int, chunk_length: int | None, checks: int
    ) -> None:
        self.chunk_length = (
            best_chunk_length(length)
            if chunk_length is None
            else integer("chunk_length", chunk_length, 1, max(length, 1))
        )
        calls = -(-length // self.chunk_length)
        super().__init__(
            algorithm,
            field,
            length=length,
            outputs=outputs,
            pairs=self.chunk_length,
            calls=calls,
            checks=checks,
            joint_length=calls,
        )

    def wires(self, ops: Arithmetic[V], numbers: V, joint: V, shares: int) -> V:
        missing = self.calls * self.pairs - self.length
        padded = ops.join([numbers, ops.constant([0] * missing)]) if missing else numbers
        by_place = ops.join([padded[place :: self.pairs] for place in range(self.pairs)])
        part_of_one = ops.constant([self.field.inverse(shares)])
        return ops.join([ops.mul(self._powers(ops, joint), by_place), ops.sub(by_place, part_of_one)])

    def _powers(self, ops: Arithmetic[V], joint: V) -> V:
        """All the r of a report, then all r², up to the length of a chunk."""
        found, have = joint, 1
        while have < self.pairs:
            more = min(have, self.pairs - have)
            highest = ops.repeat(found[(have - 1) * self.calls :], more)
            found = ops.join([found, ops.mul(found[: more * self.calls], highest)])
            have += more
        return found

    def check(self, ops: Arithmetic[V], numbers: V, products: V, shares: int) -> V:
        return ops.row_sums(products, self.calls)


def best_chunk_length(length: int) -> int:
    """The chunk length with the shortest proof that `length` bits are bits; of two, the one with fewer wires.

    >>> [best_chunk_length(length) for length in (1, 5, 16, 160)]
    [1, 2, 6, 11]
    """

    def cost(chunk: int) -> tuple[int, int]:
        calls = -(-length // chunk)
        return 2 * chunk + 2 * (1 << calls.bit_length()), chunk

    # All numbers of calls with equal 2^k points cost the same, so only the largest of them, 2^k - 1, is tried.
    return min((-(-length // ((1 << k) - 1)) for k in range(1, length.bit_length() + 1)), key=cost)


class SumVec(Bits):
    """`length` whole numbers, each from 0 to `max_measurement`."""

    def __init__(
        self,
        length: int,
        max_measurement: int,
        chunk_length: int | None = None,
        algorithm: int = 3,
        field: Field = FIELD128,
    ) -> None:
        self.range = Range(integer("max_measurement", max_measurement, 1, field.modulus // 4))
        outputs = integer("length", length, 1, 2**20)
        super().__init__(algorithm, field, outputs * self.range.bits, outputs, chunk_length, checks=1)

    def __repr__(self) -> str:
        return f"SumVec({self.outputs}, max_measurement={self.range.most}, chunk_length={self.chunk_length})"

    def encode(self, measurement: Sequence[Any]) -> list[int]:
        if len(measurement) != self.outputs:
            raise InvalidParameter("measurement", measurement, f"{self.outputs} numbers")
        return [bit for i, one in enumerate(measurement) for bit in self.range.encode(f"measurement[{i}]", one)]

    def measurement(self, added: Sequence[int]) -> Sequence[int]:
        return added

    def truncate(self, ops: Arithmetic[V], numbers: V) -> V:
        return self.range.decode(ops, numbers)


class Ranges(Bits):
    """Whole numbers, each from 0 to a largest of its own."""

    def __init__(self, most: Sequence[int], chunk_length: int | None = None) -> None:
        outputs = integer("length", len(most), 1, 2**20)
        self.ranges = tuple(Range(integer("most", one, 1, FIELD128.modulus // 4)) for one in most)
        super().__init__(RANGES, FIELD128, sum(one.bits for one in self.ranges), outputs, chunk_length, checks=1)

    def __repr__(self) -> str:
        return f"Ranges({[one.most for one in self.ranges]}, chunk_length={self.chunk_length})"

    def encode(self, measurement: Sequence[Any]) -> list[int]:
        if len(measurement) != self.outputs:
            raise InvalidParameter("measurement", measurement, f"{self.outputs} numbers")
        pairs = enumerate(zip(self.ranges, measurement, strict=True))
        return [bit for i, (range_, one) in pairs for bit in range_.encode(f"measurement[{i}]", one)]

    def measurement(self, added: Sequence[int]) -> Sequence[int]:
        return added

    def truncate(self, ops: Arithmetic[V], numbers: V) -> V:
        ends = accumulate(one.bits for one in self.ranges)
        slices = (slice(end - one.bits, end) for one, end in zip(self.ranges, ends, strict=True))
        return ops.join([one.decode(ops, numbers[own]) for one, own in zip(self.ranges, slices, strict=True)])


class Histogram(Bits):
    """One of `length` buckets: every number is zero or one, and they add up to one."""

    def __init__(self, length: int, chunk_length: int | None = None) -> None:
        outputs = integer("length", length, 1, 2**20)
        super().__init__(4, FIELD128, outputs, outputs, chunk_length, checks=2)

    def __repr__(self) -> str:
        return f"Histogram({self.outputs}, chunk_length={self.chunk_length})"

    def encode(self, measurement: Any) -> list[int]:
        bucket = integer("measurement", measurement, 0, self.outputs - 1)
        return [int(place == bucket) for place in range(self.outputs)]

    def measurement(self, added: Sequence[int]) -> int:
        if sorted(added) != [0] * (self.outputs - 1) + [1]:
            raise InvalidParameter("measurement", added, f"one at one of {self.outputs} places, zero at the others")
        return added.index(1)

    def check(self, ops: Arithmetic[V], numbers: V, products: V, shares: int) -> V:
        part_of_one = ops.constant([self.field.inverse(shares)])
        total = ops.sub(ops.row_sums(numbers, self.length), part_of_one)
        return ops.join([ops.row_sums(products, self.calls), total])
