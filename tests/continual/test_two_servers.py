"""A counter over shares: one report a user, and the servers form every node of the tree, with their own noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.continual import Counter, CounterPlan, best_counter, counter
from croupier.noise import seeded
from croupier.privacy import Loss
from croupier.protocols import laplace
from croupier.simulation.counting import CountingError, TreeSum

OVER = ("laplace", "skellam", "discrete-gaussian")


def planned(over: str, users: int = 4_000, **options: object) -> CounterPlan:
    return counter(users, epsilon=1.0, over=over, trust="two-servers", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("over", OVER)
def test_all_levels_have_one_encoding_so_that_one_report_is_in_all(over: str) -> None:
    plan = planned(over)
    first = plan.mechanisms[0]
    assert plan.shufflers > 3
    assert all(mechanism.recipe == first.recipe for mechanism in plan.mechanisms)
    assert {mechanism.precision for mechanism in plan.mechanisms} == {127}
    assert all(mechanism.trust == "two-servers" for mechanism in plan.mechanisms)
    assert plan.messages_per_user == first.messages_per_user == 2.0
    assert CounterPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("over", OVER)
def test_a_users_total_is_the_composition_over_their_nodes(over: str) -> None:
    plan = planned(over)
    one_servers = Loss.total(
        mechanism.values.loss(mechanism.share, mechanism.precision) for mechanism in plan.mechanisms
    )
    assert plan.loss.delta(1.0) == pytest.approx(one_servers.delta(1.0), rel=1e-9, abs=1e-18)
    assert plan.loss.delta(1.0) <= 1e-6
    assert plan.loss.epsilon(1e-6) > 0.99


def test_what_the_servers_hold_is_every_node_from_the_same_shares() -> None:
    """Without noise each node is the sum of its users' shares: nothing but one report of each user is needed."""
    plan = planned("laplace", binary=True, smallest=32, users=128)
    ring = plan.mechanisms[0].ring
    assert ring is not None
    values = np.arange(128) % 3 == 0
    seeds = [bytes([user]) * 32 for user in range(128)]
    secrets = [plan.mechanisms[0].secret(float(value), seeded(1)) for value in values]
    shares = [ring.decode(ring.split(secret, seed, b""), 1) for secret, seed in zip(secrets, seeds, strict=True)]
    for mechanism, size in zip(plan.mechanisms, plan.tree.sizes, strict=True):
        for first in range(0, 128, size):
            node = slice(first, first + size)
            parts = ring.total(shares[node], 1), ring.total((ring.expand(seed, b"", 1) for seed in seeds[node]), 1)
            assert mechanism.told(ring.add(*parts)) == values[node].sum()


@pytest.mark.parametrize("over", ["laplace", "skellam"])
def test_all_running_sums_stay_within_the_bound(over: str) -> None:
    plan = planned(over, users=1_000, binary=True)
    values = (np.arange(1_000) % 2).astype(float)
    error = CountingError.measure(lambda run: TreeSum(plan, seeded(run)), values, 60)
    # 60 runs that each fail with probability 0.05: more than 13 failures have probability below 1e-5.
    assert error.within(plan.bound(0.05)) >= 1.0 - 13 / 60
    assert error.rms_error_worst < 2.0 * plan.noise_std + plan.pending_error


def test_two_noises_cost_less_than_the_square_root_of_two() -> None:
    """The smallest batch grows with the noise, which saves a level."""
    shared, devices = (counter(10_000, epsilon=1.0, over="laplace", trust=t) for t in ("two-servers", "devices"))
    assert 1.0 < shared.bound(0.05) / devices.bound(0.05) < 2**0.5
    assert devices.messages_per_user == devices.shufflers


def test_the_server_of_such_a_counter_runs_as_any_other() -> None:
    server = Counter(planned("laplace", users=512, smallest=64))
    while server.users < 512:
        server.arrive(64)
        for batch in server.shufflers.full:
            server.release(batch.number, 127 * 32 * batch.mechanism.users // 64)
    assert server.estimate == pytest.approx(256.0)


def test_levels_with_different_encodings_are_refused() -> None:
    plan = planned("laplace", users=200, smallest=50)
    other = laplace(epsilon=0.1, precision=3, trust="two-servers").plan(plan.tree.sizes[-1])
    with pytest.raises(InvalidParameter, match="^mechanisms = 'different encodings'"):
        replace(plan, mechanisms=(*plan.mechanisms[:-1], other))


def test_the_best_counter_and_refusals() -> None:
    best = best_counter(500, 2, epsilon=1.0, over="laplace", trust="two-servers")
    assert best.mechanisms[0].trust == "two-servers"
    with pytest.raises(InvalidParameter, match="^trust = 'two-servers' "):
        counter(500, epsilon=1.0, over="shuffled-bits", trust="two-servers")
    with pytest.raises(InvalidParameter, match="^constants = 'published' "):
        counter(500, epsilon=1.0, over="laplace", trust="two-servers", constants="published")
