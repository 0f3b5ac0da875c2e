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
    """Sample a mechanism's real path on two batches that differ in one user's value, and bound its ε from below.

    The other users hold the lowest value (of a histogram's or a selection's users every other one the same item as the
    one audited). It has power where noise is tight, ε is at least about 0.5 and the batch small; elsewhere the exact
    value speaks. The bound is that of Clopper and Pearson [CP34].

    Parameters
    ----------
    mechanism : what is audited: randomize, carrier and analyze are run as they are.
    trials : how many batches are sampled of each input.
    source : where chance comes from.
    failure : how often a correct mechanism may be found wanting.
    progress : is told how many batches were sampled since it was last told.

    Examples
    --------
    >>> from croupier.noise import seeded
    >>> from croupier.protocols import laplace
    >>> audit(laplace(epsilon=1.0).plan(users=20), 2_000, seeded(1)).passed
    True
    """
    trials = integer("trials", trials, 4)
    if mechanism.guarantee.participations > 1:
        given = mechanism.guarantee.participations
        raise InvalidParameter("participations", given, "1: an audit samples one batch, and not all of a user's")
    samples = [mechanism.exposed(end, trials, source, progress) for end in (0, 1)]
    claim = mechanism.guarantee
    bound = epsilon_lower_bound(samples[0], samples[1], delta=claim.delta, failure=failure)
    exact = mechanism.loss.epsilon(claim.delta)
    return Audit(claim.epsilon, claim.delta, exact, bound.epsilon, trials, failure)
