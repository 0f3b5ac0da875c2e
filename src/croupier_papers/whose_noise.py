"""A figure of our own: one policy and one promise, with noise from both servers, the devices, or the analyzer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.protocols import ROWS, protocol
from croupier.simulation.baselines import simulated_policy
from croupier.simulation.runner import simulate
from croupier.simulation.worlds import Bernoulli
from croupier_papers.experiment import Body, Figure, Task, over_instances, plain
from croupier_papers.style import curve, explain, sheet

LOW, HIGH = 0.25, 0.75
POLICY = "dp-klucb"

SUMS: dict[str, tuple[str, str]] = {
    "none": ("", ""),
    "analyzer": ("central-laplace", "analyzer"),
    "devices": ("laplace", "devices"),
    "two-servers": ("laplace", "two-servers"),
    "nobody": ("local-laplace", "nobody"),
}
"""The protocol and the trust of each line."""

LABELS = {
    "none": "KL-UCB, no privacy",
    "analyzer": "noise from a trusted analyzer",
    "devices": "noise from the devices",
    "two-servers": "noise from both servers",
    "nobody": "noise in every report (local)",
}

COIN = 0.25
"""The largest variance of a user's own value in [0, 1]."""


@dataclass(frozen=True)
class Setting:
    """Bernoulli instances with means drawn uniformly, the same for every line, and the same chance in them."""

    epsilons: tuple[float, ...]
    horizon: int
    instances: int
    runs: int
    arms: int = 10
    sizes: tuple[int, ...] = (8, 32, 128, 512, 2048)


def compute(setting: Setting, task: Task) -> Body:
    """Regret over time for every trust, and how much wider than the users' own spread a batch's error is."""
    means = np.repeat(task.means(setting.arms, setting.instances, LOW, HIGH), setting.runs, axis=0)
    world, parts = Bernoulli(means), 1 + len(setting.epsilons) * (len(SUMS) - 1)
    panels: list[dict[str, Any]] = []
    for epsilon in setting.epsilons:
        lines: dict[str, Any] = {}
        for whom, (name, trust) in SUMS.items():
            if panels and not name:
                lines[whom] = panels[0]["lines"][whom]
                continue
            sums = {"epsilon": epsilon, "protocol_name": name, "trust": trust} if name else {}
            policy = simulated_policy(
                POLICY if name else "kl-ucb",
                arms=setting.arms,
                horizon=setting.horizon,
                runs=len(means),
                binary=True,
                **sums if name else {"exploration": 0.6},
            )
            # One seed for all lines: they differ by their noise alone.
            run = simulate(policy, world, seed=task.seed_of(0), progress=task.share(1.0 / parts))
            seen = run.checkpoints >= 100
            users = run.checkpoints[seen]
            mean, error = over_instances(run.curve[:, seen], setting.instances)
            lines[whom] = {"regret": plain(mean), "standard_error": plain(error)}
        panels.append({"epsilon": epsilon, "users": users.tolist(), "lines": lines})
    batches = {
        f"{epsilon:g}": {whom: [_wider(epsilon, size, *sums) for size in setting.sizes] for whom, sums in _private()}
        for epsilon in setting.epsilons
    }
    configuration = {
        "policies": {
            LABELS[whom]: {"policy": POLICY if name else "kl-ucb", "protocol": name or None, "trust": trust or "none"}
            for whom, (name, trust) in SUMS.items()
        },
        "constants": "tight",
        "epsilons": list(setting.epsilons),
        "arms": setting.arms,
        "horizon": setting.horizon,
        "instances": setting.instances,
        "runs_of_each_instance": setting.runs,
        "runs": setting.instances * setting.runs,
        "world": {"kind": "Bernoulli", "means": f"uniform in [{LOW:g}, {HIGH:g}]"},
        "band": "mean ± 1.96 standard errors over instances",
        "yardstick": "KL-UCB without privacy, at the level 0.6 log T that the private policy is tuned to",
        "wider": "√((n/4 + variance of the noise)/(n/4)): a batch's error beside that of its users alone, coins of 1/2",
        "sizes": list(setting.sizes),
    }
    return {"configuration": configuration, "results": {"panels": panels, "batches": batches}}


def _private() -> list[tuple[str, tuple[str, str]]]:
    return [(whom, sums) for whom, sums in SUMS.items() if sums[0]]


def _wider(epsilon: float, users: int, name: str, trust: str) -> float:
    """How many times as large as the users' own spread the error of a batch's sum is."""
    asked: dict[str, Any] = {"epsilon": epsilon, "binary": True} | ROWS[name].trusting(trust)
    noise = protocol(name, **asked).plan(users).variance
    return float(f"{np.sqrt(1.0 + noise / (COIN * users)):.6g}")


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """Regret at the end, its standard error, and the width of batches of 32, for every trust."""
    sizes = body["configuration"]["sizes"]
    rows = []
    for panel in body["results"]["panels"]:
        best = panel["lines"]["analyzer"]["regret"][-1]
        for whom, line in panel["lines"].items():
            wide = body["results"]["batches"][f"{panel['epsilon']:g}"].get(whom)
            rows.append(
                [
                    "-" if whom == "none" else f"{panel['epsilon']:g}",
                    LABELS[whom],
                    f"{line['regret'][-1]:,.0f}",
                    f"{line['standard_error'][-1]:,.0f}",
                    "-" if whom == "none" else f"{line['regret'][-1] / best:.2f}",
                    *("-" if wide is None else f"{wide[sizes.index(n)]:.2f}" for n in (32, 512)),
                ]
            )
    unique = [row for place, row in enumerate(rows) if row not in rows[:place]]
    return ["ε", "noise", "regret", "±", "× analyzer", "32 users", "512 users"], unique


def draw(body: Body) -> Any:
    """Regret over users for each ε."""
    panels = body["results"]["panels"]
    figure, axes, strip = sheet(
        len(panels), title="Whose noise: what each trust costs the same policy", width=8.6, height=3.4, strip=1.05
    )
    for panel, shown in zip(axes, panels, strict=True):
        users, handles = np.asarray(shown["users"]), []
        for place, (whom, line) in enumerate(shown["lines"].items()):
            spots = np.geomspace(users[0], users[-1], 6 * len(SUMS))[place :: len(SUMS)]
            marks = np.unique(np.searchsorted(users, spots).clip(0, len(users) - 1)).tolist()
            mean, error = np.asarray(line["regret"]), np.asarray(line["standard_error"])
            handles.append(curve(panel, users, mean, error, LABELS[whom], marks=marks))
        panel.set(xscale="log", yscale="log", xlim=(users[0], users[-1]))
        panel.set_title(f"ε = {shown['epsilon']:g}", fontsize=9)
        panel.set_xlabel("users", fontsize=9)
    axes[0].set_ylabel("cumulative regret (rewards)", fontsize=9)
    explain(strip, handles, _caption(body), columns=3)
    return figure


def _caption(body: Body) -> str:
    setup = body["configuration"]
    runs, sizes = setup["runs_of_each_instance"], setup["sizes"]
    last = list(body["results"]["batches"])[-1]
    both, devices = (body["results"]["batches"][last][whom][sizes.index(32)] for whom in ("two-servers", "devices"))
    return (
        f"DP-KLUCB [AWHOIB25] over discrete Laplace noise, every line ε-DP but KL-UCB's; {setup['arms']} Bernoulli "
        f"arms, means {setup['world']['means']}; {setup['instances']} instances, {runs} "
        f"{'run' if runs == 1 else 'runs'} each, the same chance for all lines; mean ± 1.96 standard errors over "
        "instances. Devices' and the analyzer's noise have the same law; two servers add one such noise each, as "
        "either must hide a user alone. Beside the users' own spread that is little: with 32 users in a batch "
        f"and ε = {last} an error is {both:.2f} times that of the users alone, and {devices:.2f} with devices' noise."
    )


FIGURES = (
    Figure(
        "whose-noise",
        "[AWHOIB25]",
        "regret of DP-KLUCB with noise from both servers, from the devices, and from the analyzer",
        5,
        Setting((0.5, 1.0), 10**6, instances=50, runs=4),
        Setting((0.5, 1.0), 10**5, instances=10, runs=1),
        compute,
        draw,
        table,
    ),
)
