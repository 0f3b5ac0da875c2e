"""`croupier audit`: does the implementation keep the promise? Sampled on its real path."""

from __future__ import annotations

import argparse

from croupier.cli.options import add_target, print_json, protocol_from
from croupier.cli.progress import progress
from croupier.cli.tables import number, table
from croupier.noise import secure, seeded
from croupier.protocols import audit as run_audit

NAME = "audit"
SUMMARY = "sample the real path on two neighbouring inputs; bound ε from below"


def add(command: argparse.ArgumentParser) -> None:
    """The protocol, its target and the number of trials."""
    add_target(command, protocol_required=True)
    command.add_argument("--trials", type=int, required=True, metavar="M", help="batches sampled for each input")
    command.add_argument(
        "--failure", type=float, default=1e-6, metavar="P", help="chance of a false alarm (default: 1e-6)"
    )
    command.add_argument(
        "--seed", type=int, metavar="S", help="repeatable, with simulated noise (default: secure noise)"
    )


def run(options: argparse.Namespace) -> int:
    """Audit; status 1 when the bound exceeds the claim."""
    mechanism = protocol_from(options, options.protocol, options.constants or "tight").plan(options.users)
    source = secure() if options.seed is None else seeded(options.seed)
    with progress("batches", 2 * options.trials) as advance:
        found = run_audit(mechanism, options.trials, source, failure=options.failure, progress=advance)
    if options.json:
        row = {
            "protocol": mechanism.protocol,
            "users": mechanism.users,
            "constants": mechanism.constants,
            "delta": found.delta,
            "claimed_epsilon": found.claimed_epsilon,
            "exact_epsilon": found.exact_epsilon,
            "epsilon_lower_bound": found.lower_bound,
            "trials": found.trials,
            "failure": found.failure,
            "passed": found.passed,
        }
        print_json([row])
    else:
        verdict = "consistent with the claim" if found.passed else "THE CLAIM IS BROKEN"
        rows = [
            ("claimed ε", number(found.claimed_epsilon)),
            ("exact ε, recomputed", number(found.exact_epsilon)),
            ("ε is at least", f"{number(found.lower_bound)} (wrong with probability {found.failure:g} at most)"),
            ("at δ", number(found.delta)),
            ("trials", f"{found.trials:,} batches of {mechanism.users:,} users for each of two neighbouring inputs"),
            ("verdict", verdict),
        ]
        table([mechanism.protocol, f"{mechanism.constants} constants"], rows, right=set())
    return 0 if found.passed else 1
