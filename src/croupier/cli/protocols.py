"""`croupier protocols`: what there is, and whom each one trusts."""

from __future__ import annotations

import argparse
from typing import Any

from croupier.cli.options import print_json
from croupier.cli.tables import table
from croupier.protocols import ROWS, protocol

NAME = "protocols"
SUMMARY = "list the private sums: trust, guarantee, smallest batch, paper"
ABOUT = (
    "Lists the private sums: whom each one trusts, what it guarantees, its smallest batch, and the paper it comes from."
)
EXAMPLES = ("croupier protocols",)

NOTIONS = {"pure": "ε-DP", "approximate": "(ε, δ)-DP", "renyi": "Rényi DP", "concentrated": "zCDP"}


def add(command: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(options: argparse.Namespace) -> int:
    """Print the table of protocols."""
    rows: list[dict[str, Any]] = [
        {
            "name": row.name,
            "trust": row.trust,
            "trusts": list(row.trusts),
            "notion": row.notion,
            "carrier": row.carrier,
            "smallest_batch": protocol(row.name, epsilon=0.5).smallest,
            "paper": row.paper,
        }
        for row in ROWS.usable().values()
    ]
    if options.json:
        print_json(rows)
        return 0
    for row in rows:
        row |= {"trusts": ", ".join(row["trusts"]), "notion": NOTIONS[row["notion"]]}
    table(
        ["protocol", "trusts", "guarantee", "smallest batch", "paper"],
        [[row[key] for key in ("name", "trusts", "notion", "smallest_batch", "paper")] for row in rows],
        right={3},
        notes=ROWS.refused(),
    )
    return 0
