"""What stands in the way of a learner's accuracy, as far as it can be seen before the vote; never of its privacy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from croupier.learning.election import AnyBallot
from croupier.learning.samples import Samples

SPARED = "privacy is not affected"


@dataclass(frozen=True)
class Doubt:
    """One reason, of a kind ("users", "samples" or "range"), in words."""

    kind: str
    text: str


def doubts(samples: Samples, ballot: AnyBallot, *, users_needed: int, alpha: float, beta: float) -> Iterator[Doubt]:
    """Too few users, too few samples a user, features outside the public range. They look at data: no release."""
    if samples.users < users_needed:
        aim = f"error {alpha:g} with probability {1 - beta:g}"
        yield Doubt(
            "users",
            f"{samples.users} users, where {aim} needs {users_needed} at this privacy: "
            f"the result may be any hypothesis ({SPARED})",
        )
    typical, least = float(np.median(samples.sizes)), ballot.samples_needed
    if typical < least:
        yield Doubt(
            "samples",
            f"half of the users have {typical:g} samples or fewer, and with fewer than {least} users hardly vote "
            f"alike: more samples a user, or a larger alpha ({SPARED})",
        )
    if outside := ballot.unseen(samples.features):
        yield Doubt("range", f"{outside}: scale them, or say low and high ({SPARED})")
