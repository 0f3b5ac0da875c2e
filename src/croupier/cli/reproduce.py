"""`croupier reproduce`: the papers' figures and croupier's own, as a picture and the numbers behind it."""

from __future__ import annotations

import argparse
from pathlib import Path

from croupier.cli.options import print_json, referred
from croupier.cli.progress import progress
from croupier.cli.tables import table
from croupier_papers import FIGURES, Task, compute, write

NAME = "reproduce"
SUMMARY = "make a paper's figure, or list them all"
ABOUT = "Makes a figure of a paper, as a picture and as the numbers behind it. Without NAME it lists the figures."
EXAMPLES = (
    "croupier reproduce",
    "croupier reproduce tkms21-table-1 --quick",
)

STEPS = 1_000_000


def add(command: argparse.ArgumentParser) -> None:
    """The figure, how thoroughly, and where to."""
    command.add_argument("name", nargs="?", metavar="NAME", help="which figure (default: list them)")
    command.add_argument("--quick", action="store_true", help="fewer runs and users: it takes seconds, not minutes")
    command.add_argument(
        "--out", type=Path, default=Path("out"), metavar="DIR", help="the folder to write to (default: out)"
    )
    command.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="MSLR-WEB10K or any other LETOR file, for the figures that rate documents",
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="the same seed gives the same figure (default: 0)"
    )


def run(options: argparse.Namespace) -> int:
    """Make one figure, or list all."""
    if options.name is None:
        return _list(options)
    with progress(options.name, STEPS) as advance:
        task = Task(options.seed, options.data, lambda part: advance(round(STEPS * part)))
        body = compute(options.name, task, quick=options.quick)
    picture, numbers = write(body, options.out)
    if options.json:
        print_json([{"figure": options.name, "picture": str(picture), "numbers": str(numbers)}])
        return 0
    print(f"figure:  {picture}")
    print(f"numbers: {numbers}")
    figure = FIGURES[options.name]
    if figure.table is not None:
        headings, rows = figure.table(body)
        table(headings, rows, right=set(range(3, len(headings))), title=f"{figure.paper}: {figure.shows}")
    return 0


def _list(options: argparse.Namespace) -> int:
    rows = [
        {"name": name, "paper": figure.paper, "shows": figure.shows, "quick_seconds": figure.quick_seconds}
        for name, figure in FIGURES.items()
    ]
    if options.json:
        print_json([row | {"reference": referred(row["paper"])} for row in rows])
        return 0
    headings, notes = ["figure", "paper", "what it shows", "seconds"], ["Seconds: with --quick, on a small machine."]
    table(headings, [list(row.values()) for row in rows], right={3}, notes=notes)
    return 0
