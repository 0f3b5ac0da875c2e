"""What every figure is: settings, a computation that ends in plain numbers, and a drawing made from those alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from croupier.bandits import Policy
from croupier.checks import integer
from croupier.protocols import protocol
from croupier.simulation.baselines import ALL_POLICIES, simulated_policy
from croupier.simulation.worlds import Floats, uniform_means

Body = dict[str, Any]
"""`configuration` and `results`, as they are written to JSON."""


@dataclass(frozen=True)
class Task:
    """How a figure is computed: the seed, a file of real data where one is given, and who is told of progress.

    `progress` is told the part of the whole that was done since it was last told.
    """

    seed: int = 0
    data: Path | None = None
    progress: Callable[[float], None] = lambda part: None

    def __post_init__(self) -> None:
        integer("seed", self.seed, 0)

    def means(self, arms: int, instances: int, low: float, high: float) -> Floats:
        """Drawn instances, the same for every policy of a figure.

        They have a key of their own: `default_rng(seed)` is what a policy may have been tuned on.
        """
        sequence = np.random.SeedSequence(self.seed, spawn_key=(0,))
        return uniform_means(arms, instances, low, high, np.random.default_rng(sequence))

    def seed_of(self, index: int) -> int:
        """The seed of the figure's simulation number `index`, unrelated to the others."""
        return int(np.random.SeedSequence(self.seed, spawn_key=(1, index)).generate_state(1)[0])

    def share(self, part: float) -> Callable[[float], None]:
        """Progress of a piece of the work that is `part` of the whole."""
        return lambda done: self.progress(part * done)


@dataclass(frozen=True)
class Figure:
    """One figure: where it comes from, what it shows, and how it is computed and drawn."""

    name: str
    paper: str
    shows: str
    quick_seconds: float
    full: Any
    quick: Any
    compute: Callable[[Any, Task], Body]
    draw: Callable[[Body], Any]
    table: Callable[[Body], tuple[list[str], list[list[str]]]] | None = None
    reads_data: bool = False

    @property
    def source(self) -> str:
        """Which figure or table of a paper this is, or that it is none.

        >>> from croupier_papers import FIGURES
        >>> FIGURES["cz23-fig-1a"].source, FIGURES["flagship"].source
        ('[CZ23] Fig. 1(a)', "croupier's own figure, for [AWHOIB25]")
        """
        if "Fig." in self.paper or "Table" in self.paper:
            return self.paper
        return "croupier's own figure" + ("" if self.paper == "croupier" else f", for {self.paper}")


def over_instances(values: Floats, instances: int) -> tuple[Floats, Floats]:
    """The mean over instances and its standard error; `values` has the runs of each instance side by side."""
    each = values.reshape(instances, -1, *values.shape[1:]).mean(axis=1)
    error = each.std(axis=0, ddof=1) / np.sqrt(instances) if instances > 1 else np.zeros_like(each[0])
    return each.mean(axis=0), error


def published(name: str, *, arms: int, horizon: int, epsilon: float, runs: int, **options: Any) -> tuple[Policy, str]:
    """A policy with its paper's constants, and a word on them.

    Where a theorem holds only below some ε, the paper's radii are kept beyond it, since σ and h go as 1/ε, and the
    protocol's noise is the exactly calibrated one.

    >>> published("local-dp-se", arms=2, horizon=1000, epsilon=1.0, runs=1)[1]
    'published radii, tight protocol (the theorem needs ε < 1)'
    """
    kind = ALL_POLICIES[name].protocol
    limit = float("inf") if kind is None else protocol(kind, epsilon=0.5).row.epsilon_below
    common: dict[str, Any] = {"arms": arms, "horizon": horizon, "runs": runs} | options
    if epsilon < limit:
        private: dict[str, Any] = {} if ALL_POLICIES[name].notion == "none" else {"epsilon": epsilon}
        private |= {} if kind is None else {"constants": "published"}
        return simulated_policy(name, **private, **common), "published"
    model = simulated_policy(name, epsilon=limit / 2, constants="published", **common)
    carried = replace(model.ladder.protocol, epsilon=epsilon, constants="tight")  # type: ignore[type-var]
    said = f"published radii, tight protocol (the theorem needs ε < {limit:g})"
    return model.over(carried, limit / 2 / epsilon), said


def plain(values: Any) -> list[Any]:
    """An array as a list, with six digits: more would be noise."""
    return [float(f"{value:.6g}") for value in np.asarray(values, dtype=float).tolist()]
