"""Polynomials known by their values at roots of unity: more values of one, and its value at any other point.

A polynomial of degree below n is the vector of its values at 1, w, w², …, w^(n-1), with w of order n, a power of two.
"""

from __future__ import annotations

from functools import lru_cache

from croupier.validity.fields import Arithmetic, Field, V


@lru_cache(maxsize=256)
def powers(field: Field, base: int, count: int) -> tuple[int, ...]:
    """1, base, base², …: `count` of them."""
    numbers = [1]
    for _ in range(count - 1):
        numbers.append(numbers[-1] * base % field.modulus)
    return tuple(numbers)


def transform(ops: Arithmetic[V], coefficients: V, root: int) -> V:
    """The values at 1, root, root², … of the polynomial with these coefficients; `root` has their number as its order.

    The even and the odd coefficients make two polynomials of half the length, in the square of the point; a point and
    its negative share both.
    """
    count = len(coefficients)
    if count == 1:
        return coefficients
    square = root * root % ops.field.modulus
    even, odd = (transform(ops, coefficients[start::2], square) for start in (0, 1))
    turned = ops.mul(odd, ops.constant(powers(ops.field, root, count // 2)))
    return ops.join([ops.add(even, turned), ops.sub(even, turned)])


def values_between(ops: Arithmetic[V], values: V) -> V:
    """From the n values at roots of order n, those at the n roots of order 2n that lie between them.

    >>> from croupier.validity.fields import FIELD64, Numbers
    >>> line = [3, 1]  # at 1 and -1: the polynomial 2 + x
    >>> values_between(Numbers(FIELD64), line) == [2 + FIELD64.root(4), 2 - FIELD64.root(4) + FIELD64.modulus]
    True
    """
    field, count = ops.field, len(values)
    root, between = field.root(count), field.root(2 * count)
    scaled = [number * field.inverse(count) for number in powers(field, between, count)]
    coefficients = ops.mul(transform(ops, values, field.inverse(root)), ops.constant(scaled))
    return transform(ops, coefficients, root)


def weights(ops: Arithmetic[V], point: V, count: int) -> V:
    """The `count` numbers by which values at roots of unity are multiplied and added to give the value at `point`.

    The weight of w^i is (1 + y + … + y^(n-1)) / n with y = point / w^i, and for n = 2^k that sum is the product of
    1 + y^(2^j) over j < k. Factor j is the same for i and i + n / 2^j, so the vector doubles from factor to factor.
    No number is inverted, so no point is excluded.

    >>> from croupier.validity.fields import FIELD64, Numbers
    >>> one = Numbers(FIELD64)
    >>> one.row_sums(one.mul([3, 1], weights(one, [5], 2)), 2)  # the polynomial 2 + x at 5
    [7]
    """
    field, squares, size = ops.field, [point], 1
    while 2 ** len(squares) < count:
        squares.append(ops.mul(squares[-1], squares[-1]))
    found = ops.constant([field.inverse(count)])
    for power in reversed(squares):
        size *= 2
        turns = powers(field, field.inverse(field.root(size)), size // 2)
        product = ops.mul(found, ops.mul(ops.constant(turns), power))
        found = ops.join([ops.add(found, product), ops.sub(found, product)])
    return found


def weights_but_last(ops: Arithmetic[V], point: V, count: int) -> V:
    """The same for a polynomial of degree below `count` - 1, of which the last value is not given.

    Its coefficient of degree count - 1 is zero, so the values times the powers of w add up to zero: the last value is
    -w · (v₀ + v₁ w + …), and its weight goes to the others.
    """
    field, full = ops.field, weights(ops, point, count)
    shifted = powers(field, field.root(count), count)[1:]
    return ops.sub(full[: count - 1], ops.mul(full[count - 1 :], ops.constant(shifted)))


def to_the_power(ops: Arithmetic[V], point: V, count: int) -> V:
    """The point to the power `count`, a power of two: it is one for roots of unity of that order, and only for them."""
    power = point
    for _ in range(count.bit_length() - 1):
        power = ops.mul(power, power)
    return power
