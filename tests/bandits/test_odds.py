"""How users are dealt to the arms: odds are odds, chance comes from a seed, and what a stranger overrides is public."""

import math

import numpy as np
import pytest

from cases.policies import NAMES, make
from croupier.bandits import IMED, KLUCB, Elimination, IndexPolicy, Ladder, Policy, Thompson, policy
from croupier.bandits.thompson import uniforms
from croupier.programs import program
from croupier.simulation import Bernoulli, simulate
from croupier.simulation.baselines import DPSE

KINDS = [Elimination, IndexPolicy, KLUCB, IMED, Thompson, DPSE]


@pytest.mark.parametrize("name", NAMES)
def test_odds_are_odds_on_playable_arms_and_asking_changes_nothing(name):
    chosen = make(name, arms=4, horizon=8_000, runs=3)
    chosen.pause(2)

    def watch(now):
        odds, wanted = now.odds(), now.wanted()
        assert np.array_equal(odds, now.odds())
        assert np.array_equal(wanted, now.wanted())
        assert np.array_equal(odds > 0, wanted > 0)
        assert not odds[~now.playable].any()
        assert np.allclose(odds.sum(axis=1), now.playable.any(axis=1))

    simulate(chosen, Bernoulli([0.3, 0.5, 0.9, 0.7]), seed=1, watch=watch)
    assert chosen.pulls[:, 2].sum() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_policy_overrides_what_has_an_underscore(kind):
    private = {name for name in vars(kind) if name.startswith("_") and not name.startswith("__")}
    assert not private & {name for base in kind.__mro__[1:] for name in vars(base)} - {"_abc_impl"}


class InTurn(Policy):
    """What a stranger writes: arm after arm, twice the odds for the first."""

    def odds(self):
        """Two thirds for the first arm, the rest for the one whose turn it is."""
        odds = np.zeros((self.runs, self.arms))
        odds[:, 0] = 2.0 / 3.0
        odds[np.arange(self.runs), 1 + self.batches[:, 1:].sum(axis=1) % (self.arms - 1)] = 1.0 / 3.0
        return np.where(self.playable, odds, 0.0)


def test_a_policy_is_its_odds():
    chosen = InTurn(3, 1000, Ladder(None, first=10, growth=1.0), runs=2)
    simulate(chosen, Bernoulli([0.2, 0.5, 0.8]), seed=3)
    assert chosen.batches.tolist() == [[50, 25, 25]] * 2
    assert np.all(chosen.best_arm == 2)


def thompson(**options):
    settings = {"arms": 2, "horizon": 10**6, "epsilon": 1.0, "binary": True} | options
    return policy("dp-thompson", **settings)


def test_a_thompson_sampler_deals_by_the_chance_that_an_arm_is_best():
    chosen = thompson(runs=20_000)
    for total in (60.0, 50.0):
        arm = 0 if total == 60.0 else 1
        assigned = np.zeros((20_000, 2), dtype=np.int64)
        assigned[:, arm] = 100
        chosen.observe(np.full((20_000, 2), total), assigned, assigned > 0)
    # Rewards vary by 100/4 at most, and discrete Laplace noise at ε = 1 by 1.8414 (3 % more is allowed for).
    spread = math.sqrt(2.0 * (25.0 + 1.8414)) / 100.0
    expected = 0.5 * (1.0 + math.erf(0.1 / spread / math.sqrt(2.0)))
    # 80,000 draws: six standard deviations, a false alarm of 2e-9, and what the spread is allowed to be off.
    assert chosen.odds()[:, 0].mean() == pytest.approx(expected, abs=6 * 0.5 / math.sqrt(80_000) + 1e-3)


def test_a_thompson_sampler_finds_the_best_arm():
    run = simulate(thompson(arms=3, horizon=20_000, runs=100), Bernoulli([0.2, 0.5, 0.8]), seed=2)
    assert run.best_arm_rate == 1.0


def test_the_seed_is_all_the_chance_there_is():
    first, again, other = (thompson(arms=5, seed=seed, runs=50).odds() for seed in (7, 7, 900))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_transcript_names_the_seed_and_replays():
    parameters = {"name": "dp-thompson", "arms": 4, "horizon": 4000, "epsilon": 1.0, "binary": True, "seed": 9}
    first, again = (program({"kind": "bandit"} | parameters) for _ in range(2))
    assert first.wanted == again.wanted


def test_keyed_numbers_are_uniform_and_independent_between_neighbouring_keys():
    found = uniforms(np.arange(200)[:, None, None], np.arange(50)[None, :, None], np.arange(10))
    assert 0.0 < found.min() < found.max() < 1.0
    counts = np.histogram(found, bins=50, range=(0, 1))[0]
    # χ² of 49 degrees of freedom: above 140 with probability 1e-10.
    assert ((counts - 2000.0) ** 2 / 2000.0).sum() < 140.0
    for axis in range(3):
        below, above = np.delete(found, -1, axis), np.delete(found, 0, axis)
        correlation = np.corrcoef(below.ravel(), above.ravel())[0, 1]
        assert abs(correlation) < 6.5 / math.sqrt(below.size)
