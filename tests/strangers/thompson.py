"""Thompson sampling over private sums: a policy that somebody wrote outside of croupier.

Run it with: croupier simulate --policy thompson:ENTRY --means .3,.5,.6 --horizon 20000
"""

from __future__ import annotations

from typing import Any

import numpy as np

from croupier.bandits import Entry, Ladder, Policy, Request

SMALLEST, GROWTH = 32, 1.3


class Thompson(Policy):
    """Plays the arm whose mean is largest in a draw from its posterior, one batch at a time.

    An arm's mean is taken for normal around its estimate, with the variance of rewards and noise together. A policy is
    deterministic, so that a run can be replayed: a draw follows from `seed` and from how often each arm was played.
    """

    reads = ("seed",)

    def __init__(self, *arguments: Any, seed: int = 0, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seed = seed
        self.noise_variance = np.zeros((self.runs, self.arms))

    def odds(self) -> Any:
        """All the odds for the winner of the draw; nobody gets an arm that is paused or out."""
        drawn = self.means + self.spread() * np.stack([self.draw(run) for run in range(self.runs)])
        winner = np.argmax(np.where(self.playable, drawn, -np.inf), axis=1)
        return (np.arange(self.arms) == winner[:, None]) & self.playable

    def spread(self) -> Any:
        """The standard deviation of every estimate; large where nothing is known, so that every arm is tried."""
        played = np.maximum(self.counts, 1)
        known = np.sqrt(0.25 * played + self.noise_variance) / played
        return np.where(self.counts > 0, known, 100.0)

    def draw(self, run: int) -> Any:
        """Standard normal numbers, the same whenever they are asked for in this state."""
        return np.random.default_rng([self.seed, run, *self.batches[run].tolist()]).normal(size=self.arms)

    def observe(self, sums: Any, assigned: Any, released: Any) -> None:
        """Add up the variance of the noise in the batches that an estimate is made of."""
        for users in np.unique(assigned[released]).tolist():
            mechanism = self.ladder.mechanism(users)
            if mechanism is not None:
                variance = mechanism.variance / mechanism.values.span**2
                self.noise_variance[released & (assigned == users)] += variance
        super().observe(sums, assigned, released)

    def add_arm(self) -> int:
        """A fresh arm has no noise yet."""
        self.noise_variance = np.concatenate((self.noise_variance, np.zeros((self.runs, 1))), axis=1)
        return super().add_arm()


def build(request: Request) -> Policy:
    """The policy that was asked for: its ladder of batch sizes carries the protocol."""
    ladder = Ladder(request.protocol, request.smallest or SMALLEST, request.growth or GROWTH)
    return Thompson(request.arms, request.horizon, ladder, seed=request.seed, **request.common())


ENTRY = Entry(
    name="my-thompson",
    paper_name="Thompson sampling",
    model="devices",
    protocol="laplace",
    paper="mine",
    build=build,
    tight_only=True,
)
