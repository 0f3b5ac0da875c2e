"""Laws too wide to tabulate, and certified convolution for those that are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, arb_poly
from numpy.typing import NDArray

from croupier.noise.precision import precise
from croupier.noise.window import EPSILON, Floats, Window
from croupier.search import least_passing_integer

Complexes = NDArray[Any]

CONVOLUTION_BITS = 384
NEGLIGIBLE = 1e-18
SLOPES: Floats = np.concatenate((np.geomspace(1e-6, 0.5, 200), 1.0 - np.geomspace(0.5, 1e-6, 200)))
"""Where a saddle point is looked for, as shares of what a cumulant is finite below."""


def fourier_tail(log_characteristic: Callable[[Floats], Floats], std: float, scale: float, x: int) -> float:
    """P(X > x) of a symmetric integer law from its characteristic function, with an absolute error of about 1e-15.

    P(|X| <= x) is the Dirichlet kernel against the characteristic function. On a lattice the trapezoid rule with N
    nodes is exact up to the mass that lies N further out, and few of the nodes matter when the law is wide.
    """
    span = math.ceil(14.0 * std + 60.0 * scale) + 64
    nodes = 2 * (x + span)
    theta, weight = _lattice(log_characteristic, nodes)
    kernel = np.sin((x + 0.5) * theta) / np.sin(theta / 2.0)
    inside = (2 * x + 1 + float(np.sum(weight * np.exp(log_characteristic(theta)) * kernel))) / nodes
    return max(0.5 * (1.0 - inside), 0.0) + 1e-15


def saddle_tail(cumulant: Callable[[Complexes], Complexes], limit: float, std: float, scale: float, x: int) -> float:
    """P(X > x) far out, with a relative error of about 1e-11, from a cumulant that is finite below `limit`.

    The same inversion along a line through the saddle point, where nothing cancels: the tail is the mean over θ of
    e^{K(z) - z(x+1)}/(1 - e^{-z}), z = t + iθ, for every t below the limit.
    """
    slopes = limit * SLOPES
    t = float(slopes[np.argmin(cumulant(slopes) - slopes * (x + 1))])

    def logs(theta: Floats) -> Complexes:
        z = t + 1j * theta
        return np.asarray(cumulant(z) - z * (x + 1) - np.log(-np.expm1(-z)))

    most = float(logs(np.zeros(1))[0].real)
    # What the rule adds of masses that lie N further in falls as e^{-tN}, and N further out as e^{-(limit - t)N}.
    nodes = 2 * math.ceil(max(x + 14.0 * std + 60.0 * scale, 40.0 / t, 60.0 / (limit - t)))
    theta, weight = _lattice(lambda theta: logs(theta).real - most, nodes)
    inside = 1.0 + float(np.sum(weight * np.exp(logs(theta) - most).real))
    return min(math.exp(most) * inside / nodes * (1.0 + 1e-11), 1.0)


def _lattice(log_size: Callable[[Floats], Floats], nodes: int) -> tuple[Floats, Floats]:
    """The nodes up to π that matter, and how often each counts; log_size(θ) falls from 0."""
    step, half, last = 2.0 * math.pi / nodes, nodes // 2, 64
    while last < half and log_size(np.asarray([last * step]))[0] > math.log(NEGLIGIBLE):
        last *= 2
    places = np.arange(1, min(last, half) + 1)
    # The node at pi stands alone; all others come in pairs.
    return step * places, np.where(places == half, 1.0, 2.0)


def fourier_correlate(pmf: Floats) -> Floats:
    """The law of A - B for independent A, B of this law, from -(size-1) on, to an absolute error of about 1e-16."""
    size = 2 * len(pmf) - 1
    length = 1 << (size - 1).bit_length()
    power = np.abs(np.fft.rfft(pmf, length)) ** 2
    law = np.fft.irfft(power, length)
    return np.maximum(np.concatenate((law[length - len(pmf) + 1 :], law[: len(pmf)])), 0.0)


def least_tail_quantile(tail: Callable[[int], float], probability: float, guess: int) -> int:
    """The least x >= 0 with tail(x) <= probability."""
    return least_passing_integer(lambda x: tail(x) <= probability, -1, max(guess, 1))


def convolve(
    left: list[arb], left_start: int, right: list[arb], right_start: int, floor: float, outside: float
) -> Window:
    """The law of a sum of two independent variables given as balls; `outside` bounds the mass they leave out."""
    with precise(CONVOLUTION_BITS):
        product = [float(mass.mid()) for mass in (arb_poly(left) * arb_poly(right)).coeffs()]
    pmf = np.asarray(product)
    held = np.flatnonzero(pmf >= floor)
    first, last = int(held[0]), int(held[-1])
    cut_below, cut_above = float(pmf[:first].clip(0).sum()), float(pmf[last + 1 :].clip(0).sum())
    return Window(
        left_start + right_start + first,
        pmf[first : last + 1],
        (cut_below + outside) * (1.0 + 1e-9),
        (cut_above + outside) * (1.0 + 1e-9),
        4.0 * EPSILON + outside / floor,
    )
