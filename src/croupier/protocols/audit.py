"""Audit a mechanism: sample its real path on two neighbouring batches and bound ε from below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from croupier.checks import InvalidParameter, integer
from croupier.noise import Source
from croupier.privacy import epsilon_lower_bound
from croupier.protocols.mechanism import Mechanism


@dataclass(frozen=True)
class Audit:
    """The claim, what was recomputed, and what was seen."""

    claimed_epsilon: float
    delta: float
    exact_epsilon: float
    lower_bound: float
    trials: int
    failure: float

    @property
    def passed(self) -> bool:
        """Whether what was seen is consistent with the claim."""
        return self.lower_bound <= self.claimed_epsilon


def audit(
    mechanism: Mechanism,
    trials: int,
    source: Source,
    *,
    failure: float = 1e-6,
    progress: Callable[[int], None] | None = None,
) -> Audit:
    """Run randomize, carrier and analyze `trials` times on each of two batches that differ in one user's value.

    The other users hold the lowest value (of a histogram's or a selection's users every other one the same item as the
    one audited). A correct mechanism is found wanting with probability at most `failure`.
    It has power where noise is tight, ε is at least about 0.5 and the batch small; elsewhere the exact value speaks.
    """
    trials = integer("trials", trials, 4)
    if mechanism.guarantee.participations > 1:
        given = mechanism.guarantee.participations
        raise InvalidParameter("participations", given, "1: an audit samples one batch, and not all of a user's")
    samples = [mechanism.exposed(end, trials, source, progress) for end in (0, 1)]
    claim = mechanism.guarantee
    found = epsilon_lower_bound(samples[0], samples[1], delta=claim.delta, failure=failure)
    exact = mechanism.loss.epsilon(claim.delta)
    return Audit(claim.epsilon, claim.delta, exact, found.epsilon, trials, failure)
