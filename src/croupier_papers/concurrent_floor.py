"""[TKMS23]'s lower bound beside measured errors: rep_{n,k}, on the streams on which no counter with k shufflers is
better.

δ is half of what Theorem 4.1 allows, so it falls with n. The proof itself begins at far more users than can be run; the
figure says from where on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.continual import CounterPlan, counter, lower_bound_delta, lower_bound_users, repetition_length
from croupier.noise import seeded
from croupier.simulation.counting import TreeSum
from croupier.simulation.streams import hard_stream
from croupier_papers.experiment import Body, Figure, Task, plain
from croupier_papers.shuffle_bandits import power_law
from croupier_papers.style import STYLES, explain, scientific, sheet

FAMILIES = {
    "published, shuffled bits": ("published", "shuffled-bits"),
    "tight, shuffled Laplace": ("tight", "shuffled-laplace"),
}
"""The constants and the protocol of each curve."""


@dataclass(frozen=True)
class Setting:
    """2^power users; a fresh hard stream for each run."""

    powers: tuple[int, ...]
    shufflers: tuple[int, ...]
    runs: int
    epsilon: float = 0.9

    def delta(self, users: int, shufflers: int) -> float:
        return 0.5 * lower_bound_delta(users, shufflers, self.epsilon)

    def plan(self, family: str, users: int, shufflers: int) -> CounterPlan:
        constants, over = FAMILIES[family]
        budget = {"epsilon": self.epsilon, "delta": self.delta(users, shufflers)}
        return counter(users, shufflers, constants=constants, over=over, binary=True, **budget)  # type: ignore[arg-type]


def compute(setting: Setting, task: Task) -> Body:
    """The largest error over time on hard streams, and rep_{n,k}."""
    sizes = [2**power for power in setting.powers]
    total = len(FAMILIES) * len(setting.shufflers) * sum(sizes)
    found: dict[str, Any] = {}
    for k in setting.shufflers:
        floor = [repetition_length(users, k, setting.epsilon) for users in sizes]
        curves: dict[str, Any] = {}
        for place, family in enumerate(FAMILIES):
            rows = []
            for users in sizes:
                seed = task.seed_of(10_000 * k + 1_000 * place + users.bit_length())
                rows.append(_largest_errors(setting, family, users, k, seed))
                task.progress(users / total)
            mean, error = np.asarray(rows).T
            # Corollary 3.5 hides √log n, for the largest of n errors, and √log(k/δ), which here falls with n.
            logs = [np.sqrt(np.log(users) * np.log(k / setting.delta(users, k))) for users in sizes]
            curves[family] = {
                "largest_error": plain(mean),
                "standard_error": plain(error),
                "times_floor": plain(mean / np.asarray(floor)),
                "exponent": power_law(np.asarray(sizes, dtype=float), mean)[0],
                "exponent_without_logs": power_law(np.asarray(sizes, dtype=float), mean / np.asarray(logs))[0],
            }
        found[f"k = {k}"] = {
            "shufflers": k,
            "floor": plain(floor),
            "theory": 1.0 / (2 * k + 1),
            "proof_begins_at": plain([lower_bound_users(k, setting.epsilon)])[0],
            "families": curves,
        }
    configuration = {
        "families": {family: list(made) for family, made in FAMILIES.items()},
        "epsilon": setting.epsilon,
        "delta": "half of min(ε, 1)/(40 n (k + 1)), as Theorem 4.1 asks",
        "deltas": {f"k = {k}": plain([setting.delta(users, k) for users in sizes]) for k in setting.shufflers},
        "users": sizes,
        "runs": setting.runs,
        "stream": "a draw of Δ_{n,k} for each run",
        "floor": "rep_{n,k} = ½ n^{1/(2k+1)} c^{2k/(2k+1)}, c = e^ε/(e^{2ε} + 1); Theorem 4.1 proves Ω(rep_{n,k})",
        "proof_begins_at": "the least n with n c²/Big_{n,k} > 200², which the proof asks for",
        "largest_error": "largest over all times, mean over runs",
        "exponent_without_logs": "of the error divided by √(log n · log(k/δ))",
    }
    return {"configuration": configuration, "results": found}


def _largest_errors(setting: Setting, family: str, users: int, shufflers: int, seed: int) -> tuple[float, float]:
    """Mean and standard error of the largest error over time."""
    plan, source = setting.plan(family, users, shufflers), seeded(seed)
    largest = []
    for run in range(setting.runs):
        values = hard_stream(users, shufflers, setting.epsilon, seed + run)
        largest.append(np.abs(TreeSum(plan, source).run(values) - np.cumsum(values)).max())
    return float(np.mean(largest)), float(np.std(largest, ddof=1) / np.sqrt(setting.runs))


def draw(body: Body) -> Any:
    """A panel for each k: measured errors, and rep_{n,k} beneath them."""
    from matplotlib.lines import Line2D

    setup, found = body["configuration"], body["results"]
    title = "What k shufflers cannot beat, and what counters reach on the hard streams"
    figure, axes, strip = sheet(len(found), title=title, width=8.4, height=3.1, strip=0.95)
    users = np.asarray(setup["users"], dtype=float)
    for panel, (label, shown) in zip(axes, found.items(), strict=True):
        for family, curve in shown["families"].items():
            colour, line, marker = STYLES[family]
            look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5, "markerfacecolor": "white"}
            bars = 1.96 * np.asarray(curve["standard_error"])
            panel.errorbar(users, curve["largest_error"], bars, linestyle=line, linewidth=1.4, **look)
            words = f"{curve['times_floor'][-1]:.0f} × floor, $n^{{{curve['exponent_without_logs']:.2f}}}$ × logs"
            where = (users[-1], curve["largest_error"][-1])
            panel.annotate(words, where, (0, 7), textcoords="offset points", fontsize=8, color=colour, ha="right")
        panel.plot(users, shown["floor"], color="black", linewidth=1.4)
        panel.fill_between(users, 0.1, shown["floor"], color="#CCCCCC", alpha=0.6, linewidth=0)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_ylim(0.3, 8e3)
        panel.set_title(f"{label}: floor grows as $n^{{1/{2 * shown['shufflers'] + 1}}}$", fontsize=9)
        panel.set_xlabel("users n", fontsize=9)
    axes[0].set_ylabel("largest error over time (ones)", fontsize=9)
    handles = [
        Line2D(
            [], [], color=STYLES[f][0], linestyle=STYLES[f][1], marker=STYLES[f][2], markerfacecolor="white", label=f
        )
        for f in setup["families"]
    ]
    handles.append(Line2D([], [], color="black", label="$rep_{n,k}$, the floor up to a constant"))
    explain(strip, handles, _caption(setup, found), columns=3)
    return figure


def _caption(setup: Body, found: Body) -> str:
    begins = ", ".join(f"{scientific(shown['proof_begins_at'])} ({label})" for label, shown in found.items())
    return (
        f"ε = {setup['epsilon']:g}, δ half of what Theorem 4.1 asks for at each n; means of {setup['runs']} streams. "
        "$rep_{n,k}$ has the constants of section 4, but the theorem proves only some unnamed part of it; its proof "
        f"begins at n = {begins}. Errors outgrow the floor by logarithms: exponents are of the error divided by "
        "√(log n · log(k/δ)), for the largest of n errors and for a δ that falls with n."
    )


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """The floor and the errors at the ends of each curve."""
    users = body["configuration"]["users"]
    rows = []
    for label, shown in body["results"].items():
        for family, curve in shown["families"].items():
            ends = [f"{curve['largest_error'][at]:,.0f} / {shown['floor'][at]:,.1f}" for at in (0, -1)]
            slopes = [f"{curve[name]:.3f}" for name in ("exponent", "exponent_without_logs")]
            slopes.append(f"1/{2 * shown['shufflers'] + 1}")
            rows.append([label, family, *ends, *slopes, f"{curve['times_floor'][-1]:.1f}"])
    ends = [f"error / floor, n = {users[at]:,}" for at in (0, -1)]
    return ["k", "counter", *ends, "exponent", "without logs", "floor", "error ÷ floor, last"], rows


FIGURES = (
    Figure(
        "tkms23-lower-bound",
        "[TKMS23] Thm 4.1",
        "errors of counters on the hard streams, above the paper's lower bound for k = 1, 2, 3 shufflers",
        10,
        Setting(tuple(range(10, 21, 2)), (1, 2, 3), runs=40),
        Setting((10, 12, 14, 16), (1, 2, 3), runs=8),
        compute,
        draw,
        table,
    ),
)
