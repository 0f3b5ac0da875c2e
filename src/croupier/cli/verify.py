"""`croupier verify`: check a finished experiment from its public transcript."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from croupier.checks import CroupierError
from croupier.cli.options import print_json

if TYPE_CHECKING:
    from croupier.service.verifying import Verdict

NAME = "verify"
SUMMARY = "replay a transcript and check every decision, batch size and the privacy claimed"


def add(command: argparse.ArgumentParser) -> None:
    """The transcript."""
    command.add_argument("transcript", metavar="TRANSCRIPT", help="a file, or - for standard input")
    for server in ("analyzer", "shuffler"):
        command.add_argument(
            f"--{server}", metavar="KEY", help=f"the signing key that the {server} must have, as `serve keys` prints it"
        )


def run(options: argparse.Namespace) -> int:
    """Check it; a transcript that does not follow is one line on stderr and status 2."""
    from croupier.service.keys import public_key
    from croupier.service.verifying import verify

    try:
        text = sys.stdin.read() if options.transcript == "-" else Path(options.transcript).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CroupierError(f"{options.transcript} cannot be read: {error}") from None
    given = {server: getattr(options, server) for server in ("analyzer", "shuffler")}
    verdict = verify(text, {server: public_key(server, key) for server, key in given.items() if key is not None})
    if options.json:
        print_json(asdict(verdict))
        return 0
    print_verdict(verdict)
    return 0


def print_verdict(verdict: Verdict) -> None:
    """What was checked, and what cannot be."""
    print(f"{verdict.experiment}: every line follows; the run is {'finished' if verdict.finished else 'not finished'}")
    print(
        f"  signatures   both servers signed {verdict.configurations} configuration(s), and each its offers or releases"
    )
    for server, key in verdict.signers.items():
        print(f"               {server:<8} {key}")
    print(f"  decisions    {verdict.offers} offers are those that the program wants, {verdict.operations} operations")
    print(
        f"  batches      {verdict.released} released, each with exactly its users ({verdict.reports:,} reports, "
        f"smallest batch {verdict.smallest}); {verdict.expired} expired, {verdict.refused} refused by the analyzer; "
        f"{verdict.damaged} damaged messages"
    )
    print(
        f"  privacy      (ε, δ) = ({verdict.claimed_epsilon:g}, {verdict.claimed_delta:.3g}) claimed for a turn; "
        f"recomputed δ = {verdict.worst_delta:.3g} at that ε"
    )
    print("  not shown    that the released numbers are what the messages said: only the analyzer saw those;")
    print("               and that a batch which expired or was refused had to be")
