"""What users vote on: a public, finite list of hypotheses that may itself be drawn from the shared seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from croupier.learning.samples import Bools, Floats, Integers, Samples
from croupier.learning.seeds import Seed

CHUNK = 2**22
"""Numbers held at a time while many users' errors are looked at."""


class Family(Protocol):
    """A concept class with a probabilistic representation: the seed draws the list ([GKM21] section 2)."""

    def draw(self, columns: int, seed: Seed) -> Representation:
        """The list for data with this many columns. Most classes have one list, whatever the seed."""
        ...


class Representation(ABC):
    """A list of hypotheses.

    For every target of its class and every distribution some listed hypothesis has error at most `slack`, except with
    probability `failure` over the seed. `parameters` is how many real numbers a hypothesis is made of, where it is.
    """

    slack: float = 0.0
    failure: float = 0.0

    @property
    def parameters(self) -> int | None:
        return None

    @property
    @abstractmethod
    def size(self) -> int:
        """How many there are."""

    def unseen(self, features: NDArray[Any]) -> str:
        """In words, which of these features no hypothesis can tell apart; nothing where all are as they should be."""
        return ""

    @abstractmethod
    def mistakes(self, samples: Samples) -> Floats:
        """How many of each user's samples each hypothesis gets wrong: users by hypotheses.

        Whole numbers, so that no sum is rounded and no user's vote can hang on another's data by a last digit.
        """

    def errors(self, samples: Samples) -> Floats:
        """The part of each user's samples that each hypothesis gets wrong."""
        return np.asarray(self.mistakes(samples) * samples.share[:, None])

    @abstractmethod
    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        """What hypothesis number `index` says of rows of features."""

    @abstractmethod
    def describe(self, index: int) -> str:
        """It in words."""

    def votes(self, samples: Samples, log_times: Floats, gamma: float) -> Integers:
        """The race of every user under weights exp(-γ·error): the least log E_h + γ·error_h.

        This looks at every hypothesis for every user. A class whose errors are equal on whole runs of hypotheses does
        better by looking once at each run.
        """
        chosen = np.empty(samples.users, dtype=np.int64)
        for first, part in samples.parts(CHUNK // self.size):
            scores = self.errors(part)
            scores *= gamma
            scores += log_times
            chosen[first : first + part.users] = np.argmin(scores, axis=1)
        return chosen


@dataclass(frozen=True)
class Hypothesis:
    """What a learner returns: a rule that can be applied, and read.

    >>> from croupier.learning import Seed, Thresholds
    >>> rule = Hypothesis(Thresholds(cuts=5).draw(1, Seed.of(0)), 2)
    >>> rule, rule.predict(np.array([[0.4], [0.6]])).tolist()
    (column 0 >= 0.5, [False, True])
    """

    representation: Any
    index: int

    def predict(self, features: NDArray[Any]) -> Bools:
        """Yes or no for each row."""
        return np.asarray(self.representation.predict(self.index, features), dtype=bool)

    def __repr__(self) -> str:
        return str(self.representation.describe(self.index))
