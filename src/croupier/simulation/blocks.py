"""How a block is played: all its arms in the same stretch of time, with as many reports of each as chance gives them.

Where a batch may have any number of reports, a block closes with the report that makes it full, for all arms at once.
Where every batch must be full, an arm whose batch fills faster waits for the others, so all meet the same times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.concurrent import Concurrent
from croupier.bandits.policy import Bools, Integers
from croupier.messages.block import due
from croupier.noise import SeededSource
from croupier.protocols import SumMechanism
from croupier.simulation.worlds import World

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[Any]

DEAL = 16
"""Turns are dealt in permuted rows of so many."""


@dataclass(frozen=True, eq=False)
class Played:
    """A block of every run: turns dealt, reports of each arm, which batches are released, and what they add up to."""

    turns: Integers
    reports: Integers
    released: Bools
    sums: Floats
    world: World
    """As the block met it."""
    beside: Floats
    """What the other metrics add up to, on the last axis."""


def play(
    policy: Concurrent,
    world: World,
    start: Integers,
    limit: int,
    source: SeededSource,
    beside: Sequence[World] = (),
) -> Played:
    """The next block of every run, from these times on, in law; other metrics come from worlds of their own."""
    wanted = policy.wanted()
    reports, released = policy.assign(wanted, limit)
    odds, generator = policy.odds(), source.generator
    rates = np.broadcast_to(world.during(start, start[:, None] + 1.0).rates, odds.shape)
    open_to, settled = odds > 0, policy.settled[:, None]
    if policy.ladder.any_size:
        chances = _shares(odds * rates)
        whole = np.any(released, axis=1, keepdims=True)[:, 0]
        dealt = generator.multinomial(np.where(whole, reports.sum(axis=1), 0), chances)
        reports = np.where(whole[:, None], dealt, reports)
        released &= ((reports > 0) | ~open_to).all(axis=1, keepdims=True)
        missing = _silent(reports.sum(axis=1), (odds * rates).sum(axis=1), generator)
        silent = generator.multinomial(missing, _shares(odds * (1.0 - rates)))
    else:
        silent = _silent(reports, rates, generator)
    lasts = (reports + silent).sum(axis=1, keepdims=True).astype(float)
    turns = np.where(settled, reports, reports + silent)
    end = start[:, None] + np.maximum(lasts, 1.0)
    now = world.during(start, end)
    sums = _sums(policy.ladder, now, reports, released, source)
    others = [
        _sums(ladder, other.during(start, end), reports, released, source)
        for ladder, other in zip(policy.watched.ladders, beside, strict=True)
    ]
    return Played(turns, reports, released, sums, now, np.stack(others, axis=-1) if others else _none(sums))


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


def _none(sums: Floats) -> Floats:
    """No other metric's sums."""
    return np.zeros((*sums.shape, 0))


def play_each(
    policy: Concurrent,
    world: World,
    start: Integers,
    limit: int,
    source: SeededSource,
    beside: Sequence[World] = (),
) -> Played:
    """The same by the way of every single user: dealt in permuted rows, with an outcome, and silent or not."""
    wanted = policy.wanted()
    assigned, released = policy.assign(wanted, limit)
    odds = policy.odds()
    turns, reports = np.zeros_like(assigned), np.zeros_like(assigned)
    sums = np.zeros((*assigned.shape, 1 + len(beside)))
    for run in range(policy.runs):
        if not released[run].any():
            turns[run] = reports[run] = assigned[run]
            continue
        worlds = (world, *beside)
        values, turns[run] = _reported(policy, worlds, run, int(start[run]), assigned[run], odds[run], source)
        reports[run] = [len(each) for each in values]
        released[run] &= np.all((reports[run] > 0) == (odds[run] > 0))
        for arm in np.flatnonzero(released[run]).tolist():
            sums[run, arm] = _one_batch(policy, np.asarray(values[arm]), source)
    now = world.during(start, start[:, None] + np.maximum(turns.sum(axis=1, keepdims=True), 1.0))
    return Played(turns, reports, released, sums[..., 0], now, sums[..., 1:])


def _reported(
    policy: Concurrent,
    worlds: Sequence[World],
    run: int,
    start: int,
    wanted: Integers,
    odds: Floats,
    source: SeededSource,
) -> tuple[list[list[list[float]]], Integers]:
    """What each arm's users report until the block is full, a number for each world, and each arm's turns."""
    generator = source.generator
    values: list[list[list[float]]] = [[] for _ in odds]
    turns, time, total = np.zeros(len(odds), dtype=np.int64), start, int(wanted.sum())
    while True:
        row = generator.permutation(_row(_shares((odds * _due(values, wanted, policy))[None])[0], generator))
        times = time + np.arange(len(row))
        outcomes = np.stack([world.outcomes(run, row, times, generator) for world in worlds], axis=-1)
        heard = generator.random(len(row)) < worlds[0].reporting_chances(row, outcomes[:, 0])
        time += len(row)
        for arm, outcome, reports in zip(row.tolist(), outcomes.tolist(), heard.tolist(), strict=True):
            if not policy.ladder.any_size and len(values[arm]) == wanted[arm]:
                continue
            turns[arm] += 1
            if reports:
                values[arm].append(outcome)
            if sum(map(len, values)) == total:
                return values, turns


def _due(values: Sequence[Sequence[object]], wanted: Integers, policy: Concurrent) -> Bools:
    """Whose turns are dealt now: where batches must be full, those that are not ahead of the others."""
    if policy.ladder.any_size:
        return np.ones(len(wanted), dtype=bool)
    found = np.ones(len(wanted), dtype=bool)
    open_to = np.flatnonzero(wanted)
    found[open_to] = due([len(values[arm]) for arm in open_to.tolist()], wanted[open_to].tolist())
    return found


def _row(odds: Floats, generator: np.random.Generator) -> Integers:
    """The arms of one row, each as often as its odds say; what is left over is drawn."""
    sure = np.floor(DEAL * odds + 1e-9).astype(np.int64)
    rest = DEAL - int(sure.sum())
    drawn = generator.multinomial(rest, _shares((DEAL * odds - sure).clip(0.0)[None])[0]) if rest else 0
    return np.repeat(np.arange(len(odds)), sure + drawn)


def _one_batch(policy: Concurrent, values: Floats, source: SeededSource) -> Floats:
    """What one batch of reports adds up to, all metrics: a row a user."""
    metrics = policy.watched.metrics
    if metrics is not None:
        scaled = values * [metric.span for metric in metrics] + [metric.low for metric in metrics]
        reports = [dict(zip(metrics.names, row, strict=True)) for row in scaled.tolist()]
        several = metrics.plan(len(reports))
        return several.unit_sums(several.run(reports, source))
    mechanism = policy.ladder.mechanism(len(values))
    if mechanism is None:
        return np.asarray(values.sum(axis=0))
    low, span = mechanism.values.low, mechanism.values.span
    view = mechanism.collect(mechanism.randomize(low + span * values[:, 0], source))
    return np.atleast_1d(mechanism.unit_sums(mechanism.analyze_many(view, source)))


def _mechanisms(ladder: Ladder, sizes: Integers) -> list[tuple[SumMechanism | None, Integers]]:
    """The mechanism of every batch, each with the batches that it is for."""
    noises = ladder.noise_sizes(sizes)
    return [(ladder.mechanism(size), np.flatnonzero(noises == size)) for size in np.unique(noises).tolist()]


def _silent(reports: Numbers, rates: Floats, generator: np.random.Generator) -> Integers:
    """How many are silent before so many have reported."""
    some = (reports > 0) & (rates < 1.0)
    drawn = generator.negative_binomial(np.where(some, reports, 1), np.where(some, rates, 0.5))
    return np.where(some, drawn, 0)


def _shares(weights: Floats) -> Floats:
    """Numbers that add up to one in every row; where all are zero, the first has all."""
    total = weights.sum(axis=1, keepdims=True)
    first = np.zeros_like(weights)
    first[:, 0] = 1.0
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), first)
