"""[TKMS21] Table 1, measured: how the cost of privacy grows with 1/ε, with the arms and with the horizon in three
models.

All suboptimal arms have one gap. The cost is a policy's regret minus that of the same elimination without noise and
without the radius that noise needs. Doubling batches make regret a staircase; runs that start their batches at
different sizes, spread over one doubling, average its steps away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.bandits import Policy
from croupier.checks import InvalidParameter
from croupier.simulation.baselines import simulated_policy
from croupier.simulation.runner import simulate
from croupier.simulation.worlds import Bernoulli, Floats
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.style import GREY, STYLES, explain, power_of_ten, sheet

SMALLEST_START = 128
"""Above the least batch for which the local model's radius is proven, at every horizon here."""


@dataclass(frozen=True)
class Model:
    """One trust model: its policy, and Table 1's exponents of 1/ε, K and log T."""

    policy: str
    label: str
    exponents: tuple[float, float, float]
    theory: str


MODELS = {
    "central": Model("central-dp-se", "CDP-SE", (-1.0, 1.0, 1.0), "K log T / ε"),
    "shuffle": Model("vb-sdp-ae", "VB-SDP-AE", (-1.0, 1.0, 1.0), "K √log(1/δ) log T / ε"),
    "local": Model("local-dp-se", "LDP-SE", (-2.0, 1.0, 1.0), "(1/ε²) Σ log T / Δ"),
}


@dataclass(frozen=True)
class Setting:
    """Three sweeps, each of one quantity while the other two stay at `epsilon`, `arms` and `horizon`."""

    epsilons: tuple[float, ...]
    arm_counts: tuple[int, ...]
    horizons: tuple[int, ...]
    starts: int
    runs: int
    epsilon: float = 0.2
    arms: int = 10
    horizon: int = 10**9
    gap: float = 0.25
    best: float = 0.75
    delta: float = 1e-6

    def points(self) -> dict[str, list[Point]]:
        """(ε, K, T) along each sweep."""
        return {
            "epsilon": [(epsilon, self.arms, self.horizon) for epsilon in self.epsilons],
            "arms": [(self.epsilon, arms, self.horizon) for arms in self.arm_counts],
            "horizon": [(self.epsilon, self.arms, horizon) for horizon in self.horizons],
        }


Point = tuple[float, int, int]

SWEEPS: dict[str, tuple[str, str, Callable[[Point], float]]] = {
    "epsilon": ("privacy parameter ε", "ε", lambda point: point[0]),
    "arms": ("suboptimal arms K − 1", "K − 1", lambda point: point[1] - 1.0),
    "horizon": ("users T (axis: log log T)", "log T", lambda point: math.log(point[2])),
}
"""The label of each axis, the quantity whose exponent is fitted, and its value at (ε, K, T)."""


def compute(setting: Setting, task: Task) -> Body:
    """The cost at every point of every sweep, and the exponents of power laws through them."""
    sweeps: dict[str, Any] = {}
    total = len(MODELS) * sum(len(points) for points in setting.points().values())
    index = 0
    for sweep, points in setting.points().items():
        x = np.asarray([SWEEPS[sweep][2](point) for point in points])
        models = {}
        for name, model in MODELS.items():
            costs = []
            for point in points:
                costs.append(privacy_cost(model.policy, *point, setting, task.seed_of(index)))
                index += 1
                task.progress(1.0 / total)
            mean, error = np.asarray(costs).T
            slope, level = power_law(x, mean)
            fit = {
                "exponent": slope,
                "theory": model.exponents[list(SWEEPS).index(sweep)],
                "factor": float(np.exp(level)),
            }
            models[name] = {"cost": plain(mean), "standard_error": plain(error)} | fit
        sweeps[sweep] = {"x": plain(x), "points": [list(point) for point in points], "models": models}
    configuration = {
        "policies": {name: {"policy": model.policy, "table_1": model.theory} for name, model in MODELS.items()},
        "constants": "published",
        "epsilons": list(setting.epsilons),
        "arms": list(setting.arm_counts),
        "horizons": list(setting.horizons),
        "otherwise": {"epsilon": setting.epsilon, "arms": setting.arms, "horizon": setting.horizon},
        "delta": {"shuffle": setting.delta, "central": 0.0, "local": 0.0},
        "world": {"kind": "Bernoulli", "best_mean": setting.best, "gap_of_all_other_arms": setting.gap},
        "first_batches": first_batches(setting.starts),
        "runs": setting.runs * setting.starts,
        "cost": "regret minus that of the same elimination without noise and without its radius",
    }
    return {"configuration": configuration, "results": {"sweeps": sweeps}}


def first_batches(starts: int) -> list[int]:
    """Sizes spread evenly over one doubling."""
    return [round(SMALLEST_START * 2 ** (step / starts)) for step in range(starts)]


def privacy_cost(
    name: str, epsilon: float, arms: int, horizon: int, setting: Setting, seed: int
) -> tuple[float, float]:
    """Mean cost and its standard error, over runs and first batches."""
    world = Bernoulli([setting.best] + [setting.best - setting.gap] * (arms - 1))
    costs = []
    for first in first_batches(setting.starts):
        private = simulated_policy(
            name,
            arms=arms,
            horizon=horizon,
            epsilon=epsilon,
            delta=setting.delta if name == "vb-sdp-ae" else None,
            constants="published",
            binary=True,
            runs=setting.runs,
            smallest=first,
        )
        regrets = [
            simulate(policy, world, seed=seed, checkpoints=1).regret for policy in (private, without_noise(private))
        ]
        costs.append(regrets[0] - regrets[1])
    each: Floats = np.asarray(costs)
    # The first batches are chosen, not drawn: only the runs within each are random.
    error = (
        float(np.sqrt((each.var(axis=1, ddof=1) / setting.runs).mean() / setting.starts)) if setting.runs > 1 else 0.0
    )
    return float(each.mean()), error


def without_noise(policy: Policy) -> Policy:
    """The same elimination when nobody adds noise and no radius allows for any."""
    return policy.over(None, 0.0)


def power_law(x: Floats, y: Floats) -> tuple[float, float]:
    """The slope and the intercept of log y on log x, by least squares; costs below one reward count as one.

    Two points always lie on a line, so there must be three.

    >>> slope, _ = power_law(np.array([1.0, 2.0, 4.0]), np.array([8.0, 32.0, 128.0]))
    >>> round(slope, 6)
    2.0
    """
    if len(x) < 3:
        raise InvalidParameter("x", len(x), "at least three points: an exponent through two says nothing")
    slope, level = np.polyfit(np.log(x), np.log(np.maximum(y, 1.0)), 1)
    return float(slope), float(level)


def draw(body: Body) -> Any:
    """Three panels: points, and the fitted power laws."""
    figure, axes, strip = sheet(3, title="The cost of privacy in three trust models", width=8.4, height=3.5, strip=0.55)
    for panel, (sweep, results) in zip(axes, body["results"]["sweeps"].items(), strict=True):
        x = np.asarray(results["x"])
        for name, model in results["models"].items():
            colour, line, marker = STYLES[MODELS[name].label]
            exponent = f"{model['exponent']:.2f}".replace("-", "−")
            theory = f"{model['theory']:g}".replace("-", "−")
            bound = "≤ " if sweep == "horizon" else ""
            panel.plot(x, model["factor"] * x ** model["exponent"], color=colour, linestyle=line, linewidth=1.4)
            panel.errorbar(
                x,
                model["cost"],
                yerr=1.96 * np.asarray(model["standard_error"]),
                color=colour,
                linestyle="none",
                marker=marker,
                markersize=4.5,
                markerfacecolor="white",
                markeredgewidth=1.1,
            )
            panel.plot(
                [],
                [],
                color=colour,
                linestyle=line,
                marker=marker,
                markerfacecolor="white",
                label=f"{name}: {exponent}  (theory {bound}{theory})",
            )
        panel.set(xscale="log", yscale="log")
        panel.set_xlabel(SWEEPS[sweep][0], fontsize=9)
        _ticks(panel, sweep, results)
        legend = panel.legend(
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            frameon=False,
            fontsize=8,
            title=f"exponent of {SWEEPS[sweep][1]}",
            title_fontsize=8,
            alignment="left",
            handlelength=3.2,
        )
        legend.get_title().set_color(GREY)
    axes[0].set_ylabel("regret due to privacy (rewards)", fontsize=9)
    explain(strip, [], _caption(body["configuration"]), columns=3)
    return figure


def _ticks(panel: Any, sweep: str, results: Body) -> None:
    from matplotlib.ticker import NullLocator

    if sweep == "horizon":
        labels = [power_of_ten(point[2]) for point in results["points"]]
    else:
        labels = [f"{x:.3g}" for x in results["x"]]
    every = 2 if len(labels) > 7 else 1
    panel.set_xticks(results["x"][::every], labels[::every])
    panel.xaxis.set_minor_locator(NullLocator())


def _caption(setup: Body) -> str:
    other, world = setup["otherwise"], setup["world"]
    return (
        f"Bernoulli arms, every suboptimal one worse by {world['gap_of_all_other_arms']:g}; where not varied ε = "
        f"{other['epsilon']:g}, K = {other['arms']}, T = {power_of_ten(other['horizon'])}; published constants, "
        f"δ\u00a0=\u00a0{power_of_ten(setup['delta']['shuffle'])} for the shuffle model; means of {setup['runs']} runs."
    )


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """Fitted exponents beside the paper's."""
    sweeps = body["results"]["sweeps"]
    rows = []
    for name, described in body["configuration"]["policies"].items():
        cells = [name, described["policy"], described["table_1"]]
        for sweep in SWEEPS:
            fit = sweeps[sweep]["models"][name]
            cells += [f"{fit['exponent']:.2f}", f"{fit['theory']:g}"]
        rows.append(cells)
    headings = ["model", "policy", "privacy term of Table 1"]
    for _, what, _ in SWEEPS.values():
        headings += [f"exponent of {what}", "theory"]
    return headings, rows


FIGURES = (
    Figure(
        "tkms21-table-1",
        "[TKMS21] Table 1",
        "the cost of privacy against ε, arms and horizon, with fitted exponents",
        3,
        Setting(
            epsilons=tuple(plain(np.geomspace(0.05, 0.8, 9))),
            arm_counts=(2, 3, 5, 9, 17, 33, 65),
            horizons=tuple(10**power for power in range(8, 15)),
            starts=8,
            runs=25,
        ),
        Setting(
            epsilons=tuple(plain(np.geomspace(0.05, 0.8, 5))),
            arm_counts=(2, 5, 17),
            horizons=(10**8, 10**11, 10**14),
            starts=4,
            runs=5,
        ),
        compute,
        draw,
        table,
    ),
)
