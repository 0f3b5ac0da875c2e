"""Timing and memory of one call, what other processes compute, and how a line is printed."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def seconds(call: Callable[[], object], repeat: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """The least time of several calls: what the machine can do when nothing disturbs it."""
    best = float("inf")
    for _ in range(repeat):
        start = clock()
        call()
        best = min(best, clock() - start)
    return best


def megabytes(call: Callable[[], object]) -> float:
    """The peak that one call allocates."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def processor(call: Callable[[], object], repeat: int = 3) -> float:
    """The least processor time of several calls: neighbours on the machine do not count."""
    return seconds(call, repeat, time.process_time)


def cpu(process: int) -> float:
    """Seconds that a process and those that it has started have computed so far."""
    parents = {int(path.name): _stat(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    tree, more = {process}, True
    while more:
        found = {pid for pid, stat in parents.items() if stat and int(stat[1]) in tree} - tree
        tree, more = tree | found, bool(found)
    return sum((int(stat[11]) + int(stat[12])) / TICKS for pid in tree if (stat := parents.get(pid)))


def _stat(process: Path) -> list[str]:
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def heading(text: str) -> None:
    """Start a group of lines."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def line(what: str, *parts: str) -> None:
    """One finding."""
    print(f"{what:<58}" + "   ".join(f"{part:>20}" for part in parts), flush=True)
