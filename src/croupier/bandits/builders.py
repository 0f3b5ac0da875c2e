"""How each policy of the catalogue is built: its ladder of batches, and the radius that its paper proves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from croupier.bandits.batch_sizes import SMALLEST, Ladder
from croupier.bandits.elimination import Elimination, Radius, SubExponentialRadius, SubGaussianRadius
from croupier.bandits.entry import Request
from croupier.bandits.in_blocks import BLOCK_GROWTH
from croupier.bandits.index import IMED, KLUCB, UCB1
from croupier.bandits.policy import Policy
from croupier.bandits.regret_bounds import sdp_ae_batch, shuffled_bits_sigma
from croupier.bandits.thompson import Thompson, Uniform
from croupier.checks import InvalidParameter
from croupier.protocols import Protocol
from croupier.protocols.sums.secagg import LOCAL_CONSTANT

GROWTH = 1.3
"""The flagship's ratio of batch sizes, and its exploration of 0.6 log T: tuned on instances that no figure uses."""


LARGEST = 2**19
"""Users of a batch like all others, unless its size is asked for: the noise of more takes long to calibrate."""


def _elimination(request: Request, radius: Radius | None, *, accumulate: bool, growth: float, first: int = 2) -> Policy:
    return Elimination(
        request.arms,
        request.horizon,
        request.ladder(growth, first),
        accumulate=accumulate,
        failure=request.failure,
        radius=radius if request.constants == "published" else None,
        **request.common(),
    )


def _sigma(request: Request) -> float:
    """[TKMS21]'s σ, for the noise that this protocol really has."""
    assert request.protocol is not None
    batch = request.protocol.one_batch
    return _noises(batch) * shuffled_bits_sigma(batch.epsilon, batch.delta)


def _noises(protocol: Protocol) -> float:
    """How many times the papers' σ the noise has: n users' shares where γn suffice, and a front's whole noise."""
    return math.sqrt(1.0 / protocol.honest_fraction + (1.0 if protocol.front_noise else 0.0))


def sdp_ae(request: Request) -> Policy:
    """Fixed batches, all phases: ⌈σ²⌉ users ([TKMS21] Cor. 3.2, which prints σ), or fewer where the noise is less."""
    assert request.protocol is not None
    if request.constants == "published":
        size = sdp_ae_batch(_sigma(request))
    else:
        # Sixteen times the noise's variance: rewards, at a quarter each, then vary four times as much as the noise.
        size = max(SMALLEST, math.ceil(16.0 * request.protocol.plan(10_000).variance))
        if size > LARGEST and request.smallest is None:
            few = f"one at which a batch of {request.entry.name} has at most {LARGEST:,} users, not {size:,}"
            raise InvalidParameter("epsilon", request.epsilon, few)
    return _all_phases(replace(request, smallest=request.smallest or size), growth=1.0)


def vb_sdp_ae(request: Request) -> Policy:
    """Batches of 2^t users, all phases ([TKMS21] Alg. 2)."""
    return _all_phases(request, growth=2.0)


def _all_phases(request: Request, growth: float) -> Policy:
    radius = SubGaussianRadius(_sigma(request)) if request.constants == "published" else None
    return _elimination(request, radius, accumulate=True, growth=growth)


def batched(sigma: Callable[[Protocol], tuple[float, float, float]]) -> Callable[[Request], Policy]:
    """[CZ23] Alg. 1 with (σ, h) of its noise."""

    def build(request: Request) -> Policy:
        assert request.protocol is not None
        radius = None
        if request.constants == "published":
            batch = request.protocol.one_batch
            spread, h, local = sigma(batch)
            radius = SubExponentialRadius(_noises(batch) * spread, h, local)
        return _elimination(request, radius, accumulate=False, growth=2.0)

    return build


def laplace_noise(protocol: Protocol) -> tuple[float, float, float]:
    return math.sqrt(2.0) / protocol.epsilon, 1.0 / protocol.epsilon, 0.0


def half_noise(protocol: Protocol) -> tuple[float, float, float]:
    return 2.0 * math.sqrt(2.0) / protocol.epsilon, 2.0 / protocol.epsilon, 0.0


def skellam_noise(protocol: Protocol) -> tuple[float, float, float]:
    scaled = math.sqrt(2.0) / (protocol.scaling * protocol.epsilon)
    return 2.0 / protocol.epsilon + scaled, scaled, 0.0


def gaussian_noise(protocol: Protocol) -> tuple[float, float, float]:
    scaled = math.sqrt(2.0) / (protocol.scaling * protocol.epsilon)
    return math.sqrt(2.0) / protocol.epsilon + scaled, 0.0, 0.0


def local_noise(protocol: Protocol) -> tuple[float, float, float]:
    return math.sqrt(2.0) / protocol.epsilon, 0.0, LOCAL_CONSTANT * math.sqrt(2.0) / protocol.epsilon


def plain_elimination(request: Request) -> Policy:
    """Elimination without privacy, tight bounds, all phases."""
    return _elimination(replace(request, constants="tight"), None, accumulate=True, growth=2.0)


def by_index(kind: type[KLUCB] | type[IMED]) -> Callable[[Request], Policy]:
    def build(request: Request) -> Policy:
        exploration = request.exploration or 0.6
        return kind(
            request.arms, request.horizon, request.ladder(GROWTH, SMALLEST), exploration=exploration, **request.common()
        )

    return build


def dp_thompson(request: Request) -> Policy:
    return Thompson(
        request.arms, request.horizon, request.ladder(GROWTH, SMALLEST), seed=request.seed, **request.common()
    )


OFTEN = 1.01
"""The baselines compute an arm's index anew whenever its pulls have grown by a hundredth, so from one user on."""


def kl_ucb(request: Request) -> Policy:
    """KL-UCB at level log T."""
    ladder = Ladder(None, request.smallest or 1, request.growth or OFTEN)
    return KLUCB(request.arms, request.horizon, ladder, exploration=request.exploration or 1.0, **request.common())


def ucb1(request: Request) -> Policy:
    return UCB1(request.arms, request.horizon, request.ladder(OFTEN), **request.common())


def thompson(request: Request) -> Policy:
    ladder = request.ladder(OFTEN)
    return Thompson(request.arms, request.horizon, ladder, seed=request.seed, **request.common())


def uniform(request: Request) -> Policy:
    return Uniform(request.arms, request.horizon, request.ladder(BLOCK_GROWTH), **request.common())
