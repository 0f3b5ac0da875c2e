"""Every public name of this room, as its package hands them out."""

from __future__ import annotations

from croupier.protocols.auditing import Audit, audit
from croupier.protocols.histograms.histogram import Histogram, HistogramMechanism, HistogramRelease, histogram
from croupier.protocols.histograms.selection import Selection, SelectionMechanism, selection
from croupier.protocols.histograms.universe import Buckets, ItemOutside, Items, Numbers
from croupier.protocols.mechanism import Certificate, Decoded, Mechanism, Residual
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.protocols.sums.carriers import CARRIERS, Carrier, SecureAggregation
from croupier.protocols.sums.defaults import default_protocol
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.moments import Moments
from croupier.protocols.sums.protocol import NUMBERS, VECTORS, Protocol, Row
from croupier.protocols.sums.recipes import (
    ROWS,
    central_laplace,
    counted_messages,
    discrete_gaussian,
    laplace,
    laplace_vectors,
    local_laplace,
    protocol,
    shared_vectors,
    shuffled_bits,
    shuffled_laplace,
    shuffled_levels,
    shuffled_vectors,
    skellam,
)
from croupier.protocols.sums.release import Release
from croupier.protocols.sums.several import SeveralSums
from croupier.protocols.sums.values import Ball, Values

__all__ = [
    "CARRIERS",
    "NUMBERS",
    "ROWS",
    "VECTORS",
    "Audit",
    "Ball",
    "Buckets",
    "Carrier",
    "Certificate",
    "Decoded",
    "Histogram",
    "HistogramMechanism",
    "HistogramRelease",
    "ItemOutside",
    "Items",
    "Mechanism",
    "Moments",
    "Numbers",
    "Protocol",
    "Release",
    "Residual",
    "Row",
    "SecureAggregation",
    "Selection",
    "SelectionMechanism",
    "SeveralSums",
    "Shape",
    "SumMechanism",
    "TamperedMessage",
    "Values",
    "audit",
    "central_laplace",
    "counted_messages",
    "default_protocol",
    "discrete_gaussian",
    "histogram",
    "laplace",
    "laplace_vectors",
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
