"""A trial of a private learner: some users teach, the others, held out, say how well it was learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.checks import InvalidParameter, between
from croupier.learning.doubts import Doubt, doubts
from croupier.learning.election import PARTS, BitElection, ListElection, Voting
from croupier.learning.samples import Integers, Samples
from croupier.learning.seeds import Seed
from croupier.noise import Source


@dataclass(frozen=True)
class Trial:
    """What was learnt, and how well. The rule is the release; every accuracy is for whoever holds the data.

    `majority` answers with the commoner label of the teaching users; `open` is the best rule of the same class on all
    their rows together, with no privacy.
    """

    rule: Any
    verified: bool
    election: ListElection | BitElection
    users_needed: int
    taught: Samples
    held_out: Samples
    accuracy: float
    majority_accuracy: float
    open_rule: Any
    open_accuracy: float
    doubts: tuple[Doubt, ...]


def split(users: int, held_out: float, seed: Seed) -> tuple[Integers, Integers]:
    """Which users teach and which are held out, by a public order: whole users, never rows of one.

    >>> [part.tolist() for part in split(5, 0.4, Seed.of(1))]
    [[2, 3, 4], [0, 1]]
    """
    between("held_out", held_out, 0, 1)
    apart = max(1, round(held_out * users))
    if apart >= users:
        raise InvalidParameter("held_out", held_out, f"small enough that some of the {users} users are left to teach")
    order = seed.child("held out").order(users)
    return np.sort(order[apart:]), np.sort(order[:apart])


def attempt(
    samples: Samples,
    learner: Any,
    voting: Voting,
    *,
    alpha: float,
    beta: float,
    held_out: float,
    seed: Seed,
    source: Source,
    agreement: float = 0.9,
) -> Trial:
    """Split the users, let some of them vote, count privately, and look at the others."""
    between("alpha", alpha, 0, 1)
    between("beta", beta, 0, 1)
    teach, apart = split(samples.users, held_out, seed)
    taught, others = (samples.chosen(users) for users in (teach, apart))
    ballot = learner.ballot(columns=samples.columns, seed=seed, alpha=alpha, beta=beta / PARTS)
    needed = voting.users_needed(ballot, agreement=agreement, failure=beta / PARTS)
    election = voting.plan(ballot, taught.users, seed)
    decision = election.decide(ballot, taught, source)
    everyone = Samples.equal(taught.features, taught.labels, 1)
    best = ballot.best(everyone)
    commoner = bool(2 * taught.labels.sum() > len(taught.labels))
    return Trial(
        decision.hypothesis,
        decision.verified,
        election,
        needed,
        taught,
        others,
        _accuracy(decision.hypothesis, others),
        float(np.mean(others.labels == commoner)),
        best,
        _accuracy(best, others),
        tuple(doubts(taught, ballot, users_needed=needed, alpha=alpha, beta=beta)),
    )


def _accuracy(rule: Any, samples: Samples) -> float:
    return float(np.mean(rule.predict(samples.features) == samples.labels))
