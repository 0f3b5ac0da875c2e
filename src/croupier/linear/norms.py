"""How long a parameter can be, if all that is known of it is that means lie in the range of rewards.

With x = (c/√m, 1)/√2 the centred mean is linear in c, so it lies in [-½, ½] on the whole box [-1, 1]^m where it does in
the corners, and there its largest absolute value is Σ|θᵢ|/√(2m) + |θ₀|/√2. That this is at most ½ leaves θ a polytope
whose corners lie on the axes; the longest of them has length √(m/2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, integer

Floats = NDArray[np.float64]

SAFE = 1.0 + 1e-9
"""Bounds that were computed are rounded up by this."""

NOTHING, CLEAR = 1e-12, 1e-6
"""A singular value below the first part of the largest is rounding; between the two nobody can tell."""


def box_norm(features: int) -> float:
    """The least bound on a parameter of this many features in their ranges: that of the mean (1 + c₁)/2.

    >>> box_norm(2), box_norm(10).__round__(3)
    (1.0, 2.236)
    """
    return math.sqrt(max(integer("features", features, 0), 1) / 2.0)


def described_norm(features: int, described: Sequence[Sequence[float]]) -> float:
    """A bound on the parameter that actions share, each described by k numbers; the least one where they are unit ones.

    Let A have the K descriptions as rows, and B the rows (a/√(2k), 1). For an action a the centred mean lies in
    [-½, ½] on the box where p + q <= √½, with p = Σ|⟨Θᵢ, a⟩|/√(2mk) and q = |⟨(Θ₀, θ₀), b⟩|. Of all parameters with
    the same means the shortest has its Θᵢ in the span of A's rows, and (Θ₀, θ₀) in that of B's. So, with the least
    singular values s > 0 of each, ‖θ‖² <= 2mk·Σp²/s(A)² + Σq²/s(B)², and Σ(p² + q²) <= Σ(p + q)² <= K/2.

    >>> described_norm(1, [[1, 0], [0, 1]]).__round__(3)
    2.0
    """
    table = np.asarray(described, dtype=np.float64)
    actions, numbers = table.shape
    with_level = np.column_stack((table / math.sqrt(2.0 * numbers), np.ones(actions)))
    stretch = 1.0 / _least(with_level)
    if features and table.any():
        stretch = max(stretch, math.sqrt(2.0 * features * numbers) / _least(table))
    return math.sqrt(actions / 2.0) * stretch * SAFE


def usual_norm(dimension: int, places: int, centred: bool = True) -> float:
    """What a plan takes for the largest norm: that of a box where actions have parameters of their own.

    Vectors that a user brings for each action may be any, and without a constant nothing follows from the range: there
    it is 1, an assumption, as in [TKMS23].
    """
    return box_norm(integer("features", dimension, 1) - 1) if places > 1 and centred else 1.0


def _least(rows: Floats) -> float:
    """The least singular value that is not zero."""
    values = np.linalg.svd(rows, compute_uv=False)
    parts = values / values[0]
    if ((parts > NOTHING) & (parts < CLEAR)).any():
        raise InvalidParameter("described", "numbers that are nearly dependent", "other ones, or have a norm given")
    return float(values[parts >= CLEAR].min())
