"""From a private learner back to a probabilistic representation: why it takes some users ([GKM21] Alg. 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TypeVar

from croupier.checks import CroupierError, InvalidParameter, integer, positive
from croupier.noise import Source

H = TypeVar("H", bound=Hashable)

MOST_RUNS = 10**6


def runs_needed(epsilon: float, users: int) -> int:
    """T = 100⌈e^{εn}⌉ ([GKM21] Alg. 6)."""
    exponent = float(positive("epsilon", epsilon)) * integer("users", users, 1)
    if exponent > math.log(MOST_RUNS / 100):
        allowed = f"at most {int(math.log(MOST_RUNS / 100) / epsilon)}: this is for small cases, of {MOST_RUNS:,} runs"
        raise InvalidParameter("users", users, allowed)
    return 100 * math.ceil(math.exp(exponent))


def representation_from_learner(
    run: Callable[[Source], H], *, epsilon: float, users: int, source: Source
) -> frozenset[H]:
    """Run an ε-private learner on users who hold nothing, T times, and keep every hypothesis it returned.

    `run` is the whole learner, its public seed drawn anew, for `users` users without samples. Replacing all of them by
    users with samples changes no probability by more than e^{εn}; so a hypothesis set that is hit with probability one
    half on some data is hit with at least e^{-εn}/2 on none, and by T runs almost surely. ([GKM21] removes users where
    we replace them, since a mechanism here is planned for a fixed number.) So whatever a private learner can learn has
    a representation of size log T = O(εn), and n must be at least of the order of its dimension over ε.

    >>> from croupier.noise import seeded
    >>> from croupier.noise.source import below
    >>> sorted(representation_from_learner(lambda s: below(3, s), epsilon=0.5, users=2, source=seeded(1)))
    [0, 1, 2]
    """
    hypotheses = frozenset(run(source) for _ in range(runs_needed(epsilon, users)))
    if not hypotheses:
        raise CroupierError("the learner returned nothing")
    return hypotheses
