"""How far noise can push a vector, or a symmetric matrix, in any direction at once.

Let E be a vector with log E e^{ρ⟨u, E⟩} <= K(ρ) for every unit u. Over a uniform u on the sphere, E e^{ρ⟨u, E⟩} is a
function A(ρ‖E‖) of the length, so by Markov's inequality P(‖E‖ >= r) <= e^{K(ρ)}/A(ρr) for every ρ. With vᵀNv in the
place of ⟨u, E⟩ the same holds for the norm of a symmetric N. Nothing is lost to a net of directions: a Gaussian vector
of five numbers is bounded by 6.8 standard deviations at a chance of e⁻¹⁶, where its exact quantile is 6.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from croupier.search import least_passing_positive

Floats = NDArray[np.float64]
Cumulant = Callable[[Floats], Floats]

SLOPES = np.geomspace(1e-2, 1e3, 400)
"""Slopes that are tried, over the standard deviation; the bound is flat around the best one."""

RESOLUTION = 1e-4
"""How near, relatively, a bound comes to the least one; always from above."""


def longest_vector(dimension: int, std: float, cumulant: Cumulant, failure: float) -> float:
    """What ‖E‖ stays below, except with this probability; `std` is about the deviation along a direction."""
    odds = -math.log(failure)
    return _least(std, cumulant, odds, lambda s: log_sphere_mean(dimension, s))


def largest_matrix(dimension: int, std: float, cumulant: Cumulant, failure: float) -> float:
    """What the norm of a symmetric matrix stays below; twice the chance, for its largest and its least eigenvalue.

    Where the largest one is Λ no other is below -Λ, so the mean over v is at least that of e^{ρΛ(2v₁² - 1)}. This is
    convex in ρΛ and 1 at zero: where it is above 1, as it must be here, it grows.
    """
    odds = math.log(2.0) - math.log(failure)
    return _least(std, cumulant, odds, lambda s: log_quadratic_mean(dimension, s))


def _least(std: float, cumulant: Cumulant, odds: float, log_mean: Callable[[Floats], Floats]) -> float:
    if std == 0.0:
        return 0.0
    slopes = SLOPES / std
    with np.errstate(over="ignore", invalid="ignore"):
        charge = np.asarray(cumulant(slopes))
    # Far out a cumulant is of no use, or infinite.
    useful = np.isfinite(charge) & (charge < 1e4 + 10.0 * odds)
    slopes, charge = slopes[useful], charge[useful] + odds

    def passes(length: float) -> bool:
        return bool((log_mean(slopes * length) >= charge).any())

    return least_passing_positive(passes, std * math.sqrt(2.0 * odds), resolution=RESOLUTION)


def log_sphere_mean(dimension: int, s: Floats) -> Floats:
    """log E e^{su₁} for u uniform on the sphere: Γ(d/2)(2/s)^ν I_ν(s) with ν = d/2 - 1; rounded down.

    >>> float(log_sphere_mean(1, np.asarray([2.0]))[0].round(6)), round(math.log(math.cosh(2.0)), 6)
    (1.325003, 1.325003)
    """
    from scipy.special import gammaln, ive

    nu = dimension / 2.0 - 1.0
    with np.errstate(divide="ignore"):
        found = gammaln(dimension / 2.0) + nu * np.log(2.0 / s) + np.log(ive(nu, s)) + s
    return np.asarray(found - 1e-9 * (1.0 + s))


def log_quadratic_mean(dimension: int, s: Floats) -> Floats:
    """log E e^{s(2u₁² - 1)} = s + log ₁F₁((d-1)/2; d/2; -2s); rounded down.

    >>> float(log_quadratic_mean(1, np.asarray([2.0]))[0].round(6))
    2.0
    """
    from scipy.special import hyp1f1

    with np.errstate(divide="ignore", invalid="ignore"):
        found = s + np.log(hyp1f1((dimension - 1) / 2.0, dimension / 2.0, -2.0 * s))
    # Where the series is lost, v₁ near 1 alone is a lower bound that no slope will choose.
    return np.where(np.isfinite(found), found - 1e-9 * (1.0 + s), -np.inf)
