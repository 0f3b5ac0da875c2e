"""Histograms in the local model: each user sends one label that is ε-DP by itself, so nobody is trusted.

Projective-geometry response [FNNT22]. Items are points of a projective space; the response is a random point that lies
with larger probability on the hyperplane of the item. Any two hyperplanes meet in equally many points, so the responses
on an item's hyperplane are a sum of independent bits of two known biases, whatever the others hold. A field of 2 is
Hadamard response [ASZ19]; dimension 2 is randomized response.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from flint import arb

from croupier.checks import InvalidParameter, between, integer
from croupier.noise import DiscreteLaplace, Source
from croupier.noise.base import to_arb
from croupier.noise.chances import chance
from croupier.noise.precision import precise
from croupier.privacy import Loss, privacy_loss
from croupier.protocols.histograms.oracles import (
    Floats,
    FrequencyOracle,
    Integers,
    Reports,
    beaten,
    check_batch,
    check_failure,
    least_error,
)
from croupier.protocols.histograms.projective import Space
from croupier.protocols.mechanism import Residual

LARGEST_TRANSFORM = 2**24
MOST_SUMMED = 512
"""Users up to whom the chance of a unanimous vote is added up."""
HADAMARD = 2
"""The field in which projective-geometry response is Hadamard response."""
FIELDS = tuple(q for q in range(2, 1000) if all(q % d for d in range(2, math.isqrt(q) + 1)))


@dataclass(frozen=True)
class ProjectiveResponse(FrequencyOracle):
    """One response a user, on the hyperplane of their item with probability `keep`, and uniform there or elsewhere."""

    kind: ClassVar[str] = "projective-response"
    trust: ClassVar[str] = "nobody"
    lists_reports: ClassVar[bool] = True
    size: int
    users: int
    field: int
    keep: Fraction

    def __post_init__(self) -> None:
        check_batch(self.size, self.users)
        if self.field not in FIELDS:
            raise InvalidParameter("field", self.field, "a prime below 1000")
        integer("transform", self.field**self.space.dimension, 1, LARGEST_TRANSFORM)
        object.__setattr__(self, "keep", Fraction(between("keep", Fraction(self.keep), 0, 1)))
        if self.keep <= self._outside:
            least = self.space.hyperplane / self.space.size
            raise InvalidParameter("keep", self.keep, f"above {least:.6g}, or a response says nothing")

    @cached_property
    def space(self) -> Space:
        return Space.holding(self.size, self.field)

    @property
    def labels(self) -> int:
        return self.space.size

    @cached_property
    def _likelihoods(self) -> tuple[Fraction, Fraction]:
        """The probability of a response on the item's hyperplane, and of one off it."""
        line = self.space.hyperplane
        return self.keep / line, (1 - self.keep) / (self.space.size - line)

    @cached_property
    def _outside(self) -> Fraction:
        """The probability of a response on another item's hyperplane."""
        on, off = self._likelihoods
        common = self.space.common
        return on * common + off * (self.space.hyperplane - common)

    @cached_property
    def _gain(self) -> float:
        return float(self.keep - self._outside)

    @cached_property
    def loss(self) -> Loss:
        """A response is likelier by at most a ratio under one item than another; any ε-DP release loses no more than
        a geometric one, whose likelihoods have that ratio everywhere.
        """
        on, off = self._likelihoods
        with precise(256):
            most = _fraction(to_arb(on / off).log().upper())
        nearest = float(most)
        epsilon = nearest if Fraction(nearest) >= most else math.nextafter(nearest, math.inf)
        return privacy_loss(DiscreteLaplace(1 / Fraction(epsilon)), 1)

    @property
    def residual(self) -> Residual:
        """What it promises anyway; a response on one item's hyperplane and off the other's tells most."""
        on, off = map(float, self._likelihoods)
        return Residual(self.loss.epsilon(0.0), (self.space.hyperplane - self.space.common) * (on - off))

    @property
    def messages_per_user(self) -> float:
        return 1.0

    @property
    def std(self) -> float:
        out = float(self._outside)
        return math.sqrt(self.users * out * (1.0 - out)) / self._gain

    def report(self, indices: Integers, source: Source, seats: Integers) -> Reports:
        on = chance(self.keep, len(indices), source)
        return Reports(self.space.draw(indices, on, source), np.ones(len(indices), dtype=np.int64))

    def law(self, counts: Integers, source: Source) -> Integers:
        """No total says less than the users do: every user responds."""
        return self.gather(np.repeat(np.arange(self.size), counts), source)

    def decode(self, view: Integers, source: Source | None) -> Integers:
        """How many responses lie on each item's hyperplane."""
        return self.space.on_hyperplanes(self.check_view(view, self.users, self.users), self.size)

    def estimate(self, decoded: Integers) -> Floats:
        return np.asarray((decoded - self.users * float(self._outside)) / self._gain, dtype=np.float64)

    def bounds(self, decoded: Integers, failure: float) -> tuple[Floats, Floats]:
        """Exact limits of the responses' mean rate [CP34], turned into counts.

        A sum of bits of different biases has lighter tails, from one step beyond its mean, than the binomial of the
        same mean [Hoe56]: a limit is therefore at least one step away.
        """
        from scipy.special import betaincinv

        failure = check_failure(failure)
        if not failure:
            return np.zeros(self.size), np.full(self.size, float(self.users))
        n, level = self.users, failure / (2.0 * self.size)
        seen, where = np.unique(decoded, return_inverse=True)
        low = np.where(seen > 0, betaincinv(np.maximum(seen, 1), n - seen + 1, level), 0.0)
        high = np.where(seen < n, betaincinv(seen + 1, np.maximum(n - seen, 1), 1.0 - level), 1.0)
        low, high = np.minimum(low, (seen - 1) / n), np.maximum(high, (seen + 1) / n)
        ends = [(n * rate - n * float(self._outside)) / self._gain for rate in (low, high)]
        return np.clip(ends[0], 0.0, n)[where], np.clip(ends[1], 0.0, n)[where]

    def radius(self, failure: float) -> float:
        """Bernstein's bound with the exact variance, added up over all items.

        The sum over items is the largest over all ways to spread the users, bounded by duality: few items can have
        many holders. One that nobody holds cannot come out below its count.
        """
        failure, n = check_failure(failure, certain=False), self.users
        inside, outside = (float(rate * (1 - rate)) for rate in (self.keep, self._outside))
        ladder = np.append(np.exp2(np.arange(0.0, math.log2(n), 1 / 16)), n)
        spread = n * outside + ladder * (inside - outside)
        steps, spread = ladder[:-1], np.maximum(spread[:-1], spread[1:])
        if n == 1:
            steps, spread = ladder, np.asarray([inside])

        def exceeds(error: int) -> float:
            far = error * self._gain
            held = 2.0 * np.exp(-(far**2) / (2.0 * (spread + far / 3.0)))
            empty = math.exp(-(far**2) / (2.0 * (n * outside + far / 3.0)))
            prices = max(empty, 1e-300) * self.size / n * np.exp2(np.arange(-8, 24))
            worth = (held[None, :] - prices[:, None] * steps[None, :]).max(axis=1)
            return float((self.size * np.maximum(worth, empty) + prices * n).min())

        return least_error(exceeds, failure, n)

    def winner_error(self, failure: float) -> float:
        """Chernoff's bound on the difference of two items' responses, from its exact moments, for every other item."""
        failure = check_failure(failure, certain=False)
        tilts = np.geomspace(1e-4, 8.0, 400) * self._gain
        best, worse, neither = self._log_moments(tilts)

        def exceeds(error: int) -> float:
            gap = error + 1
            # With the gap fixed the exponent is linear in the lesser count, so one of its ends is the worst.
            exponents = (
                (gap + lesser) * best + lesser * worse + (self.users - gap - 2 * lesser) * neither
                for lesser in (0, (self.users - gap) // 2)
            )
            return (self.size - 1) * math.exp(max(float(exponent.min()) for exponent in exponents))

        return least_error(exceeds, failure, self.users)

    @cached_property
    def unanimous_failure(self) -> float:
        """Exact for two items, the second of which all hold; with more, their responses are taken as independent.

        Given the responses on the item's hyperplane, those on another's are a sum of two binomials. Large batches get
        the general bound.
        """
        from scipy.stats import binom

        if self.users > MOST_SUMMED:
            return super().unanimous_failure
        n, space = self.users, self.space
        within = space.common / space.hyperplane
        without = (space.hyperplane - space.common) / (space.size - space.hyperplane)
        lost = 0.0
        for own, chance_of in enumerate(binom.pmf(np.arange(n + 1), n, float(self.keep))):
            if chance_of > 0.0:
                inside = binom.pmf(np.arange(own + 1), own, within)
                rival = np.convolve(inside, binom.pmf(np.arange(n - own + 1), n - own, without))
                lost += chance_of * float(beaten(rival[own:].sum(), self.size - 1))
        return min(1.0, lost)

    def _log_moments(self, tilt: Floats) -> tuple[Floats, Floats, Floats]:
        """log E e^{tilt·(on a worse item's hyperplane - on the best one's)} for a holder of either, or of none.

        In this order: of the best, of the worse, of neither, where it is largest for items in general position.
        """
        line, common, three = self.space.hyperplane, self.space.common, self.space.common_to_three
        on, off = map(float, self._likelihoods)
        aside = (common - three) * on + (line - 2 * common + three) * off
        shares = ((line - common) * off, (line - common) * on), ((line - common) * on, (line - common) * off)
        best, worse, neither = (
            np.log1p(up * np.expm1(tilt) + down * np.expm1(-tilt)) for up, down in (*shares, (aside, aside))
        )
        return best, worse, neither


SHORTLIST = 4
"""Responses of least variance among which the error decides: it depends on the users too."""


@lru_cache(maxsize=256)
def best_responses(epsilon: float, size: int) -> tuple[tuple[int, Fraction], ...]:
    """Fields of least variance for an item that nobody holds, each with the largest `keep` that ε-DP allows.

    The best comes first, Hadamard response last, so that whoever chooses among them is never worse off than with it.
    """
    candidates = []
    for field in FIELDS:
        if field ** Space.holding(size, field).dimension <= LARGEST_TRANSFORM:
            keep = largest_keep(epsilon, field, size)
            candidates.append((ProjectiveResponse(size, 1, field, keep).std, field, keep))
    if not candidates:
        raise InvalidParameter("size", size, f"at most {LARGEST_TRANSFORM // 2:,} for local reports")
    hadamard = next((row for row in candidates if row[1] == HADAMARD), None)
    better = sorted(row for row in candidates if hadamard is None or row < hadamard)[:SHORTLIST]
    return tuple((field, keep) for _, field, keep in [*better, *([hadamard] if hadamard else [])])


@lru_cache(maxsize=256)
def best_response(epsilon: float, size: int, users: int, failure: float, measure: str) -> ProjectiveResponse:
    """Of the best responses the one that errs least among so many users: in `radius` or in `winner_error`."""
    responses = [ProjectiveResponse(size, users, *response) for response in best_responses(epsilon, size)]
    return min(responses, key=lambda response: getattr(response, measure)(failure))


def hadamard_response(epsilon: float, size: int, users: int) -> ProjectiveResponse:
    """The published one [ASZ19]."""
    return ProjectiveResponse(size, users, HADAMARD, largest_keep(epsilon, HADAMARD, size))


def largest_keep(epsilon: float, field: int, size: int) -> Fraction:
    """e^ε s/(e^ε s + rest), rounded down to 60 bits: the ratio of likelihoods stays below e^ε."""
    space = Space.holding(size, field)
    with precise(256):
        weight = to_arb(epsilon).exp() * space.hyperplane
        scaled = weight / (weight + space.size - space.hyperplane) * arb(2) ** 60
        return Fraction(math.floor(_fraction(scaled.lower())), 2**60)


def _fraction(exact: arb) -> Fraction:
    mantissa, exponent = exact.man_exp()
    return int(mantissa) * Fraction(2) ** int(exponent)
