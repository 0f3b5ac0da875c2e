"""`croupier audit`: does the implementation keep the promise? Sampled on its real path."""

from __future__ import annotations

import argparse

from croupier.checks import InvalidParameter, integer
from croupier.cli.options import add_target, few_enough, print_json, protocol_from
from croupier.cli.progress import progress
from croupier.cli.tables import number, table
from croupier.noise import secure, seeded
from croupier.protocols import audit as run_audit
from croupier.protocols.auditing import Audit
from croupier.texts import plural

NAME = "audit"
SUMMARY = "run a protocol on two neighbouring inputs; bound its ε from below"
ABOUT = (
    "Runs a protocol as it is on two inputs that differ in one user, and bounds its ε from below by what is "
    "seen. The status is 1 if the claim is broken."
)
EXAMPLES = ("croupier audit laplace --users 50 --epsilon 1 --trials 20000",)

MOST_REPORTS = 1_000_000_000
"""Of all batches of one input: more take longer than anybody waits for a verdict."""


def add(command: argparse.ArgumentParser) -> None:
    """The protocol, its target and the number of trials."""
    add_target(command, protocol_required=True)
    command.add_argument(
        "--trials", type=int, required=True, metavar="M", help="how many batches are sampled of each input"
    )
    command.add_argument(
        "--failure", type=float, default=1e-6, metavar="P", help="chance of a false alarm (default: 1e-6)"
    )
    command.add_argument("--seed", type=int, metavar="S", help="a run that can be repeated (default: secure noise)")


def run(options: argparse.Namespace) -> int:
    """Audit; status 1 when the bound exceeds the claim."""
    few_enough(options)
    if integer("trials", options.trials, 1) * options.users > MOST_REPORTS:
        most = f"{MOST_REPORTS // options.users:,} where a batch has {plural(options.users, 'user')}"
        raise InvalidParameter("trials", options.trials, f"at most {most}: every report is sampled")
    mechanism = protocol_from(options, options.protocol, options.constants or "tight").plan(options.users)
    source = secure() if options.seed is None else seeded(options.seed)
    with progress("batches", 2 * options.trials) as advance:
        result = run_audit(mechanism, options.trials, source, failure=options.failure, progress=advance)
    if options.json:
        row = {
            "protocol": mechanism.protocol,
            "trust": mechanism.trust,
            "users": mechanism.users,
            "constants": mechanism.constants,
            "delta": result.delta,
            "claimed_epsilon": result.claimed_epsilon,
            "exact_epsilon": result.exact_epsilon,
            "epsilon_lower_bound": result.lower_bound,
            "trials": result.trials,
            "failure": result.failure,
            "passed": result.passed,
            "verdict": _verdict(result),
        }
        print_json([row])
    else:
        batches = f"batches of {plural(mechanism.users, 'user')}"
        rows = [
            ("claimed ε", number(result.claimed_epsilon)),
            ("exact ε, recomputed", number(result.exact_epsilon)),
            ("ε is at least", _least(result)),
            ("at δ", number(result.delta)),
            ("trials", f"{result.trials:,} {batches} for each of two neighbouring inputs"),
            ("verdict", _verdict(result)),
        ]
        table([mechanism.protocol, f"{mechanism.constants} constants"], rows, right=set())
    return 0 if result.passed else 1


def _verdict(result: Audit) -> str:
    """What was found; nothing where no trial tells the two inputs apart."""
    if not result.passed:
        return "THE CLAIM IS BROKEN"
    return "consistent with the claim" if result.lower_bound > 0 else "too few trials to tell"


def _least(result: Audit) -> str:
    if not result.lower_bound > 0:
        return "0: nothing was seen"
    return f"{number(result.lower_bound)} (wrong with probability {number(result.failure)} at most)"
