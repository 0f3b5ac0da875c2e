"""What the intermediary does with a batch, and so what the analyzer sees: each carrier answers for itself.

A new carrier is a file with its class, and its kind in `CARRIERS`, so that a serialized mechanism can name it.
"""

from __future__ import annotations

from collections.abc import Callable

from croupier.protocols.sums.carriers.base import Carrier
from croupier.protocols.sums.carriers.messages import (
    CountedMessages,
    ShuffledBits,
    ShuffledMessages,
    shuffled_messages,
)
from croupier.protocols.sums.carriers.modular import Plain, SecureAggregation, SplitAndMix
from croupier.protocols.sums.carriers.shared import Shared

CARRIERS: dict[str, Callable[..., Carrier]] = {
    ShuffledMessages.kind: shuffled_messages,
    SecureAggregation.kind: SecureAggregation,
    Plain.kind: Plain,
    SplitAndMix.kind: SplitAndMix,
    Shared.kind: Shared,
}
"""How to make each carrier from its serialized parts, by kind."""

__all__ = [
    "CARRIERS",
    "Carrier",
    "CountedMessages",
    "Plain",
    "SecureAggregation",
    "Shared",
    "ShuffledBits",
    "SplitAndMix",
]
