"""What is left when both servers collude: recomputed by an independent road, on small cases."""

import itertools
import math

import pytest

from croupier.protocols import counted_messages, histogram, shuffled_bits, shuffled_laplace


def ratio_bound(law_one, law_two):
    """The largest log ratio of two laws, and their total variation distance, point by point."""
    points = set(law_one) | set(law_two)
    logs = []
    for point in points:
        p, q = law_one.get(point, 0.0), law_two.get(point, 0.0)
        # Tables of laws end at 1e-40.
        if p > 1e-30 or q > 1e-30:
            logs.append(math.inf if not (p and q) else abs(math.log(p / q)))
    return max(logs), sum(abs(law_one.get(x, 0.0) - law_two.get(x, 0.0)) for x in points) / 2


@pytest.mark.parametrize(("users", "epsilon"), [(32, 1.0), (100, 0.5), (1000, 2.0)])
def test_a_modular_report_has_a_finite_local_epsilon(users, epsilon):
    mechanism = shuffled_laplace(epsilon=epsilon, binary=True).plan(users=users)
    share, modulus = mechanism.share, mechanism.carrier.modulus
    # The law of the residue that both servers together see: the value plus one share, modulo m.
    laws = []
    for value in (0, 1):
        law = dict.fromkeys(range(modulus), 0.0)
        for x in range(-1500, 1501):
            law[(value + x) % modulus] += float(share.pmf(x))
        laws.append(law)
    epsilon_found, advantage = ratio_bound(*laws)
    found = mechanism.residual
    # Wrapping around the modulus can only hide more, and here only by a hair.
    assert epsilon_found <= found.epsilon <= epsilon_found + 0.05
    assert math.isclose(found.advantage, advantage, rel_tol=1e-6)
    assert found.epsilon > epsilon
    assert not found.hides_nothing


def test_a_report_of_sparse_bits_may_hide_nothing():
    mechanism = shuffled_bits(epsilon=1.0).plan(users=40)
    share = mechanism.share
    laws = []
    for value in (0, 1):
        law = {}
        for kinds in itertools.product(("none", 0, 1), repeat=share.slots):
            chance = math.prod(1 - float(share.rate) if kind == "none" else float(share.rate) / 2 for kind in kinds)
            seen = (kinds.count(0) + (value == 0), kinds.count(1) + (value == 1))
            law[seen] = law.get(seen, 0.0) + chance
        laws.append(law)
    epsilon, advantage = ratio_bound(*laws)
    found = mechanism.residual
    assert epsilon == found.epsilon == math.inf
    assert math.isclose(found.advantage, advantage, rel_tol=1e-9)


def test_a_counted_report_may_hide_nothing():
    mechanism = counted_messages(epsilon=1.0).plan(users=40)
    laws = [{value + x: float(mechanism.share.pmf(x)) for x in range(60)} for value in (0, 1)]
    epsilon, advantage = ratio_bound(*laws)
    found = mechanism.residual
    assert epsilon == found.epsilon == math.inf
    assert math.isclose(found.advantage, advantage, rel_tol=1e-9)


def test_a_histograms_report_may_hide_nothing():
    mechanism = histogram(epsilon=1.0, delta=1e-6, universe=("a", "b", "c")).plan(users=40)
    share = mechanism.oracle.share
    one = [float(share.pmf(x)) for x in range(40)]
    laws = []
    for item in (0, 1):
        law = {}
        for i, j in itertools.product(range(40), repeat=2):
            law[i + (item == 0), j + (item == 1)] = one[i] * one[j]
        laws.append(law)
    epsilon, advantage = ratio_bound(*laws)
    found = mechanism.residual
    assert epsilon == found.epsilon == math.inf
    assert advantage <= found.advantage <= advantage + 0.01


def test_more_users_leave_less_noise_to_each():
    local = [shuffled_laplace(epsilon=1.0, binary=True).plan(users=n).residual.epsilon for n in (32, 320, 3200)]
    assert local == sorted(local)
