"""Simulated rounds per second against MABWiser's and river's UCB1, like with like, and how cost grows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from river import bandit

from bench.measure import heading, line, megabytes, seconds
from croupier.simulation import ALL_POLICIES, Bernoulli, simulate, simulated_policy

MEANS = np.linspace(0.3, 0.7, 10)


def one(name: str, horizon: int, runs: int, constants: str = "tight") -> None:
    """Simulate `runs` runs at once."""
    asked = {"arms": 10, "horizon": horizon, "runs": runs, "binary": True, "constants": constants}
    policy = simulated_policy(name, **asked, **({} if ALL_POLICIES[name].notion == "none" else {"epsilon": 0.5}))
    simulate(policy, Bernoulli(MEANS), seed=1, checkpoints=10)


def user_by_user(name: str, rounds: int, **options: Any) -> float:
    """Rounds per second of one run in which every user's reward is drawn, and reported, alone."""
    policy = simulated_policy(name, arms=10, horizon=rounds, binary=True, **options)
    start = time.perf_counter()
    simulate(policy, Bernoulli(MEANS), seed=1, checkpoints=10, mode="users")
    return rounds / (time.perf_counter() - start)


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
    peers = {"MABWiser": mabwiser_rounds(2_000), "river": river_rounds(2_000)}

    def against_peers(name: str, rate: float) -> None:
        line(name, f"{rate:.2e} rounds/s", *(f"{rate / peer:.2g} × {who}" for who, peer in peers.items()))

    heading("Rounds per second, like with like: one run, user by user, against UCB1 of peers")
    print("Peers draw a reward, learn from it and decide again, for every user. So does kl-ucb here.")
    print("The private policies decide once a batch; every user's report is randomized, carried and decoded.")
    against_peers("kl-ucb, a decision for every user", user_by_user("kl-ucb", 2_000, growth=1.0))
    for name, over in (("dist-dp-se", "laplace"), ("dp-klucb", "laplace"), ("dp-klucb", "shuffled-laplace")):
        rounds = {"epsilon": 0.5, "protocol_name": over}
        user_by_user(name, 200_000, **rounds)  # calibrate once
        against_peers(f"{name} over {over}, every user's report", user_by_user(name, 200_000, **rounds))
    heading("Rounds per second by the law of a batch, 1,000 runs at once (aim: 10⁴ × UCB1 of peers)")
    print("Not the same work: nobody is simulated one by one. A policy sees the sum of a batch alone, so the sum is")
    print("drawn once, from its exact law (a binomial for coins), and so is the batch's total noise. The results have")
    print("the same law as those above (tests/bandits/test_policies.py). A round is one of the 10⁷ users of a run.")
    for name in ("dist-dp-se", "dp-klucb"):
        against_peers(name, 1000 * 10**7 / seconds(lambda n=name: one(n, 10**7, 1000), 2))
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
