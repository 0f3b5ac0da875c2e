"""Histograms through a shuffler: one message for each item held and for each unit of noise ([GKM21] Lemmas 36 and 37).

Every user adds a share of one-sided noise to every bucket, so the shuffled labels show each count plus noise. `over`
sends the item held: no count is below the truth. `under` sends every item that is *not* held and subtracts: no count
is above it, an item that nobody holds is exactly 0, and a user sends nearly as many messages as there are items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from croupier.checks import InvalidParameter, one_of
from croupier.noise import Noise, Source
from croupier.privacy import Guarantee, Loss
from croupier.protocols.histograms.least_noise import move
from croupier.protocols.histograms.oracles import (
    Floats,
    FrequencyOracle,
    Integers,
    Progress,
    Reports,
    beaten,
    check_batch,
    check_failure,
    least_error,
)
from croupier.protocols.mechanism import POSSIBLE, Residual, check_front, is_affordable
from croupier.protocols.padding import Shape, capped

SIDES = ("over", "under")


@dataclass(frozen=True)
class LabelledMessages(FrequencyOracle):
    """Counts plus (`over`) or minus (`under`) noise whose share, for each bucket, every user draws."""

    kind: ClassVar[str] = "labelled-messages"
    trust: ClassVar[str] = "shuffler"
    size: int
    users: int
    counted_on: int
    share: Noise
    side: str = "over"
    front_shares: int = 0

    def __post_init__(self) -> None:
        check_batch(self.size, self.users, self.counted_on)
        one_of("side", self.side, SIDES)
        check_front(self.front_shares, self.counted_on)
        if not self.share.counted:
            raise InvalidParameter("share", self.share, "Poisson or Polya noise: only those are sent as messages")

    @property
    def honest(self) -> int:
        return self.counted_on

    @cached_property
    def noise(self) -> Noise:
        """All the noise in one count, when every user adds theirs, and the front its own."""
        return self.share.times(self.users + self.front_shares)

    @property
    def affordable(self) -> bool:
        return is_affordable(self.share, self.users)

    @cached_property
    def loss(self) -> Loss:
        return move(self.share.times(self.counted_on))

    @property
    def messages_per_user(self) -> float:
        return self._own + self.size * self.share.mean

    @property
    def _own(self) -> int:
        """How many messages a user sends besides noise."""
        return 1 if self.side == "over" else self.size - 1

    @property
    def std(self) -> float:
        return self.noise.std

    def report(self, indices: Integers, source: Source, seats: Integers) -> Reports:
        """Own messages and noise, in rising order, so that the order says nothing."""
        labels, lengths = self._noise(len(indices), source)
        if self.side == "over":
            own = indices[:, None]
        else:
            every = np.broadcast_to(np.arange(self.size - 1), (len(indices), self.size - 1))
            own = every + (every >= indices[:, None])
        owner = np.repeat(np.arange(len(indices)), lengths)
        owners = np.concatenate((owner, np.repeat(np.arange(len(indices)), own.shape[1])))
        # One sort by user and label: both fit one word together.
        keys = np.sort(owners * self.size + np.concatenate((labels, own.ravel())))
        return Reports(keys % self.size, lengths + own.shape[1])

    def front_labels(self, source: Source) -> Integers:
        single = replace(self, users=1, counted_on=1, share=self.share.times(self.front_shares), front_shares=0)
        return single._noise(1, source)[0]

    def gather(self, indices: Integers, source: Source, progress: Progress = lambda part: None) -> Integers:
        view = super().gather(indices, source, progress)
        return view + np.bincount(self.front_labels(source), minlength=self.size) if self.front_shares else view

    def shape(self, claim: Guarantee) -> Shape:
        batch = {"users": self.users, "front_shares": self.front_shares, "claim": claim}
        return capped(self.share.times(self.size), self._own, self.message_bytes, **batch)  # type: ignore[arg-type]

    def repaired(self, shape: Shape, slots: Sequence[bytes | None]) -> tuple[Integers, int]:
        """Users who send nothing but dummies are counted nowhere."""
        messages, damaged = shape.sorted_out(slots, lambda message: int.from_bytes(message, "big") < self.labels)
        missing = self.users * self._own - len(messages)
        return self.read(self.unpack(messages)), max(damaged, missing, 0)

    @cached_property
    def residual(self) -> Residual:
        """A report without noise shows its item, and with few users' noise in it nearly every report is one."""
        return Residual(math.inf, min(1.0, move(self.share).delta(0.0)))

    @cached_property
    def possible(self) -> tuple[int, int]:
        """Between which numbers every count lies, except with probability 2^-40, if at least the honest add noise."""
        odds = POSSIBLE / (2.0 * self.size)
        reach = self.noise.tail_quantile(odds)
        least = self.share.times(self.counted_on + self.front_shares).quantile(odds)
        return (least, self.users + reach) if self.side == "over" else (-reach, self.users - least)

    def to_dict(self) -> dict[str, Any]:
        body = super().to_dict()
        return body if self.front_shares else {key: body[key] for key in body if key != "front_shares"}

    def _counted(self, indices: Integers, source: Source, seats: Integers) -> Integers:
        """The same count without listing the messages that are not random."""
        noise = np.bincount(self._noise(len(indices), source)[0], minlength=self.size)
        return noise + self._certain(np.bincount(indices, minlength=self.size))

    @property
    def _drawn_per_user(self) -> float:
        return 1.0 + self.size * self.share.mean

    def _certain(self, counts: Integers) -> Integers:
        return counts if self.side == "over" else counts.sum() - counts

    def _noise(self, users: int, source: Source) -> tuple[Integers, Integers]:
        """Labels of every user's noise, user after user, and how many each has.

        Independent draws for all buckets have the law of one draw of their total, spread.
        """
        total = self.share.times(self.size)
        lengths = total.sample(users, source)
        return total.spread(self.size, lengths, source), lengths

    def law(self, counts: Integers, source: Source) -> Integers:
        return self._certain(counts) + self.noise.sample(self.size, source)

    def decode(self, view: Integers, source: Source | None) -> Integers:
        return self.read(self.check_view(view, self.users * self._own))

    def read(self, counts: Integers) -> Integers:
        """What messages so often sent say of the items, whoever may have left his out."""
        return counts if self.side == "over" else self.users - counts

    def estimate(self, decoded: Integers) -> Floats:
        shift = -self.noise.mean if self.side == "over" else self.noise.mean
        return np.asarray(decoded + shift, dtype=np.float64)

    @property
    def _held(self) -> int:
        """At most so many items are held by anyone."""
        return min(self.users, self.size)

    def bounds(self, decoded: Integers, failure: float) -> tuple[Floats, Floats]:
        """One side is certain. On the other an item held by nobody cannot fail when counting under."""
        failure = check_failure(failure)
        value = decoded.astype(np.float64)
        if self.side == "over":
            reach = self.noise.tail_quantile(failure / self.size) if failure else math.inf
            return np.clip(value - reach, 0.0, self.users), np.clip(value, 0.0, self.users)
        reach = self.noise.tail_quantile(failure / self._held) if failure else math.inf
        return np.clip(value, 0.0, self.users), np.clip(value + reach, 0.0, self.users)

    def bounds_hold(self, share: str) -> str:
        if self.side == "over":
            return f"'at most' is certain; 'at least' holds for all items with probability {share}"
        sure = "'at least' is certain, and 0 for an item that nobody holds"
        return f"{sure}; 'at most' holds with probability {share}"

    def radius(self, failure: float) -> float:
        """Exact quantiles of both tails. An item that nobody holds cannot come out below 0, so errors downward have
        only the items held to fail in: counting under, the long tail of the noise is there, whatever the universe.
        """
        half = check_failure(failure, certain=False) / 2.0
        long, short = (self.size, self._held) if self.side == "over" else (self._held, self.size)
        mean = self.noise.mean
        reach = max(self.noise.tail_quantile(half / long) - mean, mean - self.noise.quantile(half / short))
        return min(reach, float(self.users))

    @cached_property
    def unanimous_failure(self) -> float:
        """Exact for an item in the last place, where ties are lost: the others have noise alone, independently."""
        window = self.noise.window()
        x = np.arange(window.start, window.stop)
        ahead = self.noise.tail(x + self.users - 1) if self.side == "over" else self.noise.cdf(x - self.users)
        lost = float(np.dot(window.pmf, beaten(ahead, self.size - 1)))
        return min(1.0, lost + window.below + window.above)

    def winner_error(self, failure: float) -> float:
        """Sum over the noise of the best item: any of the others may have more noise (over), or less (under)."""
        failure = check_failure(failure, certain=False)
        window = self.noise.window()
        x = np.arange(window.start, window.stop)
        others = self.size - 1

        def exceeds(error: int) -> float:
            beaten = self.noise.tail(x + error) if self.side == "over" else self.noise.cdf(x - error - 1)
            return float(np.dot(window.pmf, np.minimum(1.0, others * beaten))) + window.below + window.above

        return min(least_error(exceeds, failure, window.stop - window.start), float(self.users))
