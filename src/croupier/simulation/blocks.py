"""A block in law: as many reports of each arm as chance gives them, and one draw for what a batch adds up to.

Where a batch may have any number of reports, a block closes with the report that makes it full, for all arms at once.
Where every batch must be full, an arm whose batch fills faster waits for the others, so all meet the same times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.policy import Bools, Integers
from croupier.noise import SeededSource
from croupier.protocols import SumMechanism
from croupier.simulation.player import Floats, Played, Player
from croupier.simulation.worlds import World

Numbers = NDArray[Any]


class InLaw(Player):
    """All runs at once, each block by its law."""

    def _prepare(self) -> None:
        self.done: Floats = np.zeros(self.policy.runs)
        """Turns of the epoch that are over."""
        self.out: Integers = np.zeros(self.policy.runs, dtype=np.int64)
        """Turns of the epoch before that are out."""

    def block(self) -> Played:
        policy, generator, start = self.policy, self.source.generator, self.now
        reports, released = self._wanted()
        odds = self.odds
        rates = np.broadcast_to(self.world.during(start, start[:, None] + 1.0).rates, odds.shape)
        settled = policy.settled[:, None]
        if policy.ladder.any_size:
            chances = shares(odds * rates)
            # Reports come of the arms that were dealt, whatever the policy would deal by now.
            whole = np.asarray(released.any(axis=1))
            dealt = generator.multinomial(np.where(whole, reports.sum(axis=1), 0), chances)
            reports = np.where(whole[:, None], dealt, reports)
            released = whole[:, None] & (reports > 0)
            missing = _silent(reports.sum(axis=1), (odds * rates).sum(axis=1), generator)
            silent = generator.multinomial(missing, shares(odds * (1.0 - rates)))
        else:
            silent = _silent(reports, rates, generator)
        turns = np.where(settled, reports, reports + silent)
        lasts = (reports + silent).sum(axis=1).astype(float)
        if self.latest:
            reports, released, odds, turns = self._late(reports, released, turns, lasts, rates)
        else:
            self.now = start + lasts
        if not policy.ladder.any_size:
            over = self.now + self.latest
            self._ask(over, np.where(released, turns - reports, 0), np.where(released, reports, 0))
        now, *others = self._met(start, np.maximum(self.now, start + 1.0), (self.world, *self.beside))
        sums = _sums(policy.ladder, now, reports, released, self.source)
        more = [
            _sums(ladder, other, reports, released, self.source)
            for ladder, other in zip(policy.watched.ladders, others, strict=True)
        ]
        beside = np.stack(more, axis=-1) if more else np.zeros((*sums.shape, 0))
        return Played(turns, reports, released, odds, sums, now, beside, self._hear())

    def _late(
        self, reports: Integers, released: Bools, turns: Integers, lasts: Floats, rates: Floats
    ) -> tuple[Integers, Bools, Floats, Integers]:
        """The same where reports come later: when it ends, and a late block instead where that ends earlier."""
        if not self.policy.ladder.any_size:
            self.now = self.now + self._after(lasts)
            return reports, released, self.odds, turns
        end = self.begun + self._after(self.done + lasts)
        # Who has ended waits for nobody.
        late = (self.until <= end) & released.any(axis=1)
        self.done = np.where(late, self.done, self.done + lasts)
        self.now = np.maximum(np.where(late, self.until, end), self.now)
        self.until = np.where(late, np.inf, self.until)
        if not late.any():
            return reports, released, self.odds, turns
        # Each turn that was out when odds changed is reported or not, as any.
        generator, old = self.source.generator, late[:, None]
        dealt = generator.multinomial(np.where(late, self.out, 0), shares(self.before))
        came = generator.binomial(dealt, rates)
        odds = np.where(old, self.before, self.odds)
        return np.where(old, came, reports), np.where(old, came > 0, released), odds, np.where(old, dealt, turns)

    def _change(self, runs: Bools) -> None:
        """What is out of the epoch that ends is reported late."""
        out = np.maximum(np.rint(self.now - self.begun - self.done), 0).astype(np.int64)
        self.out, self.done = np.where(runs, out, self.out), np.where(runs, 0.0, self.done)

    def _after(self, turns: Floats) -> Floats:
        """How long it takes from an epoch's begin until so many of its turns are over, on average.

        After x turns the reports of x - d have come, for every delay d from the soonest to the latest alike.
        """
        width = self.latest - self.soonest
        ramp = self.soonest + np.sqrt(2.0 * width * turns)
        return np.asarray(np.where(turns < width / 2.0, ramp, turns + (self.soonest + self.latest) / 2.0))


def _sums(ladder: Ladder, world: World, reports: Integers, released: Bools, source: SeededSource) -> Floats:
    """What the released batches add up to, with their noise."""
    sums = np.zeros(reports.shape)
    runs, arms = np.nonzero(released)
    for mechanism, same in _mechanisms(ladder, reports[runs, arms]):
        places = runs[same], arms[same]
        counts = reports[places]
        if mechanism is None:
            sums[places] = world.reporters.sums(*places, counts, source.generator)
        else:
            encoded = world.reporters.encoded_sums(*places, counts, mechanism.precision, source.generator)
            sums[places] = mechanism.unit_sums(mechanism.noisy(encoded, source))
    return sums


def _mechanisms(ladder: Ladder, sizes: Integers) -> list[tuple[SumMechanism | None, Integers]]:
    """The mechanism of every batch, each with the batches that it is for."""
    noises = ladder.noise_sizes(sizes)
    return [(ladder.mechanism(size), np.flatnonzero(noises == size)) for size in np.unique(noises).tolist()]


def _silent(reports: Numbers, rates: Floats, generator: np.random.Generator) -> Integers:
    """How many are silent before so many have reported."""
    some = (reports > 0) & (rates < 1.0)
    drawn = generator.negative_binomial(np.where(some, reports, 1), np.where(some, rates, 0.5))
    return np.where(some, drawn, 0)


def shares(weights: Floats) -> Floats:
    """Numbers that add up to one in every row; where all are zero, the first has all."""
    total = weights.sum(axis=1, keepdims=True)
    first = np.zeros_like(weights)
    first[:, 0] = 1.0
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), first)
