"""[TKMS23]'s published levels, written out once more: a certificate holds for ten times the noise as well."""

from math import ceil, log, sqrt

import pytest

from croupier.protocols import protocol
from croupier.protocols.sums.bits import published_levels

EPSILON, DELTA = 0.5, 1e-6


def levels_and_bits(users, dimension):
    """g = max{2√n, D, 4} and b = 24·10⁴ g² log²(4(D²+1)/δ)/ε²n."""
    levels = ceil(max(2 * sqrt(users), dimension, 4))
    bits = 24 * 10**4 * levels**2 * log(4 * (dimension**2 + 1) / DELTA) ** 2 / (EPSILON**2 * users)
    return levels, ceil(bits)


@pytest.mark.parametrize(("users", "dimension"), [(1, 1), (100, 1), (2000, 1), (100, 3), (9, 50)])
def test_levels_and_noise_bits(users, dimension):
    target = protocol("shuffled-levels", epsilon=EPSILON, delta=DELTA, constants="published")
    precision, share = published_levels(target, users, dimension)
    assert (precision, share.trials, share.p) == (*levels_and_bits(users, dimension), 0.25)


def test_a_planned_batch_has_them():
    mechanism = protocol("shuffled-levels", epsilon=EPSILON, delta=DELTA, constants="published").plan(100)
    assert (mechanism.precision, mechanism.share.trials) == levels_and_bits(100, 1)
