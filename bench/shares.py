"""Reports in shares, the whole way to the policy: CPU a report at each server, against the least that it can be."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from bench.measure import heading, line
from bench.service import ceiling, open_rate, sealed_reports, upload
from croupier.service.processes import Child, Home, both, free_port

REPORTS = 8_000
EXPERIMENT = f"""
name = "load"
arms = ["one", "two"]
[program]
policy = "vb-sdp-ae"
horizon = 1000000000
[privacy]
trust = "two-servers"
epsilon = 1.0
[reward]
binary = true
[reports]
report_within = 86400
report_at = [0, 0]
[batches]
smallest = {REPORTS // 2}
deadline = 100000
"""
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def service() -> Iterator[tuple[Home, dict[str, Child]]]:
    """Both servers; two batches are open, one an arm, which all the reports fill."""
    with tempfile.TemporaryDirectory(prefix="croupier-bench-") as scratch:
        home = Home(Path(scratch), free_port(), free_port())
        experiment = Path(scratch) / "load.toml"
        experiment.write_text(EXPERIMENT)
        with both(home, [str(experiment)], front={"ahead": 1.0, "due_within": 600}) as children:
            yield home, children


def cpu(child: Child) -> float:
    """Seconds that a server and its processes have computed so far."""
    parents = {int(path.name): _stat(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    tree, more = {child.process.pid}, True
    while more:
        found = {pid for pid, stat in parents.items() if stat and int(stat[1]) in tree} - tree
        tree, more = tree | found, bool(found)
    return sum((int(stat[11]) + int(stat[12])) / TICKS for pid in tree if (stat := parents.get(pid)))


def _stat(process: Path) -> list[str]:
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def main() -> None:
    """The whole way, each server's own part of it, and the bytes of an upload."""
    with service() as (home, children):
        bodies = sealed_reports(home)
        heading(f"{REPORTS:,} reports in shares of {len(bodies[0])} bytes, sealed beforehand")
        opens = open_rate(home, bodies)
        top = ceiling(home, bodies, opening=True)
        # At the front one bare request that opens, at the analyzer one open: the least that two servers compute.
        least = {"front": 1.0 / top.rate, "analyzer": 1.0 / opens}
        line("the least at the front: a bare request that opens", f"{1e6 * least['front']:.0f} µs")
        line("the least at the analyzer: an open", f"{1e6 * least['analyzer']:.0f} µs")
        before = {server: cpu(child) for server, child in children.items()}
        began = time.perf_counter()
        load = upload(home, bodies)
        line(
            "accepted and durable at the front",
            f"{load.rate:,.0f} reports/s",
            f"{load.rate / top.rate:.2f} × the ceiling",
        )
        while httpx2.get(f"{home.analyzer_url}/experiments/load/state").json()["reports"] < REPORTS:
            time.sleep(0.05)
        took = time.perf_counter() - began
        line("the whole way to the policy, two cores for everything", f"{REPORTS / took:,.0f} reports/s")
        for server, child in children.items():
            spent = (cpu(child) - before[server]) / REPORTS
            line(
                f"CPU a report at the {server} (aim: 333 µs)",
                f"{1e6 * spent:.0f} µs",
                f"{1.0 / spent:,.0f}/s a core",
                f"{least[server] / spent:.2f} × its least",
            )


if __name__ == "__main__":
    main()
