"""What an experiment's file may hold: every key of every section, how each value is checked, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, between, finite, integer
from croupier.protocols import ROWS, protocol
from croupier.protocols.padding import CAP_SHARE
from croupier.protocols.sums.protocol import DEFAULT_DELTA

MOST_USERS = 10**12
LONGEST = 2.0**53
"""Seconds; the front counts no further."""

HONEST = 0.9

Section = dict[str, Any]
Check = Callable[[str, Any], Any]


def whole(least: int, most: int) -> Check:
    """A whole number in this range."""
    return lambda name, value: integer(name, value, least, most)


def within(low: float, high: float, ends: str = "[]") -> Check:
    """A number in this range."""
    return lambda name, value: float(between(name, value, low, high, ends))


def of(kind: type, words: str) -> Check:
    """Something of this type that is no empty text; the words say what."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind) or value == "":
            raise InvalidParameter(name, value, words)
        return value

    return check


text, truth = of(str, "a text"), of(bool, "true or false")

SECTIONS: dict[str, dict[str, Check]] = {
    "privacy": {
        # Beyond these no mechanism can be planned in reasonable time, or its δ is no longer below one.
        "epsilon": within(0.01, 20.0),
        "delta": within(1e-12, 1.0, "[)"),
        "honest_fraction": within(0.0, 1.0, "(]"),
        "unit": of(str, "words that say who a user is"),
        "period": whole(1, int(LONGEST)),
        "front_noise": truth,
    },
    "reward": dict.fromkeys(("protocol", "constants", "side"), text)
    | dict.fromkeys(("low", "high"), finite)
    | dict.fromkeys(("binary", "clip"), truth),
    "batches": {"smallest": whole(1, MOST_USERS), "deadline": within(1.0, LONGEST)},
}
"""What each section of the file may hold, and how each value is checked; `program` is the program's own."""


def checked(section: str, body: Any, checks: dict[str, Check]) -> Section:
    """A section of which every key is known and every value is in its range."""
    if not isinstance(body, dict):
        raise InvalidParameter(section, body, "a section")
    for key in body:
        if key not in checks:
            raise CroupierError(f"{section}.{key} is unknown here: [{section}] holds " + ", ".join(checks))
    return {key: checks[key](f"{section}.{key}", value) for key, value in body.items()}


def target(sections: dict[str, Section], *, counted: bool) -> Section:
    """ε, δ and γ as a program takes them; of a counted message's δ a share is kept back for the limit on its noise."""
    given = sections["privacy"]
    asked: Section = {
        "epsilon": given.get("epsilon", 1.0),
        "honest_fraction": given.get("honest_fraction", HONEST),
        "front_noise": given.get("front_noise", True),
    }
    if counted:
        asked["delta"] = given.get("delta", DEFAULT_DELTA) / (1.0 + CAP_SHARE)
    elif "delta" in given:
        asked["delta"] = given["delta"]
    return asked


def summing(sections: dict[str, Section]) -> tuple[str, Section]:
    """The protocol that sums a batch, and its options."""
    reward = dict(sections["reward"])
    name = reward.pop("protocol", "shuffled-laplace")
    row = ROWS.find(name)
    if row.trust != "shuffler" or row.vectors:
        carried = [kind.name for kind in ROWS.values() if kind.trust == "shuffler" and not kind.vectors]
        raise InvalidParameter("protocol", name, "one that a front carries: " + ", ".join(carried))
    # Who gives a range of their own means numbers within it, unless they say otherwise.
    binary = reward.pop("binary", row.binary_only or not {"low", "high"} & reward.keys())
    if row.binary_only and not binary:
        raise InvalidParameter("reward.binary", binary, f"true: {name} sums one of two values")
    return name, target(sections, counted=row.caps_noise) | reward | ({} if row.binary_only else {"binary": binary})


def smallest_batch(sections: dict[str, Section], name: str, options: Section) -> Section:
    """The smallest batch, where one is asked for; one that the protocol cannot hide is refused."""
    given = sections["batches"].get("smallest")
    if given is None:
        return {}
    least, fraction = protocol(name, **options).smallest, options["honest_fraction"]
    if given < least:
        allowed = f"a whole number >= {least}, the smallest batch of {name} at honest_fraction = {fraction:g}"
        raise InvalidParameter("batches.smallest", given, allowed)
    return {"smallest": given}
