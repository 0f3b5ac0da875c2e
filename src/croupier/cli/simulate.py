"""`croupier simulate`: policies on one bandit problem, many runs at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from croupier.bandits import Policy
from croupier.checks import CroupierError, InvalidParameter, between, integer
from croupier.cli.options import (
    DECIDED,
    POLICY,
    PROTOCOL,
    add_decisions,
    add_protocol_options,
    add_world,
    decided,
    leave_out,
    picture,
    print_json,
    protocol_options,
    said,
    typed,
)
from croupier.cli.plan_metrics import guardrail
from croupier.cli.progress import progress
from croupier.cli.protocols import NOTIONS
from croupier.cli.tables import STANDARD_ERROR, number, spread, table
from croupier.protocols import ROWS
from croupier.protocols.mechanism import TRUSTS
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.simulation import (
    ALL_POLICIES,
    WORLDS,
    Bernoulli,
    Delayed,
    Run,
    Silent,
    World,
    ratings,
    simulate,
    simulated_policy,
    world,
)
from croupier.simulation.baselines import BUDGET, IN_BLOCKS, check_read, read_options, reads
from croupier.simulation.cell import drawn_means
from croupier.simulation.reporting import LONGEST
from croupier.texts import plural

NAME = "simulate"
SUMMARY = "run policies on simulated users and compare their regret"
ABOUT = (
    "Runs bandit policies on simulated users and compares their regret: how much reward was lost by not always"
    " playing the best arm. Say what the arms are worth with --means, let means be drawn with --arms, or "
    "replay a file with --data."
)
EXAMPLES = (
    "croupier simulate --policy dp-klucb --policy kl-ucb --means 0.3,0.5,0.7 \\",
    "  --horizon 100000 --epsilon 0.5",
)

UNASKED = "none"
"""Whom a policy without privacy trusts: the question is not asked."""


def add(command: argparse.ArgumentParser) -> None:
    """The policies, the problem, and how often."""
    command.add_argument(
        "--policy", action="append", metavar="NAME", help=f"{POLICY}; repeat it to compare (default: dp-klucb)"
    )
    command.add_argument("--protocol", metavar="NAME", help=f"{PROTOCOL} (default: the policy's own)")
    add_world(command)
    command.add_argument("--horizon", type=int, required=True, metavar="T", help="users in a run")
    command.add_argument("--epsilon", type=float, metavar="E", help="the privacy parameter ε (default: 1)")
    command.add_argument(
        "--delta", type=float, metavar="D", help="δ, where a protocol needs one (default: the protocol's)"
    )
    command.add_argument(
        "--constants",
        choices=CONSTANTS,
        help="noise and radii: calculated exactly, or a paper's (default: tight)",
    )
    add_protocol_options(command)
    add_decisions(command)
    command.add_argument(
        "--reporting-zeros",
        type=float,
        metavar="S",
        help="of users whose outcome is zero so many times as many report as of the others, as 0.5 (default: 1)",
    )
    command.add_argument(
        "--guardrail",
        action="append",
        default=[],
        metavar="M,M,...:MARGIN",
        help="another metric, one mean for all arms or one an arm: no arm may be lower than the first by more than "
        "MARGIN, as 0.8,0.7:0.05; repeat it",
    )
    command.add_argument("--runs", type=int, default=100, metavar="R", help="how many runs (default: 100)")
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="the same seed gives the same result (default: 0)"
    )
    command.add_argument("--plot", type=picture, metavar="FILE", help="write regret over time as a picture")


def run(options: argparse.Namespace) -> int:
    """Simulate every policy on the same problem."""
    where = world_from(options)
    names = [ALL_POLICIES.admit(name) for name in options.policy or ["dp-klucb"]]
    ROWS.admit(options.protocol)
    _check_unasked(options, names)
    given = protocol_options(options)
    check_read(names, options.protocol, given | typed(options, *BUDGET, "protocol", *IN_BLOCKS))
    options.epsilon = 1.0 if options.epsilon is None else options.epsilon
    budget = {key: getattr(options, key) for key in BUDGET}
    decision = {} if options.smallest_effect is None else {"smallest_effect": options.smallest_effect}
    metrics, beside = _metrics(options, where, names)
    if metrics is not None and given.get("trust") not in (None, "two-servers"):
        raise InvalidParameter("trust", given["trust"], "two-servers where there are several metrics")
    policies = [
        simulated_policy(
            name,
            arms=where.arms,
            horizon=options.horizon,
            runs=options.runs,
            binary=where.binary and metrics is None,
            **({"decision": decision} if ALL_POLICIES[name].in_blocks else {}),
            **privacy_of(name, options.protocol, budget | given),
            **({} if metrics is None else {"metrics": metrics}),
        )
        for name in names
    ]
    done: list[Run] = []
    with progress("simulating", 1000 * len(policies)) as advance:
        for policy in policies:
            tell = partial(_advance, advance)
            done.append(simulate(policy, where, seed=options.seed, progress=tell, beside=beside))
    rows = [summary(run, options) for run in done]
    if options.plot:
        from croupier.simulation.plots import plot_regret

        constants = options.constants or CONSTANTS[0]
        title = f"{where.arms} arms, {plural(options.runs, 'run')}, ε = {options.epsilon:g}, {constants} constants"
        path = plot_regret(done, options.plot, title)
    if options.json:
        print_json(rows)
        return 0
    title = f"{where}, {plural(options.horizon, 'user')}, {plural(options.runs, 'run')}, seed {options.seed}"
    show(rows, title, [*_notes(where, given), *_meanings(policies, options)])
    show_decisions(rows)
    if options.plot:
        print(f"figure: {path}")
    return 0


def _check_unasked(options: argparse.Namespace, names: Sequence[str]) -> None:
    """Take what rows say of policies without privacy for an answer, where there are no others."""
    if options.trust != UNASKED:
        return
    private = [name for name in names if ALL_POLICIES.find(name).notion != "none"]
    if private:
        raise InvalidParameter("trust", UNASKED, f"one of {', '.join(TRUSTS)}: {private[0]} is private")
    options.trust = None


def _advance(advance: Callable[[int], None], share: float) -> None:
    advance(round(1000 * share))


def _metrics(
    options: argparse.Namespace, where: World, names: Sequence[str]
) -> tuple[dict[str, dict[str, Any]] | None, list[World]]:
    """The metrics that the options add, as a configuration has them, and the worlds of all but the primary one."""
    if not options.guardrail:
        return None, []
    if not all(ALL_POLICIES[name].in_blocks for name in names):
        raise InvalidParameter("guardrail", options.guardrail, "left out unless every policy claims comparisons")
    means = [guardrail(text, where.arms) for text in options.guardrail]
    metrics: dict[str, dict[str, Any]] = {"primary": {"role": "primary", "binary": where.binary}}
    for place, (_, margin) in enumerate(means, 1):
        metrics[f"guardrail-{place}"] = {"role": "guardrail", "margin": margin}
    return metrics, [Bernoulli(own) for own, _ in means]


def world_from(options: argparse.Namespace) -> World:
    """The world that the options describe."""
    drawn = options.arms is not None and options.data is None
    given = {"--means": options.means is not None, "--arms": drawn, "--data": options.data is not None}
    if sum(given.values()) > 1:
        both = " and ".join(flag for flag, there in given.items() if there)
        raise CroupierError(f"only one of {both} may be given")
    if not any(given.values()):
        raise InvalidParameter("means", None, "given, or else --arms, or --data: one of the three")
    for name in ("low", "high") if not drawn else ():
        if vars(options)[name] is not None:
            raise InvalidParameter(name, vars(options)[name], "left out: means are drawn only with --arms")
    if options.data is not None:
        leave_out(options, ("world",), "the world is a file")
    found = silent(_outcomes(options), options.reporting, options.reporting_zeros)
    return found if options.delay is None else Delayed(found, integer("delay", options.delay, 0, LONGEST))


def _outcomes(options: argparse.Namespace) -> World:
    """What happens to all who have a turn."""
    if options.data is not None:
        with progress("reading", 1000) as advance:
            return ratings(
                options.data, arms=options.arms, seed=options.seed, progress=lambda p: advance(round(1000 * p))
            )
    means = options.means
    if means is None:
        ends = (0.25 if options.low is None else options.low, 0.75 if options.high is None else options.high)
        means = np.round(drawn_means(options.arms, 1, *ends, options.seed)[0], 4).tolist()
    return world(WORLDS.admit(options.world or "bernoulli"), means)


def silent(where: World, reporting: list[float] | None, zeros: float | None) -> World:
    """The world with so many who report, of all and of those whose outcome is zero, where that was said."""
    if reporting is None and zeros is None:
        return where
    shares, ratio = reporting or [1.0], 1.0 if zeros is None else float(between("reporting_zeros", zeros, 0, 1, "(]"))
    if len(shares) not in (1, where.arms):
        raise InvalidParameter("reporting", reporting, f"one number, or {where.arms}: one an arm")
    if ratio != 1.0 and not where.binary:
        raise InvalidParameter("reporting_zeros", zeros, "left out where outcomes are not zero or one")
    return Silent(where, shares[0] if len(shares) == 1 else shares, ratio)


def privacy_of(name: str, over: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """What of privacy a policy takes: nothing without privacy, no δ where it is pure, and the options that it reads."""
    entry = ALL_POLICIES.find(name)
    if entry.notion == "none":
        return {}
    if over is not None and entry.protocol is None:
        raise InvalidParameter("protocol", over, f"left out: {name} has noise of its own")
    read = reads(name, over)
    budget = {key: given[key] for key in BUDGET if key in read and given.get(key) is not None}
    budget |= read_options(name, over, given)
    return budget if over is None else budget | {"protocol_name": over}


def summary(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """One policy's row."""
    name = run.policy.name
    protocol = run.policy.ladder.protocol
    notion = ALL_POLICIES[name].notion if protocol is None else protocol.row.notion
    private = {
        "policy": name,
        "epsilon": options.epsilon if notion != "none" else None,
        "delta": 0.0 if protocol is None else protocol.delta,
        "notion": notion,
        "trust": ALL_POLICIES[name].model if protocol is None else protocol.trusts,
    }
    given = [key for key in protocol_options(options) if key != "trust"]
    read = {} if protocol is None else {key: getattr(protocol, key) for key in given}
    constants = None if protocol is None else protocol.constants
    return private | read | run.summary() | {"constants": constants, "seed": options.seed}


def show(rows: list[dict[str, Any]], title: str, notes: list[str]) -> None:
    """The table that a person reads."""
    best = min(row["regret_mean"] for row in rows)
    table(
        ["policy", "guarantee", "ε", "mean regret", "±", "median", "worst run", "best arm found", "× best here"],
        [
            [
                row["policy"],
                NOTIONS.get(row["notion"], "none"),
                "-" if row["epsilon"] is None else number(row["epsilon"]),
                number(row["regret_mean"]),
                "-" if row["runs"] == 1 else spread(row["regret_sem"], row["regret_mean"]),
                number(row["regret_median"]),
                number(row["regret_max"]),
                f"{100 * row['best_arm_rate']:.1f} %",
                f"{row['regret_mean'] / best:.1f}" if best > 0 else "-",
            ]
            for row in rows
        ],
        right={2, 3, 4, 5, 6, 7, 8},
        title=title,
        notes=notes,
    )


def show_decisions(rows: list[dict[str, Any]]) -> None:
    """What the policies that claim comparisons decided."""
    claiming = [row for row in rows if "decided_rate" in row]
    if claiming:
        table(
            ["policy", *DECIDED],
            [[row["policy"], *decided(row)] for row in claiming],
            right=set(range(1, 7)),
            title="Decisions",
            notes=["Users are those who reported. Other policies play arms at different times, and claim nothing."],
        )


def _notes(where: World, given: dict[str, Any]) -> list[str]:
    changing = "Regret is against the arm that is best at each time; the best arm is that at the end."
    return [STANDARD_ERROR, *([changing] if where.changes else []), *said(given)]


MEANT = {"renyi": "Rényi", "concentrated": "concentrated"}
"""Notions whose ε is a parameter of the noise, and no (ε, δ)."""

COMMON_BATCH = 10_000


def _meanings(policies: Sequence[Policy], options: argparse.Namespace) -> list[str]:
    """What the column ε is in rows of those notions, computed for a large batch."""
    found: dict[str, list[str]] = {}
    for policy in policies:
        protocol = policy.ladder.protocol
        if protocol is not None and protocol.row.notion in MEANT:
            spent = protocol.plan(COMMON_BATCH).promised.epsilon(protocol.delta)
            words = f"({number(spent, 3)}, {number(protocol.delta)})-DP"
            found.setdefault(words, []).append(MEANT[protocol.row.notion])
    return [
        f"ε = {options.epsilon:g} of {' and '.join(sorted(set(kinds)))} rows is {words}, computed for a batch of "
        f"{COMMON_BATCH:,}: they promise less than (ε, δ) and pure rows do."
        for words, kinds in found.items()
    ]
