"""Experiments with proofs for tests of the service, and people who report to them, honestly or not."""

from __future__ import annotations

import random
from typing import Any

from cases.service import liars
from cases.service.shares import PLAN, Shares

ITEMS = ["tea", "coffee", "water", "milk", "juice"]
KINDS = {
    "count": {"reward": {"binary": True}},
    "number": {"reward": {"low": 0, "high": 127}},
    "histogram": {"program": {"kind": "histogram", "users": 14, "items": ITEMS}},
    "counter": {"program": {"kind": "counter", "users": 192, "shufflers": 2}},
}
USERS = {"count": 14, "number": 14, "histogram": 14, "counter": 32}
VALUES = {"count": 1.0, "number": 100.0, "histogram": "water", "counter": 1.0}


def experiment(kind: str, **more: Any) -> dict[str, Any]:
    """Where `USERS` honest users close a batch."""
    found = PLAN | {"batches": {"smallest": USERS[kind], "deadline": 60}} | KINDS[kind] | more
    dropped = ("arms", "reward", "batches") if kind in ("histogram", "counter") else ()
    return {key: value for key, value in found.items() if key not in dropped}


def honest(service: Shares, kind: str = "count") -> None:
    """Somebody reports, and is told that it counts."""
    person = service.comes(value=VALUES[kind])
    assert service.reports(person) == "accepted"


def lies(service: Shares, name: str, draw: random.Random) -> None:
    """Somebody sends one of `liars.LIES`, which nobody can tell yet."""
    turn = service.turn()
    person = service.with_body(turn, liars.upload(turn, liars.LIES[name].make(turn, draw)))
    assert service.reports(person) == "accepted"
