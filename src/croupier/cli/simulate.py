"""`croupier simulate`: policies on one bandit problem, many runs at once."""

from __future__ import annotations

import argparse
from typing import Any

from croupier.checks import InvalidParameter
from croupier.cli.options import print_json
from croupier.cli.progress import progress
from croupier.cli.tables import number, table
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.simulation import ALL_POLICIES, Bernoulli, Run, simulate, simulated_policy

NAME = "simulate"
SUMMARY = "run policies on simulated users and compare their regret"


def add(command: argparse.ArgumentParser) -> None:
    """The policies, the problem, and how often."""
    command.add_argument("--policy", action="append", metavar="NAME", help="repeat to compare (default: dp-klucb)")
    command.add_argument("--arms", required=True, metavar="MEANS", help="success rates of the arms, as 0.3,0.5,0.7")
    command.add_argument("--horizon", type=int, required=True, metavar="T", help="users in a run")
    command.add_argument("--epsilon", type=float, default=1.0, metavar="E", help="privacy parameter (default: 1)")
    command.add_argument("--delta", type=float, metavar="D", help="where a policy's protocol needs one (default: 1e-6)")
    command.add_argument("--constants", choices=CONSTANTS, default="tight", help="noise and radii (default: tight)")
    command.add_argument("--runs", type=int, default=100, metavar="R", help="runs (default: 100)")
    command.add_argument("--seed", type=int, default=0, metavar="S", help="repeats a simulation (default: 0)")
    command.add_argument("--plot", metavar="FILE", help="write regret over time as a picture")


def parse_means(text: str) -> list[float]:
    """Read 0.3,0.5,0.7."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidParameter("arms", text, "success rates separated by commas, as 0.3,0.5,0.7") from None


def run(options: argparse.Namespace) -> int:
    """Simulate every policy on the same problem."""
    world = Bernoulli(parse_means(options.arms))
    names = options.policy or ["dp-klucb"]
    policies = [
        simulated_policy(
            name,
            arms=world.arms,
            horizon=options.horizon,
            runs=options.runs,
            binary=True,
            constants=options.constants,
            **privacy_of(name, options.epsilon, options.delta),
        )
        for name in names
    ]
    done: list[Run] = []
    with progress("simulating", 1000 * len(policies)) as advance:
        for policy in policies:
            done.append(simulate(policy, world, seed=options.seed, progress=lambda share: advance(round(1000 * share))))
    rows = [summary(run, options) for run in done]
    if options.plot:
        from croupier.simulation.plots import plot_regret

        title = f"{world.arms} arms, {options.runs} runs, ε = {options.epsilon:g}, {options.constants} constants"
        path = plot_regret(done, options.plot, title)
    if options.json:
        print_json(rows)
        return 0
    show(rows, f"{world.arms} arms ({options.arms}), {options.horizon:,} users, seed {options.seed}")
    if options.plot:
        print(f"figure: {path}")
    return 0


def privacy_of(name: str, epsilon: float, delta: float | None) -> dict[str, Any]:
    """ε and δ as far as a policy takes them: none without privacy, no δ where privacy is pure."""
    entry = ALL_POLICIES.get(name)
    if entry is not None and entry.notion == "none":
        return {}
    return {"epsilon": epsilon} if entry is None or entry.notion == "pure" else {"epsilon": epsilon, "delta": delta}


def summary(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """One policy's row."""
    name = run.policy.name
    protocol = run.policy.ladder.protocol
    notion = ALL_POLICIES[name].notion
    private = {
        "policy": name,
        "epsilon": options.epsilon if notion != "none" else None,
        "delta": 0.0 if protocol is None else protocol.delta,
        "notion": notion,
    }
    return private | run.summary() | {"constants": options.constants, "seed": options.seed}


def show(rows: list[dict[str, Any]], title: str) -> None:
    """The table that a person reads."""
    best = min(row["regret_mean"] for row in rows)
    table(
        ["policy", "guarantee", "ε", "mean regret", "±", "median", "worst run", "best arm found", "× best here"],
        [
            [
                row["policy"],
                row["notion"],
                "-" if row["epsilon"] is None else number(row["epsilon"]),
                number(row["regret_mean"]),
                number(1.96 * row["regret_sem"], 3),
                number(row["regret_median"]),
                number(row["regret_max"]),
                f"{100 * row['best_arm_rate']:.1f} %",
                f"{row['regret_mean'] / best:.1f}" if best > 0 else "-",
            ]
            for row in rows
        ],
        right={2, 3, 4, 5, 6, 7, 8},
        title=title,
    )
