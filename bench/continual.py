"""Counters under continual observation: a whole array, one value at a time, memory, planning."""

from __future__ import annotations

import numpy as np

from bench.calibration import forget
from bench.measure import heading, line, megabytes, seconds
from croupier.continual import CounterPlan, counter, tight_levels
from croupier.noise import seeded
from croupier.protocols.sums.protocol import _plan
from croupier.simulation.counting import TreeSum
from croupier.simulation.streams import bernoulli_stream

EPSILON = 1.0


def plan(users: int, shufflers: int | None = None, over: str = "shuffled-laplace") -> CounterPlan:
    """A tight counter of zeros and ones."""
    return counter(users, shufflers, epsilon=EPSILON, over=over, binary=True)


def fresh(users: int, shufflers: int | None, over: str) -> CounterPlan:
    """Plan with nothing remembered."""
    forget()
    tight_levels.cache_clear()
    _plan.cache_clear()
    return plan(users, shufflers, over)


def stream(made: CounterPlan, users: int) -> None:
    """Feed ones, one by one."""
    running = TreeSum(made, seeded(1))
    for _ in range(users):
        running.update(1)


def add_up(values: list[float]) -> float:
    """What a counter without privacy does."""
    total = 0.0
    for value in values:
        total += value
    return total


def report(what: str, made: CounterPlan, values: np.ndarray) -> None:
    """One counter over a whole array, beside NumPy's running sum of it."""
    took = seconds(lambda: TreeSum(made, seeded(1)).run(values), 3)
    bare = seconds(lambda: np.cumsum(values))
    peak = megabytes(lambda: TreeSum(made, seeded(1)).run(values))
    line(
        what,
        f"{took:.3f} s",
        f"{took / len(values) * 1e9:.1f} ns/user",
        f"{took / bare:.1f} × np.cumsum",
        f"{peak / (values.nbytes / 1e6):.1f} × the array",
    )


def main() -> None:
    """Print the lines."""
    heading("A binary tree over a whole array (aim: 1 s for 10⁷ users)")
    for users in (10**4, 10**5, 10**6, 10**7):
        values = bernoulli_stream(users, 0.5, 1)
        for over in ("shuffled-bits", "shuffled-laplace") if users == 10**7 else ("shuffled-laplace",):
            report(f"n = {users:,}, {over}", plan(users, None, over), values)
    heading("Growth with the shufflers, 10⁶ users")
    values = bernoulli_stream(10**6, 0.5, 1)
    for shufflers in (1, 2, 3, 5, 8, None):
        made = plan(10**6, shufflers)
        report(f"k = {made.shufflers}, batches from {made.tree.smallest}", made, values)
    heading("One value at a time, 10⁵ users (aim: 5 µs)")
    bare = seconds(lambda: add_up([1.0] * 10**5)) / 10**5
    for shufflers in (1, 3, None):
        made = plan(10**5, shufflers)
        each = seconds(lambda p=made: stream(p, 10**5), 3) / 10**5
        line(f"k = {made.shufflers}", f"{each * 1e6:.2f} µs/update", f"{each / bare:.0f} × total += value")
    heading("Memory of a stream: the tree's height, not its length")
    for users in (10**3, 10**4, 10**5):
        made = plan(users)
        stream(made, users)
        peak = megabytes(lambda p=made, n=users: stream(p, n))
        line(f"n = {users:,}", f"{made.memory_nodes} sums kept", f"{peak * 1e3:.0f} kB at most")
    heading("Planning, nothing remembered")
    for users in (2**10, 2**15, 2**20):
        for over in ("shuffled-bits", "shuffled-laplace"):
            for shufflers in (3, None):
                one = seconds(lambda n=users, o=over: fresh(n, 1, o), 1)
                took = seconds(lambda n=users, k=shufflers, o=over: fresh(n, k, o), 1)
                made = plan(users, shufflers, over)
                line(f"n = {users:,}, {over}, k = {made.shufflers}", f"{took:.2f} s", f"{took / one:.0f} × one level")
