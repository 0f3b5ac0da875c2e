"""`croupier status`: how the experiments of an analyzer stand, or one of them."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from croupier.checks import CroupierError, did_you_mean
from croupier.cli.experiment_table import print_standing
from croupier.cli.operator import Analyzer, Refused, add_analyzer, analyzer_of
from croupier.cli.options import print_json
from croupier.cli.serve import require_service
from croupier.cli.tables import table

NAME = "status"
SUMMARY = "how the experiments of an analyzer stand, or one of them"
ABOUT = (
    "Shows how the experiments of an analyzer stand: all of them in short, or one with its arms, their intervals and "
    "what may be said by now. Private ones need your token."
)
EXAMPLES = (
    "croupier status http://127.0.0.1:8400",
    "croupier status https://analyzer.example onboarding --token-file token",
)


def add(command: argparse.ArgumentParser) -> None:
    """Where, and perhaps which one."""
    add_analyzer(command)
    command.add_argument("experiment", metavar="NAME", nargs="?", help="which experiment (default: all, in short)")


def run(options: argparse.Namespace) -> int:
    """Ask, and print it."""
    require_service()
    analyzer = analyzer_of(options)
    if options.experiment is not None:
        state = state_of(analyzer, options.experiment)
        if options.json:
            print_json([state])
        else:
            print_standing(state)
            print_troubles(state)
        return 0
    listed = analyzer.get("/experiments")["experiments"]
    if options.json:
        print_json(listed)
        return 0
    rows = [[one["name"], one["standing"], "public" if one["public"] else "private", one["title"]] for one in listed]
    table(["experiment", "standing", "access", "title"], rows, right=set())
    return 0


def state_of(analyzer: Analyzer, name: str) -> Any:
    """How an experiment stands; where there is none by that name, the names that there are."""
    try:
        return analyzer.get(f"/experiments/{quote(name, safe='')}/state")
    except Refused as error:
        names = [one["name"] for one in analyzer.get("/experiments")["experiments"]] if error.status == 404 else [name]
        if name in names:
            raise
        known = f"{', '.join(names) or 'none'}{did_you_mean(name, names)}"
        raise CroupierError(f"{analyzer.url} has no experiment {name!r}; it has: {known}") from None


def print_troubles(state: dict[str, Any]) -> None:
    """Why an experiment stands still, if it does."""
    for trouble in filter(None, (state["stalled"], state["trouble"])):
        print(trouble)
