"""Simulated rounds per second against MABWiser's and river's UCB1, and how cost grows."""

from __future__ import annotations

import time

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from river import bandit

from bench.measure import heading, line, megabytes, seconds
from croupier.simulation import Bernoulli, simulate, simulated_policy

MEANS = np.linspace(0.3, 0.7, 10)


def one(name: str, horizon: int, runs: int, constants: str = "tight") -> None:
    """Simulate `runs` runs at once."""
    policy = simulated_policy(name, arms=10, horizon=horizon, runs=runs, epsilon=0.5, binary=True, constants=constants)
    simulate(policy, Bernoulli(MEANS), seed=1, checkpoints=10)


def mabwiser_rounds(rounds: int) -> float:
    """Rounds per second of MABWiser's UCB1, one reward at a time."""
    rng = np.random.default_rng(1)
    mab = MAB(list(range(10)), LearningPolicy.UCB1(1.0))
    mab.fit(list(range(10)), (rng.random(10) < MEANS).astype(float).tolist())
    start = time.perf_counter()
    for _ in range(rounds):
        arm = mab.predict()
        mab.partial_fit([arm], [float(rng.random() < MEANS[arm])])
    return rounds / (time.perf_counter() - start)


def river_rounds(rounds: int) -> float:
    """Rounds per second of river's UCB, one reward at a time."""
    rng = np.random.default_rng(1)
    policy = bandit.UCB(delta=1.0, seed=1)
    arms = list(range(10))
    start = time.perf_counter()
    for _ in range(rounds):
        arm = policy.pull(arms)
        policy.update(arm, float(rng.random() < MEANS[arm]))
    return rounds / (time.perf_counter() - start)


def main() -> None:
    """Print the lines."""
    heading("One run of T = 10⁷ on ten arms (aim for elimination: 5 ms)")
    for name in ("dist-dp-se", "vb-sdp-ae", "dp-klucb"):
        one(name, 10**7, 1)  # calibrate once
        alone = seconds(lambda n=name: one(n, 10**7, 1))
        many = seconds(lambda n=name: one(n, 10**7, 1000), 2)
        line(
            name,
            f"{alone * 1e3:.1f} ms alone",
            f"{many:.3f} ms among 1,000",
            f"{1000 * alone / many:.0f} × one by one",
        )
    heading("Rounds per second, 1,000 runs at once, against UCB1 of peers (aim: 10⁴ ×)")
    peers = {"MABWiser": mabwiser_rounds(2_000), "river": river_rounds(2_000)}
    for name in ("dist-dp-se", "dp-klucb"):
        rate = 1000 * 10**7 / seconds(lambda n=name: one(n, 10**7, 1000), 2)
        line(name, f"{rate:.2e} rounds/s", *(f"{rate / peer:.1e} × {who}" for who, peer in peers.items()))
    heading("Growth with the horizon: log T, not T (100 runs)")
    for horizon in (10**4, 10**5, 10**6, 10**7, 10**8, 10**9):
        one("dp-klucb", horizon, 1)
        took = [seconds(lambda n=name, t=horizon: one(n, t, 100), 2) for name in ("dist-dp-se", "dp-klucb")]
        peak = megabytes(lambda t=horizon: one("dp-klucb", t, 100))
        line(
            f"T = {horizon:.0e}",
            f"elimination {took[0] * 1e3:.1f} ms",
            f"dp-klucb {took[1] * 1e3:.0f} ms",
            f"{peak:.1f} MB",
        )
