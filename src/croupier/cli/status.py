"""`croupier status`: how the experiments of an analyzer stand, or one of them."""

from __future__ import annotations

import argparse

from croupier.cli.experiment_table import print_standing
from croupier.cli.operator import add_analyzer, analyzer_of
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
        state = analyzer.get(f"/experiments/{options.experiment}/state")
        if options.json:
            print_json([state])
        else:
            print_standing(state)
            for trouble in filter(None, (state["stalled"], state["trouble"])):
                print(trouble)
        return 0
    listed = analyzer.get("/experiments")["experiments"]
    if options.json:
        print_json(listed)
        return 0
    rows = [[one["name"], one["standing"], "public" if one["public"] else "private", one["title"]] for one in listed]
    table(["experiment", "standing", "access", "title"], rows, right=set())
    return 0
