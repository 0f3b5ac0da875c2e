"""`croupier reproduce`: the papers' figures and croupier's own, as a picture and the numbers behind it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from croupier.cli.options import leave_out, print_json
from croupier.cli.progress import progress
from croupier.cli.tables import say, table
from croupier_papers import FIGURES, Task, compute, write

NAME = "reproduce"
SUMMARY = "make a paper's figure, or list them all"
ABOUT = "Makes a figure of a paper, as a picture and as the numbers behind it. Without NAME it lists the figures."
EXAMPLES = (
    "croupier reproduce",
    "croupier reproduce tkms21-table-1 --quick",
)

STEPS = 1_000_000

ALL = "all"


def add(command: argparse.ArgumentParser) -> None:
    """The figure, how thoroughly, and where to."""
    command.add_argument("name", nargs="?", metavar="NAME", help=f"a figure, or {ALL} of them (default: list them)")
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
    """Make one figure or every one, or list them."""
    if options.name is None:
        leave_out(options, ("quick", "out", "data", "seed"), "without NAME the figures are only listed")
        return _list(options)
    made = [_make(name, options) for name in (FIGURES if options.name == ALL else (options.name,))]
    if options.json:
        print_json(made)
    return 0


def _make(name: str, options: argparse.Namespace) -> dict[str, str]:
    """One figure: computed, written and, unless a program reads on, told."""
    # A file is for those who read one; the others of `all` go without.
    data = options.data if options.name != ALL or FIGURES[name].reads_data else None
    with progress(name, STEPS) as advance:
        task = Task(options.seed, data, lambda part: advance(round(STEPS * part)))
        body = compute(name, task, quick=options.quick)
    picture, numbers = write(body, options.out)
    if not options.json:
        figure = FIGURES[name]
        print(f"figure:  {picture}")
        print(f"numbers: {numbers}")
        if figure.table is not None:
            headings, rows = figure.table(body)
            table(headings, rows, right=_numbers(rows), title=f"{figure.paper}: {figure.shows}")
        else:
            say(*body["references"])
    return {"figure": name, "picture": str(picture), "numbers": str(numbers)}


def _numbers(rows: Sequence[Sequence[str]]) -> set[int]:
    """Columns that hold mostly numbers.

    >>> sorted(_numbers([["k = 1", "2,111.5", "1/3", "100 %"], ["tree", "-", "polylog", "0.5 %"]]))
    [1, 3]
    """
    numeric = re.compile(r"[-−\d.,e+/ %]*$")
    return {
        place
        for place, column in enumerate(zip(*rows, strict=True))
        if 2 * sum(bool(numeric.match(cell)) for cell in column) > len(column) and any(column)
    }


def _list(options: argparse.Namespace) -> int:
    rows = [
        {"name": name, "paper": figure.paper, "shows": figure.shows, "quick_seconds": figure.quick_seconds}
        for name, figure in FIGURES.items()
    ]
    if options.json:
        print_json(rows)
        return 0
    headings, notes = ["figure", "paper", "what it shows", "seconds"], ["Seconds: with --quick, on two cores."]
    table(headings, [list(row.values()) for row in rows], right={3}, notes=notes)
    return 0
