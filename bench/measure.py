"""Timing and memory of one call, and how a line is printed."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable


def seconds(call: Callable[[], object], repeat: int = 5) -> float:
    """The least time of several calls: what the machine can do when nothing disturbs it."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def megabytes(call: Callable[[], object]) -> float:
    """The peak that one call allocates."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def heading(text: str) -> None:
    """Start a group of lines."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def line(what: str, *parts: str) -> None:
    """One finding."""
    print(f"{what:<58}" + "   ".join(f"{part:>20}" for part in parts), flush=True)
