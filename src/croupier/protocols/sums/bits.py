"""Sums as shuffled bits: of single bits ([TKMS21] Alg. 3), and of unary levels ([TKMS23] through its citations)."""

from __future__ import annotations

import math

from croupier.noise import Binomial, Noise, SparseBits
from croupier.privacy import Guarantee, calibrate
from croupier.protocols.sums.carriers import ShuffledBits
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.protocol import NUMBERS, Protocol, Row

ROUNDING_SHARE = 0.05
"""Tight levels are as few as keep the rounding below this share of the noise's variance."""


def plan_bits(protocol: Protocol, users: int) -> SumMechanism:
    """[TKMS21] Alg. 3 with τ = 96 log(2/δ)/ε², or the sparse form with the least rate that will do."""
    return unary(
        protocol, users, 1, published_bits(protocol, users) if protocol.published else _sparse(protocol, users)
    )


def published_bits(protocol: Protocol, users: int) -> Noise:
    """Few users: ⌈τ/m⌉ fair bits each. More than τ: one bit each, one with probability τ/2m (m the honest users)."""
    m = protocol.honest(users)
    tau = 96.0 * math.log(2.0 / protocol.delta) / protocol.epsilon**2
    return Binomial(math.ceil(tau / m), 0.5) if m <= tau else Binomial(1, tau / (2.0 * m))


def _sparse(protocol: Protocol, users: int) -> Noise:
    honest = protocol.honest(users)
    total = calibrate(SparseBits, epsilon=protocol.epsilon, delta=protocol.delta, sensitivity=2, users=honest)
    return total.share(honest)


def plan_levels(protocol: Protocol, users: int) -> SumMechanism:
    """A value as g unary bits, hidden by fair bits."""
    if protocol.published:
        precision, share = published_levels(protocol, users, dimension=1)
    else:
        precision, share = _tight_levels(protocol, users)
    return unary(protocol, users, precision, share)


def unary(protocol: Protocol, users: int, precision: int, share: Noise) -> SumMechanism:
    """Values as so many unary bits (per coordinate) among noise bits."""
    return protocol.mechanism(
        users,
        precision=precision,
        share=share,
        carrier=ShuffledBits(precision),
        notion=Guarantee("approximate", protocol.epsilon, protocol.delta),
    )


def published_levels(protocol: Protocol, users: int, dimension: int) -> tuple[int, Noise]:
    """g = max{2√n, D, 4} and b = 24·10⁴ g² log²(4(D²+1)/δ)/ε²n bits of bias 1/4 per user and coordinate.

    As [TKMS23]'s citations are remembered; a demonstrator, since b is about 10⁸.
    """
    honest = protocol.honest(users)
    precision = math.ceil(max(2.0 * math.sqrt(users), dimension, 4.0))
    logarithm = math.log(4.0 * (dimension**2 + 1) / protocol.delta)
    bits = math.ceil(24e4 * precision**2 * logarithm**2 / (protocol.epsilon**2 * honest))
    return precision, Binomial(bits, 0.25)


def _tight_levels(protocol: Protocol, users: int) -> tuple[int, Noise]:
    honest = protocol.honest(users)

    def fair(sensitivity: int) -> int:
        return calibrate(Binomial, epsilon=protocol.epsilon, delta=protocol.delta, sensitivity=sensitivity).trials

    # Noise of variance V on one level costs V in the sum's own units, whatever the number of levels.
    level_variance = fair(1) / 4.0
    precision = protocol.precision or (
        1 if protocol.values.binary else math.ceil(math.sqrt(users / (4.0 * ROUNDING_SHARE * level_variance)))
    )
    return precision, SparseBits(math.ceil(fair(precision) / honest), 1)


SHUFFLED_BITS = Row(
    name="shuffled-bits",
    trust="shuffler",
    notion="approximate",
    carrier="shuffled messages",
    paper="[TKMS21] Alg. 3",
    plan=plan_bits,
    options=(*NUMBERS, "front_noise"),
    binary_only=True,
    epsilon_below=1.0,
    least_epsilon=0.01,
)

SHUFFLED_LEVELS = Row(
    name="shuffled-levels",
    trust="shuffler",
    notion="approximate",
    carrier="shuffled messages",
    paper="[CSUZZ19]",
    plan=plan_levels,
    options=(*NUMBERS, "precision", "front_noise"),
    epsilon_below=15.0,
    delta_below=0.5,
    least_epsilon=1e-3,
)
