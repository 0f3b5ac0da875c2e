"""The evidence about differences between arms, told block after block; for many runs at once.

In a block in which arms i and j both ran, with n_i and n_j reports, let w = min(n_i, n_j). For every stake k the bet
"i is better than j" stakes kw/n_i on each outcome of i and -kw/n_j on each of j, so that only their difference counts:
what the block wins, times exp(-kw·(difference of the mean outcomes)), has an expectation of at most one, however the
outcomes drift. Products over blocks, averaged over stakes, are a supermartingale. It exceeds 1/α at any time with a
probability of at most α (Ville), so the differences at which it is smaller are an interval for the average difference,
each block counted by its smaller batch. docs/decisions.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from croupier.comparisons.bets import Numbers, Stakes, winnings
from croupier.comparisons.tails import Cumulants, Floats

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Leg = tuple[Integers, float]
"""Arms, and by what the stakes on their outcomes are multiplied."""

MEMORY = 0.8
"""What a block counts in an arm's level when the next one has come: levels are followed, not averaged."""
PRIOR = 8.0
"""So many reports' worth of all arms' level is in an arm's own."""
CLOSE_BY = 2048
"""So many bets are computed at a time."""
MANY = 100.0
"""Who would need more times as many reports is told no number."""
GUESSES = (0.5, 0.15, 0.04, 0.01, 0.85, 0.96, 0.99)
"""What is thought of as a level in a first block, all at once, where none was expected."""


@dataclass(frozen=True, eq=False)
class Block:
    """One block of every run that had one: reports, sums, what was expected of each arm before, and whose noise."""

    runs: Integers
    counts: Integers
    sums: Floats
    centres: Floats
    noise: Integers

    def wider(self) -> Block:
        """The same with one more arm, which did not run."""
        tables = {name: np.pad(getattr(self, name), ((0, 0), (0, 1))) for name in ("counts", "sums", "centres")}
        return replace(self, **tables, noise=np.pad(self.noise, ((0, 0), (0, 1)), constant_values=-1))


class Comparison:
    """Arms compared in pairs, in blocks where both ran.

    Parameters
    ----------
    arms, runs : how many.
    stakes : what is bet.
    noise_of : what is known of the noise in a batch of so many users.
    rate : the mean that outcomes are expected to have before anything is known; None: it may be anything.
    reserve : how likely it may be that some sum has wrapped around. Beyond that no interval is known any more.

    Examples
    --------
    >>> from croupier.comparisons.bets import stakes
    >>> from croupier.comparisons.tails import NO_NOISE
    >>> comparison = Comparison(2, 1, stakes(NO_NOISE, 100), lambda users: NO_NOISE)
    >>> for _ in range(9):
    ...     comparison.tell(np.array([[50.0, 65.0]]), np.array([[100, 100]]), np.ones((1, 2), dtype=bool))
    >>> round(float(comparison.differences[0, 1, 0]), 3), round(float(comparison.lower(np.log(20.0))[0, 1, 0]), 3)
    (0.15, 0.081)
    """

    def __init__(
        self,
        arms: int,
        runs: int,
        stakes: Stakes,
        noise_of: Callable[[int], Cumulants],
        rate: float | None = None,
        reserve: float = math.inf,
    ) -> None:
        self.arms, self.runs, self.stakes, self.rate, self.reserve = arms, runs, stakes, rate, reserve
        self._noise_of = noise_of
        self._noises: dict[int, int] = {}
        self._rows: list[Cumulants] = []
        self.won: Floats = np.zeros((runs, arms, arms, len(stakes)))
        """What the bets that arm i is better than arm j have won, as logarithms, if the two are the same."""
        self._evidence: Floats = np.full((runs, arms, arms), log_mean(np.zeros(len(stakes)), stakes.log_shares))
        """What they have won together: it is asked for after every block, and few pairs change with one."""
        self.weight: Floats = np.zeros((runs, arms, arms))
        """For each pair, the reports of the smaller batches of blocks where both ran."""
        self.gap: Floats = np.zeros((runs, arms, arms))
        """Differences of mean outcomes, summed with these weights."""
        self.wrapped: Floats = np.zeros(runs)
        """How likely some sum has wrapped around, at most."""
        self.blocks: list[Block] = []
        self._level: Floats = np.zeros((runs, arms))
        self._heard: Floats = np.zeros((runs, arms))
        # What bets on single arms have won, up to the block when somebody last asked.
        self._alone: Floats = np.zeros((2, runs, arms, len(stakes)))
        self._users: Floats = np.zeros((runs, arms))
        self._alone_told = 0

    def tell(self, sums: Floats, counts: Numbers, released: Bools) -> None:
        """One more block: the sums of its batches in units of a reward, and how many reports each has."""
        runs = np.flatnonzero(released.any(axis=1))
        if not len(runs):
            return
        counts = np.where(released, counts, 0)[runs]
        block = Block(runs, counts, np.where(released, sums, 0.0)[runs], self.centres[runs], self._numbered(counts))
        self.blocks.append(block)
        self._bet(block)
        self._follow(block)

    @property
    def centres(self) -> Floats:
        """What earlier blocks let expect of each arm's mean outcome: not a number where nothing is known."""
        level, heard = self._level.sum(axis=1), self._heard.sum(axis=1)
        if self.rate is not None:
            level, heard = level + PRIOR * self.rate, heard + PRIOR
        with np.errstate(invalid="ignore"):
            own = (self._level + PRIOR * (level / heard)[:, None]) / (self._heard + PRIOR)
        return np.asarray(np.clip(own, 0.0, 1.0))

    @property
    def trusted(self) -> Bools:
        """In which runs it is unlikely enough that a sum has wrapped around."""
        return np.asarray(self.wrapped <= self.reserve)

    @property
    def differences(self) -> Floats:
        """The estimated average difference of every pair; not a number where the two never ran together."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.gap / self.weight)

    def evidence(self, margin: float = 0.0) -> Floats:
        """The logarithm of the evidence that arm i is better than arm j by more than `margin`, for every pair."""
        if not margin:
            return self._evidence.copy()
        return log_mean(self.won - self.stakes.sizes * (margin * self.weight)[..., None], self.stakes.log_shares)

    def lower(self, level: Floats | float) -> Floats:
        """For every pair, above what the average difference lies, unless evidence of e^level came by chance."""
        found = least(self.won, self.weight, self.stakes, np.broadcast_to(level, self.weight.shape))
        return np.where(self.trusted[:, None, None], found, -1.0)

    def reports_needed(self, run: int, better: int, worse: int, level: float, margin: float = 0.0) -> float:
        """About how many more reports of the smaller batches show that one arm is better than another by `margin`.

        That is with evidence of e^level, and if all goes on as it went so far; infinite where it takes more than `MANY`
        times as many.
        """
        weight, shares = float(self.weight[run, better, worse]), self.stakes.log_shares
        won = self.won[run, better, worse] - self.stakes.sizes * margin * weight
        if not weight or log_mean(MANY * won, shares) < level:
            return math.inf
        low, high = (0.0, 1.0) if log_mean(won, shares) >= level else (1.0, MANY)
        while high - low > 1e-3 * high and high > 1.0:
            middle = (low + high) / 2.0
            low, high = (low, middle) if log_mean(middle * won, shares) >= level else (middle, high)
        return (high - 1.0) * weight

    def intervals(self, level: Floats | float) -> tuple[Floats, Floats]:
        """Lower and upper bounds on every pair's average difference; each side fails with e^-level at most."""
        lower = self.lower(level)
        return lower, -np.swapaxes(lower, 1, 2)

    def mean_intervals(self, level: float) -> tuple[Floats, Floats]:
        """Bounds on every arm's mean outcome over all its reports so far; each side fails with e^-level at most."""
        for block in self.blocks[self._alone_told :]:
            rows, arms = np.nonzero(block.counts > 0)
            place, counts = (block.runs[rows], arms), block.counts[rows, arms]
            for side, factor in enumerate((1.0, -1.0)):
                self._alone[side][place] += self.wins(block, rows, counts, (arms, factor))
            self._users[place] += counts
        self._alone_told = len(self.blocks)
        known = self.trusted[:, None]
        bounds = (least(won, self._users, self.stakes, np.asarray(level)) for won in self._alone)
        lower, negative = (np.where(known, bound, -1.0) for bound in bounds)
        return np.maximum(lower, 0.0), np.minimum(-negative, 1.0)

    def history(self, run: int) -> Block:
        """All blocks of one run, a row each."""
        own = [(block, int(row)) for block in self.blocks for row in np.flatnonzero(block.runs == run)]
        tables = {
            name: np.stack([getattr(block, name)[row] for block, row in own])
            for name in ("counts", "sums", "centres", "noise")
        }
        return Block(runs=np.full(len(own), run), **tables)

    def add_arm(self) -> None:
        """A fresh arm: it is compared in the blocks that are to come."""
        self.won = np.pad(self.won, ((0, 0), (0, 1), (0, 1), (0, 0)))
        self._evidence = log_mean(self.won, self.stakes.log_shares)
        self.weight, self.gap = (np.pad(table, ((0, 0), (0, 1), (0, 1))) for table in (self.weight, self.gap))
        for name in ("_level", "_heard", "_users"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, 1))))
        self._alone = np.pad(self._alone, ((0, 0), (0, 0), (0, 1), (0, 0)))
        self.blocks = [block.wider() for block in self.blocks]
        self.arms += 1

    def wins(
        self, block: Block, rows: Integers, weight: Numbers, *legs: Leg, whole: dict[float, Floats] | None = None
    ) -> Floats:
        """What bets win in these rows of a block, stakes on the last axis; each has a leg on one arm or on several.

        Where no level is known it is the average over guesses of it. `whole` has the legs whose weight is that of the
        batch, where they were found before.
        """
        won = np.asarray(sum(self._leg(block, rows, weight, *leg, whole) for leg in legs))
        fresh = np.isnan(won[:, 0])
        if not fresh.any():
            return won
        legs = tuple((arms[fresh], factor) for arms, factor in legs)
        guessed = [
            sum(self._leg(at, rows[fresh], weight[fresh], *leg) for leg in legs)
            for at in (replace(block, centres=np.full(block.sums.shape, guess)) for guess in GUESSES)
        ]
        won[fresh] = log_mean(np.stack(guessed, axis=-1), np.full(len(GUESSES), -np.log(len(GUESSES))))
        return won

    def _leg(
        self,
        block: Block,
        rows: Integers,
        weight: Numbers,
        arms: Integers,
        factor: float,
        whole: dict[float, Floats] | None = None,
    ) -> Floats:
        """What stakes on single batches win; `whole` has it, by factor, where no batch is larger than its weight."""
        counts = block.counts[rows, arms]
        scale = factor * (weight / counts)
        if whole is None:
            return self._won(block, rows, arms, scale)
        won = whole[factor].take(rows * self.arms + arms, axis=1)
        (larger,) = np.nonzero(weight != counts)
        won[:, larger] = self._won(block, rows[larger], arms[larger], scale[larger]).T
        return np.asarray(won.T)

    def _won(self, block: Block, rows: Integers, arms: Integers, scale: Floats) -> Floats:
        """What stakes times these numbers win, each on a batch of its own."""
        place = (rows, arms)
        centres, counts, sums, noise = block.centres[place], block.counts[place], block.sums[place], block.noise[place]
        # All bets of one stake lie side by side in memory: then they are computed in one go.
        bets = (self.stakes.sizes[:, None] * scale).T
        if len(rows) and (noise == noise[0]).all():
            return winnings(bets, centres, counts, sums, self._rows[noise[0]])
        won = np.empty(bets.shape)
        for number in np.unique(noise).tolist():
            same = noise == number
            won[same] = winnings(bets[same], centres[same], counts[same], sums[same], self._rows[number])
        return won

    def _bet(self, block: Block) -> None:
        """All pairs that ran together in a run, as one long list."""
        ran, bets = block.counts > 0, len(self.stakes)
        rows, better, worse = np.nonzero(ran[:, :, None] & ran[:, None, :] & ~np.eye(self.arms, dtype=bool))
        weight = np.minimum(block.counts[rows, better], block.counts[rows, worse])
        means = block.sums / np.maximum(block.counts, 1)
        place = block.runs[rows], better, worse
        self.weight[place] += weight
        self.gap[place] += weight * (means[rows, better] - means[rows, worse])
        # In every pair the smaller batch has the weight of all its reports: its leg is the same in all of them.
        batch, arm = np.nonzero(ran)
        whole: dict[float, Floats] = {factor: np.zeros((bets, ran.size)) for factor in (1.0, -1.0)}
        for factor, table in whole.items():
            table[:, batch * self.arms + arm] = self._won(block, batch, arm, np.full(len(batch), factor)).T
        flat = (place[0] * self.arms + better) * self.arms + worse
        before, evidence = self.won.reshape(-1, bets), self._evidence.reshape(-1)
        # A few at a time, so that what is computed of them stays near the processor.
        for part in (slice(at, at + CLOSE_BY) for at in range(0, len(rows), CLOSE_BY)):
            legs = (better[part], 1.0), (worse[part], -1.0)
            won = self.wins(block, rows[part], weight[part], *legs, whole=whole)
            won += before.take(flat[part], axis=0)
            before[flat[part]], evidence[flat[part]] = won, log_mean(won, self.stakes.log_shares)

    def _follow(self, block: Block) -> None:
        """Note where the arms' levels are now, and what may have wrapped around."""
        fade = np.where(block.counts > 0, MEMORY, 1.0)
        self._level[block.runs] = fade * self._level[block.runs] + block.sums
        self._heard[block.runs] = fade * self._heard[block.runs] + block.counts
        wraps = np.asarray([*(float(row.wrap) for row in self._rows), 0.0])
        self.wrapped[block.runs] += wraps[block.noise].sum(axis=1)

    def _numbered(self, counts: Integers) -> Integers:
        """Which of the known noises is each batch's; -1 where there is no batch."""
        numbers = np.full(counts.shape, -1)
        for users in np.unique(counts[counts > 0]).tolist():
            if users not in self._noises:
                noise = self._noise_of(users)
                known = [number for number, row in enumerate(self._rows) if row is noise]
                self._noises[users] = known[0] if known else len(self._rows)
                self._rows += [] if known else [noise]
            numbers[counts == users] = self._noises[users]
        return numbers


def log_mean(logs: Floats, log_shares: Floats) -> Floats:
    """log Σ share·e^log over the last axis."""
    weighed = logs + log_shares
    most = weighed.max(axis=-1)
    finite = np.where(np.isneginf(most), 0.0, most)
    with np.errstate(divide="ignore"):
        return np.asarray(finite + np.log(np.exp(weighed - finite[..., None]).sum(axis=-1)))


def least(won: Floats, weight: Floats, stakes: Stakes, level: Floats) -> Floats:
    """The least x with log Σ share·exp(won - stake·weight·x) <= level: what is not refuted; -1 where nothing is known.

    The left side is convex and falls, so Newton's steps from the left come nearer and never pass it.
    """
    pull = stakes.sizes * weight[..., None]
    found = np.full(weight.shape, -1.0)
    for _ in range(100):
        logs = won - pull * found[..., None] + stakes.log_shares
        most = log_mean(logs, np.zeros(len(stakes)))
        excess = np.where((weight > 0) & np.isfinite(most), most - level, 0.0)
        slope = (np.exp(logs - np.where(np.isfinite(most), most, 0.0)[..., None]) * pull).sum(axis=-1)
        step = np.where(excess > 0, excess / np.where(slope > 0, slope, 1.0), 0.0)
        found = np.minimum(found + step, 1.0)
        if np.all(step < 1e-10):
            break
    return found
