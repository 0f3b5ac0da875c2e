"""What `croupier plan` says of several metrics: what a part of the budget costs, and which guardrails take longer."""

from __future__ import annotations

import argparse
import math
from typing import Any

from croupier.checks import InvalidParameter, between
from croupier.cli.options import leave_out, print_json
from croupier.cli.tables import table
from croupier.simulation.forecasts import Wait
from croupier.simulation.metric_forecasts import MetricsForecast, forecast_metrics

PRIMARY = "primary"


def asked(options: argparse.Namespace) -> bool:
    """Whether anything of metrics is asked for."""
    return bool(options.guardrail) or options.share is not None


def run(options: argparse.Namespace, means: list[float], name: str, given: dict[str, Any]) -> int:
    """A row for the primary metric with all of the budget and with its share, and one for each guardrail."""
    if given.pop("trust", None) not in (None, "two-servers") or options.protocol not in (None, "laplace") or given:
        raise InvalidParameter("guardrail", options.guardrail, "left out unless two servers sum by laplace")
    leave_out(options, ("delta", "users_per_day", "plot"), "metrics are planned in users alone, and purely private")
    metrics = tables(options.guardrail, options.share)
    found = forecast_metrics(
        name,
        means=means,
        epsilon=options.epsilon,
        metrics=metrics,
        horizon=options.horizon,
        runs=options.runs,
        seed=options.seed,
    )
    rows = _rows(options, found)
    if options.json:
        print_json(rows)
        return 0
    power = f"{100 * options.power:.4g} %"
    table(
        ["until", "share of ε", "median", "±", power, "95 %"],
        [
            [row["until"], f"{row['share']:.3g}", *(_users(row[key]) for key in ("median", "error", "power", "95"))]
            for row in rows
        ],
        right={1, 2, 3, 4, 5},
        title=f"Users until `{name}` concludes: {len(means)} arms, control {means[0]:g}, "
        f"ε = {options.epsilon:g} a report, {len(metrics)} metrics",
        notes=[
            f"Users of all arms, from {options.runs:,} simulated experiments of at most {found.horizon:,} users, at "
            f"95 % confidence and every look (seed {options.seed}); no guardrail is any worse in them.",
            f"Batch: {found.batch:,} reports of an arm at first, in which the noise of every metric is small.",
            *_cost(options, found),
            *_warnings(options, found),
        ],
    )
    return 0


def tables(guardrails: list[str], share: float | None) -> dict[str, dict[str, Any]]:
    """The metrics that the options say, as a configuration has them.

    >>> tables(["0.1:0.02"], None)
    {'primary': {'role': 'primary'}, 'guardrail-1': {'role': 'guardrail', 'margin': 0.02, 'rate': 0.1}}
    """
    found: dict[str, dict[str, Any]] = {PRIMARY: {"role": "primary"} | ({} if share is None else {"share": share})}
    for place, text in enumerate(guardrails, 1):
        (rate,), margin = guardrail(text, 1)
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


def _rows(options: argparse.Namespace, found: MetricsForecast) -> list[dict[str, Any]]:
    left = (1.0 - found.share) / max(1, len(found.guardrails))
    waits: list[tuple[str, float, Wait]] = [
        ("it concludes, with one metric", 1.0, found.whole),
        ("the primary metric is shown", found.share, found.primary),
        *((f"{name} is safe", left, wait) for name, wait in found.guardrails.items()),
        ("it concludes, with all", 1.0, found.decided),
    ]
    return [
        {
            "until": what,
            "share": share,
            "median": wait.until(0.5),
            "error": wait.error(0.5),
            "power": wait.until(options.power),
            "95": wait.until(0.95),
        }
        for what, share, wait in waits
    ]


def _cost(options: argparse.Namespace, found: MetricsForecast) -> list[str]:
    whole, part = found.whole.until(options.power), found.primary.until(options.power)
    if not (math.isfinite(whole) and math.isfinite(part)):
        return []
    return [f"With {found.share:.3g} of the budget the primary metric takes {part / whole:.2f} times as many users."]


def _warnings(options: argparse.Namespace, found: MetricsForecast) -> list[str]:
    return [
        f"Warning: {name} is not shown to be safe by {found.horizon:,} users in {100 * options.power:.4g} % of "
        "experiments: give it a wider margin or more of the budget, or wait longer."
        for name in found.slow(options.power)
    ]


def _users(value: float) -> str:
    return "more" if math.isinf(value) else f"{value:,.0f}"
