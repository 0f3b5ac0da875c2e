"""Programs of every registered kind, as a configuration describes them."""

from typing import Any

ARMS = ("red", "green", "blue")
BANDIT: dict[str, Any] = {
    "kind": "bandit",
    "name": "dist-dp-se",
    "arms": 3,
    "horizon": 4000,
    "epsilon": 1.0,
    "binary": True,
    "protocol_name": "shuffled-laplace",
}
COMPARISON: dict[str, Any] = {
    "kind": "comparison",
    "name": "split",
    "arms": 3,
    "horizon": 4000,
    "epsilon": 1.0,
    "binary": True,
    "protocol_name": "laplace",
    "trust": "two-servers",
    "minimum_run": 0.0,
}
COUNTER = {"kind": "counter", "users": 300, "shufflers": 2, "epsilon": 1.0, "over": "shuffled-bits", "smallest": 32}
HISTOGRAM: dict[str, Any] = {
    "kind": "histogram",
    "users": 50,
    "rounds": 9,
    "epsilon": 1.0,
    "delta": 1e-6,
    "universe": {"kind": "items", "names": ["a", "b"]},
}
LINEAR: dict[str, Any] = {
    "kind": "linear",
    "users": 3000,
    "epsilon": 2.0,
    "delta": 1e-6,
    "features": [{"name": "age", "low": 18, "high": 80}],
    "actions": ["red", "green", "blue"],
    "reward": {"low": 0.0, "high": 1.0, "binary": True, "clip": False},
    "control": 0.1,
    "precision": 254,
    "smallest": 32,
}

Case = tuple[dict[str, Any], tuple[str, ...]]
"""A program's parameters, and the names of its arms."""

BANDITS: list[Case] = [
    (BANDIT, ARMS),
    (BANDIT | {"name": "dp-klucb"}, ARMS),
    (BANDIT | {"name": "dp-thompson", "seed": 5}, ARMS),
]
COMPARISONS: list[Case] = [
    (COMPARISON, ARMS),
    (COMPARISON | {"protocol_name": "shuffled-laplace", "trust": "shuffler"}, ARMS),
]
LINEARS: list[Case] = [
    (LINEAR, ARMS),
    (LINEAR | {"described": [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]], "single": 1, "noise": "laplace"}, ARMS),
]
CASES: list[Case] = [*BANDITS, *COMPARISONS, (COUNTER, ()), (HISTOGRAM, ()), *LINEARS]
"""A new kind needs a line here, or `tests/test_cases.py` fails."""
