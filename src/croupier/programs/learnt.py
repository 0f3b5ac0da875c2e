"""What a personalised experiment has learnt so far, as its page and its rows show it: in the rewards' own units."""

from __future__ import annotations

import math
from typing import Any

from croupier.checks import CroupierError
from croupier.linear import Findings, Gain
from croupier.personal import LEVEL, Personal

UNPROVEN = "The rule explores less than is proven, so nothing is promised of what users lose."

FAILURE = 0.05
"""The chance that a bound which is shown fails."""


def learnt(findings: Findings, personal: Personal, ended: bool) -> dict[str, Any]:
    """Coefficients, who chooses what, and what personalisation gains; nothing before anything is known.

    Where no control share measures the gain its interval is for one look: nothing is claimed before it has `ended`.
    """
    body: dict[str, Any] = {
        "actions": list(personal.actions),
        "features": [] if personal.described else list(personal.context.names),
        "ranges": {one.name: [float(one.low), float(one.high)] for one in personal.context.features},
        "rewards": {"low": float(personal.reward.low), "high": float(personal.reward.high)},
        "batches": len(findings.batches),
        "caveat": "" if findings.plan.exploration >= 1.0 else UNPROVEN,
        "norm": findings.plan.sets.norm,
        "coefficients": [],
        "choices": [],
        "gain": None,
    }
    if not findings.batches:
        return body
    # Where actions share a parameter, a coefficient stands for a product: it has no unit of its own.
    context = None if personal.described else personal.context
    body["coefficients"] = [_coefficient(row, personal) for row in findings.coefficients(FAILURE, context)]
    body["choices"] = [_named(row, personal) for row in findings.choices(context, FAILURE)]
    return body | {"gain": _gain(findings, personal, ended)}


def _named(row: dict[str, Any], personal: Personal) -> dict[str, Any]:
    return row | ({"action": personal.actions[row["action"]]} if "action" in row else {})


def _coefficient(row: dict[str, Any], personal: Personal) -> dict[str, Any]:
    """In rewards: for one more of a feature, and last the mean in the middle of all ranges.

    No mean is beyond the rewards' own range, so no number is beyond what that allows. Where the interval is all of it,
    nothing is `known`.
    """
    low = float(personal.reward.low) if row["coefficient"] == LEVEL else 0.0
    least, most = _allowed(row["coefficient"], personal)
    numbers = {key: low + personal.reward.span * row[key] for key in ("value", "lower", "upper")}
    cut = {key: min(max(number, least), most) for key, number in numbers.items()}
    return _named(row, personal) | cut | {"known": cut["lower"] > least or cut["upper"] < most}


def _allowed(coefficient: str, personal: Personal) -> tuple[float, float]:
    """What a mean of rewards, or its change with one more of a feature, can be; of a product nothing is known."""
    if personal.described:
        return -math.inf, math.inf
    if coefficient == LEVEL:
        return float(personal.reward.low), float(personal.reward.high)
    feature = next(one for one in personal.context.features if one.name == coefficient)
    most = personal.reward.span / (float(feature.high) - float(feature.low))
    return -most, most


def _gain(findings: Findings, personal: Personal, ended: bool) -> dict[str, Any] | None:
    """What is gained over the best single action; None while only the first batch is in, or no model says."""
    try:
        found = findings.gain(FAILURE)
    except CroupierError:
        return None
    low, span = float(personal.reward.low), personal.reward.span
    apart = {"gain": span * found.gain, "lower": span * found.lower, "upper": span * found.upper}
    means = {"personal": low + span * found.personal, "single": low + span * found.single}
    numbers = apart | means
    action = None if found.action is None else personal.actions[found.action]
    said = {
        "action": action,
        "users": found.users,
        "measured": found.measured,
        "verdict": _verdict(found) if ended or found.measured else "open",
    }
    return numbers | said | {"sentence": _sentence(numbers, said, ended)}


def _verdict(gain: Gain) -> str:
    """In one word, what the interval says: "gains", "loses", or that it is "open"."""
    return "gains" if gain.lower > 0.0 else "loses" if gain.upper < 0.0 else "open"


def _sentence(numbers: dict[str, Any], said: dict[str, Any], ended: bool) -> str:
    """The same for people; where there is no gain, it says that."""
    over = f"giving everybody {said['action']}" if said["action"] else "the best single action"
    within = f"({numbers['lower']:+.3g} to {numbers['upper']:+.3g})"
    by = f"{abs(numbers['gain']):.3g} a user {within}"
    how = "" if said["measured"] else "as the model says, and no control share measured it: "
    if said["verdict"] == "gains":
        return f"{how}personalisation gains {by} over {over}"
    if said["verdict"] == "loses":
        return f"{how}there is no gain: personalisation loses {by} against {over}"
    yet = "no gain is shown yet: " if said["measured"] else "nothing is claimed before the end; so far "
    known = "no gain is shown: " if ended else yet
    return f"{how}{known}personalisation differs from {over} by {numbers['gain']:+.3g} a user {within}"
