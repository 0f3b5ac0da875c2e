"""What [TKMS21] proves of its two policies: regret bounds with the constants of its proofs, not of its O(·).

Logarithms are natural. Each bound holds for the policy with published constants, batches and radii included. `gaps` are
the Δ of suboptimal arms; zeros, the best arms' own, are left out.

Theorem 3.3 takes t₀ <= log T for the phases of a run, where doubling gives log₂ T only, 1.2 times the square root. Its
constants hold all the same: an arm is pulled at most 3 N times, and the proof charges 4 N.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from croupier.checks import between, integer, positive

TAIL = 4.0
"""The clean event fails with probability 4T⁻² at most, and then costs T at most: 4/T."""


def shuffled_bits_sigma(epsilon: float, delta: float) -> float:
    """σ of [TKMS21] Alg. 3: σ² = 3τ/2, from its tail bound exp(-t²/3τ), with τ = 96 log(2/δ)/ε².

    The paper states σ² = O(log(1/δ)/ε²) only; this is what its proof of Theorem A.1 gives.

    >>> round(shuffled_bits_sigma(0.5, 1e-6), 1)
    91.4
    """
    return 12.0 * math.sqrt(math.log(2.0 / between("delta", delta, 0, 1))) / positive("epsilon", epsilon)


def sdp_ae_batch(sigma: float) -> int:
    """⌈σ²⌉ users, the batch of [TKMS21] Corollary 3.2 (which prints ⌈σ⌉)."""
    return math.ceil(positive("sigma", sigma) ** 2)


def sdp_ae_regret(gaps: Iterable[float], horizon: int, sigma: float, batch: int | None = None) -> float:
    """Σ_a (128 log T/Δ_a + 512 σ² log T/(m Δ_a) + m Δ_a) + 4/T ([TKMS21] Theorem 3.1, equation 7).

    `batch` is m (default: that of Corollary 3.2).

    >>> round(sdp_ae_regret([0.25], 10**6, sigma=91.4))
    37456
    """
    log, size = _log(horizon), batch or sdp_ae_batch(sigma)
    rate = (128.0 + 512.0 * sigma**2 / size) * log
    return math.fsum(rate / gap + size * gap for gap in _positive(gaps)) + TAIL / horizon


def sdp_ae_minimax(arms: int, horizon: int, sigma: float, batch: int | None = None) -> float:
    """2√((128 + 512 σ²/m) k T log T) + m k + 4/T, whatever the gaps are ([TKMS21] Theorem 3.1)."""
    size = batch or sdp_ae_batch(sigma)
    factor = (128.0 + 512.0 * sigma**2 / size) * integer("arms", arms, 2)
    return 2.0 * math.sqrt(factor * horizon * _log(horizon)) + size * arms + TAIL / horizon


def vb_sdp_ae_regret(gaps: Iterable[float], horizon: int, sigma: float) -> float:
    """Σ_a (512 log T/Δ_a + 64√2 σ log T) + 4/T ([TKMS21] Theorem 3.3, equation 9).

    >>> round(vb_sdp_ae_regret([0.25], 10**6, sigma=91.4))
    142584
    """
    log = _log(horizon)
    each = 64.0 * math.sqrt(2.0) * positive("sigma", sigma) * log
    return math.fsum(512.0 * log / gap + each for gap in _positive(gaps)) + TAIL / horizon


def vb_sdp_ae_minimax(arms: int, horizon: int, sigma: float) -> float:
    """√(2048 k T log T) + 64√2 k σ log T + 4/T, whatever the gaps are ([TKMS21] Theorem 3.3)."""
    log, k = _log(horizon), integer("arms", arms, 2)
    return math.sqrt(2048.0 * k * horizon * log) + 64.0 * math.sqrt(2.0) * k * sigma * log + TAIL / horizon


def _log(horizon: int) -> float:
    return math.log(integer("horizon", horizon, 2))


def _positive(gaps: Iterable[float]) -> list[float]:
    return [float(between("gaps", gap, 0, 1, "[]")) for gap in gaps if gap]
