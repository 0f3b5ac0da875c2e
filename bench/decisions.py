"""Planning an experiment by its own rule, and many runs of it at once. Seconds are those of the processor."""

from __future__ import annotations

import contextlib
import io

from bench.measure import heading, line, processor
from croupier.cli import main as command
from croupier.simulation import Bernoulli, simulate, simulated_policy

PLANS = {
    "two arms": "plan --control 0.5 --lift 0.05 --arms 2 --epsilon 1",
    "three arms, two servers": "plan --control 0.5 --lift 0.05 --arms 3 --epsilon 1 --trust two-servers --power 0.8",
    "a rare event": "plan --control 0.02 --lift 0.004 --arms 2 --epsilon 1",
}
RUNS, USERS = 1_000, 100_000


def planned(words: str) -> None:
    """One plan, as the command makes it."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert command(words.split()) == 0


def simulated(name: str, arms: int) -> None:
    """All runs at once."""
    policy = simulated_policy(name, arms=arms, horizon=USERS, runs=RUNS, epsilon=1.0, binary=True, trust="two-servers")
    simulate(policy, Bernoulli([0.5] * (arms - 1) + [0.55]), seed=1, checkpoints=10)


def main() -> None:
    """Print the lines."""
    heading("croupier plan, nothing remembered (aim: 10 s)")
    for name, words in PLANS.items():
        line(name, f"{processor(lambda given=words: planned(given), 1):.1f} s")  # type: ignore[misc]
    heading(f"{RUNS:,} runs of {USERS:,} users at once, to the decision (aim with two arms: 2 s)")
    for arms in (2, 10):
        for name in ("split", "concurrent-elimination", "dp-top-two"):
            took = processor(lambda n=name, k=arms: simulated(n, k), 2 if arms == 2 else 1)  # type: ignore[misc]
            line(f"{name}, {arms} arms", f"{took:.2f} s")


if __name__ == "__main__":
    main()
