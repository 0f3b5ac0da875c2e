"""Laws too wide to tabulate, and certified convolution for those that are not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from flint import arb, arb_poly

from croupier.noise.precision import precise
from croupier.noise.window import EPSILON, Floats, Window
from croupier.search import least_passing_integer

CONVOLUTION_BITS = 384
NEGLIGIBLE = 1e-18


def fourier_tail(log_characteristic: Callable[[Floats], Floats], std: float, scale: float, x: int) -> float:
    """P(X > x) of a symmetric integer law from its characteristic function, with an absolute error of about 1e-15.

    P(|X| <= x) is the Dirichlet kernel against the characteristic function. On a lattice the trapezoid rule with N
    nodes is exact up to the mass that lies N further out, and few of the nodes matter when the law is wide.
    """
    span = math.ceil(14.0 * std + 60.0 * scale) + 64
    nodes = 2 * (x + span)
    step = 2.0 * math.pi / nodes
    last = 64
    while last < nodes // 2 and log_characteristic(np.asarray([last * step]))[0] > math.log(NEGLIGIBLE):
        last *= 2
    theta = step * np.arange(1, min(last, nodes // 2) + 1)
    weight = np.full(len(theta), 2.0)
    if last >= nodes // 2:
        weight[-1] = 1.0  # the node at pi stands alone; all others come in pairs
    kernel = np.sin((x + 0.5) * theta) / np.sin(theta / 2.0)
    inside = (2 * x + 1 + float(np.sum(weight * np.exp(log_characteristic(theta)) * kernel))) / nodes
    return max(0.5 * (1.0 - inside), 0.0) + 1e-15


def chernoff_tail(cumulant: Callable[[Floats], Floats], limit: float, x: int) -> float:
    """An upper bound on P(X > x), for tails too far out for Fourier inversion; `limit` is where the cumulant ends."""
    slopes = limit * np.concatenate((np.geomspace(1e-6, 0.5, 200), 1.0 - np.geomspace(0.5, 1e-6, 200)))
    return float(np.exp(np.minimum((cumulant(slopes) - slopes * (x + 1)).min(), 0.0)))


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
