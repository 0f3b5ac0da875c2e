"""Our linear bandit against [TKMS23]'s: batches that grow, beside the concurrent tree, over n, dimensions and ε.

In the same run all models meet the same hidden parameter. The instances are none that anything was tuned on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.linear import TUNED
from croupier.simulation.linear_runner import LinearRun, simulate_linear
from croupier.simulation.linear_worlds import Sphere
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.style import STYLES, curve, explain, power_of_ten, sheet

TREE = "concurrent, binary tree"

UNIT: dict[str, Any] = {"norm": 1.0}
"""On a sphere parameters have norm one at most, and every model is told so."""

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "LinUCB, no privacy": ("linucb", {}),
    TREE: ("concurrent", {}),
    "growing, proven": ("growing", UNIT),
    "growing, tuned": ("growing", UNIT | {"exploration": TUNED}),
    "growing, proven, two servers": ("growing", UNIT | {"trust": "two-servers"}),
    "growing, tuned, two servers": ("growing", UNIT | {"trust": "two-servers", "exploration": TUNED}),
}
"""Curves; the first of those that grow trust the shuffler, as the tree does: one noise a sum."""

POINTS = 60
"""Numbers of users at which a curve is kept."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    users: int
    dimension: int
    epsilon: float
    runs: int


@dataclass(frozen=True)
class Setting:
    """Actions on a sphere; the first case is drawn over its users."""

    cases: tuple[Case, ...]
    delta: float = 1e-6
    actions: int = 20

    def play(self, case: Case, place: int, label: str, run: int, task: Task, part: float) -> LinearRun:
        model, options = MODELS[label]
        return simulate_linear(
            model,
            Sphere(case.dimension, self.actions, task.seed_of(10_000 * place + run)),
            case.users,
            seed=task.seed_of(10_000 * place + 100 * (1 + list(MODELS).index(label)) + run),
            epsilon=case.epsilon,
            delta=self.delta,
            progress=task.share(part),
            **options,
        )


def compute(setting: Setting, task: Task) -> Body:
    """Regret of every model in every case."""
    total = len(MODELS) * sum(case.users * case.runs for case in setting.cases)
    points = np.unique(np.geomspace(100, setting.cases[0].users, POINTS).astype(np.int64))
    cases, curves = [], {}
    for place, case in enumerate(setting.cases):
        rows: dict[str, Any] = {}
        for label in MODELS:
            played = [setting.play(case, place, label, run, task, case.users / total) for run in range(case.runs)]
            regret = np.asarray([run.regret[-1] for run in played])
            rows[label] = {
                "regret": float(regret.mean()),
                "standard_error": float(regret.std(ddof=1) / np.sqrt(len(regret))),
                "median": float(np.median(regret)),
                "worst": float(regret.max()),
                "held": float(np.mean([bool(run.held) for run in played])),
                "regrets": plain(regret),
            }
            if place == 0:
                own = np.asarray([run.at(points) for run in played])
                error = own.std(axis=0, ddof=1) / np.sqrt(len(own))
                curves[label] = {"regret": plain(own.mean(axis=0)), "standard_error": plain(error)}
        cases.append({"users": case.users, "dimension": case.dimension, "epsilon": case.epsilon, "models": rows})
    configuration = {
        "delta": setting.delta,
        "actions": setting.actions,
        "runs": [case.runs for case in setting.cases],
        "world": "actions on a sphere, a hidden parameter for each run, the same for all models",
        "tuned": f"exploration {TUNED:g} instead of 1, tuned on instances since discarded: no guarantee",
        "trust": "the shuffler, one noise a sum; two servers: a noise from each",
        "held": "share of runs whose confidence set always held the true parameter",
        "band": "mean ± 1.96 standard errors over runs",
    }
    return {
        "configuration": configuration,
        "results": {"curve_users": points.tolist(), "curves": curves, "cases": cases},
    }


def draw(body: Body) -> Any:
    """Regret over users, and in the end in every case, over the tree's."""
    setup, results = body["configuration"], body["results"]
    first = results["cases"][0]
    title = f"Linear bandits over growing batches and over a tree: {setup['actions']} actions"
    figure, axes, strip = sheet(2, title=title, width=9.0, height=3.5, strip=1.3, share_y=False)
    users, handles = np.asarray(results["curve_users"]), []
    for place, (label, kept) in enumerate(results["curves"].items()):
        mean, error = (np.asarray(kept[name]) for name in ("regret", "standard_error"))
        handles.append(
            curve(axes[0], users, mean, error, label, marks=range(3 + 2 * place, len(users), 2 * len(MODELS)))
        )
    axes[0].set(xscale="log", yscale="log")
    axes[0].set_title(f"d = {first['dimension']}, ε = {first['epsilon']:g}, planned for {first['users']:,}", fontsize=9)
    axes[0].set_xlabel("users", fontsize=9)
    axes[0].set_ylabel("cumulative regret (rewards)", fontsize=9)
    heights = np.arange(len(results["cases"]))[::-1]
    for offset, label in enumerate(name for name in MODELS if name not in (TREE, "LinUCB, no privacy")):
        colour, _, marker = STYLES[label]
        ratios = [case["models"][label]["regret"] / case["models"][TREE]["regret"] for case in results["cases"]]
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "markerfacecolor": "white"}
        axes[1].plot(ratios, heights + 0.15 * (1.5 - offset), linestyle="none", **look)
    names = [f"n = {power_of_ten(c['users'])}, d = {c['dimension']}, ε = {c['epsilon']:g}" for c in results["cases"]]
    axes[1].set_yticks(heights, names)
    axes[1].axvline(1.0, color=STYLES[TREE][0], linewidth=1.2)
    axes[1].set_xlim(0.0, 1.1)
    axes[1].set_title("regret in the end, over that of the tree", fontsize=9)
    held = min(model["held"] for case in results["cases"] for model in case["models"].values())
    runs = "/".join(map(str, setup["runs"]))
    caption = (
        f"δ\u00a0=\u00a0{power_of_ten(setup['delta'])}; {runs} runs, all models on the same instances. The tree "
        "[TKMS23] and the first two that grow carry one noise a sum, the others one from each of two servers. "
        f"Proven: sets that hold the parameter, here in {100 * held:.0f}\u00a0% of runs at least. Tuned: "
        f"{setup['tuned']}."
    )
    explain(strip, handles, caption, columns=3)
    return figure


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """A row a case: the regret of the tree, that of the others over it, and the worst of what must not be bad."""
    others = [label for label in MODELS if label.startswith("growing")]
    rows = []
    for case, runs in zip(body["results"]["cases"], body["configuration"]["runs"], strict=True):
        models = case["models"]
        tree = models[TREE]["regret"]
        spread = max(models[label]["worst"] / models[label]["median"] for label in others)
        held = min(models[label]["held"] for label in others if "proven" in label)
        rows.append(
            [
                f"{case['users']:,}",
                str(case["dimension"]),
                f"{case['epsilon']:g}",
                f"{tree:,.0f}",
                *(f"{models[label]['regret'] / tree:.2f}" for label in others),
                f"{spread:.1f}",
                f"{100 * held:.0f} %",
                str(runs),
            ]
        )
    names = [label.removeprefix("growing, ") for label in others]
    return ["n", "d", "ε", "tree", *names, "worst / median", "held", "runs"], rows


FULL = Setting(
    (
        Case(1_000_000, 5, 1.0, 20),
        Case(100_000, 5, 1.0, 20),
        Case(100_000, 2, 1.0, 8),
        Case(100_000, 10, 1.0, 8),
        Case(100_000, 20, 1.0, 8),
        Case(100_000, 5, 0.25, 8),
        Case(100_000, 5, 0.5, 8),
        Case(100_000, 5, 2.0, 8),
    )
)

FIGURES = (
    Figure(
        "linear-growing",
        "croupier",
        "linear bandits over batches that grow, proven and tuned, against [TKMS23]'s concurrent tree",
        10,
        FULL,
        Setting((Case(10_000, 5, 1.0, 3), Case(10_000, 2, 1.0, 3), Case(10_000, 5, 2.0, 3))),
        compute,
        draw,
        table,
    ),
)
