"""[TKMS23]'s linear bandits, measured: regret in every trust model, and where concurrent shufflers must overtake one.

Regret is measured with tight plans. [TKMS23]'s own constants are run once where that is feasible: their confidence sets
say nothing at such sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.linear import LinearPlan, linear_bandit, sequential_linear_bandit
from croupier.simulation.linear_runner import LinearRun, simulate_linear
from croupier.simulation.linear_worlds import Sphere
from croupier_papers.concurrent_noise import Budget, stays_below
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.shuffle_bandits import power_law
from croupier_papers.style import GREY, STYLES, curve, explain, power_of_ten, scientific, sheet


@dataclass(frozen=True)
class Model:
    """One curve: a model of `simulate_linear`, and [TKMS23]'s exponent of n in its regret, if it has one."""

    name: str
    shufflers: int | None = None
    theory: float | None = 0.5


TREE, TWO, SEQUENTIAL = "concurrent, binary tree", "concurrent, k = 2", "sequential"

MODELS = {
    "LinUCB, no privacy": Model("linucb"),
    "central, growing": Model("central", None, None),
    "central tree": Model("central-tree"),
    "growing batches": Model("growing", None, None),
    TREE: Model("concurrent"),
    TWO: Model("concurrent", 2, 3 / 5),
    SEQUENTIAL: Model("sequential", None, 3 / 5),
    "local": Model("local", None, 3 / 4),
}

POINTS = 60
"""Numbers of users at which a curve is kept."""


@dataclass(frozen=True)
class Setting:
    """Actions on a sphere; for each horizon its runs, a plan each; published constants for so many users."""

    horizons: tuple[int, ...]
    runs: tuple[int, ...]
    published: tuple[tuple[str, int], ...]
    steps: int
    epsilon: float = 1.0
    delta: float = 1e-6
    dimension: int = 5
    actions: int = 20

    @property
    def budget(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self.delta}

    def play(self, label: str, users: int, run: int, task: Task, part: float, constants: str = "tight") -> LinearRun:
        """One run; every model meets the same hidden parameter in the same run."""
        model = MODELS[label]
        return simulate_linear(
            model.name,
            Sphere(self.dimension, self.actions, task.seed_of(run)),
            users,
            seed=task.seed_of(1000 * (1 + list(MODELS).index(label)) + run),
            shufflers=model.shufflers,
            constants=constants,
            block=self.block(label, users),
            progress=task.share(part),
            **self.budget,
        )

    def block(self, label: str, users: int) -> int:
        """The local reference reads its sums this often."""
        return max(32, users // 4096) if label == "local" else 32


def compute(setting: Setting, task: Task) -> Body:
    """Regret of every model at every horizon, the exponents through it, and what the noise of the sums foretells."""
    total = len(MODELS) * sum(n * runs for n, runs in zip(setting.horizons, setting.runs, strict=True))
    total += sum(users for _, users in setting.published)
    points = np.unique(np.geomspace(100, setting.horizons[-1], POINTS).astype(np.int64))
    models = {}
    for label, model in MODELS.items():
        rows, curves = [], np.empty(0)
        for users, runs in zip(setting.horizons, setting.runs, strict=True):
            played = [setting.play(label, users, run, task, users / total) for run in range(runs)]
            rows.append(_summary(played))
            curves = np.asarray([run.at(points) for run in played])
        columns = {name: plain([row[name] for row in rows]) for name in rows[0]}
        fitted = power_law(np.asarray(setting.horizons, dtype=float), np.asarray(columns["regret"]))
        models[label] = columns | {
            "exponent": fitted[0],
            "factor": float(np.exp(fitted[1])),
            "theory": model.theory,
            "curve": {"regret": plain(curves.mean(axis=0)), "standard_error": plain(_error(curves))},
        }
    published = {
        label: {"users": users} | _summary([setting.play(label, users, 0, task, users / total, "published")])
        for label, users in setting.published
    }
    results = {"curve_users": points.tolist(), "models": models, "published": published, "noise": _noise(setting)}
    return {"configuration": _described(setting), "results": results}


def _blind(model: Body) -> bool:
    """Whether an exponent is fitted before learning begins: at the middle n intervals say nothing half of the time."""
    vacuous = model["vacuous"]
    return bool(vacuous[len(vacuous) // 2] > 0.5)


def _summary(played: list[LinearRun]) -> Body:
    regrets = np.asarray([run.regret[-1] for run in played])
    return {
        "regret": float(regrets.mean()),
        "standard_error": float(_error(regrets)),
        "held": float(np.mean([run.held for run in played])),
        "vacuous": float(np.mean([run.vacuous for run in played])),
        "last_radius": float(np.mean([run.rule.radius for run in played])),
    }


def _error(values: np.ndarray) -> Any:
    return values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros_like(values[0])


def _noise(setting: Setting) -> Body:
    """The noise of the sums against n by closed forms, that of the plans, and where the curves cross."""
    budget = Budget(setting.epsilon, setting.delta, setting.dimension)
    grid = [round(2 ** (10 + step * 40 / setting.steps)) for step in range(setting.steps + 1)]
    kinds = {TREE: True, SEQUENTIAL: False}
    curves = {
        constants: {
            label: plain([budget.sums(n, concurrent=many, published=constants == "published").noise_std for n in grid])
            for label, many in kinds.items()
        }
        for constants in ("published", "tight")
    }
    planners: dict[str, Callable[..., LinearPlan]] = {TREE: linear_bandit, SEQUENTIAL: sequential_linear_bandit}
    planned = {
        label: plain([plan(n, setting.dimension, **setting.budget).counter.noise_std for n in setting.horizons])
        for label, plan in planners.items()
    }
    return {
        "users": grid,
        "std": curves,
        "planned": planned,
        "concurrent_overtakes_at": {
            constants: stays_below(grid, stds[TREE], stds[SEQUENTIAL]) for constants, stds in curves.items()
        },
        "published_silent_until": {label: budget.silent_until(grid, concurrent=many) for label, many in kinds.items()},
    }


def _described(setting: Setting) -> Body:
    return {
        "models": {label: {"model": model.name, "shufflers": model.shufflers} for label, model in MODELS.items()},
        "constants": "tight; published ones run once, in results.published",
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "world": {"kind": "sphere", "dimension": setting.dimension, "actions": setting.actions},
        "horizons": list(setting.horizons),
        "runs": list(setting.runs),
        "references_read_their_sums_every": {
            "LinUCB, no privacy": "32 users, later a hundredth part of all so far",
            "central tree": "as many users as the concurrent tree",
            "local": [setting.block("local", users) for users in setting.horizons],
        },
        "band": "mean ± 1.96 standard errors over runs",
        "held": "share of runs whose confidence set always held the true parameter",
        "vacuous": "share of users during whom every confidence interval was wider than all rewards",
        "theory": "[TKMS23]'s exponents bound the worst case; published radii never shrink, tight ones do",
        "noise": "standard deviation of an entry in the worst prefix, by closed forms (Gaussian); `planned`: of plans; "
        "regret grows with its square root, so where the tree carries less it must win",
        "published_silent_until": "the largest n with β/√(n + ρ_max) > 1 up to there, of the same closed forms",
    }


def draw(body: Body) -> Any:
    """Regret over users, final regret against the horizon, and the noise of the sums further on."""
    setup, results = body["configuration"], body["results"]
    world = f"d = {setup['world']['dimension']}, {setup['world']['actions']} actions"
    title = f"Linear bandits with private sums, ε = {setup['epsilon']:g}: {world}"
    figure, axes, strip = sheet(3, title=title, width=9.6, height=3.4, strip=1.35, share_y=False)
    users, horizons, handles = np.asarray(results["curve_users"]), np.asarray(setup["horizons"]), []
    for place, (label, model) in enumerate(results["models"].items()):
        colour, line, marker = STYLES[label]
        mean, error = (np.asarray(model["curve"][name]) for name in ("regret", "standard_error"))
        drawn = curve(axes[0], users, mean, error, label, marks=range(3 + 2 * place, len(users), 2 * len(MODELS)))
        early = ", before it learns" if _blind(model) else ""
        bound = "" if model["theory"] is None else f" (≤ $n^{{{model['theory']:.2g}}}$)"
        drawn.set_label(f"{label}: $n^{{{model['exponent']:.2f}}}${bound}{early}")
        handles.append(drawn)
        axes[1].plot(horizons, model["factor"] * horizons ** model["exponent"], color=colour, linestyle=line)
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5, "markerfacecolor": "white"}
        bars = 1.96 * np.asarray(model["standard_error"])
        axes[1].errorbar(horizons, model["regret"], bars, linestyle="none", **look)
    _draw_noise(axes[2], results["noise"], horizons)
    names = (f"over users, planned for {horizons[-1]:,}", "in the end, a plan for each n", "what decides in the end")
    for panel, name in zip(axes, names, strict=True):
        panel.set(xscale="log", yscale="log")
        panel.set_title(name, fontsize=9)
        panel.set_xlabel("users" if panel is axes[0] else "users n", fontsize=9)
    axes[0].set_ylabel("cumulative regret (rewards)", fontsize=9)
    axes[2].set_ylabel("noise of a sum (std. deviation)", fontsize=9)
    explain(strip, handles, _caption(setup, results), columns=3)
    return figure


def _draw_noise(panel: Any, noise: Body, horizons: np.ndarray) -> None:
    middle = len(noise["users"]) // 3
    for constants, curves in noise["std"].items():
        for label, std in curves.items():
            colour, line, marker = STYLES[label]
            panel.plot(noise["users"], std, color=colour, linestyle=line, linewidth=1.4)
            if constants == "tight":
                planned = noise["planned"][label]
                panel.plot(horizons, planned, marker, color=colour, markersize=4, markerfacecolor="white")
        height = 2.5 * max(std[middle] for std in curves.values())
        panel.text(noise["users"][middle], height, constants, fontsize=8, color=GREY, ha="center")
    if crossing := noise["concurrent_overtakes_at"]["published"]:
        panel.axvline(crossing, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)))
        height = noise["std"]["published"][SEQUENTIAL][0]
        words = f"the tree wins from\n{scientific(crossing)} on"
        panel.text(crossing / 2, height / 8, words, fontsize=8, color=GREY, ha="right")


def _caption(setup: Body, results: Body) -> str:
    noise, models = results["noise"], results["models"]
    runs = ", ".join(
        f"{label}, {run['users']:,} users: during {100 * run['vacuous']:.0f}\u00a0%"
        for label, run in results["published"].items()
    )
    held = min(min(model["held"]) for model in models.values())
    blind = 100 * models["local"]["vacuous"][-1]
    silent = min(noise["published_silent_until"].values())
    wins = {
        constants: "everywhere shown" if users == noise["users"][0] else f"from n\u00a0=\u00a0{scientific(users)} on"
        for constants, users in noise["concurrent_overtakes_at"].items()
    }
    return (
        f"δ\u00a0=\u00a0{power_of_ten(setup['delta'])}, exactly calibrated; means ± 1.96 standard errors over "
        f"{'/'.join(map(str, setup['runs']))} runs. In brackets [TKMS23]'s exponents, which bound the worst case; "
        "growing batches have none for arbitrary contexts. The true parameter was "
        f"always in the confidence set in {100 * held:.0f}\u00a0% of the runs. The local model's intervals are wider "
        f"than all rewards during {blind:.0f}\u00a0% of the longest run; those of published constants always"
        f"{f' ({runs})' if runs else ''}, for certain until n\u00a0=\u00a0{scientific(silent)}. Right: "
        "curves by closed forms, marks from plans; the tree of sums carries less noise than one shuffler "
        f"{wins['published']} as published, {wins['tight']} if tight."
    )


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """Exponents beside [TKMS23]'s, regret, how often the confidence set held and how long it said nothing."""
    horizons, results = body["configuration"]["horizons"], body["results"]
    # The first, the middle and the last: the others are in the figure.
    shown = sorted({0, (len(horizons) - 1) // 2, len(horizons) - 1})
    rows = []
    for label, model in results["models"].items():
        shares = [f"{100 * model[name][-1]:.1f} %" for name in ("held", "vacuous")]
        regret = [f"{model['regret'][at]:,.0f}" for at in shown]
        fitted = f"{model['exponent']:.2f}" + (", before it learns" if _blind(model) else "")
        bound = "-" if model["theory"] is None else f"{model['theory']:.2g}"
        rows.append([label, "tight", bound, fitted, *regret, *shares])
    blank = [""] * (len(shown) - 1)
    for label, run in results["published"].items():
        shares = [f"{100 * run[name]:.1f} %" for name in ("held", "vacuous")]
        rows.append([label, f"published, n = {run['users']:,}", "", "", f"{run['regret']:,.0f}", *blank, *shares])
    for constants, users in results["noise"]["concurrent_overtakes_at"].items():
        word = f"from n = {users:.2g}" if users else "not on the grid"
        rows.append(["tree's noise < one shuffler's", constants, "", "", word, *blank, "", ""])
    headings = ["model", "constants", "[TKMS23]: n to the", "fitted", *(f"n = {horizons[at]:,}" for at in shown)]
    return [*headings, "θ* held", "says nothing"], rows


FIGURES = (
    Figure(
        "tkms23-linucb-regret",
        "[TKMS23] Thm 5.1",
        "regret of linear bandits in every trust model, its exponents, and where concurrent shufflers must win",
        8,
        Setting(
            horizons=(10_000, 31_623, 100_000, 316_228, 1_000_000),
            runs=(6, 6, 6, 3, 3),
            published=((SEQUENTIAL, 10_000), (TWO, 2_000)),
            steps=160,
        ),
        Setting(horizons=(1_000, 3_162, 10_000), runs=(2, 2, 2), published=(), steps=20),
        compute,
        draw,
        table,
    ),
)
