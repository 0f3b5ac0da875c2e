"""`croupier sweep`: many policies, settings and worlds at once, into one Parquet file."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, integer, one_of
from croupier.cli.options import (
    DECIDED,
    POLICY,
    PROTOCOL,
    add_decisions,
    add_protocol_options,
    add_world,
    decided,
    print_json,
)
from croupier.cli.progress import progress
from croupier.cli.tables import STANDARD_ERROR, number, spread, table
from croupier.protocols import ROWS
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.simulation import ALL_POLICIES, WORLDS
from croupier.simulation.cell import Row
from croupier.simulation.engines import ENGINES, Store
from croupier.simulation.sweep import (
    KEYS,
    Sweep,
    checked,
    columns,
    read_sweep,
    run_sweep,
    summaries,
)

NAME = "sweep"
SUMMARY = "compare policies over many settings and worlds, into a file"
ABOUT = (
    "Measures the regret of policies for every ε, constants and horizon, in many worlds. Every run is a row of"
    " a Parquet file. A sweep that was interrupted goes on where it stopped."
)
EXAMPLES = (
    "croupier sweep --policy dp-klucb --policy dist-dp-se --epsilon 0.5 \\",
    "  --epsilon 1 --arms 5 --horizon 20000 --out sweep.parquet",
)


def _file_name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidParameter(name, value, "the name of a file")
    return value


def _parquet_name(name: str, value: Any) -> str:
    """Checked before anything runs: a name such as a.csv would hold what its readers cannot read."""
    if not _file_name(name, value).endswith(".parquet"):
        raise InvalidParameter(name, value, "a file whose name ends in .parquet")
    return str(value)


EXECUTION: dict[str, Callable[[str, Any], Any]] = {
    "out": _parquet_name,
    "jobs": lambda name, value: integer(name, value, 1),
    "engine": lambda name, value: one_of(name, value, tuple(ENGINES)),
}
"""Keys that say where a sweep runs, and change nothing in its rows."""

REPLACES = {
    "means": ("arms", "low", "high", "instances", "data", "data_hash"),
    "arms": ("means",),
    "world": ("data", "data_hash"),
    "data": ("means", "arms", "low", "high", "instances", "world", "data_hash"),
}
"""What an option replaces in the file besides its own key: a given world or a drawn one."""


def add(command: argparse.ArgumentParser) -> None:
    """The sweep, in a file, in options, or both: an option beats the file."""
    command.add_argument("file", metavar="FILE.toml", nargs="?", help="a sweep written down; its keys are the options")
    several: dict[str, Any] = {"action": "append"}
    sweep = command.add_argument_group(
        "what is compared", "Each of --policy, --epsilon, --constants and --horizon may be repeated."
    )
    sweep.add_argument("--policy", **several, metavar="NAME", help=POLICY)
    sweep.add_argument("--protocol", metavar="NAME", help=f"{PROTOCOL} (default: each policy's own)")
    sweep.add_argument("--epsilon", **several, type=float, metavar="E", help="the privacy parameter ε")
    sweep.add_argument("--delta", type=float, metavar="D", help="δ where a policy needs one (default: its protocol's)")
    sweep.add_argument(
        "--constants", **several, choices=CONSTANTS, help="noise and radii: calculated exactly, or a paper's"
    )
    sweep.add_argument("--horizon", **several, type=int, metavar="T", help="users in a run (default: 100000)")
    add_protocol_options(sweep)
    add_decisions(sweep)
    where = command.add_argument_group("the worlds")
    add_world(where)
    where.add_argument(
        "--instances", type=int, metavar="I", help="how many worlds are drawn, the same for all (default: 20)"
    )
    where.add_argument("--runs", type=int, metavar="R", help="runs in each world (default: 10)")
    where.add_argument("--seed", type=int, metavar="S", help="the same seed gives the same rows (default: 0)")
    how = command.add_argument_group("how it runs")
    how.add_argument("--out", metavar="FILE.parquet", help="where the rows go, one a run")
    how.add_argument("--jobs", type=int, metavar="N", help="processes (default: one for each core)")
    how.add_argument("--engine", choices=tuple(ENGINES), help="this machine, or a Ray cluster (default: local)")


def run(options: argparse.Namespace) -> int:
    """Run what is not finished yet, write the file, print a table."""
    keys = _keys(options)
    out, jobs, engine = (keys.pop(key, None) for key in EXECUTION)
    if out is None:
        raise InvalidParameter("out", None, "given: the Parquet file to write")
    sweep, store = Sweep.of(keys), Store(out, columns)
    with progress("policies", len(sweep.cells)) as advance:
        sweep.check(advance)
    try:
        with progress("cells", len(sweep.cells)) as advance:
            run_sweep(sweep, store, jobs=jobs, engine=engine or "local", progress=advance)
    except (CroupierError, KeyboardInterrupt):
        kept = len(sweep.cells) - len(sweep.unfinished(store))
        if kept:
            print(
                f"{kept} of {len(sweep.cells)} cells are kept in {store.folder}: repeat the command to go on",
                file=sys.stderr,
            )
        raise
    _report(options, store, summaries(*read_sweep(out)))
    return 0


def _admit(keys: dict[str, Any]) -> None:
    """Import what the options, or the person's own file, name as `module:name`."""
    for registry, key in ((ALL_POLICIES, "policy"), (ROWS, "protocol"), (WORLDS, "world")):
        given = keys.get(key)
        for name in given if isinstance(given, list | tuple) else [given]:
            registry.admit(name)


def _keys(options: argparse.Namespace) -> dict[str, Any]:
    """The file's keys under the command line's."""
    table = KEYS | EXECUTION
    given = {key: value for key in table if (value := vars(options).get(key)) is not None}
    written = {} if options.file is None else _written(options.file, table)
    replaced = [key for option, keys in REPLACES.items() if option in given for key in keys]
    _admit(given)
    return {key: value for key, value in written.items() if key not in replaced} | checked(given, table)


def _written(path: str, table: dict[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            body = tomllib.load(file)
        _admit(body)
        return checked(body, table)
    except OSError as error:
        raise CroupierError(f"{path}: {error.strerror}") from None
    except (CroupierError, ValueError) as error:
        raise CroupierError(f"{path}: {error}") from None


def _report(options: argparse.Namespace, store: Store, rows: list[Row]) -> None:
    if options.json:
        print_json(rows)
        return
    table(
        [
            "policy",
            "ε",
            "constants",
            "horizon",
            "runs",
            "mean regret",
            "±",
            "median",
            "worst run",
            "best arm found",
        ],
        [
            [
                row["policy"],
                "-" if row["epsilon"] is None else number(row["epsilon"]),
                row["constants"] or "-",
                f"{row['horizon']:,}",
                f"{row['runs']:,}",
                number(row["regret_mean"]),
                "-" if row["regret_sem"] is None else spread(row["regret_sem"], row["regret_mean"]),
                number(row["regret_median"]),
                number(row["regret_max"]),
                f"{100 * row['best_arm_rate']:.1f} %",
            ]
            for row in rows
        ],
        right={1, 3, 4, 5, 6, 7, 8, 9},
        notes=[STANDARD_ERROR + " Of the worlds' means, where there are several worlds."],
    )
    claiming = [row for row in rows if "decided_rate" in row]
    if claiming:
        table(
            ["policy", "ε", "horizon", *DECIDED],
            [[row["policy"], number(row["epsilon"]), f"{row['horizon']:,}", *decided(row)] for row in claiming],
            right=set(range(1, 9)),
            title="Decisions",
            notes=["Users are those who reported."],
        )
    print(f"{sum(row['runs'] for row in rows):,} rows, one a run, are in {store.out}.")
    if store.folder.exists():
        print(f"{store.folder} holds finished cells of another sweep.")
