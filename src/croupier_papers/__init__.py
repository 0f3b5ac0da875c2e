"""The papers' figures and croupier's own, each one command away: `FIGURES` lists them, `reproduce` makes one.

A figure is computed into plain numbers and drawn from those alone, so its JSON holds all that its picture shows.
"""

from __future__ import annotations

import json
from pathlib import Path

from croupier import __version__
from croupier.checks import CroupierError, InvalidParameter, one_of
from croupier.references import cited
from croupier.simulation.plots import save
from croupier_papers import (
    concurrent_adversary,
    concurrent_counters,
    concurrent_floor,
    concurrent_linear,
    concurrent_shufflers,
    concurrent_tree,
    distributed_bandits,
    fixed_or_doubling,
    flagship,
    growing_linear,
    shuffle_bandits,
    user_level_epsilon,
    user_level_histograms,
    user_level_learners,
    whose_noise,
)
from croupier_papers.experiment import Body, Figure, Task
from croupier_papers.style import finish

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for module in (
        distributed_bandits,
        shuffle_bandits,
        fixed_or_doubling,
        concurrent_counters,
        concurrent_shufflers,
        concurrent_floor,
        concurrent_tree,
        concurrent_linear,
        concurrent_adversary,
        growing_linear,
        flagship,
        whose_noise,
        user_level_histograms,
        user_level_learners,
        user_level_epsilon,
    )
    for figure in module.FIGURES
}
"""Every figure by name."""


def compute(name: str, task: Task, *, quick: bool = False) -> Body:
    """A figure's numbers, with everything needed to make them again."""
    figure = FIGURES[one_of("name", name, tuple(FIGURES))]
    if task.data is not None and not figure.reads_data:
        readers = ", ".join(other.name for other in FIGURES.values() if other.reads_data)
        raise InvalidParameter("data", str(task.data), f"left out: only {readers} read a file")
    origin = {"figure": name, "paper": figure.paper, "shows": figure.shows}
    body = figure.compute(figure.quick if quick else figure.full, task)
    whole = {**origin, "croupier": __version__, "seed": task.seed, "quick": quick, **body}
    references = cited(json.dumps(whole, ensure_ascii=False))
    return {**whole, "references": [str(reference) for reference in references]}


def write(body: Body, out: Path) -> tuple[Path, Path]:
    """Write NAME.png and NAME.json into a folder and return both paths."""
    figure = FIGURES[body["figure"]]
    picture, numbers = out / f"{figure.name}.png", out / f"{figure.name}.json"
    lighter = body.get("quick", False) and figure.quick != figure.full
    save(finish(figure.draw(body), figure.source, quick=lighter), picture)
    try:
        numbers.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise CroupierError(f"{numbers}: could not be written ({error.strerror})") from None
    return picture, numbers


__all__ = ["FIGURES", "Figure", "Task", "compute", "write"]
