"""Chernoff's bound on the noise of all prefixes of a tree at once, from the exact cumulants of its nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from croupier.checks import between
from croupier.continual.tree import Tree

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STEPS = 400
"""Slopes tried for Chernoff's bound, over six orders of magnitude; the bound is flat around the best one."""

CHOSEN = 0.1
"""By how much the failure probability grows when somebody chooses by the noise itself which nodes are left out."""


@dataclass(frozen=True, eq=False)
class Chernoff:
    """log E e^{l·error} of one finished node of each level (rows), over slopes l (columns)."""

    tree: Tree
    slopes: Floats
    nodes: Floats

    def stronger(self, strength: float) -> Chernoff:
        """The same for noise whose cumulants are so many times as large."""
        return replace(self, nodes=strength * self.nodes)

    @cached_property
    def _prefixes(self) -> Floats:
        """log Σ_prefixes e^{cumulant}: with m_i nodes of level i a cumulant is Σ m_i C_i, so the sum is a product."""
        total = np.zeros_like(self.slopes)
        for level, nodes in enumerate(self.tree.nodes):
            top = level == self.tree.levels - 1
            most = nodes if top else min(self.tree.degree - 1, nodes)
            total += _log_geometric(self.nodes[level], most)
        return total

    def deviation(self, odds: float) -> float:
        """What no prefix's noise exceeds, except with probability 1/odds: the least over slopes."""
        return float(np.min(self._exponents(odds) / self.slopes))

    def changed(self, odds: float, finished: int, cumulant: Floats, changes: Integers) -> float:
        """The same for the prefix of so many lowest nodes, some of which are not combined as planned.

        `changes` counts those by level (rows) and kind (columns); `cumulant` is that of the noise really summed. The
        prefix keeps the share of 1/odds that `deviation` gives it: e^{its planned cumulant} of the sum over all.
        """
        exponents = self._exponents(odds)
        least = int(np.argmin(exponents / self.slopes))
        nodes = zip(self.tree.siblings(finished), self.nodes[:, least], strict=True)
        planned = math.fsum(count * value for count, value in nodes)
        share = float(exponents[least]) - planned + self._choices(finished, changes)
        return max(self.deviation(odds), float(np.min((cumulant + share) / self.slopes)))

    def _choices(self, finished: int, changes: Integers) -> float:
        """log of 1/p, where p is the share of one choice of changed nodes: a bound for all choices holds for any rule.

        Choices with as many changes of every kind have equal shares, and all that change something add up to `CHOSEN`.
        """
        each = math.expm1(math.log1p(CHOSEN) / changes.size)
        total = 0.0
        for (level, _), count in np.ndenumerate(changes):
            if count:
                places = finished // self.tree.degree**level
                total += _log_choices(places, int(count)) + math.log(count * (count + 1)) - math.log(each)
        return total

    def _exponents(self, odds: float) -> Floats:
        return self._prefixes + math.log(2.0 * odds)

    def scaled(self, cumulant: Floats, factor: float) -> Floats:
        """A cumulant on the slopes, for the noise times a factor of at most one; never too small.

        A cumulant is convex and zero at zero, so a chord between two slopes lies above it.
        """
        if factor == 1.0:
            return cumulant
        with np.errstate(invalid="ignore"):
            values = np.interp(factor * self.slopes, np.append(0.0, self.slopes), np.append(0.0, cumulant))
        return np.where(np.isnan(values), np.inf, values)


def slopes_around(std: float) -> Floats:
    """Slopes to try for noise of this standard deviation."""
    return np.geomspace(1e-3, 1e3, STEPS) / max(std, 1e-9)


def gaussian_deviation(
    tree: Tree, variances: Sequence[float], failure: float, *, directions: float = 1.0, strength: float = 1.0
) -> float:
    """`CounterPlan.deviation` for Gaussian noise of these variances on the nodes of each level."""
    failure = float(between("failure", failure, 0, 1))
    slopes = slopes_around(math.sqrt(tree.worst(variances)))
    nodes = np.array([strength * variance * slopes**2 / 2.0 for variance in variances])
    return Chernoff(tree, slopes, nodes).deviation(directions / failure)


def _log_choices(places: int, chosen: int) -> float:
    """The logarithm of how many sets of so many there are."""
    return math.lgamma(places + 1) - math.lgamma(chosen + 1) - math.lgamma(places - chosen + 1)


def _log_geometric(exponent: Floats, most: int) -> Floats:
    """log Σ_{m=0}^{most} e^{m·exponent} for exponents >= 0, without overflow."""
    from scipy.special import logsumexp

    endless = np.isinf(exponent)
    exponent = np.where(endless, 0.0, np.maximum(exponent, 0.0))
    if most <= 64:
        total = logsumexp(np.arange(most + 1)[:, None] * exponent[None], axis=0)
    else:
        # most·e + log of Σ e^{-m·e} <= 1/(1 - e^{-e}), and never more than most + 1 terms.
        with np.errstate(divide="ignore"):
            total = most * exponent + np.minimum(-np.log(-np.expm1(-exponent)), math.log(most + 1))
    return np.where(endless, np.inf, total)
