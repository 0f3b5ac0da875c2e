"""[TKMS23]'s linear bandit on contexts that an adversary chose: directions that nobody needed until late.

Batches that grow by a ratio are cheap: everyone is in one batch, and there are few noises. But the last one holds a
share 1 - 1/ratio of all users, and all of them choose by what was known before it. Contexts that point elsewhere from
then on cost that whole share, so growing batches lose linearly. Theorem 5.1 allows arbitrary contexts; the tree of sums
keeps its word. With a cap on their size growing batches hear of the new directions soon, and carry more noises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.linear import growing_bandit
from croupier.simulation.linear_runner import LinearRun, simulate_linear
from croupier.simulation.linear_worlds import LateDirections
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.shuffle_bandits import power_law
from croupier_papers.style import GREY, STYLES, curve, explain, power_of_ten, sheet

Floats = NDArray[np.float64]

POINTS = 80
"""Numbers of users at which a curve is kept."""

CAPPED = 64
"""No batch of the capped server has more than this part of all users."""


@dataclass(frozen=True)
class Model:
    """One curve: a model of `simulate_linear`, its options for so many users, and how its batches grow, if they do."""

    name: str
    options: Callable[[int], dict[str, Any]] = field(default=lambda users: {})
    ratio: float | None = None

    def turn(self, users: int, setting: Setting) -> int:
        """The first user whose actions lie elsewhere: where the last of growing batches begins, or half-way."""
        if self.ratio is None:
            return users // 2
        budget: dict[str, Any] = {"epsilon": setting.epsilon, "delta": setting.delta, "trust": "shuffler"}
        return list(growing_bandit(users, setting.dimension, ratio=self.ratio, **budget).ends())[-2]


MODELS = {
    "LinUCB, no privacy": Model("linucb"),
    "concurrent, binary tree": Model("concurrent"),
    "concurrent, k = 2": Model("concurrent", lambda users: {"shufflers": 2}),
    "sequential": Model("sequential"),
    "growing by 2": Model("growing", lambda users: {"ratio": 2.0}, 2.0),
    "growing by 1.3": Model("growing", lambda users: {"ratio": 1.3}, 1.3),
    "growing, capped": Model("growing", lambda users: {"ratio": 1.3, "largest": users // CAPPED}),
}


@dataclass(frozen=True)
class Setting:
    """Late directions appear when the last batch of a server whose batches grow begins; for all others, after half."""

    horizons: tuple[int, ...]
    runs: int
    epsilon: float = 1.0
    delta: float = 1e-6
    dimension: int = 5
    actions: int = 20

    def play(self, label: str, users: int, run: int, task: Task, part: float) -> LinearRun:
        """One run; every model meets the same hidden parameter in the same run.

        Runs are pairs with the same chance and opposite late directions: who chooses blindly is lucky in one of them.
        """
        model, (pair, turned) = MODELS[label], divmod(run, 2)
        return simulate_linear(
            model.name,
            LateDirections(
                self.dimension, self.actions, model.turn(users, self), task.seed_of(pair), turned=bool(turned)
            ),
            users,
            seed=task.seed_of(1000 * (1 + list(MODELS).index(label)) + pair),
            epsilon=self.epsilon,
            delta=self.delta,
            progress=task.share(part),
            **model.options(users),
        )


def compute(setting: Setting, task: Task) -> Body:
    """Regret over time and in the end, and what the late users paid each."""
    total = len(MODELS) * setting.runs * sum(setting.horizons)
    points = np.unique(np.geomspace(100, setting.horizons[-1], POINTS).astype(np.int64))
    points = np.unique(np.append(points, setting.horizons[-1] * np.arange(1, 41) // 40))
    models = {}
    for label in MODELS:
        rows, curves = [], np.empty(0)
        for users in setting.horizons:
            played = [setting.play(label, users, run, task, users / total) for run in range(setting.runs)]
            turn = MODELS[label].turn(users, setting)
            regrets = np.asarray([run.at(np.asarray([turn, users])) for run in played])
            late = (regrets[:, 1] - regrets[:, 0]) / (users - turn)
            rows.append(
                {
                    "regret": float(regrets[:, 1].mean()),
                    "standard_error": float(_error(regrets[:, 1])),
                    "late_regret_a_user": float(late.mean()),
                    "held": float(np.mean([bool(run.held) for run in played])),
                }
            )
            curves = np.asarray([run.at(points) for run in played])
        columns = {name: plain([row[name] for row in rows]) for name in rows[0]}
        models[label] = columns | {
            "exponent": power_law(np.asarray(setting.horizons, dtype=float), np.asarray(columns["regret"]))[0],
            "curve": {
                "regret": plain(curves.mean(axis=0)),
                "standard_error": plain(_error(curves)),
            },
        }
    configuration = {
        "models": {
            label: {"model": model.name} | model.options(setting.horizons[-1]) for label, model in MODELS.items()
        },
        "constants": "tight",
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "world": {
            "kind": "actions on a sphere in half of the directions; then in the other half",
            "turn": {label: [model.turn(n, setting) for n in setting.horizons] for label, model in MODELS.items()},
            "dimension": setting.dimension,
            "actions": setting.actions,
        },
        "horizons": list(setting.horizons),
        "runs": setting.runs,
        "growing": "every user in one batch, sums accumulate, proven sets; capped: no batch above n/64",
        "late_regret_a_user": "of those who came after the shift",
        "band": "mean ± 1.96 standard errors over pairs of runs with the same chance and opposite late directions",
    }
    return {"configuration": configuration, "results": {"curve_users": points.tolist(), "models": models}}


def _error(values: Floats) -> Floats:
    """The standard error of the mean, over pairs of runs."""
    pairs = values.reshape(-1, 2, *values.shape[1:]).mean(axis=1)
    return np.asarray(pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs)))


def draw(body: Body) -> Any:
    """Regret over users, and in the end against the horizon."""
    setup, found = body["configuration"], body["results"]
    title = f"Contexts that shift late: linear bandits with private sums, ε = {setup['epsilon']:g}"
    figure, axes, strip = sheet(2, title=title, width=8.0, height=3.5, strip=1.4, share_y=False)
    users, horizons, handles = np.asarray(found["curve_users"]), np.asarray(setup["horizons"]), []
    for place, (label, model) in enumerate(found["models"].items()):
        colour, line, marker = STYLES[label]
        mean, error = (np.asarray(model["curve"][name]) for name in ("regret", "standard_error"))
        marks = range(8 + 3 * place, len(users), 3 * len(MODELS))
        drawn = curve(axes[0], users / 1e3, mean, error, label, marks=marks)
        drawn.set_label(f"{label}: $n^{{{model['exponent']:.2f}}}$")
        handles.append(drawn)
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5, "markerfacecolor": "white"}
        bars = 1.96 * np.asarray(model["standard_error"])
        axes[1].errorbar(horizons, model["regret"], bars, linestyle=line, linewidth=1.4, **look)
    for turn in sorted({turns[-1] for turns in setup["world"]["turn"].values()}):
        axes[0].axvline(turn / 1e3, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)))
    axes[0].set_title(f"over users, planned for {horizons[-1]:,}", fontsize=9)
    axes[0].set_xlabel("users (thousands); dotted: contexts shift", fontsize=9)
    axes[0].set_ylabel("cumulative regret (rewards)", fontsize=9)
    # A little under 0, so that marks on a curve near it are whole.
    axes[0].set_ylim(bottom=-0.02 * axes[0].get_ylim()[1])
    axes[1].set(xscale="log", yscale="log")
    axes[1].set_title("in the end, a plan for each n", fontsize=9)
    axes[1].set_xlabel("users n", fontsize=9)
    explain(strip, handles, _caption(setup, found["models"]), columns=3)
    return figure


def _caption(setup: Body, models: Body) -> str:
    late = {label: model["late_regret_a_user"][-1] for label, model in models.items()}
    words = "; ".join(f"{label}: {late[label]:.3f}".replace(" ", "\u00a0") for label in late)
    return (
        f"d = {setup['world']['dimension']}, {setup['world']['actions']} actions, δ\u00a0=\u00a0"
        f"{power_of_ten(setup['delta'])}, {setup['runs'] // 2} pairs of runs. From a dotted line on all actions lie in "
        "directions that nobody has tried. A server whose batches grow opens its last one just then, and reads nothing "
        "of it before the end: a share 1\u00a0−\u00a01/ratio of all users. With batches of n/64 at most it hears of "
        f"the shift soon. Regret of each late user at the largest n: {words}."
    )


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """Final regret at each horizon, its exponent, and what a late user paid."""
    horizons = body["configuration"]["horizons"]
    rows = []
    for label, model in body["results"]["models"].items():
        regrets = [f"{value:,.0f}" for value in model["regret"]]
        late, held = f"{model['late_regret_a_user'][-1]:.3f}", f"{100 * min(model['held']):.0f} %"
        rows.append([label, *regrets, f"{model['exponent']:.2f}", late, held])
    return ["model", *(f"n = {n:,}" for n in horizons), "exponent", "a late user's regret", "θ* held"], rows


FULL = Setting((10_000, 31_623, 100_000), runs=6)

FIGURES = (
    Figure(
        "tkms23-linucb-adversary",
        "[TKMS23] Thm 5.1",
        "linear bandits when contexts shift late: concurrent and sequential sums, growing batches, and capped ones",
        12,
        FULL,
        replace(FULL, horizons=(4_000, 8_000, 16_000, 32_000), runs=4),
        compute,
        draw,
        table,
    ),
)
