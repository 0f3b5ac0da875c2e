"""The intervals that policies show hold as often as they say: over every protocol, with arms paused and added late."""

import numpy as np
import pytest
from scipy.stats import binom

from cases.policies import FEW_SUMS, IN_BLOCKS, OVER_ANY, PLAIN, PUBLISHED, SHARED, SHOWS_NOISE, SUMS, undecided
from croupier.simulation import Bernoulli, Beta, simulate, simulated_policy

FAILURE = 0.05
FALSE_ALARM = 1e-11
"""Of one case. There are fewer than 1,000 of them, so a right policy fails any with probability below 1e-8."""

MEANS = (0.1, 0.6, 0.9)
EVIDENCE = [pytest.mark.evidence]


class Watch:
    """In which runs any interval has ever missed."""

    def __init__(self, means, runs):
        self.means, self.failed = np.asarray(means), np.zeros(runs, dtype=bool)

    def __call__(self, policy):
        lower, upper = policy.intervals(FAILURE)
        means = self.means[: policy.arms]
        self.failed |= ((means < lower) | (means > upper)).any(axis=1)

    def assert_covered(self):
        missed, runs = int(self.failed.sum()), len(self.failed)
        allowed = int(binom.isf(FALSE_ALARM, runs, FAILURE))
        assert missed <= allowed, f"{missed} of {runs} missed; more than {allowed} has probability {FALSE_ALARM}"


def check(name, *, users, runs, world=Bernoulli, **options):
    """Two arms play; one pauses while a third is new; then all play. Stages end at these numbers of users."""
    binary = world is Bernoulli
    policy = undecided(simulated_policy(name, arms=2, horizon=None, runs=runs, binary=binary, **options))
    watch = Watch(MEANS, runs)
    simulate(policy, world(MEANS[:2]), seed=11, users=users[0], checkpoints=1, watch=watch)
    policy.pause(1)
    policy.add_arm()
    simulate(policy, world(MEANS), seed=12, users=users[1], checkpoints=1, watch=watch)
    policy.resume(1)
    simulate(policy, world(MEANS), seed=13, users=users[2], checkpoints=1, watch=watch)
    assert (policy.batches > 0).mean() > 0.95
    watch.assert_covered()


def quick(name):
    """Few batches of sizes that all policies share, so that each is calibrated once."""
    return {"users": (600, 1500, 4000), "runs": 200, "smallest": 32, "growth": 1.5 if name == "sdp-ae" else 2.0}


def over(sums):
    """Every policy over each of these; those in blocks have their bounds from one place, so all but one take a few."""
    return [
        pytest.param(name, carried, marks=[pytest.mark.evidence] * (name in IN_BLOCKS[1:] and carried not in FEW_SUMS))
        for name in OVER_ANY
        for carried in sums
    ]


@pytest.mark.parametrize(("name", "carried"), over(SUMS))
def test_every_policy_covers_over_every_protocol(name, carried):
    check(name, protocol_name=carried, epsilon=0.1, **quick(name))


@pytest.mark.parametrize(("name", "carried"), over(SHARED))
def test_every_policy_covers_with_noise_from_two_servers(name, carried):
    check(name, protocol_name=carried, epsilon=0.1, trust="two-servers", **quick(name))


@pytest.mark.parametrize("name", SHOWS_NOISE)
@pytest.mark.parametrize("carried", [pytest.param(name, marks=[] if name in FEW_SUMS else EVIDENCE) for name in SUMS])
def test_baselines_that_play_as_if_there_were_no_noise_show_it(name, carried):
    check(name, protocol_name=carried, epsilon=0.1, **quick(name))


@pytest.mark.parametrize("name", OVER_ANY)
@pytest.mark.parametrize("carried", [pytest.param(name, marks=[] if name == "laplace" else EVIDENCE) for name in SUMS])
def test_every_policy_covers_where_rewards_are_any_numbers(name, carried):
    check(name, protocol_name=carried, epsilon=0.3, world=Beta, **quick(name))


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_policy_covers_with_published_noise(name):
    check(name, constants="published", epsilon=0.1, **quick(name))


@pytest.mark.parametrize("name", PLAIN)
def test_policies_without_privacy_cover(name):
    check(name, **quick(name))


def test_a_reference_counts_its_own_noise():
    check("dp-se", epsilon=0.01, users=(40_000, 60_000, 200_000), runs=400)


@pytest.mark.parametrize("failure", [0.1, 0.4])
def test_wrap_arounds_are_counted(failure):
    """The papers let a modular sum wrap with their own p, and near the ends of [0, 1] it then does."""
    means = (0.01, 0.6, 0.99)
    options = {"epsilon": 0.1, "constants": "published", "binary": True, "failure": failure}
    watch = Watch(means, 400)
    policy = simulated_policy("dist-dp-se", arms=3, horizon=4000, runs=400, **options)
    simulate(policy, Bernoulli(means), seed=14, checkpoints=1, watch=watch)
    watch.assert_covered()


@pytest.mark.evidence
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
@pytest.mark.parametrize("carried", SUMS)
@pytest.mark.parametrize("name", OVER_ANY)
def test_every_policy_covers_with_its_own_growth_in_many_runs(name, carried, epsilon):
    check(name, protocol_name=carried, epsilon=epsilon, users=(3_000, 10_000, 40_000), runs=2_000, smallest=100)
