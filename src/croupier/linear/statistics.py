"""What a user's device sums for a linear bandit: feature times reward, and the feature's outer product, as one vector.

Both parts travel in one vector with one budget, so their joint norm counts. With ‖x‖ <= 1 and 0 <= y <= 1 the vector
(xy, upper triangle of xxᵀ) has norm at most √2, and two users' vectors differ by at most √4.5: with c = ⟨x, x'⟩ the
squared distance is at most 2 - 2c + 2 - 2c², largest at c = -½.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, integer
from croupier.personal import check_features

Floats = NDArray[np.float64]

SCALE = math.sqrt(2.0)
"""The norm of the largest vector: it is sent divided by this, to lie in the unit ball."""

DIAMETER = 1.5
"""The largest distance of two users' vectors, as sent."""


def statistics_dimension(dimension: int) -> int:
    """d entries of xy and d(d+1)/2 of the triangle.

    >>> statistics_dimension(5)
    20
    """
    return integer("dimension", dimension, 1) * (dimension + 3) // 2


@lru_cache(maxsize=8)
def _triangle(dimension: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the upper triangle: every user's statistics ask for them."""
    return np.triu_indices(dimension)


def statistics(features: ArrayLike, rewards: ArrayLike) -> Floats:
    """(xy, upper triangle of xxᵀ)/√2 for one user or many (the last axis of `features` is the feature).

    >>> (SCALE * statistics([0.6, 0.8], 1.0)).round(2).tolist()
    [0.6, 0.8, 0.36, 0.48, 0.64]
    """
    x, y = check_features(features), np.asarray(rewards, dtype=np.float64)
    if y.shape != x.shape[:-1]:
        raise InvalidParameter("rewards", f"shape {y.shape}", f"one for each feature vector: {x.shape[:-1]}")
    if not np.all((y >= 0.0) & (y <= 1.0)):
        worst = float(y[~((y >= 0.0) & (y <= 1.0))].flat[0])
        raise InvalidParameter("rewards", worst, "numbers in [0, 1]")
    rows, columns = _triangle(x.shape[-1])
    return np.concatenate((x * y[..., None], x[..., rows] * x[..., columns]), axis=-1) / SCALE


def moments(sums: Floats, dimension: int) -> tuple[Floats, Floats]:
    """Σ xy and Σ xxᵀ from a sum of sent vectors."""
    if sums.shape != (statistics_dimension(dimension),):
        raise InvalidParameter("sums", f"shape {sums.shape}", f"({statistics_dimension(dimension)},)")
    whole = SCALE * sums
    matrix = np.zeros((dimension, dimension))
    rows, columns = _triangle(dimension)
    matrix[rows, columns] = matrix[columns, rows] = whole[dimension:]
    return whole[:dimension], matrix
