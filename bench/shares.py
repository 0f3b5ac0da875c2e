"""Reports in shares, the whole way to the policy: CPU a report at each server, against the least that it can be.

Wall time holds whoever sends the reports too, on the same cores; a server's own time does not.
"""

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
EXPERIMENT = """
name = "load"
arms = ["one", "two"]
[program]
policy = "vb-sdp-ae"
horizon = 1000000000
[privacy]
trust = "two-servers"
epsilon = 1.0
[reward]
{reward}
[reports]
report_within = 86400
report_at = [0, 0]
validity = "{validity}"
[batches]
smallest = {smallest}
deadline = 100000
"""
KINDS = {
    "counts with proofs": {"reward": "binary = true", "validity": "prio3"},
    "numbers to 127 with proofs": {"reward": "low = 0\nhigh = 1", "validity": "prio3"},
    "counts without proofs": {"reward": "binary = true", "validity": "none"},
}
AIMS = {"prio3": 1_500, "none": 3_000}
"""Reports a second, each server on one core."""
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def service(**kind: str) -> Iterator[tuple[Home, dict[str, Child]]]:
    """Both servers; two batches are open, one an arm, which all the reports fill."""
    with tempfile.TemporaryDirectory(prefix="croupier-bench-") as scratch:
        home = Home(Path(scratch), free_port(), free_port())
        experiment = Path(scratch) / "load.toml"
        experiment.write_text(EXPERIMENT.format(smallest=REPORTS // 2, **kind))
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


def memory(child: Child) -> float:
    """The most that a server has ever held, in MB."""
    status = Path(f"/proc/{child.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Each kind of report."""
    for name, kind in KINDS.items():
        whole_way(name, **kind)


def whole_way(name: str, **kind: str) -> None:
    """The whole way, each server's own part of it, and the bytes of an upload."""
    with service(**kind) as (home, children):
        bodies = sealed_reports(home)
        heading(f"{REPORTS:,} reports in shares, {name}: {len(bodies[0])} bytes each, sealed beforehand")
        opens = open_rate(home, bodies)
        top = ceiling(home, bodies, opening=True)
        # At the front one bare request that opens, at the analyzer one open: the least that two servers compute.
        least = {"front": 1.0 / top.rate, "analyzer": 1.0 / opens}
        line("the least at the front: a bare request that opens", f"{1e6 * least['front']:.0f} µs")
        line("the least at the analyzer: an open", f"{1e6 * least['analyzer']:.0f} µs")
        before = {server: cpu(child) for server, child in children.items()}
        held = memory(children["analyzer"])
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
        spent = {server: (cpu(child) - before[server]) / REPORTS for server, child in children.items()}
        for server, seconds in spent.items():
            line(
                f"CPU a report at the {server}", f"{1e6 * seconds:.0f} µs", f"{least[server] / seconds:.2f} × its least"
            )
        more = memory(children["analyzer"]) - held
        line("memory of the analyzer, above where it began", f"{more:.1f} MB", f"batches of {REPORTS // 2:,}")
        aim = f"aim: {AIMS[kind['validity']]:,}"
        line(f"the whole way, each server on one core ({aim})", f"{1.0 / max(spent.values()):,.0f} reports/s")


if __name__ == "__main__":
    main()
