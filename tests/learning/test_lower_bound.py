"""From a private learner back to a representation ([GKM21] Alg. 6)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.learning import Samples, Seed, Stable, Thresholds, Voting, representation_from_learner
from croupier.learning.lower_bound import runs_needed
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
