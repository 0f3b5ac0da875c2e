"""`croupier count`: a running sum under continual observation, how far off it is, and what it promises."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, did_you_mean
from croupier.cli.options import WHO, add_trust, few_enough, print_json
from croupier.cli.progress import progress
from croupier.cli.tables import number, table
from croupier.continual import CounterPlan, best_counter, counter
from croupier.noise import seeded
from croupier.protocols import ROWS, default_protocol
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.simulation.counting import CountingError, RunningSum, TreeSum
from croupier.simulation.reference_sums import CentralTree, SquareRoot, local_sum
from croupier.simulation.streams import NAMES, stream
from croupier.texts import plural

NAME = "count"
SUMMARY = "keep a running sum with k concurrent shufflers; measure its error"
ABOUT = "Sums users' values as they come, with k concurrent shufflers, and measures how far the running sum is off."
EXAMPLES = ("croupier count --users 100000 --shufflers 1 --shufflers tree --epsilon 0.9",)


def add(command: argparse.ArgumentParser) -> None:
    """The counter, its stream, and how often."""
    command.add_argument("--users", type=int, required=True, metavar="N", help="users in the stream")
    command.add_argument(
        "--shufflers", action="append", metavar="K", help="1, 2, …, tree or best; repeat to compare (default: tree)"
    )
    command.add_argument("--epsilon", type=float, required=True, metavar="E", help="a user's ε, all batches together")
    command.add_argument("--delta", type=float, default=1e-6, metavar="D", help="its δ (default: 1e-6)")
    command.add_argument(
        "--constants",
        choices=CONSTANTS,
        default="tight",
        help="noise: the least that is needed, or a paper's (default: tight)",
    )
    command.add_argument(
        "--over",
        metavar="NAME",
        help="what sums a batch: one of `croupier protocols` that sums numbers without a bias, or module:name "
        "(default: what stands for --trust, of a shuffler shuffled-bits for zeros and ones, else shuffled-laplace)",
    )
    add_trust(command)
    command.add_argument("--low", type=float, default=0.0, metavar="X", help="least value of a user (default: 0)")
    command.add_argument("--high", type=float, default=1.0, metavar="X", help="largest value of a user (default: 1)")
    command.add_argument(
        "--smallest", type=int, metavar="N", help="users of the smallest batch (default: what balances noise and delay)"
    )
    command.add_argument("--stream", default="bernoulli:0.5", metavar="S", help=f"{NAMES} (default: bernoulli:0.5)")
    command.add_argument("--runs", type=int, default=20, metavar="R", help="how many runs (default: 20)")
    command.add_argument(
        "--failure", type=float, default=0.05, metavar="B", help="how often the stated bound may fail (default: 0.05)"
    )
    command.add_argument(
        "--references",
        action="store_true",
        help="compare with the central tree, the central square root, and the local model",
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="the same seed gives the same result (default: 0)"
    )


def run(options: argparse.Namespace) -> int:
    """Plan every counter, run it on the same stream, and show the errors."""
    few_enough(options)
    names = options.shufflers or ["tree"]
    binary = bool(np.isin(values_for(options, 1), (options.low, options.high)).all())
    plans = {name: plan_counter(name, options, binary) for name in names}
    counters: dict[str, Callable[[int], RunningSum]] = {
        name: partial(_running, plan, options.seed) for name, plan in plans.items()
    }
    if options.references:
        counters |= references(options)
    rows = []
    with progress("counting", options.runs * len(counters)) as advance:
        for name, make in counters.items():
            levels = plans[name].shufflers if name in plans else 1
            values = values_for(options, levels)
            error = CountingError.measure(make, values, options.runs, tell=lambda: advance(1))
            rows.append(summary(name, make(0), error, plans.get(name), options))
    if options.json:
        print_json(rows)
        return 0
    show(rows, options)
    return 0


def _running(plan: CounterPlan, seed: int, run: int) -> TreeSum:
    return TreeSum(plan, seeded(seed + run))


def values_for(options: argparse.Namespace, shufflers: int) -> NDArray[np.float64]:
    """The stream; the hard one depends on the number of shufflers."""
    return stream(options.stream, users=options.users, shufflers=shufflers, epsilon=options.epsilon, seed=options.seed)


def plan_counter(name: str, options: argparse.Namespace, binary: bool) -> CounterPlan:
    """The counter that a word asks for."""
    more: dict[str, Any] = {
        "epsilon": options.epsilon,
        "delta": options.delta,
        "constants": options.constants,
        "over": over_from(options, binary),
        "binary": binary,
        "low": options.low,
        "high": options.high,
        "smallest": options.smallest,
    }
    more |= ROWS[more["over"]].trusting(options.trust)
    if name == "best":
        return best_counter(options.users, **more)
    if name == "tree":
        return counter(options.users, **more)
    try:
        shufflers = int(name)
    except ValueError:
        meant = did_you_mean(name, ("tree", "best"))
        raise InvalidParameter("shufflers", name, f"a whole number >= 1, tree or best{meant}") from None
    return counter(options.users, shufflers, **more)


def over_from(options: argparse.Namespace, binary: bool) -> str:
    """What sums a batch: as asked, or what its trust goes with; a counter is about shufflers unless one is named."""
    if options.over is None:
        return default_protocol(options.trust or "shuffler", reports="bits" if binary else "numbers")
    name = str(ROWS.admit(options.over))
    if ROWS.find(name, "over").vectors:
        raise InvalidParameter("over", name, "one that sums numbers: a stream has no vectors")
    return name


def references(options: argparse.Namespace) -> dict[str, Callable[[int], RunningSum]]:
    """Counters of other models, to compare with."""
    if (options.low, options.high) != (0.0, 1.0):
        raise InvalidParameter("references", True, "left out: they sum values from 0 to 1")
    users, epsilon, delta, seed = options.users, options.epsilon, options.delta, options.seed
    return {
        "central tree": lambda run: CentralTree(users, seeded(seed + run), epsilon=epsilon, delta=delta),
        "central square root": lambda run: SquareRoot(users, seeded(seed + run), epsilon=epsilon, delta=delta),
        "local": lambda run: local_sum(users, seeded(seed + run), epsilon=epsilon),
    }


CENTRAL = {"central tree": "[DNPR10]", "central square root": "[FHU23]"}
"""Where the counters of a trusted analyzer come from."""


def summary(
    name: str, counter: RunningSum, error: CountingError, plan: CounterPlan | None, options: argparse.Namespace
) -> dict[str, Any]:
    """One counter's row."""
    bound = counter.bound(options.failure)
    row: dict[str, Any] = {
        "counter": name,
        "shufflers": plan.shufflers if plan is not None else 0,
        "users": options.users,
        "epsilon": options.epsilon,
        "delta": 0.0 if name == "local" else options.delta,
        "constants": options.constants if plan is not None else "reference",
        "stream": options.stream,
        "runs": options.runs,
        "max_error_mean": error.max_error_mean,
        "rms_error_worst": error.rms_error_worst,
        "bound": bound,
        "failure": options.failure,
        "within_bound": error.within(bound),
        "memory_nodes": counter.memory_nodes,
    }
    if name in CENTRAL:
        row["paper"] = CENTRAL[name]
    if plan is not None:
        row |= {
            "over": plan.mechanisms[0].protocol,
            "trust": plan.mechanisms[0].trust,
            "batches": list(plan.tree.sizes),
            "noise_std": plan.noise_std,
            "messages_per_user": plan.messages_per_user,
            "delta_recomputed": plan.loss.delta(options.epsilon),
        }
    return row


def show(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """The table that a person reads."""
    sure = f"{100 * (1 - options.failure):g} %"
    headings = ["counter", "shufflers", "batches", "worst RMS error", "mean largest error", f"bound ({sure})", "within"]
    table(
        [*headings, "messages a user"],
        [
            [
                f"{row['counter']} {row.get('paper', '')}".strip(),
                row["shufflers"] or "-",
                batches(row.get("batches")),
                number(row["rms_error_worst"]),
                number(row["max_error_mean"]),
                number(row["bound"]),
                f"{100 * row['within_bound']:.3g} %",
                number(row["messages_per_user"], 3) if "messages_per_user" in row else "-",
            ]
            for row in rows
        ],
        right={1, 3, 4, 5, 6, 7},
        title=f"{plural(options.users, 'user')}, ε = {options.epsilon:g}, δ = {number(options.delta)}, "
        f"{options.constants}, {options.stream}, {plural(options.runs, 'run')}, seed {options.seed}",
        notes=_notes(rows, options),
    )


WORST = (
    "Worst RMS error: the root mean square over all runs at the times when it is largest. These are known beforehand "
    "from the noise and the stream, so chance does not push the figure up."
)
"""What every row's worst error is."""


def _notes(rows: list[dict[str, Any]], options: argparse.Namespace) -> list[str]:
    spent = [row["delta_recomputed"] for row in rows if "delta_recomputed" in row]
    total = f"A user's total over all levels, recomputed: δ = {number(max(spent), 3)} at ε = {options.epsilon:g}."
    if options.trust is None:
        return [WORST, total]
    shared = " One report is in all levels: the servers form every node." if options.trust == "two-servers" else ""
    return [WORST, total, f"Trust: {options.trust}, {WHO[options.trust]}.{shared}"]


def batches(sizes: list[int] | None) -> str:
    """Batch sizes, the middle ones left out where there are many."""
    if not sizes:
        return "-"
    shown = [f"{size:,}" for size in sizes]
    return ", ".join(shown if len(shown) <= 3 else [*shown[:2], "…", shown[-1]])
