"""How many users [GKM21]'s private learners need: error against users in the local, central and shuffle models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.learning import DecisionListQueries, Samples, Seed, Stable, Thresholds, Voting
from croupier.noise import seeded
from croupier.protocols import SelectionMechanism, selection
from croupier_papers.experiment import Body, Figure, Task, over_instances, plain
from croupier_papers.style import STYLES, curve, explain, power_of_ten, sheet

MODELS = {"local": "LDP-SE", "central-pure": "DP-IMED", "central": "CDP-SE", "shuffle": "VB-SDP-AE"}
"""The model of each line, and whose look it shares."""

LABELS = {
    "local": "local, ε (Thm 29)",
    "central-pure": "central, ε (Thm 30)",
    "central": "central, (ε, δ) (Thm 25)",
    "shuffle": "shuffle, (ε, δ) (Thm 35)",
}


class OwnSelection(Voting):
    """A vote by the model's own selection, where `Voting` would take another one that errs less."""

    def choice(self, size: int, users: int, *, alike: int | None = None) -> SelectionMechanism:
        return selection(epsilon=self.epsilon, delta=self.delta, size=size, model=self.model).plan(users)


def no_minor_labels(panel: Any) -> None:
    """Ticks that are written out say enough: minor labels of a logarithmic axis would be printed over them."""
    from matplotlib.ticker import NullFormatter

    panel.xaxis.set_minor_formatter(NullFormatter())


@dataclass(frozen=True)
class Problem:
    """Something to learn: how rows are drawn and labelled, and all rows with equal weight, to count errors on."""

    title: str
    learner: Any
    samples: int
    draw: Callable[[np.random.Generator, int], NDArray[Any]]
    label: Callable[[NDArray[Any]], NDArray[Any]]
    everything: Callable[[], NDArray[Any]]

    def users(self, rng: np.random.Generator, count: int) -> Samples:
        """Fresh users with their samples."""
        rows = self.draw(rng, count * self.samples)
        return Samples.equal(rows, self.label(rows), count)

    def error(self, hypothesis: Any) -> float:
        """The part of all rows that a hypothesis gets wrong."""
        rows = self.everything()
        return float(np.mean(hypothesis.predict(rows) != self.label(rows)))


COLUMNS = 8
TICKS = (10, 30, 100, 300, 1000, 3000, 10_000)


def _corners() -> NDArray[Any]:
    return ((np.arange(2**COLUMNS)[:, None] >> np.arange(COLUMNS)) & 1).astype(np.int8)


def _decision_list(rows: NDArray[Any]) -> NDArray[Any]:
    """If column 0 then 1, else if not column 1 then 0, else if column 3 then 1, else column 2."""
    rest = np.where(rows[:, 1] == 0, 0, np.where(rows[:, 3] == 1, 1, rows[:, 2]))
    return np.asarray(np.where(rows[:, 0] == 1, 1, rest) == 1)


PROBLEMS = {
    "thresholds": Problem(
        "thresholds, 256 cuts, 500 samples a user",
        Stable(Thresholds(direction="up")),
        500,
        lambda rng, count: rng.random((count, 1)),
        lambda rows: rows[:, 0] >= 0.6,
        lambda: (np.arange(10_000)[:, None] + 0.5) / 10_000,
    ),
    "decision-lists": Problem(
        f"decision lists, {COLUMNS} columns, 300 samples a user, bit by bit",
        DecisionListQueries(length=5),
        300,
        lambda rng, count: _corners()[rng.integers(0, 2**COLUMNS, count)],
        _decision_list,
        _corners,
    ),
}


@dataclass(frozen=True)
class Panel:
    """One problem, and the numbers of users it is tried with."""

    problem: str
    users: tuple[int, ...]


@dataclass(frozen=True)
class Setting:
    """Panels, and how often each is run."""

    panels: tuple[Panel, ...]
    runs: int
    epsilon: float = 1.0
    delta: float = 1e-6
    alpha: float = 0.2
    beta: float = 0.1
    agreement: float = 0.9

    def voting(self, model: str) -> Voting:
        """What a model's users vote by: in the central models each theorem's own selection."""
        kind = Voting if model == "shuffle" else OwnSelection
        return kind(self.epsilon, self.delta if model in ("central", "shuffle") else None, model)


def compute(setting: Setting, task: Task) -> Body:
    """Mean error for every problem, model and number of users; the same users' votes serve all models."""
    panels = []
    for place, panel in enumerate(setting.panels):
        errors = {model: np.empty((setting.runs, len(panel.users))) for model in MODELS}
        for run in range(setting.runs):
            run_errors = _one(setting, panel, task.seed_of(place * setting.runs + run))
            for model in MODELS:
                errors[model][run] = run_errors[model]
            task.progress(1.0 / (len(setting.panels) * setting.runs))
        problem = PROBLEMS[panel.problem]
        ballot = problem.learner.ballot(
            columns=_columns(problem), seed=Seed.of(0), alpha=setting.alpha, beta=setting.beta
        )
        lines = {}
        for model in MODELS:
            mean, error = over_instances(errors[model], setting.runs)
            needed = setting.voting(model).users_needed(ballot, agreement=setting.agreement, failure=setting.beta / 3)
            sent = setting.voting(model).plan(ballot, needed, Seed.of(0)).messages_per_user
            lines[model] = {
                "error": plain(mean),
                "standard_error": plain(error),
                "users_needed": needed,
                "messages_per_user": plain([sent])[0],
            }
        panels.append({"problem": panel.problem, "title": problem.title, "users": list(panel.users), "lines": lines})
    configuration = {
        "epsilon": setting.epsilon,
        "delta": {model: setting.delta if model in ("central", "shuffle") else 0.0 for model in MODELS},
        "alpha": setting.alpha,
        "beta": setting.beta,
        "agreement": setting.agreement,
        "runs": setting.runs,
        "constants": "tight",
        "learners": {panel.problem: repr(PROBLEMS[panel.problem].learner) for panel in setting.panels},
        "samples_per_user": {panel.problem: PROBLEMS[panel.problem].samples for panel in setting.panels},
        "data": "uniform, labelled by one fixed target",
        "band": "mean ± 1.96 standard errors over runs, each with fresh users, public seed and noise",
    }
    return {"configuration": configuration, "results": {"panels": panels}}


def _columns(problem: Problem) -> int:
    return int(problem.everything().shape[1])


def _one(setting: Setting, panel: Panel, number: int) -> dict[str, list[float]]:
    """One run: the most users vote once, and smaller elections are among the first of them."""
    problem, seed = PROBLEMS[panel.problem], Seed.of(number)
    samples = problem.users(np.random.default_rng(np.random.SeedSequence(number, spawn_key=(1,))), max(panel.users))
    ballot = problem.learner.ballot(columns=samples.columns, seed=seed, alpha=setting.alpha, beta=setting.beta / 3)
    marks = ballot.marks(samples)
    errors: dict[str, list[float]] = {}
    for model in MODELS:
        # The same noise for all: where two models take the same selection, their lines are one.
        errors[model], source = [], seeded(number)
        for users in panel.users:
            election = setting.voting(model).plan(ballot, users, seed)
            winner = election.decide_marks(ballot, marks[:users], source).hypothesis
            errors[model].append(problem.error(winner))
    return errors


FLOOR = -0.02
"""Where the panels end below: a little under an error of 0, so that marks on it are whole."""


def draw(body: Body) -> Any:
    """One panel for each problem; ticks on the lower edge are the users that suffice by calculation."""
    setup, panels = body["configuration"], body["results"]["panels"]
    title = f"Private learners: error against users, ε = {setup['epsilon']:g}"
    figure, axes, strip = sheet(len(panels), title=title, width=7.6, height=3.3, strip=0.95)
    for panel, shown in zip(axes, panels, strict=True):
        users, handles = np.asarray(shown["users"]), []
        for place, (model, style) in enumerate(MODELS.items()):
            line = shown["lines"][model]
            mean, error = np.asarray(line["error"]), np.asarray(line["standard_error"])
            marks = list(range(place % 2, len(users), 2))
            handles.append(curve(panel, users, mean, error, LABELS[model], marks=marks, name=style))
            colour, dashes, _ = STYLES[style]
            needed = line["users_needed"]
            if users[0] <= needed <= users[-1]:
                panel.axvline(needed, color=colour, linestyle=dashes, linewidth=0.9, alpha=0.75, ymax=0.28)
                panel.plot([needed], [FLOOR], marker="^", color=colour, markersize=6, clip_on=False, zorder=5)
        panel.set_xscale("log")
        panel.set_xlim(users[0] / 1.08, users[-1] * 1.08)
        ticks = [tick for tick in TICKS if users[0] <= tick <= users[-1]]
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        no_minor_labels(panel)
        panel.set_ylim(FLOOR, 0.55)
        panel.set_title(shown["title"], fontsize=8)
        panel.set_xlabel("users (log scale)", fontsize=9)
    axes[0].set_ylabel("error of the elected rule", fontsize=9)
    explain(strip, handles, _caption(setup), columns=2)
    return figure


def _caption(setup: Body) -> str:
    delta = power_of_ten(setup["delta"]["shuffle"])
    return (
        f"Mean of {setup['runs']} runs ± 1.96 standard errors, each with fresh users, public seed and noise; "
        f"δ\u00a0=\u00a0{delta}. Triangles: users that suffice by calculation for error {setup['alpha']:g} with "
        f"probability {1 - setup['beta']:g}, if at least {setup['agreement']:.0%} of the users vote alike. Thm 25: "
        "while no count passes the threshold the result is the first rule, whatever the votes. Shuffle: with few users "
        "it takes the local reports, which then err less."
    )


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """Users that suffice by calculation, and the least number tried whose mean error is at most half of α."""
    aim, rows = body["configuration"]["alpha"] / 2, []
    for panel in body["results"]["panels"]:
        for model, line in panel["lines"].items():
            tried = zip(panel["users"], line["error"], strict=True)
            first = next((f"{users:,}" for users, error in tried if error <= aim), "-")
            last = f"{line['error'][-1]:.3f}"
            needed, sent = f"{line['users_needed']:,}", f"{line['messages_per_user']:,.0f}"
            rows.append([panel["problem"], LABELS[model], needed, sent, first, last])
    headings = [
        "problem",
        "model, privacy",
        "users that suffice",
        "messages a user",
        f"mean error ≤ {aim:g} from",
        "error with most users",
    ]
    return headings, rows


def _ladder(low: int, high: int, points: int) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unique(np.rint(np.geomspace(low, high, points)).astype(int)))


FIGURES = (
    Figure(
        "gkm21-learner-users",
        "[GKM21] Theorems 25, 29, 30, 35",
        "error of private learners against users: local, central and shuffle models",
        12,
        Setting((Panel("thresholds", _ladder(8, 2000, 17)), Panel("decision-lists", _ladder(200, 8_000, 14))), runs=40),
        Setting((Panel("thresholds", _ladder(8, 1000, 9)), Panel("decision-lists", _ladder(200, 8_000, 7))), runs=4),
        compute,
        draw,
        table,
    ),
)
