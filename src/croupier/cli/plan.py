"""`croupier plan`: how many users an experiment needs, and what privacy adds to that."""

from __future__ import annotations

import argparse
import math
from typing import Any

from croupier.cli.options import print_json
from croupier.cli.progress import progress
from croupier.cli.simulate import privacy_of
from croupier.cli.tables import number, table
from croupier.simulation.planning import Plan, users_needed

NAME = "plan"
SUMMARY = "how many users until the better arm is found, with and without privacy"

SWEEP = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def add(command: argparse.ArgumentParser) -> None:
    """The experiment."""
    command.add_argument("--arms", type=int, required=True, metavar="K", help="number of arms")
    command.add_argument("--lift", type=float, required=True, metavar="D", help="how much better one arm is, as 0.05")
    command.add_argument("--base", type=float, default=0.5, metavar="M", help="mean of the other arms (default: 0.5)")
    command.add_argument("--epsilon", type=float, required=True, metavar="E", help="privacy parameter")
    command.add_argument("--delta", type=float, metavar="D", help="where the policy's protocol needs one")
    command.add_argument("--policy", default="dp-klucb", metavar="NAME", help="default: dp-klucb")
    command.add_argument("--runs", type=int, default=1000, metavar="R", help="simulated experiments (default: 1000)")
    command.add_argument("--seed", type=int, default=0, metavar="S")
    command.add_argument("--plot", metavar="FILE", help="write users needed over ε as a picture")


def run(options: argparse.Namespace) -> int:
    """Plan for this policy, for none, and for the local model."""
    models: list[tuple[str, str, dict[str, Any]]] = [
        ("no privacy", "kl-ucb", {}),
        (f"{options.policy}", options.policy, privacy_of(options.policy, options.epsilon, options.delta)),
        ("the same in the local model", "dp-klucb", {"epsilon": options.epsilon, "protocol_name": "local-laplace"}),
    ]
    epsilons = SWEEP if options.plot else ()
    plans: list[tuple[str, Plan]] = []
    curves: dict[str, list[float]] = {}
    with progress("planning", len(models) * (1 + len(epsilons))) as advance:
        for label, name, privacy in models:
            plan = _need(options, name, privacy)
            plans.append((label, plan))
            advance(1)
            curves[label] = []
            for epsilon in epsilons:
                curves[label].append(
                    _need(options, name, privacy | {"epsilon": epsilon}).users if privacy else plan.users
                )
                advance(1)
    free = plans[0][1].users
    rows = [
        {"model": label, "policy": plan.policy, "epsilon": plan.epsilon, "users": plan.users, "cost": plan.users / free}
        for label, plan in plans
    ]
    path = None
    if options.plot:
        from croupier.simulation.plots import plot_needs

        path = plot_needs(epsilons, curves, options.plot, f"{options.arms} arms, one better by {options.lift:g}")
    if options.json:
        print_json(rows)
        return 0
    table(
        ["model", "policy", "ε", "users needed", "× no privacy"],
        [
            [
                row["model"],
                row["policy"],
                "-" if row["epsilon"] is None else number(float(str(row["epsilon"]))),
                "more than was tried" if row["users"] == math.inf else f"{row['users']:,.0f}",
                number(float(str(row["cost"])), 3),
            ]
            for row in rows
        ],
        right={2, 3, 4},
        title=f"Users until the better of {options.arms} arms (by {options.lift:g}) is recommended in 95 % of runs",
    )
    if path is not None:
        print(f"figure: {path}")
    return 0


def _need(options: argparse.Namespace, name: str, privacy: dict[str, Any]) -> Plan:
    shared = {"arms": options.arms, "lift": options.lift, "base": options.base, "runs": options.runs}
    return users_needed(name, **shared, seed=options.seed, **privacy)
