"""Chance in who gets an arm: by draws of all means on noisy sums (Thompson sampling), or for all arms alike."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.chernoff import Numbers
from croupier.bandits.policy import Bools, Policy
from croupier.checks import integer
from croupier.comparisons.tails import TILTS, Floats

DRAWS = 4
"""Draws a step, so odds are quarters and at most four arms are open together."""


class Thompson(Policy):
    """In every step the means are drawn four times, and each time the winner gets a quarter of the odds.

    A mean is drawn from a normal law around its estimate, with the variance of its noise and the largest that rewards
    can have. All chance comes from `seed`, which a transcript's configuration names; run r is that of seed + r alone.
    """

    reads: ClassVar[tuple[str, ...]] = ("seed",)

    def __init__(
        self, arms: int, horizon: int | None, ladder: Ladder, *, runs: int = 1, name: str = "", seed: int = 0
    ) -> None:
        super().__init__(arms, horizon, ladder, runs=runs, name=name)
        self.seed = integer("seed", seed, 0, 2**53)
        self.step = 0

    def odds(self) -> Floats:
        from scipy.special import ndtri  # its import takes a while, which every other policy is spared

        playable, every_run = self.playable, np.arange(self.runs)
        means, spread, odds = self.means, self.spread, np.zeros((self.runs, self.arms))
        for draw in range(DRAWS):
            chance = uniforms(self.seed + every_run[:, None], self.step, draw, np.arange(self.arms))
            winner = np.argmax(np.where(playable, means + spread * ndtri(chance), -np.inf), axis=1)
            odds[every_run, winner] += 1.0 / DRAWS
        return np.where(playable, odds, 0.0)

    def learn(self, released: Bools) -> None:
        """Draw anew in the next step."""
        self.step += 1

    @property
    def spread(self) -> Floats:
        """The largest standard deviation that each estimate can have; one where nothing is known."""
        noise = self.noises.tails
        # K(l) is half the variance times l² for small l, and no less than that for these noises.
        variance = (noise.low_side[:, 0] + noise.high_side[:, 0])[self.noise] / TILTS[0] ** 2
        return np.where(self.counts > 0, np.sqrt(self.counts / 4.0 + variance) / np.maximum(self.counts, 1), 1.0)


class Uniform(Policy):
    """Every arm as often as any other, whatever happens: the baseline of all who learn."""

    def odds(self) -> Floats:
        """The same for every arm in play."""
        return np.asarray(self.playable / np.maximum(self.playable.sum(axis=1), 1)[:, None])


def uniforms(*keys: Numbers | int) -> Floats:
    """Numbers in (0, 1) that depend on whole-number keys and nothing else: the keys' arrays are broadcast.

    SplitMix64 [SLF14] absorbs one key after another. NumPy's own generators may draw other numbers
    in another version, and then a replay would not be one.
    """
    state = np.zeros(1, dtype=np.uint64)
    for key in keys:
        state = splitmix(state + np.asarray(key).astype(np.uint64))
    return np.asarray(((state >> np.uint64(11)) + 0.5) * 2.0**-53)


def splitmix(state: Numbers) -> Numbers:
    """The number that SplitMix64 gives in this state.

    >>> splitmix(np.array([1234567], dtype=np.uint64)).tolist()
    [6457827717110365317]
    """
    mixed = state + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
