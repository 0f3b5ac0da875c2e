"""What each further shuffler is worth to a counter of a fixed number of users, as published and composed exactly.

More shufflers mean fewer noises in a sum and smaller unfinished batches, but all of them share one user's budget, so
there is a best number. A trusted server and nobody trusted are the ends of the scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.checks import InvalidParameter
from croupier.continual import CounterPlan, counter
from croupier.noise import seeded
from croupier.simulation.reference_sums import local_sum
from croupier.simulation.streams import bernoulli_stream
from croupier_papers.concurrent_measured import CENTRAL, measure_central, measure_counter, teller
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.style import GREY, STYLES, explain, power_of_ten, sheet

LOCAL = "local"
REFERENCES = {CENTRAL: ("central square root, server trusted", 1.0), LOCAL: ("local, nobody trusted", 0.55)}
"""The label of each reference, and where along the axis it stands."""

FAMILIES: dict[str, tuple[str, str]] = {
    "published, shuffled bits": ("published", "shuffled-bits"),
    "tight, shuffled bits": ("tight", "shuffled-bits"),
    "tight, shuffled Laplace": ("tight", "shuffled-laplace"),
}
"""The constants and the protocol of each curve."""


@dataclass(frozen=True)
class Setting:
    """A stream of fair bits, and the numbers of shufflers to try beside the binary tree."""

    users: int
    shufflers: tuple[int, ...]
    runs: int
    epsilon: float = 0.9
    delta: float = 1e-6
    rate: float = 0.5

    def plan(self, family: str, shufflers: int | None) -> CounterPlan | None:
        """A counter, or None where whole numbers leave no tree with so many levels."""
        constants, over = FAMILIES[family]
        budget: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        try:
            return counter(self.users, shufflers, constants=constants, over=over, binary=True, **budget)
        except InvalidParameter as refused:
            if refused.name != "shufflers":
                raise
            return None


def compute(setting: Setting, task: Task) -> Body:
    """The error of every counter on one stream, the two references, and how they compare."""
    values = bernoulli_stream(setting.users, setting.rate, task.seed_of(0))
    asked = [(family, shufflers) for family in FAMILIES for shufflers in (*setting.shufflers, None)]
    part = 1.0 / (len(asked) + 2)
    tell = teller(task, part / setting.runs)
    rows: dict[str, list[Body]] = {family: [] for family in FAMILIES}
    missing: dict[str, list[int | None]] = {family: [] for family in FAMILIES}
    for index, (family, shufflers) in enumerate(asked, start=1):
        plan = setting.plan(family, shufflers)
        if plan is None:
            missing[family].append(shufflers)
            task.progress(part)
            continue
        row = measure_counter(plan, values, setting.runs, task.seed_of(index), tell)
        shape = {"shufflers": plan.shufflers, "tree": shufflers is None, "smallest_batch": plan.tree.smallest}
        rows[family].append(shape | {name: plain([value])[0] for name, value in row.items()})
    budget = {"epsilon": setting.epsilon, "delta": setting.delta}
    local = local_sum(setting.users, seeded(0), epsilon=setting.epsilon).plan
    references = {
        CENTRAL: measure_central(
            values, setting.runs // 4, task.seed_of(len(asked) + 1), teller(task, 4 * part / setting.runs), **budget
        ),
        LOCAL: measure_counter(local, values, setting.runs, task.seed_of(len(asked) + 2), tell),
    }
    configuration = {
        "families": {family: list(settings) for family, settings in FAMILIES.items()},
        "references": {CENTRAL: "the server trusted", LOCAL: f"nobody trusted, ε = {setting.epsilon:g} and no δ"},
        "users": setting.users,
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "stream": f"bernoulli:{setting.rate:g}",
        "runs": setting.runs,
        "no_such_tree": missing,
        "rms_error": "root mean square over runs at the time where `exact`, which follows from the plan, is largest",
    }
    return {
        "configuration": configuration,
        "results": {"families": rows, "references": references} | _compared(rows, references[CENTRAL]["exact"]),
    }


def _compared(rows: dict[str, list[Body]], central: float) -> Body:
    """The best number of shufflers of each family, and ratios of exact errors."""
    tree = {family: next(row for row in counters if row["tree"]) for family, counters in rows.items()}
    best = {family: min(counters, key=lambda row: float(row["exact"])) for family, counters in rows.items()}
    tight = [family for family, (constants, _) in FAMILIES.items() if constants == "tight"]
    published = tree["published, shuffled bits"]["exact"]
    return {
        "best": {family: {"shufflers": row["shufflers"], "exact": row["exact"]} for family, row in best.items()},
        "ratios": {
            "tight_to_central_at_tree": {family: tree[family]["exact"] / central for family in tight},
            "tight_to_central_at_best": {family: best[family]["exact"] / central for family in tight},
            "published_to_tight_at_tree": {family: published / tree[family]["exact"] for family in tight},
        },
    }


def draw(body: Body) -> Any:
    """Error against shufflers: a line for each family, its best filled; references across."""
    setup, results = body["configuration"], body["results"]
    title = f"What each further shuffler is worth: {setup['users']:,} users, ε = {setup['epsilon']:g}"
    figure, (axes,), strip = sheet(1, title=title, width=6.6, height=3.7, strip=1.0)
    handles = []
    for family, rows in results["families"].items():
        colour, line, marker = STYLES[family]
        x, exact = np.asarray([row["shufflers"] for row in rows]), np.asarray([row["exact"] for row in rows])
        (drawn,) = axes.plot(x, exact, color=colour, linestyle=line, linewidth=1.4, marker=marker)
        drawn.set(markersize=5, markerfacecolor="white")
        axes.plot(x, [row["rms_error"] for row in rows], "_", color=colour, markersize=9, markeredgewidth=1.0)
        best = results["best"][family]
        axes.plot(best["shufflers"], best["exact"], marker, color=colour, markersize=9)
        drawn.set_label(f"{family}; best: k = {best['shufflers']}")
        handles.append(drawn)
    for name, (text, place) in REFERENCES.items():
        colour, line, _ = STYLES[name]
        error = results["references"][name]["exact"]
        axes.axhline(error, color=colour, linestyle=line, linewidth=1.2, zorder=1)
        across = {"xycoords": axes.get_yaxis_transform(), "ha": "right"}
        _note(axes, f"{text}: {error:,.0f}", (place, error), colour, 6, **across)
    axes.set(yscale="log")
    axes.set_ylim(0.6 * results["references"][CENTRAL]["exact"])
    axes.set_xlabel("concurrent shufflers k (the last of each line is the binary tree)", fontsize=9)
    axes.set_ylabel("worst root mean square error (ones)", fontsize=9)
    axes.set_xticks(range(1, max(row["shufflers"] for rows in results["families"].values() for row in rows) + 1, 2))
    handles += axes.plot([], [], "_", color=GREY, markersize=9, label=f"measured, {setup['runs']} runs")
    explain(strip, handles, _caption(setup, results["ratios"]), columns=2)
    return figure


def _note(axes: Any, text: str, where: tuple[float, float], colour: str, up: float, **options: Any) -> None:
    axes.annotate(text, where, (0, up), textcoords="offset points", fontsize=8, color=colour, va="center", **options)


def _caption(setup: Body, ratios: Body) -> str:
    tree, best = ratios["tight_to_central_at_tree"], ratios["tight_to_central_at_best"]
    bits = "tight, shuffled bits"
    return (
        f"Fair bits, δ\u00a0=\u00a0{power_of_ten(setup['delta'])}. Curves: exact error at the worst time, the "
        f"best filled. Exact composition divides the tree's error by "
        f"{ratios['published_to_tight_at_tree'][bits]:.0f}; a tight tree of shuffled bits errs {tree[bits]:.1f} times "
        f"as much as a trusted server, the best tight counter {min(best.values()):.1f} times."
    )


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """Every counter's error, and how many times that of a trusted server it is."""
    results = body["results"]
    central = results["references"][CENTRAL]["exact"]
    rows = []
    for family, counters in results["families"].items():
        for row in counters:
            best = row["shufflers"] == results["best"][family]["shufflers"]
            kind = ", ".join(["tree"] * row["tree"] + ["best"] * best)
            numbers = [row["exact"], row["rms_error"], row["largest_error"]]
            cells = [f"{row['shufflers']}", f"{row['smallest_batch']:,}", *(f"{number:,.1f}" for number in numbers)]
            rows.append([family, kind, *cells, f"{row['exact'] / central:.2f}"])
    for name, row in results["references"].items():
        numbers = [row["exact"], row["rms_error"], row["largest_error"]]
        cells = ["-", "-", *(f"{number:,.1f}" for number in numbers)]
        rows.append([name, "reference", *cells, f"{row['exact'] / central:.2f}"])
    headings = ["counter", "kind", "shufflers", "smallest batch", "exact error", "measured", "largest error"]
    return [*headings, "× trusted server"], rows


FIGURES = (
    Figure(
        "tkms23-shufflers-tradeoff",
        "[TKMS23] Cor. 3.5",
        "error of a counter against its shufflers, as published and composed exactly, with the best number",
        7,
        Setting(2**20, (1, 2, 3, 4, 5, 6, 7, 8, 10, 12), runs=40),
        Setting(2**12, (1, 2, 3), runs=20),
        compute,
        draw,
        table,
    ),
)
