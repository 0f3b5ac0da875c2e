"""[TKMS23]'s counters, measured: how the error of a running sum grows with the number of users.

Published constants show the paper's exponents; exact composition and a trusted server show the scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.continual import CounterPlan, counter
from croupier.simulation.streams import bernoulli_stream
from croupier_papers.concurrent_measured import CENTRAL, measure_central, measure_counter, teller
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.shuffle_bandits import power_law
from croupier_papers.style import GREY, STYLES, explain, power_of_ten, sheet

SHUFFLERS: dict[str, int | None] = {"k = 1": 1, "k = 2": 2, "k = 3": 3, "binary tree": None}

WINDOW = 3
"""A local slope is taken over so many doublings on each side, since trees of whole numbers grow by steps."""


@dataclass(frozen=True)
class Setting:
    """Streams of 2^power fair bits: `runs` of the longest, more of shorter ones, `most_runs` at most."""

    powers: tuple[int, ...]
    planned_powers: tuple[int, ...]
    runs: int
    most_runs: int
    epsilon: float = 0.9
    delta: float = 1e-6
    rate: float = 0.5

    def repeat(self, power: int, part: int = 1) -> int:
        """The runs at 2^power users; a curve that needs less certainty takes one part of so many."""
        return max(2, min(self.most_runs, self.runs << (self.powers[-1] - power)) // part)

    def plan(self, power: int, shufflers: int | None, constants: str) -> CounterPlan:
        """A counter; tight ones over shuffled Laplace noise, which is better for few shufflers and quick to plan."""
        over = "shuffled-bits" if constants == "published" else "shuffled-laplace"
        return counter(
            2**power,
            shufflers,
            epsilon=self.epsilon,
            delta=self.delta,
            constants=constants,
            over=over,
            binary=True,
        )


@dataclass(frozen=True)
class Case:
    """One curve, and which part of the runs it takes: exponents are claimed for the published k = 1, 2, 3 only."""

    constants: str
    label: str
    part: int


CASES = (
    *(Case("published", label, 4 if shufflers is None else 1) for label, shufflers in SHUFFLERS.items()),
    *(Case("tight", label, 4) for label in SHUFFLERS),
    Case("reference", CENTRAL, 16),
)


def compute(setting: Setting, task: Task) -> Body:
    """Errors of every counter on the same streams, and the exponents of power laws through them."""
    total = sum(setting.repeat(power, case.part) << power for power in setting.powers for case in CASES)
    streams = {power: bernoulli_stream(2**power, setting.rate, task.seed_of(power)) for power in setting.powers}
    curves: dict[str, dict[str, Any]] = {}
    for index, case in enumerate(CASES, start=1):
        rows = []
        for power, values in streams.items():
            runs, seed = setting.repeat(power, case.part), task.seed_of(100 * index + power)
            tell = teller(task, 2**power / total)
            if case.label == CENTRAL:
                rows.append(measure_central(values, runs, seed, tell, epsilon=setting.epsilon, delta=setting.delta))
            else:
                plan = setting.plan(power, SHUFFLERS[case.label], case.constants)
                rows.append(measure_counter(plan, values, runs, seed, tell))
        columns = {name: plain([row[name] for row in rows]) for name in rows[0]}
        curves.setdefault(case.constants, {})[case.label] = columns | _fits(case.label, columns, setting.powers)
    return {"configuration": _described(setting), "results": {"errors": curves, "plans": _planned(setting)}}


def _fits(label: str, columns: Body, powers: tuple[int, ...]) -> Body:
    """Exponents of n, and of log n for what should grow like a power of it."""
    users, shufflers = 2.0 ** np.asarray(powers), SHUFFLERS.get(label)
    slopes = {
        f"slope_of_{name}": power_law(users, np.asarray(columns[name]))[0]
        for name in ("rms_error", "exact", "largest_error")
    }
    logs = {
        f"power_of_log_of_{name}": power_law(np.log(users), np.asarray(columns[name]))[0]
        for name in ("rms_error", "exact")
    }
    return {"theory": 1.0 / (2 * shufflers + 1) if shufflers else 0.0} | slopes | logs


def _planned(setting: Setting) -> Body:
    """The published plans' noise far beyond what is run, its local slopes, and where the tree's becomes less."""
    powers = np.asarray(setting.planned_powers)
    noise = {
        label: np.asarray([setting.plan(power, k, "published").noise_std for power in setting.planned_powers])
        for label, k in SHUFFLERS.items()
    }
    windows = [slice(middle - WINDOW, middle + WINDOW + 1) for middle in range(WINDOW, len(powers) - WINDOW)]
    slopes = {label: [power_law(2.0 ** powers[w], std[w])[0] for w in windows] for label, std in noise.items()}
    overtakes = {}
    for label in list(SHUFFLERS)[:-1]:
        behind = np.flatnonzero(noise["binary tree"] >= noise[label])
        ahead = powers[behind[-1] + 1 :] if len(behind) else powers
        overtakes[label] = 2 ** int(ahead[0]) if len(ahead) else None
    return {
        "users": [2**power for power in setting.planned_powers],
        "noise_std": {label: plain(std) for label, std in noise.items()},
        "slope_users": [2 ** int(powers[w][WINDOW]) for w in windows],
        "local_slopes": {label: plain(values) for label, values in slopes.items()},
        "tree_overtakes_at": overtakes,
    }


def _described(setting: Setting) -> Body:
    return {
        "counters": SHUFFLERS,
        "constants": {
            "published": "shuffled bits, [TKMS23] Alg. 2 and 3",
            "tight": "shuffled Laplace, composed exactly",
        },
        "references": {CENTRAL: "continuous Gaussian noise, the server trusted"},
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "stream": f"bernoulli:{setting.rate:g}",
        "users": [2**power for power in setting.powers],
        "runs": [
            {"constants": case.constants, "counter": case.label}
            | {"runs": [setting.repeat(power, case.part) for power in setting.powers]}
            for case in CASES
        ],
        "rms_error": "root mean square over runs at the time where `exact`, which follows from the plan, is largest",
        "rms_error_largest_over_time": "the largest of those measured at all times until then, biased upwards",
        "largest_error": "mean over runs of the largest error at all times until then",
        "local_slopes": f"power laws through the noise of plans within {WINDOW} doublings on each side",
    }


def draw(body: Body) -> Any:
    """Published and tight errors on one scale, and local slopes of the published plans' noise."""
    from matplotlib.lines import Line2D

    setup, errors, plans = body["configuration"], body["results"]["errors"], body["results"]["plans"]
    title = "Counting with k concurrent shufflers: how the error grows with the users"
    figure, axes, strip = sheet(3, title=title, width=9.2, height=3.2, strip=1.1, share_y=False)
    users, dotted = np.asarray(setup["users"]), (0, (1, 1.5))
    shown = errors["published"] | errors["reference"]
    for panel, curves in ((axes[0], errors["published"]), (axes[1], errors["tight"] | errors["reference"])):
        for label, curve in curves.items():
            colour, line, marker = STYLES[label]
            panel.plot(users, curve["exact"], color=colour, linestyle=line, linewidth=1.4)
            panel.plot(users, curve["rms_error"], marker, color=colour, markersize=4.5, markerfacecolor="white")
            # The small marks tell dotted curves apart in grey.
            small: dict[str, Any] = {"marker": marker, "markersize": 2.2}
            panel.plot(users, curve["largest_error"], color=colour, linestyle=dotted, linewidth=0.9, **small)
        panel.set_yscale("log")
    for label, slopes in plans["local_slopes"].items():
        colour, line, marker = STYLES[label]
        axes[2].plot(
            plans["slope_users"],
            slopes,
            color=colour,
            linestyle=line,
            linewidth=1.4,
            marker=marker,
            markersize=4,
            markerfacecolor="white",
            markevery=4,
        )
        if theory := errors["published"][label]["theory"]:
            axes[2].axhline(theory, color=colour, linestyle=dotted, linewidth=0.9)
            axes[2].text(
                1.01,
                theory,
                f"1/{round(1 / theory)}",
                color=colour,
                fontsize=8,
                va="center",
                transform=axes[2].get_yaxis_transform(),
            )
    axes[1].sharey(axes[0])
    axes[1].autoscale(axis="y")
    axes[2].set_ylim(0.0, 0.4)
    names = ("published constants", "exactly composed", "published plans, further on")
    for panel, name in zip(axes, names, strict=True):
        panel.set_title(name, fontsize=9)
        panel.set_xscale("log", base=2)
        panel.set_xlabel("users n", fontsize=9)
    axes[0].set_ylabel("error of the running sum (ones)", fontsize=9)
    axes[2].set_ylabel("d log(noise) / d log(n)", fontsize=9)
    handles = [
        Line2D(
            [],
            [],
            color=STYLES[label][0],
            linestyle=STYLES[label][1],
            marker=STYLES[label][2],
            markerfacecolor="white",
            label=_legend(label, curve),
        )
        for label, curve in shown.items()
    ]
    largest = "dotted, small marks: largest error of a run (mean)"
    handles.append(Line2D([], [], color=GREY, linestyle=dotted, linewidth=0.9, marker=".", markersize=3, label=largest))
    explain(strip, handles, _caption(setup, plans), columns=3)
    return figure


def _legend(label: str, curve: Body) -> str:
    if curve["theory"]:
        return f"{label}: $n^{{{curve['slope_of_rms_error']:.3f}}}$  ([TKMS23]: $n^{{1/{round(1 / curve['theory'])}}}$)"
    if label == CENTRAL:
        return f"{label} (trusted server)"
    return f"{label}: $(\\log\\,n)^{{{curve['power_of_log_of_rms_error']:.2f}}}$  ([TKMS23]: polylog)"


def _caption(setup: Body, plans: Body) -> str:
    overtaken = ", ".join(
        f"{label} at n = $2^{{{users.bit_length() - 1}}}$"
        for label, users in plans["tree_overtakes_at"].items()
        if users
    )
    return (
        f"Fair bits, ε = {setup['epsilon']:g}, δ\u00a0=\u00a0{power_of_ten(setup['delta'])}. Lines: exact root mean "
        "square error at the worst time, from the plan; marks: measured there over many runs, and fitted in the "
        "legend for published constants. Right: dotted, [TKMS23]'s exponents; a curve wiggles where its bits a user, a "
        f"whole number, are few. The published tree's noise falls below that of {overtaken}."
    )


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """Fitted exponents beside the paper's."""
    rows = []
    for constants, curves in body["results"]["errors"].items():
        for label, curve in curves.items():
            theory = f"1/{round(1 / curve['theory'])}" if curve["theory"] else "polylog"
            slopes = [curve[f"slope_of_{name}"] for name in ("rms_error", "exact", "largest_error")]
            cells = [f"{value:.3f}" for value in (*slopes, curve["power_of_log_of_rms_error"])]
            rows.append([label, constants, theory, *cells, f"{curve['rms_error'][-1]:,.0f}"])
    headings = ["counter", "constants", "[TKMS23]: exponent of n", "measured", "exact", "of the largest error"]
    return [*headings, "as a power of log n", f"error at n = {body['configuration']['users'][-1]:,}"], rows


FIGURES = (
    Figure(
        "tkms23-error-scaling",
        "[TKMS23] Cor. 3.3 and 3.5",
        "error of counters with 1, 2, 3 shufflers and a binary tree against the users, with fitted exponents",
        7,
        Setting(tuple(range(10, 21)), tuple(range(10, 41)), runs=128, most_runs=1024),
        Setting((10, 12, 14, 16), tuple(range(10, 25)), runs=32, most_runs=256),
        compute,
        draw,
        table,
    ),
)
