"""Proofs over the field of 17 numbers, where every law can be counted: what they hide, and how seldom they err.

A server's view is its own share, which is uniform whatever the value is, and the other's verifier share, which is the
whole verifier less what the server finds itself. So it tells of the value only what the whole verifier tells.
"""

import itertools
import random
from collections import Counter

import pytest

from cases.tiny_field import ARRAYS, OPS, columns, tiny, verifiers
from croupier.validity.circuits import Count, Histogram, Ranges, Sum, SumVec
from croupier.validity.proofs import decide, prove, query, reveals

CASES = {
    "count": (tiny(Count()), [0, 1]),
    "sum to 1": (tiny(Sum(1)), [0, 1]),
    "sum to 3": (tiny(Sum(3)), [0, 1, 2, 3]),
    "histogram": (tiny(Histogram(2, 1)), [0, 1]),
    "histogram in one chunk": (tiny(Histogram(2, 2)), [0, 1]),
    "vector": (tiny(SumVec(2, 1, 1)), [[0, 1], [1, 1]]),
    "ranges": (tiny(Ranges([1, 2], 1)), [[0, 2], [1, 1]]),
}


def queries(circuit, draw):
    """Every random point that may be asked, with some numbers for the outputs and the joint randomness."""
    for point in range(17):
        joint = [draw.randrange(17) for _ in range(circuit.joint_length)]
        yield [*(draw.randrange(17) for _ in range(circuit.query_length - 1)), point], joint


def law(circuit, measurement, randomness, joint):
    """How often each verifier comes about, over all random starts of the wires."""
    found = verifiers(circuit, measurement, randomness, joint)
    assert decide(ARRAYS, circuit, found).all()
    return Counter(columns(found))


SHORT = [name for name in CASES if name != "histogram in one chunk"]
"""All but the one whose wires have more starts than are worth listing."""


@pytest.mark.parametrize("name", SHORT)
def test_what_servers_see_of_a_valid_report_has_one_law_for_all_values(name):
    circuit, measurements = CASES[name]
    telling = 0
    for randomness, joint in queries(circuit, random.Random(1)):
        laws = [law(circuit, measurement, randomness, joint) for measurement in measurements]
        if reveals(OPS, circuit, randomness):
            telling += any(one != laws[0] for one in laws)
        else:
            assert all(one == laws[0] for one in laws), (randomness, joint)
    # The points that are not answered are excluded with reason.
    assert telling > 0


@pytest.mark.parametrize("name", CASES)
def test_shares_of_a_query_add_up_to_the_query(name):
    circuit, measurements = CASES[name]
    draw = random.Random(2)
    for measurement, (randomness, joint) in itertools.product(measurements, queries(circuit, draw)):
        numbers = circuit.encode(measurement)
        proof = prove(OPS, circuit, numbers, [draw.randrange(17) for _ in range(circuit.arity)], joint)
        for shares in (2, 3):
            total = query(OPS, circuit, numbers, proof, randomness, joint, 1)
            parts = [[[draw.randrange(17) for _ in one] for _ in range(shares - 1)] for one in (numbers, proof)]
            for kept, others in zip((numbers, proof), parts, strict=True):
                others.append([(x - sum(column)) % 17 for x, *column in zip(kept, *others, strict=True)])
            found = [query(OPS, circuit, *pair, randomness, joint, shares) for pair in zip(*parts, strict=True)]
            assert [sum(column) % 17 for column in zip(*found, strict=True)] == total


@pytest.mark.parametrize("name", SHORT)
def test_all_starts_at_once_are_what_one_report_after_another_is(name):
    circuit, measurements = CASES[name]
    draw = random.Random(4)
    for measurement, (randomness, joint) in zip(measurements, queries(circuit, draw), strict=False):
        found = columns(verifiers(circuit, measurement, randomness, joint))
        numbers = circuit.encode(measurement)
        for _ in range(20):
            starts = [draw.randrange(17) for _ in range(circuit.arity)]
            proof = prove(OPS, circuit, numbers, starts, joint)
            place = sum(start * 17**power for power, start in enumerate(reversed(starts)))
            assert tuple(query(OPS, circuit, numbers, proof, randomness, joint, 1)) == found[place]


def test_a_false_product_passes_at_no_more_points_than_the_degree_allows():
    circuit, draw, most = CASES["count"][0], random.Random(3), 0
    for _ in range(300):
        invalid = draw.randrange(2, 17)
        # Everything is the liar's choice but the value at the call, which must make the output zero.
        proof = [draw.randrange(17) for _ in range(circuit.proof_length)]
        proof[circuit.arity + 2] = invalid
        passed = [decide(OPS, circuit, query(OPS, circuit, [invalid], proof, [t], [], 1)) for t in range(17)]
        most = max(most, sum(passed))
        assert sum(passed) <= 2 * (circuit.points - 1)
    assert most > 0
