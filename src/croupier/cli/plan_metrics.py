"""What `croupier plan` says of several metrics: what a part of the budget costs, and which guardrails take longer."""

from __future__ import annotations

import argparse
import math
from typing import Any

from croupier.bandits.metrics import CARRIED
from croupier.checks import InvalidParameter, between
from croupier.cli.options import leave_out, print_json
from croupier.cli.plan_decisions import (
    RUNS,
    SECONDS,
    days,
    given_seconds,
    of_days,
    of_more,
    percent,
    slow_blocks,
    users,
)
from croupier.cli.progress import progress
from croupier.cli.tables import table
from croupier.simulation.forecasts import Wait
from croupier.simulation.metric_forecasts import TRUST, MetricsForecast, forecast_metrics
from croupier.simulation.planning import LEAST

PRIMARY = "primary"


def asked(options: argparse.Namespace) -> bool:
    """Whether anything of metrics is asked for."""
    return bool(options.guardrail) or options.share is not None


def run(options: argparse.Namespace, means: list[float], name: str, given: dict[str, Any]) -> int:
    """A row for the primary metric with all of the budget and with its share, and one for each guardrail."""
    carried = CARRIED["protocol_name"]
    if given.pop("trust", None) not in (None, CARRIED["trust"]) or options.protocol not in (None, carried) or given:
        raise InvalidParameter("guardrail", options.guardrail, f"left out unless two servers sum by {carried}")
    leave_out(options, ("delta",), "metrics are purely private")
    metrics = tables(options.guardrail, options.share)
    with progress("planning", 1) as advance:
        found = forecast_metrics(
            name,
            means=means,
            epsilon=options.epsilon,
            metrics=metrics,
            horizon=options.horizon,
            runs=RUNS if options.runs is None else options.runs,
            seed=options.seed,
            seconds=given_seconds(options, SECONDS),
            progress=advance,
        )
    title = (
        f"Users until {name} concludes: {len(means)} arms, control {means[0]:g}, ε = {options.epsilon:g} a report, "
        f"{len(metrics)} metrics"
    )
    waits = _waits(found)
    path = None
    if options.plot:
        from croupier.simulation.plots import plot_waits

        path = plot_waits({what: wait for what, _, wait in waits}, options.plot, title)
    rows = [_row(options, *each) for each in waits]
    if options.json:
        print_json(rows)
        return 0
    _show(options, rows, found, title, len(means))
    if path is not None:
        print(f"figure: {path}")
    return 0


def _show(
    options: argparse.Namespace, rows: list[dict[str, Any]], found: MetricsForecast, title: str, arms: int
) -> None:
    per_day = options.users_per_day is not None
    keys = ("median", "error", "power", "95", *(["days"] if per_day else []))
    cells = [[row["until"], f"{row['share']:.3g}", *(users(row[key]) for key in keys)] for row in rows]
    runs = " and ".join(f"{count:,}" for count in dict.fromkeys(row["runs"] for row in rows))
    table(
        ["until", "share of ε", "median", "±", percent(options.power), "95 %", *(["days"] if per_day else [])],
        cells,
        right=set(range(1, 7)),
        title=title,
        notes=[
            f"Users of all arms, from {runs} simulated experiments of at most {found.horizon:,} users, at "
            f"95 % confidence and every look (seed {options.seed}); no guardrail is any worse in them.",
            f"Batch: {found.batch:,} reports of an arm at first, in which the noise of every metric is small.",
            *of_days(options),
            *of_more(cells),
            *_cost(options, found),
            *slow_blocks(options, arms, found.batch, TRUST),
            *_warnings(options, found),
        ],
    )


def tables(guardrails: list[str], share: float | None) -> dict[str, dict[str, Any]]:
    """The metrics that the options say, as a configuration has them.

    >>> tables(["0.1:0.02"], None)
    {'primary': {'role': 'primary'}, 'guardrail-1': {'role': 'guardrail', 'margin': 0.02, 'rate': 0.1}}
    """
    found: dict[str, dict[str, Any]] = {PRIMARY: {"role": "primary"} | ({} if share is None else {"share": share})}
    for place, text in enumerate(guardrails, 1):
        (rate,), margin = guardrail(text, 1)
        if 0.0 < margin < LEAST:
            raise InvalidParameter("guardrail", text, f"with a margin of {LEAST:g} or more")
        # A mean at an end of its range is no guess worth making.
        found[f"guardrail-{place}"] = {"role": "guardrail", "margin": margin} | ({"rate": rate} if 0 < rate < 1 else {})
    if len(found) == 1:
        # Somebody else has the rest of the budget, and nothing is asked of it.
        found["secondary"] = {}
    return found


def guardrail(text: str, arms: int) -> tuple[list[float], float]:
    """The means of a guardrail, one for all arms or one an arm, and its margin.

    >>> guardrail("0.8,0.7:0.05", 2)
    ([0.8, 0.7], 0.05)
    """
    means, _, margin = text.partition(":")
    try:
        found = [float(between("guardrail", float(mean), 0, 1, "[]")) for mean in means.split(",")]
        wanted = float(margin)
    except ValueError:
        raise InvalidParameter("guardrail", text, "means and a margin, from 0 to 1, as 0.1:0.02") from None
    if len(found) not in (1, arms):
        raise InvalidParameter("guardrail", text, f"with one mean for all arms, or {arms}, one an arm")
    return found * (arms // len(found)), wanted


def _waits(found: MetricsForecast) -> list[tuple[str, float, Wait]]:
    """Until what, with which share of ε, and how long that takes."""
    left = (1.0 - found.share) / max(1, len(found.guardrails))
    return [
        ("it concludes, with one metric", 1.0, found.whole),
        ("the primary metric is shown", found.share, found.primary),
        *((f"{name} is safe", left, wait) for name, wait in found.guardrails.items()),
        ("it concludes, with all", 1.0, found.decided),
    ]


def _row(options: argparse.Namespace, what: str, share: float, wait: Wait) -> dict[str, Any]:
    power = wait.until(options.power)
    row = {"until": what, "share": share, "median": wait.until(0.5), "error": wait.error(0.5), "power": power}
    row |= {"95": wait.until(0.95), "runs": len(wait.users)}
    return row if options.users_per_day is None else row | {"days": days(options, power)}


def _cost(options: argparse.Namespace, found: MetricsForecast) -> list[str]:
    whole, part = found.whole.until(options.power), found.primary.until(options.power)
    if not (math.isfinite(whole) and math.isfinite(part)):
        return []
    return [f"With {found.share:.3g} of the budget the primary metric takes {part / whole:.2f} times as many users."]


def _warnings(options: argparse.Namespace, found: MetricsForecast) -> list[str]:
    return [
        f"Warning: {name} is not shown to be safe by {found.horizon:,} users in {percent(options.power)} of "
        "experiments: give it a wider margin or more of the budget, or wait longer."
        for name in found.slow(options.power)
    ]
