"""Elections: from every user's vote to one hypothesis, privately, by selection from a list or bit by bit.

Privacy is the selection's alone: one user's samples, all of them, move one vote. It holds whatever the votes are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError, InvalidParameter, between, integer, one_of
from croupier.learning.queries import Bits
from croupier.learning.samples import Integers, Samples
from croupier.learning.seeds import Seed
from croupier.noise import Source
from croupier.privacy import Guarantee
from croupier.protocols import Certificate, SelectionMechanism, selection
from croupier.search import least_passing_integer, least_passing_ratio

LARGEST_LIST = 2**20
"""Longer lists are voted on bit by bit, unless selection from the list is asked for."""

PARTS = 3
"""A third of β each: the seed's hypothesis is bad; the seed is unstable; the vote or its counting goes wrong."""

TYPICAL_FAILURE = 0.01
MOST_USERS = 2**32

ROUTES = ("auto", "list", "bits")
SPLITS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
"""Parts of the failure probability that a selection may take; a short vote takes the rest."""
LEAST_FAILURE = 1e-12


class AnyBallot(Protocol):
    """What users vote on: listed hypotheses (`Ballot`) or written ones (`QueryBallot`)."""

    @property
    def bits(self) -> int:
        """How many bits write a vote down."""
        ...

    @property
    def size(self) -> int | None:
        """How many hypotheses there are, where they are listed."""
        ...

    @property
    def samples_needed(self) -> int:
        """With fewer samples of each, users hardly vote alike."""
        ...

    def unseen(self, features: NDArray[Any]) -> str:
        """In words, which features cannot be told apart; nothing where all can."""
        ...

    def best(self, samples: Samples) -> Any:
        """The rule that the first user would choose, were it for accuracy alone."""
        ...

    def marks(self, samples: Samples) -> Bits:
        """Every user's vote as bits."""
        ...

    def read(self, bits: Bits) -> Any:
        """The rule that bits stand for."""
        ...


@dataclass(frozen=True)
class Decision:
    """What was elected; `verified` is False when the check bits say that it is no user's vote."""

    hypothesis: Any
    verified: bool = True


@dataclass(frozen=True)
class Voting:
    """A privacy target and a way to count: plan it for a ballot and a number of users.

    `route` is "list" (selection among listed hypotheses), "bits" (bit by bit), or "auto". `check_bits` more bits are
    voted on bit by bit, to tell when the result is nobody's vote.
    """

    epsilon: float
    delta: float | None = None
    model: str = "shuffle"
    constants: str = "tight"
    honest_fraction: float = 1.0
    route: str = "auto"
    check_bits: int = 8

    def __post_init__(self) -> None:
        one_of("route", self.route, ROUTES)
        integer("check_bits", self.check_bits, 0, 64)
        self.choice(2, 1)

    def choice(self, size: int, users: int, *, alike: int | None = None) -> SelectionMechanism:
        """The selection among so many items by so many users: of those that meet the promise, the one that errs least.

        With a trusted analyzer the purely private one often errs less. Through a shuffler, noise is enough for a batch
        of any size; few users, or a large ε, need less of it when each report is private by itself, and such a report
        needs no shuffler. Batches of several sizes that make one promise name the size that decides (`alike`).
        """
        return _choice(self, size, users, users if alike is None else alike)

    def plan(self, ballot: AnyBallot, users: int, seed: Seed) -> ListElection | BitElection:
        """The election of one hypothesis by so many users."""
        if self.takes_list(ballot):
            assert ballot.size is not None
            return ListElection(self.choice(max(2, ballot.size), users))
        parts = ballot.bits + self.check_bits
        return BitElection(integer("users", users, parts), ballot.bits, self, seed.child("election"))

    def takes_list(self, ballot: AnyBallot) -> bool:
        """Whether the hypotheses are selected from their list."""
        if self.route == "list" and ballot.size is None:
            raise InvalidParameter("route", self.route, "bits or auto: these hypotheses are not listed")
        if ballot.size is None or self.route == "bits":
            return False
        return self.route == "list" or ballot.size <= LARGEST_LIST

    def users_needed(self, ballot: AnyBallot, *, agreement: float, failure: float) -> int:
        """How many users suffice to elect what each of them votes for with probability `agreement`, but for `failure`.

        From the error of the selection, which is the exact law of its noise added up over rivals (local: Chernoff's
        bound), and the exact tail of the number of such votes.

        >>> from croupier.learning import Stable, Thresholds
        >>> ballot = Stable(Thresholds()).ballot(columns=1, seed=Seed.of(0), alpha=0.1, beta=0.1)
        >>> [Voting(1.0, model=m).users_needed(ballot, agreement=0.9, failure=0.03) for m in ("shuffle", "local")]
        [60, 316]
        """
        between("agreement", agreement, 0.5, 1)
        between("failure", failure, 0, 1)
        least = 1 if self.takes_list(ballot) else ballot.bits + self.check_bits
        seed = Seed.of(0)

        def enough(users: int) -> bool:
            if users > MOST_USERS:
                raise CroupierError(f"no number of users up to {MOST_USERS:,} suffices at this privacy and agreement")
            # Whole numbers make the bound jag by one user; two in a row are past that.
            return all(self.plan(ballot, n, seed).elects(agreement, failure) for n in (users, users + 1))

        return least_passing_integer(enough, least - 1, least)


MEETS: dict[str, tuple[str, ...]] = {"central": ("central-pure", "central"), "shuffle": ("shuffle", "local")}
"""Models whose selections meet the promise of a model with tight constants, where there is more than its own."""

CRITERIA: dict[str, Callable[[SelectionMechanism], float]] = {
    "central": lambda mechanism: mechanism.error(TYPICAL_FAILURE),
    "shuffle": lambda mechanism: mechanism.unanimous_failure,
}
"""What is least in the one that is taken; the first of equals."""


@lru_cache(maxsize=4096)
def _choice(voting: Voting, size: int, users: int, alike: int) -> SelectionMechanism:
    """The selection by so many users, of the kind that errs least with `alike` users."""
    tight = voting.constants == "tight"
    models = MEETS.get(voting.model, (voting.model,)) if tight else (voting.model,)
    targets = [
        selection(
            epsilon=voting.epsilon,
            delta=voting.delta if model == voting.model else None,
            size=size,
            model=model,
            constants=voting.constants,
            honest_fraction=voting.honest_fraction,
        )
        for model in models
    ]
    if len(targets) > 1:
        targets.sort(key=lambda target: CRITERIA[voting.model](target.plan(alike)))
    return targets[0].plan(users)


@dataclass(frozen=True)
class ListElection:
    """All users take part in one selection among the listed hypotheses ([GKM21] Alg. 4 and its kin)."""

    mechanism: SelectionMechanism

    @property
    def users(self) -> int:
        return self.mechanism.users

    @property
    def privacy(self) -> Guarantee:
        """A user has one vote, which all their examples make: the vote's privacy is the user's."""
        return replace(self.mechanism.guarantee, unit="user")

    @property
    def messages_per_user(self) -> float:
        """What each device sends, on average: through a shuffler it grows with the list."""
        return self.mechanism.messages_per_user

    @property
    def simulation_only(self) -> bool:
        """Whether that is more than a device would send."""
        return self.mechanism.simulation_only

    def certificate(self) -> Certificate:
        """The privacy recomputed from the noise, beside the claim."""
        return self.mechanism.certificate()

    def elects(self, agreement: float, failure: float) -> bool:
        """Whether the common vote surely wins, but for `failure`, if each user has it with probability `agreement`."""
        return _elects(self.mechanism, agreement, failure)

    def failure(self, agreement: float) -> float:
        """A bound on the chance that the common vote does not win."""
        return _least_failure(lambda failure: self.elects(agreement, failure))

    def run(self, votes: Integers, source: Source) -> int:
        """The number of the winner."""
        return self.mechanism.run(votes, source)

    def decide(self, ballot: Any, samples: Samples, source: Source) -> Decision:
        """Every user votes, and selection decides."""
        return self._decided(ballot, ballot.votes(samples), source)

    def decide_marks(self, ballot: Any, marks: Bits, source: Source) -> Decision:
        """The same of votes that are written down as bits already."""
        return self._decided(ballot, marks.astype(np.int64) @ (1 << np.arange(ballot.bits)), source)

    def _decided(self, ballot: Any, votes: Integers, source: Source) -> Decision:
        winner = self.run(votes, source)
        # A list of one is filled up to two places.
        return Decision(ballot.hypothesis(min(winner, ballot.size - 1)))


@dataclass(frozen=True)
class BitElection:
    """Users are split into as many groups as a vote has bits; group j elects bit j.

    Every user takes part in one group only, and who is in which is public and fixed, so the privacy is that of one
    choice between two. Users who share a hypothesis share all its bits, so no list of hypotheses is ever needed. An
    honest fraction is assumed of every group, as of any batch.
    """

    users: int
    ballot_bits: int
    voting: Voting
    seed: Seed

    @property
    def parts(self) -> int:
        return self.ballot_bits + self.voting.check_bits

    @cached_property
    def positions(self) -> Integers:
        """Which bit each user helps to elect."""
        return self.seed.child("groups").order(self.users) % self.parts

    def mechanism(self, position: int) -> SelectionMechanism:
        """The choice between 0 and 1 that elects this bit; a device whose user is in its group sends one report.

        Some groups have one user more. All choose in the same way, so that they promise and trust the same.
        """
        smaller, larger = divmod(self.users, self.parts)
        return self.voting.choice(2, smaller + (position < larger), alike=smaller)

    @property
    def privacy(self) -> Guarantee:
        """That of any one group."""
        return replace(self.mechanism(0).guarantee, unit="user")

    @property
    def messages_per_user(self) -> float:
        """What a device sends on average, in the group where that is most."""
        return max(self.mechanism(j).messages_per_user for j in (0, self.parts - 1))

    @property
    def simulation_only(self) -> bool:
        """Whether that is more than a device would send."""
        return any(self.mechanism(j).simulation_only for j in (0, self.parts - 1))

    def certificate(self) -> Certificate:
        """The weaker of the two that groups have: some have one user more."""
        return max((self.mechanism(j).certificate() for j in (0, self.parts - 1)), key=lambda c: (c.delta, c.epsilon))

    def elects(self, agreement: float, failure: float) -> bool:
        """Whether every bit is surely that of the common vote, but for `failure` in all."""
        each = failure / self.parts
        return all(_elects(self.mechanism(j), agreement, each) for j in (0, self.parts - 1))

    def failure(self, agreement: float) -> float:
        """A bound on the chance that any bit is not that of the common vote."""
        return _least_failure(lambda failure: self.elects(agreement, failure))

    def checked(self, marks: Bits) -> Bits:
        """Votes with their check bits, as a user's device appends them."""
        kinds, place = np.unique(marks, axis=0, return_inverse=True)
        checks = np.stack([self._check(kind) for kind in kinds])
        return np.concatenate((kinds, checks), axis=1)[place.reshape(-1)]

    def _check(self, bits: Bits) -> Bits:
        digest = hashlib.blake2b(np.packbits(bits).tobytes(), key=self.seed.key, digest_size=8).digest()
        return np.unpackbits(np.frombuffer(digest, dtype=np.uint8))[: self.voting.check_bits]

    def run(self, marks: Bits, source: Source) -> tuple[Bits, bool]:
        """The elected bits, and whether the check bits among them fit; `marks` are votes of `ballot_bits` bits."""
        if marks.shape != (self.users, self.ballot_bits):
            raise InvalidParameter("marks", marks.shape, f"{self.users} votes of {self.ballot_bits} bits")
        full = self.checked(marks)
        elected = np.empty(self.parts, dtype=np.uint8)
        for position in range(self.parts):
            group = self.positions == position
            elected[position] = self.mechanism(position).run(full[group, position].astype(np.int64), source)
        bits = elected[: self.ballot_bits]
        return bits, bool((self._check(bits) == elected[self.ballot_bits :]).all())

    def decide(self, ballot: AnyBallot, samples: Samples, source: Source) -> Decision:
        """Every user votes, and every group elects its bit."""
        return self.decide_marks(ballot, ballot.marks(samples), source)

    def decide_marks(self, ballot: AnyBallot, marks: Bits, source: Source) -> Decision:
        """The same of votes that are written down as bits already."""
        bits, verified = self.run(marks, source)
        return Decision(ballot.read(bits), verified)


@lru_cache(maxsize=4096)
def _elects(mechanism: SelectionMechanism, agreement: float, failure: float) -> bool:
    """Whether an item that each user votes for independently with probability `agreement` wins, but for `failure`.

    With k such votes of n any rival has n - k at most, so the item wins if 2k - n exceeds the selection's error.
    """
    from scipy.special import bdtr

    for part in SPLITS:
        least = math.floor((mechanism.users + mechanism.error(part * failure)) / 2.0) + 1
        if least > mechanism.users:
            continue
        short = float(bdtr(least - 1, mechanism.users, agreement)) * (1.0 + 1e-9)
        if short <= (1.0 - part) * failure:
            return True
    return False


def _least_failure(elects: Callable[[float], bool]) -> float:
    """The least failure probability at which an election is sure, to one part in a thousand, or 1."""
    most = 1.0 - 1e-9
    return least_passing_ratio(elects, LEAST_FAILURE, most, resolution=1e-3) if elects(most) else 1.0
