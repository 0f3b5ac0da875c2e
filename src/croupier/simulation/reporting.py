"""Who reports, and when: worlds in which some who have a turn stay silent, and worlds in which reports come later."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from croupier.checks import InvalidParameter, between, integer
from croupier.simulation.worlds import Bernoulli, Floats, Integers, Numbers, World

LONGEST = 10**9
"""Turns that a report may come later, at most."""


class Around(World):
    """A world in which the same happens as in another one, but is reported otherwise."""

    def __init__(self, world: World) -> None:
        self.world, self.means, self.delay = world, world.means, world.delay
        self.changes = world.changes  # type: ignore[misc]

    @property
    def binary(self) -> bool:
        return self.world.binary

    @property
    def rates(self) -> Floats:
        return self.world.rates

    @property
    def reporters(self) -> World:
        return self.world.reporters

    def at(self, users: Integers, assigned: Integers) -> World:
        return self.world.at(users, assigned)

    def gaps(self, runs: int, users: int = 0) -> Floats:
        return self.world.gaps(runs, users)

    def regret(self, arm: int, start: Numbers, end: Numbers) -> Floats:
        return self.world.regret(arm, start, end)

    def reporting_chances(self, arms: Integers, outcomes: Floats) -> Floats:
        return self.world.reporting_chances(arms, outcomes)

    def outcomes(self, run: int, arms: Integers, times: Integers, generator: np.random.Generator) -> Floats:
        return self.world.outcomes(run, arms, times, generator)

    def rewards(self, run: int, arm: int, users: int, generator: np.random.Generator) -> Floats:
        return self.world.rewards(run, arm, users, generator)

    def encoded_sums(
        self, runs: Integers, arms: Integers, users: int | Integers, precision: int, generator: np.random.Generator
    ) -> Integers:
        return self.world.encoded_sums(runs, arms, users, precision, generator)


class Silent(Around):
    """A world in which some who have a turn never report: by arm, by outcome, or by both.

    Parameters
    ----------
    world : what happens to all who have a turn.
    reporting : the share who report: one number, or one an arm.
    zeros : the share of those who report among users whose outcome is zero, as a share of the others' (coins only).

    Examples
    --------
    >>> quiet = Silent(Bernoulli([0.5, 0.5]), reporting=[0.8, 0.6], zeros=0.5)
    >>> quiet.rates.round(2).tolist(), quiet.reporters.means.round(3).tolist()
    ([0.6, 0.45], [0.667, 0.667])
    """

    def __init__(self, world: World, reporting: float | Sequence[float], zeros: float = 1.0) -> None:
        super().__init__(world)
        self.zeros = float(between("zeros", zeros, 0, 1, "(]"))
        given = np.broadcast_to(np.asarray(reporting, dtype=float), (world.arms,))
        self.reporting = np.asarray([float(between("reporting", share, 0, 1, "(]")) for share in given.tolist()])
        if zeros != 1.0 and not world.binary:
            raise InvalidParameter("zeros", zeros, "1 where outcomes are not zero or one")

    @property
    def rates(self) -> Floats:
        return np.asarray(self.reporting * (self.means + self.zeros * (1.0 - self.means)))

    @property
    def reporters(self) -> World:
        if self.zeros == 1.0:
            return self.world
        return Bernoulli(self.means / (self.means + self.zeros * (1.0 - self.means)))

    def during(self, start: Numbers, end: Numbers) -> World:
        return Silent(self.world.during(start, end), self.reporting.tolist(), self.zeros)

    def reporting_chances(self, arms: Integers, outcomes: Floats) -> Floats:
        return np.asarray(self.reporting[arms] * np.where(outcomes == 0.0, self.zeros, 1.0))

    def __repr__(self) -> str:
        zeros = "" if self.zeros == 1.0 else f", zeros={self.zeros:g}"
        return f"Silent({self.world!r}, reporting={self.reporting.tolist()}{zeros})"


class Delayed(Around):
    """A world in which reports come later: each after a number of turns that is drawn evenly, whatever the arm.

    Time is the number of users who have come, so a delay of 5,000 is half a day where a day has 10,000 users. It is
    `report_at` of an experiment, in turns.

    Parameters
    ----------
    world : what happens to all who have a turn, and who of them reports.
    latest : after how many turns the last report comes; who has not reported by then is silent.
    soonest : after how many the first one does.

    Examples
    --------
    >>> Delayed(Silent(Bernoulli([0.5, 0.5]), 0.7), latest=500).delay
    (0, 500)
    """

    def __init__(self, world: World, latest: int, soonest: int = 0) -> None:
        super().__init__(world)
        last = integer("latest", latest, 0, LONGEST)
        self.delay = integer("soonest", soonest, 0, last), last

    def during(self, start: Numbers, end: Numbers) -> World:
        return self.world.during(start, end)

    def __repr__(self) -> str:
        soonest, latest = self.delay
        return f"Delayed({self.world!r}, latest={latest:,}{f', soonest={soonest:,}' if soonest else ''})"
