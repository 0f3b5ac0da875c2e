"""The sizes of an arm's batches, one after another, and the mechanism of each."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from croupier.bandits.chernoff import Numbers
from croupier.checks import InvalidParameter, integer
from croupier.comparisons.tails import NO_NOISE, NO_TAILS, Cumulants, Tails, cumulants, tails
from croupier.privacy import any_of
from croupier.protocols import Protocol, SumMechanism

SMALLEST = 32
"""No batch of a tight policy is smaller: privacy in a crowd of a few is not worth having."""

QUIET = 0.25
"""A batch is quiet when its noise varies by no more than this share of what its users do."""

LARGEST = 2**50
"""No batch is larger: sums of so many users are still exact in doubles."""


MOST_PLANS = 256
"""So many mechanisms are kept at hand: each phase asks for its own several times."""


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
    _plans: dict[int, SumMechanism] = field(default_factory=dict, repr=False, compare=False)

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
        if self.protocol is None:
            return None
        if size not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[size] = self.protocol.plan(size)
        return self._plans[size]

    @cached_property
    def any_size(self) -> bool:
        """Whether a batch may have any number of users, and its noise is the same with each."""
        mechanism = self.mechanism(self.first)
        return mechanism is None or mechanism.fits_any_batch

    def noise_sizes(self, sizes: Numbers) -> Numbers:
        """Sizes whose noise is that of these: the first of all, where noise does not depend on the size."""
        return np.full_like(sizes, self.first) if self.any_size else sizes

    def excess(self, horizon: int | None) -> float:
        """How many times the δ that is promised a returning user's batches cost together, whatever their sizes.

        Pure ε, Rényi divergence and ρ add up, and advanced composition asks for one (ε, δ) alone. Numerical composition
        of one size's noise says nothing of another's, so there all sizes are composed as one that covers them all.
        """
        asked = self.protocol
        if asked is None or asked.participations == 1 or asked.published or asked.row.notion != "approximate":
            return 0.0
        if horizon is None:
            raise InvalidParameter("participations", asked.participations, "1 where the horizon is not known")
        sizes = self._up_to(horizon)
        covering = any_of(asked.plan(size).loss.dominating for size in sizes)
        return (asked.participations * covering).delta(asked.epsilon) / asked.delta

    def noise(self, size: int) -> Tails:
        """The tails of the noise in a batch of this size, in units of a reward."""
        mechanism = self.mechanism(size)
        if mechanism is None:
            return NO_TAILS
        return tails(mechanism.noise, mechanism.unit / mechanism.values.span, mechanism.wrap_probability)

    def cumulants(self, size: int) -> Cumulants:
        """The cumulants of that noise, for bets on differences."""
        mechanism = self.mechanism(int(self.noise_sizes(np.asarray(size))))
        if mechanism is None:
            return NO_NOISE
        return cumulants(mechanism.noise, mechanism.unit / mechanism.values.span, mechanism.wrap_probability)


def quiet_size(protocol: Protocol, rate: float = 0.5, effect: float | None = None) -> int:
    """The smallest batch whose noise is small beside its users, when their mean outcome is `rate`.

    Small beside the `effect` that is looked for does as well: then its sum is twice as large as the noise's deviation.
    Where every user adds noise enough alone, no batch is quieter than another: then it is the smallest that there is.

    >>> from croupier.protocols import laplace
    >>> served = laplace(epsilon=1.0, binary=True, trust="two-servers")
    >>> quiet_size(served), quiet_size(served, 0.02), quiet_size(laplace(epsilon=0.1), effect=0.3)
    (59, 752, 95)
    """
    size = max(SMALLEST, protocol.smallest)
    users = rate * (1.0 - rate)
    if noise_variance(protocol, 1024 * size) > 512 * noise_variance(protocol, size):
        return size
    # Else noise hardly depends on the size of a batch, and this ends after a few steps.
    while (noise := noise_variance(protocol, size)) > QUIET * size * users:
        enough = math.inf if effect is None else 2.0 * math.sqrt(noise) / effect
        if size >= enough:
            break
        size = max(size + 1, math.ceil(min(noise / (QUIET * users), enough)))
    return size


def noise_variance(protocol: Protocol, users: int) -> float:
    """How much the noise of a batch varies, in units of a reward."""
    mechanism = protocol.plan(users)
    return mechanism.noise.variance * (mechanism.unit / mechanism.values.span) ** 2
