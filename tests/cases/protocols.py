"""The protocols that every contract test runs through."""

from collections.abc import Iterable
from typing import Any

import pytest

from croupier.protocols import ROWS, Protocol, protocol

TRUST = "two-servers"

EVERY = [(name, setting) for name, row in ROWS.items() for setting in (*row.constants, *row.instead)]
"""Every row with each of its constants, and tight under each other trust that it can be planned for."""
SENDABLE = [case for case in EVERY if case not in (("shuffled-levels", "published"), ("shuffled-vectors", "published"))]
"""All but the two whose published constants mean a billion messages a user."""
SHARED = [case for case in EVERY if (case[1] if case[1] in ROWS[case[0]].instead else ROWS[case[0]].trust) == TRUST]
"""Where each of two servers adds a whole noise."""
COUNTED_ON = [case for case in SENDABLE if case not in SHARED]
"""Where users are counted on, or might be."""


def slow(cases: Iterable[tuple[str, str]], *long: tuple[str, str]) -> list[Any]:
    """The cases, of which these take so long that `make check` leaves them out."""
    return [pytest.param(*case, marks=pytest.mark.slow if case in long else ()) for case in cases]


def make(name: str, setting: str, epsilon: float = 0.5, **options: object) -> Protocol:
    """A protocol of a family, by its constants or by whom it trusts; vectors in three dimensions."""
    if ROWS[name].vectors:
        options = {"dimension": 3} | options
    under = {"trust": setting} if setting in ROWS[name].instead else {"constants": setting}
    return protocol(name, epsilon=epsilon, **under | options)  # type: ignore[arg-type]
