"""Linear bandits over concurrent shufflers: against a loop over users, against the users themselves, and growth."""

from __future__ import annotations

import time

import numpy as np

from bench.measure import heading, line, seconds
from croupier.linear import LinearPlan, linear_bandit, statistics
from croupier.noise import seeded
from croupier.simulation.counting import TreeSum
from croupier.simulation.linear_runner import simulate_linear
from croupier.simulation.linear_worlds import Sphere

USERS, DIMENSION, ACTIONS = 10**5, 10, 20


def blocks(users: int = USERS, dimension: int = DIMENSION, shufflers: int | None = None) -> float:
    """Seconds of a simulation, everyone of an open batch at once; planned before."""
    world = Sphere(dimension, ACTIONS, 1)
    return seconds(lambda: simulate_linear("concurrent", world, users, seed=1, shufflers=shufflers), 2)


def one_by_one(plan: LinearPlan, users: int) -> float:
    """Seconds of the same algorithm when users come one by one, as in a live system."""
    world, source = Sphere(plan.dimension, ACTIONS, 1), seeded(1)
    running = TreeSum(plan.counter, source)
    rule = plan.confidence.rule(np.zeros(plan.counter.dimension), 0)
    start = time.perf_counter()
    for user in range(1, users + 1):
        offer = world.offer(1, source.generator)
        chosen = int(rule.choose(offer.features[0]))
        reward = float(source.generator.random() < offer.means[0, chosen])
        estimate = running.update(statistics(offer.features[0, chosen], reward))
        if user % plan.counter.tree.low == 0:
            rule = plan.confidence.rule(np.asarray(estimate), user)
    return time.perf_counter() - start


def drawing(users: int, dimension: int, block: int) -> float:
    """Seconds in which the users of a simulation are drawn, whatever is done with them."""
    world, source = Sphere(dimension, ACTIONS, 1), seeded(1)

    def draw() -> None:
        for _ in range(0, users, block):
            world.offer(block, source.generator)

    return seconds(draw, 2)


def named(shufflers: int | None) -> str:
    return "binary tree" if shufflers is None else f"k = {shufflers}"


def main() -> None:
    """Print the lines."""
    heading("LinUCB over shufflers, 10⁵ users, d = 10, 20 actions (aims: 10 s, 10 × a loop over users)")
    for shufflers in (1, 2, 3, None):
        start = time.perf_counter()
        plan = linear_bandit(USERS, DIMENSION, shufflers, epsilon=1.0)
        planning = time.perf_counter() - start
        low = plan.counter.tree.low
        ours, part = blocks(shufflers=shufflers), 2 * low
        loop = one_by_one(plan, part) * USERS / part
        line(
            f"{named(shufflers)}, batches from {low:,}",
            f"{planning:.1f} s to plan",
            f"{ours:.2f} s",
            f"{loop / ours:.0f} × faster than a loop",
            f"{ours / drawing(USERS, DIMENSION, low):.1f} × drawing users",
        )
    heading("Growth with the users, d = 10, k = 3")
    for users in (10**4, 10**5, 10**6):
        linear_bandit(users, DIMENSION, 3, epsilon=1.0)
        took = blocks(users, shufflers=3)
        line(f"n = {users:,}", f"{took:.2f} s", f"{took / users * 1e6:.1f} µs/user")
    heading("Growth with the dimension, 10⁵ users, k = 3: d² statistics a user")
    for dimension in (2, 5, 10, 20):
        plan = linear_bandit(USERS, dimension, 3, epsilon=1.0)
        took = blocks(dimension=dimension, shufflers=3)
        drawn = drawing(USERS, dimension, plan.counter.tree.low)
        entries = plan.counter.dimension
        line(f"d = {dimension}: {entries} statistics", f"{took:.2f} s", f"{took / drawn:.1f} × drawing users")
    heading("Growth with the shufflers, 10⁵ users, d = 10")
    for shufflers in (1, 2, 3, 4, 6):
        linear_bandit(USERS, DIMENSION, shufflers, epsilon=1.0)
        took = blocks(shufflers=shufflers)
        line(named(shufflers), f"{took:.2f} s", f"{took / USERS * 1e6:.1f} µs/user")
