"""What exponentials and logarithms leave beyond their first terms, to the last digits: cumulants begin with t²."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from croupier.noise.window import Floats

SMALL = 0.1
"""Below it the difference of nearly equal numbers would lose more than one digit, and series are summed."""

_EXP = [1.0 / math.factorial(k) for k in range(11, 1, -1)]
_LOG = [(-1.0) ** (k + 1) / k for k in range(18, 1, -1)]


def exp_rest(t: ArrayLike) -> Floats:
    """e^t - 1 - t.

    >>> float(exp_rest(1e-8))
    5.000000016666667e-17
    """
    return _summed(_EXP, np.expm1, np.asarray(t, dtype=np.float64))


def log_rest(u: ArrayLike) -> Floats:
    """log(1 + u) - u, for u > -1.

    >>> float(log_rest(1e-8))
    -4.999999966666667e-17
    """
    return _summed(_LOG, np.log1p, np.asarray(u, dtype=np.float64))


def _summed(series: list[float], function: Callable[[Floats], Floats], x: Floats) -> Floats:
    near = np.clip(x, -SMALL, SMALL)
    return np.where(np.abs(x) < SMALL, np.polyval(series, near) * near**2, function(x) - x)
