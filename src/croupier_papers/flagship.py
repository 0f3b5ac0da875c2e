"""Figures of our own: what exact calibration is worth, and the flagship against everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from croupier.bandits import Policy
from croupier.protocols import ROWS, protocol
from croupier.simulation.baselines import ALL_POLICIES, simulated_policy
from croupier.simulation.runner import simulate
from croupier.simulation.worlds import Bernoulli, Floats
from croupier_papers.experiment import Body, Figure, Task, over_instances, plain, published
from croupier_papers.style import BLUE, GREY, VERMILION, curve, explain, power_of_ten, sheet

LOW, HIGH = 0.25, 0.75


@dataclass(frozen=True)
class Setting:
    """Bernoulli instances with means drawn uniformly in [0.25, 0.75]."""

    epsilons: tuple[float, ...]
    horizon: int
    instances: int
    runs: int
    arms: int = 10

    def world(self, task: Task) -> Bernoulli:
        """Every instance once for each of its runs, side by side."""
        return Bernoulli(np.repeat(task.means(self.arms, self.instances, LOW, HIGH), self.runs, axis=0))

    def policy(self, name: str, epsilon: float, constants: str, **options: float) -> tuple[Policy, str]:
        """A policy for all runs, and a word on its constants."""
        runs = self.runs * self.instances
        if constants == "published":
            binary = {} if name == "dp-se" else {"binary": True}
            return published(name, arms=self.arms, horizon=self.horizon, epsilon=epsilon, runs=runs, **binary)
        private = {} if ALL_POLICIES[name].protocol is None else {"epsilon": epsilon}
        policy = simulated_policy(
            name, arms=self.arms, horizon=self.horizon, runs=runs, binary=True, **private, **options
        )
        return policy, "tight"

    def described(self) -> dict[str, Any]:
        """What both figures say of their setting."""
        return {
            "epsilons": list(self.epsilons),
            "delta": 1e-6,
            "arms": self.arms,
            "horizon": self.horizon,
            "instances": self.instances,
            "runs_of_each_instance": self.runs,
            "runs": self.instances * self.runs,
            "world": {"kind": "Bernoulli", "means": f"uniform in [{LOW:g}, {HIGH:g}]"},
            "band": "mean ± 1.96 standard errors over instances",
        }


YARDSTICKS = ("elimination", "kl-ucb")


def compute_constants(setting: Setting, task: Task) -> Body:
    """Regret of every private policy with its paper's constants and with exact ones."""
    (epsilon,) = setting.epsilons
    world = setting.world(task)
    asked = [(name, constants) for name in ALL_POLICIES for constants in _variants(name)]
    regrets: dict[str, dict[str, Any]] = {}
    words = {}
    for index, (name, constants) in enumerate(asked):
        policy, word = setting.policy(name, epsilon, constants)
        run = simulate(policy, world, seed=task.seed_of(index), checkpoints=1, progress=task.share(1.0 / len(asked)))
        mean, error = over_instances(run.regret, setting.instances)
        regrets.setdefault(name, {})[constants] = {"regret": float(mean), "standard_error": float(error)}
        words[f"{name}, {constants}"] = word
    policies = {
        name: {
            "paper_name": ALL_POLICIES[name].paper_name,
            "source": ALL_POLICIES[name].paper,
            "notion": ALL_POLICIES[name].notion,
            "epsilon_at_delta": private_epsilon(name, epsilon),
        }
        for name in regrets
    }
    common = (
        f"the exact ε of a batch of {COMMON_BATCH:,} users at δ = 1e-6, in whatever notion ε is meant; null: no privacy"
    )
    configuration = {"policies": policies, "constants": words, "epsilon_at_delta": common} | setting.described()
    return {"configuration": configuration, "results": {"policies": regrets}}


COMMON_BATCH = 10_000

NOTIONS = {"renyi": "Rényi", "concentrated": "concentrated"}
"""Notions whose ε is another than that of (ε, δ)."""


def private_epsilon(name: str, epsilon: float) -> float | None:
    """What ε means as (ε', 10⁻⁶), for policies whose ε is that of Rényi or concentrated privacy: much more."""
    kind = ALL_POLICIES[name].protocol
    if kind is None or kind not in ROWS:
        return None if kind is None else epsilon
    made = protocol(kind, epsilon=epsilon)
    if made.row.notion not in NOTIONS:
        return epsilon
    return round(made.plan(COMMON_BATCH).loss.epsilon(1e-6), 5)


def _variants(name: str) -> tuple[str, ...]:
    """References have their authors' constants only; our own policies and the yardsticks only exact ones."""
    if name == "dp-se":
        return ("published",)
    return ("tight",) if name in YARDSTICKS or ALL_POLICIES[name].tight_only else ("published", "tight")


def draw_constants(body: Body) -> Any:
    """One row for each policy, worst first: hollow as published, filled with exact calibration."""
    from matplotlib.lines import Line2D

    setup, policies = body["configuration"], dict(body["results"]["policies"])
    yardsticks = {name: policies.pop(name)["tight"]["regret"] for name in YARDSTICKS}
    order = sorted(policies, key=lambda name: max(case["regret"] for case in policies[name].values()), reverse=True)
    title = f"What exact calibration is worth, ε = {setup['epsilons'][0]:g}, {setup['horizon']:,} users"
    figure, (axes,), strip = sheet(1, title=title, width=7.2, height=5.2, strip=0.75)
    looks = {"published": (VERMILION, "s", "white"), "tight": (BLUE, "o", BLUE)}
    for place, name in enumerate(order):
        cases = policies[name]
        if len(cases) == 2:
            ends = [cases["tight"]["regret"], cases["published"]["regret"]]
            axes.plot(ends, [place, place], color="#BBBBBB", linewidth=2.2, zorder=1)
            middle = float(np.sqrt(ends[0] * ends[1]))
            axes.annotate(
                f"× {ends[1] / ends[0]:.1f}",
                (middle, place),
                (0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=7.5,
                color=GREY,
            )
        for constants, case in cases.items():
            colour, marker, fill = looks[constants]
            axes.errorbar(
                case["regret"],
                place,
                xerr=1.96 * case["standard_error"],
                color=colour,
                marker=marker,
                markerfacecolor=fill,
                markersize=6,
                capsize=2.5,
                elinewidth=1,
            )
    for name, regret in yardsticks.items():
        axes.plot([regret, regret], [-1, len(order) - 0.5], color=GREY, linestyle=":", linewidth=1.2, zorder=0)
        label = f"{setup['policies'][name]['paper_name']}\n(no privacy)"
        axes.text(regret, len(order) - 0.4, label, fontsize=7.5, color=GREY, ha="center", va="bottom", linespacing=1.1)
    names = [_named(name, setup["policies"][name], setup["epsilons"][0]) for name in order]
    axes.set_yticks(range(len(order)), names, fontsize=8)
    axes.set_ylim(-0.6, len(order) + 0.35)
    axes.set_xscale("log")
    axes.set_xlim(left=0.6 * min(yardsticks.values()))
    axes.set_xlabel("regret (rewards, log scale)", fontsize=9)
    axes.grid(visible=False, axis="y")
    handles = [
        Line2D([], [], color=colour, marker=marker, markerfacecolor=fill, linestyle="none", markersize=6, label=label)
        for (colour, marker, fill), label in zip(
            looks.values(), ("constants as published", "exactly calibrated"), strict=True
        )
    ]
    others = sorted({f"{p['epsilon_at_delta']:.2f}" for p in setup["policies"].values() if _other(p, setup)})
    meaning = (
        f" ε = {setup['epsilons'][0]:g} of a Rényi or concentrated row is ({', '.join(others)}, $10^{{-6}}$) in the "
        "others' terms: those rows promise less."
        if others
        else ""
    )
    explain(strip, handles, _caption(setup) + meaning, columns=2)
    return figure


def _other(described: Body, setup: Body) -> bool:
    return described["epsilon_at_delta"] not in (None, setup["epsilons"][0])


def _named(name: str, described: Body, epsilon: float) -> str:
    """A policy on the axis; where its ε is of another notion, with what that is at δ = 10⁻⁶."""
    words = f"{described['paper_name']}  ({name})"
    spent = described["epsilon_at_delta"]
    if spent is None or spent == epsilon:
        return words
    return f"{words}\n{NOTIONS[described['notion']]}: ({spent:.2f}, $10^{{-6}}$)"


LINES = (
    ("KL-UCB", "kl-ucb", "tight", "KL-UCB, no privacy, log T"),
    ("KL-UCB, less", "kl-ucb", "tight", "KL-UCB, no privacy, 0.6 log T"),
    ("DP-IMED", "dp-imed", "tight", "DP-IMED, secure aggregation"),
    ("DP-KLUCB", "dp-klucb", "tight", "DP-KLUCB, secure aggregation"),
    ("Dist-DP-SE", "dist-dp-se", "tight", "Dist-DP-SE, exactly calibrated"),
    ("VB-SDP-AE", "vb-sdp-ae", "published", "VB-SDP-AE, as published"),
    ("LDP-SE", "local-dp-se", "tight", "LDP-SE, exactly calibrated"),
)
"""Style, policy, constants and label of the flagship's figure."""

EXPLORATION = {"KL-UCB, no privacy, log T": 1.0, "KL-UCB, no privacy, 0.6 log T": 0.6}
"""The yardstick at its textbook level, and at the one that the flagship is tuned to: on equal terms."""


def compute_flagship(setting: Setting, task: Task) -> Body:
    """Regret over time, and the floor under every private policy."""
    world = setting.world(task)
    panels: list[dict[str, Any]] = []
    words: dict[str, str] = {}
    parts = len(EXPLORATION) + len(setting.epsilons) * (len(LINES) - len(EXPLORATION))
    for row, epsilon in enumerate(setting.epsilons):
        lines: dict[str, Any] = {}
        for column, (_, name, constants, label) in enumerate(LINES):
            if row and ALL_POLICIES[name].protocol is None:
                lines[label] = panels[0]["lines"][label]
                continue
            options = {"exploration": EXPLORATION[label]} if label in EXPLORATION else {}
            policy, words[f"{label}, ε = {epsilon:g}"] = setting.policy(name, epsilon, constants, **options)
            seed = task.seed_of(row * len(LINES) + column)
            run = simulate(policy, world, seed=seed, progress=task.share(1.0 / parts))
            users = run.checkpoints[run.checkpoints >= 100]
            mean, error = over_instances(run.curve[:, run.checkpoints >= 100], setting.instances)
            lines[label] = {"regret": plain(mean), "standard_error": plain(error)}
        floor = {kind: plain(value) for kind, value in floors(world.means, epsilon, users).items()}
        panels.append({"epsilon": epsilon, "users": users.tolist(), "lines": lines, "floor": floor})
    configuration = {
        "policies": {
            label: {"policy": name, "constants": constants, "source": ALL_POLICIES[name].paper}
            for _, name, constants, label in LINES
        },
        "constants": words,
        "floor": "mean over instances of Σ_a Δ_a/d_ε(μ_a, μ*) log t (uncapped), each term at most Δ_a t (capped)",
    } | setting.described()
    return {"configuration": configuration, "results": {"panels": panels}}


def floors(means: Floats, epsilon: float, users: ArrayLike) -> dict[str, Floats]:
    """The asymptotic floor Σ_a Δ_a/d_ε(μ_a, μ*) log t, averaged over instances.

    It holds as t grows without end. Before that, arms that nearly tie would let it grow beyond what they can cost at
    all, so `capped` takes no more than Δ_a t of each.
    """
    best = means.max(axis=1, keepdims=True)
    gaps, cost = best - means, private_divergence(means, best, epsilon)
    rate = np.where(gaps > 0, gaps / np.where(gaps > 0, cost, 1.0), 0.0)
    t = np.asarray(users, dtype=float)
    capped = [np.minimum(rate * np.log(now), gaps * now).sum(axis=1).mean() for now in t.tolist()]
    return {"uncapped": rate.sum(axis=1).mean() * np.log(t), "capped": np.asarray(capped)}


def private_divergence(x: ArrayLike, y: ArrayLike, epsilon: float) -> Floats:
    """d_ε(x, y) = inf over z of ε|z - x| + kl(z, y) for x <= y: what ε-private evidence is worth, a user.

    With much privacy it is ε(y - x), nearly; without any it is kl(x, y).

    >>> [round(float(private_divergence(0.4, 0.6, epsilon)), 5) for epsilon in (0.1, 0.5, 10.0)]
    [0.01879, 0.06929, 0.08109]
    """
    from scipy.special import expit, logit, rel_entr

    low, high = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    z = np.clip(expit(logit(high) - epsilon), low, high)
    return np.asarray(epsilon * (z - low) + rel_entr(z, high) + rel_entr(1.0 - z, 1.0 - high))


def draw_flagship(body: Body) -> Any:
    """Regret over users on two log scales, one panel for each ε."""
    setup, panels = body["configuration"], body["results"]["panels"]
    figure, axes, strip = sheet(
        len(panels),
        title="Regret over time: private policies, and the rate they tend to",
        width=8.6,
        height=3.5,
        strip=1.8,
    )
    for panel, shown in zip(axes, panels, strict=True):
        users, handles = np.asarray(shown["users"]), []
        for place, (style, _, _, label) in enumerate(LINES):
            line = shown["lines"][label]
            spots = np.geomspace(users[0], users[-1], 6 * len(LINES))[place :: len(LINES)]
            marks = np.unique(np.searchsorted(users, spots).clip(0, len(users) - 1)).tolist()
            mean, error = np.asarray(line["regret"]), np.asarray(line["standard_error"])
            handles.append(curve(panel, users, mean, error, label, marks=marks, name=style))
        (floor,) = panel.plot(
            users,
            shown["floor"]["capped"],
            color=GREY,
            linewidth=1.0,
            label="the rate as t → ∞ (no bound before)",
        )
        panel.set(xscale="log", yscale="log", xlim=(users[0], users[-1]))
        panel.set_title(f"ε = {shown['epsilon']:g}", fontsize=9)
        panel.set_xlabel("users", fontsize=9)
    axes[0].set_ylabel("cumulative regret (rewards)", fontsize=9)
    formula = "Σ Δ/$d_\\varepsilon$ · log t".replace(" ", "\u00a0")
    rate = (
        " DP-KLUCB and DP-IMED: [AWHOIB25]; VB-SDP-AE: [TKMS21]; Dist-DP-SE and LDP-SE: [CZ23]."
        f" Thin grey line: {formula} over the arms, no term above Δt: what no private policy can beat as t → ∞. Δ is "
        "how much worse an arm is than the best, and $d_\\varepsilon$ what an ε-private user tells of it: "
        "ε\u00a0|z\u00a0−\u00a0μ| + kl(z,\u00a0μ*) where z makes it least. The line bounds nothing at "
        "a finite t, so good curves may run below it: arms that nearly tie have cost less until then, and DP-KLUCB and "
        "DP-IMED explore at a level of 0.6 log T, tuned and not proven. KL-UCB is drawn at that level too."
    )
    explain(strip, [*handles, floor], _caption(setup) + rate, columns=3)
    return figure


def _caption(setup: Body) -> str:
    runs = setup["runs_of_each_instance"]
    beyond = any("tight protocol" in word for word in setup["constants"].values())
    return (
        f"{setup['arms']} Bernoulli arms, means {setup['world']['means']}; {setup['instances']} instances, "
        f"{runs} {'run' if runs == 1 else 'runs'} each; mean ± 1.96 standard errors over instances; "
        f"δ\u00a0=\u00a0{power_of_ten(setup['delta'])} where a protocol needs one."
        + (" At ε = 1 VB-SDP-AE has its published radii and tight noise." if beyond else "")
    )


FIGURES = (
    Figure(
        "published-vs-tight",
        "croupier",
        "regret of every private policy with published and with exact constants",
        10,
        Setting((0.5,), 10**6, instances=50, runs=4),
        Setting((0.5,), 50_000, instances=10, runs=1),
        compute_constants,
        draw_constants,
    ),
    Figure(
        "flagship",
        "[AWHOIB25]",
        "regret over time: DP-KLUCB and DP-IMED against elimination, local privacy and none",
        3,
        Setting((0.5, 1.0), 10**6, instances=50, runs=4),
        Setting((0.5, 1.0), 10**5, instances=10, runs=1),
        compute_flagship,
        draw_flagship,
    ),
)
