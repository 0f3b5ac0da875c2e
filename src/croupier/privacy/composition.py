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
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from croupier.noise.likelihoods import Floats, Pair
from croupier.privacy.grid import Law, law_of_sum, on_grid, rates_between
from croupier.search import minimiser

TOLERANCE = 4e-3
LARGEST_TABLE = 2**23
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
        excess = np.maximum(above - _discounted(own, self.step), 0.0)
        return losses, excess, 1e-10 * above + self._uncertainty(losses)

    def _uncertainty(self, epsilon: Floats) -> Floats:
        """The error of the tilted law times the most that one unit of it can count: e^{-λx}(1-e^{-x}) <= 1/(1+λ)."""
        most = np.exp(np.minimum(self.log_scale - self.tilt * epsilon, 700.0)) / (1.0 + self.tilt)
        return np.asarray(self.error * most)


def _discounted(masses: Floats, step: float) -> Floats:
    """Σ_{j > i} masses[j] e^{-(j - i)·step} for every i, in stretches whose exponentials are doubles."""
    sums = np.zeros(len(masses))
    stretch = max(1, math.floor(500.0 / step))
    beyond = 0.0  # the sum for the last point before the stretch that is next
    for start in reversed(range(0, len(masses), stretch)):
        held = masses[start : start + stretch]
        fall = np.exp(-step * np.arange(1, len(held) + 1))
        later = np.append(np.cumsum((held * fall)[::-1])[::-1], beyond * fall[-1])
        later[:-1] += later[-1]
        sums[start : start + stretch] = later[1:] / fall
        beyond = float(later[0])
    return sums


def _log_sum_exp(pair: Pair, tilt: float) -> float:
    exponents = tilt * pair.losses + pair.log_masses
    peak = float(exponents.max())
    return peak + math.log(float(np.exp(exponents - peak).sum()))


def _tabulate(parts: tuple[tuple[Pair, int], ...], count: int, tilt: float) -> Table:
    variances = np.asarray([_variance(pair, tilt) for pair, _ in parts])
    spread = math.sqrt(float(np.dot(variances, [float(times) for _, times in parts])))
    step = max(_step(count), 20.0 * (spread + math.sqrt(float(variances.max()))) / LARGEST_TABLE)
    rates = rates_between(math.sqrt(float(variances.min())) / step, spread / step)
    log_scale = 0.0
    laws: list[tuple[int, int, Law]] = []
    for order, (pair, times) in enumerate(parts):
        law, log_mass = on_grid(pair, step, tilt, rates)
        law = law.times(times, rates)
        log_scale += times * log_mass
        laws.append((len(law.weights), order, law))
    # The shortest first keeps every transform as short as it can be.
    heapq.heapify(laws)
    while len(laws) > 1:
        group = [heapq.heappop(laws), heapq.heappop(laws)]
        while laws and len(group) < TOGETHER and laws[0][0] <= 2 * group[0][0]:
            group.append(heapq.heappop(laws))
        merged = law_of_sum([law for _, _, law in group], rates)
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


def _variance(pair: Pair, tilt: float) -> float:
    """The variance of the tilted loss."""
    exponents = tilt * pair.losses + pair.log_masses
    weights = np.exp(exponents - exponents.max())
    weights /= weights.sum()
    mean = float(np.dot(weights, pair.losses))
    return float(np.dot(weights, (pair.losses - mean) ** 2))
