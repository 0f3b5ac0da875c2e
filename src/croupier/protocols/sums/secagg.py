"""Sums under secure aggregation ([CZ23]): Laplace, Skellam, discrete Gaussian; central and local Laplace."""

from __future__ import annotations

import math
from collections.abc import Callable

from croupier.checks import InvalidParameter
from croupier.noise import Noise
from croupier.privacy import Guarantee, privacy_loss, renyi_to_approximate, skellam_divergence
from croupier.protocols.sums.carriers import Plain, SecureAggregation
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.protocol import NUMBERS, Protocol, Row
from croupier.protocols.sums.two_servers import TRUST, gaussian_noise, laplace_noise, planner, skellam_noise

TIGHT_SCALING = 4.0
"""Tight Laplace encodes this many times finer than [CZ23], so that rounding adds 1 % to the error and two bits."""

LOCAL_CONSTANT = 1.6
"""c of [CZ23] Lemma 5, which leaves it open."""


def laplace_precision(protocol: Protocol, users: int, epsilon: float) -> int:
    """g: as asked; one level for binary values; ⌈ε√n⌉ ([CZ23] Thm 1) or finer."""
    if protocol.precision is not None:
        return protocol.precision
    if protocol.values.binary and not protocol.published:
        return 1
    scaling = 1.0 if protocol.published else TIGHT_SCALING
    return max(1, math.ceil(scaling * epsilon * math.sqrt(users)))


def laplace_slack(precision: int, epsilon: float, failure: float) -> float:
    """τ = (g/ε) log(2/p) ([CZ23] Thm 1)."""
    return precision / epsilon * math.log(2.0 / failure)


def modulus(users: int, precision: int, slack: int) -> int:
    """m = ng + 2τ + 1 ([CZ23] Alg. 1); a sum that does not fit 62 bits cannot be carried."""
    found = users * precision + 2 * slack + 1
    if found > 2**62:
        raise OverflowError("a sum with its noise would not fit 62 bits")
    return found


def _plan_laplace(noise_from: str) -> Callable[[Protocol, int], SumMechanism]:
    def plan(protocol: Protocol, users: int) -> SumMechanism:
        epsilon, p = protocol.epsilon, protocol.wrap
        precision = laplace_precision(protocol, users, epsilon)
        if noise_from == "user" and not (protocol.published or protocol.precision or protocol.values.binary):
            # Each user's own noise dwarfs their rounding: the paper's levels will do, and fewer would widen the radius.
            precision = max(math.ceil(TIGHT_SCALING * epsilon), math.ceil(epsilon * math.sqrt(users)))
        noise = laplace_noise(precision, epsilon)
        share: Noise = noise.share(protocol.honest(users)) if noise_from == "batch" else noise
        total = share if noise_from == "analyzer" else share.times(users)
        published = laplace_slack(precision, epsilon, p)
        if noise_from == "user":
            published = LOCAL_CONSTANT * precision / epsilon * math.sqrt(2.0 * users * math.log(2.0 / p))
        # Central noise is added after aggregation and cannot wrap; [CZ23] Thm 5 leaves room for it all the same.
        needless = noise_from == "analyzer" and not protocol.published
        slack = 0 if needless else protocol.wrap_slack(total, published)
        carrier = (Plain if noise_from == "user" else SecureAggregation)(modulus(users, precision, slack), slack)
        return protocol.mechanism(
            users,
            precision=precision,
            share=share,
            carrier=carrier,
            notion=Guarantee("pure", epsilon),
            noise_from=noise_from,
        )

    return plan


def _plan_concentrated(
    noise: Callable[[int, float, int], Noise],
    published_slack: Callable[[float, float], float],
    claim: Callable[[Protocol, Noise, int], Guarantee],
) -> Callable[[Protocol, int], SumMechanism]:
    """Noise of total variance (g/ε)², about ½ε²-zCDP; the exact (ε', δ) is the claim.

    `noise` gives the share of each of so many honest users, from g and ε.
    """

    def plan(protocol: Protocol, users: int) -> SumMechanism:
        epsilon, honest = protocol.epsilon, protocol.honest(users)
        precision = protocol.precision or max(1, math.ceil(protocol.scaling * epsilon * math.sqrt(users)))
        share = noise(precision, epsilon, honest)
        slack = protocol.wrap_slack(share.times(users), published_slack(precision / epsilon, protocol.wrap))
        return protocol.mechanism(
            users,
            precision=precision,
            share=share,
            carrier=SecureAggregation(modulus(users, precision, slack), slack),
            notion=claim(protocol, share.times(honest), precision),
        )

    return plan


def _skellam_share(precision: int, epsilon: float, honest: int) -> Noise:
    return skellam_noise(precision, epsilon).share(honest)


def _gaussian_share(precision: int, epsilon: float, honest: int) -> Noise:
    share = gaussian_noise(precision, epsilon).share(honest)
    if share.sigma2 < 0.25:
        raise InvalidParameter("precision", precision, "large enough that each share has σ >= 1/2 ([CZ23] Lemma 4)")
    return share


def _proven(protocol: Protocol, epsilon: float) -> float:
    """The exact ε' of a claim, if there is one."""
    if not math.isfinite(epsilon):
        allowed = f"smaller: with so little noise {protocol.name} proves nothing at delta = {protocol.delta:g}"
        raise InvalidParameter("epsilon", protocol.epsilon, allowed)
    return epsilon


def _renyi_claim(protocol: Protocol, total: Noise, precision: int) -> Guarantee:
    """Tight: the exact ε' at δ. Published: what the paper's Rényi bound converts to."""
    delta, sigma2 = protocol.delta, total.variance
    bound, order = renyi_to_approximate(lambda order: skellam_divergence(sigma2, order, precision), delta)
    epsilon = bound if protocol.published else privacy_loss(total, precision).epsilon(delta)
    divergence = skellam_divergence(sigma2, order, precision)
    return Guarantee("renyi", _proven(protocol, epsilon), delta, order=order, divergence=divergence)


def _concentrated_claim(protocol: Protocol, total: Noise, precision: int) -> Guarantee:
    """Tight: the exact ε' at δ. Published: what the paper's concentrated bound converts to."""
    delta, loss = protocol.delta, privacy_loss(total, precision)
    rho = loss.zcdp
    epsilon = renyi_to_approximate(lambda order: rho * order, delta)[0] if protocol.published else loss.epsilon(delta)
    return Guarantee("concentrated", _proven(protocol, epsilon), delta, rho=rho)


def _skellam_slack(spread: float, p: float) -> float:
    """τ = (2g/ε)√log(2/p) + √2 log(2/p) ([CZ23] Thm 2)."""
    return 2.0 * spread * math.sqrt(math.log(2.0 / p)) + math.sqrt(2.0) * math.log(2.0 / p)


def _gaussian_slack(spread: float, p: float) -> float:
    """τ = (g/ε)√(2 log(2/p)) ([CZ23] Thm 4)."""
    return spread * math.sqrt(2.0 * math.log(2.0 / p))


def _pure_claim(protocol: Protocol, total: Noise, precision: int) -> Guarantee:
    return Guarantee("pure", protocol.epsilon)


LAPLACE = Row(
    name="laplace",
    trust="devices",
    notion="pure",
    carrier="secure aggregation",
    paper="[CZ23] Thm 1",
    plan=_plan_laplace("batch"),
    instead={TRUST: planner(laplace_noise, _pure_claim)},
    options=(*NUMBERS, "precision", "wrap_failure", "trust"),
)

SKELLAM = Row(
    name="skellam",
    trust="devices",
    notion="renyi",
    carrier="secure aggregation",
    paper="[CZ23] Thm 2",
    plan=_plan_concentrated(_skellam_share, _skellam_slack, _renyi_claim),
    instead={TRUST: planner(skellam_noise, _renyi_claim)},
    options=(*NUMBERS, "precision", "scaling", "wrap_failure", "trust"),
    least_epsilon=1e-3,
)

DISCRETE_GAUSSIAN = Row(
    name="discrete-gaussian",
    trust="devices",
    notion="concentrated",
    carrier="secure aggregation",
    paper="[CZ23] Thm 4",
    plan=_plan_concentrated(_gaussian_share, _gaussian_slack, _concentrated_claim),
    instead={TRUST: planner(gaussian_noise, _concentrated_claim)},
    options=(*NUMBERS, "precision", "scaling", "wrap_failure", "trust"),
    epsilon_below=1.0,
    least_epsilon=1e-3,
)

CENTRAL_LAPLACE = Row(
    name="central-laplace",
    trust="analyzer",
    notion="pure",
    carrier="secure aggregation",
    paper="[CZ23] Thm 5",
    plan=_plan_laplace("analyzer"),
    options=(*NUMBERS, "precision", "wrap_failure"),
    epsilon_below=1.0,
)

LOCAL_LAPLACE = Row(
    name="local-laplace",
    trust="nobody",
    notion="pure",
    carrier="none",
    paper="[CZ23] Thm 6",
    plan=_plan_laplace("user"),
    options=(*NUMBERS, "precision", "wrap_failure"),
    epsilon_below=1.0,
    smallest=lambda protocol: math.ceil(2.0 * math.log(2.0 / protocol.wrap)) if protocol.published else 1,
)
