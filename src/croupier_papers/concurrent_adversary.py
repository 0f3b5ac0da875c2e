"""[TKMS23]'s linear bandit on contexts that an adversary chose: directions that nobody needed until late.

Batches that grow by a ratio are cheap: everyone is in one batch, and there are few noises. But the last one holds a
share 1 - 1/ratio of all users, and all of them choose by what was known before it. Contexts that point elsewhere from
then on cost that whole share. Theorem 5.1 allows arbitrary contexts; the tree of sums keeps its word.

The growing batches here are a sketch, as the references are: continuous noise, drawn in the simulation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.continual import Tree, gaussian_deviation
from croupier.linear import Confidence, with_constant
from croupier.noise import SeededSource
from croupier.simulation.linear_runner import BlockSums, LinearRun, Model, simulate_linear
from croupier.simulation.linear_runner import Setting as Needs
from croupier.simulation.linear_worlds import LinearWorld, Offers
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.shuffle_bandits import power_law
from croupier_papers.style import GREY, STYLES, curve, explain, power_of_ten, sheet

Floats = NDArray[np.float64]

LEAST_BATCH = 32

POINTS = 80
"""Numbers of users at which a curve is kept."""


class LateDirections(LinearWorld):
    """A sphere whose actions lie in the first half of the directions, and from user `appears` on in the other half.

    As in `Sphere` the feature of an action a is (a, 1)/√2, and its mean reward (1 + ⟨θ, a⟩)/2. Both halves of θ are
    equally long; `turned` has the late one point the other way. The world counts its users, so it is good for one run.
    """

    def __init__(self, dimension: int, actions: int, appears: int, seed: int, *, turned: bool = False) -> None:
        self.dimension, self.actions, self.appears = dimension, actions, appears
        self._half, self._seen = (dimension - 1) // 2, 0
        hidden = np.random.default_rng(seed).normal(size=dimension - 1)
        for part in (hidden[: self._half], hidden[self._half :]):
            part /= np.linalg.norm(part) * math.sqrt(2.0)
        hidden[self._half :] *= -1.0 if turned else 1.0
        self.theta = np.append(hidden, 1.0) / math.sqrt(2.0)

    def offer(self, users: int, generator: np.random.Generator) -> Offers:
        drawn = generator.standard_normal((users, self.actions, self.dimension - 1))
        late = np.arange(self._seen, self._seen + users) >= self.appears
        self._seen += users
        drawn[late, :, : self._half] = 0.0
        drawn[~late, :, self._half :] = 0.0
        features = with_constant(drawn / np.linalg.norm(drawn, axis=-1, keepdims=True))
        assert self.theta is not None
        return Offers(features, np.clip(features @ self.theta, 0.0, 1.0))


class GrowingSums:
    """Batches whose ends grow by a ratio up to the last user; each has Gaussian noise once, and sums accumulate."""

    def __init__(self, users: int, ratio: float, dimension: int, std: float, source: SeededSource) -> None:
        ends = growing_ends(users, ratio)
        self._sizes = np.diff([0, *ends]).tolist()
        self._batches, self._std, self._generator = len(ends), std, source.generator
        self._total, self.block = np.zeros(dimension), self._sizes.pop(0)

    def deviation(self, failure: float, *, directions: float = 1.0, strength: float = 1.0) -> float:
        """As many equal noises as batches, each a prefix further."""
        tree = Tree(self._batches, 1, 2, 1)
        return gaussian_deviation(tree, (self._std**2,), failure, directions=directions, strength=strength)

    def extend(self, block: Floats) -> Floats:
        self._total = self._total + block.sum(axis=0) + self._generator.normal(0.0, self._std, self._total.shape)
        if self._sizes:
            self.block = self._sizes.pop(0)
        return self._total


def growing_ends(users: int, ratio: float) -> list[int]:
    """Where batches end: at n, n/ratio, n/ratio², …, while a batch has at least 32 users.

    >>> growing_ends(1000, 2.0)
    [62, 125, 250, 500, 1000]
    """
    ends = [users]
    while ends[0] - int(ends[0] / ratio) >= LEAST_BATCH and int(ends[0] / ratio) >= LEAST_BATCH:
        ends.insert(0, int(ends[0] / ratio))
    return ends


def growing(ratio: float) -> Model:
    """A model for `simulate_linear`."""

    def build(needs: Needs, source: SeededSource) -> tuple[BlockSums, Confidence]:
        sums = GrowingSums(needs.users, ratio, needs.statistics, needs.gaussian(), source)
        return sums, needs.level(sums)

    return build


MODELS: dict[str, tuple[str | Model, int | None, float]] = {
    "LinUCB, no privacy": ("linucb", None, 2.0),
    "concurrent, binary tree": ("concurrent", None, 2.0),
    "concurrent, k = 2": ("concurrent", 2, 2.0),
    "sequential": ("sequential", None, 2.0),
    "growing by 2": (growing(2.0), None, 2.0),
    "growing by 1.3": (growing(1.3), None, 1.3),
}
"""Each curve's model and shufflers, and which part of the users has come when its contexts turn: that one over this."""


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
        model, shufflers, _ = MODELS[label]
        pair, turned = divmod(run, 2)
        return simulate_linear(
            model,
            LateDirections(self.dimension, self.actions, turn(label, users), task.seed_of(pair), turned=bool(turned)),
            users,
            seed=task.seed_of(1000 * (1 + list(MODELS).index(label)) + pair),
            epsilon=self.epsilon,
            delta=self.delta,
            shufflers=shufflers,
            block=max(32, users // 16_384),
            progress=task.share(part),
        )


def turn(label: str, users: int) -> int:
    """The first user whose actions lie in the other directions."""
    return int(users / MODELS[label][2])


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
            regrets = np.asarray([run.at(np.asarray([turn(label, users), users])) for run in played])
            late = (regrets[:, 1] - regrets[:, 0]) / (users - turn(label, users))
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
        "models": {label: label if callable(model) else model for label, (model, _, _) in MODELS.items()},
        "constants": "tight",
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "world": {
            "kind": "actions on a sphere in half of the directions; then in the other half",
            "turn": {label: f"after n/{part:g} users" for label, (_, _, part) in MODELS.items()},
            "dimension": setting.dimension,
            "actions": setting.actions,
        },
        "horizons": list(setting.horizons),
        "runs": setting.runs,
        "growing": "ends n/ratio^j, one noise a batch at the full budget, sums accumulate; a sketch, Gaussian noise",
        "late_regret_a_user": "of those who came after the turn",
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
    title = f"Contexts that turn late: linear bandits with private sums, ε = {setup['epsilon']:g}"
    figure, axes, strip = sheet(2, title=title, width=8.0, height=3.5, strip=1.15, share_y=False)
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
    for part in sorted({part for _, _, part in MODELS.values()}):
        axes[0].axvline(horizons[-1] / part / 1e3, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)))
    axes[0].set_title(f"over users, planned for {horizons[-1]:,}", fontsize=9)
    axes[0].set_xlabel("users (thousands); dotted: contexts turn", fontsize=9)
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
        f"{power_of_ten(setup['delta'])}, {setup['runs'] // 2} pairs of runs. After half of the users (n/1.3 for "
        "the last curve) all actions lie in directions that nobody has tried. A server whose batches grow by "
        "that ratio opens its last batch just then, and reads nothing of it before the end: a share "
        f"1\u00a0−\u00a01/ratio of all users. Regret of each late user at the largest n: {words}."
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
        "linear bandits when contexts turn late: concurrent and sequential sums, and batches that grow by a ratio",
        12,
        FULL,
        replace(FULL, horizons=(4_000, 8_000, 16_000, 32_000), runs=4),
        compute,
        draw,
        table,
    ),
)
