"""The least noise for labelled messages: what a user's move from one bucket to another needs, exactly."""

from __future__ import annotations

import math
from functools import lru_cache

from croupier.noise import Noise, Poisson, Polya
from croupier.privacy import Loss, calibrate, privacy_loss
from croupier.search import least_passing_positive, minimiser

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
    """How far the best β is from one: searched on the logarithm, with shapes known to a percent."""

    def error(log_gap: float) -> float:
        return _polya(math.exp(log_gap), epsilon, delta, poisson.mean, 0.003).tail_quantile(FAR)

    return math.exp(minimiser(error, math.log(0.05 * min(epsilon, 1.0)), math.log(0.99), absolute=0.1))


def _polya(gap: float, epsilon: float, delta: float, most: float, resolution: float) -> Polya:
    """The least shape, rounded up, for β = 1 - gap; noise of the Poisson's variance is the first guess."""
    beta = 1.0 - gap

    def met(r: float) -> bool:
        return move(Polya(r, beta)).delta(epsilon) <= delta

    return Polya(least_passing_positive(met, most * gap * gap / beta, resolution=resolution, factor=1.5), beta)
