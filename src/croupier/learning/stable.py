"""Stable learners: users with different samples and one shared seed mostly vote for the same thing ([GKM21] Alg. 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between, positive
from croupier.learning.representation import Family, Hypothesis, Representation
from croupier.learning.samples import Floats, Integers, Samples
from croupier.learning.seeds import Seed
from croupier.learning.thresholds import Thresholds


@dataclass(frozen=True)
class Stable:
    """Exponential weights exp(-γ·error) on a represented class, then correlated sampling.

    A larger `gamma` is more accurate and less stable. "published" is [GKM21]'s; "tight" is the least that its proof
    needs when the size and the quality of the list are known; "smooth" is what suffices where errors grow evenly around
    the target; a number is taken as it is.

    >>> learner = Stable(Thresholds(cuts=101))
    >>> ballot = learner.ballot(columns=1, seed=Seed.of(1), alpha=0.1, beta=0.1)
    >>> x = np.linspace(0, 1, 1000)[:, None]
    >>> ballot.votes(Samples.of(x, x[:, 0] > 0.6, groups=np.arange(1000) % 2))
    array([61, 61])
    """

    family: Family = field(default_factory=Thresholds)
    gamma: float | str = "tight"

    def ballot(self, *, columns: int, seed: Seed, alpha: float, beta: float) -> Ballot:
        """What is voted on under this seed, and how: α is the error aimed at, β the chance of missing it."""
        between("alpha", alpha, 0, 1)
        between("beta", beta, 0, 1)
        listed = self.family.draw(columns, seed.child("representation"))
        return Ballot(listed, self._gamma(listed, alpha, beta), seed.child("race"))

    def _gamma(self, listed: Representation, alpha: float, beta: float) -> float:
        if not isinstance(self.gamma, str):
            return float(positive("gamma", self.gamma))
        if self.gamma not in GAMMAS:
            raise InvalidParameter("gamma", self.gamma, "a number > 0, or one of " + ", ".join(GAMMAS))
        return GAMMAS[self.gamma](listed, alpha, beta)


def published_gamma(listed: Representation, alpha: float, beta: float) -> float:
    """γ = 2(d + log(1/β) + 10)/α with d = log2 of the list's size ([GKM21] Alg. 3)."""
    return 2.0 * (math.log2(listed.size) + math.log(1.0 / beta) + 10.0) / alpha


def published_samples(listed: Representation, gamma: float, beta: float) -> float:
    """m = 10⁶γ²d·log(1/β)/β⁴ samples for each user ([GKM21] Alg. 3): for the proof, and not for use."""
    return 1e6 * gamma**2 * math.log2(listed.size) * math.log(1.0 / beta) / beta**4


def tight_gamma(listed: Representation, alpha: float, beta: float) -> float:
    """The least γ for which |H|·exp(-γ(α - slack)) <= β - failure: a bad draw then has at most β.

    That is [GKM21]'s own bound on P(error > α) before its constants are put in: hypotheses worse than α have weight at
    most
    |H|e^{-γα} together, and one has weight e^{-γ·slack} at least.
    """
    if listed.slack >= alpha or listed.failure >= beta:
        have = f"{listed.slack:g} and {listed.failure:g}"
        raise InvalidParameter("alpha", (alpha, beta), f"with beta, above the slack and failure of the list, {have}")
    return math.log(listed.size / (beta - listed.failure)) / (alpha - listed.slack)


def smooth_gamma(listed: Representation, alpha: float, beta: float) -> float:
    """The γ at which a Gamma variable with as many parameters as a hypothesis has exceeds γα with probability β.

    That is the law of γ·error where the hypotheses with error at most a fill a volume that grows like a^parameters,
    as they do for data with a steady density around the target. It is an assumption on the data; "tight" needs none.
    """
    from scipy.special import gammaincinv

    if listed.parameters is None:
        raise InvalidParameter("gamma", "smooth", "tight, published or a number: these hypotheses have no volume")
    return float(gammaincinv(listed.parameters, 1.0 - beta)) / alpha


GAMMAS = {"tight": tight_gamma, "published": published_gamma, "smooth": smooth_gamma}


@dataclass(frozen=True)
class Ballot:
    """A list of hypotheses, γ and the seed of the race: all public, the same for every user."""

    representation: Representation
    gamma: float
    seed: Seed

    @property
    def size(self) -> int:
        """How many hypotheses can be voted for."""
        return self.representation.size

    @property
    def bits(self) -> int:
        """How many bits name one of them."""
        return max(1, (self.size - 1).bit_length())

    def unseen(self, features: NDArray[Any]) -> str:
        """See `Representation.unseen`."""
        return self.representation.unseen(features)

    @property
    def samples_needed(self) -> int:
        """The samples a user must have so that one of them changes no hypothesis's weight by more than a factor e.

        With fewer, a single sample decides which hypotheses a user can vote for, and users hardly vote alike. It is a
        floor: docs/learning.md says how many samples were enough.
        """
        return math.ceil(self.gamma)

    @cached_property
    def log_times(self) -> Floats:
        """The exponential time of every hypothesis, as a logarithm."""
        return np.log(self.seed.exponentials(np.arange(self.size)))

    def votes(self, samples: Samples) -> Integers:
        """The number of the hypothesis that each user votes for: a function of that user's samples alone."""
        return self.representation.votes(samples, self.log_times, self.gamma)

    def weights(self, samples: Samples) -> Floats:
        """Every user's distribution over the hypotheses ([GKM21] Alg. 3)."""
        errors = self.representation.errors(samples)
        weights = np.exp(-self.gamma * (errors - errors.min(axis=1, keepdims=True)))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def marks(self, samples: Samples) -> NDArray[np.uint8]:
        """Every user's vote as bits, the lowest first."""
        return ((self.votes(samples)[:, None] >> np.arange(self.bits)) & 1).astype(np.uint8)

    def read(self, bits: NDArray[np.uint8]) -> Hypothesis:
        """The rule that bits stand for; a number beyond the list can only come from a failed vote, and is cut."""
        number = int(np.asarray(bits, dtype=np.int64) @ (1 << np.arange(self.bits)))
        return self.hypothesis(min(number, self.size - 1))

    def best(self, samples: Samples) -> Hypothesis:
        """The rule that errs least on the first user's samples."""
        return self.hypothesis(int(np.argmin(self.representation.mistakes(samples)[0])))

    def hypothesis(self, index: int) -> Hypothesis:
        """The rule behind a number."""
        return Hypothesis(self.representation, int(index))


def plurality(votes: Integers) -> float:
    """Which part of the votes the commonest has. NOT PRIVATE: it reads raw votes, and is for simulations only."""
    _, counts = np.unique(votes, return_counts=True, axis=0)
    return float(counts.max() / len(votes))
