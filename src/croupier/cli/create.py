"""`croupier create`: a new experiment at an analyzer that runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from croupier.checks import CroupierError
from croupier.cli.operator import add_analyzer, analyzer_of
from croupier.cli.options import print_json
from croupier.cli.serve import require_service

NAME = "create"
SUMMARY = "create an experiment at an analyzer that runs"
ABOUT = (
    "Creates an experiment at an analyzer that runs, from its file. Nobody takes part before it is started: at once "
    "with --start, or later with `croupier start`."
)
EXAMPLES = (
    "croupier create https://analyzer.example examples/onboarding.toml",
    "croupier create https://analyzer.example examples/onboarding.toml --start",
)


def add(command: argparse.ArgumentParser) -> None:
    """Where, what, and whether at once."""
    add_analyzer(command)
    command.add_argument("file", metavar="EXPERIMENT.toml", help="the experiment")
    command.add_argument("--start", action="store_true", help="start it at once")


def run(options: argparse.Namespace) -> int:
    """Send the file, and say how it stands."""
    require_service()
    try:
        text = Path(options.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CroupierError(f"{options.file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    made = analyzer_of(options).post("/experiments", {"text": text, "start": options.start})
    if options.json:
        print_json([made])
    else:
        print(f"{made['name']} is {made['standing']}: {options.url.rstrip('/')}/#{made['name']}")
    return 0
