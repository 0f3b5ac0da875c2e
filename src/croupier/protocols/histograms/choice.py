"""Choosing the item held most often with a trusted analyzer: only the winner is released, not the counts.

All of them accept an item with probability e^{-ε·gap/2}, the gap being how far its count is below the largest. The
coin is exact: a geometric number is at least the gap with exactly that probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.checks import Number, integer, positive
from croupier.noise import DiscreteLaplace, Polya, Source
from croupier.noise.base import to_arb
from croupier.noise.precision import precise
from croupier.noise.source import below, residues
from croupier.privacy import Loss, privacy_loss, told_loss
from croupier.protocols.histograms.central import Trusted
from croupier.protocols.histograms.oracles import Integers, check_batch, check_failure, least_error


@dataclass(frozen=True)
class _Choice(Trusted):
    """Choices by gaps, in units of `scale` = 2/ε."""

    size: int
    users: int
    scale: Number

    def __post_init__(self) -> None:
        check_batch(self.size, self.users)
        object.__setattr__(self, "scale", Fraction(positive("scale", Fraction(self.scale))))

    @cached_property
    def loss(self) -> Loss:
        """ε-DP with ε = 2/scale; no such release loses more than a geometric one with that ratio."""
        return privacy_loss(DiscreteLaplace(Fraction(self.scale) / 2), 1)

    def _accepted(self, gaps: Integers, source: Source) -> NDArray[np.bool_]:
        """Coins of probability e^{-gap/scale}."""
        return Polya(1, scale=self.scale).sample(len(gaps), source) >= gaps

    def _least(self, exceeds: Callable[[float], float], failure: float) -> float:
        """The least error at which the items beyond it, all one step further, win with at most this probability."""
        failure = check_failure(failure, certain=False)
        return least_error(lambda error: exceeds(math.exp(-(error + 1) / float(self.scale))), failure, self.users)


@dataclass(frozen=True)
class PermuteAndFlip(_Choice):
    """Items in random order, each accepted by its coin; the first accepted wins [MS20]."""

    kind: ClassVar[str] = "permute-and-flip"

    def choose(self, view: Integers, source: Source | None) -> int:
        """All coins at once: the first accepted in a random order is any of the accepted, equally likely."""
        counts, source = self.trusted_counts(view, source)
        accepted = np.flatnonzero(self._accepted(counts.max() - counts, source))
        return int(accepted[below(len(accepted), source)])

    def winner_error(self, failure: float) -> float:
        return self._least(lambda a: _outvoted(a, self.size - 1), failure)


@dataclass(frozen=True)
class StableChoice(_Choice):
    """Permute-and-flip among the items that somebody holds and a blank whose count is `threshold`.

    The error does not depend on the universe. A blank result is read as the first item: no item then has many holders.
    """

    kind: ClassVar[str] = "stable-choice"
    threshold: int

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("threshold", self.threshold, 2)

    @cached_property
    def loss(self) -> Loss:
        """Permute-and-flip, but for an item that goes from no holder to one: the result may then be that item.

        Every other result is as private as in permute-and-flip, whose list the item only makes longer. The new item
        wins if its coin is accepted and it is drawn before the blank, which is accepted too: see `_seen_alone`. So δ at
        ε = 2/scale is at most that; one user alone reaches it, and several stay below it.
        """
        return told_loss(super().loss, _seen_alone(self.threshold, self.scale))

    def choose(self, view: Integers, source: Source | None) -> int:
        counts, source = self.trusted_counts(view, source)
        held = np.flatnonzero(counts)
        scores = np.append(counts[held], self.threshold)
        accepted = np.flatnonzero(self._accepted(scores.max() - scores, source))
        won = int(accepted[below(len(accepted), source)])
        return int(held[won]) if won < len(held) else 0

    def winner_error(self, failure: float) -> float:
        """It fails when the blank is accepted before the best item, or an item far below it is; few items are held."""
        failure = check_failure(failure, certain=False)

        def exceeds(error: int) -> float:
            blank = math.exp(-max(error + 1 - self.threshold, 0) / float(self.scale))
            far = math.exp(-(error + 1) / float(self.scale))
            return blank / 2.0 + _outvoted(far, min(self.users, self.size)) if error + 1 > self.threshold else 1.0

        return least_error(exceeds, failure, self.users)


def _outvoted(a: float, others: int) -> float:
    """The chance that the best item loses, when `others` items are each accepted with probability a.

    With B of them accepted the best wins with probability E[1/(1 + B)] = (1 - (1-a)^m)/(ma), m = others + 1.
    """
    # B/(1 + B) is at most B/2, which is as good where rounding would hide the difference.
    bound = others * a / 2.0
    return bound if bound < 1e-6 else 1.0 + math.expm1((others + 1) * math.log1p(-a)) / ((others + 1) * a)


def _seen_alone(threshold: int, scale: Number) -> float:
    """e^{-(t-1)/scale}/2, rounded up: how likely an item with one holder wins, at most.

    Somebody at the top is always accepted beside it, so that it is drawn first half of the time.
    """
    with precise(128):
        return float((-to_arb(Fraction(threshold - 1) / Fraction(scale))).exp()) / 2.0 * (1.0 + 1e-12)


def stable_threshold(epsilon: float, delta: float) -> int:
    """The least blank count at which an item with one holder wins with probability δ at most: e^{-(t-1)ε/2}/2 <= δ."""
    return 1 + max(1, math.ceil(2.0 / epsilon * (math.log(0.5 / delta) + 1e-11)))


@dataclass(frozen=True)
class ExponentialMechanism(_Choice):
    """An item with probability proportional to e^{ε·count/2}: items drawn with replacement until one is accepted."""

    kind: ClassVar[str] = "exponential-mechanism"

    def choose(self, view: Integers, source: Source | None) -> int:
        counts, source = self.trusted_counts(view, source)
        tries = min(4 * self.size, 2**18)
        while True:
            drawn = residues(self.size, (tries,), source)
            accepted = self._accepted(counts.max() - counts[drawn], source)
            if accepted.any():
                return int(drawn[accepted.argmax()])

    def winner_error(self, failure: float) -> float:
        return self._least(lambda a: (self.size - 1) * a / ((self.size - 1) * a + 1.0), failure)
