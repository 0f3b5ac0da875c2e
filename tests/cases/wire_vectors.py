"""Write `wire_vectors.json`: every stage of a report and every number that a client computes, with fixed keys.

Run it from the project's directory: `PYTHONPATH=tests python -m cases.wire_vectors`. Where the sealing was randomized a
vector is one that must open; where it names its ephemeral keys it can be made again, bit for bit.
"""

from __future__ import annotations

import json
from pathlib import Path

from cases.vector_numbers import caps, deltas, encodings, honest_users, laws, ledger, pieces
from cases.vector_refusals import refusals
from cases.vector_reports import DRAWN, MECHANISMS, SUITE, receipt, seals, ticket, two_batches, vector
from cases.vector_shares import shares
from croupier.messages.sealing import SUITES

PATH = Path(__file__).parents[1] / "client" / "wire_vectors.json"
GROUPS = {
    "two-batches": two_batches,
    "shares": shares,
    "seals": seals,
    "laws": laws,
    "caps": caps,
    "deltas": deltas,
    "encodings": encodings,
    "honest": honest_users,
    "pieces": pieces,
    "ledger": ledger,
    "ticket": ticket,
    "receipt": receipt,
    "refusals": refusals,
}
"""What is in the file beside whole reports, by name; a report's name has a space, for its suite."""


def main() -> None:
    """All mechanisms under the default suite, one under each of the others, and the groups."""
    wanted = [(name, SUITE) for name in MECHANISMS | DRAWN]
    wanted += [("shuffled-bits", suite) for suite in SUITES if suite != SUITE]
    found = {f"{name} {suite}": vector(name, suite) for name, suite in wanted}
    found |= {name: group() for name, group in GROUPS.items()}
    PATH.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
