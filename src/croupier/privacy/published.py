"""Closed-form bounds that the papers prove, for whoever reproduces them and where no sum converges."""

from __future__ import annotations

import math

from croupier.checks import InvalidParameter, Number, between, positive
from croupier.noise import DiscreteGaussianSum


def skellam_divergence(sigma2: Number, order: float, l2: float, l1: float | None = None) -> float:
    """Rényi divergence of Skellam noise of variance σ² per coordinate ([CZ23] Lemma 3).

    αΔ₂²/2σ² + min{((2α-1)Δ₂² + 6Δ₁)/4σ⁴, 3Δ₁/2σ²} for whole α >= 2; other orders take the next whole one, since the
    divergence grows with the order. A scalar has Δ₁ = Δ₂.
    """
    if order <= 1:
        raise InvalidParameter("order", order, "a number > 1")
    alpha, v = max(2, math.ceil(order)), float(positive("sigma2", sigma2))
    l1 = l2 if l1 is None else l1
    excess = min(((2 * alpha - 1) * l2**2 + 6 * l1) / (4 * v**2), 3 * l1 / (2 * v))
    return alpha * l2**2 / (2 * v) + excess


def gaussian_sum_concentrated(noise: DiscreteGaussianSum, sensitivity: float) -> float:
    """ρ of a sum of discrete Gaussians ([CZ23] Lemma 4): ½ min{√(Δ²/nσ² + ξ/2), Δ/√nσ + ξ}², for σ >= 1/2."""
    between("sigma2", noise.sigma2, 0.25, math.inf, "[)")
    exact, xi = sensitivity / math.sqrt(noise.count * float(noise.sigma2)), noise.distance
    return 0.5 * min(math.sqrt(exact**2 + 0.5 * xi), exact + xi) ** 2 * (1.0 + 1e-12)


def gaussian_scale(epsilon: float, delta: float) -> float:
    """σ of the least continuous Gaussian noise with (ε, δ) at sensitivity one: δ = Φ(½/σ - εσ) - e^ε Φ(-½/σ - εσ).

    A yardstick for planning and for references; nothing that is deployed draws continuous noise.

    >>> round(gaussian_scale(1.0, 1e-6), 3)
    4.225
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    epsilon, delta = float(positive("epsilon", epsilon)), float(between("delta", delta, 0, 1))

    def excess(log_scale: float) -> float:
        scale = math.exp(log_scale)
        up, down = log_ndtr(0.5 / scale - epsilon * scale), epsilon + log_ndtr(-0.5 / scale - epsilon * scale)
        return math.exp(up) - math.exp(down) - delta

    return math.exp(float(brentq(excess, math.log(1e-3), math.log(1e9))))
