"""The least noise for labelled messages: what a user's move from one bucket to another needs, exactly."""

from __future__ import annotations

import math
from functools import lru_cache

from croupier.noise import Noise, Poisson, Polya
from croupier.privacy import Loss, calibrate, privacy_loss

FAR = 1e-6
"""The failure probability at which the error of a one-sided count is made least."""

LEAST_COMPOSED = 0.01
"""Below this ε the grid of numerical composition is too coarse, and each bucket gets half of the budget instead."""


def move(noise: Noise) -> Loss:
    """The loss of a user's change of item: one count rises by one and another falls by one."""
    return privacy_loss(noise, 1, direction="up") + privacy_loss(noise, 1, direction="down")


@lru_cache(maxsize=256)
def tight_noise(epsilon: float, delta: float, least: str) -> Noise:
    """The noise under which a user's move is private and which is least in one respect.

    "variance": Poisson, the limit of negative binomials, for unbiased counts. "quantile": Poisson or the negative
    binomial that makes the error of the one-sided count itself least, and with it the messages few.
    """
    if epsilon < LEAST_COMPOSED:
        return calibrate(Poisson, epsilon=epsilon / 2.0, delta=delta / 2.0)
    poisson = calibrate(Poisson, epsilon=epsilon, delta=delta, loss=move)
    if least == "variance":
        return poisson
    gap = _best_gap(epsilon, delta, poisson)
    polya = _polya(gap, epsilon, delta, poisson.mean, 1e-4)
    return min((poisson, polya), key=lambda noise: (noise.tail_quantile(FAR), noise.variance))


def _best_gap(epsilon: float, delta: float, poisson: Noise) -> float:
    """How far the best β is from one: golden section on the logarithm, with shapes known to a percent."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    low, high = math.log(0.05 * min(epsilon, 1.0)), math.log(0.99)

    def error(log_gap: float) -> float:
        return _polya(math.exp(log_gap), epsilon, delta, poisson.mean, 0.003).tail_quantile(FAR)

    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = error(left), error(right)
    while high - low > 0.1:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = error(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = error(right)
    return math.exp((low + high) / 2.0)


def _polya(gap: float, epsilon: float, delta: float, most: float, resolution: float) -> Polya:
    """The least shape, rounded up, for β = 1 - gap; noise of the Poisson's variance is the first guess."""
    beta = 1.0 - gap

    def met(r: float) -> bool:
        return move(Polya(r, beta)).delta(epsilon) <= delta

    high = most * gap * gap / beta
    while not met(high):
        high *= 1.5
    low = high / 1.5
    while met(low):
        low, high = low / 1.5, low
    while high / low > 1.0 + resolution:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if met(middle) else (middle, high)
    return Polya(high, beta)
