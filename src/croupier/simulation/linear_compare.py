"""Every model of a linear bandit on the same users, and from how many users on personalisation is shown to gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, integer
from croupier.linear import TUNED
from croupier.simulation.linear_runner import LinearRun, exponent, simulate_linear
from croupier.simulation.linear_worlds import LinearWorld

Floats = NDArray[np.float64]
Worlds = Callable[[int], LinearWorld]
"""The world of a run, by its seed."""

BLIND = 0.5
"""Above this share of users with nothing known, an exponent is fitted before learning begins."""

POINTS = 60
"""Numbers of users at which a curve is kept."""


@dataclass(frozen=True)
class Entry:
    """One row of a comparison: a model of `simulate_linear`, its options, and what it asks of whom."""

    label: str
    model: str
    trust: str
    options: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""

    @property
    def exploration(self) -> float:
        return float(self.options.get("exploration", 1.0))


ENTRIES = {
    entry.label: entry
    for entry in (
        Entry("no-privacy", "linucb", "none", paper="[APS11]"),
        Entry("central", "central", "analyzer"),
        Entry("central-tuned", "central", "analyzer", {"exploration": TUNED}),
        Entry("central-tree", "central-tree", "analyzer", paper="[SS18]"),
        Entry("growing", "growing", "as asked"),
        Entry("growing-tuned", "growing", "as asked", {"exploration": TUNED}),
        Entry("concurrent-tree", "concurrent", "shuffler", paper="[TKMS23] Alg. 4"),
        Entry("concurrent-2", "concurrent", "shuffler", {"shufflers": 2}, "[TKMS23] Alg. 4"),
        Entry("sequential", "sequential", "shuffler", paper="[CZ22]"),
        Entry("local", "local", "nobody", paper="[ZCHLW20]"),
    )
}
"""Rows by name; `central` and `central-tuned` are growing batches in the hands of a trusted server."""


GROWING = ("growing", "central")
"""Models whose batches grow, and who read how: `control`, `largest` and `norm`."""


@dataclass(frozen=True, eq=False)
class Compared:
    """The runs of one entry."""

    entry: Entry
    runs: tuple[LinearRun, ...]

    @property
    def users(self) -> int:
        return int(self.runs[0].users[-1])

    def curve(self) -> tuple[NDArray[np.int64], Floats]:
        """Regret of every run at some numbers of users."""
        points = np.unique(np.geomspace(min(100, self.users), self.users, POINTS).astype(np.int64))
        return points, np.asarray([run.at(points) for run in self.runs])

    def row(self) -> dict[str, Any]:
        """What is told of them."""
        regret = np.asarray([run.regret[-1] for run in self.runs])
        points, curves = self.curve()
        vacuous = float(np.mean([run.vacuous for run in self.runs]))
        row: dict[str, Any] = {
            "model": self.entry.label,
            "trust": self.entry.trust,
            "exploration": self.entry.exploration,
            "proven": self.entry.exploration >= 1.0,
            "users": self.users,
            "runs": len(self.runs),
            "regret_mean": float(regret.mean()),
            "regret_sem": float(regret.std(ddof=1) / math.sqrt(len(regret))) if len(regret) > 1 else 0.0,
            "regret_median": float(np.median(regret)),
            "regret_max": float(regret.max()),
            "reward_mean": float(np.mean([run.reward for run in self.runs])),
            "exponent": exponent(points, np.maximum(curves.mean(axis=0), 1e-12)),
            "before_learning": vacuous > BLIND,
            "says_nothing": vacuous,
            "held": None if self.runs[0].held is None else float(np.mean([bool(run.held) for run in self.runs])),
        }
        if self.runs[0].gain is not None:
            gains = [run.gain for run in self.runs if run.gain is not None]
            row |= {
                "gain": float(np.mean([gain.gain for gain in gains])),
                "gain_lower": float(np.mean([gain.lower for gain in gains])),
                "gain_upper": float(np.mean([gain.upper for gain in gains])),
                "gain_shown": float(np.mean([gain.lower > 0.0 for gain in gains])),
            }
        return row


def compare(
    worlds: Worlds,
    users: int,
    *,
    entries: Sequence[Entry],
    runs: int,
    seed: int,
    epsilon: float,
    delta: float,
    trust: str,
    control: float = 0.0,
    progress: Callable[[float], None] | None = None,
    **growing: Any,
) -> list[Compared]:
    """Play every entry; in the same run all of them meet the same world and users of the same law."""
    integer("runs", runs, 1)
    total = len(entries) * runs
    tell = None if progress is None else (lambda part: progress(part / total))
    found = []
    for place, entry in enumerate(entries):
        own = entry.model in GROWING
        options: dict[str, Any] = {"trust": trust, "control": control, **growing} if own else {}
        if entry.model == "local":
            options["block"] = max(32, users // 4096)
        options |= entry.options
        played = [
            simulate_linear(
                entry.model,
                worlds(seed + run),
                users,
                seed=1000 * (seed + 1) + 100_000 * place + run,
                epsilon=epsilon,
                delta=delta,
                progress=tell,
                **options,
            )
            for run in range(runs)
        ]
        found.append(Compared(entry, tuple(played)))
    return found


@dataclass(frozen=True)
class Need:
    """How many users an experiment needs until its control share shows that personalisation gains."""

    users: float
    """Infinite where the most that was tried does not suffice."""
    shown: float
    """In which part of the runs it was shown then."""
    gain: float
    """What a user of the rule earned more, on average over those runs."""
    tried: tuple[tuple[int, float], ...]
    """Every number of users that was tried, and in which part of the runs the gain was shown."""


LEAST, MOST = 2_000, 2_000_000
ENOUGH = 0.9


def users_to_gain(
    world: LinearWorld,
    *,
    epsilon: float,
    delta: float,
    trust: str,
    control: float,
    runs: int = 10,
    seed: int = 0,
    exploration: float = TUNED,
    most: int = MOST,
    progress: Callable[[float], None] | None = None,
    **growing: Any,
) -> Need:
    """The least number of users, in doublings, at which the interval of the gain lies above zero in 90 % of runs."""
    if not control > 0.0:
        raise InvalidParameter("control", control, "above 0: the gain is measured by a control share")
    tried: list[tuple[int, float]] = []
    users, steps = LEAST, 1 + max(0, math.floor(math.log2(most / LEAST)))
    while users <= most:
        budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "trust": trust, "control": control, **growing}
        played = [
            simulate_linear("growing", world, users, seed=seed + run, exploration=exploration, **budget)
            for run in range(runs)
        ]
        gains = [run.gain for run in played if run.gain is not None]
        shown = float(np.mean([gain.lower > 0.0 for gain in gains]))
        tried.append((users, shown))
        if progress is not None:
            progress(1.0 / steps)
        if shown >= ENOUGH:
            return Need(float(users), shown, float(np.mean([gain.gain for gain in gains])), tuple(tried))
        users *= 2
    return Need(math.inf, tried[-1][1] if tried else 0.0, math.nan, tuple(tried))
