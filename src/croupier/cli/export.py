"""`croupier export`: an experiment's rows, its transcript, or the operators' log, as a file."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from croupier.checks import CroupierError, InvalidParameter
from croupier.cli.operator import add_analyzer, analyzer_of
from croupier.cli.options import print_json
from croupier.cli.serve import require_service

NAME = "export"
SUMMARY = "an experiment's rows, its transcript, or who did what, as a file"
ABOUT = (
    "Writes what came of an experiment as CSV, JSON or Parquet: a row for each batch (batches), for each arm (result) "
    "or for each look (curve). Or its signed log (transcript), which `croupier verify` checks. Without an experiment: "
    "which operator did what."
)
EXAMPLES = (
    "croupier export http://127.0.0.1:8400 onboarding --out batches.csv",
    "croupier export http://127.0.0.1:8400 onboarding --table curve --format json",
    "croupier export http://127.0.0.1:8400 onboarding --table transcript",
    "croupier export http://127.0.0.1:8400 --out audit.parquet",
)
TABLES = ("batches", "result", "curve", "metrics", "transcript")
FORMATS = ("csv", "json", "parquet")


def add(command: argparse.ArgumentParser) -> None:
    """Where, what of which experiment, and in which form."""
    add_analyzer(command)
    command.add_argument("experiment", metavar="NAME", nargs="?", help="which experiment (default: who did what)")
    command.add_argument("--table", choices=TABLES, metavar="TABLE", help=f"{', '.join(TABLES)} (default: batches)")
    how = f"{', '.join(FORMATS)} (default: as the file is called, or csv)"
    command.add_argument("--format", choices=FORMATS, metavar="FORMAT", help=how)
    command.add_argument("--out", metavar="FILE", help="where to (default: standard output)")


def run(options: argparse.Namespace) -> int:
    """Fetch it, and write it."""
    require_service()
    if options.format and _signed(options):
        raise InvalidParameter("format", options.format, "left out: a transcript is one signed JSON record a line")
    if options.json and options.out is None:
        raise InvalidParameter("json", True, "left out without --out: --format json is the table itself")
    if options.experiment is None and options.table is not None:
        raise InvalidParameter("table", options.table, "left out without an experiment: there is one log of operators")
    form = options.format or _form(options)
    if options.experiment is None:
        path = f"/audit.{form}"
    elif _signed(options):
        path = f"/experiments/{options.experiment}/transcript"
    else:
        path = f"/experiments/{options.experiment}/tables/{options.table or 'batches'}.{form}"
    # Until all of it has come, nothing is written.
    with tempfile.TemporaryFile() as coming:
        size = analyzer_of(options).download(path, coming)
        coming.seek(0)
        if options.out is None:
            shutil.copyfileobj(coming, sys.stdout.buffer)
            return 0
        try:
            with Path(options.out).open("wb") as file:
                shutil.copyfileobj(coming, file)
        except OSError as error:
            raise CroupierError(f"{options.out} cannot be written: {error.strerror}") from None
    if options.json:
        print_json([{"file": options.out, "bytes": size}])
    else:
        print(f"{options.out}: {size:,} bytes")
    return 0


def _form(options: argparse.Namespace) -> str:
    """The format that the file is called by, which nobody else writes under that name."""
    ending = Path(options.out).suffix.removeprefix(".").lower() if options.out else ""
    if ending and ending not in FORMATS and not _signed(options):
        raise InvalidParameter("out", options.out, f"called .{', .'.join(FORMATS)}; or say --format")
    return ending if ending in FORMATS else "csv"


def _signed(options: argparse.Namespace) -> bool:
    """Whether it is the log as the servers signed it, which has one form."""
    return options.experiment is not None and options.table == "transcript"
