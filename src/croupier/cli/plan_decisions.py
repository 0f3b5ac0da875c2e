"""What `croupier plan` says of policies that decide: users and days until the experiment itself concludes."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, ignored, integer, one_of
from croupier.cli.options import print_json, said, typed
from croupier.cli.progress import progress
from croupier.cli.tables import table
from croupier.messages.configuration import TRUSTS
from croupier.protocols import ROWS, default_protocol
from croupier.simulation.forecasts import Forecast, fixed_sample, forecast
from croupier.simulation.reporting import LONGEST

SUMS = {trust: default_protocol(trust) for trust in TRUSTS}
"""What sums batches under every trust, as in an experiment that does not say."""
WEEK = 7.0
"""An experiment runs at least so many days, unless it says otherwise."""
RUNS = 1000
"""Experiments that are simulated where nobody says how many, if there is time."""
SECONDS, ASKED = 8.0, 5.0
"""Of the processor, for all trusts and for the one that was asked for: an answer is to come within ten."""


def run(options: argparse.Namespace, means: list[float], name: str, given: dict[str, Any]) -> int:
    """Every trust side by side, that which was asked for first."""
    left_out, found = [], []
    asked = [_asked(options, given)]
    others = [] if options.protocol is not None else [pair for pair in SUMS.items() if pair not in asked]
    began = time.process_time()
    _check_read(options, [kind for _, kind in [*asked, *others]])
    with progress("planning", 1 + len(others)) as advance:
        for place, (trust, kind) in enumerate([*asked, *others]):
            left = max(SECONDS - (time.process_time() - began), 0.0) / (1 + len(others) - place)
            seconds = given_seconds(options, left if place else ASKED)
            try:
                found.append(_forecast(options, means, name, trust, kind, given, seconds, advance))
            except CroupierError as error:
                if (trust, kind) in asked:
                    raise
                left_out.append(f"{trust}: {error}.")
                advance(1.0)
    rows = [_row(options, one) for one in found]
    classical = fixed_sample(means[0], _lift(means), len(means), options.power)
    path = None
    if options.plot:
        from croupier.simulation.plots import plot_waits

        path = plot_waits({one.trust: one.better for one in found}, options.plot, _title(means, options, name))
    if options.json:
        print_json([row | {"fixed_sample": classical} for row in rows])
        return 0
    _show(options, rows, means, name, classical, [*left_out, *said(given)])
    if path is not None:
        print(f"figure: {path}")
    return 0


def _check_read(options: argparse.Namespace, kinds: list[str]) -> None:
    """Refuse what no row of the table reads."""
    read = {option for kind in kinds for option in ROWS.find(kind).takes}
    for flag, value in typed(options, "delta", "scaling", "participations").items():
        if flag not in read:
            raise ignored(flag, value, kinds)


def _asked(options: argparse.Namespace, given: dict[str, Any]) -> tuple[str, str]:
    trust = given.get("trust")
    if options.protocol is not None:
        row = ROWS.find(options.protocol)
        return trust or row.trust, options.protocol
    trust = one_of("trust", trust or "two-servers", TRUSTS)
    return trust, SUMS[trust]


def given_seconds(options: argparse.Namespace, seconds: float) -> float:
    """Who says how many experiments waits for them."""
    return seconds if options.runs is None else math.inf


def _forecast(
    options: argparse.Namespace,
    means: list[float],
    name: str,
    trust: str,
    kind: str,
    given: dict[str, Any],
    seconds: float,
    advance: Callable[[float], None],
) -> Forecast:
    row = ROWS.find(kind)
    own = {key: value for key, value in given.items() if key in row.options and key != "trust"}
    return forecast(
        name,
        means=means,
        lift=_lift(means),
        epsilon=options.epsilon,
        delta=None if row.notion == "pure" else options.delta,
        trust=trust,
        protocol_name=kind,
        runs=RUNS if options.runs is None else options.runs,
        seed=options.seed,
        seconds=seconds,
        progress=advance,
        delay=integer("delay", options.delay or 0, 0, LONGEST),
        **own,
    )


def _lift(means: list[float]) -> float:
    """How much better than the control, the first, the best arm is."""
    lift = round(max(means) - means[0], 12)
    if lift <= 0:
        raise InvalidParameter("means", means, "numbers of which one is larger than the first, the control's")
    return lift


def _row(options: argparse.Namespace, one: Forecast) -> dict[str, Any]:
    shares = (0.5, options.power, 0.95)
    row: dict[str, Any] = {"policy": one.policy, "trust": one.trust, "protocol": one.protocol, "epsilon": one.epsilon}
    row |= {"batch": one.batch, "runs": one.runs}
    for label, wait in (("users", one.better), ("no_difference", one.alike)):
        for name, share in zip(("median", "power", "95"), shares, strict=True):
            row[f"{label}_{name}"] = wait.until(share)
        row[f"{label}_median_error"] = wait.error(0.5)
    row["wrong_rate"] = one.wrong
    if options.users_per_day is not None:
        row |= {f"days_{name}": days(options, row[f"users_{name}"]) for name in ("median", "power", "95")}
    return row


def _show(
    options: argparse.Namespace,
    rows: list[dict[str, Any]],
    means: list[float],
    name: str,
    classical: int,
    notes: list[str],
) -> None:
    power = percent(options.power)
    per_day = options.users_per_day is not None
    cells = [
        [
            row["trust"],
            f"{row['batch']:,}",
            *(users(row[key]) for key in ("users_median", "users_median_error", "users_power", "users_95")),
            users(row["no_difference_power"]),
            *([users(row["days_power"])] if per_day else []),
        ]
        for row in rows
    ]
    table(
        ["trust", "batch", "median", "±", power, "95 %", f"alike, {power}", *(["days"] if per_day else [])],
        cells,
        right=set(range(1, 8)),
        title=_title(means, options, name),
        notes=[
            f"Reports, all arms together, by which 50 / {100 * options.power:.4g} / 95 % of {_runs(rows)} had decided "
            f"by their own rule, at 95 % confidence and every look (seed {options.seed}); median is 50 %, ± the "
            "simulation's own error of it.",
            f"A fixed sample size without privacy, looked at once: {classical:,} users for {power}.",
            "Alike: reports until an experiment with identical arms ends with "
            f'"no difference larger than {_points(_lift(means))}".',
            "Batch: reports of an arm's first batch, in which noise is small beside users; later ones grow.",
            *of_days(options),
            *of_more(cells),
            *(warning for row in rows for warning in slow_blocks(options, len(means), row["batch"], row["trust"])),
            *notes,
        ],
    )


def _runs(rows: list[dict[str, Any]]) -> str:
    """How many experiments were simulated, for each trust where they differ."""
    counts = [row["runs"] for row in rows]
    if len(set(counts)) == 1:
        return f"{counts[0]:,} simulated experiments"
    return f"{', '.join(f'{count:,}' for count in counts)} simulated experiments (in the order of the rows)"


def percent(share: float) -> str:
    """A share as a heading has it."""
    return f"{100 * share:.4g} %"


def days(options: argparse.Namespace, wanted: float) -> float:
    """How long it takes until so many users have reported."""
    return max(WEEK, wanted / float(options.users_per_day))


def of_days(options: argparse.Namespace) -> list[str]:
    """What the column holds, where there is one."""
    if options.users_per_day is None:
        return []
    return [f"Days are those for {percent(options.power)}, and {WEEK:.0f} at least."]


def slow_blocks(options: argparse.Namespace, arms: int, batch: int, trust: str) -> list[str]:
    """A warning where blocks take longer than a day to fill."""
    per_day = options.users_per_day
    if per_day is None or arms * batch <= per_day:
        return []
    return [
        f"Warning: with {per_day:,} users a day a first block of {arms} × {batch:,} reports under "
        f"{trust} takes {arms * batch / per_day:.1f} days; batches may not fill in time."
    ]


def _points(lift: float) -> str:
    said = f"{100 * lift:.3g}"
    return f"{said} point" if said == "1" else f"{said} points"


MORE = "more"


def users(value: float) -> str:
    """A number of users or days in a table."""
    return MORE if math.isinf(value) else f"{value:,.0f}"


def of_more(cells: Sequence[Sequence[str]]) -> list[str]:
    """What that word means, where it stands in a table."""
    if not any(MORE in row for row in cells):
        return []
    return ["More: when simulated experiments ended, fewer of them than that had concluded."]


def _title(means: list[float], options: argparse.Namespace, name: str) -> str:
    arms = f"{len(means)} arms, control {means[0]:g}, one better by {_lift(means):g}"
    return f"Users until {name} concludes: {arms}, ε = {options.epsilon:g}"
