"""Counts that err to one side: every one is a message, and so is every unit of noise ([GKM21] Alg. 7-8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from croupier.noise import Noise, Poisson, Polya
from croupier.privacy import Guarantee, calibrate
from croupier.protocols.sums.carriers import CountedMessages
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.protocol import NUMBERS, Protocol, Row


def plan_counted(protocol: Protocol, users: int) -> SumMechanism:
    """Over: counts ones, never below the truth. Under: counts zeros and subtracts, never above it."""
    honest = protocol.honest(users)
    total = _NOISES[protocol.constants](protocol.epsilon, protocol.delta, protocol.failure)
    return protocol.mechanism(
        users,
        precision=1,
        share=total.share(honest),
        carrier=CountedMessages(),
        notion=Guarantee("approximate", protocol.epsilon, protocol.delta),
        side=protocol.side,
    )


def published_noise(epsilon: float, delta: float) -> Polya:
    """p = e^{-ε/5} and r = 3(1 + log 1/δ): what privacy needs ([GKM21] Theorem 39)."""
    return Polya(3.0 * (1.0 + math.log(1.0 / delta)), scale=5.0 / epsilon)


def proof_noise(epsilon: float, delta: float, failure: float) -> Polya:
    """p = e^{-ε/5} and r = ⌈1000(1 + log 1/βδ)⌉: what the tail bound's proof needs ([GKM21] Corollary 40)."""
    return Polya(math.ceil(1000.0 * (1.0 + math.log(1.0 / (failure * delta)))), scale=5.0 / epsilon)


@lru_cache(maxsize=256)
def _least_error(epsilon: float, delta: float, failure: float) -> Noise:
    """The noise with the least error quantile at the failure probability, then the least variance.

    Poisson, or the best negative binomial over its p. It is the same for every batch size, so it is found once.
    """
    candidates: list[Noise] = [
        calibrate(Poisson, epsilon=epsilon, delta=delta),
        calibrate(Polya, epsilon=epsilon, delta=delta, failure=failure),
    ]
    return min(candidates, key=lambda noise: (noise.tail_quantile(failure), noise.variance))


_NOISES: dict[str, Callable[[float, float, float], Noise]] = {
    "tight": _least_error,
    "published": lambda epsilon, delta, failure: published_noise(epsilon, delta),
    "proof": proof_noise,
}


COUNTED_MESSAGES = Row(
    name="counted-messages",
    trust="shuffler",
    notion="approximate",
    carrier="shuffled messages",
    paper="[GKM21] Alg. 7-8",
    plan=plan_counted,
    options=(*NUMBERS, "side", "failure", "front_noise"),
    constants=tuple(_NOISES),
    binary_only=True,
    caps_noise=True,
    epsilon_below=1.0,
    least_epsilon=0.01,
)
