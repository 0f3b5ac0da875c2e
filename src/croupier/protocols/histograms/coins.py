"""Histograms through a shuffler with noise that cannot exceed a known size: counts certain from both sides.

Every bucket gets exactly `coins` tosses of one biased coin, each in another user's hand, and a message for every head.
A bucket's messages minus all its coins can then not exceed the truth, so an item that nobody holds is exactly 0, as in
[GKM21] Lemma 37, for a share of the tosses instead of a message for every item that a user does not hold.

Who tosses which coin goes by seat: coin number j of bucket u is tossed in seat (u·coins + j) mod users.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from croupier.checks import InvalidParameter, between, integer
from croupier.noise import Binomial, Source
from croupier.noise.chances import chance
from croupier.privacy import Loss, privacy_loss
from croupier.protocols.histograms.least_noise import LEAST_COMPOSED, move
from croupier.protocols.histograms.oracles import (
    CHUNK,
    Floats,
    FrequencyOracle,
    Integers,
    Progress,
    Reports,
    check_batch,
    check_failure,
    least_error,
)
from croupier.protocols.mechanism import Residual
from croupier.search import least_passing_integer

HEADS = Fraction(3, 4)
"""Fairer coins are fewer messages; at 3/4 the certain under-count errs by little more than with Poisson noise."""


@dataclass(frozen=True)
class Coins(FrequencyOracle):
    """Counts plus Binomial(coins, heads) noise.

    With dishonest users the guarantee rests on `sure_coins` of each bucket's coins being tossed: seats are dealt by
    lot, and the chance that fewer are in honest hands is charged as statistical distance.
    """

    kind: ClassVar[str] = "coins"
    trust: ClassVar[str] = "shuffler"
    needs_seats: ClassVar[bool] = True
    size: int
    users: int
    counted_on: int
    coins: int
    sure_coins: int
    heads: Fraction = HEADS

    def __post_init__(self) -> None:
        check_batch(self.size, self.users, self.counted_on)
        integer("coins", self.coins, 1)
        if self.users < self.coins:
            raise InvalidParameter(
                "users", self.users, f"at least {self.coins}: each coin of a bucket is another user's"
            )
        all_honest = self.counted_on == self.users
        integer("sure_coins", self.sure_coins, self.coins if all_honest else 1, self.coins)
        object.__setattr__(self, "heads", Fraction(between("heads", Fraction(self.heads), 0, 1)))

    @property
    def honest(self) -> int:
        return self.counted_on

    @cached_property
    def noise(self) -> Binomial:
        """All the noise in one count."""
        return Binomial(self.coins, self.heads)

    @cached_property
    def loss(self) -> Loss:
        loss = move(Binomial(self.sure_coins, self.heads))
        return Loss(loss.releases, 2 * shortfall(self.coins, self.sure_coins, self.counted_on, self.users))

    @property
    def residual(self) -> Residual:
        """At most: seats are public, so whoever sees a report knows all the coins in it but for their sides."""
        return Residual(math.inf, 1.0)

    @property
    def messages_per_user(self) -> float:
        return 1.0 + self.size * self.noise.mean / self.users

    @property
    def std(self) -> float:
        return self.noise.std

    def report(self, indices: Integers, source: Source, seats: Integers) -> Reports:
        turns = -(-self.size * self.coins // self.users)
        tossed = seats[:, None] + self.users * np.arange(turns)
        heads = chance(self.heads, tossed.size, source).reshape(tossed.shape) & (tossed < self.size * self.coins)
        lengths = 1 + heads.sum(axis=1)
        owners = np.concatenate((np.nonzero(heads)[0], np.arange(len(indices))))
        keys = np.sort(owners * self.size + np.concatenate((tossed[heads] // self.coins, indices)))
        return Reports(keys % self.size, lengths)

    def gather(self, indices: Integers, source: Source, progress: Progress = lambda part: None) -> Integers:
        """Every coin is tossed once, whoever's it is: a few buckets at a time."""
        view = np.bincount(indices, minlength=self.size)
        step = max(1, CHUNK // self.coins)
        for first in range(0, self.size, step):
            tossed = view[first : first + step]
            tossed += chance(self.heads, tossed.size * self.coins, source).reshape(-1, self.coins).sum(axis=1)
            progress(tossed.size / self.size)
        return view

    def law(self, counts: Integers, source: Source) -> Integers:
        return counts + self.noise.sample(self.size, source)

    def decode(self, view: Integers, source: Source | None) -> Integers:
        return self.check_view(view, self.users, self.users + self.size * self.coins)

    def estimate(self, decoded: Integers) -> Floats:
        return np.asarray(decoded - self.noise.mean, dtype=np.float64)

    def _reach(self, failure: float) -> tuple[float, float]:
        """The least and the most noise; only an item that somebody holds can be over-estimated by too little noise."""
        if not failure:
            return 0.0, float(self.coins)
        low = self.noise.quantile(failure / 2.0 / min(self.users, self.size))
        return low, min(self.noise.tail_quantile(failure / 2.0 / self.size), self.coins)

    def bounds(self, decoded: Integers, failure: float) -> tuple[Floats, Floats]:
        low, high = self._reach(check_failure(failure))
        value = decoded.astype(np.float64)
        return np.clip(value - high, 0.0, self.users), np.clip(value - low, 0.0, self.users)

    def bounds_hold(self, share: str) -> str:
        sure = f"with certainty no count is off by more than its {self.coins} coins"
        return f"they hold with probability {share}; {sure}"

    def radius(self, failure: float) -> float:
        low, high = self._reach(check_failure(failure))
        return min(max(self.noise.mean - low, high - self.noise.mean), float(self.users))

    def winner_error(self, failure: float) -> float:
        failure = check_failure(failure)
        x = np.arange(self.coins + 1)
        pmf = self.noise.pmf(x)

        def exceeds(error: int) -> float:
            return float(np.dot(pmf, np.minimum(1.0, (self.size - 1) * self.noise.tail(x + error))))

        return min(least_error(exceeds, failure, self.coins), float(self.users))


def shortfall(coins: int, sure: int, honest: int, users: int) -> float:
    """The chance that fewer than `sure` of `coins` different seats are honest, when seats are dealt by lot.

    The honest ones among them are hypergeometric: a sum of independent bits [VM82], whose tail beyond its
    mean less one is at most that of the binomial with the same mean [Hoe56].
    """
    if honest == users:
        return 0.0
    if sure - 1 > coins * honest / users - 1:
        return 1.0
    return float(Binomial(coins, Fraction(honest, users)).cdf(sure - 1))


@lru_cache(maxsize=256)
def least_coins(epsilon: float, delta: float, heads: Fraction, honest: int, users: int) -> tuple[int, int]:
    """The fewest coins a bucket, and how many of them are surely tossed: half of δ for each, where not all are."""
    spare = delta if honest == users else delta / 2.0

    def met(coins: int) -> bool:
        noise = Binomial(coins, heads)
        if epsilon < LEAST_COMPOSED:
            return privacy_loss(noise).delta(epsilon / 2.0) <= spare / 2.0
        return move(noise).delta(epsilon) <= spare

    sure = least_passing_integer(met, 0, 64)
    if honest == users:
        return sure, sure
    charge = 2.0 * (1.0 + math.exp(epsilon)) * (1.0 + 1e-9)
    coins = least_passing_integer(lambda n: charge * shortfall(max(n, sure), sure, honest, users) <= spare, 0, sure)
    return max(coins, sure), sure
