"""Prio3: a measurement in shares, with a proof in shares that it is in range ([BCPS26]).

Each server learns from its share, and from the exchange about it, only whether the report is valid. That is the draft's
claim, and it is for valid measurements: an invalid one is hidden by nothing, so `shard` refuses it. Validity holds if
both servers follow the protocol. Privacy never rests on validity: noise is sized as if anybody may send anything.

The proofs of Count and Sum do not depend on the nonce; whoever wants a report to hold under one nonce only puts the
nonce into the context too. No type depends on its own parameters but through the context.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from croupier.checks import InvalidParameter, integer
from croupier.validity import steps
from croupier.validity.circuits import Circuit, Count, Histogram, Ranges, Sum, SumVec
from croupier.validity.fields import FIELD64, FIELD128, Numbers
from croupier.validity.xof import SEED

NONCE = 16
"""Bytes of a nonce."""
CONTEXT = 2**16 - 1 - 8
"""The most bytes of a context."""
MULTIPROOF = 0xFFFFFFFF
"""The draft's own number for several proofs over the small field: for experiments, and for no other party."""


class Sizes(NamedTuple):
    """Bytes of everything that is sent: by a client (the first three), between servers, and at the end."""

    public: int
    leader: int
    helper: int
    verifier: int
    message: int
    aggregate: int


class Prio3:
    """One type of report.

    >>> count = prio3_count()
    >>> public, leader, helper = count.shard(1, nonce=bytes(16), context=b"an experiment")
    >>> len(public), len(leader), len(helper)
    (0, 48, 32)
    >>> count.shard(2, nonce=bytes(16), context=b"an experiment")
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: measurement = 2 is not allowed: it must be a whole number in [0, 1]
    """

    def __init__(self, circuit: Circuit, proofs: int = 1, shares: int = 2) -> None:
        self.circuit = circuit
        self.proofs = integer("proofs", proofs, 1, 255)
        self.shares = integer("shares", shares, 2, 255)
        self.joint = circuit.joint_length > 0

    def __repr__(self) -> str:
        return f"Prio3({self.circuit!r}, proofs={self.proofs}, shares={self.shares})"

    @property
    def rand_size(self) -> int:
        """Random bytes that one report takes."""
        return SEED * self.shares * (2 if self.joint else 1)

    @property
    def sizes(self) -> Sizes:
        """Bytes of each share.

        >>> prio3_sum(127).sizes
        Sizes(public=0, leader=184, helper=32, verifier=24, message=0, aggregate=8)
        """
        circuit, seed = self.circuit, SEED if self.joint else 0
        size = circuit.field.size
        return Sizes(
            public=self.shares * seed,
            leader=(circuit.length + circuit.proof_length * self.proofs) * size + seed,
            helper=SEED + seed,
            verifier=circuit.verifier_length * self.proofs * size + seed,
            message=seed,
            aggregate=circuit.outputs * size,
        )

    @property
    def kept_size(self) -> int:
        """Bytes that a server keeps of a report between preparing and finishing it.

        >>> prio3_count().kept_size, prio3_sum(127).kept_size
        (40, 32)
        """
        return self.sizes.verifier + self.sizes.aggregate + self.sizes.message

    def shard(self, measurement: Any, nonce: bytes, context: bytes, rand: bytes | None = None) -> tuple[bytes, ...]:
        """The public share, the leader's and the helper's, of one measurement; nothing but pure Python is needed.

        `rand` is for tests; without it the operating system's randomness is taken, and it must never be used twice.
        """
        numbers = self.circuit.encode(measurement)
        checked("nonce", nonce, NONCE)
        checked("rand", rand := secrets.token_bytes(self.rand_size) if rand is None else rand, self.rand_size)
        reports = steps.Single(self, checked_context(context))
        seeds = [rand[start : start + SEED] for start in range(0, len(rand), SEED)]
        return tuple(steps.shard(self, reports, numbers, nonce, seeds))

    def merge(self, aggregate_shares: Sequence[bytes]) -> bytes:
        """The sum of aggregate shares: of one server over several groups, or of both servers.

        >>> count = prio3_count()
        >>> count.merge([count.merge([]), bytes([5, 0, 0, 0, 0, 0, 0, 0])]).hex()
        '0500000000000000'
        """
        field, outputs = self.circuit.field, self.circuit.outputs
        ops, total = Numbers(field), [0] * outputs
        for share in aggregate_shares:
            total = ops.add(total, field.decode(share, outputs))
        return field.encode(total)

    def unshard(self, aggregate_shares: Sequence[bytes]) -> Any:
        """The result, from the aggregate shares of all servers."""
        if len(aggregate_shares) != self.shares:
            raise InvalidParameter("aggregate_shares", f"{len(aggregate_shares)} shares", f"{self.shares} shares")
        return self.circuit.decode(self.circuit.field.words(self.merge(aggregate_shares)))


def checked(name: str, value: bytes, size: int) -> bytes:
    """These bytes, if they have the right number."""
    if len(value) != size:
        raise InvalidParameter(name, f"{len(value)} bytes", f"{size} bytes")
    return value


def checked_context(context: bytes) -> bytes:
    """A context that fits into a tag."""
    if len(context) > CONTEXT:
        raise InvalidParameter("context", f"{len(context)} bytes", f"at most {CONTEXT} bytes")
    return context


def prio3_count(shares: int = 2) -> Prio3:
    """How many said yes: a measurement is 0 or 1."""
    return Prio3(Count(), shares=shares)


def prio3_sum(max_measurement: int, shares: int = 2) -> Prio3:
    """A sum of whole numbers from 0 to `max_measurement`.

    The proof doubles where the number of bits reaches a power of two:

    >>> [prio3_sum(most).sizes.leader for most in (1, 7, 127, 128, 255)]
    [40, 88, 184, 320, 320]
    """
    return Prio3(Sum(max_measurement), shares=shares)


def prio3_number(most: int) -> Prio3:
    """A sum of whole numbers from 0 to `most`, by the shorter proof: that of a count where `most` is one.

    >>> prio3_number(1), prio3_number(2)
    (Prio3(Count(), proofs=1, shares=2), Prio3(Sum(max_measurement=2), proofs=1, shares=2))
    """
    return prio3_count() if most == 1 else prio3_sum(most)


def prio3_sum_vec(
    length: int, max_measurement: int, chunk_length: int | None = None, *, proofs: int = 1, shares: int = 2
) -> Prio3:
    """A sum of vectors of `length` whole numbers from 0 to `max_measurement`.

    Without `chunk_length`, the one with the shortest proof is taken. Three proofs or more are over the small field, in
    the draft's experimental variant, and take fewer bytes:

    >>> prio3_sum_vec(20, 255).sizes.leader, prio3_sum_vec(20, 255, proofs=3).sizes.leader
    (3440, 2584)
    """
    if integer("proofs", proofs, 1, 255) == 2:
        raise InvalidParameter(
            "proofs", proofs, "1, or at least 3: two over the small field can be searched for offline"
        )
    algorithm, field = (3, FIELD128) if proofs == 1 else (MULTIPROOF, FIELD64)
    return Prio3(SumVec(length, max_measurement, chunk_length, algorithm, field), proofs, shares)


def prio3_ranges(most: Sequence[int]) -> Prio3:
    """A sum of vectors whose numbers have ranges of their own: from 0 to `most` of each.

    Where all ranges are the same this is the draft's own type; else it has a number of private use.

    >>> prio3_ranges([127] * 20).circuit.algorithm, hex(prio3_ranges([1, 127]).circuit.algorithm)
    (3, '0xffffcc02')
    """
    if len({*most}) == 1:
        return prio3_sum_vec(len(most), most[0])
    return Prio3(Ranges(most))


def prio3_histogram(length: int, chunk_length: int | None = None, *, shares: int = 2) -> Prio3:
    """How many chose each of `length` buckets: a measurement is the number of one.

    >>> prio3_histogram(5).sizes.leader
    288
    """
    return Prio3(Histogram(length, chunk_length), shares=shares)
