"""What a server counts and measures, for Prometheus.

Several workers of one server are one scrape: they share a directory, named by `PROMETHEUS_MULTIPROC_DIR` before they
start, and whoever is asked adds up what is there.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from starlette.responses import Response

SHARED = "PROMETHEUS_MULTIPROC_DIR"
TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

COUNTERS = {
    "assignments": ((), "Turns that were given out, in steps of 32"),
    "reports": (("outcome",), "Reports, by what became of them, in steps of 32"),
    "batches": (("outcome",), "Batches that were closed or expired"),
    "problems": (("outcome",), "Refusals, by name; at the front in steps of 32"),
}
GAUGES = {
    "records": ("experiment", "Records of the log"),
    "open_batches": ("experiment", "Batches that are open"),
    "reports_accepted": ("experiment", "Reports that the front has accepted"),
    "turns_assigned": ("experiment", "Turns that the front has given out"),
    "finished": ("experiment", "1 when the experiment has ended"),
    "paused": ("experiment", "1 while an operator has paused the experiment"),
    "trouble": ("experiment", "1 while the experiment does not go on"),
    "stalled": ("experiment", "1 while too few people report for the next batch"),
    "ready": ("server", "1 while the server can do its work, as /readyz says"),
    "waiting_seconds": ("what", "For how long the oldest of what is waited for has been, once it is late"),
}
FRONT = ("assignments", "reports", "batches", "problems", "ready", "waiting_seconds")
ANALYZER = ("problems", *GAUGES)
"""What each server has of these."""

STEP = 32
"""Counts that rise with each report are public in steps of so many."""
COARSE = ("assignments", "reports", "problems")
"""Counters of the front that are told in steps: each of them may rise with a single turn or report."""

disable_created_metrics()  # type: ignore[no-untyped-call]


class Meters:
    """Counters by outcome, and gauges by one label each."""

    def __init__(self, names: Sequence[str], coarse: Sequence[str] = ()) -> None:
        self._coarse = {f"croupier_{name}" for name in coarse}
        self._directory = os.environ.get(SHARED)
        self._registry = CollectorRegistry()
        # Workers' values are in files: a registry of their own would show them twice.
        registry = None if self._directory else self._registry
        self._counters = {
            name: Counter(f"croupier_{name}", text, labels, registry=registry)
            for name, (labels, text) in COUNTERS.items()
            if name in names
        }
        self._known: dict[tuple[str, str], Counter] = {}
        self._gauges = {
            name: Gauge(f"croupier_{name}", text, [label], registry=registry, multiprocess_mode=_worst(name))
            for name, (label, text) in GAUGES.items()
            if name in names
        }
        if self._directory:
            MultiProcessCollector(self._registry, self._directory)  # type: ignore[no-untyped-call]

    def add(self, name: str, outcome: str = "", count: int = 1) -> None:
        counter = self._known.get((name, outcome))
        if counter is None:
            counter = self._counters[name]
            # To look a label up takes longer than to count.
            counter = self._known[name, outcome] = counter.labels(outcome) if outcome else counter
        counter.inc(count)

    def show(self, name: str, values: Mapping[str, float]) -> None:
        """Set a gauge, by the values of its label."""
        for label, value in values.items():
            self._gauges[name].labels(label).set(value)

    def answer(self, seen: Set[str] | None = None) -> Response:
        """All of it, of all workers, as Prometheus reads it; of experiments only those in `seen`, unless it is None."""
        if self._directory:
            _forget_the_dead(self._directory)
        return Response(generate_latest(_Told(self._registry, self._coarse, seen)), media_type=TEXT_TYPE)


class _Told:
    """A registry's metrics; what comes with each report is told in steps, or anybody could see when one came."""

    def __init__(self, registry: CollectorRegistry, coarse: Set[str], seen: Set[str] | None) -> None:
        self._registry, self._coarse, self._seen = registry, coarse, None if seen is None else {None, *seen}

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            if family.name in self._coarse:
                family.samples = [sample._replace(value=sample.value // STEP * STEP) for sample in family.samples]
            if self._seen is not None:
                family.samples = [one for one in family.samples if one.labels.get("experiment") in self._seen]
            yield family


@contextmanager
def shared() -> Iterator[None]:
    """Let processes that are started now be one scrape: a directory of their own, as long as this lasts."""
    with TemporaryDirectory(prefix="croupier-metrics-") as directory:
        os.environ[SHARED] = directory
        try:
            yield
        finally:
            del os.environ[SHARED]


def _worst(name: str) -> Literal["livemin", "livemax"]:
    """What several workers show as one: the worst of them."""
    return "livemin" if name == "ready" else "livemax"


def _forget_the_dead(directory: str) -> None:
    """Gauges of workers that are gone say nothing about now; what these workers have counted stays."""
    for path in glob.glob(f"{directory}/gauge_*.db"):
        pid = int(Path(path).stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid, directory)  # type: ignore[no-untyped-call]
