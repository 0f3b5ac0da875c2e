"""[TKMS23] section 4: rep and Big fit together as its proof needs them, and where that proof begins."""

import math

import pytest

from croupier.continual import large_batch, lower_bound_delta, lower_bound_users, repetition_length, secrecy
from croupier.linear import linear_bandit

CASES = [(10**6, 1, 0.9), (10**9, 2, 0.1), (10**12, 3, 2.0), (10**15, 7, 0.5)]


def test_a_bit_keeps_the_least_deviation_that_privacy_leaves_it() -> None:
    for epsilon in (0.1, 1.0, 3.0):
        rate = 1.0 / (math.exp(2.0 * epsilon) + 1.0)
        assert secrecy(epsilon) == pytest.approx(math.sqrt(rate * (1.0 - rate)))


def test_without_shufflers_half_of_the_bits_repeat() -> None:
    assert repetition_length(1000, 0, 0.7) == 500.0


@pytest.mark.parametrize(("users", "shufflers", "epsilon"), CASES)
def test_the_induction_closes_with_the_exponent_of_section_4_and_not_with_that_of_appendix_b(
    users: int, shufflers: int, epsilon: float
) -> None:
    repeat, c = repetition_length(users, shufflers, epsilon), secrecy(epsilon)
    power = 1.0 / (2 * shufflers + 1)

    def inside(big: float) -> float:
        """rep of a batch this large, with one shuffler less."""
        below = 1.0 / (2 * shufflers - 1)
        return 0.5 * big**below * c ** ((2 * shufflers - 2) * below)

    big = large_batch(users, shufflers, epsilon)
    assert inside(big) == pytest.approx(repeat)
    assert c * math.sqrt(users / big) == pytest.approx(2.0 * repeat)
    printed = users ** ((2 * shufflers - 1) * power) * c ** (2 * shufflers * power)
    same = shufflers == 1
    assert (inside(printed) == pytest.approx(repeat)) is same
    assert (c * math.sqrt(users / printed) == pytest.approx(2.0 * repeat)) is same


@pytest.mark.parametrize(("shufflers", "epsilon"), [(1, 0.9), (2, 0.9), (3, 0.1)])
def test_the_proof_begins_where_the_sum_of_hidden_bits_has_variance_enough(shufflers: int, epsilon: float) -> None:
    users = lower_bound_users(shufflers, epsilon)
    variance = users * secrecy(epsilon) ** 2 / large_batch(users, shufflers, epsilon)
    assert variance == pytest.approx(200.0**2)
    assert repetition_length(math.ceil(users), shufflers, epsilon) == pytest.approx(100.0)


def test_delta_falls_with_users_and_shufflers() -> None:
    assert lower_bound_delta(1000, 1, 0.5) == pytest.approx(0.5 / 80_000)
    assert lower_bound_delta(1000, 3, 2.0) == pytest.approx(1.0 / 160_000)


@pytest.mark.slow
def test_theorem_c2_has_its_larger_rho_on_the_right_side() -> None:
    # Theorem C.2 prints ρ_max <= ρ_min; its use in Theorem C.3 takes 3λ/2 and λ/2.
    level = linear_bandit(200, 2, 1, epsilon=1.0, constants="published", smallest=50).confidence
    assert level.most == pytest.approx(3.0 * level.least)
