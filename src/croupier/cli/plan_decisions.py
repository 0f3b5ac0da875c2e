"""What `croupier plan` says of policies that decide: users and days until the experiment itself concludes."""

from __future__ import annotations

import argparse
import math
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, ignored, integer
from croupier.cli.options import print_json, said, typed
from croupier.cli.progress import progress
from croupier.cli.tables import table
from croupier.protocols import ROWS
from croupier.simulation.forecasts import Forecast, fixed_sample, forecast
from croupier.simulation.reporting import LONGEST

TRUSTS = {"two-servers": "laplace", "devices": "laplace", "shuffler": "shuffled-bits", "nobody": "local-laplace"}
"""Whom one may trust, and what sums batches then."""
WEEK = 7.0
"""An experiment runs at least so many days, unless it says otherwise."""


def run(options: argparse.Namespace, means: list[float], name: str, given: dict[str, Any]) -> int:
    """Every trust side by side, that which was asked for first."""
    left_out, found = [], []
    asked = [_asked(options, given)]
    others = [] if options.protocol is not None else [pair for pair in TRUSTS.items() if pair not in asked]
    _check_read(options, [kind for _, kind in [*asked, *others]])
    with progress("planning", 1 + len(others)) as advance:
        for trust, kind in [*asked, *others]:
            try:
                found.append(_forecast(options, means, name, trust, kind, given))
            except CroupierError as error:
                if (trust, kind) in asked:
                    raise
                left_out.append(f"{trust}: {error}.")
            advance(1)
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
    if trust is not None and trust not in TRUSTS:
        raise InvalidParameter("trust", trust, f"one of {', '.join(TRUSTS)}")
    return trust or "two-servers", TRUSTS[trust or "two-servers"]


def _forecast(
    options: argparse.Namespace, means: list[float], name: str, trust: str, kind: str, given: dict[str, Any]
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
        runs=options.runs,
        seed=options.seed,
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
    row |= {"batch": one.batch}
    for label, wait in (("users", one.better), ("no_difference", one.alike)):
        for name, share in zip(("median", "power", "95"), shares, strict=True):
            row[f"{label}_{name}"] = wait.until(share)
        row[f"{label}_median_error"] = wait.error(0.5)
    row["wrong_rate"] = one.wrong
    if options.users_per_day is not None:
        row |= {
            f"days_{name}": max(WEEK, row[f"users_{name}"] / options.users_per_day)
            for name in ("median", "power", "95")
        }
    return row


def _show(
    options: argparse.Namespace,
    rows: list[dict[str, Any]],
    means: list[float],
    name: str,
    classical: int,
    notes: list[str],
) -> None:
    power = f"{100 * options.power:.4g} %"
    per_day = options.users_per_day is not None
    table(
        ["trust", "batch", "median", "±", power, "95 %", f"alike, {power}", *(["days"] if per_day else [])],
        [
            [
                row["trust"],
                f"{row['batch']:,}",
                *(_users(row[key]) for key in ("users_median", "users_median_error", "users_power", "users_95")),
                _users(row["no_difference_power"]),
                *([f"{row['days_power']:.0f}" if math.isfinite(row["days_power"]) else "more"] if per_day else []),
            ]
            for row in rows
        ],
        right=set(range(1, 8)),
        title=_title(means, options, name),
        notes=[
            f"Users of all arms who reported until so many of {options.runs:,} simulated experiments concluded by "
            f"their own rule, at 95 % confidence and every look (seed {options.seed}); ± is the simulation's own error "
            "of the median.",
            f"A fixed sample size without privacy, looked at once: {classical:,} users for {power}.",
            f"Alike: until no difference larger than {_points(_lift(means))} is left, when there is none.",
            "Batch: reports of an arm's first batch, in which noise is small beside users; later ones grow.",
            *(["Days are those for " + power + f", and {WEEK:.0f} at least."] if per_day else []),
            *_warnings(options, rows, len(means)),
            *notes,
        ],
    )


def _warnings(options: argparse.Namespace, rows: list[dict[str, Any]], arms: int) -> list[str]:
    """Where blocks take longer than a day to fill, or the experiment longer than anybody waits."""
    if options.users_per_day is None:
        return []
    slow = [row for row in rows if arms * row["batch"] > options.users_per_day]
    return [
        f"Warning: with {options.users_per_day:,} users a day a first block of {arms} × {row['batch']:,} reports under "
        f"{row['trust']} takes {arms * row['batch'] / options.users_per_day:.1f} days; batches may not fill in time."
        for row in slow
    ]


def _points(lift: float) -> str:
    said = f"{100 * lift:.3g}"
    return f"{said} point" if said == "1" else f"{said} points"


def _users(value: float) -> str:
    return "more" if math.isinf(value) else f"{value:,.0f}"


def _title(means: list[float], options: argparse.Namespace, name: str) -> str:
    arms = f"{len(means)} arms, control {means[0]:g}, one better by {_lift(means):g}"
    return f"Users until `{name}` concludes: {arms}, ε = {options.epsilon:g}"
