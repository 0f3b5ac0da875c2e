"""What an experiment's file may hold: every key of every section, and how each value is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from croupier.bandits import Elimination, IndexPolicy, Thompson
from croupier.checks import CroupierError, InvalidParameter, between, finite, integer

MOST_USERS = 10**12
LONGEST = 2.0**53
"""Seconds; the front counts no further."""

Section = dict[str, Any]
Check = Callable[[str, Any], Any]


def _whole(least: int, most: int) -> Check:
    return lambda name, value: integer(name, value, least, most)


def _within(low: float, high: float, ends: str = "[]") -> Check:
    return lambda name, value: float(between(name, value, low, high, ends))


def _of(kind: type, words: str) -> Check:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind) or value == "":
            raise InvalidParameter(name, value, words)
        return value

    return check


_text, _truth = _of(str, "a text"), _of(bool, "true or false")

SECTIONS: dict[str, dict[str, Check]] = {
    "privacy": {
        # Beyond these no mechanism can be planned in reasonable time, or its δ is no longer below one.
        "epsilon": _within(0.01, 20.0),
        "delta": _within(1e-12, 1.0, "[)"),
        "honest_fraction": _within(0.0, 1.0, "(]"),
        "unit": _of(str, "words that say who a user is"),
        "period": _whole(1, int(LONGEST)),
        "front_noise": _truth,
    },
    "reward": dict.fromkeys(("protocol", "constants", "side"), _text)
    | dict.fromkeys(("low", "high"), finite)
    | dict.fromkeys(("binary", "clip"), _truth),
    "batches": {"smallest": _whole(1, MOST_USERS), "deadline": _within(1.0, LONGEST)},
}
"""What each section of the file may hold, and how each value is checked."""

PROGRAMS: dict[str, dict[str, Check]] = {
    "bandit": {
        "kind": _text,
        "policy": _text,
        "horizon": _whole(1, MOST_USERS),
        "growth": _within(1.0, 100.0),
        "failure": _within(0.0, 1.0, "()"),
        "exploration": _within(0.0, 100.0, "(]"),
        "seed": _whole(0, 2**53),
    },
    "counter": {"kind": _text, "users": _whole(2, MOST_USERS), "shufflers": _whole(1, 64)},
    "histogram": {
        "kind": _text,
        "users": _whole(1, MOST_USERS),
        "rounds": _whole(1, 10**6),
        "items": _of(list, "a list of texts"),
        "universe": _of(
            dict, 'a table, as {kind = "buckets", bits = 16, salt = "2024", candidates = ["tea", "coffee"]}'
        ),
        "failure": _within(0.0, 1.0, "()"),
    }
    | dict.fromkeys(("constants", "side", "minimise"), _text),
}
"""The same for the section `program` of each kind."""

NEEDED = {"bandit": "horizon", "counter": "users", "histogram": "users"}

TAKEN_BY = {"failure": Elimination, "exploration": IndexPolicy, "seed": Thompson}
"""Options of some policies only: others would leave them unread."""


def checked(section: str, found: Any, checks: dict[str, Check]) -> Section:
    """A section of which every key is known and every value is in its range."""
    if not isinstance(found, dict):
        raise InvalidParameter(section, found, "a section")
    for key in found:
        if key not in checks:
            raise CroupierError(f"{section}.{key} is unknown here: [{section}] holds " + ", ".join(checks))
    return {key: checks[key](f"{section}.{key}", value) for key, value in found.items()}
