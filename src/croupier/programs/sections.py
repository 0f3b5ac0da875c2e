"""What an experiment's file may hold: every key of every section, how each value is checked, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from croupier.bandits import Metric
from croupier.bandits.metrics import CARRIED
from croupier.checks import CroupierError, InvalidParameter, between, did_you_mean, finite, integer, one_of
from croupier.messages.configuration import TRUSTS
from croupier.messages.validity import VALIDITIES
from croupier.protocols import ROWS, default_protocol, protocol
from croupier.protocols.padding import CAP_SHARE
from croupier.protocols.sums.protocol import DEFAULT_DELTA

MOST_USERS = 10**12
LONGEST = 2.0**53
"""Seconds; the front counts no further."""

HONEST = 0.9
DEFAULT_TRUST = "two-servers"
COUNTED_ON = ("devices", "shuffler")
"""The trusts under which users of a batch are counted on."""

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
        "trust": text,
    },
    "reward": dict.fromkeys(("protocol", "constants", "side"), text)
    | dict.fromkeys(("low", "high"), finite)
    | dict.fromkeys(("binary", "clip"), truth),
    "reports": {
        "report_within": whole(1, 2**31),
        "report_at": of(list, "two numbers of seconds, as [300, 600]"),
        "default": lambda name, value: value,
        "repeat": truth,
        "validity": lambda name, value: one_of(name, value, VALIDITIES),
    },
    "batches": {"smallest": whole(1, MOST_USERS), "deadline": within(1.0, LONGEST)},
    "decision": {
        "confidence": within(0.5, 1.0, "[)"),
        "smallest_effect": within(0.0, 1.0, "()"),
        "rate": within(0.0, 1.0, "()"),
        "then": text,
        "control_share": within(0.0, 1.0, "[)"),
        "most_arms": whole(2, 1024),
        "minimum_run": within(0.0, LONGEST),
    },
}
"""What each section of the file may hold, and how each value is checked; `program` is the program's own."""


def checked(section: str, body: Any, checks: dict[str, Check]) -> Section:
    """A section of which every key is known and every value is in its range."""
    if not isinstance(body, dict):
        raise InvalidParameter(section, body, "a section")
    for key in body:
        if key not in checks:
            known = ", ".join(checks) + did_you_mean(key, checks)
            raise CroupierError(f"{section}.{key} is unknown here: [{section}] holds {known}")
    return {key: checks[key](f"{section}.{key}", value) for key, value in body.items()}


def target(sections: dict[str, Section], trust: str, *, counted: bool) -> Section:
    """ε, δ and γ as a program takes them; of a counted message's δ a share is kept back for the limit on its noise."""
    given = sections["privacy"]
    asked: Section = {"epsilon": given.get("epsilon", 1.0)}
    for key, usual, trusts in (("honest_fraction", HONEST, COUNTED_ON), ("front_noise", True, ("shuffler",))):
        if trust in trusts:
            asked[key] = given.get(key, usual)
        elif key in given:
            raise InvalidParameter(f"privacy.{key}", given[key], f"left out where the trust is {trust}")
    if counted:
        asked["delta"] = given.get("delta", DEFAULT_DELTA) / (1.0 + CAP_SHARE)
    elif "delta" in given:
        asked["delta"] = given["delta"]
    return asked


def trusted(sections: dict[str, Section], possible: Sequence[str] = TRUSTS) -> str:
    """Whom the experiment trusts: as it says, or the first that is possible, beginning with one of two servers."""
    given = sections["privacy"].get("trust")
    usual = DEFAULT_TRUST if DEFAULT_TRUST in possible else possible[0]
    return str(one_of("privacy.trust", usual if given is None else given, tuple(possible)))


def summing(sections: dict[str, Section]) -> tuple[str, Section]:
    """The protocol that sums a batch, and its options."""
    reward = dict(sections["reward"])
    name = reward.pop("protocol", None)
    trust = trusted(sections) if name is None else ""
    name = name or default_protocol(trust)
    row = ROWS.find(name, "reward.protocol")
    possible = [kind for kind in row.trusts if kind in TRUSTS]
    if not possible or row.vectors:
        carried = [kind.name for kind in ROWS.values() if {*kind.trusts} & {*TRUSTS} and not kind.vectors]
        raise InvalidParameter("reward.protocol", name, "one that the servers carry: " + ", ".join(carried))
    trust = trust or trusted(sections, possible)
    # Who gives a range of their own means numbers within it, unless they say otherwise.
    binary = reward.pop("binary", row.binary_only or not {"low", "high"} & reward.keys())
    if row.binary_only and not binary:
        raise InvalidParameter("reward.binary", binary, f"true: {name} sums one of two values")
    options = target(sections, trust, counted=row.caps_noise) | ({"trust": trust} if len(row.trusts) > 1 else {})
    return name, options | reward | ({} if row.binary_only else {"binary": binary})


def measuring(sections: dict[str, Section]) -> tuple[str, Section]:
    """The same where a report may have several metrics; a single one is the reward, under a name of its own."""
    tables = sections["metrics"]
    if not tables:
        return summing(sections)
    if sections["reward"]:
        key, value = next(iter(sections["reward"].items()))
        raise InvalidParameter(f"reward.{key}", value, "left out: [metrics] say what is reported")
    if len(tables) == 1:
        ((name, table),) = tables.items()
        only = Metric.of(name, table, role="primary")
        reward = {"low": only.low, "high": only.high, "binary": only.binary, "clip": only.cap}
        return summing(sections | {"reward": reward})
    trust = trusted(sections)
    if trust != DEFAULT_TRUST:
        raise InvalidParameter("privacy.trust", trust, f"{DEFAULT_TRUST} where there are several metrics")
    asked = target(sections, trust, counted=False)
    return CARRIED["protocol_name"], asked | {"trust": trust, "metrics": tables}


def smallest_batch(sections: dict[str, Section], name: str, options: Section) -> Section:
    """The smallest batch, where one is asked for; one that the protocol cannot hide is refused."""
    given = sections["batches"].get("smallest")
    if given is None:
        return {}
    least = protocol(name, **{key: value for key, value in options.items() if key != "metrics"}).smallest
    if given < least:
        at = f" at honest_fraction = {options['honest_fraction']:g}" if "honest_fraction" in options else ""
        allowed = f"a whole number >= {least}, the smallest batch of {name}{at}"
        raise InvalidParameter("batches.smallest", given, allowed)
    return {"smallest": given}
