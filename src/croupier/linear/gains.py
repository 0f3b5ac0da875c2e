"""What personalisation gains over the best single action, with an interval that holds at every look.

Every device is in the control share with the same chance p, whatever its user is like, and no server knows of whom.
Users of batch b are weighed by ω, how many were summed before them. With a stake s = kω and centres c and c' that were
known before the batch, a user of the rule multiplies the wealth by 1 + s(y - c)/(1 - p), and one of the control share
by 1 - s(y - c')/p. Over the device's own draw that is 1 + s(Δ - (c - c')) in expectation, where Δ is what the rule is
worth to this user more than the single action. Of a batch only sums are known, so either factor is bounded by an
exponential, as in `croupier.comparisons.bets`. Then the logarithm is linear in three sums, Σz, Σz and the count of the
control share, and the noise of each costs its cumulant. The count need not be known: it is one of the sums.

docs/personalisation.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between
from croupier.comparisons import Stakes
from croupier.comparisons.bets import BOLDEST, RATIO
from croupier.comparisons.comparison import MEMORY, least
from croupier.linear.noise_sum import NoiseSum
from croupier.protocols.sums.moments import COUNTED

if TYPE_CHECKING:
    from croupier.linear.growing import GrowingPlan

Floats = NDArray[np.float64]

STEPS = np.arange(-13.0, 5.0)
"""Stakes, in steps from the boldest that suits the last batch. Earlier batches weigh less, and bear the bolder ones."""

USUAL, AWAY = -5.0, 1.5
"""The step that most is put on, where experiments of all sizes are decided; others have less by the square of how far
they are, a half when they are `AWAY`."""

PRIOR = 30.0
"""So many reports' worth of the mean of all is in what is expected of the rule, and of the single action."""


@dataclass(frozen=True)
class Gain:
    """What a user of the personalised rule earned more than one who was given the best single action.

    `measured`: by a control share drawn at random; then the interval holds at every look. Otherwise the single action's
    mean is the model's word, and the interval is for one look.
    """

    gain: float
    lower: float
    upper: float
    personal: float
    single: float
    action: int | None
    users: int
    measured: bool

    def __str__(self) -> str:
        how = "measured" if self.measured else "as the model says"
        return f"{self.gain:+.4f} a user ({self.lower:+.4f} to {self.upper:+.4f}, {how})"


@dataclass(frozen=True)
class Level:
    """The mean reward that is expected of some users: of those in earlier batches, the latest counting most."""

    rewards: float = 0.0
    users: float = 0.0

    def plus(self, rewards: float, users: float) -> Level:
        return Level(MEMORY * self.rewards + rewards, MEMORY * self.users + users)

    def expected(self, mean: float) -> float:
        """Near `mean` while little is known."""
        found = (self.rewards + PRIOR * mean) / (max(self.users, 0.0) + PRIOR)
        return min(max(found, 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class Measured:
    """The bets on the gain, and against it, after some batches."""

    won: Floats
    """As logarithms, if nothing is gained: a row for each side, the stakes on the last axis."""
    weight: float = 0.0
    """Σωn over all batches, with ω as a share of all planned users."""
    personal: float = 0.0
    single: float = 0.0
    """What users of the rule, and of the single action, are estimated to earn, summed with these weights."""
    own: Level = Level()
    control: Level = Level()
    everybody: Level = Level()
    users: int = 0
    """Summed so far."""
    first: int = 0
    """Of whom so many were in the first batch, which weighs nothing."""

    @classmethod
    def nothing(cls) -> Measured:
        return cls(np.zeros((2, len(STEPS))))

    def plus(self, plan: GrowingPlan, users: int, total: Floats, noise: NoiseSum, before: NoiseSum) -> Measured:
        """With one more batch: its sum, and all noise with it and without it."""
        moments = plan.moments
        pulled, _ = moments.moments(total)
        rewards = math.sqrt(2.0) * float(pulled[:, -1].sum())
        earned, count = moments.controls(total)
        control = earned + count / 2.0, count
        own = rewards + users / 2.0 - control[0], users - count
        known = replace(
            self,
            own=self.own.plus(*own),
            control=self.control.plus(*control),
            everybody=self.everybody.plus(rewards + users / 2.0, users),
            users=self.users + users,
        )
        if not self.users:
            # All of them played at random: they say only what rewards are like.
            return replace(known, own=Level(), control=Level(), first=users)
        share, weight = plan.control, self.users / plan.users
        mean = self.everybody.expected(0.5)
        ours, theirs = self.own.expected(mean), self.control.expected(mean)
        stakes = np.asarray(weight * _stakes(share).sizes, dtype=np.float64)
        won = np.stack(
            [
                self.won[side]
                + winnings(sign * stakes, share, (ours, theirs), (rewards, earned, count), users)
                - _charge(plan, sign * stakes, (ours, theirs), noise, before)
                for side, sign in enumerate((1.0, -1.0))
            ]
        )
        # A stake that has become too bold is given up, with what it has won.
        won[:, stakes > boldest(share)] = -np.inf
        return replace(
            known,
            won=won,
            weight=self.weight + weight * users,
            personal=self.personal + weight * ((own[0] - ours * own[1]) / (1.0 - share) + users * ours),
            single=self.single + weight * ((control[0] - theirs * control[1]) / share + users * theirs),
        )

    def gain(self, plan: GrowingPlan, noise: NoiseSum, action: int | None, failure: float) -> Gain:
        """The weighted average of what users gained, with an interval that misses it at any look so rarely."""
        side = float(between("failure", failure, 0, 1)) / 2.0 - noise.wrap_probability
        if side <= 0.0:
            raise InvalidParameter(
                "failure", failure, f"above {2.0 * noise.wrap_probability:.3g}: sums may wrap around"
            )
        weight, level = np.full(2, self.weight), np.full(2, -math.log(side))
        lower, negative = least(self.won, weight, _stakes(plan.control), level).tolist()
        personal, single = (min(max(one / self.weight, 0.0), 1.0) for one in (self.personal, self.single))
        gain = min(max(personal - single, lower), -negative)
        return Gain(gain, lower, -negative, personal, single, action, self.users - self.first, True)


def boldest(share: float) -> float:
    """The largest stake: no factor falls below a tenth."""
    return BOLDEST * min(share, 1.0 - share) * (1.0 + 1e-12)


@lru_cache
def _stakes(share: float) -> Stakes:
    shares = 1.0 / (1.0 + ((STEPS - USUAL) / AWAY) ** 2)
    return Stakes(BOLDEST * min(share, 1.0 - share) * RATIO**STEPS, shares / shares.sum())


def tilts(stakes: Floats, share: float, centres: tuple[float, float]) -> tuple[Floats, Floats, Floats, Floats]:
    """What bounds the logarithms of both factors: a slope in y and a level, of the rule's users and the control's."""
    bold = np.clip(stakes, -boldest(share), boldest(share))
    found: list[Floats] = []
    for stake, centre in ((bold / (1.0 - share), centres[0]), (-bold / share, centres[1])):
        level = np.log1p(-stake * centre)
        found += [np.log1p(stake * (1.0 - centre)) - level, level]
    return found[0], found[1], found[2], found[3]


def winnings(
    stakes: Floats, share: float, centres: tuple[float, float], sums: tuple[float, float, float], users: int
) -> Floats:
    """What a batch wins at least, but for its noise, as a logarithm, if nothing is gained; a negative stake is against.

    `sums` are Σz of all users, Σz of the control share, and how many these are, z = y - ½.
    """
    rewards, earned, count = sums
    slope, level, other_slope, other_level = tilts(stakes, share, centres)
    own = slope * (rewards - earned) + (users - count) * (slope / 2.0 + level)
    control = other_slope * earned + count * (other_slope / 2.0 + other_level)
    return np.asarray(own + control + users * stakes * (centres[0] - centres[1]))


def _charge(
    plan: GrowingPlan, stakes: Floats, centres: tuple[float, float], noise: NoiseSum, before: NoiseSum
) -> Floats:
    """What the noise of a batch's three sums costs: its cumulants at their coefficients. Infinite where they are."""
    slope, level, other_slope, other_level = tilts(stakes, plan.control, centres)
    moments = plan.moments

    def cost(coefficients: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            own = noise.cumulant(coefficients, 1.0, 1.0) - before.cumulant(coefficients, 1.0, 1.0)
        return np.where(np.isfinite(own), own, np.inf)

    counted = other_slope / 2.0 + other_level - slope / 2.0 - level
    return np.asarray(
        moments.places * cost(slope * math.sqrt(2.0) / moments.weight)
        + cost((other_slope - slope) / moments.control)
        + cost(counted / (COUNTED * moments.control))
    )
