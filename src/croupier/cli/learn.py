"""`croupier learn`: a yes-or-no rule from users' samples in a CSV file, learnt with privacy for whole users."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from croupier.checks import InvalidParameter
from croupier.cli import histogram
from croupier.cli.options import leave_out, print_json
from croupier.cli.samples_file import Table, ranges, read
from croupier.cli.tables import number, say, table
from croupier.learning import Boxes, DecisionListQueries, Parities, Seed, Stable, Thresholds, Voting
from croupier.learning.doubts import SPARED
from croupier.learning.samples import Floats, Samples
from croupier.learning.trial import Trial, attempt
from croupier.noise import secure, seeded
from croupier.protocols.histograms.target import MODELS
from croupier.references import cited

NAME = "learn"
SUMMARY = "learn a yes-or-no rule from users' samples in a file, privately"
ABOUT = (
    "Learns a yes-or-no rule from a CSV file with one row a sample, privately for whole users. The report says the "
    "rule, how well it does on users held out, what a user sends, and what was promised."
)
EXAMPLES = (
    "croupier learn --data examples/visits.csv --user-column user \\",
    "  --label-column again --range minutes=0:60 --range pages=0:20 --cuts 13 \\",
    "  --alpha 0.2 --epsilon 1",
)

CUTS = {"thresholds": 256, "boxes": 17}

RULES: dict[str, Callable[[argparse.Namespace], Any]] = {
    "thresholds": lambda options: Stable(Thresholds(cuts=options.cuts or CUTS["thresholds"])),
    "boxes": lambda options: Stable(Boxes(cuts=options.cuts or CUTS["boxes"])),
    "decision-lists": lambda options: DecisionListQueries(conjunction=options.conjunction),
    "parities": lambda options: Stable(Parities()),
}
"""What may be learnt; the last two need features that are 0 or 1."""

TRUST = histogram.TRUST | {"analyzer": "the analyzer, with every user's vote"}

RELEASE = (
    "The rule is the release, and what the promise is about. All other lines look at the file, and are for whoever "
    "holds it. A second run on the same users is a second release, and adds up. Method: [GKM21]."
)


def add(command: argparse.ArgumentParser) -> None:
    """The file, what its columns are, what may be learnt, and the privacy target."""
    command.add_argument("--data", required=True, metavar="FILE", help="CSV with a header, a sample a line")
    command.add_argument("--user-column", required=True, metavar="NAME", help="the column that names the user")
    command.add_argument("--label-column", required=True, metavar="NAME", help="the column to be predicted")
    command.add_argument("--labels", default="0,1", metavar="NO,YES", help="the two labels, public (default: 0,1)")
    command.add_argument("--features", metavar="A,B,...", help="columns to learn from, numbers (default: all others)")
    command.add_argument("--rule", choices=RULES, default="thresholds", help="what may be learnt (default: thresholds)")
    command.add_argument(
        "--range", action="append", default=[], metavar="NAME=LOW:HIGH", help="public range of a feature (default: 0:1)"
    )
    command.add_argument("--low", type=float, default=0.0, help="least value of the others, public (default: 0)")
    command.add_argument("--high", type=float, default=1.0, help="largest value of the others, public (default: 1)")
    command.add_argument("--cuts", type=int, metavar="C", help="places a range is cut at (default: 256; boxes: 17)")
    command.add_argument(
        "--conjunction", type=int, default=1, metavar="K", help="literals in a rule of a decision list"
    )
    command.add_argument("--epsilon", type=float, required=True, metavar="E", help="the privacy parameter ε, per user")
    command.add_argument("--delta", type=float, metavar="D", help="δ (default: 1e-6 where the model needs one)")
    command.add_argument("--model", choices=MODELS, default="shuffle", help="who adds the noise (default: shuffle)")
    command.add_argument("--alpha", type=float, default=0.1, metavar="A", help="the error aimed at (default: 0.1)")
    command.add_argument("--beta", type=float, default=0.1, metavar="B", help="chance of missing it (default: 0.1)")
    command.add_argument(
        "--held-out", type=float, default=0.2, metavar="P", help="part of the users that only judges (default: 0.2)"
    )
    command.add_argument(
        "--shared-seed", default="croupier", metavar="TEXT", help="the public seed of all users (default: croupier)"
    )
    command.add_argument("--seed", type=int, metavar="S", help="a repeatable demonstration (default: secure noise)")


def run(options: argparse.Namespace) -> int:
    """Read, split the users, let them vote, and show what was learnt and how well."""
    no, _, yes = options.labels.partition(",")
    if not yes or "," in yes or no == yes:
        raise InvalidParameter("labels", options.labels, "NO,YES: two different labels")
    wanted = None if options.features is None else options.features.split(",")
    voting = Voting(options.epsilon, options.delta, options.model)
    _check_read(options)
    learner = RULES[options.rule](options)
    columns = {"user": options.user_column, "label": options.label_column}
    found = read(options.data, **columns, features=wanted, labels=(no, yes))
    limits = ranges(options.range, found.features, options.low, options.high)
    if {text.rpartition("=")[0] for text in options.range} >= {*found.features}:
        leave_out(options, ("low", "high"), "every feature has a --range of its own")
    trial = attempt(
        _scaled(found, limits, options.rule),
        learner,
        voting,
        alpha=options.alpha,
        beta=options.beta,
        held_out=options.held_out,
        seed=Seed.of(options.shared_seed),
        source=secure() if options.seed is None else seeded(options.seed),
    )
    body = _summary(trial, found, limits, options)
    if options.json:
        print_json([body])
    else:
        _show(body)
    return 0


def _check_read(options: argparse.Namespace) -> None:
    """Refuse what this rule does not read."""
    if options.rule not in CUTS:
        leave_out(options, ("range", "low", "high", "cuts"), f"features are 0 or 1 with --rule {options.rule}")
    if options.rule != "decision-lists":
        leave_out(options, ("conjunction",), f"{options.rule} have no literals")


def _scaled(found: Table, limits: Floats, rule: str) -> Samples:
    """Features from their public ranges to [0, 1]; where only 0 and 1 are allowed they stay as they are."""
    features = found.samples.features
    if rule not in CUTS:
        for name, column in zip(found.features, features.T, strict=True):
            if (bad := column[(column != 0) & (column != 1)]).size:
                raise InvalidParameter(name, bad[0].item(), f"0 or 1 with --rule {rule}")
        return found.samples
    low, high = limits.T
    return replace(found.samples, features=(features - low) / (high - low))


def _outside(found: Table, limits: Floats) -> list[str]:
    """Features that leave the range that was said to be theirs."""
    texts = []
    for name, column, (low, high) in zip(found.features, found.samples.features.T, limits.tolist(), strict=True):
        if outside := int(((column < low) | (column > high)).sum()):
            texts.append(
                f"{outside:,} of {column.size:,} values of {name} lie outside {low:g} to {high:g}, its public range, "
                f"and cannot be told apart there: --range {name}=LOW:HIGH ({SPARED})"
            )
    return texts


def _named(rule: Any, found: Table, limits: Floats) -> str:
    """A rule with the names of its columns and the values of its cuts."""
    number_, column = r"(-?[\d.]+(?:e[+-]?\d+)?)", r"column (\d+)"

    def value(text: str, place: str) -> str:
        low, high = limits[int(place)]
        return f"{low + float(text) * (high - low):.6g}"

    def between(m: re.Match[str]) -> str:
        return f"{value(m[1], m[2])} <= {found.features[int(m[2])]} < {value(m[3], m[2])}"

    text = re.sub(f"{number_} <= {column} < {number_}", between, repr(rule))
    text = re.sub(
        f"{column} (>=|<) {number_}", lambda m: f"{found.features[int(m[1])]} {m[2]} {value(m[3], m[1])}", text
    )
    return re.sub(column, lambda m: found.features[int(m[1])], text)


def _summary(trial: Trial, found: Table, limits: Floats, options: argparse.Namespace) -> dict[str, Any]:
    """The trial as plain data."""
    election = trial.election
    certificate, promise = election.certificate(), election.privacy
    taken = election.mechanism(0) if callable(election.mechanism) else election.mechanism
    return {
        "rule": _named(trial.rule, found, limits),
        "predicts": {"column": options.label_column, "yes": options.labels.partition(",")[2]},
        "verified": trial.verified,
        "features": [
            {"name": name, "low": low, "high": high}
            for name, (low, high) in zip(found.features, limits.tolist(), strict=True)
        ],
        "users": trial.taught.users,
        "users_held_out": trial.held_out.users,
        "users_needed": trial.users_needed,
        "samples": len(trial.taught.labels),
        "samples_held_out": len(trial.held_out.labels),
        "accuracy": trial.accuracy,
        "majority_accuracy": trial.majority_accuracy,
        "open_rule": _named(trial.open_rule, found, limits),
        "open_accuracy": trial.open_accuracy,
        "model": options.model,
        "selection": taken.model,
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "unit": promise.unit,
        "promise": str(promise),
        "exact_epsilon": certificate.epsilon,
        "exact_delta": certificate.delta,
        "trusts": taken.trust,
        "messages_per_user": election.messages_per_user,
        "simulation_only": election.simulation_only,
        "alpha": options.alpha,
        "beta": options.beta,
        "shared_seed": options.shared_seed,
        "seed": options.seed,
        "warnings": [doubt.text for doubt in trial.doubts if doubt.kind != "range"]
        + (_outside(found, limits) if options.rule in CUTS else [])
        + ([] if trial.verified else [UNVERIFIED]),
    }


UNVERIFIED = f"the check bits do not fit the elected rule: users disagreed, or were too few ({SPARED})"


def _show(body: dict[str, Any]) -> None:
    predicts = body["predicts"]
    say(f"Learnt: {predicts['column']} is {predicts['yes']} where {body['rule']}")
    held = f"right on {body['users_held_out']:,} held-out users' {body['samples_held_out']:,} rows"
    table(
        ["learner", held, "rule"],
        [
            ["private", f"{body['accuracy']:.1%}", body["rule"]],
            ["same rules, no privacy", f"{body['open_accuracy']:.1%}", body["open_rule"]],
            ["always the commoner label", f"{body['majority_accuracy']:.1%}", "-"],
        ],
        right={1},
    )
    for word, text in _facts(body):
        say(f"{word:<9} {text}")
    for warning in body["warnings"]:
        say(f"warning   {warning}")
    say(RELEASE, *map(str, cited(RELEASE)))


def _facts(body: dict[str, Any]) -> list[tuple[str, str]]:
    """What a reader must know to use the rule."""
    exact = f"δ = {number(body['exact_delta'])} at that ε" if body["delta"] else f"ε = {number(body['exact_epsilon'])}"
    aim = f"error {body['alpha']:g} with probability {1 - body['beta']:g}, if nine in ten vote alike, takes"
    messages = f"{number(body['messages_per_user'])} a user on average"
    if body["simulation_only"]:
        messages += ": more than a device would send, so this can only be simulated; fewer --cuts make fewer"
    demonstration = f"seed {body['seed']}: a demonstration, not a release"
    return [
        ("privacy", f"{body['promise']}, all their rows together; recomputed: {exact}; the number of users is public"),
        ("trusts", TRUST[body["trusts"]]),
        ("users", f"{body['users']:,} taught; {aim} {body['users_needed']:,}"),
        ("messages", messages),
        ("noise", "a cryptographic source, exact laws" if body["seed"] is None else demonstration),
    ]
