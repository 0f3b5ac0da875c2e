"""Worlds that drift and users who are silent: what a block meets is the average of its time."""

import numpy as np
import pytest

from croupier.bandits import policy
from croupier.checks import InvalidParameter
from croupier.noise import seeded
from croupier.simulation import Bernoulli, Drifting, Novelty, Silent, Swinging, Trending
from croupier.simulation.each_user import EachUser, Line

WORLDS = {
    "swinging": Swinging([0.4, 0.5], swing=0.2, period=700),
    "trending": Trending([0.2, 0.3], rise=0.4, over=900),
    "novelty": Novelty([0.5, 0.4], boost=0.3, fades=300),
    "drifting": Drifting([0.2, 0.8], period=5000),
}


@pytest.mark.parametrize("name", WORLDS)
def test_a_block_meets_the_average_of_its_time(name):
    world, start, end = WORLDS[name], np.asarray([0, 350, 1200]), np.asarray([[900.0], [360.0], [3000.0]])
    found = world.during(start, end).means
    for run, (first, last) in enumerate(zip(start.tolist(), end[:, 0].astype(int).tolist(), strict=True)):
        assert found[run] == pytest.approx(world.means_at(run, np.arange(first, last)).mean(axis=0), abs=3e-3)


def test_means_that_would_leave_their_range_are_refused():
    for make in (lambda: Swinging([0.95, 0.5]), lambda: Trending([0.5, 0.9], rise=0.2), lambda: Novelty([0.5, 0.95])):
        with pytest.raises(InvalidParameter, match="means"):
            make()
    with pytest.raises(InvalidParameter, match="zeros"):
        Silent(Bernoulli([0.5, 0.5]), 0.5, zeros=0.0)


def test_silence_by_outcome_moves_those_who_report():
    quiet = Silent(Swinging([0.5, 0.2], swing=0.0), reporting=0.9, zeros=0.5).during(np.zeros(1), np.ones((1, 1)))
    assert quiet.rates[0] == pytest.approx([0.9 * 0.75, 0.9 * 0.6])
    assert quiet.reporters.means[0] == pytest.approx([0.5 / 0.75, 0.2 / 0.6])


def made(trust, runs):
    common = {"arms": 2, "horizon": 2000, "epsilon": 1.0, "binary": True, "runs": runs}
    return policy("split", **common, trust=trust, decision={"smallest_effect": 0.2, "rate": 0.5})


class Turning(Bernoulli):
    """All succeed until a moment, and nobody does after it."""

    moment = 0.0

    def outcomes(self, run, arms, times, generator):
        return (times < self.moment).astype(float)


def apart(users, rate, times):
    """How much the sums of two equal arms differ, squared, where outcomes turn in the middle of a block."""
    world = Turning([0.5, 0.5])
    world.moment = users / rate
    sums = []
    for run in range(times):
        player = EachUser(made("devices", 1), Silent(world, rate), 10**6, seeded(run))
        values, _ = player._filled(0, np.full(2, users))
        sums.append([np.sum(each) for each in values])
    return float(np.mean([(first - second) ** 2 for first, second in sums]))


@pytest.mark.slow
def test_batches_that_must_be_full_fill_side_by_side_however_few_report(monkeypatch):
    """Users alone make the sums of two batches of 32 differ by 16, squared: so much is what intervals allow for."""
    assert apart(32, 0.05, 80) < 8.0
    assert apart(32, 0.3, 80) < 8.0
    # An arm that does not wait is full at some other time: then the sums differ by 30 or so, and by 15 at least in 120.
    monkeypatch.setattr(Line, "open_now", lambda line, users: [True] * len(users))
    assert apart(32, 0.05, 120) > 15.0
