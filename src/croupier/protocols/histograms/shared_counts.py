"""Histograms in shares between two servers: one number an item, and every server adds a whole noise to every count.

A report is one at the user's item and zero elsewhere, so it depends on nothing but the item. A user is hidden by either
server's noise alone. The counts that come out hold both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from croupier.checks import InvalidParameter, one_of
from croupier.noise import Noise, Source
from croupier.privacy import Guarantee
from croupier.protocols.histograms.central import NoisyCounts
from croupier.protocols.histograms.oracles import Integers
from croupier.protocols.mechanism import MOST_MESSAGES, POSSIBLE
from croupier.protocols.padding import Shape
from croupier.validity import Prio3, prio3_histogram
from croupier.validity.fields import FIELD128
from croupier.validity.shares import FIELDS, Ring

SERVERS = 2


@dataclass(frozen=True)
class SharedCounts(NoisyCounts):
    """Discrete Laplace noise of scale 2/ε on every count, from each of two servers: pure against either of them.

    Noise with a δ of 1e-6 is not less: Skellam noise has 2.3 to 4.3 times the variance for ε from 0.01 to 8, and errs
    further in the worst of a million counts.
    """

    kind: ClassVar[str] = "shared-counts"
    trust: ClassVar[str] = "two-servers"
    field: str = FIELD128.name

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("field", self.field, (FIELD128.name,))

    @property
    def honest(self) -> int:
        """No user adds noise."""
        return 0

    @property
    def ring(self) -> Ring:
        return FIELDS[self.field]

    @property
    def prio3(self) -> Prio3:
        return prio3_histogram(self.size)

    @cached_property
    def total(self) -> Noise:
        """All the noise in a count: what hides a user is one server's part of it."""
        return self.noise.times(SERVERS)

    @cached_property
    def possible(self) -> tuple[int, int]:
        odds = POSSIBLE / (4.0 * self.size)
        return self.total.quantile(odds), self.users + self.total.tail_quantile(odds)

    def encoding(self) -> dict[str, Any]:
        return {"kind": self.kind, "field": self.field}

    def secret(self, index: int) -> list[int]:
        return [int(place == index) for place in range(self.size)]

    def server_noise(self, source: Source) -> list[int]:
        return [int(number) for number in self.noise.sample(self.size, source)]

    def counts(self, total: Sequence[int]) -> Integers:
        return np.asarray(self.ring.signed(total), dtype=np.int64)

    def telling(self, views: Integers, others: Integers, source: Source) -> Integers:
        """A server that looks knows its own noise, so that one noise is left."""
        return NoisyCounts(self.size, self.users, self.noise).telling(views, others, source)

    def trusted_counts(self, view: Integers, source: Source | None) -> tuple[Integers, Source]:
        if source is None:
            raise InvalidParameter("source", None, "given: here each of two servers draws its noise")
        return super().trusted_counts(view, source)

    @property
    def messages_per_user(self) -> float:
        return 2.0

    @property
    def message_bits(self) -> int:
        """On average: one share is a seed, the other a number for each item."""
        return self.ring.share_bits(self.size) // SERVERS

    def shape(self, claim: Guarantee) -> Shape:
        if self.size > MOST_MESSAGES:
            limit = f"at most {MOST_MESSAGES:,}: a report has a number for each item, and is for simulation only"
            raise InvalidParameter("size", self.size, limit)
        return Shape(1, self.ring.size * self.size, 0)
