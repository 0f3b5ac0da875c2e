"""[GKM21]'s histograms: how the largest error grows with the users and with the universe, in three models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.noise import SeededSource, seeded
from croupier.protocols import HistogramRelease, Numbers, histogram
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Style,
    explain,
    power_of_ten,
    sheet,
)

Integers = NDArray[np.int64]


def lemma_37(release: HistogramRelease) -> Any:
    """What [GKM21] reports: a count that is never above the truth, negatives taken as zero."""
    return release.lower(0.0)


def unbiased(release: HistogramRelease) -> Any:
    """Unbiased counts, negatives taken as zero."""
    return np.maximum(release.counts, 0.0)


@dataclass(frozen=True)
class Line:
    """One histogram, and what is read from its release."""

    options: dict[str, str]
    read: Callable[[HistogramRelease], Any]
    style: Style


LINES = {
    "local": Line({"model": "local"}, unbiased, (ORANGE, (0, (1.5, 1)), "<")),
    "shuffle, as published": Line({"constants": "published"}, lemma_37, (VERMILION, (0, (6, 1.5, 1.5, 1.5)), "^")),
    "shuffle, under, tight": Line({"side": "under"}, lemma_37, (PURPLE, (0, (3, 1.5)), "v")),
    "shuffle, under, coins": Line({"side": "both"}, lemma_37, (SKY, (0, (5, 1, 1, 1, 1, 1)), "P")),
    "shuffle, unbiased, tight": Line({"side": "over"}, unbiased, (BLUE, (0, (6, 2)), "s")),
    "central, stable": Line({"model": "central"}, unbiased, (BLACK, "-", "o")),
    "central, pure": Line({"model": "central-pure"}, unbiased, (GREEN, (0, (4, 1.5, 1, 1.5)), "D")),
}
"""Histograms by name, in the order of the legend."""


SATURATED = 0.95
"""An error of this part of the largest count is as good as none: the histogram might as well be empty."""


@dataclass(frozen=True)
class Setting:
    """Items drawn from Zipf's law: item i with probability proportional to 1/i."""

    users: tuple[int, ...]
    sizes: tuple[int, ...]
    usual_users: int
    usual_size: int
    runs: int
    epsilon: float = 0.5
    delta: float = 1e-6
    failure: float = 0.05

    def cases(self) -> list[tuple[str, int, int]]:
        """Every point: the panel, the users, the universe."""
        by_users = [("users", users, self.usual_size) for users in self.users]
        return by_users + [("items", self.usual_users, size) for size in self.sizes]


def compute_errors(setting: Setting, task: Task) -> Body:
    """The largest error over all items, measured, and the radius that bounds it."""
    cases = setting.cases()
    points: dict[str, dict[str, list[dict[str, Any]]]] = {name: {"users": [], "items": []} for name in LINES}
    for index, (panel, users, size) in enumerate(cases):
        source = seeded(task.seed_of(index))
        batches = [_batch(users, size, source) for _ in range(setting.runs)]
        for name, line in LINES.items():
            points[name][panel].append(_point(setting, line, users, size, batches, source))
            task.progress(1.0 / len(cases) / len(LINES))
    configuration = {
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "failure": setting.failure,
        "runs": setting.runs,
        "users": list(setting.users),
        "items": list(setting.sizes),
        "usual_users": setting.usual_users,
        "usual_items": setting.usual_size,
        "world": "item i with probability proportional to 1/i",
        "error": "largest over all items, mean over runs",
        "saturated": f"the error is at least {SATURATED:g} of the largest count, as if all answers were zero",
    }
    return {"configuration": configuration, "results": points}


def _batch(users: int, size: int, source: SeededSource) -> Integers:
    weights = 1.0 / np.arange(1, size + 1)
    return np.asarray(source.generator.multinomial(users, weights / weights.sum()))


def _point(
    setting: Setting, line: Line, users: int, size: int, batches: list[Integers], source: SeededSource
) -> dict[str, Any]:
    pure = line.options.get("model") in ("local", "central-pure")
    recipe = histogram(
        epsilon=setting.epsilon,
        delta=None if pure else setting.delta,
        universe=Numbers(size),
        **line.options,  # type: ignore[arg-type]
    )
    mechanism = recipe.plan(users)
    errors = [float(np.abs(line.read(mechanism.simulate(counts, source)) - counts).max()) for counts in batches]
    # Who answers zero to everything errs by the largest count; an error as large says nothing.
    saturated = bool(np.mean(errors) >= SATURATED * np.mean([counts.max() for counts in batches]))
    deviation = np.std(errors, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else 0.0
    radius = mechanism.radius(setting.failure) if line.read is unbiased else _under_radius(mechanism, setting.failure)
    (mean, spread, bound, sent) = plain([np.mean(errors), deviation, radius, mechanism.messages_per_user])
    found = {"error": mean, "standard_error": spread, "radius": bound, "messages_per_user": sent}
    return found | {"saturated": saturated}


def _under_radius(mechanism: Any, failure: float) -> float:
    """How far a count that is never above the truth is below it, in any item held: the noise, or the coins' tails."""
    tally = mechanism.oracle
    part = failure / min(tally.users, tally.size)
    return float(tally.coins - tally.noise.quantile(part) if tally.kind == "coins" else tally.noise.tail_quantile(part))


def draw_errors(body: Body) -> Any:
    """Two panels, one for the users and one for the universe."""
    from matplotlib.lines import Line2D

    setup, results = body["configuration"], body["results"]
    title = f"Histograms in three models: the largest error of any count, ε = {setup['epsilon']:g}"
    figure, panels, strip = sheet(2, title=title, width=8.8, height=3.5, strip=1.15)
    fixed = {
        "users": f"{setup['usual_items']:,} items",
        "items": f"{setup['usual_users']:,} users",
    }
    for axes, (panel, other) in zip(panels, fixed.items(), strict=True):
        for name, line in LINES.items():
            colour, dash, marker = line.style
            errors = [point["error"] for point in results[name][panel]]
            axes.plot(
                setup[panel],
                errors,
                color=colour,
                linestyle=dash,
                marker=marker,
                linewidth=1.4,
                markersize=4.5,
                markerfacecolor="white",
                markeredgewidth=1.1,
            )
            lost = [place for place, point in enumerate(results[name][panel]) if point["saturated"]]
            at = [setup[panel][place] for place in lost], [errors[place] for place in lost]
            axes.plot(*at, "x", color=BLACK, markersize=8, markeredgewidth=1.3)
        axes.set(xscale="log", yscale="log", xlabel="users" if panel == "users" else "items in the universe")
        axes.set_title(other, fontsize=8.5)
        axes.xaxis.label.set_size(8.5)
    panels[0].set_ylabel("largest error of a count (users)", fontsize=8.5)
    handles = [
        Line2D([], [], color=c, linestyle=d, marker=m, markerfacecolor="white", label=name)
        for name, (c, d, m) in ((name, line.style) for name, line in LINES.items())
    ]
    crossed = "saturated: as bad as zeros"
    handles.append(Line2D([], [], color=BLACK, linestyle="none", marker="x", markersize=8, label=crossed))
    caption = (
        f"δ = {power_of_ten(setup['delta'])} for shuffle and central stable, 0 for local and central pure. Items by "
        f"Zipf's law, mean of {setup['runs']} runs. As published: negative binomial noise of [GKM21] Theorem 39, and "
        "the count of Lemma 37 that is never above the truth; under, tight: the same count, noise calibrated exactly; "
        "under, coins: the same with a fixed number of coins a bucket, in far fewer messages; unbiased: never below "
        "the truth, less the noise's mean. Central, stable: a count too small to show is an error too."
    )
    explain(strip, handles, caption, columns=4)
    return figure


def table_errors(body: Body) -> tuple[list[str], list[list[str]]]:
    """The ends of both panels, and what a user sends."""
    setup, results = body["configuration"], body["results"]
    ends = [("users", 0), ("users", -1), ("items", 0), ("items", -1)]
    headings = ["histogram", *(f"{setup[panel][at]:,} {panel}" for panel, at in ends), "messages a user, there"]
    rows = []
    for name, panels in results.items():
        errors = [f"{panels[panel][at]['error']:,.0f}" for panel, at in ends]
        rows.append([name, *errors, f"{panels['items'][-1]['messages_per_user']:,.0f}"])
    return headings, rows


FIGURES = (
    Figure(
        name="gkm21-histogram-error",
        paper="[GKM21] Lemma 37",
        shows="largest error of a histogram against users and universe: shuffle, local, central",
        quick_seconds=3,
        full=Setting((1_000, 10_000, 100_000, 1_000_000), (100, 1_000, 10_000, 100_000, 1_000_000), 10_000, 10_000, 20),
        quick=Setting((1_000, 10_000, 100_000), (100, 1_000, 10_000, 100_000), 10_000, 10_000, 4),
        compute=compute_errors,
        draw=draw_errors,
        table=table_errors,
    ),
)
