"""Who is silent: an always-valid check that the arms report alike, given the turns that were dealt.

Users are dealt to arms at random by odds. If the arm has no part in who reports, then among those who report the arms
come in the same odds, whenever they come and however many. Wealth that is multiplied by 1 + s·q_j with every report of
arm i and by 1 - s·q_i with every one of arm j, q the odds between the two, then grows on average not at all.

Where batches must be full their reports are as many as was asked for, and what tells is who is silent. Of f silent
turns before n_i and n_j reports, those of arm i are binomial with a chance that follows the Beta law of n_i and n_j,
whatever the reporting rate is. The same bet on silent turns, less (f·s)²/8(n_i + n_j + 1), has an expectation of at
most one: a Beta law is sub-Gaussian with variance factor 1/4(n_i + n_j + 1) ([MA17]).

Averages over stakes of both signs and over pairs exceed 1/α with probability α at most, at all looks together.
"""

from __future__ import annotations

import numpy as np

from croupier.comparisons.comparison import Bools, Integers, log_mean
from croupier.comparisons.tails import Floats

ALARM = 0.01
"""How likely a false alarm is, in a whole experiment."""
STAKES: Floats = np.concatenate((-np.geomspace(0.9, 0.01, 8), np.geomspace(0.01, 0.9, 8)))
"""From differences that a hundred turns show to those that a hundred thousand do."""


class Silence:
    """The evidence that arms do not report alike.

    Parameters
    ----------
    arms, runs : how many.

    Examples
    --------
    >>> silence = Silence(2, 1)
    >>> silence.hear_reports(np.array([[80, 60]]), np.array([[0.5, 0.5]]))
    >>> silence.alarm.tolist()
    [False]
    >>> silence.hear_reports(np.array([[800, 600]]), np.array([[0.5, 0.5]]))
    >>> silence.alarm.tolist()
    [True]
    """

    def __init__(self, arms: int, runs: int) -> None:
        self.arms, self.runs = arms, runs
        self.won: Floats = np.zeros((runs, arms, arms, len(STAKES)))
        self.alarm: Bools = np.zeros(runs, dtype=bool)

    def hear_reports(self, reports: Integers, odds: Floats) -> None:
        """So many more reports of each arm, in blocks that were dealt by these odds."""
        self._bet(reports.astype(float), odds, np.zeros_like(odds))

    def hear_silent(self, silent: Integers, reports: Integers) -> None:
        """So many turns more of each arm without a report, before so many reports that were asked for."""
        self._bet(silent.astype(float), reports.astype(float), reports.astype(float))

    def _bet(self, seen: Floats, odds: Floats, asked: Floats) -> None:
        heard = np.flatnonzero(seen.any(axis=1))
        if not len(heard):
            return
        seen, odds, asked = seen[heard], odds[heard], asked[heard]
        for i in range(self.arms):
            for j in range(i):
                rows = np.flatnonzero((odds[:, i] > 0) & (odds[:, j] > 0))
                ours, theirs = odds[rows, i], odds[rows, j]
                share = (theirs / (ours + theirs))[:, None]
                won = seen[rows, i, None] * np.log1p(STAKES * share)
                won = won + seen[rows, j, None] * np.log1p(STAKES * (share - 1.0))
                if np.any(asked):
                    total = (seen[rows, i] + seen[rows, j])[:, None]
                    won = won - (total * STAKES) ** 2 / (8.0 * (asked[rows, i] + asked[rows, j] + 1))[:, None]
                self.won[heard[rows], i, j] += won
        self.alarm[heard] |= self._evidence(heard) >= np.log(1.0 / ALARM)

    @property
    def evidence(self) -> Floats:
        """The logarithm of the evidence that some pair of arms does not report alike."""
        return self._evidence(np.arange(self.runs))

    def _evidence(self, runs: Integers) -> Floats:
        i, j = np.tril_indices(self.arms, -1)
        pairs = self.won[runs[:, None], i, j].reshape(len(runs), -1)
        return log_mean(pairs, np.full(pairs.shape[1], -np.log(pairs.shape[1])))

    def add_arm(self) -> None:
        """A fresh arm, of which nothing is known."""
        self.won = np.pad(self.won, ((0, 0), (0, 1), (0, 1), (0, 0)))
        self.arms += 1


def tipping_point(lower: float, reported: float) -> float | None:
    """How much worse the silent must be, with the better arm, for a difference of `lower` among the others to be none.

    Of all who had a turn the share `reported` did report: the silent's difference d makes up for it when
    reported·lower + (1 - reported)·d = 0.

    >>> round(tipping_point(0.012, 0.7), 3)
    0.028
    """
    if lower <= 0 or not 0 < reported < 1:
        return None
    return lower * reported / (1.0 - reported)
