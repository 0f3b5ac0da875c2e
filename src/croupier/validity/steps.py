"""The steps of Prio3 between measurement and verdict, written once for one report and for a group of reports.

Bytes are `bytes` for one report (`Single`) and a list of them for a group (`croupier.validity.groups.Group`); numbers
are vectors of the arithmetic that goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from croupier.validity.fields import Arithmetic, Numbers, V
from croupier.validity.proofs import prove, query
from croupier.validity.xof import SEED, Usage, derive_seed, expand, tag

if TYPE_CHECKING:
    from croupier.validity.prio3 import Prio3

B = TypeVar("B")


class Reports(Protocol[V, B]):
    """One report or many, of one type: their arithmetic and their hashing, each report in its context."""

    @property
    def ops(self) -> Arithmetic[V]: ...

    def glue(self, parts: Sequence[B | bytes]) -> B:
        """The parts one after the other; plain bytes are the same in every report."""

    def pack(self, numbers: V) -> B:
        """The encoding of numbers."""

    def expand(self, usage: Usage, seed: B | bytes, binder: B | bytes, length: int) -> V: ...
    def derive(self, usage: Usage, seed: B | bytes, binder: B) -> B: ...


class Single:
    """One report, without NumPy."""

    def __init__(self, prio3: Prio3, context: bytes) -> None:
        self.ops = Numbers(prio3.circuit.field)
        self._algorithm, self._context = prio3.circuit.algorithm, context

    def glue(self, parts: Sequence[bytes]) -> bytes:
        return b"".join(parts)

    def pack(self, numbers: list[int]) -> bytes:
        return self.ops.field.encode(numbers)

    def expand(self, usage: Usage, seed: bytes, binder: bytes, length: int) -> list[int]:
        return expand(self.ops.field, seed, tag(self._algorithm, usage, self._context), binder, length)

    def derive(self, usage: Usage, seed: bytes, binder: bytes) -> bytes:
        return derive_seed(seed, tag(self._algorithm, usage, self._context), binder)


def helper_share(prio3: Prio3, reports: Reports[V, B], server: int, seed: B) -> tuple[V, V]:
    """The share of the numbers and of the proofs that a seed stands for."""
    circuit = prio3.circuit
    numbers = reports.expand(Usage.MEASUREMENT_SHARE, seed, bytes([server]), circuit.length)
    binder, length = bytes([prio3.proofs, server]), circuit.proof_length * prio3.proofs
    return numbers, reports.expand(Usage.PROOF_SHARE, seed, binder, length)


def joint_part(reports: Reports[V, B], server: int, blind: B, nonce: B, numbers: V) -> B:
    """What one share gives to the joint randomness."""
    return reports.derive(Usage.JOINT_PART, blind, reports.glue([bytes([server]), nonce, reports.pack(numbers)]))


def joint_seed(reports: Reports[V, B], parts: Sequence[B]) -> B:
    """The seed of the joint randomness, from the parts of all shares."""
    return reports.derive(Usage.JOINT_SEED, bytes(SEED), reports.glue(parts))


def joint_numbers(prio3: Prio3, reports: Reports[V, B], seed: B) -> V:
    """The joint randomness of all proofs."""
    length = prio3.circuit.joint_length * prio3.proofs
    return reports.expand(Usage.JOINT_RANDOMNESS, seed, bytes([prio3.proofs]), length)


def piece(vector: V, index: int, length: int) -> V:
    """What belongs to one proof, of what belongs to all."""
    return vector[index * length : (index + 1) * length]


def shard(prio3: Prio3, reports: Reports[V, B], numbers: V, nonce: B, seeds: Sequence[B]) -> list[B]:
    """The public share and every server's share, from the encoded measurement and random seeds."""
    circuit, ops, joint = prio3.circuit, reports.ops, prio3.joint
    step = 2 if joint else 1
    helpers = range(1, prio3.shares)
    helper_seeds, blinds = [seeds[step * (server - 1)] for server in helpers], list(seeds[1 : 2 * len(helpers) : 2])
    opened = [helper_share(prio3, reports, server, seed) for server, seed in zip(helpers, helper_seeds, strict=True)]
    leader = numbers
    for share, _ in opened:
        leader = ops.sub(leader, share)
    parts: list[B] = []
    randomness = ops.constant([])
    if joint:
        blinds.insert(0, seeds[2 * len(helpers)])
        shares = [leader, *(share for share, _ in opened)]
        parts = [joint_part(reports, i, blinds[i], nonce, share) for i, share in enumerate(shares)]
        randomness = joint_numbers(prio3, reports, joint_seed(reports, parts))
    starts = reports.expand(Usage.PROVE_RANDOMNESS, seeds[-1], bytes([prio3.proofs]), circuit.arity * prio3.proofs)
    proofs = ops.join(
        [
            prove(
                ops,
                circuit,
                numbers,
                piece(starts, index, circuit.arity),
                piece(randomness, index, circuit.joint_length),
            )
            for index in range(prio3.proofs)
        ]
    )
    for _, share in opened:
        proofs = ops.sub(proofs, share)
    inputs = [reports.glue([reports.pack(leader), reports.pack(proofs)]), *helper_seeds]
    if joint:
        inputs = [reports.glue([share, blind]) for share, blind in zip(inputs, blinds, strict=True)]
    return [reports.glue(parts or [b""]), *inputs]


@dataclass(frozen=True)
class Query(Generic[V, B]):
    """What one server found about its share: what it keeps to itself, and what it shows the other."""

    outputs: V
    randomness: V
    verifier: V
    part: B | None
    seed: B | None


def verify(
    prio3: Prio3,
    reports: Reports[V, B],
    server: int,
    key: bytes,
    nonce: B,
    parts: Sequence[B],
    numbers: V,
    proofs: V,
    blind: B | None,
) -> Query[V, B]:
    """A server's share of what decides; `parts` are those of the public share."""
    circuit, ops = prio3.circuit, reports.ops
    part = seed = None
    joint = ops.constant([])
    if blind is not None:
        part = joint_part(reports, server, blind, nonce, numbers)
        # The server trusts the client for the other parts only; the combined message shows whether they were right.
        seed = joint_seed(reports, [*parts[:server], part, *parts[server + 1 :]])
        joint = joint_numbers(prio3, reports, seed)
    binder = reports.glue([bytes([prio3.proofs]), nonce])
    randomness = reports.expand(Usage.QUERY_RANDOMNESS, key, binder, circuit.query_length * prio3.proofs)
    verifiers = [
        query(
            ops,
            circuit,
            numbers,
            piece(proofs, index, circuit.proof_length),
            piece(randomness, index, circuit.query_length),
            piece(joint, index, circuit.joint_length),
            prio3.shares,
        )
        for index in range(prio3.proofs)
    ]
    return Query(circuit.truncate(ops, numbers), randomness, ops.join(verifiers), part, seed)
