"""`croupier policies`: what there is to choose arms with."""

from __future__ import annotations

import argparse
from typing import Any

from croupier.cli.options import print_json
from croupier.cli.protocols import NOTIONS
from croupier.cli.tables import table
from croupier.simulation import ALL_POLICIES

NAME = "policies"
SUMMARY = "list the bandit policies: whom they trust, guarantee, paper"
ABOUT = "Lists the bandit policies: whom each one trusts, what it guarantees, and the paper it comes from."
EXAMPLES = ("croupier policies",)

AFTER = (
    '"after" a paper: its authors trust the analyzer with every report. That devices or two servers add the noise, '
    "and that arms run in blocks, is croupier's."
)
FOR = '"for" a theorem: another protocol than that of its authors stands in its place, with a δ of its own.'


def add(command: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(options: argparse.Namespace) -> int:
    """Print the table of policies."""
    rows: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "paper_name": entry.paper_name,
            "model": entry.model,
            "trusts": list(entry.trusts),
            "protocol": entry.protocol,
            "notion": entry.notion,
            "paper": entry.paper,
        }
        for entry in ALL_POLICIES.usable().values()
    ]
    if options.json:
        print_json(rows)
        return 0
    for row in rows:
        guarantee = NOTIONS.get(str(row["notion"]), "none")
        row |= {"model": ", ".join(row["trusts"]), "protocol": row["protocol"] or "-", "notion": guarantee}
    shown = ("name", "model", "protocol", "notion", "paper")
    headings = ["policy", "trusts", "protocol", "guarantee", "from"]
    notes = [AFTER, FOR, *ALL_POLICIES.refused()]
    table(headings, [[row[key] for key in shown] for row in rows], right=set(), notes=notes)
    return 0
