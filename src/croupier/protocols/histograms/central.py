"""Histograms in the central model: the analyzer is trusted with every item, and adds the noise to the counts.

The stable ones touch only counts that somebody is in, and show a noisy count only above a threshold that no empty one
could pass, so their error does not depend on the universe. The pure one adds noise to every count.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from croupier.checks import InvalidParameter, integer
from croupier.noise import BoundedLaplace, DiscreteLaplace, Noise, Source
from croupier.noise.ratio import RatioNoise
from croupier.privacy import Loss, move_loss, privacy_loss, told_loss
from croupier.protocols.histograms.oracles import (
    Floats,
    FrequencyOracle,
    Integers,
    Reports,
    Selector,
    check_batch,
    check_failure,
    least_error,
)
from croupier.protocols.mechanism import Residual


class Trusted(Selector):
    """What the central model shares: a report is the item itself, and the noise comes with the reading."""

    trust: ClassVar[str] = "analyzer"

    @property
    def messages_per_user(self) -> float:
        return 1.0

    @property
    def residual(self) -> Residual:
        """A report is the item."""
        return Residual(math.inf, 1.0)

    def telling(self, views: Integers, others: Integers, source: Source) -> Integers:
        """The winner."""
        return np.asarray([self.choose(view, source) for view in views])

    def report(self, indices: Integers, source: Source, seats: Integers) -> Reports:
        return Reports(indices, np.ones(len(indices), dtype=np.int64))

    def law(self, counts: Integers, source: Source) -> Integers:
        return counts

    def trusted_counts(self, view: Integers, source: Source | None) -> tuple[Integers, Source]:
        """The true counts, for an analyzer that has a source of noise."""
        if source is None:
            raise InvalidParameter("source", None, "given: in the central model the analyzer draws the noise")
        return self.check_view(view, self.users, self.users), source


class TrustedOracle(Trusted, FrequencyOracle):
    """Counts to which the analyzer adds noise."""

    def decode(self, view: Integers, source: Source | None) -> Integers:
        return self._noisy(*self.trusted_counts(view, source))

    def telling(self, views: Integers, others: Integers, source: Source) -> Integers:
        """Which of the two counts are above what the others alone make it: likelihoods under Laplace noise depend on
        that only.
        """
        above = np.asarray([self.decode(view, source)[:2] for view in views]) > others
        return np.asarray(2 * above[:, 0] + above[:, 1])

    @abstractmethod
    def _noisy(self, counts: Integers, source: Source) -> Integers:
        """The counts as they are released."""

    def estimate(self, decoded: Integers) -> Floats:
        return decoded.astype(np.float64)


class Stable(TrustedOracle):
    """Noise on the counts that somebody is in, shown from a threshold on, and 0 below it."""

    noise: RatioNoise
    threshold: int

    def _noisy(self, counts: Integers, source: Source) -> Integers:
        held = np.flatnonzero(counts)
        shown = counts[held] + self.noise.sample(len(held), source)
        decoded = np.zeros(self.size, dtype=np.int64)
        decoded[held] = np.where(shown >= self.threshold, shown, 0)
        return decoded

    @property
    def std(self) -> float:
        """Of a count that is shown; one that nobody is in never is."""
        return self.noise.std

    def _reach(self, failure: float) -> float:
        """How far noise goes in any count that somebody is in."""
        if not failure:
            return math.inf
        return float(self.noise.tail_quantile(failure / (2.0 * min(self.users, self.size))))

    def bounds(self, decoded: Integers, failure: float) -> tuple[Floats, Floats]:
        reach = self._reach(check_failure(failure))
        value, hidden = decoded.astype(np.float64), decoded == 0
        low = np.where(hidden, 0.0, value - reach)
        high = np.where(hidden, self.threshold - 1 + reach, value + reach)
        return np.clip(low, 0.0, self.users), np.clip(high, 0.0, self.users)

    def radius(self, failure: float) -> float:
        """A count that is hidden may be as large as the threshold and the noise together."""
        return min(self.threshold - 1 + self._reach(check_failure(failure)), float(self.users))


@dataclass(frozen=True)
class BoundedStable(Stable):
    """Bounded noise, and a threshold that an empty count could not pass even if it had noise: nothing can fail."""

    kind: ClassVar[str] = "bounded-stable"
    size: int
    users: int
    noise: BoundedLaplace

    def __post_init__(self) -> None:
        check_batch(self.size, self.users)
        if self.noise.support[1] is None:
            raise InvalidParameter("noise", self.noise, "bounded noise")
        check_symmetric(self.noise)

    @property
    def threshold(self) -> int:  # type: ignore[override]
        return self.bound + 1

    @property
    def bound(self) -> int:
        """How far any noise goes."""
        assert self.noise.support[1] is not None
        return self.noise.support[1]

    @cached_property
    def loss(self) -> Loss:
        """Hiding what is at most the bound makes this a function of all counts plus noise, empty ones included."""
        return move_loss(self.noise)

    def bounds_hold(self, share: str) -> str:
        return "certain, all of them; a count too small to show is given as 0"

    def bounds(self, decoded: Integers, failure: float) -> tuple[Floats, Floats]:
        """Certain, whatever failure is allowed."""
        check_failure(failure)
        return super().bounds(decoded, 0.0)

    def _reach(self, failure: float) -> float:
        return min(super()._reach(failure), float(self.bound))

    def winner_error(self, failure: float) -> float:
        """A best item that is hidden has at most the bound and the reach; one that is shown loses by less."""
        return min(self.bound + self._reach(check_failure(failure)), float(self.users))


@dataclass(frozen=True)
class ThresholdStable(Stable):
    """Discrete Laplace noise, and a threshold that a count of one passes with small probability."""

    kind: ClassVar[str] = "threshold-stable"
    size: int
    users: int
    noise: DiscreteLaplace
    threshold: int

    def __post_init__(self) -> None:
        check_batch(self.size, self.users)
        integer("threshold", self.threshold, 2)
        check_symmetric(self.noise)

    @cached_property
    def loss(self) -> Loss:
        """Two counts of discrete Laplace noise, but for a count that goes from 0 to 1 and is shown.

        Only one of the two inputs can lead to that view. Every other one is a function of the two noisy counts. So the
        chance that a count of one is shown is the exact δ at ε = 2/scale.
        """
        shown = min(1.0, float(self.noise.tail(self.threshold - 2)) * (1.0 + 1e-9))
        return told_loss(move_loss(self.noise), shown)

    def winner_error(self, failure: float) -> float:
        """The best item may be hidden, or any item that somebody holds may have more noise."""
        failure = check_failure(failure, certain=False)
        return min(max(self.threshold - 1, self._reach(failure)) + self._reach(failure), float(self.users))


@dataclass(frozen=True)
class NoisyCounts(TrustedOracle):
    """Discrete Laplace noise on every count: pure, and its error grows with the logarithm of the universe."""

    kind: ClassVar[str] = "noisy-counts"
    size: int
    users: int
    noise: DiscreteLaplace

    def __post_init__(self) -> None:
        check_batch(self.size, self.users)
        check_symmetric(self.noise)

    @cached_property
    def loss(self) -> Loss:
        return 2 * privacy_loss(self.noise, 1)

    @property
    def total(self) -> Noise:
        """All the noise in a count."""
        return self.noise

    @property
    def std(self) -> float:
        return self.total.std

    def _noisy(self, counts: Integers, source: Source) -> Integers:
        return counts + self.total.sample(self.size, source)

    def _reach(self, failure: float) -> tuple[float, float]:
        """Above the truth in any count, below it in one that somebody is in."""
        if not failure:
            return math.inf, math.inf
        above, below = self.size, min(self.users, self.size)
        return tuple(float(self.total.tail_quantile(failure / 2.0 / many)) for many in (above, below))  # type: ignore[return-value]

    def bounds(self, decoded: Integers, failure: float) -> tuple[Floats, Floats]:
        above, below = self._reach(check_failure(failure))
        value = decoded.astype(np.float64)
        return np.clip(value - above, 0.0, self.users), np.clip(value + below, 0.0, self.users)

    def radius(self, failure: float) -> float:
        return min(max(self._reach(check_failure(failure))), float(self.users))

    def winner_error(self, failure: float) -> float:
        failure = check_failure(failure, certain=False)
        window = self.total.window()
        x = np.arange(window.start, window.stop)

        def exceeds(error: int) -> float:
            beaten = np.minimum(1.0, (self.size - 1) * self.total.tail(x + error))
            return float(np.dot(window.pmf, beaten)) + window.below + window.above

        return min(least_error(exceeds, failure, len(x)), float(self.users))


def check_symmetric(noise: Noise) -> None:
    """Bounds go as far below a count as above it."""
    if not noise.symmetric:
        raise InvalidParameter("noise", noise, "symmetric noise")


def published_threshold(epsilon: float, delta: float) -> int:
    """1 + (2/ε) log(2/δ), rounded up: the stability-based histogram that [GKM21] Lemma 11 cites."""
    return 1 + math.ceil(2.0 / epsilon * math.log(2.0 / delta))
