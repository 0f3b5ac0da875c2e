"""The sizes of an arm's batches, one after another, and the mechanism of each."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from croupier.bandits.chernoff import TILTS, Numbers, Tails, tails
from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.privacy import any_of
from croupier.protocols import Protocol, SumMechanism

SMALLEST = 32
"""No batch of a tight policy is smaller: privacy in a crowd of a few is not worth having."""

LARGEST = 2**50
"""No batch is larger: sums of so many users are still exact in doubles."""


@dataclass
class Ladder:
    """The sizes of an arm's batches: each is `growth` times the one before.

    Parameters
    ----------
    protocol : what makes a batch private, or None.
    first : the first size. The protocol may want more.
    growth : at least 1, which keeps the size.

    Examples
    --------
    >>> [Ladder(None, first=32, growth=1.3).size(j) for j in range(5)]
    [32, 42, 55, 71, 92]
    """

    protocol: Protocol | None
    first: int
    growth: float
    _sizes: Numbers = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False, compare=False)

    def __post_init__(self) -> None:
        integer("first", self.first, 1)
        if not self.growth >= 1:
            raise InvalidParameter("growth", self.growth, "a number >= 1")
        if self.protocol is not None:
            self.first = max(self.first, self.protocol.smallest)

    def size(self, step: int) -> int:
        """The size of the batch after `step` earlier ones."""
        return int(self.sizes(np.asarray(step)))

    def sizes(self, steps: Numbers) -> Numbers:
        """The same for an array of steps."""
        most = int(steps.max(initial=0))
        if most >= len(self._sizes):
            # A share ahead, so that many batches cost no more than their number.
            self._sizes = np.array([self._exact(step) for step in range(most + most // 8 + 8)], dtype=np.int64)
        return self._sizes[steps]

    def _exact(self, step: int) -> int:
        reached = math.log(self.first) + step * math.log(self.growth) > math.log(LARGEST) + 1.0
        return LARGEST if reached else min(math.ceil(self.first * self.growth**step - 1e-9), LARGEST)

    def _up_to(self, most: int) -> list[int]:
        """All sizes of at most so many users; the first in any case."""
        steps = itertools.count() if self.growth > 1 else range(1)
        return sorted({self.first, *itertools.takewhile(lambda size: size <= most, map(self._exact, steps))})

    def mechanism(self, size: int) -> SumMechanism | None:
        """How a batch of this size is made private; None without privacy."""
        return None if self.protocol is None else self.protocol.plan(size)

    def check_promise(self, horizon: int | None) -> None:
        """Refuse batches of which a returning user's, whatever their sizes, do not keep the promise together.

        Pure ε, Rényi divergence and ρ add up, and advanced composition asks for one (ε, δ) alone. Numerical composition
        of one size's noise says nothing of another's, so there all sizes are composed as one that covers them all.
        """
        asked = self.protocol
        if asked is None or asked.participations == 1 or asked.published or asked.row.notion != "approximate":
            return
        if horizon is None:
            raise InvalidParameter("participations", asked.participations, "1 where the horizon is not known")
        sizes = self._up_to(horizon)
        covering = any_of(asked.plan(size).loss.dominating for size in sizes)
        found = (asked.participations * covering).delta(asked.epsilon)
        if found > asked.delta:
            promise = f"δ = {found:.3g} at ε = {asked.epsilon:g}, and {asked.delta:.3g} is promised"
            raise CroupierError(f"{asked.name} over batches of {len(sizes)} sizes costs a returning user {promise}")

    def noise(self, size: int) -> Tails:
        """The tails of the noise in a batch of this size, in units of a reward."""
        mechanism = self.mechanism(size)
        if mechanism is None:
            return Tails(np.zeros_like(TILTS), np.zeros_like(TILTS))
        return tails(mechanism.noise, mechanism.unit / mechanism.values.span, mechanism.wrap_probability)
