"""Proofs about shared numbers: made by who knows them all, checked by who each holds a share ([BBCGGI19] section 4.2).

Each wire of the gadget becomes a polynomial: at the first root of unity a random number, at the next ones what entered
the wire at each call, then zeros. The proof is the random numbers, and the values of the gadget of these polynomials at
twice as many roots. Whoever has shares of it all can, by linear steps alone, find shares of every output, and of all
the polynomials at one random point. Put together, these show whether the outputs are zero and the gadget polynomial is
right at that point; a wrong one is right at few points.
"""

from __future__ import annotations

from typing import Any

from croupier.validity.circuits import Circuit
from croupier.validity.fields import Arithmetic, V
from croupier.validity.polynomials import to_the_power, values_between, weights, weights_but_last


def prove(ops: Arithmetic[V], circuit: Circuit, numbers: V, starts: V, joint: V) -> V:
    """The proof that these numbers are valid, with random `starts` of the wires.

    >>> from croupier.validity.circuits import Count
    >>> from croupier.validity.fields import FIELD64, Numbers
    >>> one, count = Numbers(FIELD64), Count()
    >>> proof = prove(one, count, [1], [20, 30], [])
    >>> proof[:3], proof[4]  # the starts, their product, and 1 · 1 at the only call
    ([20, 30, 600], 1)
    >>> decide(one, count, query(one, count, [1], proof, [9], [], 1))
    True
    >>> decide(one, count, query(one, count, [2], proof, [9], [], 1))
    False
    """
    calls, points = circuit.calls, circuit.points
    wires, zeros = circuit.wires(ops, numbers, joint, 1), [0] * (points - 1 - calls)
    begins = circuit.left_first(ops, starts)
    polynomials = []
    for wire in range(circuit.arity):
        known = [begins[wire : wire + 1], wires[wire * calls : (wire + 1) * calls]]
        polynomials.append(ops.join([*known, ops.constant(zeros)] if zeros else known))
    at_roots = circuit.gadget(ops, ops.join(polynomials), points)
    between = circuit.gadget(ops, ops.join([values_between(ops, one) for one in polynomials]), points)
    return ops.join([starts, ops.interleave(at_roots, between)[: 2 * points - 1]])


def query(ops: Arithmetic[V], circuit: Circuit, numbers: V, proof: V, randomness: V, joint: V, shares: int) -> V:
    """A share of what decides, from a share of the numbers and of the proof; it is linear in both."""
    arity, calls, points = circuit.arity, circuit.calls, circuit.points
    starts, gadget_values = proof[:arity], proof[arity:]
    outputs = circuit.check(ops, numbers, gadget_values[2 : 2 * calls + 1 : 2], shares)
    if circuit.checks > 1:
        outputs = ops.row_sums(ops.mul(outputs, randomness[: circuit.checks]), circuit.checks)
    point = randomness[circuit.query_length - 1 :]
    weight = weights(ops, point, points)
    wires = ops.mul(circuit.wires(ops, numbers, joint, shares), ops.repeat(weight[1 : calls + 1], arity))
    begins = ops.mul(circuit.left_first(ops, starts), weight[:1])
    at_point = ops.add(begins, ops.row_sums(wires, calls))
    gadget_weights = weights_but_last(ops, point, 2 * points)
    gadget_at_point = ops.row_sums(ops.mul(gadget_values, gadget_weights), 2 * points - 1)
    return ops.join([outputs, circuit.alternating(ops, at_point), gadget_at_point])


def reveals(ops: Arithmetic[V], circuit: Circuit, randomness: V) -> Any:
    """Whether the random point is one where a wire carries the measurement itself: that must not be shown."""
    point = randomness[circuit.query_length - 1 :]
    return ops.are(to_the_power(ops, point, circuit.points), 1)


def decide(ops: Arithmetic[V], circuit: Circuit, verifier: V) -> Any:
    """Whether the shares of a query, added up, show valid numbers."""
    wires, gadget_at_point = verifier[1:-1], verifier[circuit.arity + 1 :]
    expected = circuit.gadget(ops, circuit.left_first(ops, wires), 1)
    return ops.are(verifier[:1], 0) & ops.are(ops.sub(expected, gadget_at_point), 0)
