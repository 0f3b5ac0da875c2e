"""Numerical composition of privacy losses, with both sides of its error.

Under P the total loss is a sum of independent losses, and δ(ε) = E[(1 - e^{ε-L})₊] plus the mass at infinity. Each
loss is moved to a grid by splitting its mass between its two neighbours so that the mass under Q is kept as well: the
result dominates (the safe side), and what it adds is a rounding error ζ of mean about zero, within one grid step h.

*The grid.* Over k releases Z = Σζ exceeds s with probability at most η = exp(-2s²/kh²) (Hoeffding; the mean of ζ is
below h²/8 and is added). Hence δ_true(ε) >= δ(ε + s) - η: the reported ε is at most s too large at δ + η. The step is
chosen so that s is `TOLERANCE`; both sides are reported.

*The transform.* Losses are tilted by e^{λL} before the Fourier transform, with λ the saddle point of the target δ, so
rounding errors are relative to δ, not to one. A bound on them and all mass cut from the ends is carried along with
each law and charged to δ.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from croupier.noise.likelihoods import Floats, Pair
from croupier.noise.window import EPSILON
from croupier.search import minimiser

TOLERANCE = 4e-3
LARGEST_TABLE = 2**23
NEGLIGIBLE = 1e-13
"""Ends of the tilted law that hold no more than this are cut, and what they held is charged."""

SURE = 1e-6 - math.log(NEGLIGIBLE)
"""An exponent that makes a bound negligible, rounded up."""

TOGETHER = 8
"""So many laws are added up by one transform back: longer ones than two need, but fewer."""


@dataclass(frozen=True, eq=False)
class Composed:
    """The sum of independent losses, given as pairs with counts."""

    parts: tuple[tuple[Pair, int], ...]
    _tables: dict[float, Table] = field(default_factory=dict)
    _tilts: dict[float, float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(count for _, count in self.parts)

    @property
    def infinite(self) -> float:
        if any(pair.infinite >= 1.0 for pair, _ in self.parts):
            return 1.0
        return -math.expm1(math.fsum(count * math.log1p(-min(pair.infinite, 1.0)) for pair, count in self.parts))

    @property
    def drift(self) -> float:
        """How far the total may be off because each tabulated loss is."""
        return math.fsum(count * pair.error for pair, count in self.parts)

    def delta(self, epsilon: float) -> float:
        """δ at ε, rounded up."""
        if self.infinite >= 1.0:
            return 1.0
        tilt = self._saddle(lambda log_moment, tilt: log_moment - tilt * epsilon + _most(tilt))
        return self._charge(self._table(tilt).delta(epsilon - self.drift))

    def epsilon(self, delta: float) -> float:
        """The least ε with δ(ε) <= delta, rounded up; infinite where there is none."""
        spare = (delta - self.infinite) / (1.0 + 2.0 * self.drift)
        if spare <= 0.0:
            return math.inf
        return self._table_at(delta).epsilon(spare) + self.drift

    def least_epsilon(self, delta: float) -> float:
        """A lower bound on the true ε at delta, from the same table: see the module's text."""
        if self.infinite >= 1.0 or any(pair.substitute for pair, _ in self.parts):
            return math.inf if self.infinite >= 1.0 else 0.0
        table, eta = self._table_at(delta), 0.01 * delta
        slack = table.step * math.sqrt(self.count * math.log(1.0 / eta) / 2.0) + self.count * table.step**2 / 8.0
        reachable = table.least_epsilon((delta + eta) * (1.0 + 2.0 * self.drift))
        return max(reachable - slack - self.drift, 0.0)

    def _table_at(self, delta: float) -> Table:
        if delta not in self._tilts:
            self._tilts[delta] = self._saddle(lambda moment, tilt: (moment + _most(tilt) - math.log(delta)) / tilt)
        return self._table(self._tilts[delta])

    def _charge(self, finite_part: float) -> float:
        return min(1.0, finite_part * (1.0 + 2.0 * self.drift) + self.infinite)

    def _log_moment(self, tilt: float) -> float:
        return math.fsum(count * _log_sum_exp(pair, tilt) for pair, count in self.parts)

    def _saddle(self, objective: Callable[[float, float], float]) -> float:
        """The tilt that minimises a Chernoff objective, searched on its logarithm."""

        def value(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return objective(self._log_moment(tilt), tilt)

        return math.exp(minimiser(value, math.log(1e-3), -math.log(_step(self.count)), absolute=0.1))

    def _table(self, tilt: float) -> Table:
        if tilt not in self._tables:
            self._tables[tilt] = _tabulate(self.parts, self.count, tilt)
        return self._tables[tilt]


def _most(tilt: float) -> float:
    """log max over x of e^{-λx}(1 - e^{-x}): what the Chernoff bound on P(L > ε) gains as a bound on δ."""
    return tilt * math.log(tilt) - (1.0 + tilt) * math.log1p(tilt)


def compose(parts: tuple[tuple[Pair, int], ...]) -> Composed:
    """Compose pairs, each as often as its count says."""
    return Composed(parts)


@dataclass(frozen=True, eq=False)
class Table:
    """The tilted law of the total loss on a grid: P(L = first + i·step) = weights[i] e^{log_scale - tilt·L}."""

    first: float
    step: float
    weights: Floats
    tilt: float
    log_scale: float
    error: float

    def delta(self, epsilon: float) -> float:
        """E[(1 - e^{ε-L})₊], rounded up."""
        index = max(0, math.floor((epsilon - self.first) / self.step) + 1)
        losses = self.first + self.step * np.arange(index, len(self.weights))
        factors = np.exp(self.log_scale - self.tilt * losses) * -np.expm1(np.minimum(epsilon - losses, 0.0))
        excess = float(np.dot(self.weights[index:], factors))
        return excess * (1.0 + 1e-10) + float(self._uncertainty(np.asarray(epsilon)))

    def epsilon(self, delta: float) -> float:
        """The least grid point ε >= 0 from which on the rounded-up δ stays within `delta`."""
        losses, excess, rounding = self._profile
        over = np.flatnonzero(excess + rounding > delta)
        if not over.size:
            return max(float(losses[0]), 0.0)
        return max(float(losses[over[-1] + 1]), 0.0) if over[-1] + 1 < len(losses) else math.inf

    def least_epsilon(self, delta: float) -> float:
        """The largest grid point at which even the rounded-down δ is above `delta`, or zero."""
        losses, excess, rounding = self._profile
        over = np.flatnonzero(excess - rounding > delta)
        return max(float(losses[over[-1]]), 0.0) if over.size else 0.0

    @cached_property
    def _profile(self) -> tuple[Floats, Floats, Floats]:
        """δ at every grid point from zero on, as P(L > ε) - e^ε Q(L > ε), and a bound on its error."""
        index = max(0, math.floor(-self.first / self.step))
        losses = self.first + self.step * np.arange(index, len(self.weights))
        own = self.weights[index:] * np.exp(np.minimum(self.log_scale - self.tilt * losses, 700.0))
        above = np.append(np.cumsum(own[::-1])[::-1][1:], 0.0)
        other = np.append(np.cumsum((own * np.exp(-losses))[::-1])[::-1][1:], 0.0)
        excess = np.maximum(above - np.exp(losses) * other, 0.0)
        return losses, excess, 1e-10 * above + self._uncertainty(losses)

    def _uncertainty(self, epsilon: Floats) -> Floats:
        """The error of the tilted law times the most that one unit of it can count: e^{-λx}(1-e^{-x}) <= 1/(1+λ)."""
        most = np.exp(np.minimum(self.log_scale - self.tilt * epsilon, 700.0)) / (1.0 + self.tilt)
        return np.asarray(self.error * most)


def _log_sum_exp(pair: Pair, tilt: float) -> float:
    exponents = tilt * pair.losses + pair.log_masses
    peak = float(exponents.max())
    return peak + math.log(float(np.exp(exponents - peak).sum()))


@dataclass(frozen=True, eq=False)
class Law:
    """A tilted, normalised law on the grid from `start`, and a bound on its total error.

    `log_moments` are log E[e^{rX}] of the exact law for each rate r (see `_rates`) and then for each -r, X counted in
    grid steps: they add up when laws do, and bound how far a sum reaches before it is computed.
    """

    start: int
    weights: Floats
    error: float
    log_moments: Floats

    def times(self, count: int, rates: Floats) -> Law:
        """The law of the sum of `count` copies, by repeated squaring."""
        result: Law | None = None
        base = self
        while True:
            if count & 1:
                result = base if result is None else _sum((result, base), rates)
            count >>= 1
            if not count:
                assert result is not None
                return result
            base = _sum((base,), rates, copies=2)


def _sum(laws: Sequence[Law], rates: Floats, copies: int = 1) -> Law:
    """The law of the sum of so many copies of each law: one transform of each, one back, no longer than they need be.

    Chernoff's bound names a stretch of the grid outside of which lies at most `NEGLIGIBLE` on either side. A transform
    as long as that folds the rest into it, so as much is lost outside and as much is wrong inside. A transform errs by
    at most 4 ε log₂ N of its norm ‖·‖₂, and no other factor exceeds one: the sum errs in total by √N times the norms of
    all that was transformed.
    """
    log_moments = copies * sum((law.log_moments for law in laws[1:]), laws[0].log_moments)
    start = copies * sum(law.start for law in laws)
    stop = start + copies * sum(len(law.weights) - 1 for law in laws) + 1
    upward, downward = ((half + SURE) / rates for half in np.split(log_moments, 2))
    first = math.floor(max(float(start), -downward.min()))
    end = math.ceil(min(float(stop), upward.min() + 1.0))
    length = _good_size(max(end - first, *(len(law.weights) for law in laws)))
    rows = np.zeros((len(laws), length))
    for row, law in zip(rows, laws, strict=True):
        row[: len(law.weights)] = law.weights
    product = np.fft.rfft(rows).prod(axis=0) ** copies
    weights = np.maximum(np.roll(np.fft.irfft(product, length), start - first)[: end - first], 0.0)
    # The sum counts twice: for the way back, and for the products, of which there are fewer than 4 log₂ N.
    norms = copies * math.fsum(_norm(law.weights) for law in laws) + 2.0 * _norm(weights)
    rounding = 4.0 * EPSILON * math.log2(length) * math.sqrt(length) * norms
    error = copies * math.fsum(law.error for law in laws) + rounding + 4.0 * NEGLIGIBLE
    return Law(first, weights, error, log_moments)


def _norm(weights: Floats) -> float:
    """‖w‖₂ of weights that add up to one, from above: the sum of w² is at most their largest."""
    return math.sqrt(float(weights.max()))


def _on_grid(pair: Pair, step: float, tilt: float, rates: Floats) -> tuple[Law, float]:
    """The pair's losses on the grid, tilted, and the logarithm of what normalised them.

    Each mass is split between the grid points around its loss: p(1 - e^{-offset})/(1 - e^{-step}) goes up and the rest
    stays, which keeps its mass under P and under Q.
    """
    logs = pair.log_masses + tilt * pair.losses
    peak = float(logs.max())
    whole = np.exp(logs - peak)
    held = _without_ends(whole, NEGLIGIBLE / 3.0)
    losses = pair.losses[held]
    below = np.floor(losses / step)
    offset = losses - below * step
    rising = np.clip(np.expm1(-offset) / math.expm1(-step), 0.0, 1.0)
    start = int(below[0])
    index = below.astype(np.int64) - start
    tilted = whole[held] * np.exp(-tilt * offset)  # as at the grid point below
    points = np.concatenate((index, index + 1))
    weights = np.concatenate((tilted * (1.0 - rising), tilted * math.exp(tilt * step) * rising))
    total = float(weights.sum())
    weights /= total
    law: Floats = np.bincount(points, weights).astype(np.float64)
    centre = float(np.dot(points, weights))
    log_moments = _log_moments(points - centre, weights, rates) + (start + centre) * np.concatenate((rates, -rates))
    return Law(start, law, 8.0 * EPSILON + 2.0 * NEGLIGIBLE, log_moments), peak + math.log(total)


def _log_moments(points: Floats, weights: Floats, rates: Floats) -> Floats:
    """log E[e^{rX}] for each rate, and then for each rate's negative; infinite where no double holds the moment."""
    points, weights = points[weights > 0.0], weights[weights > 0.0]
    up, down = [], []
    with np.errstate(over="ignore", divide="ignore"):
        growth = np.exp(rates[0] * points)
        for _ in rates:
            up.append(float(np.dot(growth, weights)))
            down.append(float(np.dot(1.0 / growth, weights)))
            growth *= growth  # each rate is twice the last
    # Near the end of the doubles the inverse of a number is not accurate.
    return np.asarray([math.log(moment) if moment < 1e300 else math.inf for moment in up + down])


def _without_ends(weights: Floats, negligible: float) -> slice:
    """What is left when both ends are cut, each with less than the given share of the whole."""
    sums = np.cumsum(weights)
    back = np.cumsum(weights[::-1])
    least = negligible * sums[-1]
    return slice(int(np.searchsorted(sums, least)), len(weights) - int(np.searchsorted(back, least)))


def _tabulate(parts: tuple[tuple[Pair, int], ...], count: int, tilt: float) -> Table:
    variances = np.asarray([_variance(pair, tilt) for pair, _ in parts])
    spread = math.sqrt(float(np.dot(variances, [float(times) for _, times in parts])))
    step = max(_step(count), 20.0 * (spread + math.sqrt(float(variances.max()))) / LARGEST_TABLE)
    rates = _rates(math.sqrt(float(variances.min())) / step, spread / step)
    log_scale = 0.0
    laws: list[tuple[int, int, Law]] = []
    for order, (pair, times) in enumerate(parts):
        law, log_mass = _on_grid(pair, step, tilt, rates)
        law = law.times(times, rates)
        log_scale += times * log_mass
        laws.append((len(law.weights), order, law))
    # The shortest first keeps every transform as short as it can be.
    heapq.heapify(laws)
    while len(laws) > 1:
        group = [heapq.heappop(laws), heapq.heappop(laws)]
        while laws and len(group) < TOGETHER and laws[0][0] <= 2 * group[0][0]:
            group.append(heapq.heappop(laws))
        merged = _sum([law for _, _, law in group], rates)
        heapq.heappush(laws, (len(merged.weights), group[0][1], merged))
    total = laws[0][2]
    weights = total.weights
    if total.start > 0:
        # A total that is never small still has a profile from zero on.
        weights = np.concatenate((np.zeros(total.start), weights))
    return Table(step * min(total.start, 0), step, weights, tilt, log_scale, total.error)


def _step(count: int) -> float:
    """The grid step at which rounding adds no more than `TOLERANCE` to ε."""
    return TOLERANCE / math.sqrt(count * math.log(1e10) / 2.0)


def _rates(least: float, most: float) -> Floats:
    """Rates for Chernoff's bound on sums of standard deviations between these, in grid steps: each twice the last."""
    # Rounding to the grid alone spreads a loss by up to half a step.
    best = math.sqrt(2.0 * SURE) / max(most, 0.5)
    return 0.5 * best * 2.0 ** np.arange(2 + min(24, math.ceil(math.log2(max(most, 0.5) / max(least, 0.5)))))


def _variance(pair: Pair, tilt: float) -> float:
    """The variance of the tilted loss."""
    exponents = tilt * pair.losses + pair.log_masses
    weights = np.exp(exponents - exponents.max())
    weights /= weights.sum()
    mean = float(np.dot(weights, pair.losses))
    return float(np.dot(weights, (pair.losses - mean) ** 2))


def _good_size(size: int) -> int:
    """The least 2^a·3^b not below `size`: transforms of such lengths are fast."""
    best = 1 << max(size - 1, 1).bit_length()
    three = 1
    while three < best:
        two = 1 << max(math.ceil(size / three) - 1, 0).bit_length()
        if size <= two * three < best:
            best = two * three
        three *= 3
    return best
