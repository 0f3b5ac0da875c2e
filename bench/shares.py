"""Reports in shares, the whole way to the policy: CPU a report at each server, against the least that it can be.

Wall time holds whoever sends the reports too, on the same cores; a server's own time does not, and neither does it hold
what neighbours on the machine compute.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from bench.measure import cpu, heading, line
from bench.service import REPORTS, ceiling, open_rate, postgres, sealed_reports, upload
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.sealing import SUITES
from croupier.messages.shares import upload_length
from croupier.service.processes import Child, Home, both, free_port

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
COUNTS, NUMBERS = "binary = true", "low = 0\nhigh = 1"
KINDS = {
    "counts with proofs": (COUNTS, "prio3"),
    "numbers to 127 with proofs": (NUMBERS, "prio3"),
    "counts without proofs": (COUNTS, "none"),
}
AIMS = {"prio3": 1_500, "none": 3_000}
"""Reports a second, each server on one core."""
SMALL = 1_000
"""Users of a small batch."""
PATIENCE = 600


@contextmanager
def service(
    reward: str, validity: str, smallest: int = REPORTS // 2, **front: object
) -> Iterator[tuple[Home, dict[str, Child]]]:
    """Both servers; two batches are open, one an arm, which as many reports fill as there are turns."""
    with tempfile.TemporaryDirectory(prefix="croupier-bench-") as scratch:
        home = Home(Path(scratch), free_port(), free_port())
        experiment = Path(scratch) / "load.toml"
        experiment.write_text(EXPERIMENT.format(smallest=smallest, reward=reward, validity=validity))
        turns = {"ahead": 1.0, "due_within": 600}
        with both(home, [str(experiment)], front=turns | front) as children:
            yield home, children


def memory(child: Child) -> float:
    """The most that a server has ever held, in MB."""
    status = Path(f"/proc/{child.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Each kind of report; another store; another size of batches; and what is uploaded."""
    for name, kind in KINDS.items():
        with service(*kind) as (home, children):
            whole_way(name, kind[1], home, children)
    with postgres() as fresh, service(*KINDS["counts without proofs"], store=fresh()) as (home, children):
        whole_way("counts without proofs, one worker on PostgreSQL", "none", home, children)
    growth()
    uploads()


def whole_way(name: str, validity: str, home: Home, children: dict[str, Child]) -> None:
    """The whole way, each server's own part of it, and who sent the reports told apart."""
    bodies = sealed_reports(home)
    heading(f"{REPORTS:,} reports in shares, {name}: {len(bodies[0])} bytes each, sealed beforehand")
    opens, top = open_rate(home, bodies), ceiling(home, bodies, opening=True)
    # At the front one bare request that opens, at the analyzer one open: the least that two servers compute.
    least = {"front": top.cpu, "analyzer": 1.0 / opens}
    before = {server: cpu(child.process.pid) for server, child in children.items()}
    began = time.perf_counter()
    load = upload(home, bodies)
    rate = f"{load.rate:,.0f} reports/s", f"{load.rate / top.rate:.2f} × the ceiling"
    line("accepted and durable at the front (aim: 0.5 ×)", *rate)
    wait_for(home)
    took = time.perf_counter() - began
    line("the whole way to the policy, two cores for everything", f"{REPORTS / took:,.0f} reports/s")
    spent = {server: (cpu(child.process.pid) - before[server]) / REPORTS for server, child in children.items()}
    for server, seconds in spent.items():
        said = f"{1e6 * seconds:.0f} µs", f"least {1e6 * least[server]:.0f} µs", f"{least[server] / seconds:.2f} × it"
        line(f"CPU a report at the {server} (aim: {1e6 / AIMS[validity]:.0f} µs)", *said)
    line("CPU a report of who sent them, beside the servers", f"{1e6 * load.cpu / REPORTS:.0f} µs")
    aim = f"aim: {AIMS[validity]:,}"
    line(f"the whole way, each server on one core ({aim})", f"{1.0 / max(spent.values()):,.0f} reports/s")


def wait_for(home: Home, reports: int = REPORTS) -> None:
    """Until the policy knows them all."""
    end = time.monotonic() + PATIENCE
    while (known := httpx2.get(f"{home.analyzer_url}/experiments/load/state").json()["reports"]) < reports:
        assert time.monotonic() < end, f"the policy knows {known} of {reports} reports after {PATIENCE} s"
        time.sleep(0.05)


def growth() -> None:
    """Memory of the analyzer must not grow with a batch."""
    heading("Memory of the analyzer above where it began, counts with proofs")
    for smallest in (SMALL, REPORTS // 2):
        with service(*KINDS["counts with proofs"], smallest=smallest) as (home, children):
            bodies = sealed_reports(home, 2 * smallest)
            held = memory(children["analyzer"])
            upload(home, bodies)
            wait_for(home, len(bodies))
            line(f"batches of {smallest:,}", f"{memory(children['analyzer']) - held:.1f} MB")


def uploads() -> None:
    """Bytes of a report, whatever the batch."""
    heading("Bytes of a report in shares (aims: a number without proof 300; 8 bits with one 500 of proof and share)")
    for name, (reward, validity) in ({"numbers without proofs": (NUMBERS, "none")} | KINDS).items():
        with service(reward, validity) as (home, _):
            configuration = Configuration.from_text(httpx2.get(f"{home.analyzer_url}/experiments/load").json()["body"])
            # The first batches may not be open yet.
            while "offer" not in (answer := httpx2.post(f"{home.front_url}/experiments/load/assignments").json()):
                time.sleep(0.1)
            offer = Offer.from_text(answer["offer"]["body"])
        proved = configuration.validity.proved
        line(name, *(f"{upload_length(offer, suite, proved=proved)}, {suite}" for suite in SUITES))


if __name__ == "__main__":
    main()
