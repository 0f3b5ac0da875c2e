"""What a linear experiment has learnt: its rule, the coefficients, who chooses what, and what personalisation gains.

Everything here is computed from released sums, so nothing of it costs any privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between
from croupier.frames import Rows
from croupier.linear.gains import Gain, Measured
from croupier.linear.noise_sum import NoiseSum
from croupier.linear.sets import Sets
from croupier.personal import LEVEL, Belief, Context, Rule

if TYPE_CHECKING:
    from croupier.linear.growing import GrowingPlan

Floats = NDArray[np.float64]

VIEWS = 2
"""Of so many directions, those of which least is known, an earlier set is published beside the newest."""

WORTH = 1.5
"""How much narrower it must be."""

MOST_STEPS = 100
"""How many of the last batches' sets are looked at for bounds of another failure probability."""


@dataclass(frozen=True)
class Batch:
    """One batch that was released: its users, the sum of their vectors, and all noise that is in the sums since."""

    users: int
    sum: Floats
    noise: NoiseSum


@dataclass(frozen=True, eq=False)
class Findings:
    """The released batches of a plan, and what was known of every parameter after each of them."""

    plan: GrowingPlan
    batches: tuple[Batch, ...] = ()
    known: tuple[tuple[Belief, ...], ...] = ()
    measured: Measured | None = None
    """The bets on the gain, where a control share measures it."""
    total: Floats = field(default_factory=lambda: np.zeros(()))
    """The sum of all batches."""

    def plus(self, users: int, total: Floats, noise: NoiseSum) -> Findings:
        """With one more batch; `noise` is that of all batches."""
        batches, every = (*self.batches, Batch(users, total, noise)), self.total + total
        measured = None
        if self.plan.control:
            measured = (self.measured or Measured.nothing()).plus(self.plan, users, total, noise, self.noise)
        known = (*self.known, self._beliefs(every, noise, self.plan.sets))
        return Findings(self.plan, batches, known, measured, every)

    @property
    def users(self) -> int:
        return sum(batch.users for batch in self.batches)

    @property
    def noise(self) -> NoiseSum:
        """All that is in the sums."""
        return self.batches[-1].noise if self.batches else NoiseSum()

    @cached_property
    def rule(self) -> Rule:
        """What users choose by; `blank` before anything was released."""
        plan = self.plan
        if not self.batches:
            nothing = plan.sets.nothing(plan.dimension)
            return Rule(((nothing,),) * plan.moments.places, plan.exploration, blank=True, control=plan.control)
        single = self.single
        control = plan.control if single is not None else 0.0
        # Where estimates are taken to be less far off than is proven, earlier sets need not hold.
        known = self.known if plan.exploration >= 1.0 else self.known[-1:]
        beliefs = tuple(telling([own[place] for own in known]) for place in range(plan.moments.places))
        return Rule(beliefs, plan.exploration, plan.optimists, control=control, single=single)

    def _beliefs(self, total: Floats, noise: NoiseSum, sets: Sets) -> tuple[Belief, ...]:
        """What is known of every parameter when the batches with this total and noise are in."""
        bounds = self.plan.noise_bounds(noise, sets)
        pulled, matrices = self.plan.moments.moments(total)
        return tuple(sets.belief(own, matrix, bounds) for own, matrix in zip(pulled, matrices, strict=True))

    def beliefs(self, failure: float) -> tuple[tuple[Belief, ...], ...]:
        """The same with sets of this failure probability: for every parameter what was known after each batch."""
        sets = replace(self.plan.sets, failure=float(between("failure", failure, 0, 1)))
        totals = np.cumsum([batch.sum for batch in self.batches], axis=0)
        steps = range(max(0, len(self.batches) - MOST_STEPS), len(self.batches))
        found = [self._beliefs(totals[step], self.batches[step].noise, sets) for step in steps]
        return tuple(zip(*found, strict=True))

    @cached_property
    def single(self) -> int | None:
        """The action that is best for everybody, as the model says; the one that the plan names where it names one."""
        plan = self.plan
        if plan.single is not None or plan.moments.places == 1 or not plan.moments.centred:
            return plan.single
        return int(np.argmax([np.asarray(belief.theta) @ self._mean_context for belief in self.known[-1]]))

    @cached_property
    def _unit(self) -> Floats:
        """u with ⟨u, x⟩ = 1."""
        if not self.plan.moments.centred:
            raise InvalidParameter("centred", False, "true: without a constant among the features nobody is counted")
        unit = np.zeros(self.plan.dimension)
        unit[-1] = math.sqrt(2.0)
        return unit

    @cached_property
    def _mean_context(self) -> Floats:
        """The mean feature vector of everybody who was summed."""
        _, matrices = self.plan.moments.moments(self.total)
        mean = matrices.sum(axis=0) @ self._unit / self.users
        return np.append(mean[:-1], math.sqrt(0.5))

    def coefficients(self, failure: float = 0.05, context: Context | None = None) -> Rows:
        """Every parameter's coefficients, with bounds that hold all at once, at all times, if the model is linear.

        With a context they are in the features' own units: the change of the mean for one more of each, and last the
        mean in the middle of all ranges.
        """
        d = self.plan.dimension
        names = (*context.names, LEVEL) if context is not None else tuple(f"x{i + 1}" for i in range(d))
        if len(names) != d:
            raise InvalidParameter("context", len(names) - 1, f"of {d - 1} features")
        scales = np.ones(d) if context is None else context.unit_effects(np.ones(d))
        centre = np.zeros(d)
        if context is not None and self.plan.moments.centred:
            centre[-1] = 0.5
        rows = Rows()
        for action, known in enumerate(self.beliefs(failure)):
            found = [np.asarray(belief.theta) * scales + centre for belief in known]
            widths = [belief.reach(np.eye(d)) * np.abs(scales) for belief in known]
            # All sets hold at once, so the narrowest side of any counts.
            lower = np.max([value - width for value, width in zip(found, widths, strict=True)], axis=0)
            upper = np.min([value + width for value, width in zip(found, widths, strict=True)], axis=0)
            for name, *numbers in zip(names, found[-1].tolist(), lower.tolist(), upper.tolist(), strict=True):
                place = {"action": action} if self.plan.moments.places > 1 else {}
                rows.append(
                    place | {"coefficient": name} | dict(zip(("value", "lower", "upper"), numbers, strict=True))
                )
        return rows

    def choices(self, context: Context | None = None, failure: float = 0.05) -> Rows:
        """How many played each action, and the mean features of those who did; the bounds are for the noise.

        Everybody played one, and how many they are is public. So noisy counts are moved to where they add up to it:
        by least squares, which takes 1/K off the variance, and to shares that are not negative.
        Where actions share one parameter there is one row: the mean features of what was played.
        """
        places = self.plan.moments.places
        spread = NormalDist().inv_cdf(1.0 - float(between("failure", failure, 0, 1)) / 2.0)
        error = spread * 2.0 * math.sqrt(self.noise.variance * (1.0 - 1.0 / places)) / self.users
        _, matrices = self.plan.moments.moments(self.total)
        totals = matrices @ self._unit
        counted = totals @ self._unit / self.users
        centres = counted + (1.0 - counted.sum()) / places
        shares = _nearest_shares(centres)
        rows = Rows()
        for action, (centre, share, sums) in enumerate(zip(centres.tolist(), shares.tolist(), totals, strict=True)):
            row: dict[str, object] = {"action": action} if places > 1 else {}
            # The nearest shares may lie outside where noise is large: then the interval reaches to them.
            row |= {"share": share, "lower": min(max(0.0, centre - error), share)}
            row |= {"upper": max(min(1.0, centre + error), share)}
            means = sums[:-1] / max(share * self.users, 1.0)
            for name, value in zip(_names(context, len(means)), _own_units(context, means), strict=True):
                row[f"mean_{name}"] = value
            rows.append(row)
        return rows

    def gain(self, failure: float = 0.05) -> Gain:
        """What the personalised rule gains over the best single action, later users counting more.

        With a control share the interval holds at every look (see `Measured`). Without one only the personalised mean
        is measured, in the later half of the users at least.
        """
        if len(self.batches) < 2:
            raise InvalidParameter("batches", len(self.batches), "at least two: the first one plays at random")
        if self.measured is not None:
            return self.measured.gain(self.plan, self.noise, self.single, failure)
        return self._as_modelled(float(between("failure", failure, 0, 1)))

    def _as_modelled(self, failure: float) -> Gain:
        """Without a control share; the interval is that of a normal law, and of the model's own set."""
        single = self.single
        if single is None:
            raise InvalidParameter(
                "control", 0.0, "above 0: where actions share a parameter no model says what one earns"
            )
        late, moments = self._late(), self.plan.moments
        users, total = sum(batch.users for batch in late), np.sum([batch.sum for batch in late], axis=0)
        personal = float((moments.moments(total)[0] @ self._unit).sum()) / users + 0.5
        noise = len(late) * self.noise.variance / self.noise.batches
        error = math.sqrt(noise * 2.0 * moments.places) / moments.weight / users
        belief = self.beliefs(failure)[single][-1]
        mean = float(np.asarray(belief.theta) @ self._mean_context) + 0.5
        width = float(belief.reach(self._mean_context)) + NormalDist().inv_cdf(1.0 - failure / 2.0) * (
            error + 0.5 / math.sqrt(users)
        )
        gain = personal - mean
        return Gain(gain, gain - width, gain + width, personal, mean, single, users, False)

    def _late(self) -> Sequence[Batch]:
        """The fewest last batches that have half of the users, never the first."""
        late: list[Batch] = []
        for batch in reversed(self.batches[1:]):
            late.append(batch)
            if 2 * sum(batch.users for batch in late) >= self.users:
                break
        return late


def telling(known: Sequence[Belief]) -> tuple[Belief, ...]:
    """The newest belief, and those earlier ones that know most of the directions of which it knows least.

    Noise adds up with every batch. Where nobody plays a direction any more, an earlier set is the narrower one.
    """
    newest = known[-1]
    kept = [newest]
    for axis in np.asarray(newest.axes).T[:VIEWS]:
        best = min(reversed(known), key=lambda belief: float(belief.reach(axis)))
        if best not in kept and WORTH * best.reach(axis) < newest.reach(axis):
            kept.append(best)
    return tuple(kept)


def _nearest_shares(given: Floats) -> Floats:
    """The nearest numbers that are not negative and add up to one.

    >>> _nearest_shares(np.array([0.7, 0.4, -0.1])).round(3).tolist()
    [0.65, 0.35, 0.0]
    """
    falling = np.sort(given)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(given) + 1)
    shared = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray(np.maximum(given - shared, 0.0))


def _names(context: Context | None, count: int) -> tuple[str, ...]:
    return context.names if context is not None else tuple(f"x{i + 1}" for i in range(count))


def _own_units(context: Context | None, means: Floats) -> list[float]:
    """Mean entries of vectors as mean features."""
    return list(map(float, means if context is None else context.values(means)))
