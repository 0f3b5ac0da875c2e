"""The exact privacy loss of one release: what the output says about which of two neighbouring inputs it came from.

A release adds noise X to a whole number; a neighbouring input moves that number by at most the sensitivity. The view
is then P, the law of X, or Q, the law of X plus the shift. A `Pair` lists the log-likelihood ratios log P/Q with their
probabilities under P, which decide every guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from croupier.noise.window import EPSILON, SHALLOW, Window

if TYPE_CHECKING:
    from croupier.noise.base import Noise

Floats = NDArray[np.floating[Any]]


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

    @cached_property
    def log_masses(self) -> Floats:
        return np.asarray(np.log(self.masses))

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
    return noise.pair(shift, floor)


def shifted(noise: Noise, window: Window, shift: int) -> Pair:
    """Compare the tabulated law with itself moved by `shift`."""
    size, step = len(window.pmf), abs(shift)
    if step >= size:
        return Pair(np.empty(0), np.empty(0), 1.0, 0.0, window.error)
    here, there = (window.pmf[step:], window.pmf[:-step]) if shift > 0 else (window.pmf[:-step], window.pmf[step:])
    losses = np.log(here / there)
    low, high = noise.support
    # NumPy adds pairwise: it is off by 16 + log2(n) roundings at most, far less than `error` below.
    alone = float((window.pmf[:step] if shift > 0 else window.pmf[-step:]).sum())
    ends = window.start == low if shift > 0 else window.stop - 1 == high
    bound = float(noise.log_ratio(step))
    # Points whose counterpart lies outside the table: impossible where the support ends, else merely not tabulated.
    impossible, cut, error = (alone if ends else 0.0), (0.0 if ends else alone), 2.0 * window.error + 700.0 * EPSILON
    outside = window.below + window.above
    masses = here
    if math.isfinite(bound):
        losses = np.minimum(np.append(losses, bound), bound)
        masses = np.append(here, cut + outside)
        cut = outside = 0.0
    return in_order(losses, masses, impossible, cut + outside, error)


def in_order(losses: Floats, masses: Floats, impossible: float, cut: float, error: float) -> Pair:
    held = masses > 0.0
    losses, masses = losses[held], masses[held]
    order = np.argsort(losses, kind="stable")
    return Pair(losses[order], masses[order], impossible, cut, error)


@lru_cache(maxsize=64)
def worst_pair(noise: Noise, shifts: tuple[int, ...], floor: float = SHALLOW) -> Pair:
    """One pair at least as revealing as each of these shifts: the largest of their profiles.

    A user's value may rise in one release and fall in another, so composing either direction alone is not sound
    unless the noise is balanced.
    """
    return reduce(upper_envelope, (directed_pair(noise, shift, floor) for shift in shifts))


def renyi_divergence(pair: Pair, order: float) -> float:
    """1/(α-1) log Σ P^α Q^{1-α}, rounded up; infinite unless the summands vanish before the table ends."""
    exponents = pair.log_masses + (order - 1.0) * pair.losses
    if pair.impossible > 0.0 or (pair.cut > 0.0 and not _vanish(exponents)):
        return math.inf
    peak = float(exponents.max())
    total = peak + math.log(float(np.exp(exponents - peak).sum()))
    return max(total / (order - 1.0) + (1.0 + 2.0 * order / (order - 1.0)) * pair.error, 0.0)


def _vanish(exponents: Floats) -> bool:
    """Whether the summands fall to nothing, and still fall, where the table ends on the side of large losses."""
    return bool(exponents[-1] < exponents.max() - 60.0 and exponents[-1] < exponents[-2])


def upper_envelope(first: Pair, second: Pair) -> Pair:
    """The pair whose profile δ(ε) is the larger of two profiles.

    As a function of t = e^ε a profile is convex and piecewise linear with a kink at every loss; the kinks of the
    maximum are kinks of either and the points where they cross. The change of slope at a kink is its mass under Q.
    """
    # Two rising runs: a stable sort merges them. A kink that both have stands twice, and turns once.
    kinks = np.sort(np.concatenate((first.losses, second.losses)), kind="stable")
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
