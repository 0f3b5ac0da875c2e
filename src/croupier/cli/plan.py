"""`croupier plan`: how many users an experiment needs, and what privacy adds to that."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

from croupier.checks import InvalidParameter, between, integer
from croupier.cli import plan_decisions, plan_metrics
from croupier.cli.options import (
    POLICY,
    PROTOCOL,
    add_delay,
    add_protocol_options,
    leave_out,
    numbers,
    picture,
    print_json,
    protocol_options,
    said,
)
from croupier.cli.progress import progress
from croupier.cli.simulate import privacy_of
from croupier.cli.tables import number, table
from croupier.protocols import ROWS, default_protocol
from croupier.simulation import ALL_POLICIES
from croupier.simulation.baselines import check_read, read_options
from croupier.simulation.planning import LEAST, Plan, lifted, users_needed

NAME = "plan"
SUMMARY = "how many users an experiment needs, with and without privacy"
ABOUT = (
    "Says how many users must report, and how many days that is, until an experiment concludes by its own rule: for "
    "the trust that you name, and the others beside it. It simulates experiments in which one arm is better than the "
    "control by --lift (or in which arms have the --means that you give, the control's first), and others in which "
    "all are alike. Policies that claim no comparison are planned until they recommend the best arm in 95 % of runs."
)
EXAMPLES = (
    "croupier plan --control 0.5 --lift 0.05 --arms 3 --epsilon 1 \\",
    "  --trust two-servers --power 0.8 --users-per-day 5000",
)

DEFAULT = "split"
RUNS = plan_decisions.RUNS
LEARNER = "dp-klucb"
"""What stands in where a policy without a protocol is compared with the local model."""

SWEEP = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def add(command: argparse.ArgumentParser) -> None:
    """The experiment."""
    command.add_argument("--arms", type=int, metavar="K", help="how many arms, the control included")
    command.add_argument("--lift", type=float, metavar="D", help="how much better than the control one arm is, as 0.05")
    command.add_argument(
        "--control", type=float, metavar="RATE", help="mean outcome of the control and the other arms (default: 0.5)"
    )
    command.add_argument("--means", type=numbers, metavar="M,M,...", help="all arms' means, instead of the three above")
    command.add_argument("--epsilon", type=float, required=True, metavar="E", help="the privacy parameter ε")
    command.add_argument(
        "--delta", type=float, metavar="D", help="δ, where a protocol needs one (default: the protocol's)"
    )
    command.add_argument("--policy", default=DEFAULT, metavar="NAME", help=f"{POLICY} (default: {DEFAULT})")
    command.add_argument("--protocol", metavar="NAME", help=f"{PROTOCOL} (default: the policy's own)")
    add_protocol_options(command)
    command.add_argument(
        "--runs",
        type=int,
        metavar="R",
        help=f"how many simulated experiments (default: {RUNS}, or as many as a few seconds are enough for)",
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="the same seed gives the same result (default: 0)"
    )
    command.add_argument(
        "--power", type=float, default=0.8, metavar="P", help="the share of experiments that conclude (default: 0.8)"
    )
    command.add_argument(
        "--guardrail",
        action="append",
        default=[],
        metavar="MEAN:MARGIN",
        help="another metric that must not get worse by more than MARGIN, both from 0 to 1, as 0.1:0.02; repeat it",
    )
    command.add_argument(
        "--share", type=float, metavar="S", help="of the budget, the primary metric's beside others (default: 0.5)"
    )
    command.add_argument(
        "--horizon", type=int, metavar="N", help="users after which it ends, for --guardrail (default: long enough)"
    )
    add_delay(command)
    command.add_argument("--users-per-day", type=int, metavar="U", help="how many users report a day: tells days too")
    command.add_argument(
        "--plot", type=picture, metavar="FILE", help="write concluded experiments over users (or needs over ε)"
    )


def run(options: argparse.Namespace) -> int:
    """Plan until decisions where the policy takes them, else until the best arm is recommended."""
    means = means_from(options)
    name, over = ALL_POLICIES.admit(options.policy), ROWS.admit(options.protocol)
    given = protocol_options(options)
    between("power", options.power, 0, 1)
    if options.users_per_day is not None:
        integer("users_per_day", options.users_per_day, 1)
    _check_difference(options, means, means[0] if ALL_POLICIES.find(name).in_blocks else sorted(means)[-2:][0])
    if options.delay is not None and (plan_metrics.asked(options) or not ALL_POLICIES.find(name).in_blocks):
        raise InvalidParameter("delay", options.delay, "left out but for decisions by one metric")
    if plan_metrics.asked(options):
        return plan_metrics.run(options, means, name, given)
    if options.horizon is not None:
        raise InvalidParameter("horizon", options.horizon, "left out without a guardrail")
    if ALL_POLICIES.find(name).in_blocks:
        return plan_decisions.run(options, means, name, given)
    if options.users_per_day is not None:
        raise InvalidParameter("users_per_day", options.users_per_day, f"left out: {name} claims no comparison")
    leave_out(options, ("power",), "recommendations are planned for 95 % of runs")
    check_read([name], over, given | {"delta": options.delta, "protocol": over})
    return _recommending(options, means, name, over, given)


def _recommending(
    options: argparse.Namespace, means: list[float], name: str, over: str | None, given: dict[str, Any]
) -> int:
    """Plan for this policy, for none, and for the local model."""
    models = _models(name, over, options, given)
    epsilons = SWEEP if options.plot else ()
    plans: list[tuple[str, Plan]] = []
    curves: dict[str, list[float]] = {}
    with progress("planning", len(models) * (1 + len(epsilons))) as advance:
        for label, name, privacy in models:
            plan = _need(options, means, name, privacy, advance)
            plans.append((label, plan))
            curves[label] = []
            for epsilon in epsilons:
                if privacy:
                    need = _need(options, means, name, privacy | {"epsilon": epsilon}, advance)
                else:
                    need = plan
                    advance(1.0)
                curves[label].append(need.users)
    free = plans[0][1].users
    rows = [
        {"model": label, "policy": plan.policy, "epsilon": plan.epsilon, "users": plan.users, "cost": plan.users / free}
        for label, plan in plans
    ]
    path = None
    if options.plot:
        from croupier.simulation.plots import plot_needs

        path = plot_needs(epsilons, curves, options.plot, _words(means))
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
        title=f"Users until the best arm is recommended in 95 % of runs: {_words(means)}",
        notes=[
            f"Needs are told to two per cent, from {_runs(options):,} simulated experiments, seed {options.seed}.",
            *said(given),
        ],
    )
    if path is not None:
        print(f"figure: {path}")
    return 0


FREE, LOCAL = "kl-ucb", default_protocol("nobody")
"""What is compared with: a policy without privacy, and the protocol that trusts nobody."""

Model = tuple[str, str, dict[str, Any]]


def _models(name: str, over: str | None, options: argparse.Namespace, given: dict[str, Any]) -> list[Model]:
    """What a row says, its policy, and that one's privacy; none is there twice."""
    entry = ALL_POLICIES.find(name)
    budget = {"epsilon": options.epsilon, "delta": options.delta}
    models: list[Model] = [("no privacy", FREE, {})]
    if name != FREE:
        models.append((name, name, privacy_of(name, over, budget | given)))
    if (over or entry.protocol) == LOCAL:
        return models
    # A policy that sums over no protocol has no local form: the default stands in, under its own name.
    same = name if entry.protocol is not None else LEARNER
    label = "the same in the local model" if same == name else f"{same} in the local model"
    local = {"epsilon": options.epsilon, "protocol_name": LOCAL} | read_options(same, LOCAL, given | {"trust": None})
    return [*models, (label, same, local)]


def means_from(options: argparse.Namespace) -> list[float]:
    """The arms' means: as they are given, or equal but for one."""
    if options.means is not None:
        for key in ("arms", "lift", "control"):
            if vars(options)[key] is not None:
                raise InvalidParameter(key, vars(options)[key], "left out where the means are given")
        return list(options.means)
    for key in ("arms", "lift"):
        if vars(options)[key] is None:
            raise InvalidParameter(key, None, "given, or else --means")
    return lifted(options.arms, options.lift, 0.5 if options.control is None else options.control)


def _check_difference(options: argparse.Namespace, means: list[float], other: float) -> None:
    """Refuse an arm that is ahead of the other by too little to be found, in the words of who typed it."""
    if options.lift is not None and options.lift < LEAST:
        raise InvalidParameter("lift", options.lift, f"at least {LEAST:g}: no experiment has the users to find less")
    if options.lift is None and 0.0 < max(means) - other < LEAST:
        raise InvalidParameter("means", means, f"apart by {LEAST:g} or more: no experiment has the users to find less")


def _words(means: list[float]) -> str:
    second, best = sorted(means)[-2:]
    return f"{len(means)} arms, one better by {best - second:.3g}"


def _runs(options: argparse.Namespace) -> int:
    return RUNS if options.runs is None else int(options.runs)


def _need(
    options: argparse.Namespace,
    means: list[float],
    name: str,
    privacy: dict[str, Any],
    advance: Callable[[float], None],
) -> Plan:
    return users_needed(name, means=means, runs=_runs(options), seed=options.seed, progress=advance, **privacy)
