"""Thompson sampling over private sums: a policy that somebody wrote outside of croupier.

Run it with: croupier simulate --policy thompson:ENTRY --means .3,.5,.6 --horizon 20000
"""

from __future__ import annotations

from typing import Any

import numpy as np

from croupier.bandits import Entry, IndexPolicy, Ladder, Policy
from croupier.bandits.catalogue import Request

SMALLEST, GROWTH = 32, 1.3


class Thompson(IndexPolicy):
    """Plays the arm whose mean is largest in a draw from its posterior.

    An arm's mean is taken for normal around its estimate, with the variance of rewards and noise together. A policy is
    deterministic, so that a run can be replayed: a draw follows from `seed` and from how often each arm was played.
    """

    def __init__(self, *arguments: Any, seed: int = 0, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seed = seed
        self.noise_variance = np.zeros((self.runs, self.arms))

    def observe(self, sums: Any, assigned: Any, released: Any) -> None:
        """Add up the variance of the noise in the batches that an estimate is made of."""
        for users in np.unique(assigned[released]).tolist():
            mechanism = self.ladder.mechanism(users)
            if mechanism is not None:
                variance = mechanism.variance / mechanism.values.span**2
                self.noise_variance[released & (assigned == users)] += variance
        super().observe(sums, assigned, released)

    def index(self) -> Any:
        """A draw from every arm's posterior, the same whenever it is asked for."""
        played = np.maximum(self.counts, 1)
        spread = np.sqrt((0.25 * played + self.noise_variance) / played**2)
        draws = np.stack([self._draw(run) for run in range(self.runs)])
        return self.means + spread * draws

    def add_arm(self) -> int:
        """A fresh arm has no noise yet."""
        self.noise_variance = np.concatenate((self.noise_variance, np.zeros((self.runs, 1))), axis=1)
        return super().add_arm()

    def _draw(self, run: int) -> Any:
        return np.random.default_rng([self.seed, run, *self.batches[run].tolist()]).normal(size=self.arms)


def build(request: Request) -> Policy:
    """The policy that was asked for: its ladder of batch sizes carries the protocol."""
    ladder = Ladder(request.protocol, request.smallest or SMALLEST, request.growth or GROWTH)
    return Thompson(request.arms, request.horizon, ladder, **request.common())


ENTRY = Entry("thompson", "Thompson sampling", "devices", "laplace", "mine", build, tight_only=True)
