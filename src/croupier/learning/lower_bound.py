"""From a private learner back to a probabilistic representation: why it takes some users ([GKM21] Lemma 4, Alg. 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TypeVar

from croupier.checks import CroupierError, InvalidParameter, between, integer, positive
from croupier.noise import Source
from croupier.privacy import group_privacy
from croupier.search import least_passing_integer

H = TypeVar("H", bound=Hashable)

MOST_RUNS = 10**6

ENOUGH = 10.0
"""Runs in which a good hypothesis is expected, from which on all miss with probability e^{-10} at most."""


def blind_chance(epsilon: float, users: int, delta: float = 0.0, success: float = 0.5) -> float:
    """How likely an (ε, δ)-DP learner returns something good from users who hold nothing, at least.

    (success - δ(e^{εn} - 1)/(e^ε - 1))/e^{εn} by group privacy ([GKM21] Lemma 34, in the proof of Lemma 4), if it does
    so with probability `success` from some users' samples; rounded down, and 0 where that says nothing.

    >>> round(blind_chance(0.5, 6), 4), blind_chance(0.5, 6, delta=0.1)
    (0.0249, 0.0)
    """
    group = group_privacy(epsilon, delta, users)
    left = float(between("success", success, 0, 1, "(]")) - group.delta
    return max(0.0, left * math.exp(-group.epsilon) * (1.0 - 2.0**-48))


def runs_needed(epsilon: float, users: int, delta: float = 0.0) -> int:
    """T = 100⌈e^{εn}⌉ ([GKM21] Alg. 6), where that is enough.

    With δ > 0 it is enough while δ(e^{εn} - 1)/(e^ε - 1) leaves a good hypothesis a chance of 10/T in every run. The
    paper asks for n <= 0.01 log(1/δ)/ε, which implies that.
    """
    exponent = float(positive("epsilon", epsilon)) * integer("users", users, 1)
    if exponent > math.log(MOST_RUNS / 100):
        allowed = f"at most {int(math.log(MOST_RUNS / 100) / epsilon)}: this is for small cases, of {MOST_RUNS:,} runs"
        raise InvalidParameter("users", users, allowed)
    runs = 100 * math.ceil(math.exp(exponent))
    if runs * blind_chance(epsilon, users, delta) < ENOUGH:
        raise InvalidParameter("delta", delta, f"smaller: {users} users who hold nothing say too little at this δ")
    return runs


def least_users(dimension: float, epsilon: float, delta: float = 0.0) -> int:
    """No (ε, δ)-DP learner that succeeds half of the time has fewer users ([GKM21] Lemma 4, with its constants).

    `dimension` is log of the least size that a representation of the class can have. A learner with n users would give
    one of T = 100⌈e^{εn}⌉ hypotheses, so log T is at least the dimension, unless δ spoils the argument: that is the
    min{log 1/δ, dimension}/ε of the lemma.

    >>> least_users(20, 1.0), least_users(20, 0.1), least_users(20, 0.1, delta=1e-3)
    (16, 154, 38)
    """
    positive("dimension", dimension)
    positive("epsilon", epsilon)

    def possible(users: int) -> bool:
        exponent = epsilon * users
        # Beyond the doubles e^{εn} is whole for our purposes.
        runs = math.log(100.0) + (math.log(math.ceil(math.exp(exponent))) if exponent < 30.0 else exponent)
        spoilt = group_privacy(epsilon, delta, users).delta > 0.5 - ENOUGH / 100.0
        return runs >= dimension or spoilt

    return least_passing_integer(possible, 0, 1)


def representation_from_learner(
    run: Callable[[Source], H], *, epsilon: float, users: int, source: Source, delta: float = 0.0
) -> frozenset[H]:
    """Run an (ε, δ)-private learner on users who hold nothing, T times, and keep every hypothesis it returned.

    `run` is the whole learner, its public seed drawn anew, for `users` users without samples. Replacing all of them by
    users with samples changes no probability by more than `blind_chance` allows; so a set of hypotheses that is hit
    with probability one half on some data is hit by T runs on none almost surely. ([GKM21] removes users where we
    replace them, since a mechanism here is planned for a fixed number.) So whatever a private learner can learn has a
    representation of size log T = O(εn), and n must be at least of the order of its dimension over ε: `least_users`.

    >>> from croupier.noise import seeded
    >>> from croupier.noise.source import below
    >>> sorted(representation_from_learner(lambda s: below(3, s), epsilon=0.5, users=2, source=seeded(1)))
    [0, 1, 2]
    """
    hypotheses = frozenset(run(source) for _ in range(runs_needed(epsilon, users, delta)))
    if not hypotheses:
        raise CroupierError("the learner returned nothing")
    return hypotheses
