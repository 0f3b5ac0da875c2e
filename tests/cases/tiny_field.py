"""Proofs over the field of 17 numbers, for every random start of their wires at once: laws that can be counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from croupier.validity.arrays import Arrays, Mask, Words
from croupier.validity.circuits import Circuit
from croupier.validity.fields import Field, Numbers
from croupier.validity.proofs import prove, query

TINY = Field("Field17", 17, 8, 4)
OPS = Numbers(TINY)


class Arrays17(Arrays):
    """The arithmetic of groups of reports, where a report is one random start of the wires."""

    field = TINY

    def add(self, a: Words, b: Words) -> Words:
        return (a + b) % np.uint64(17)

    def sub(self, a: Words, b: Words) -> Words:
        return (a + np.uint64(17) - b) % np.uint64(17)

    def mul(self, a: Words, b: Words) -> Words:
        return (a * b) % np.uint64(17)

    def below_modulus(self, a: Words) -> Mask:
        return a < np.uint64(17)


ARRAYS = Arrays17()


def tiny(circuit: Circuit) -> Circuit:
    circuit.field = TINY
    return circuit


def verifiers(circuit: Circuit, value: Any, randomness: Sequence[int], joint: Sequence[int]) -> Words:
    """The whole verifier for every random start of the proof's wires, one a column."""
    starts = np.indices([17] * circuit.arity).reshape(circuit.arity, -1).astype(np.uint64)
    numbers, mixed, point = (ARRAYS.constant(one) for one in (circuit.encode(value), joint, randomness))
    return query(ARRAYS, circuit, numbers, prove(ARRAYS, circuit, numbers, starts, mixed), point, mixed, 1)


def columns(vectors: Words) -> list[tuple[int, ...]]:
    """Each report's vector."""
    return [tuple(column) for column in vectors.T.tolist()]
