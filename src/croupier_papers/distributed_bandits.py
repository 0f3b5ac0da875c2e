"""The figures of [CZ23]: time-average regret of its Algorithm 1 over protocols of three trust models.

What the paper leaves open is decided here and stated in the output. It does not say how wide its Gaussian rewards are;
its axes begin at the average gap of the *unclipped* means (0.2 in Figure 4, 0.04 in Figure 1(c)), so clipping moved
them little, and any standard deviation up to about 0.2 gives the same curves, as published radii do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from croupier.bandits import Policy
from croupier.simulation.baselines import DPSE
from croupier.simulation.levelled import ClippedGaussian, Ratings
from croupier.simulation.runner import simulate
from croupier.simulation.worlds import World
from croupier_papers.experiment import Body, Figure, Task, over_instances, plain, published
from croupier_papers.style import curve, explain, sheet

LEAN = 0.25
"""What part of DP-SE's batches is tried too, to tell what their printed size costs."""

CONFIDENCE = 0.1
"""The paper's p."""

STD = 0.1
"""Of the Gaussian rewards, before clipping: an assumption (see above)."""


@dataclass(frozen=True)
class Line:
    """One curve: a policy, and the scaling of its protocol where that has one."""

    label: str
    policy: str
    scaling: float | None = None

    def options(self) -> dict[str, float]:
        """Of its protocol."""
        return {} if self.scaling is None else {"scaling": self.scaling}


CENTRAL_OR_NOT = (
    Line("DP-SE", "dp-se"),
    Line("Dist-DP-SE", "dist-dp-se"),
    Line("Dist-RDP-SE (s = 10)", "dist-rdp-se", 10.0),
    Line("Dist-RDP-SE (s = 100)", "dist-rdp-se", 100.0),
)

TRUST_AND_NOTIONS = (
    Line("CDP-SE", "central-dp-se"),
    Line("LDP-SE", "local-dp-se"),
    Line("Dist-DP-SE", "dist-dp-se"),
    Line("Dist-RDP-SE (s = 10)", "dist-rdp-se", 10.0),
    Line("Dist-CDP-SE (s = 10)", "dist-zcdp-se", 10.0),
)


@dataclass(frozen=True)
class Setting:
    """Panels for some epsilons, with drawn Gaussian instances or, where `means` is None, with ratings."""

    epsilons: tuple[float, ...]
    horizon: int
    means: tuple[float, float] | None = None
    arms: int = 10
    instances: int = 20
    lines: tuple[Line, ...] = CENTRAL_OR_NOT
    synthetic_rows: int = 60_000


def compute(setting: Setting, task: Task) -> Body:
    """Every line of every panel."""
    parts = len(setting.epsilons) * (len(setting.lines) + (setting.means is None))
    world, described = _gaussian(setting, task) if setting.means else _ratings(setting, task)
    panels, constants = [], {}
    for row, epsilon in enumerate(setting.epsilons):
        lines = {}
        for column, line in enumerate(setting.lines):
            policy, word = published(
                line.policy,
                arms=world.arms,
                horizon=setting.horizon,
                epsilon=epsilon,
                runs=setting.instances,
                failure=CONFIDENCE,
                **line.options(),
            )
            index = row * len(setting.lines) + column
            watch = _FirstRemoval(policy)
            run = simulate(policy, world, seed=task.seed_of(index), progress=task.share(1.0 / parts), watch=watch)
            # Before this the first users of the first arms are all there is to see.
            shown = run.checkpoints >= setting.horizon / 200
            mean, error = over_instances((run.curve / run.checkpoints)[:, shown], setting.instances)
            rounds = run.checkpoints[shown].tolist()
            lines[line.label] = {
                "regret_per_round": plain(mean),
                "standard_error": plain(error),
                "users_before_the_first_removal": watch.users,
            }
            constants[f"{line.label}, ε = {epsilon:g}"] = word
        panels.append({"epsilon": epsilon, "rounds": rounds, "lines": lines})
        if setting.means is None:
            lean = DPSE(world.arms, setting.horizon, epsilon, part=LEAN, failure=CONFIDENCE, runs=setting.instances)
            run = simulate(lean, world, seed=task.seed_of(row), progress=task.share(1.0 / parts))
            (end,) = plain([run.regret.mean() / setting.horizon])
            panels[-1]["lean_dp_se"] = {"part": LEAN, "regret_per_round": end}
    configuration = {
        "policies": {line.label: {"policy": line.policy, "scaling": line.scaling} for line in setting.lines},
        "constants": constants,
        "epsilons": list(setting.epsilons),
        "confidence_p": CONFIDENCE,
        "arms": world.arms,
        "horizon": setting.horizon,
        "instances": setting.instances if setting.means else 1,
        "runs": setting.instances,
        "world": described,
        "band": "mean ± 1.96 standard errors over " + ("instances, one run each" if setting.means else "runs"),
    }
    return {"configuration": configuration, "results": {"panels": panels}}


class _FirstRemoval:
    """How many users came before an arm was first removed: the median over runs, None where none ever was."""

    def __init__(self, policy: Policy) -> None:
        self.at = np.full(policy.runs, np.inf)

    def __call__(self, policy: Policy) -> None:
        now = (policy.active.sum(axis=1) < policy.arms) & np.isinf(self.at)
        self.at[now] = policy.users[now]

    @property
    def users(self) -> int | None:
        middle = float(np.median(self.at))
        return int(middle) if np.isfinite(middle) else None


def _gaussian(setting: Setting, task: Task) -> tuple[World, dict[str, Any]]:
    assert setting.means is not None
    low, high = setting.means
    world = ClippedGaussian(task.means(setting.arms, setting.instances, low, high), STD)
    return world, {
        "kind": "Gaussian, clipped to [0, 1]",
        "centres": f"uniform in [{low:g}, {high:g}]",
        "standard_deviation": STD,
        "assumptions": [
            "the paper does not state the standard deviation; its axes show that clipping moved the means little",
            "horizons of Figures 1(a), 1(b), 2 are taken from Figure 4 and those of Figure 3 from Figure 1(c)",
        ],
    }


def _ratings(setting: Setting, task: Task) -> tuple[Ratings, dict[str, Any]]:
    from croupier.simulation.data import ratings_from_letor, write_synthetic_letor

    if task.data is not None:
        world = ratings_from_letor(task.data, arms=setting.arms, seed=task.seed)
    else:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "synthetic.txt"
            write_synthetic_letor(path, rows=setting.synthetic_rows, seed=task.seed)
            world = ratings_from_letor(path, arms=setting.arms, seed=task.seed)
    synthetic = task.data is None or "ynthetic" in world.source
    return world, {
        "kind": "ratings of clusters, drawn with replacement",
        "source": world.source,
        "synthetic": synthetic,
        "title": "synthetic ratings in the layout of MSLR-WEB10K" if synthetic else f"ratings of {task.data.name}",  # type: ignore[union-attr]
        "means": plain(world.means),
        "assumptions": [
            SYNTHETIC if synthetic else "all rows of the file count alike",
            "relevance labels are divided by the largest, so that rewards lie in [0, 1]",
            "features are standardised, and clusters are found by mini-batch k-means with one seed",
            "an arm's rewards are drawn from its cluster's labels with replacement",
            f"there is one set of clusters and {setting.instances} runs, where the paper says 20 instances",
            f"the horizon of {setting.horizon:,} is read off the paper's axis" + _shortened(setting),
            "DP-SE has the batch sizes that [SS19] prints",
        ],
    }


def _shortened(setting: Setting) -> str:
    return "" if setting.horizon == MILLION else f", where it is {MILLION:,}"


def draw(body: Body) -> Any:
    """One panel for each ε."""
    setup, panels = body["configuration"], body["results"]["panels"]
    several = len(panels) > 1
    figure, axes, strip = sheet(
        len(panels),
        title=_title(setup),
        width=7.6 if several else 5.4,
        height=2.7 if several else 3.3,
        strip=_strip(setup, several),
    )
    scale, unit = (1e6, "millions") if setup["horizon"] >= 10**6 else (1e3, "thousands")
    for panel, shown in zip(axes, panels, strict=True):
        rounds = np.asarray(shown["rounds"]) / scale
        handles = []
        for place, (label, line) in enumerate(shown["lines"].items()):
            ticks = rounds[-1] * (np.arange(8) + (place + 0.5) / len(shown["lines"])) / 8
            marks = np.unique(np.searchsorted(rounds, ticks).clip(0, len(rounds) - 1)).tolist()
            mean, error = np.asarray(line["regret_per_round"]), np.asarray(line["standard_error"])
            handles.append(curve(panel, rounds, mean, error, label, marks=marks))
        panel.set_title(f"ε = {shown['epsilon']:g}", fontsize=9)
        panel.set_xlabel(f"round ({unit})", fontsize=9)
        panel.set_xlim(0, rounds[-1])
        panel.set_ylim(bottom=0)
    axes[0].set_ylabel("time-average regret (reward)", fontsize=9)
    explain(strip, handles, _caption(setup, panels), columns=2 if not several else 4 if len(handles) == 4 else 3)
    return figure


def _title(setup: Body) -> str:
    world = setup["world"]
    if "title" in world:
        return f"{setup['arms']} arms, {world['title']}"
    return f"{setup['arms']} arms, Gaussian rewards, centres {world['centres']}"


def _strip(setup: Body, several: bool) -> float:
    """Inches for the legend and the caption."""
    if "title" in setup["world"]:
        return 1.4 if several else 2.0
    return 0.6 if several and len(setup["policies"]) == 4 else 0.9


def _caption(setup: Body, panels: list[Body]) -> str:
    world = setup["world"]
    if "title" in world:
        drawn = f"mean of {setup['runs']} runs, bands ± 1.96 standard errors"
    else:
        spread = f"reward standard deviation {world['standard_deviation']:g} before clipping (our assumption)"
        drawn = f"mean over {setup['instances']} instances, bands ± 1.96 standard errors; {spread}"
    mixed = any(word != "published" for word in setup["constants"].values())
    beyond = "; at ε ≥ 1 central, local and concentrated protocols are tight" if mixed else ""
    words = f"Published radii, p = {setup['confidence_p']:g}; {drawn}{beyond}."
    return words if "title" not in world else f"{words} Assumed: {'; '.join(world['assumptions'])}. {_why(panels)}"


def _why(panels: list[Body]) -> str:
    """Why DP-SE is not the best of them: it looks late, whatever ε is."""
    last = panels[-1]
    first = {name: line["users_before_the_first_removal"] for name, line in last["lines"].items()}
    late, early = first["DP-SE"], first["Dist-DP-SE"]
    if late is None or early is None:
        return ""
    own, other = (last["lines"][name]["regret_per_round"][-1] for name in ("DP-SE", "Dist-DP-SE"))
    lean = last["lean_dp_se"]
    return (
        f"At ε = {last['epsilon']:g} DP-SE removes its first arm after {late:,} users, Dist-DP-SE after {early:,}: "
        f"DP-SE's first batches follow from a gap of 1/2, not from ε. It ends at {own:.4f} against {other:.4f}; "
        f"with batches {lean['part']:g} times as large it would end at {lean['regret_per_round']:.4f}."
    )


EASY, HARD = (0.25, 0.75), (0.45, 0.55)


def _figure(part: str, shows: str, seconds: float, full: Setting) -> Figure:
    quick = replace(full, horizon=min(full.horizon // 5, MILLION // 2), instances=6, synthetic_rows=6_000)
    name = "cz23-fig-" + part.replace("(", "").replace(")", "")
    paper, reads_data = f"[CZ23] Fig. {part}", full.means is None
    return Figure(name, paper, shows, seconds, full, quick, compute, draw, reads_data=reads_data)


SYNTHETIC = "the rows are synthetic and not those of MSLR-WEB10K, which --data reads: no query or page was judged"

MILLION = 10**6

FIGURES = (
    _figure("1(a)", "time-average regret, easy instances, ε = 0.1", 4, Setting((0.1,), MILLION, EASY)),
    _figure("1(b)", "time-average regret, easy instances, ε = 0.5", 4, Setting((0.5,), MILLION, EASY)),
    _figure("1(c)", "time-average regret, hard instances, ε = 0.1", 4, Setting((0.1,), 10 * MILLION, HARD)),
    _figure("1(d)", "time-average regret, 50 clusters of ratings, ε = 1", 6, Setting((1.0,), MILLION, arms=50)),
    _figure("1(e)", "time-average regret, 50 clusters of ratings, ε = 5", 7, Setting((5.0,), MILLION, arms=50)),
    _figure("2", "easy instances, ε = 0.1, 0.5 and 1", 8, Setting((0.1, 0.5, 1.0), MILLION, EASY)),
    _figure("3", "hard instances, ε = 0.1, 0.5 and 1", 13, Setting((0.1, 0.5, 1.0), 10 * MILLION, HARD)),
    _figure(
        "4",
        "central, local and distributed trust; pure, Rényi and concentrated privacy",
        4,
        Setting((0.1, 0.5, 1.0), MILLION, EASY, lines=TRUST_AND_NOTIONS),
    ),
    _figure("5", "50 clusters of ratings, ε = 1, 5 and 10", 9, Setting((1.0, 5.0, 10.0), MILLION, arms=50)),
)
