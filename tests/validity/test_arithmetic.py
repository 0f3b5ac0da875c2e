"""Arithmetic on groups is arithmetic on whole numbers, at the edges of words and of the field above all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.checks import InvalidParameter
from croupier.validity import groups, prio3_sum
from croupier.validity.arrays import arrays
from croupier.validity.circuits import best_chunk_length
from croupier.validity.fields import FIELD64, FIELD128, Numbers
from croupier.validity.polynomials import to_the_power, values_between, weights, weights_but_last
from croupier.validity.xof import Usage, expand, numbers, stream, tag

FIELDS = (FIELD64, FIELD128)
fields = pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)


def elements(field):
    """Numbers of a field: any, or near a power of two or the modulus."""
    edges = [sign * 2**k + near for k in range(0, 8 * field.size + 1, 16) for sign in (1, -1) for near in (-1, 0, 1)]
    return st.one_of(st.integers(0, field.modulus - 1), st.sampled_from([edge % field.modulus for edge in edges]))


def numbers_of(ops, vector):
    """The vectors of all reports, as whole numbers."""
    return [ops.field.decode(one, len(vector)) for one in ops.encode(vector)]


@fields
def test_the_field_is_prime_and_has_its_roots(field):
    assert all(pow(base, field.modulus - 1, field.modulus) == 1 for base in range(2, 60))
    assert (field.modulus - 1) % 2**field.two_adicity == 0
    assert pow(field.root(2**field.two_adicity), 2 ** (field.two_adicity - 1), field.modulus) == field.modulus - 1


@fields
@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_groups_calculate_as_one_report_does(field, operation, data):
    size = data.draw(st.integers(1, 30))
    a, b = (data.draw(st.lists(elements(field), min_size=size, max_size=size)) for _ in range(2))
    one, many = Numbers(field), arrays(field)
    expected = getattr(one, operation)(a, b)
    across = getattr(many, operation)(many.columns([[x] for x in a]), many.columns([[x] for x in b]))
    along = getattr(many, operation)(many.columns([a]), many.columns([b]))
    assert numbers_of(many, across) == [[x] for x in expected]
    assert numbers_of(many, along) == [expected]


@fields
@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
def test_every_pair_of_edges(field, operation):
    edges = sorted({(sign * 2**k + near) % field.modulus for k in range(0, 8 * field.size + 1, 8)
                    for sign in (1, -1) for near in (-1, 0, 1)})  # fmt: skip
    many = arrays(field)
    found = getattr(many, operation)(
        many.columns([[x] for x in edges for _ in edges]), many.columns([[y] for _ in edges for y in edges])
    )
    rule = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}[operation]
    assert [row[0] for row in numbers_of(many, found)] == [rule(x, y) % field.modulus for x in edges for y in edges]


@fields
def test_matrices_are_added_up_by_rows_and_columns(field):
    rng = np.random.default_rng(1)
    one, many = Numbers(field), arrays(field)
    reports = [[int(x) * field.modulus // 2**62 for x in rng.integers(0, 2**62, 15)] for _ in range(4)]
    group = many.columns(reports)
    for operation in ("row_sums", "column_sums"):
        for width in (1, 3, 5, 15):
            found = numbers_of(many, getattr(many, operation)(group, width))
            assert found == [getattr(one, operation)(report, width) for report in reports]
    assert numbers_of(many, many.total(group)) == [
        [sum(column) % field.modulus for column in zip(*reports, strict=True)]
    ]


@fields
def test_words_beyond_the_field_are_seen_one_by_one(field):
    many = arrays(field)
    rows = [[0, field.modulus - 1], [field.modulus, 5], [3, 256**field.size - 1]]
    found, inside = many.decode([b"".join(x.to_bytes(field.size, "little") for x in row) for row in rows], 2)
    assert inside.tolist() == [True, False, False]
    assert numbers_of(many, found) == [[0, field.modulus - 1], [0, 5], [3, 0]]
    with pytest.raises(InvalidParameter):
        field.decode(field.modulus.to_bytes(field.size, "little"), 1)
    with pytest.raises(InvalidParameter):
        field.decode(bytes(field.size + 1), 1)


@fields
@pytest.mark.parametrize("count", [2, 4, 16])
def test_values_of_a_polynomial_follow_from_others(field, count):
    ops, p = Numbers(field), field.modulus
    rng = np.random.default_rng(count)
    coefficients = [int(x) for x in rng.integers(0, 2**62, count)]

    def at(x):
        return sum(c * pow(x, k, p) for k, c in enumerate(coefficients)) % p

    def roots(order):
        return [pow(field.root(order), k, p) for k in range(order)]

    values = [at(x) for x in roots(count)]
    assert values_between(ops, values) == [at(x) for x in roots(2 * count)[1::2]]
    for point in (0, 12345, field.root(count), field.root(4 * count)):
        assert ops.row_sums(ops.mul(values, weights(ops, [point], count)), count) == [at(point)]
        more = [at(x) for x in roots(2 * count)[:-1]]
        assert ops.row_sums(ops.mul(more, weights_but_last(ops, [point], 2 * count)), 2 * count - 1) == [at(point)]
    assert to_the_power(ops, [field.root(count)], count) == [1]
    assert to_the_power(ops, [field.root(2 * count)], count) == [p - 1]


@pytest.mark.parametrize("length", [*range(1, 70), 160, 1000, 1001])
def test_no_chunk_length_has_a_shorter_proof(length):
    def proof(chunk):
        points = 1
        while points < 1 + -(-length // chunk):
            points *= 2
        return 2 * chunk + 2 * points - 1

    assert proof(best_chunk_length(length)) == min(proof(chunk) for chunk in range(1, length + 1))


class Scripted:
    """An output that was written down beforehand."""

    def __init__(self, words, size):
        self.rest = b"".join(word.to_bytes(size, "little") for word in words)

    def read(self, length):
        found, self.rest = self.rest[:length], self.rest[length:]
        return found


@fields
def test_words_beyond_the_field_are_passed_over(field, monkeypatch):
    beyond = 256**field.size - 1
    words = [field.modulus, 7, beyond, beyond, 8, 0, 9]
    assert numbers(field, Scripted(words, field.size), 4) == [7, 8, 0, 9]
    prio3 = prio3_sum(7)
    group = groups.Group(prio3, b"context", 3)
    group.ops = arrays(field)
    real = stream
    monkeypatch.setattr(
        groups, "stream", lambda seed, *rest: Scripted(words, field.size) if seed[0] == 1 else real(seed, *rest)
    )
    found = group.expand(Usage.PROOF_SHARE, [bytes([i] * 32) for i in range(3)], b"binder", 4)
    expected = [expand(field, bytes([i] * 32), tag(2, 2, b"context"), b"binder", 4) for i in (0, 2)]
    assert numbers_of(group.ops, found) == [expected[0], [7, 8, 0, 9], expected[1]]
