"""Who says what to whom: private sums, histograms and selections, each a privacy target planned for a batch size.

The table `ROWS` lists the sums. A new one is a small file with a `Row`, and its name here.
"""

from __future__ import annotations

from typing import Any

from croupier.protocols.audit import Audit, audit
from croupier.protocols.histograms.histogram import Histogram, HistogramMechanism, HistogramRelease, histogram
from croupier.protocols.histograms.selection import Selection, SelectionMechanism, selection
from croupier.protocols.histograms.universe import Buckets, ItemOutside, Items, Numbers
from croupier.protocols.mechanism import Certificate, Decoded, Mechanism, Residual
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.protocols.sums.bits import SHUFFLED_BITS, SHUFFLED_LEVELS
from croupier.protocols.sums.counted import COUNTED_MESSAGES
from croupier.protocols.sums.mechanism import Release, SumMechanism
from croupier.protocols.sums.protocol import Protocol, Row
from croupier.protocols.sums.secagg import CENTRAL_LAPLACE, DISCRETE_GAUSSIAN, LAPLACE, LOCAL_LAPLACE, SKELLAM
from croupier.protocols.sums.split_and_mix import SHUFFLED_LAPLACE, SHUFFLED_VECTORS
from croupier.protocols.sums.values import Ball, Values
from croupier.registry import Registry, instances

_OWN: dict[str, Row] = {
    row.name: row
    for row in (
        SHUFFLED_BITS,
        SHUFFLED_LEVELS,
        LAPLACE,
        SKELLAM,
        DISCRETE_GAUSSIAN,
        CENTRAL_LAPLACE,
        LOCAL_LAPLACE,
        SHUFFLED_LAPLACE,
        COUNTED_MESSAGES,
        SHUFFLED_VECTORS,
    )
}

ROWS: Registry[Row] = Registry("protocol", "croupier.protocols", _OWN, instances(Row, "a Row"))
"""Every protocol by name."""

VALUES = ("low", "high", "binary", "clip", "dimension", "diameter")
"""Options that say what users may report."""


def protocol(name: str, *, epsilon: float, delta: float | None = None, **options: Any) -> Protocol:
    """Return a protocol by its name in `ROWS`; see `Protocol` and `Values` (or `Ball`) for the options.

    A row says which options it reads. All others are refused by name.

    >>> protocol("laplace", epsilon=1.0).plan(users=100).certificate().holds
    True
    >>> protocol("laplace", epsilon=1.0, side="under")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: side = 'under' is not allowed: it must be left out: laplace takes constants, ...
    """
    row = ROWS.find(name)
    row.check_options(options)
    values = row.values(**{key: options.pop(key) for key in VALUES if key in options})
    return Protocol(row, epsilon, row.delta(epsilon, delta), values=values, **options)


def shuffled_bits(*, epsilon: float, delta: float | None = None, **options: Any) -> Protocol:
    """Sums of bits through a shuffler ([TKMS21] Alg. 3)."""
    return protocol("shuffled-bits", epsilon=epsilon, delta=delta, **options)


def shuffled_levels(*, epsilon: float, delta: float | None = None, **options: Any) -> Protocol:
    """Sums of numbers through a shuffler, in unary."""
    return protocol("shuffled-levels", epsilon=epsilon, delta=delta, **options)


def laplace(*, epsilon: float, **options: Any) -> Protocol:
    """Sums under secure aggregation, purely private ([CZ23] Thm 1)."""
    return protocol("laplace", epsilon=epsilon, **options)


def skellam(*, epsilon: float, delta: float | None = None, **options: Any) -> Protocol:
    """Sums under secure aggregation with Rényi privacy ([CZ23] Thm 2)."""
    return protocol("skellam", epsilon=epsilon, delta=delta, **options)


def discrete_gaussian(*, epsilon: float, delta: float | None = None, **options: Any) -> Protocol:
    """Sums under secure aggregation with concentrated privacy ([CZ23] Thm 4)."""
    return protocol("discrete-gaussian", epsilon=epsilon, delta=delta, **options)


def central_laplace(*, epsilon: float, **options: Any) -> Protocol:
    """Sums whose noise a trusted analyzer adds ([CZ23] Thm 5)."""
    return protocol("central-laplace", epsilon=epsilon, **options)


def local_laplace(*, epsilon: float, **options: Any) -> Protocol:
    """Sums of reports that are each private alone ([CZ23] Thm 6)."""
    return protocol("local-laplace", epsilon=epsilon, **options)


def shuffled_laplace(*, epsilon: float, delta: float | None = None, **options: Any) -> Protocol:
    """Discrete Laplace sums through a shuffler, by split-and-mix ([CZ23] Thm 3)."""
    return protocol("shuffled-laplace", epsilon=epsilon, delta=delta, **options)


def counted_messages(*, epsilon: float, delta: float | None = None, **options: Any) -> Protocol:
    """Counts that are never below (or never above) the truth ([GKM21] Alg. 7-8)."""
    return protocol("counted-messages", epsilon=epsilon, delta=delta, **options)


def shuffled_vectors(*, epsilon: float, dimension: int, delta: float | None = None, **options: Any) -> Protocol:
    """Sums of vectors of norm at most one through a shuffler."""
    return protocol("shuffled-vectors", epsilon=epsilon, delta=delta, dimension=dimension, **options)


__all__ = [
    "ROWS",
    "Audit",
    "Ball",
    "Buckets",
    "Certificate",
    "Decoded",
    "Histogram",
    "HistogramMechanism",
    "HistogramRelease",
    "ItemOutside",
    "Items",
    "Mechanism",
    "Numbers",
    "Protocol",
    "Release",
    "Residual",
    "Row",
    "Selection",
    "SelectionMechanism",
    "Shape",
    "SumMechanism",
    "TamperedMessage",
    "Values",
    "audit",
    "central_laplace",
    "counted_messages",
    "discrete_gaussian",
    "histogram",
    "laplace",
    "local_laplace",
    "protocol",
    "selection",
    "shuffled_bits",
    "shuffled_laplace",
    "shuffled_levels",
    "shuffled_vectors",
    "skellam",
]
