"""What playing a block has in common, in law or user by user: a clock, odds that last for an epoch, who is silent.

Time is the number of users who have come. Where a batch may have any number of reports everybody is dealt a turn, and a
report counts in the next block of its epoch, whenever it comes: when odds change, those of turns that were dealt before
make a late block, and odds do not change again until it ends. Where every batch must be full, who is silent is told
with the first block that closes when all turns of theirs are over. docs/blocks.md has the rules of the service.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.bandits.concurrent import Concurrent
from croupier.bandits.policy import Bools, Integers
from croupier.noise import SeededSource
from croupier.simulation.worlds import World

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Played:
    """A block of every run: turns that are over, reports of each arm, which batches are released, and their sums."""

    turns: Integers
    reports: Integers
    released: Bools
    odds: Floats
    """By which its turns were dealt."""
    sums: Floats
    world: World
    """As the block met it."""
    beside: Floats
    """What the other metrics add up to, on the last axis."""
    heard: list[tuple[Integers, Integers]] = field(default_factory=list)
    """Silent turns and reports of blocks whose turns are over by now, where batches must be full."""

    def tell(self, policy: Concurrent) -> None:
        """Tell the policy of it, as a service does."""
        policy.observe_turns(policy.turns + self.turns)
        for silent, reports in self.heard:
            policy.hear_silent(silent, reports)
        policy.observe(self.sums, self.reports, self.released, self.odds, beside=self.beside)


class Player(ABC):
    """Plays a policy in a world, block after block of all its runs.

    Parameters
    ----------
    policy, world : who plays, and where.
    limit : reports after which a run ends.
    source : all the chance there is.
    beside : where the other metrics come from, a world each.
    """

    def __init__(
        self, policy: Concurrent, world: World, limit: int, source: SeededSource, beside: Sequence[World] = ()
    ) -> None:
        self.policy, self.world, self.limit, self.source, self.beside = policy, world, limit, source, tuple(beside)
        self.soonest, self.latest = world.delay
        self.now: Floats = policy.turns.sum(axis=1).astype(float)
        self.odds: Floats = policy.odds()
        self.begun: Floats = self.now.copy()
        """When the epoch began whose odds these are."""
        self.before: Floats = self.odds
        """The odds of the epoch before."""
        self.until: Floats = np.full(policy.runs, np.inf)
        """When the late block of the epoch before ends; never where there is none."""
        self._unheard: list[tuple[Floats, Integers, Integers]] = []
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Nobody has come yet."""

    @abstractmethod
    def block(self) -> Played:
        """The next block of every run."""

    def _wanted(self) -> tuple[Integers, Bools]:
        """How many reports of each arm the next blocks want, and which are whole; odds change where they may."""
        policy = self.policy
        assigned, released = policy.assign(policy.wanted(), self.limit)
        odds = policy.odds()
        anew = (odds != self.odds).any(axis=1) & np.isinf(self.until)
        if self.latest and policy.ladder.any_size and anew.any():
            self.before = np.where(anew[:, None], self.odds, self.before)
            self.until = np.where(anew, self.now + self.latest, self.until)
            self._change(anew)
        self.begun = np.where(anew, self.now, self.begun)
        self.odds = np.where(anew[:, None], odds, self.odds)
        return assigned, released

    @abstractmethod
    def _change(self, runs: Bools) -> None:
        """The odds of these runs change now, while turns are out."""

    def _ask(self, over: Floats, silent: Integers, reports: Integers) -> None:
        """These turns stayed silent, which is known from then on."""
        self._unheard.append((over, silent, reports))

    def _hear(self) -> list[tuple[Integers, Integers]]:
        """What is known by now of who was silent, a block each; none is told twice."""
        told, waiting = [], []
        for over, silent, reports in self._unheard:
            known = (over <= self.now)[:, None]
            if known.any():
                told.append((np.where(known, silent, 0), np.where(known, reports, 0)))
            if (waits := ~known & (reports > 0)).any():
                waiting.append((over, np.where(waits, silent, 0), np.where(waits, reports, 0)))
        self._unheard = waiting
        return told

    def _met(self, start: Floats, end: Floats, worlds: Sequence[World]) -> list[World]:
        """These worlds as the users met them whose reports came between two times."""
        # Turns are earlier than their reports by the mean delay, but none is before its epoch.
        earlier = (self.soonest + self.latest) / 2.0
        first = np.maximum(start - earlier, np.minimum(self.begun, start))
        last = np.maximum(end - earlier, (first + end) / 2.0) if self.latest else end
        return [world.during(first, first[:, None] + np.maximum(last - first, 1.0)[:, None]) for world in worlds]
