"""The protocols that every contract test runs through."""

from croupier.protocols import ROWS, Protocol, protocol

EVERY = [(name, constants) for name, row in ROWS.items() for constants in row.constants]
SENDABLE = [case for case in EVERY if case not in (("shuffled-levels", "published"), ("shuffled-vectors", "published"))]
"""All but the two whose published constants mean a billion messages a user."""


def make(name: str, constants: str, epsilon: float = 0.5, **options: object) -> Protocol:
    """A protocol of a family, vectors in three dimensions."""
    if ROWS[name].vectors:
        options = {"dimension": 3} | options
    return protocol(name, epsilon=epsilon, constants=constants, **options)  # type: ignore[arg-type]
