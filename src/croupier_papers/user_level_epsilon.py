"""How many users [GKM21]'s private learners need as ε falls: 1/ε² without trust, 1/ε with some, and what they send."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.learning import Seed, Stable, Thresholds, Voting
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.style import GREY, STYLES, explain, power_of_ten, sheet
from croupier_papers.user_level_learners import LABELS, MODELS, OwnSelection, no_minor_labels

SLOPES = {"local": -2.0, "central-pure": -1.0, "central": -1.0, "shuffle": -1.0}
"""The power of ε in each theorem's number of users."""

SLOPED = ("local", "central-pure")
"""Models whose theorem's slope is drawn beneath their line."""


@dataclass(frozen=True)
class Setting:
    """The privacy parameters that are tried, and what is learnt."""

    epsilons: tuple[float, ...]
    fitted_below: float
    cuts: int = 256
    delta: float = 1e-6
    alpha: float = 0.2
    beta: float = 0.1
    agreement: float = 0.9

    def voting(self, model: str, epsilon: float) -> Voting:
        """What a model's users vote by: in the central models each theorem's own selection."""
        kind = Voting if model == "shuffle" else OwnSelection
        return kind(epsilon, self.delta if model in ("shuffle", "central") else None, model)


def compute(setting: Setting, task: Task) -> Body:
    """The users that suffice by calculation, what each then sends, and the slope where ε is small."""
    learner = Stable(Thresholds(cuts=setting.cuts))
    ballot = learner.ballot(columns=1, seed=Seed.of(0), alpha=setting.alpha, beta=setting.beta / 3)
    lines: dict[str, Any] = {}
    for model in MODELS:
        users, messages = [], []
        for epsilon in setting.epsilons:
            voting = setting.voting(model, epsilon)
            needed = voting.users_needed(ballot, agreement=setting.agreement, failure=setting.beta / 3)
            users.append(needed)
            messages.append(voting.plan(ballot, needed, Seed.of(0)).messages_per_user)
            task.progress(1.0 / (len(MODELS) * len(setting.epsilons)))
        small = [place for place, epsilon in enumerate(setting.epsilons) if epsilon <= setting.fitted_below]
        slope = _slope([setting.epsilons[place] for place in small], [users[place] for place in small])
        theorem = {"slope": plain([slope])[0], "slope_of_theorem": SLOPES[model]}
        lines[model] = {"users_needed": users, "messages_per_user": plain(messages), **theorem}
    configuration = {
        "epsilon": list(setting.epsilons),
        "delta": {model: setting.delta if model in ("shuffle", "central") else 0.0 for model in MODELS},
        "alpha": setting.alpha,
        "beta": setting.beta,
        "agreement": setting.agreement,
        "hypotheses": ballot.size,
        "fitted": f"least squares on logarithms over the {len(small)} values of ε up to {setting.fitted_below:g}",
        "constants": "tight",
        "learner": repr(learner),
    }
    return {"configuration": configuration, "results": {"lines": lines}}


def _slope(epsilons: list[float], users: list[int]) -> float:
    return float(np.polyfit(np.log(epsilons), np.log(users), 1)[0])


def draw(body: Body) -> Any:
    """Users on the left, what each of them sends on the right."""
    setup, lines = body["configuration"], body["results"]["lines"]
    title = "Users that a private learner needs"
    figure, axes, strip = sheet(2, title=title, width=7.6, height=3.3, strip=1.0, share_y=False)
    epsilons, handles = np.asarray(setup["epsilon"]), []
    for model, style in MODELS.items():
        colour, dashes, marker = STYLES[style]
        for panel, key in zip(axes, ("users_needed", "messages_per_user"), strict=True):
            (line,) = panel.plot(
                epsilons,
                lines[model][key],
                color=colour,
                linestyle=dashes,
                marker=marker,
                linewidth=1.5,
                markersize=4.5,
                markerfacecolor="white",
                markeredgewidth=1.1,
                label=f"{LABELS[model]}: slope {lines[model]['slope']:.2f}",
            )
        handles.append(line)
    for model in SLOPED:
        _guide(axes[0], epsilons, lines[model]["users_needed"], SLOPES[model])
    axes[0].set_ylabel("users", fontsize=9)
    axes[1].set_ylabel("messages", fontsize=9)
    for panel, words in zip(
        axes, ("users that suffice", "messages a user, with that many (1 but for shuffle)"), strict=True
    ):
        panel.set(xscale="log", yscale="log")
        panel.set_xlabel("ε (log scale)", fontsize=9)
        panel.set_title(words, fontsize=8.5)
        ticks = [tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if epsilons[0] <= tick <= epsilons[-1]]
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        no_minor_labels(panel)
    explain(strip, handles, _caption(setup), columns=2)
    return figure


def _guide(panel: Any, epsilons: Any, users: list[int], slope: float) -> None:
    """The theorem's slope, a little below the line, from its left end on."""
    ends = np.asarray([epsilons[0], epsilons[len(epsilons) // 2]])
    heights = 0.45 * users[0] * (ends / ends[0]) ** slope
    panel.plot(ends, heights, color=GREY, linewidth=1.0, linestyle=(0, (1, 1)))
    middle = math.sqrt(ends[0] * ends[1]), math.sqrt(heights[0] * heights[1])
    panel.annotate(
        f"1/ε{'²' if slope == -2 else ''}",
        middle,
        textcoords="offset points",
        xytext=(-12, -10),
        fontsize=8,
        color=GREY,
    )


def _caption(setup: Body) -> str:
    delta = power_of_ten(setup["delta"]["shuffle"])
    return (
        f"Thresholds, {setup['hypotheses']} hypotheses, voted on from a list; error {setup['alpha']:g} with "
        f"probability {1 - setup['beta']:g}, if at least {setup['agreement']:.0%} of the users vote alike; "
        f"δ\u00a0=\u00a0{delta} where there is one. Computed, no run: from the laws of noise and votes, added "
        f"up over rivals (local: Chernoff's bound). Slopes: {setup['fitted']}; "
        "dotted: the theorems'. The number of votes alike is random too, which is what bends all lines as ε grows."
    )


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """Users and messages at three privacy parameters, and the slopes."""
    setup, lines = body["configuration"], body["results"]["lines"]
    places = sorted({0, len(setup["epsilon"]) // 2, len(setup["epsilon"]) - 1})
    headings = ["model", *(f"users, ε = {setup['epsilon'][place]:g}" for place in places)]
    headings += ["messages a user, least ε", "slope", "of theorem"]
    rows = []
    for model, line in lines.items():
        users = [f"{line['users_needed'][place]:,}" for place in places]
        sent = f"{line['messages_per_user'][0]:,.0f}"
        rows.append([LABELS[model], *users, sent, f"{line['slope']:.2f}", f"{line['slope_of_theorem']:g}"])
    return headings, rows


FIGURES = (
    Figure(
        "gkm21-users-epsilon",
        "[GKM21] Theorems 25, 29, 30, 35",
        "users that private learners need against ε, and what each sends: 1/ε² local, 1/ε else",
        15,
        Setting((0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0), 0.1),
        Setting((0.02, 0.05, 0.1, 0.3, 1.0), 0.1),
        compute,
        draw,
        table,
    ),
)
