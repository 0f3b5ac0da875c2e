"""The protocols that every contract test runs through."""

from collections.abc import Iterable
from typing import Any

import pytest

from croupier.protocols import ROWS, Protocol, protocol

EVERY = [(name, constants) for name, row in ROWS.items() for constants in row.constants]
SENDABLE = [case for case in EVERY if case not in (("shuffled-levels", "published"), ("shuffled-vectors", "published"))]
"""All but the two whose published constants mean a billion messages a user."""


def slow(cases: Iterable[tuple[str, str]], *long: tuple[str, str]) -> list[Any]:
    """The cases, of which these take so long that `make check` leaves them out."""
    return [pytest.param(*case, marks=pytest.mark.slow if case in long else ()) for case in cases]


def make(name: str, constants: str, epsilon: float = 0.5, **options: object) -> Protocol:
    """A protocol of a family, vectors in three dimensions."""
    if ROWS[name].vectors:
        options = {"dimension": 3} | options
    return protocol(name, epsilon=epsilon, constants=constants, **options)  # type: ignore[arg-type]
