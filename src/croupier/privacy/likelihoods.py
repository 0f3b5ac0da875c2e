"""The exact privacy loss of one release: what the output says about which of two neighbouring inputs it came from.

A release adds noise X to a whole number; a neighbouring input moves that number by at most the sensitivity. The view
is then P, the law of X, or Q, the law of X plus the shift. A `Pair` lists the log-likelihood ratios log P/Q with their
probabilities under P, which decide every guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.noise import Binomial, DiscreteLaplace, Noise, PolyaDifference, SparseBits, Window
from croupier.noise.base import EPSILON, SHALLOW
from croupier.noise.binomial import fair_rows

Floats = NDArray[np.floating[Any]]

WIDEST = 1.5e5
"""A Binomial law is tabulated up to this standard deviation."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Losses log P/Q in rising order and their masses under P.

    `impossible` is the mass where Q is zero, `cut` what was left out of the table: both count as infinite loss, the
    safe side. Masses are right up to a factor 1 ± error, losses up to ± error. A `substitute` is the pair of a less
    private law, where the true one is too wide to tabulate: an upper bound only.
    """

    losses: Floats
    masses: Floats
    impossible: float
    cut: float
    error: float
    substitute: bool = False

    @property
    def infinite(self) -> float:
        return self.impossible + self.cut

    def delta(self, epsilon: float) -> float:
        """Σ max(0, P - e^ε Q), rounded up."""
        lost = self.infinite * (1.0 + self.error)
        return min(1.0, (self._excess(epsilon, self.error) + lost) * (1.0 + 8.0 * EPSILON))

    def least_delta(self, epsilon: float) -> float:
        """The same sum rounded down, for the other side of the error."""
        if self.substitute:
            return 0.0
        lost = self.impossible * (1.0 - self.error)
        return max(0.0, (self._excess(epsilon, -self.error) + lost) * (1.0 - 8.0 * EPSILON))

    def _excess(self, epsilon: float, error: float) -> float:
        first = int(np.searchsorted(self.losses, epsilon - error, side="right"))
        gaps = -np.expm1(epsilon - error - self.losses[first:])
        return float(np.dot(self.masses[first:], gaps)) * (1.0 + error)


@lru_cache(maxsize=64)
def directed_pair(noise: Noise, shift: int, floor: float = SHALLOW) -> Pair:
    """The loss of X against X + shift."""
    return _pair(noise, shift, floor)


@singledispatch
def _pair(noise: Noise, shift: int, floor: float) -> Pair:
    return _shifted(noise, noise.window(floor), shift)


@_pair.register
def _sparse(noise: SparseBits, shift: int, floor: float) -> Pair:
    """The view shows the number m of noise bits beside the ones, so the loss is a mixture over m.

    The noise counts ones minus zeros: moving a value bit from 0 to 1 moves it by two.
    """
    if shift % 2:
        raise ValueError(f"shift = {shift} is not allowed: bits that flip move ones minus zeros by an even number")
    law = noise.sent()
    if law is None:
        return directed_pair(Binomial(noise.slots, 0.5), shift // 2, floor)
    floor = max(floor, 1e-30)
    sent = law.window(floor)
    losses, masses, step = [], [], abs(shift) // 2
    impossible = edge = 0.0
    for (start, row), weight in zip(fair_rows(sent.start, sent.stop, floor), sent.pmf, strict=True):
        if len(row) > step:
            losses.append(np.log(row[step:] / row[:-step]))
            masses.append(weight * row[step:])
        alone = float(weight * row[:step].sum())
        if start == 0:
            impossible += alone
        else:
            edge += alone
    cut = edge + sent.below + sent.above + 4.0 * floor * (sent.stop - sent.start + 1) * sent.stop
    error = sent.error + 4.0 * EPSILON * (sent.stop - sent.start) + 1e-12
    empty = np.empty(0)
    return _sorted(np.concatenate([empty, *losses]), np.concatenate([empty, *masses]), impossible, cut, error)


@_pair.register
def _binomial(noise: Binomial, shift: int, floor: float) -> Pair:
    """Fewer trials are less private, so a law too wide to tabulate is bounded by a narrower one."""
    if noise.std > WIDEST:
        noise = narrower(noise, WIDEST)
        return replace(_shifted(noise, noise.window(floor), shift), substitute=True)
    return _shifted(noise, noise.window(floor), shift)


def narrower(noise: Binomial, std: float) -> Binomial:
    """Fewer trials of the same bits, with about the given standard deviation."""
    return Binomial(max(1, math.floor(noise.trials * std**2 / noise.variance)), noise.p)


@_pair.register
def _polya_difference(noise: PolyaDifference, shift: int, floor: float) -> Pair:
    """With r > 1 the noise is discrete Laplace plus more, and where it is too wide to tabulate that bounds it."""
    if noise.r > 1 and noise.std > 200:
        return replace(directed_pair(DiscreteLaplace(noise.scale), shift, floor), substitute=True)
    return _shifted(noise, noise.window(floor), shift)


def _shifted(noise: Noise, window: Window, shift: int) -> Pair:
    """Compare the tabulated law with itself moved by `shift`."""
    size, step = len(window.pmf), abs(shift)
    if step >= size:
        return Pair(np.empty(0), np.empty(0), 1.0, 0.0, window.error)
    here, there = (window.pmf[step:], window.pmf[:-step]) if shift > 0 else (window.pmf[:-step], window.pmf[step:])
    losses = np.log(here / there)
    low, high = noise.support
    alone = math.fsum(window.pmf[:step] if shift > 0 else window.pmf[-step:])
    ends = window.start == low if shift > 0 else window.stop - 1 == high
    bound = float(step * noise.log_ratio_bound)
    # Points whose counterpart lies outside the table: impossible where the support ends, else merely not tabulated.
    impossible, cut, error = (alone if ends else 0.0), (0.0 if ends else alone), 2.0 * window.error + 700.0 * EPSILON
    outside = window.below + window.above
    masses = here
    if math.isfinite(bound):
        losses = np.minimum(np.append(losses, bound), bound)
        masses = np.append(here, cut + outside)
        cut = outside = 0.0
    return _sorted(losses, masses, impossible, cut + outside, error)


def _sorted(losses: Floats, masses: Floats, impossible: float, cut: float, error: float) -> Pair:
    held = masses > 0.0
    losses, masses = losses[held], masses[held]
    order = np.argsort(losses, kind="stable")
    return Pair(losses[order], masses[order], impossible, cut, error)


@lru_cache(maxsize=64)
def worst_pair(noise: Noise, sensitivity: int, floor: float = SHALLOW) -> Pair:
    """One pair at least as revealing as the shift up and the shift down: the larger of their two profiles.

    A user's value may rise in one release and fall in another, so composing either direction alone is not sound
    unless the noise is balanced.
    """
    up = directed_pair(noise, sensitivity, floor)
    if noise.balanced:
        return up
    return upper_envelope(up, directed_pair(noise, -sensitivity, floor))


def upper_envelope(first: Pair, second: Pair) -> Pair:
    """The pair whose profile δ(ε) is the larger of two profiles.

    As a function of t = e^ε a profile is convex and piecewise linear with a kink at every loss; the kinks of the
    maximum are kinks of either and the points where they cross. The change of slope at a kink is its mass under Q.
    """
    kinks = np.unique(np.concatenate((first.losses, second.losses)))
    t = np.exp(kinks)
    heights, slopes = zip(*(_profile(pair, kinks, t) for pair in (first, second)), strict=True)
    gap, turn = heights[0] - heights[1], slopes[0] - slopes[1]
    # Where both meet, rounding must not choose: they always do at t = 1.
    gap[np.abs(gap) <= 1e-13 * np.maximum(*heights)] = 0.0
    leads = (gap > 0) | ((gap == 0) & (turn > 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = t - gap / turn
    following = np.append(t[1:], np.inf)
    inside = (gap * turn < 0) & (crossing > t) & (crossing < following)
    vertices = np.concatenate((t, crossing[inside]))
    # To the right of a crossing the other profile leads.
    slope_right = np.concatenate((np.where(leads, *slopes), np.where(leads, slopes[1], slopes[0])[inside]))
    order = np.argsort(vertices, kind="stable")
    vertices, slope_right = vertices[order], slope_right[order]
    # Both profiles start at one; the flatter one leads at first.
    start = -min(float(np.dot(pair.masses, np.exp(-pair.losses))) for pair in (first, second))
    reference = np.maximum(np.diff(np.concatenate(([start], slope_right))), 0.0)
    masses = vertices * reference
    infinite = max(first.infinite, second.infinite)
    impossible = max(first.impossible, second.impossible)
    missing = max(0.0, 1.0 - math.fsum(masses) - infinite)
    error = max(first.error, second.error) + 1e-12
    held = masses > 0.0
    substitute = first.substitute or second.substitute
    return Pair(np.log(vertices[held]), masses[held], impossible, infinite - impossible + missing, error, substitute)


def _profile(pair: Pair, kinks: Floats, t: Floats) -> tuple[Floats, Floats]:
    """Heights at the kinks and slopes to their right, as functions of t."""
    own = np.concatenate((np.cumsum(pair.masses[::-1])[::-1], [0.0]))
    other = np.concatenate((np.cumsum((pair.masses * np.exp(-pair.losses))[::-1])[::-1], [0.0]))
    after = np.searchsorted(pair.losses, kinks, side="right")
    return pair.infinite + own[after] - t * other[after], -other[after]
