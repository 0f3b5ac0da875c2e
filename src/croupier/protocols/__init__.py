"""Who says what to whom: private sums, histograms and selections, each a privacy target planned for a batch size.

The table `ROWS` lists the sums. A new one is a small file with a `Row`, and its name in `sums/recipes.py`.
"""

from __future__ import annotations

from croupier.protocols.audit import Audit, audit
from croupier.protocols.histograms.histogram import Histogram, HistogramMechanism, HistogramRelease, histogram
from croupier.protocols.histograms.selection import Selection, SelectionMechanism, selection
from croupier.protocols.histograms.universe import Buckets, ItemOutside, Items, Numbers
from croupier.protocols.mechanism import Certificate, Decoded, Mechanism, Residual
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.protocols.sums.mechanism import Release, SumMechanism
from croupier.protocols.sums.protocol import Protocol, Row
from croupier.protocols.sums.recipes import (
    ROWS,
    central_laplace,
    counted_messages,
    discrete_gaussian,
    laplace,
    local_laplace,
    protocol,
    shared_vectors,
    shuffled_bits,
    shuffled_laplace,
    shuffled_levels,
    shuffled_vectors,
    skellam,
)
from croupier.protocols.sums.values import Ball, Values

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
    "shared_vectors",
    "shuffled_bits",
    "shuffled_laplace",
    "shuffled_levels",
    "shuffled_vectors",
    "skellam",
]
