"""`croupier price`: what privacy costs one batch, for one protocol, for all sums or for all histograms side by side."""

from __future__ import annotations

import argparse
import math
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, did_you_mean, integer
from croupier.cli.options import (
    GIVEN,
    WHO,
    add_target,
    leave_out,
    positive_epsilon,
    print_json,
    protocol_from,
    protocol_options,
    said,
)
from croupier.cli.progress import progress
from croupier.cli.tables import number, table
from croupier.programs.sections import DEFAULT_TRUST
from croupier.protocols import ROWS, Numbers, SumMechanism, default_protocol, histogram, selection
from croupier.protocols.histograms.target import PURE, trusted_model
from croupier.protocols.mechanism import TRUSTS
from croupier.protocols.sums.protocol import DEFAULT_DELTA
from croupier.protocols.sums.values import Values
from croupier.simulation.prices import IN_SHARES, price, priceable, prices
from croupier.texts import plural

NAME = "price"
SUMMARY = "what privacy costs a batch: noise, exact privacy, error, messages"
ABOUT = (
    "Says what privacy costs one batch of users: the noise, the exact privacy, the error and the messages. "
    "Without PROTOCOL it compares all of them, and with --items all histograms."
)
EXAMPLES = (
    "croupier price --users 1000 --epsilon 0.5",
    "croupier price shuffled-bits --users 1000 --epsilon 0.5",
    "croupier price --users 10000 --epsilon 0.5 --items 1000",
)


def add(command: argparse.ArgumentParser) -> None:
    """The protocol (all of them when left out) and its target."""
    add_target(command, protocol_required=False)
    command.add_argument("--items", type=int, metavar="K", help="size of the universe: prices histograms instead")


def run(options: argparse.Namespace) -> int:
    """Price one protocol, or compare all."""
    integer("users", options.users, 1)
    if options.items is not None or options.protocol == HISTOGRAM:
        return _histograms(options)
    if options.protocol is None:
        return _compare(options)
    mechanism = protocol_from(options, options.protocol, options.constants or "tight").plan(options.users)
    common = options.delta or DEFAULT_DELTA
    if options.json:
        print_json([price(mechanism, options.epsilon, common)])
        return 0
    _describe(mechanism, options.epsilon, common, _usual_trust(options, mechanism))
    return 0


def _usual_trust(options: argparse.Namespace, mechanism: SumMechanism) -> list[str]:
    """What an experiment pays that says nothing of trust, where a protocol's own is another: it is easily mistaken."""
    offered = ROWS.find(ROWS.admit(options.protocol)).trusts
    if options.trust is not None or mechanism.trust == DEFAULT_TRUST or DEFAULT_TRUST not in offered:
        return []
    unread = dict.fromkeys(IN_SHARES) | {"honest_fraction": 1.0, "trust": DEFAULT_TRUST}
    try:
        asked = protocol_from(argparse.Namespace(**vars(options) | unread), options.protocol, "tight")
        usual = asked.plan(options.users)
        radius, deviation = number(usual.radius(0.05)), number(math.sqrt(usual.variance))
        there = f"There the standard deviation is {deviation} and the 95 % error radius {radius}"
    except CroupierError as error:
        there = f"There it cannot be priced: {error}"
    return [
        f"This is for trust in {mechanism.trust}, the protocol's own. An experiment trusts {DEFAULT_TRUST} unless it "
        f"says otherwise: {WHO[DEFAULT_TRUST]}. {there} (--trust {DEFAULT_TRUST})."
    ]


def _describe(mechanism: SumMechanism, epsilon: float, common: float, notes: list[str]) -> None:
    row = price(mechanism, epsilon, common)
    radius = row["radius_95"]
    spread = f"{mechanism.values.low:g} to {mechanism.values.high:g}"
    side = {"unbiased": "unbiased", "over": "never below the truth", "under": "never above the truth"}
    rows = [
        ("guarantee", str(mechanism.guarantee)),
        ("exact privacy" if row["exact"] else "privacy, at most", _exact(row)),
        ("noise in the sum", repr(mechanism.noise)),
        ("noise of one party", repr(mechanism.share)),
        ("trusts", f"{mechanism.trust}: {WHO[mechanism.trust]}"),
        ("encoding", f"steps of 1/{mechanism.precision} of the range {spread}"),
        ("carrier", repr(mechanism.carrier)),
        ("estimate", side[mechanism.side]),
        ("standard deviation", f"{number(row['standard_deviation'])} in the sum of {mechanism.users:,} values"),
        ("rounding adds at most", f"{number(math.sqrt(row['rounding_variance']))} standard deviation"),
        ("95 % error radius", f"{number(radius)}, so {number(radius / mechanism.users)} in the mean"),
        ("messages per user", number(row["messages_per_user"])),
        ("bits per user", number(row["bits_per_user"])),
    ]
    if row["delta"] != common:
        relation = "=" if row["exact_at_common_delta"] else "≤"
        found = number(row["epsilon_at_common_delta"])
        rows[2:2] = [("for comparison", f"ε {relation} {found} at δ = {number(common)}")]
    if 0 < mechanism.honest < mechanism.users:
        rows.append(("honest users counted on", f"{mechanism.honest:,} of {mechanism.users:,}"))
        rows.append(("bias if others add no noise", f"at most {number(row['omission_bias'])}"))
    if mechanism.front_shares:
        rows.append(("the front adds", f"a whole noise of its own, in {row['front_messages']:,} messages a batch"))
    heading = f"{mechanism.constants} constants, {plural(mechanism.users, 'user')}, trust: {mechanism.trust}"
    table([mechanism.protocol, heading], rows, right=set(), notes=notes)


def _exact(row: dict[str, Any]) -> str:
    if row["notion"] == "pure":
        return f"ε = {number(row['exact_epsilon'])} with δ = 0"
    relation = "=" if row["exact"] else "≤"
    return (
        f"δ {relation} {number(row['exact_delta'])} at ε = {number(row['claimed_epsilon'])}, "
        f"ε {relation} {number(row['exact_epsilon'])} at δ = {number(row['delta'])}"
    )


PROMISES = {
    "pure": "pure {claimed_epsilon}",
    "approximate": "({claimed_epsilon}, {delta})",
    "renyi": "({order}, {divergence})-RDP",
    "concentrated": "{rho}-zCDP",
}
"""A promise in short, by its notion and with that notion's own numbers."""

WRITTEN = {"claimed_epsilon": 3, "delta": 2, "order": 3, "divergence": 3, "rho": 3}
"""Digits of each number in a promise."""


def _promise(row: dict[str, Any]) -> str:
    numbers = {key: number(row[key], digits) for key, digits in WRITTEN.items() if row[key] is not None}
    return PROMISES[row["notion"]].format(**numbers)


def _compare(options: argparse.Namespace) -> int:
    """All protocols for one batch, published constants against tight ones."""
    # Else every row of numbers would be refused for the same reason.
    Values(options.low or 0.0, 1.0 if options.high is None else options.high)
    kinds = (options.constants,) if options.constants else ("published", "tight")
    with progress("protocols", len(priceable(kinds, options.trust))) as advance:
        every = prices(
            options.users,
            epsilon=positive_epsilon(options),
            delta=options.delta,
            constants=kinds,
            progress=advance,
            honest_fraction=options.honest_fraction,
            **{flag: getattr(options, flag) for flag in GIVEN if getattr(options, flag) is not None},
        )
    priced, refused = [row for row in every if "refused" not in row], [row for row in every if "refused" in row]
    if not priced:
        raise CroupierError(refused[0]["refused"])
    if options.json:
        print_json(priced + refused)
        return 0
    ends = any(row["binary"] for row in priced) and not all(row["binary"] for row in priced)
    rows = [
        line
        for whom in TRUSTS
        if (those := [row for row in priced if row["trust"] == whom])
        for line in ([f"{whom}:", *[""] * 6], *(_compared(row, ends) for row in those))
    ]
    delta = number(options.delta or DEFAULT_DELTA)
    table(
        ["trust: protocol", "constants", "promise", f"ε at δ = {delta}", "std", "radius", "messages"],
        rows,
        right={3, 4, 5, 6},
        title=f"The price of privacy: the sum of {options.users:,} values in "
        f"[{options.low or 0:g}, {1 if options.high is None else options.high:g}], asked for ε = {options.epsilon:g}",
        notes=[
            f"Promises of different kinds are compared by their ε at one δ, here {delta}: recomputed from the noise "
            "itself, exact, or a bound where it says ≤. Where it lies below the promise, noise was paid for and not "
            "needed; tight constants spend what was promised.",
            "(ε, δ) and pure rows promise the ε asked for. ρ-zCDP and (α, divergence)-RDP rows do not: there ε is a "
            f"parameter of the noise, and what they come to as (ε, δ)-DP is the column ε at δ = {delta}.",
            *said(protocol_options(options)),
            *([BINARY.format(low=options.low or 0, high=1 if options.high is None else options.high)] if ends else []),
            "Standard deviation and 95 % radius: of the whole sum (vectors: per coordinate), with rounding at its "
            "worst. Messages: per user.",
            *_beside_users(priced, options.users),
            "croupier price --items K prices histograms.",
            *(f"{refusal['protocol']} ({refusal['constants']}): {refusal['refused']}" for refusal in refused),
            *ROWS.refused(),
        ],
    )
    return 0


BINARY = (
    "* Only for values that are {low:g} or {high:g}, and nothing between. The others take any value in the range; "
    "--binary prices those for the same."
)


def _compared(row: dict[str, Any], marked: bool) -> list[str]:
    """A protocol's cells; those for two values only are `marked` where others take more."""
    return [
        row["protocol"] + ("*" if marked and row["binary"] else ""),
        row["constants"],
        _promise(row),
        ("" if row["exact_at_common_delta"] else "≤ ") + number(row["epsilon_at_common_delta"], 3),
        number(row["total_standard_deviation"], 3),
        number(row["radius_95"], 3),
        number(row["messages_per_user"], 3),
    ]


def _beside_users(priced: list[dict[str, Any]], users: int) -> list[str]:
    """What the second noise of two servers comes to, beside what users themselves vary."""
    summed = [row for row in priced if (row["protocol"], row["constants"]) == (SUMMED, "tight")]
    noises = {row["trust"]: row["variance"] for row in summed}
    if not {"two-servers", "devices"} <= noises.keys():
        return []
    own = users * summed[0]["span"] ** 2 / 4.0
    more = math.sqrt((own + noises["two-servers"]) / (own + noises["devices"])) - 1.0
    return [
        f"Two servers' {SUMMED} has two noises: variance {number(noises['two-servers'], 3)} instead of "
        f"{number(noises['devices'], 3)}. Beside users who vary by {number(own, 3)} themselves, as coins do, an error "
        f"grows by {100.0 * more:.2g} %."
    ]


SUMMED = default_protocol("two-servers")
"""What two servers sum by; devices can add its noise as well."""

HISTOGRAM = "histogram"

HISTOGRAMS = (
    ("two-servers", None, "tight", "error"),
    ("shuffle", "over", "published", "error"),
    ("shuffle", "over", "tight", "error"),
    ("shuffle", "over", "tight", "messages"),
    ("shuffle", "under", "published", "error"),
    ("shuffle", "under", "tight", "error"),
    ("shuffle", "both", "tight", "error"),
    ("local", None, "published", "error"),
    ("local", None, "tight", "error"),
    ("central", None, "published", "error"),
    ("central", None, "tight", "error"),
    ("central-pure", None, "tight", "error"),
)
"""Models, sides and constants of histograms, and what is least."""

ERRS = {"over": "never below", "under": "never above", "both": "bounded", None: "either way"}


def _histograms(options: argparse.Namespace) -> int:
    """All histograms of one universe: what they promise, how far they err, what a user sends."""
    if options.protocol not in (None, HISTOGRAM):
        meant = did_you_mean(options.protocol, (HISTOGRAM,))
        raise InvalidParameter("protocol", options.protocol, f"histogram, or left out, with --items{meant}")
    if options.items is None:
        raise InvalidParameter("items", None, "given: how many items the universe has")
    leave_out(options, ("participations", "scaling", "binary", "low", "high", "dimension"), "histograms do not read it")
    priced: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    model = None if options.trust is None else trusted_model(options.trust)
    cases = [case for case in HISTOGRAMS if options.constants in (None, case[2]) and case[0].startswith(model or "")]
    if all(case[0] != "shuffle" for case in cases):
        leave_out(options, ("front_noise", "honest_fraction"), "only histograms by a shuffler read it")
    with progress("histograms", len(cases)) as advance:
        for case in cases:
            try:
                priced.append(_priced_histogram(options, *case))
            except CroupierError as error:
                named = dict(zip(("model", "side", "constants", "minimise"), case, strict=True))
                refused.append({**named, "refused": str(error)})
            advance(1)
    if not priced:
        raise CroupierError(refused[0]["refused"])
    if options.json:
        print_json(priced + refused)
        return 0
    delta = number(options.delta or DEFAULT_DELTA)
    table(
        ["model", "counts", "constants", f"ε at δ = {delta}", "std", "95 % error", "of the winner", "messages", "bits"],
        [
            [
                row["model"],
                ERRS[row["side"]],
                row["constants"] + (", few messages" if row["minimise"] == "messages" else ""),
                number(row["epsilon_at_common_delta"], 3),
                number(row["standard_deviation"], 3),
                number(row["radius_95"]),
                number(row["winner_error_95"]),
                number(row["messages_per_user"]) + ("*" if row["simulation_only"] else ""),
                number(row["bits_per_user"]),
            ]
            for row in priced
        ],
        right={3, 4, 5, 6, 7, 8},
        title=f"The price of privacy: {plural(options.users, 'user')}, {plural(options.items, 'item')}, "
        f"ε = {options.epsilon:g}",
        notes=_histogram_notes(priced, refused),
    )
    return 0


def _histogram_notes(priced: list[dict[str, Any]], refused: list[dict[str, Any]]) -> list[str]:
    trusted = {row["model"]: row["trusts"] for row in priced}
    limited = (
        "* More than a device would send: simulation only. To count under, a user sends every item not held; in "
        "shares, a number for every item."
    )
    return [
        "Whom a model trusts: " + ", ".join(f"{model}: {whom}" for model, whom in trusted.items()) + ".",
        "ε is recomputed from the noise at one δ for all, and rounded up.",
        "95 % error: of the worst count of all items, negative ones taken as 0. Of the winner: how far a selection's "
        "winner may be below the best item. Messages and bits: per user; in the shuffle model they grow with the "
        "universe, since noise is sent for every item.",
        *([limited] if any(row["simulation_only"] for row in priced) else []),
        *(f"{case['model']} {case['side'] or ''} ({case['constants']}): {case['refused']}" for case in refused),
    ]


def _priced_histogram(
    options: argparse.Namespace, model: str, side: str | None, constants: str, minimise: str
) -> dict[str, Any]:
    target: dict[str, Any] = {
        "epsilon": options.epsilon,
        "delta": None if model in PURE else options.delta,
        "model": model,
        "constants": constants,
        "side": side,
        "honest_fraction": options.honest_fraction if model == "shuffle" else 1.0,
        "minimise": minimise,
    }
    front = bool(options.front_noise) and model == "shuffle" and side != "both"
    mechanism = histogram(universe=Numbers(options.items), **target, front_noise=front).plan(options.users)
    winner = selection(size=options.items, **target).plan(options.users)
    certificate, common = mechanism.certificate(), options.delta or DEFAULT_DELTA
    return {
        "protocol": HISTOGRAM,
        "model": model,
        "trusts": mechanism.trust,
        "side": side,
        "constants": constants,
        "minimise": minimise,
        "users": mechanism.users,
        "items": mechanism.size,
        "epsilon": mechanism.guarantee.epsilon,
        "delta": mechanism.guarantee.delta,
        "exact_epsilon": certificate.epsilon,
        "exact_delta": certificate.delta,
        "common_delta": common,
        "epsilon_at_common_delta": mechanism.loss.epsilon(common),
        "standard_deviation": mechanism.oracle.std,
        "radius_95": mechanism.radius(0.05),
        "winner_error_95": winner.error(0.05),
        "messages_per_user": mechanism.messages_per_user,
        "bits_per_user": mechanism.bits_per_user,
        "simulation_only": mechanism.simulation_only,
    }
