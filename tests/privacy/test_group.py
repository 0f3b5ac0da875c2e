"""Group privacy ([GKM21] Lemma 34): a bound that holds, that some releases reach, and that exact losses beat."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from croupier.checks import InvalidParameter
from croupier.noise import Binomial, DiscreteLaplace, Poisson, Skellam
from croupier.privacy import group_loss, group_privacy, privacy_loss


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("users", [1, 2, 5, 9])
def test_it_is_the_formula_rounded_up(epsilon: float, users: int) -> None:
    found = group_privacy(epsilon, 1e-9, users)
    due = 1e-9 * sum(math.exp(j * epsilon) for j in range(users))
    assert due * (1 - 1e-12) <= found.delta <= due * (1 + 1e-12)
    assert found.epsilon >= users * epsilon
    assert found.epsilon == pytest.approx(users * epsilon, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-3, 0.05, 0.3])
@pytest.mark.parametrize("users", [1, 2, 5, 8])
def test_it_is_the_optimum_of_a_linear_program(epsilon: float, delta: float, users: int) -> None:
    """Over all chances p₀, …, p_k of an event whose neighbours are (ε, δ)-close both ways, and their opposites too."""
    step, rows, ends = math.exp(epsilon), [], []
    for one, other in itertools.permutations(range(users + 1), 2):
        if abs(one - other) == 1:
            row = np.zeros(users + 1)
            row[other], row[one] = 1.0, -step
            rows += [row, -row]
            ends += [delta, delta - 1.0 + step]
    goal = np.zeros(users + 1)
    goal[0], goal[users] = math.exp(epsilon * users), -1.0
    best = -linprog(goal, A_ub=np.array(rows), b_ub=np.array(ends), bounds=[(0, 1)] * (users + 1)).fun
    assert group_privacy(epsilon, delta, users).delta == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "users"),
    [(0.3, 1e-3, 6), (1.0, 1e-4, 5), (0.05, 0.01, 9), (0.5, 0.1, 4), (0.5, 0.1, 9), (1e-6, 0.01, 70), (3.0, 1e-3, 4)]
    + [(0.2, 1e-4, users) for users in range(20, 60, 5)],
)
def test_some_release_reaches_it(epsilon: float, delta: float, users: int) -> None:
    """A bit whose chance starts at 0 and rises by as much as (ε, δ)-DP allows, both for it and for its opposite."""
    growth, chances = math.exp(epsilon), [0.0]
    for _ in range(users):
        p = chances[-1]
        chances.append(min(delta + growth * p, 1.0 - (1.0 - p - delta) / growth, 1.0))
    for p, q in itertools.pairwise(chances):
        laws = np.asarray([[p, 1 - p], [q, 1 - q]])
        for one, other in (laws, laws[::-1]):
            assert np.maximum(one - growth * other, 0.0).sum() <= delta * (1 + 1e-9)
    assert chances[-1] == pytest.approx(group_privacy(epsilon, delta, users).delta, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
def test_it_never_exceeds_the_formula_nor_falls_with_the_group(epsilon: float) -> None:
    for delta in (1e-6, 1e-2, 0.3):
        found = [group_privacy(epsilon, delta, users).delta for users in range(1, 200)]
        due = [delta * math.expm1(users * epsilon) / math.expm1(epsilon) for users in range(1, 200)]
        assert all(one <= other * (1 + 1e-12) for one, other in zip(found, due, strict=True))
        assert found == sorted(found)
        assert found[-1] <= 1.0


@pytest.mark.parametrize("noise", [Binomial(3000, 0.5), Poisson(400), Skellam(200), DiscreteLaplace(5)], ids=repr)
@pytest.mark.parametrize("users", [2, 3, 7])
def test_exact_losses_stay_below_it(noise: object, users: int) -> None:
    one = privacy_loss(noise)  # type: ignore[arg-type]
    group = group_loss(one, users)
    for epsilon in (0.05, 0.15):
        bound = group_privacy(epsilon, one.delta(epsilon), users)
        assert group.delta(bound.epsilon) <= bound.delta * (1 + 1e-9) + 1e-15


def test_the_loss_of_a_group_is_that_of_a_longer_step() -> None:
    law = Binomial(60, 0.5).pmf(np.arange(61))
    before, after = np.concatenate((law, np.zeros(4))), np.concatenate((np.zeros(4), law))
    direct = float(np.maximum(before - math.exp(1.0) * after, 0.0).sum())
    assert group_loss(privacy_loss(Binomial(60, 0.5)), 4).delta(1.0) == pytest.approx(direct, rel=1e-9)


def test_what_cannot_be_said_is_refused_or_one() -> None:
    assert group_privacy(10.0, 1e-3, 100).delta == 1.0
    assert group_privacy(800.0, 1e-6, 1).delta == 1e-6
    assert group_privacy(0.5, 0.0, 3).delta == group_privacy(10.0, 0.0, 100).delta == 0.0
    with pytest.raises(InvalidParameter, match="users = 0"):
        group_privacy(0.5, 1e-6, 0)
    with pytest.raises(InvalidParameter, match="one noisy number"):
        group_loss(2 * privacy_loss(DiscreteLaplace(3)), 2)
