"""Sums of vectors in shares between two servers: Skellam noise, or Laplace where purely private sums are asked for.

The noise is the servers', a whole one from each, or the devices' (`trust="devices"`): then each of them adds a share,
and the sum carries one noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from croupier.noise import DiscreteLaplace, Noise, Skellam
from croupier.noise.target import RESOLUTION
from croupier.privacy import Guarantee
from croupier.protocols.sums import two_servers
from croupier.protocols.sums.carriers import SecureAggregation
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.protocol import VECTORS, Protocol, Row
from croupier.protocols.sums.secagg import modulus
from croupier.search import least_passing_positive


def skellam(protocol: Protocol, precision: int) -> Noise:
    """Skellam in every coordinate, one budget for the vector: the least noise that meets (ε, δ)."""
    values, epsilon = protocol.values, protocol.epsilon
    l2, _ = values.reach(precision)

    def met(sigma2: float) -> bool:
        return values.loss(Skellam(sigma2), precision).delta(epsilon) <= protocol.delta

    guess = 2.0 * l2**2 * math.log(1.0 / protocol.delta) / epsilon**2
    return Skellam(least_passing_positive(met, guess, resolution=RESOLUTION))


def laplace(protocol: Protocol, precision: int) -> Noise:
    """Discrete Laplace in every coordinate: one user moves the vector by whole steps, so many in all."""
    _, l1 = protocol.values.reach(precision)
    scale = math.floor(l1) / Fraction(protocol.epsilon)
    return DiscreteLaplace(int(scale) if scale.denominator == 1 else scale)


def _from_servers(noise: Callable[[Protocol, int], Noise]) -> Callable[[Protocol, int], SumMechanism]:
    def plan(protocol: Protocol, users: int) -> SumMechanism:
        precision = two_servers.precision_of(protocol)
        return two_servers.mechanism(protocol, users, precision, noise(protocol, precision), _claim(protocol))

    return plan


def _from_devices(noise: Callable[[Protocol, int], Noise]) -> Callable[[Protocol, int], SumMechanism]:
    def plan(protocol: Protocol, users: int) -> SumMechanism:
        precision = two_servers.precision_of(protocol)
        share = noise(protocol, precision).share(protocol.honest(users))
        slack = protocol.wrap_slack(protocol.total_noise(share, users), 0.0)
        carrier = SecureAggregation(modulus(users, precision, slack), slack)
        return protocol.mechanism(users, precision=precision, share=share, carrier=carrier, notion=_claim(protocol))

    return plan


def _claim(protocol: Protocol) -> Guarantee:
    return Guarantee(protocol.row.notion, protocol.epsilon, protocol.delta)


OPTIONS = (*VECTORS, "precision", "wrap_failure", "trust")

SHARED_VECTORS, LAPLACE_VECTORS = (
    Row(
        name=name,
        trust=two_servers.TRUST,
        notion=notion,
        carrier="shares",
        paper="croupier",
        plan=_from_servers(noise),
        instead={"devices": _from_devices(noise)},
        options=OPTIONS,
        constants=("tight",),
    )
    for name, notion, noise in (
        ("shared-vectors", "approximate", skellam),
        ("laplace-vectors", "pure", laplace),
    )
)
