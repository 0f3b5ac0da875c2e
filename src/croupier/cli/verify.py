"""`croupier verify`: check an experiment from its public transcript."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from croupier.checks import CroupierError, positive
from croupier.cli.options import print_json
from croupier.cli.patience import limited
from croupier.cli.tables import number
from croupier.comparisons.decision import Decision
from croupier.texts import one_line, plural

if TYPE_CHECKING:
    from croupier.service.verifying import Verdict

NAME = "verify"
SUMMARY = "check an experiment from its public transcript"
ABOUT = (
    "Replays an experiment's public transcript. Every signature, decision and batch size is checked, and the "
    "privacy claimed is recomputed."
)
EXAMPLES = ("croupier verify transcript.jsonl --analyzer KEY --front KEY",)
SERVERS = ("analyzer", "front")
PATIENCE = 60.0
LONGEST_HEAD = 2**16


def add(command: argparse.ArgumentParser) -> None:
    """The transcript, and what it is compared with."""
    command.add_argument("transcript", metavar="TRANSCRIPT", help="a file, or - for standard input")
    for server in SERVERS:
        command.add_argument(
            f"--{server}", metavar="KEY", help=f"the signing key that the {server} must have, as `serve keys` prints it"
        )
    command.add_argument(
        "--head", metavar="HASH", help="a hash that some record must have: compare with somebody else's log"
    )
    command.add_argument("--ask", metavar="URL", help="ask the front at this address which head it countersigned")
    command.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help="how long a costly plan may take (default: 60)",
    )


def run(options: argparse.Namespace) -> int:
    """Check it; a transcript that does not follow is one line on stderr and status 2."""
    from croupier.service.keys import public_key
    from croupier.service.verifying import lines_of, verify

    given = {server: getattr(options, server) for server in SERVERS}
    trust = {server: public_key(server, key) for server, key in given.items() if key is not None}
    head = None if options.head is None else public_key("head", options.head, "a hash")
    with limited(float(positive("patience", options.patience))) as pace, _opened(options.transcript) as file:
        verdict = verify(pace.of(lines_of(file)), trust)
    if head is not None:
        verdict.place_of(head)
    shown = None if options.ask is None else _countersigned(verdict, options.ask)
    if options.json:
        print_json([verdict.to_dict()])
        return 0
    print_verdict(verdict, tuple(trust), shown)
    return 0


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        raise CroupierError(f"{name} cannot be read: {error.strerror}") from None


def _countersigned(verdict: Verdict, url: str) -> int:
    """The number of the record that the front says it countersigned last; the transcript must have it."""
    import httpx2

    from croupier.messages.signing import Statement

    address = f"{url.rstrip('/')}/experiments/{verdict.experiment}/head"
    try:
        with httpx2.stream("GET", address, timeout=10.0) as answer:
            answer.raise_for_status()
            body = b""
            for piece in answer.iter_bytes(LONGEST_HEAD):
                body += piece
                if len(body) > LONGEST_HEAD:
                    raise CroupierError(f"{address} answers with more than {LONGEST_HEAD} bytes")
        return verdict.check_head(Statement.from_dict("head", json.loads(body)))
    except CroupierError:
        raise
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise CroupierError(f"{address} does not say which head was countersigned: {error}") from None


def print_verdict(verdict: Verdict, trusted: tuple[str, ...] = (), shown: int | None = None) -> None:
    """What was checked, who has signed it, and what nobody can check."""
    print(f"{verdict.experiment}: every line follows; the run is {'finished' if verdict.finished else 'not finished'}")
    print(f"  log          {verdict.records} records, each signed by the analyzer and with the hash of all before")
    print(f"  head         {verdict.head} (record {verdict.records - 1})")
    print(f"               the front has countersigned {_part(verdict.countersigned, verdict.records)}")
    if shown is None:
        print("               not shown whether more was cut off: --ask URL asks the front for its newest head")
    else:
        print(f"               the newest head that the front shows is that of record {shown}")
    for server, key in verdict.signers.items():
        compared = "as you gave it" if server in trusted else f"not compared: --{server} KEY says whom you trust"
        print(f"  {server:<12} {key} ({compared})")
    print(f"  configured   {plural(verdict.configurations, 'time')}, signed by both servers")
    print(f"  decisions    {verdict.offers} offers are those that the program wants")
    if verdict.blocks:
        print(f"  blocks       {verdict.blocks} whole ones, whose batches closed together as the front says")
    if verdict.decision is not None:
        said = Decision(**verdict.decision).sentence(verdict.arms, metric=verdict.metric)
        print(f"  decided      {one_line(said, 4_000)}")
    print(
        f"  batches      {verdict.released} releases signed by the front, each with as many users as it says "
        f"({verdict.reports:,} in all batches together, smallest batch wanted {verdict.smallest})"
    )
    print(
        f"  privacy      (ε, δ) = ({verdict.claimed_epsilon:g}, {number(verdict.claimed_delta, 3)}) claimed for a turn"
        f"; recomputed δ = {number(verdict.worst_delta, 3)} at that ε"
    )
    print(f"  validity     {_validity(verdict)}")
    print("  not shown    that the released numbers are what users said: the servers alone saw their reports.")
    print(
        f"               Only the analyzer says so: {verdict.damaged} damaged messages, "
        f"{verdict.expired} batches expired, {verdict.refused} refused, {verdict.operations} operations"
    )


def _validity(verdict: Verdict) -> str:
    said = {"prio3": "every report proved that it is in range (prio3)", "none": "reports proved nothing"}
    counts = ", ".join(f"{count:,} {word}" for word, count in verdict.refused_reports.items())
    return f"{said[verdict.validity]}; {counts or 'none'} refused in the batches released"


def _part(some: int, of: int) -> str:
    return f"records 0 to {some - 1}; the rest ({of - some}) is the analyzer's alone" if some else "none of it yet"
