"""From a private learner back to a representation ([GKM21] Alg. 6)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.learning import Samples, Seed, Stable, Thresholds, Voting, representation_from_learner
from croupier.learning.lower_bound import blind_chance, least_users, runs_needed
from croupier.noise import Source, seeded

EPSILON, USERS = 0.5, 6
FAMILY = Thresholds(cuts=5, direction="up")
NOBODYS = Samples(np.empty((0, 1)), np.empty(0, dtype=bool), np.zeros(USERS + 1, dtype=np.int64))


def learn(samples: Samples, source: Source) -> int:
    """The whole learner, its public seed drawn anew."""
    seed = Seed.draw(source)
    ballot = Stable(FAMILY).ballot(columns=1, seed=seed, alpha=0.3, beta=0.2)
    election = Voting(EPSILON, model="central-pure").plan(ballot, USERS, seed)
    return election.run(ballot.votes(samples), source)  # type: ignore[union-attr]


def test_the_number_of_runs_is_that_of_the_paper() -> None:
    assert runs_needed(EPSILON, USERS) == 100 * math.ceil(math.exp(3.0))
    with pytest.raises(InvalidParameter, match="users"):
        runs_needed(1.0, 50)


@pytest.mark.parametrize(("epsilon", "delta", "users"), [(0.5, 1e-9, 6), (0.1, 1e-300, 60), (0.02, 1e-40, 40)])
def test_where_the_paper_says_so_the_runs_are_enough(epsilon: float, delta: float, users: int) -> None:
    assert users <= 0.01 * math.log(1 / delta) / epsilon or delta == 1e-9
    runs = runs_needed(epsilon, users, delta)
    assert runs * blind_chance(epsilon, users, delta) >= 10
    assert (1 - blind_chance(epsilon, users, delta)) ** runs <= math.exp(-10)


def test_a_large_delta_spoils_the_argument() -> None:
    with pytest.raises(InvalidParameter, match=r"delta = 0.1 .* smaller"):
        runs_needed(0.5, 6, 0.1)
    assert blind_chance(0.5, 6, 0.1) == 0.0


def test_an_approximate_learner_on_nothing_is_as_lucky_as_the_lemma_says() -> None:
    """A learner that returns the truth when n users say so, by a chain that is (ε, δ)-DP step by step and no better."""
    epsilon, delta, users = 0.4, 0.01, 5
    chances = [0.5]
    for _ in range(users):
        # The least chance on one user less that (ε, δ)-DP allows.
        chances.append(max(0.0, (chances[-1] - delta) / math.exp(epsilon)))
    assert chances[-1] == pytest.approx(blind_chance(epsilon, users, delta), rel=1e-9)


def test_the_least_users_are_those_of_the_lemma() -> None:
    for epsilon in (0.01, 0.1, 1.0):
        users = least_users(50, epsilon)
        # log T = log 100 + log⌈e^{εn}⌉, and rounding up matters nowhere here.
        assert math.log(100) + epsilon * (users - 1) < 50 <= math.log(100) + epsilon * users + 1e-9
    # min{log 1/δ, dimension}/ε: with a large δ the dimension does not matter, with a small one δ does not.
    assert least_users(50, 0.1, 1e-4) == least_users(5000, 0.1, 1e-4) < least_users(50, 0.1)
    assert least_users(50, 0.1, 1e-60) == least_users(50, 0.1)
    growth = least_users(10**6, 0.1, 1e-12) / least_users(10**6, 0.1, 1e-6)
    assert growth == pytest.approx(2, abs=0.3)


def test_no_planned_learner_has_fewer_users_than_must_be() -> None:
    for size in (2**9, 2**20):
        ballot = Stable(Thresholds(cuts=size // 2)).ballot(columns=1, seed=Seed.of(0), alpha=0.2, beta=0.03)
        # No class is harder to represent than by its own list.
        needed = Voting(1.0, model="central-pure").users_needed(ballot, agreement=0.9, failure=0.03)
        assert needed >= least_users(math.log(size), 1.0)


@pytest.mark.slow
def test_a_learner_without_data_represents_whatever_it_could_learn() -> None:
    listed = FAMILY.draw(1, Seed.of(0))
    represented = representation_from_learner(
        lambda source: learn(NOBODYS, source), epsilon=EPSILON, users=USERS, source=seeded(1)
    )
    assert math.log(len(represented)) <= math.log(runs_needed(EPSILON, USERS))
    for target in range(listed.size):
        rows = (np.arange(40)[:, None] + 0.5) / 40
        labels = listed.predict(target, rows)
        taught = Samples.equal(np.tile(rows, (USERS, 1)), np.tile(labels, USERS), USERS)
        good = {index for index in range(listed.size) if np.mean(listed.predict(index, rows) != labels) <= 0.3}
        # Group privacy: what is likely with data is not too unlikely without (margins of five standard deviations).
        learnt = np.mean([learn(taught, seeded(run)) in good for run in range(300)])
        blind = np.mean([learn(NOBODYS, seeded(run)) in good for run in range(300)])
        assert blind + 0.15 >= math.exp(-EPSILON * USERS) * (learnt - 0.15)
        assert good & represented
