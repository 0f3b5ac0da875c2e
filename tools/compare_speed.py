"""What a benchmark measures at two commits, in turn on one machine: each time, and how it changed.

    python tools/compare_speed.py c6b7f72 sampling composition --rounds 8

runs `bench.sampling` and `bench.composition` of the commit and of the working tree, one after the other and again, with
the packages of this environment. Of each thing that both measure it takes the least time of all rounds. Things that do
not run croupier's own code (NumPy, the peers) are measured by both as well: how far those are from 1 is what the
machine alone does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RECORDING = """
import importlib, json, sys
import bench.measure as measure

taken, told, seconds = [], [], measure.seconds

def recording(*arguments, **options):
    taken.append(seconds(*arguments, **options))
    return taken[-1]

def line(what, *parts):
    told.append((what, taken.copy()))
    taken.clear()

measure.seconds = recording
measure.line = line
importlib.import_module("bench." + sys.argv[1]).main()
print(json.dumps(told))
"""
"""Keeps what was measured before each line that a benchmark prints."""

Key = tuple[str, int, int]
"""A line's words, which of the lines with these words it is, and which of the times before it."""


def measured(tree: Path, module: str) -> dict[Key, float]:
    """Seconds of all that one benchmark of a tree measures."""
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}:{tree}"}
    command = [sys.executable, "-c", RECORDING, module]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench.{module} of {tree} ended in an error:\n{done.stderr}")
    times: dict[Key, float] = {}
    seen: Counter[str] = Counter()
    for what, taken in json.loads(done.stdout.splitlines()[-1]):
        times |= {(what, seen[what], number): took for number, took in enumerate(taken)}
        seen[what] += 1
    return times


def least(before: Path, module: str, rounds: int) -> tuple[dict[Key, float], dict[Key, float]]:
    """The least times at both commits; whoever was second in one round is first in the next."""
    best: dict[Path, dict[Key, float]] = {before: {}, ROOT: {}}
    for turn in range(rounds):
        for tree in (before, ROOT)[:: 1 if turn % 2 else -1]:
            for key, took in measured(tree, module).items():
                best[tree][key] = min(took, best[tree].get(key, took))
        print(f"bench.{module}: round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    return best[before], best[ROOT]


def main() -> None:
    """Compare, and print a line for each thing that both measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", metavar="COMMIT", help="what the working tree is compared with")
    parser.add_argument("modules", metavar="MODULE", nargs="+", help="benchmarks, such as sampling or bandits")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often each is run (default: 5)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", options.before], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        for module in options.modules:
            before, after = least(Path(folder), module, options.rounds)
            print(f"\nbench.{module}\n{'before':>10} {'after':>10}   ratio")
            for key in sorted(before.keys() & after.keys(), key=lambda key: after[key] / before[key]):
                ratio = after[key] / before[key]
                print(f"{before[key]:>8.2e} s {after[key]:>8.2e} s   {ratio:>5.2f}   {key[0]}, time {key[2] + 1}")
            for key in before.keys() ^ after.keys():
                print(f"{'only ' + ('before' if key in before else 'after'):>31}   {key[0]}, time {key[2] + 1}")


if __name__ == "__main__":
    main()
