"""Index policies in the distributed model: DP-KLUCB and DP-IMED, with KL-UCB as their shadow without privacy.

Each arm has batches of its own that grow by a ratio; every batch sum carries fresh noise, and sums accumulate. The
index uses the exact tail of reward plus accumulated noise, so an unlucky early noise is known to be possible and the
arm is tried again: no arm starves. A batch is a batch wherever its noise is added, so in the shuffle and
secure-aggregation models the law of a run is that of the central model.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.chernoff import evidence, upper_bound
from croupier.bandits.policy import Bools, Policy
from croupier.checks import positive
from croupier.comparisons.tails import Floats


class IndexPolicy(Policy):
    """Plays one batch at a time, of the arm that an index points to; every arm first gets one batch.

    Arms are played at different times, so no comparison is claimed; the forms in blocks do (docs/decisions.md).
    """

    reads: ClassVar[tuple[str, ...]] = ("exploration",)

    def __init__(
        self,
        arms: int,
        horizon: int | None,
        ladder: Ladder,
        *,
        runs: int = 1,
        name: str = "",
        exploration: float = 0.6,
    ) -> None:
        self.exploration = float(positive("exploration", exploration))
        super().__init__(arms, horizon, ladder, runs=runs, name=name)

    @property
    def level(self) -> Floats:
        """How unlikely an arm's bad luck must be before it is no longer tried: exploration·log T."""
        return np.asarray(self.exploration * np.log(self.span))

    @abstractmethod
    def index(self) -> Floats:
        """How soon each arm is played, in every run: the larger, the sooner. Arms without a batch need none."""

    def odds(self) -> Floats:
        """All on the arm with the largest index; ties go to the first."""
        playable = self.playable
        index = np.where(self.counts == 0, np.inf, self.index())
        choice = np.argmax(np.where(playable, index, -np.inf), axis=1)
        odds = np.zeros((self.runs, self.arms))
        odds[np.arange(self.runs), choice] = playable.any(axis=1)
        return odds


class KLUCB(IndexPolicy):
    """The largest mean μ with inf_z {n kl(z, μ) + Λ(n(z - μ̃))} <= level, Λ the rate function of all noise in μ̃."""

    def __init__(self, arms: int, horizon: int | None, ladder: Ladder, **options: Any) -> None:
        super().__init__(arms, horizon, ladder, **options)
        self._index: Floats = np.full((self.runs, arms), np.inf)
        self._span: Floats = self.span

    def index(self) -> Floats:
        return self._index

    def add_arm(self) -> int:
        self._index = np.concatenate((self._index, np.full((self.runs, 1), np.inf)), axis=1)
        return super().add_arm()

    def learn(self, released: Bools) -> None:
        """Renew the index of the arms that changed; of all when a doubled horizon moves the level."""
        stale = released | (self.span != self._span)[:, None]
        self._span = self.span
        runs, arms = np.nonzero(stale & (self.counts > 0))
        if len(runs):
            low_side = self.noises.tails.low_side[self.noise[runs, arms]]
            self._index[runs, arms] = upper_bound(
                self.totals[runs, arms], self.counts[runs, arms], low_side, self.level[runs]
            )


class UCB1(IndexPolicy):
    """The mean and √(2 log t/n), as [ACF02] has it: a baseline that knows nothing of noise."""

    def index(self) -> Floats:
        t = np.maximum(self.users, 2)[:, None]
        return np.asarray(self.means + np.sqrt(2.0 * np.log(t) / np.maximum(self.counts, 1)))


class IMED(IndexPolicy):
    """Plays the arm of least evidence against being the best, plus log n ([HT15], with private sums)."""

    def index(self) -> Floats:
        """Nothing is remembered: the best mean moves every index."""
        known = self.counts > 0
        best = np.clip(np.where(known & self.active, self.means, 0.0).max(axis=1), 0.0, 1.0 - 1e-9)[:, None]
        low_side = self.noises.tails.low_side[self.noise]
        cost = evidence(self.totals, self.counts, low_side, np.broadcast_to(best, self.totals.shape))
        return -(cost + np.log(np.maximum(self.counts, 1)))
