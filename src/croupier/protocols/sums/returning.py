"""Users who return: the noise of each batch is such that a user in several of them keeps the promise ([CZ23] App. I).

A user takes part in at most B batches, once in each. What each batch is asked for, by what is promised:

* pure ε: ε/B, by simple composition; without δ nothing better is possible ([CZ23] Remark 9);
* Rényi and concentrated privacy: the papers' parameter ε/√B, since ½ε²-zCDP adds up; B batches' (ε', δ) is stated;
* (ε, δ), published: advanced composition, (ε/2√(2B log 2/δ), δ/2B) ([CZ23] Theorem 7);
* (ε, δ), tight: the least noise of which B batches, composed numerically, meet (ε, δ).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from croupier.checks import CroupierError, InvalidParameter
from croupier.privacy import Guarantee, advanced_composition, renyi_to_approximate
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.search import least_passing_positive

if TYPE_CHECKING:
    from croupier.protocols.sums.protocol import Protocol

BATCH_DELTA = 0.7
"""Of its equal part of δ, each batch names this share; what counts is the composition of all."""
CARRIER_DELTA = 0.01
"""Of δ, split-and-mix takes no more than this share."""
REFERENCE = 100
"""Users of the batch at which the least noise is found; batches of other sizes are asked for the same."""
RESOLUTION = 2e-4
"""How close, relatively, the ε of one batch comes to the largest that will do."""
STEP = 1e-3
"""By how much a batch's ε falls where a batch of another size than the reference needs a little more noise."""


def one_of_several(protocol: Protocol) -> Protocol:
    """What each batch is asked for, where that has a formula."""
    once, count, notion = replace(protocol, participations=1), protocol.participations, protocol.row.notion
    if notion == "pure":
        return replace(once, epsilon=_part(protocol.epsilon, count))
    if notion != "approximate":
        return replace(once, epsilon=protocol.epsilon / math.sqrt(count))
    if not protocol.epsilon < 1.0:
        limit = "a number in (0, 1) with published constants and participations ([CZ23] Theorem 7)"
        raise InvalidParameter("epsilon", protocol.epsilon, limit)
    part = advanced_composition(protocol.epsilon, protocol.delta / 2.0, count)
    return replace(once, epsilon=part, delta=protocol.delta / (2.0 * count))


def returning(protocol: Protocol, users: int) -> SumMechanism:
    """A batch of which `protocol.participations` keep the promise."""
    if protocol.row.notion == "approximate" and not protocol.published:
        return _composed(protocol, users)
    return _claimed(protocol, protocol.one_batch.plan(users))


def _composed(protocol: Protocol, users: int) -> SumMechanism:
    """The same ε and δ for batches of every size; a size whose noise composes a little worse gets a little more."""
    each = _least_noise(protocol)
    for _ in range(100):
        mechanism = _claimed(protocol, _secured(protocol, each.plan(users)))
        if mechanism.promised.delta(protocol.epsilon) <= protocol.room * protocol.delta:
            return mechanism
        each = replace(each, epsilon=each.epsilon * (1.0 - STEP))
    target = f"(ε, δ) = ({protocol.epsilon:g}, {protocol.delta:g})"
    raise CroupierError(f"{protocol.name} cannot meet {target} over {protocol.participations} batches of {users} users")


@lru_cache(maxsize=256)
def _least_noise(protocol: Protocol) -> Protocol:
    """The largest ε of one batch that will do, at the reference size."""
    count, users = protocol.participations, max(REFERENCE, protocol.smallest)
    once = replace(protocol, participations=1, delta=BATCH_DELTA * protocol.delta / count)

    def met(inverse: float) -> bool:
        one = _secured(protocol, replace(once, epsilon=1.0 / inverse).plan(users))
        return _claimed(protocol, one).promised.delta(protocol.epsilon) <= protocol.room * protocol.delta

    guess = math.sqrt(count) / protocol.epsilon
    return replace(once, epsilon=1.0 / least_passing_positive(met, guess, resolution=RESOLUTION, factor=1.25))


def _secured(protocol: Protocol, mechanism: SumMechanism) -> SumMechanism:
    """The same over a carrier whose distance, over all batches, takes a small share of δ at the whole ε."""
    charge = protocol.participations * (1.0 + math.exp(protocol.epsilon)) / (CARRIER_DELTA * protocol.delta)
    return replace(mechanism, carrier=mechanism.carrier.secured(mechanism, math.ceil(math.log2(charge))))


def _claimed(protocol: Protocol, mechanism: SumMechanism) -> SumMechanism:
    """The same, promising what all batches of a user keep together."""
    epsilon, delta, notion = protocol.epsilon, protocol.delta, protocol.row.notion
    numbers: dict[str, Any] = {}
    if notion not in ("pure", "approximate"):
        loss = protocol.participations * mechanism.loss
        bound, order = renyi_to_approximate(loss.rdp, delta)
        epsilon = bound if protocol.published else loss.epsilon(delta)
        numbers = {"order": order, "divergence": loss.rdp(order)} if notion == "renyi" else {"rho": loss.zcdp}
    claim = Guarantee(notion, epsilon, delta, unit="user", participations=protocol.participations, **numbers)
    return replace(mechanism, guarantee=claim)


def _part(epsilon: float, count: int) -> float:
    """The largest double of which so many are no more than ε."""
    part = epsilon / count
    while count * Fraction(part) > Fraction(epsilon):
        part = math.nextafter(part, 0.0)
    return part
