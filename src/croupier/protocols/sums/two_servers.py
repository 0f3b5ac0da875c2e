"""Sums in shares between two servers, each of which adds a whole noise: what the service runs unless told otherwise.

Nothing of a report depends on its batch: the encoding is fixed, and so is the noise. A user is hidden by either
server's noise alone, whoever else takes part.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from croupier.noise import DiscreteGaussian, DiscreteLaplace, Noise, Skellam
from croupier.noise.gaussian import LEAST_SIGMA2
from croupier.noise.laplace import LEAST_SCALE
from croupier.privacy import Guarantee
from croupier.protocols.sums.carriers import Shared
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.protocol import Protocol
from croupier.validity.fields import FIELD64, FIELD128

TRUST = "two-servers"
PRECISION = 127
"""Steps of a number's range: seven bits, beyond which a proof of validity doubles. Rounding n values adds at most
n/64,516 to the variance, which is little beside any noise."""


def precision_of(protocol: Protocol) -> int:
    """g: as asked; one step for binary values."""
    return protocol.precision or (1 if protocol.values.binary else PRECISION)


def planner(
    noise: Callable[[int, float], Noise], claim: Callable[[Protocol, Noise, int], Guarantee]
) -> Callable[[Protocol, int], SumMechanism]:
    """How a row is planned whose whole noise, from g and ε, each server adds."""

    def plan(protocol: Protocol, users: int) -> SumMechanism:
        precision = precision_of(protocol)
        share = noise(precision, protocol.epsilon)
        return mechanism(protocol, users, precision, share, claim(protocol, share, precision))

    return plan


def mechanism(protocol: Protocol, users: int, precision: int, share: Noise, promise: Guarantee) -> SumMechanism:
    """A sum in shares with this noise from each server."""
    carrier = Shared(FIELD128.name if protocol.values.coordinates else FIELD64.name)
    return protocol.mechanism(
        users, precision=precision, share=share, carrier=carrier, notion=promise, noise_from="servers"
    )


# Where ε is so large that next to no noise would do, there is the least noise that there is.


def laplace_noise(precision: int, epsilon: float) -> DiscreteLaplace:
    """Discrete Laplace of scale g/ε: pure ε-DP at sensitivity g."""
    scale = max(precision / Fraction(epsilon), Fraction(LEAST_SCALE))
    return DiscreteLaplace(int(scale) if scale.denominator == 1 else scale)


def skellam_noise(precision: int, epsilon: float) -> Skellam:
    """Skellam of variance (g/ε)²."""
    return Skellam((precision / Fraction(epsilon)) ** 2)


def gaussian_noise(precision: int, epsilon: float) -> DiscreteGaussian:
    """Discrete Gaussian of parameter σ² = (g/ε)²."""
    return DiscreteGaussian(max((precision / Fraction(epsilon)) ** 2, Fraction(LEAST_SIGMA2)))
