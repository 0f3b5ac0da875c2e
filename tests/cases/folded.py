"""Laws over the numbers modulo something small, where everything that a server sees can be added up."""

from __future__ import annotations

import numpy as np

from croupier.noise import Noise

Law = np.ndarray


def folded(noise: Noise | None, modulus: int) -> tuple[Law, float]:
    """The law of noise modulo a number, by direct summation, and how much of it the summation leaves out."""
    law = np.zeros(modulus)
    if noise is None:
        law[0] = 1.0
        return law, 0.0
    reach = noise.tail_quantile(1e-13)
    for x in range(-reach, reach + 1):
        law[x % modulus] += noise.pmf(x)
    return law, max(0.0, 1.0 - float(law.sum())) + 1e-12


def largest_ratio(one: Law, other: Law) -> float:
    """The largest log ratio of two laws; infinite where only one of them can be."""
    seen = (one > 0) | (other > 0)
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(one[seen]) - np.log(other[seen])).max())
