"""Sums carried through a shuffler by split-and-mix: discrete Laplace ([CZ23] Thm 3) and vectors ([TKMS23], tight)."""

from __future__ import annotations

import math

from croupier.checks import InvalidParameter
from croupier.noise import Skellam
from croupier.noise.target import RESOLUTION
from croupier.privacy import Guarantee
from croupier.protocols.sums.bits import published_levels, unary
from croupier.protocols.sums.carriers import SplitAndMix
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.protocol import DEFAULT_DELTA, NUMBERS, VECTORS, Protocol, Row
from croupier.protocols.sums.secagg import laplace_precision, laplace_slack, modulus
from croupier.protocols.sums.two_servers import laplace_noise
from croupier.search import least_passing_positive

VECTOR_PRECISION = 4.0
"""Tight vectors encode √n times this many levels a unit, so that rounding stays small beside the noise."""


SECURITY = 40
"""Bits of statistical security of split-and-mix when no δ is asked for."""


def mixing_delta(epsilon: float) -> float:
    """What so many bits of security cost at this ε; the noise itself is purely private."""
    if not 0 < epsilon < 700:
        return DEFAULT_DELTA  # refused where it is checked
    cost = (1.0 + math.exp(epsilon)) * 2.0**-SECURITY * (1.0 + 1e-8)
    if cost >= 1.0:
        most = SECURITY * math.log(2.0)
        raise InvalidParameter("epsilon", epsilon, f"below {most:.3g} over split-and-mix, unless delta is given too")
    return cost


def smallest_mix(protocol: Protocol) -> int:
    """The least batch whose honest part is large enough for the split-and-mix bound."""
    return max(SplitAndMix.least_users, math.ceil((SplitAndMix.least_users - 1) / protocol.honest_fraction + 1e-9))


def plan_laplace(protocol: Protocol, users: int) -> SumMechanism:
    """[CZ23] Thm 1's noise over split-and-mix; published: at ε/2, as [CZ23] Thm 3 needs for its relaxed aggregation."""
    epsilon = protocol.epsilon
    strength = epsilon / 2.0 if protocol.published else epsilon
    precision = laplace_precision(protocol, users, strength)
    share = laplace_noise(precision, strength).share(protocol.honest(users))
    slack = protocol.wrap_slack(protocol.total_noise(share, users), laplace_slack(precision, strength, protocol.wrap))
    # A hair more than asked, so that rounding cannot push the charge past δ.
    security = math.ceil(math.log2((1.0 + math.exp(epsilon)) * (1.0 + 1e-9) / protocol.delta))
    carrier = SplitAndMix.for_batch(modulus(users, precision, slack), slack, protocol.honest(users), security)
    return protocol.mechanism(
        users,
        precision=precision,
        share=share,
        carrier=carrier,
        notion=Guarantee("approximate", epsilon, protocol.delta),
    )


def plan_vectors(protocol: Protocol, users: int) -> SumMechanism:
    """Tight: Skellam in every coordinate, one budget for the vector. Published: labelled bits."""
    values = protocol.values
    if protocol.published:
        return unary(protocol, users, *published_levels(protocol, users, values.dimension))
    honest, epsilon = protocol.honest(users), protocol.epsilon
    precision = protocol.precision or max(4, math.ceil(VECTOR_PRECISION * math.sqrt(users)))
    l2, _ = values.reach(precision)
    # The carrier's statistical distance takes a hundredth of δ.
    security = math.ceil(math.log2(100.0 * (1.0 + math.exp(epsilon)) / protocol.delta))
    budget = protocol.delta - (1.0 + math.exp(epsilon)) * 2.0**-security

    def met(sigma2: float) -> bool:
        return values.loss(Skellam(sigma2), precision).delta(epsilon) <= budget

    guess = 2.0 * l2**2 * math.log(1.0 / protocol.delta) / epsilon**2
    noise = Skellam(least_passing_positive(met, guess, resolution=RESOLUTION))
    share = noise.share(honest)
    slack = protocol.wrap_slack(protocol.total_noise(share, users), 0.0)
    q = modulus(users, precision, slack)
    return protocol.mechanism(
        users,
        precision=precision,
        share=share,
        carrier=SplitAndMix.for_batch(q, slack, honest, security, values.dimension),
        notion=Guarantee("approximate", epsilon, protocol.delta),
    )


SHUFFLED_LAPLACE = Row(
    name="shuffled-laplace",
    trust="shuffler",
    notion="approximate",
    carrier="split-and-mix",
    paper="[BBGN20], for [CZ23] Thm 3",
    plan=plan_laplace,
    options=(*NUMBERS, "precision", "wrap_failure", "front_noise"),
    default_delta=mixing_delta,
    smallest=smallest_mix,
    least_epsilon=1e-3,
)

SHUFFLED_VECTORS = Row(
    name="shuffled-vectors",
    trust="shuffler",
    notion="approximate",
    carrier="split-and-mix",
    paper="[CJMP22]",
    plan=plan_vectors,
    options=(*VECTORS, "precision", "wrap_failure", "front_noise"),
    smallest=lambda protocol: 1 if protocol.published else smallest_mix(protocol),
    epsilon_below=15.0,
    delta_below=0.5,
)
