"""Boosting of a representation: from lists that are barely good to one that is as good as asked for, and larger.

[GKM21] Lemma 10, from [BNS13], bounds PRDim for any α and β by PRDim for 1/4 and 1/4. This is the construction behind
it. Several independent lists in one make failures rare. The majorities of one hypothesis from each of T such lists make
errors small: boosting with fixed weights would find a good majority, since each list is drawn independently of the
distribution that boosting asks it about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between, integer
from croupier.learning.representation import Family, Representation
from croupier.learning.samples import Bools, Floats, Samples
from croupier.learning.seeds import Seed

LARGEST = 2**20
MOST_ROUNDS = 10**4


def boosted_slack(slack: float, rounds: int) -> float:
    """What T lists of this slack give by majority: the Chernoff bound on T/2 or more of T errors of this chance each.

    Boosting multiplies the weight of a row by e^{∓w} after every round. A round whose hypothesis errs on at most
    `slack` of the weight leaves a factor s·e^w + (1-s)·e^{-w} at most of the total. A row that the majority gets wrong
    has kept e^w at least. The best w makes the bound (su + 1 - s)^T·u^{-(T+1)/2} with u = (T+1)(1-s)/((T-1)s).

    >>> boosted_slack(0.1, 1), round(boosted_slack(0.1, 3), 4), round(boosted_slack(0.25, 25), 4)
    (0.1, 0.0608, 0.0155)
    """
    s = float(between("slack", slack, 0, 0.5, "[)"))
    if integer("rounds", rounds, 1) % 2 == 0:
        raise InvalidParameter("rounds", rounds, "odd: a majority must not be a tie")
    if rounds == 1 or not s:
        return s
    u = (rounds + 1) * (1.0 - s) / ((rounds - 1) * s)
    return math.exp(rounds * math.log(s * u + 1.0 - s) - 0.5 * (rounds + 1) * math.log(u)) * (1.0 + 1e-12)


def boosted_failure(failure: float, rounds: int, copies: int) -> float:
    """1 - (1 - f^copies)^rounds: a round fails when all its copies do, and the lists are independent."""
    each = float(between("failure", failure, 0, 1, "[)")) ** integer("copies", copies, 1)
    return -math.expm1(rounds * math.log1p(-each)) * (1.0 + 1e-12)


@dataclass(frozen=True)
class Boosted:
    """Majorities of `rounds` hypotheses, one from each of as many lists, each of them `copies` lists of a family.

    The size is (copies·size)^rounds, so its logarithm grows `rounds` times. Where a class has a direct list of the
    quality wanted, that is far shorter.

    >>> from croupier.learning import HashedPoints
    >>> family = Boosted(HashedPoints(slack=0.2, failure=0.25), rounds=3)
    >>> family.family.draw(1, Seed.of(0)).size, family.draw(1, Seed.of(0)).size
    (21, 9261)
    """

    family: Family
    rounds: int = 3
    copies: int = 1

    def __post_init__(self) -> None:
        boosted_slack(0.0, self.rounds)
        integer("copies", self.copies, 1)

    @classmethod
    def reaching(cls, family: Family, *, columns: int, slack: float, failure: float) -> Boosted:
        """The fewest rounds, and the fewest copies for them, that reach this quality from the family's own."""
        base = family.draw(columns, Seed.of(0))
        between("slack", slack, 0, 1)
        between("failure", failure, 0, 1)
        rounds = next((t for t in range(1, MOST_ROUNDS, 2) if boosted_slack(base.slack, t) <= slack), None)
        if rounds is None:
            raise InvalidParameter("slack", slack, f"within {MOST_ROUNDS:,} rounds of the family's {base.slack:g}")
        copies = next(c for c in range(1, MOST_ROUNDS) if boosted_failure(base.failure, rounds, c) <= failure)
        return cls(family, rounds, copies)

    def draw(self, columns: int, seed: Seed) -> BoostedList:
        lists = tuple(
            tuple(self.family.draw(columns, seed.child("boosted", turn, copy)) for copy in range(self.copies))
            for turn in range(self.rounds)
        )
        made = BoostedList(lists)
        if made.size > LARGEST:
            allowed = f"fewer: the list would have {made.size:.3g} hypotheses, and {LARGEST:,} are the most"
            raise InvalidParameter("rounds", self.rounds, allowed)
        return made


@dataclass(frozen=True)
class BoostedList(Representation):
    """Numbered like the digits of a number: the last round's hypothesis changes fastest."""

    lists: tuple[tuple[Representation, ...], ...]

    @property
    def slack(self) -> float:  # type: ignore[override]
        return boosted_slack(max(listed.slack for part in self.lists for listed in part), len(self.lists))

    @property
    def failure(self) -> float:  # type: ignore[override]
        worst = max(listed.failure for part in self.lists for listed in part)
        return boosted_failure(worst, len(self.lists), len(self.lists[0]))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sum(listed.size for listed in part) for part in self.lists)

    @property
    def size(self) -> int:
        return math.prod(self.sizes)

    def _members(self, index: int) -> list[tuple[Representation, int]]:
        """The hypotheses whose majority this is."""
        members = []
        for part, size in zip(reversed(self.lists), reversed(self.sizes), strict=True):
            index, place = divmod(int(index), size)
            for listed in part:
                if place < listed.size:
                    members.append((listed, place))
                    break
                place -= listed.size
        return members[::-1]

    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        votes = sum(listed.predict(place, features).astype(np.int64) for listed, place in self._members(index))
        return np.asarray(2 * votes > len(self.lists))

    def describe(self, index: int) -> str:
        return "most of: " + "; ".join(listed.describe(place) for listed, place in self._members(index))

    def mistakes(self, samples: Samples) -> Floats:
        """Every majority on the different rows, then counted for each user."""
        rows, place = samples.distinct
        balance = samples.tally(place, len(rows), ~samples.labels) - samples.tally(place, len(rows), samples.labels)
        answers = [
            np.stack([listed.predict(index, rows) for listed in part for index in range(listed.size)]).astype(np.int8)
            for part in self.lists
        ]
        missed = samples.count(samples.labels)[:, None]
        blocks = []
        for chosen in product(*(range(size) for size in self.sizes[:-1])):
            before = sum((answers[turn][at] for turn, at in enumerate(chosen)), np.zeros(len(rows), dtype=np.int8))
            yes = 2 * (before + answers[-1]) > len(self.lists)
            blocks.append(missed + balance @ yes.T)
        return np.concatenate(blocks, axis=1)
