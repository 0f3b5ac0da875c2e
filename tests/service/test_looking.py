"""How often the analyzer looks at the front: rarely while nothing happens, and at once when something does."""

import asyncio
from types import SimpleNamespace

import pytest

from croupier.service import analyzer as room
from croupier.service.analyzer import RAREST, Analyzer

POLL = 0.05


class Idle(Analyzer):
    """Its rounds find nothing, and want to wait for `pause`."""

    def __init__(self, pause=POLL):
        self.live, self.pause = {"a": SimpleNamespace(version=0, settled=0)}, pause

    async def round(self, live, published, poll):
        return self.pause


def waits(analyzer, monkeypatch, happens, rounds=60):
    """How long it waited after each round, when in round 40 something happens."""
    waited = []

    async def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 40:
            happens(analyzer.live["a"])
        if len(waited) == rounds:
            raise asyncio.CancelledError

    monkeypatch.setattr(room.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(analyzer.run("a", POLL))
    return waited


@pytest.mark.parametrize("what", ["version", "settled"])
def test_looks_grow_rarer_while_nothing_happens_and_any_event_brings_them_back(what, monkeypatch):
    waited = waits(Idle(), monkeypatch, lambda live: setattr(live, what, 1))
    assert waited[0] == waited[40] == POLL
    assert waited[:40] == sorted(waited[:40])
    assert waited[39] == waited[59] == RAREST * POLL


def test_a_round_that_wants_a_longer_pause_has_it(monkeypatch):
    assert set(waits(Idle(pause=2.0), monkeypatch, lambda live: None)) == {2.0}
