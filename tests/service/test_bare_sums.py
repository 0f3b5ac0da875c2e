"""No sum without noise lies anywhere: not in files, logs, metrics, nor is it kept in memory when its batch is released.

Each way of searching finds a sum that is left there on purpose.
"""

import logging
import secrets
from pathlib import Path

import pytest

from cases.service import stores
from cases.service.bare_sums import found, overhear, searched
from cases.service.machine import ANALYZER, FRONT
from cases.service.share_attacker import settled
from cases.service.shares import BITS, NAME, USERS, one_bit_a_user, opened
from croupier.messages.shares import SharedReport
from croupier.service.store import AnalyzerStore, FrontStore
from croupier.service.store.batch_keys import BatchKeys
from croupier.validity.xof import SEED

guards = pytest.mark.parametrize("guarded", [True, False], ids=["hidden", "left"])


@pytest.fixture
def heard(monkeypatch):
    """Every running sum of either server."""
    sums = []
    overhear(monkeypatch.setattr, sums.append)
    return sums


def reported(service):
    """A batch of random numbers that are large enough to be known again; their own sum, as both servers encode it."""
    steps = [secrets.randbits(BITS - 4) for _ in range(USERS)]
    for number in steps:
        service.reports(service.comes(value=number / 2**BITS))
    settled(service)
    ring = next(iter(service.live.open.values())).mechanism.ring
    return ring.encode([sum(steps)])


@guards
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_no_file_holds_a_seed_or_a_sum_without_noise(tmp_path, monkeypatch, kind, guarded):
    """Tables, dead rows and logs of the database, while the batch is open and after it was released."""
    if not guarded:
        monkeypatch.setattr(BatchKeys, "hide_all", lambda self, name, payloads: payloads)
        monkeypatch.setattr(BatchKeys, "show_all", lambda self, name, hidden: hidden)
    sums, seeds, made = [], [], SharedReport.to_bytes
    overhear(monkeypatch.setattr, sums.append)
    monkeypatch.setattr(SharedReport, "to_bytes", lambda self: (seeds.append(self.share[:SEED]), made(self))[1])
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path, kind, validity="none")
        total, (number,) = reported(service), service.live.open
        during = stores.bytes_of(kind, tmp_path)
        service.settled(2)
        after = stores.bytes_of(kind, tmp_path)
        assert NAME.encode() in after
        assert len(sums) == 2
        left = found([*sums, total], during, after)
        assert left == (set() if guarded else {*sums})
        assert [seed for seed in seeds if seed in during or seed in after] == ([] if guarded else seeds)
        if guarded:
            for store in (service.servers.front.front.store, service.servers.analyzer.store):
                assert f"{NAME}.sum.{number}" not in store.batch_keys.names()
        service.close()


class Everything(logging.Handler):
    """What anybody logs, whole, with what was added to it."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append(f"{record.getMessage()} {record.__dict__}")


@pytest.fixture
def logged():
    """All loggers at debug level."""
    handler, loggers = Everything(), [logging.getLogger(name) for name in (None, "croupier")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    loggers[0].addHandler(handler)
    yield handler.lines
    loggers[0].removeHandler(handler)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@guards
def test_no_log_at_debug_level_holds_a_sum_without_noise(tmp_path, monkeypatch, heard, logged, guarded):
    if not guarded:
        for store in (FrontStore, AnalyzerStore):
            monkeypatch.setattr(store, "_sum", _telling(store._sum, logging.getLogger("croupier").debug))
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path)
        total = reported(service)
        service.settled(2)
        assert service.records("released")
        assert logged
        left = found([*heard, total], "\n".join(logged).encode())
        assert left == (set() if guarded else {*heard})
        service.close()


def _telling(read, tell):
    """A store that tells each sum that it reads."""

    def told(self, connection, experiment, batch):
        if (known := read(self, connection, experiment, batch)) is not None:
            tell("a sum: %d", int.from_bytes(known.total, "little"))
        return known

    return told


@guards
def test_no_metric_of_either_server_is_a_sum_without_noise(tmp_path, monkeypatch, heard, guarded):
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path)
        total = reported(service)
        service.settled(2)
        front, analyzer = service.servers.front, service.servers.analyzer
        if not guarded:
            for meters, encoded in zip((analyzer.meters, front.meters), heard, strict=True):
                meters.show("waiting_seconds", {"a sum": float(int.from_bytes(encoded, "little"))})
        told = [service.servers.ask("GET", f"{url}/metrics").content for url in (ANALYZER, FRONT)]
        assert all(b"croupier_" in one for one in told)
        assert found([*heard, total], *told) == (set() if guarded else {*heard})
        service.close()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no /proc to read a memory from")
@guards
def test_no_server_keeps_a_sum_or_its_key_in_memory_once_the_batch_was_released(tmp_path, guarded):
    """Of both servers two running sums and a key, as bytes, as a Python integer and as text."""
    with searched(tmp_path, leave=not guarded) as (kept, memory):
        assert len(kept) == 2 * 3
        assert found(kept, memory) == (set() if guarded else {*kept})
