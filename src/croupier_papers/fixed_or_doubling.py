"""[TKMS21]'s main message, measured: batches of one size (SDP-AE) against batches that double (VB-SDP-AE).

The paper proves a privacy term of K log(1/δ)/ε² for the first and of K √log(1/δ) log T/ε for the second. So doubling
must win where ε is small and T is not too large. This figure says where that is, by the proven bounds with their
constants and by measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from croupier.bandits import (
    sdp_ae_minimax,
    sdp_ae_regret,
    shuffled_bits_sigma,
    vb_sdp_ae_minimax,
    vb_sdp_ae_regret,
)
from croupier.simulation.baselines import simulated_policy
from croupier.simulation.runner import simulate
from croupier.simulation.worlds import Bernoulli
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.style import GREY, STYLES, explain, power_of_ten, scientific, sheet

Point = tuple[float, float, int]
"""(ε, δ, T)."""


@dataclass(frozen=True)
class Contender:
    """A policy of the paper, and what is proven of it: from the gaps, and whatever they are."""

    policy: str
    regret: Callable[[Sequence[float], int, float], float]
    minimax: Callable[[int, int, float], float]


CONTENDERS = {
    "SDP-AE": Contender("sdp-ae", sdp_ae_regret, sdp_ae_minimax),
    "VB-SDP-AE": Contender("vb-sdp-ae", vb_sdp_ae_regret, vb_sdp_ae_minimax),
}
FIXED, DOUBLING = CONTENDERS

PLACES = {"epsilon": 0, "horizon": 2, "delta": 1}
"""The sweeps, and what of a point each of them varies."""


@dataclass(frozen=True)
class Setting:
    """Ten arms a step apart; each sweep varies one of ε, T and δ, the other two are as given here."""

    epsilons: tuple[float, ...]
    horizons: tuple[int, ...]
    deltas: tuple[float, ...]
    runs: int
    tight_runs: int
    epsilon: float = 0.06
    horizon: int = 10**9
    delta: float = 1e-6
    tight_from: float = 0.05
    best: float = 0.75
    step: float = 0.05
    arms: int = 10
    known: Point = (0.5, 1e-6, 10**6)

    @property
    def gaps(self) -> list[float]:
        return [self.step * arm for arm in range(self.arms)]

    def points(self) -> dict[str, list[Point]]:
        """(ε, δ, T) along each sweep."""
        return {
            "epsilon": [(epsilon, self.delta, self.horizon) for epsilon in self.epsilons],
            "horizon": [(self.epsilon, self.delta, horizon) for horizon in self.horizons],
            "delta": [(self.epsilon, delta, self.horizon) for delta in self.deltas],
        }

    def bounds(self, label: str, point: Point) -> dict[str, float]:
        """Both bounds of a policy at a point."""
        contender, (epsilon, delta, horizon) = CONTENDERS[label], point
        sigma = shuffled_bits_sigma(epsilon, delta)
        return {
            "bound": contender.regret(self.gaps, horizon, sigma),
            "minimax_bound": contender.minimax(self.arms, horizon, sigma),
        }

    def measure(self, label: str, point: Point, constants: str, seed: int) -> tuple[float, float]:
        """Mean regret and its standard error."""
        epsilon, delta, horizon = point
        runs = self.runs if constants == "published" else self.tight_runs
        policy = simulated_policy(
            CONTENDERS[label].policy,
            arms=self.arms,
            horizon=horizon,
            epsilon=epsilon,
            delta=delta,
            constants=constants,
            binary=True,
            runs=runs,
        )
        # Arms in another order in every run: where T ends the first phase, who came first decides.
        means = np.tile(self.best - np.asarray(self.gaps), (runs, 1))
        world = Bernoulli(np.random.default_rng(seed).permuted(means, axis=1))
        regret = simulate(policy, world, seed=seed, checkpoints=1).regret
        return float(regret.mean()), float(regret.std(ddof=1) / math.sqrt(runs))


def compute(setting: Setting, task: Task) -> Body:
    """Regret of both policies along three sweeps, their bounds, and where the order turns."""
    sweeps: dict[str, Any] = {}
    total = 1 + sum(map(len, setting.points().values()))
    for number, (sweep, points) in enumerate(setting.points().items()):
        # Exact calibration takes a while at a small ε, and shows the same along T and δ.
        tight = setting.tight_from if sweep == "epsilon" else math.inf
        found: dict[str, Any] = {
            label: _columns(setting, label, points, task, 1000 * number, tight) for label in CONTENDERS
        }
        x = [float(point[PLACES[sweep]]) for point in points]
        task.progress(len(points) / total)
        sweeps[sweep] = {"x": x, "policies": found, "turns": _turns(setting, sweep, x, found)}
    known = {
        label: {"published": plain(setting.measure(label, setting.known, "published", task.seed_of(9_000 + index)))}
        | setting.bounds(label, setting.known)
        for index, label in enumerate(CONTENDERS)
    }
    task.progress(1.0 / total)
    configuration = {
        "policies": {label: contender.policy for label, contender in CONTENDERS.items()},
        "constants": f"published; along ε also tight, from {setting.tight_from:g} on",
        "epsilons": list(setting.epsilons),
        "horizons": list(setting.horizons),
        "deltas": list(setting.deltas),
        "otherwise": {"epsilon": setting.epsilon, "horizon": setting.horizon, "delta": setting.delta},
        "arms": setting.arms,
        "world": {"kind": "Bernoulli", "best_mean": setting.best, "gaps": plain(setting.gaps)},
        "runs": setting.runs,
        "tight_runs": setting.tight_runs,
        "bound": "[TKMS21] Theorems 3.1 and 3.3, from the gaps; minimax_bound: the same, whatever the gaps",
        "turns": "`bounds`: where the two bounds are equal; `measured`: neighbours on the grid between which the order "
        "of the means turns, each by more than two standard errors; `first` is who wins before",
        "known": {"epsilon": setting.known[0], "delta": setting.known[1], "horizon": setting.known[2]},
    }
    return {"configuration": configuration, "results": {"sweeps": sweeps, "known": known}}


def _columns(setting: Setting, label: str, points: list[Point], task: Task, first_seed: int, tight: float) -> Body:
    """One policy along one sweep; tight regret from this ε on, None below."""
    rows = []
    for place, point in enumerate(points):
        seed = task.seed_of(first_seed + 2 * place + list(CONTENDERS).index(label))
        mean, error = setting.measure(label, point, "published", seed)
        row: dict[str, Any] = {"regret": mean, "standard_error": error} | setting.bounds(label, point)
        row["tight_regret"] = setting.measure(label, point, "tight", seed)[0] if point[0] >= tight else None
        rows.append(row)
    return {
        name: [None if row[name] is None else plain([row[name]])[0] for row in rows]
        for name in ("regret", "standard_error", "tight_regret", "bound", "minimax_bound")
    }


def _turns(setting: Setting, sweep: str, x: list[float], found: Body) -> Body:
    """Where the order turns: by the bounds, and on the grid."""
    bounds = _roots(lambda at: _lead(setting, sweep, at), min(x), max(x))
    lead = np.asarray(found[DOUBLING]["regret"]) - np.asarray(found[FIXED]["regret"])
    sure = 2.0 * np.hypot(found[DOUBLING]["standard_error"], found[FIXED]["standard_error"])
    clear = [(at, value > 0) for at, value, error in zip(x, lead, sure, strict=True) if abs(value) > error]
    tight = [
        (at, doubling > fixed)
        for at, fixed, doubling in zip(x, found[FIXED]["tight_regret"], found[DOUBLING]["tight_regret"], strict=True)
        if fixed is not None and doubling is not None
    ]
    return {"bounds": plain(bounds), "measured": _changes(clear), "tight": _changes(tight)}


def _changes(signs: list[tuple[float, Any]]) -> list[Body]:
    """Neighbours on the grid with different winners."""
    return [
        {"from": before[0], "to": after[0], "first": FIXED if before[1] else DOUBLING}
        for before, after in pairwise(signs)
        if bool(before[1]) != bool(after[1])
    ]


def _lead(setting: Setting, sweep: str, at: float) -> float:
    """By how much the bound of doubling batches is the larger one."""
    point: list[Any] = [setting.epsilon, setting.delta, setting.horizon]
    point[PLACES[sweep]] = round(at) if sweep == "horizon" else at
    fixed, doubling = (setting.bounds(label, (point[0], point[1], point[2]))["bound"] for label in CONTENDERS)
    return doubling - fixed


def _roots(function: Callable[[float], float], low: float, high: float, cells: int = 400) -> list[float]:
    """Sign changes on a logarithmic grid, each halved until it is sharp.

    >>> [round(root, 6) for root in _roots(lambda x: (x - 2.0) * (x - 30.0), 1.0, 100.0)]
    [2.0, 30.0]
    """
    grid = np.geomspace(low, high, cells).tolist()
    roots = []
    for start, end in pairwise(grid):
        if (function(start) > 0) == (function(end) > 0):
            continue
        left, right, rising = start, end, function(end) > 0
        for _ in range(60):
            middle = math.sqrt(left * right)
            left, right = (left, middle) if (function(middle) > 0) == rising else (middle, right)
        roots.append(math.sqrt(left * right))
    return roots


NOTE: dict[str, Any] = {"fontsize": 7, "color": GREY, "ha": "right", "va": "center"}

AXES = {"epsilon": "privacy parameter ε", "horizon": "users T", "delta": "privacy parameter δ"}


def draw(body: Body) -> Any:
    """Three panels: measured regret as marks, the two bounds of each policy above, the turns as vertical lines."""
    from matplotlib.lines import Line2D

    setup, sweeps = body["configuration"], body["results"]["sweeps"]
    title = "Batches of one size or batches that double: regret and what is proven of it"
    figure, axes, strip = sheet(3, title=title, width=9.2, height=3.6, strip=1.25)
    lines: dict[str, Any] = {"bound": (0, (5, 1.5)), "minimax_bound": (0, (1, 1.5))}
    for panel, (sweep, found) in zip(axes, sweeps.items(), strict=True):
        x = np.asarray(found["x"])
        for label, columns in found["policies"].items():
            colour, _, marker = STYLES[label]
            look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5, "markerfacecolor": "white"}
            panel.errorbar(x, columns["regret"], 1.96 * np.asarray(columns["standard_error"]), linewidth=1.3, **look)
            for name, dash in lines.items():
                panel.plot(x, columns[name], color=colour, linestyle=dash, linewidth=1.2, **_every(marker, x))
            tight = [math.nan if value is None else value for value in columns["tight_regret"]]
            panel.plot(x, tight, color=colour, linewidth=1.0, marker=marker, markersize=2.5)
        if sweep == "horizon":
            worst = max(setup["world"]["gaps"])
            panel.plot(x, worst * x, color=GREY, linewidth=0.9)
            where = (x[0] * 2e3, worst * x[0] * 2e3)
            panel.annotate("everybody on\nthe worst arm", where, (-13, 4), textcoords="offset points", **NOTE)
        _mark_turns(panel, found["turns"])
        panel.set(xscale="log", yscale="log", xlim=(x.min() / 1.15, x.max() * 1.15))
        if sweep == "delta":
            panel.set_xticks([10.0**power for power in range(-24, 0, 6)])
        panel.set_xlabel(AXES[sweep], fontsize=9)
        panel.set_title(_otherwise(setup["otherwise"], sweep), fontsize=8.5)
    every = [value for found in sweeps.values() for c in found["policies"].values() for value in c["minimax_bound"]]
    axes[0].set_ylim(3e3, 2.0 * max(every))
    axes[0].set_ylabel("regret (rewards)", fontsize=9)
    handles = [
        Line2D([], [], color=STYLES[label][0], marker=STYLES[label][2], markerfacecolor="white", label=label)
        for label in CONTENDERS
    ]
    handles += [
        Line2D([], [], color=GREY, linewidth=1.0, marker=".", markersize=3, label="small marks: exactly calibrated"),
        Line2D([], [], color=GREY, linestyle=lines["bound"], label="proven, from the gaps"),
        Line2D([], [], color=GREY, linestyle=lines["minimax_bound"], label="proven, whatever the gaps"),
        Line2D(
            [], [], color=GREY, linestyle="-.", linewidth=0.9, label="where the bounds cross (grey: where regrets do)"
        ),
    ]
    explain(strip, handles, _caption(body), columns=3)
    return figure


def _every(marker: str, x: Any) -> dict[str, Any]:
    """Two small marks a curve, so that policies can be told apart in grey."""
    return {"marker": marker, "markersize": 3, "markevery": [len(x) // 4, (3 * len(x)) // 4]}


def _mark_turns(panel: Any, turns: Body) -> None:
    for at in turns["bounds"]:
        panel.axvline(at, color=GREY, linewidth=0.9, linestyle="-.")
    for turn in turns["measured"]:
        panel.axvspan(min(turn["from"], turn["to"]), max(turn["from"], turn["to"]), color="#BBBBBB", alpha=0.45, lw=0)


def _otherwise(setup: Body, sweep: str) -> str:
    words = {
        "epsilon": f"ε = {setup['epsilon']:g}",
        "horizon": f"T = {power_of_ten(setup['horizon'])}",
        "delta": f"δ = {power_of_ten(setup['delta'])}",
    }
    return ", ".join(word for name, word in words.items() if name != sweep)


def _caption(body: Body) -> str:
    setup, results = body["configuration"], body["results"]
    known, at = results["known"], setup["known"]
    gaps = [gap for gap in setup["world"]["gaps"] if gap]
    turns = results["sweeps"]
    return (
        f"{setup['arms']} Bernoulli arms, gaps {min(gaps):g} to {max(gaps):g}; means of {setup['runs']} runs. "
        f"{_turn_words('ε', turns['epsilon'])} {_turn_words('T', turns['horizon'])} {_turn_words('δ', turns['delta'])} "
        f"As published, at ε = {at['epsilon']:g}, T = {power_of_ten(at['horizon'])}: SDP-AE "
        f"{known[FIXED]['published'][0]:,.0f}, VB-SDP-AE {known[DOUBLING]['published'][0]:,.0f}. In T the privacy term "
        "of VB-SDP-AE grows as log T and that of SDP-AE not at all."
    )


def _turn_words(what: str, found: Body) -> str:
    """The order along one sweep, in words."""
    turns = found["turns"]
    bounds = " and ".join(f"at {what}\u00a0=\u00a0{scientific(at)}" for at in turns["bounds"]) or "nowhere shown"
    ends = [sorted((turn["from"], turn["to"])) for turn in turns["measured"]]
    spans = " and ".join(f"between {scientific(low)} and {scientific(high)}" for low, high in ends)
    tight = " and ".join(f"{scientific(t['from'])} and {scientific(t['to'])}" for t in turns["tight"])
    exact = f", exactly calibrated ones between {tight}" if tight else ""
    return f"Along {what} the bounds cross {bounds}, the measured regrets {spans or 'nowhere shown'}{exact}."


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """Every point: both policies as published and tight, their bounds from the gaps, and who wins."""
    rows = []
    for sweep, found in body["results"]["sweeps"].items():
        for place, x in enumerate(found["x"]):
            cells = [sweep, f"{x:.3g}"]
            pair = [found["policies"][label] for label in CONTENDERS]
            for name in ("regret", "tight_regret", "bound"):
                cells += ["-" if one[name][place] is None else _short(one[name][place]) for one in pair]
            rows.append([*cells, "fixed" if pair[0]["regret"][place] < pair[1]["regret"][place] else "doubling"])
    headings = [f"{name} {short}" for name in ("published", "tight", "bound") for short in ("fixed", "doubling")]
    return ["sweep", "at", *headings, "wins"], rows


def _short(value: float) -> str:
    """Four digits: 61,690, or 2.381e9."""
    return f"{value:,.0f}" if value < 1e6 else f"{value:.3e}".replace("e+0", "e").replace("e+", "e")


FIGURES = (
    Figure(
        "tkms21-batches",
        "[TKMS21] Thm 3.1 and 3.3",
        "SDP-AE against VB-SDP-AE over ε, T and δ, with their proven bounds, and where the order turns",
        15,
        Setting(
            epsilons=tuple(plain(np.geomspace(0.002, 0.95, 25))),
            horizons=tuple(round(10 ** (power / 2)) for power in range(12, 29)),
            deltas=tuple(plain(np.geomspace(1e-24, 1e-2, 23))),
            runs=100,
            tight_runs=40,
        ),
        Setting(
            epsilons=tuple(plain(np.geomspace(0.002, 0.95, 13))),
            horizons=tuple(10**power for power in range(6, 15)),
            deltas=tuple(plain(np.geomspace(1e-24, 1e-2, 12))),
            runs=20,
            tight_runs=10,
            tight_from=0.1,
        ),
        compute,
        draw,
        table,
    ),
)
