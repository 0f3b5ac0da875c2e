"""Audit a mechanism: sample its real path on two neighbouring batches and bound ε from below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.checks import integer
from croupier.noise import Source
from croupier.privacy import epsilon_lower_bound
from croupier.protocols.histograms.exposure import FIRST, SECOND, exposed
from croupier.protocols.histograms.planned import Planned
from croupier.protocols.sums.carriers import Plain
from croupier.protocols.sums.mechanism import Mechanism
from croupier.protocols.sums.values import Ball

CHUNK = 2**20


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
    mechanism: Mechanism | Planned,
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
    if isinstance(mechanism, Planned):
        samples = [exposed(mechanism, item, trials, source, progress) for item in (FIRST, SECOND)]
    else:
        samples = _sampled(mechanism, trials, source, progress)
    claim = mechanism.guarantee
    found = epsilon_lower_bound(samples[0], samples[1], delta=claim.delta, failure=failure)
    exact = mechanism.loss.epsilon(claim.delta)
    return Audit(claim.epsilon, claim.delta, exact, found.epsilon, trials, failure)


def _sampled(
    mechanism: Mechanism, trials: int, source: Source, progress: Callable[[int], None] | None
) -> list[NDArray[np.int64]]:
    """What the analyzer decodes, for the first user at either end of the range."""
    samples = []
    for value in (mechanism.values.low, mechanism.values.high):
        batch = _batch(mechanism, value)
        rows = max(1, CHUNK // max(1, int(mechanism.users * mechanism.messages_per_user * mechanism.dimension)))
        drawn = []
        for done in range(0, trials, rows):
            now = min(rows, trials - done)
            drawn.append(_statistic(mechanism, np.broadcast_to(batch, (now, *batch.shape)), source))
            if progress is not None:
                progress(now)
        samples.append(np.concatenate(drawn))
    return samples


def _batch(mechanism: Mechanism, value: float) -> NDArray[np.float64]:
    """All users at the lowest value, the first one at `value`; vectors stand on the first axis."""
    if isinstance(mechanism.values, Ball):
        vectors = np.zeros((mechanism.users, mechanism.dimension))
        vectors[:, 0] = mechanism.values.low
        vectors[0, 0] = value
        return vectors
    numbers = np.full(mechanism.users, mechanism.values.low, dtype=np.float64)
    numbers[0] = value
    return numbers


def _statistic(mechanism: Mechanism, batches: NDArray[np.float64], source: Source) -> NDArray[np.int64]:
    """The part of the view that tells most: the decoded sum, or the first user's own report where it is visible."""
    view = mechanism.collect(mechanism.randomize(batches, source))
    if isinstance(mechanism.carrier, Plain):
        return view[..., 0]
    decoded = mechanism.analyze_many(view, source)
    return decoded[..., 0] if mechanism.coordinates else decoded
