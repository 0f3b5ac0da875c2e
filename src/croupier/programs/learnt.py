"""What a personalised experiment has learnt so far, as its page and its rows show it."""

from __future__ import annotations

import math
from typing import Any

from croupier.checks import CroupierError
from croupier.linear import Findings, Gain
from croupier.personal import Personal

FAILURE = 0.05
"""The chance that a bound which is shown fails."""


def learnt(findings: Findings, personal: Personal) -> dict[str, Any]:
    """Coefficients, who chooses what, and what personalisation gains; None or nothing before anything is known."""
    body: dict[str, Any] = {
        "actions": list(personal.actions),
        "batches": len(findings.batches),
        "proven": findings.plan.exploration >= 1.0,
        "coefficients": [],
        "choices": [],
        "gain": None,
        "single": None,
    }
    if not findings.batches:
        return body
    body["coefficients"] = [_named(row, personal) for row in findings.coefficients(FAILURE, _context(personal))]
    body["choices"] = [_named(row, personal) for row in findings.choices(_context(personal), FAILURE)]
    single = findings.single
    return body | {"gain": _gain(findings), "single": None if single is None else personal.actions[single]}


def _context(personal: Personal) -> Any:
    """Where actions share a parameter, a coefficient stands for a product: it has no unit of its own."""
    return None if personal.described else personal.context


def _named(row: dict[str, Any], personal: Personal) -> dict[str, Any]:
    named = {"action": personal.actions[row["action"]]} if "action" in row else {}
    return row | named


def _gain(findings: Findings) -> dict[str, Any] | None:
    """What is gained over the best single action; None while only the first batch is in, or no model says."""
    try:
        found: Gain = findings.gain(FAILURE)
    except CroupierError:
        return None
    said = {"personal": found.personal, "single": found.single, "users": found.users, "measured": found.measured}
    numbers = {"gain": found.gain, "lower": found.lower, "upper": found.upper} | said
    shown = {key: None if isinstance(one, float) and math.isnan(one) else one for key, one in numbers.items()}
    return shown | {"verdict": _verdict(found)}


def _verdict(gain: Gain) -> str:
    """In one word, what the interval says: "gains", "loses", or that it is "open"."""
    return "gains" if gain.lower > 0.0 else "loses" if gain.upper < 0.0 else "open"
