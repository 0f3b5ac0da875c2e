"""How many users an experiment needs until it concludes by its own rule, and what a fixed sample size would be."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.bandits import Terms
from croupier.bandits.batch_sizes import noise_variance, quiet_size
from croupier.bandits.in_blocks import FEWEST_BLOCKS
from croupier.checks import InvalidParameter, between, integer
from croupier.protocols import Protocol
from croupier.simulation.baselines import simulated_policy
from croupier.simulation.reporting import Delayed
from croupier.simulation.runner import simulate
from croupier.simulation.worlds import Bernoulli, checked_means

LONG = 15
"""Simulated experiments are stopped after so many times a fixed sample size: few need more."""
FEWEST, TIMES = 25, 3
"""Experiments of the first part of a simulation, and how many times as many each part after it has."""

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Wait:
    """After how many users simulated experiments had concluded; infinite where they had not."""

    users: Floats = field(repr=False)

    @classmethod
    def joined(cls, waits: Sequence[Wait]) -> Wait:
        """All experiments of several."""
        return cls(np.concatenate([wait.users for wait in waits]))

    def until(self, share: float) -> float:
        """Users after which this share of experiments has concluded."""
        return float(np.quantile(self.users, share, method="higher"))

    def error(self, share: float) -> float:
        """How far that may be off because so few were simulated: half a 95 % interval from ranks, or half a look."""
        found, runs = self.until(share), len(self.users)
        if math.isinf(found):
            return math.inf
        spread = 1.96 * math.sqrt(share * (1.0 - share) / runs)
        low, high = (self.until(min(max(end, 0.0), 1.0)) for end in (share - spread, share + spread))
        look = found - float(self.users[self.users < found].max(initial=0.0))
        return max(high - low, look) / 2.0

    def share(self, users: Floats) -> Floats:
        """The share that has concluded after each of these numbers of users."""
        return np.searchsorted(np.sort(self.users), users, side="right") / len(self.users)


@dataclass(frozen=True)
class Forecast:
    """What an experiment will take, under one trust."""

    policy: str
    trust: str
    protocol: str
    epsilon: float
    batch: int
    """Users in an arm's first batch."""
    better: Wait
    """Until the better arm is found to be so."""
    alike: Wait
    """Until no difference is larger than the lift, when there is none."""
    wrong: float
    """How often the decision was wrong, in either case."""

    @property
    def runs(self) -> int:
        """How many experiments of either kind were simulated."""
        return len(self.better.users)


def forecast(
    name: str,
    *,
    means: Sequence[float],
    epsilon: float,
    lift: float | None = None,
    control: int = 0,
    delta: float | None = None,
    trust: str | None = None,
    protocol_name: str | None = None,
    confidence: float = 0.95,
    runs: int = 1000,
    seed: int = 0,
    delay: int = 0,
    seconds: float = math.inf,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Forecast:
    """Simulate experiments with these means, and as many in which all arms are like the control.

    A report comes while the next users come, up to `delay` of them. There are fewer runs than asked for where those
    would take more `seconds` of the processor. `progress` is told how much of the whole was done since it was last.

    >>> found = forecast("split", means=[0.3, 0.6], epsilon=1.0, trust="two-servers", runs=200)
    >>> found.better.until(0.5) < 250, found.wrong < 0.03, found.runs
    (True, True, 200)
    """
    table = checked_means(means)
    rate = float(table[integer("control", control, 0, len(table) - 1)])
    lift = float(table.max() - rate) if lift is None else lift
    if lift <= 0:
        raise InvalidParameter("means", list(means), "numbers of which one is larger than the control's, the first")
    terms = Terms(control, confidence, smallest_effect=lift, rate=min(max(rate, 1e-6), 1.0 - 1e-6))
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "trust": trust, "protocol_name": protocol_name}
    given |= options | {"arms": len(table), "binary": True, "decision": terms}

    fixed = fixed_sample(rate, lift, len(table), confidence=confidence)
    carried = simulated_policy(name, horizon=LONG * fixed, **given).ladder.protocol
    assert carried is not None
    given |= {"horizon": long_enough(carried, rate, lift, len(table), fixed)}
    worlds = [Delayed(Bernoulli(arms), delay) for arms in (table, np.full(len(table), rate))]
    waits: tuple[list[Wait], list[Wait]] = ([], [])
    wrong = 0

    for part in parts(runs, seed, seconds):
        for which, world in enumerate(worlds):
            policy = simulated_policy(name, runs=part.runs, **given)
            told = part.share(progress, len(worlds))
            run = simulate(policy, world, seed=part.seed + which, checkpoints=1, progress=told)
            if run.decided is None:
                raise InvalidParameter("policy", name, "one that claims comparisons: in blocks")
            waits[which].append(Wait(run.decided))
            wrong += int(run.false_decisions.sum())
    better, alike = map(Wait.joined, waits)
    played = len(better.users)
    if progress is not None:
        progress(1.0 - played / runs)
    first, wrong_rate = policy.ladder.first, wrong / (2.0 * played)
    return Forecast(name, carried.trusts, carried.name, epsilon, first, better, alike, wrong_rate)


@dataclass(frozen=True)
class Part:
    """Some of the runs of a simulation: how many, of how many in all, and from which seed."""

    runs: int
    of: int
    seed: int

    def share(self, progress: Callable[[float], None] | None, steps: int) -> Callable[[float], None] | None:
        """Tells how much of the whole is done, when it is told how much of one of so many steps of this part is."""
        return progress and (lambda done: progress(done * self.runs / (self.of * steps)))


def parts(
    runs: int, seed: int, seconds: float = math.inf, clock: Callable[[], float] = time.process_time
) -> Iterator[Part]:
    """Runs in parts, each larger than the one before, until the next would take more seconds than are left.

    A part depends on the seed and its place only, so as many runs are the same ones however few seconds there were.

    >>> [part.runs for part in parts(1000, seed=0)], [part.runs for part in parts(60, seed=0)]
    ([25, 75, 225, 675], [25, 35])
    """
    integer("runs", runs, 1)
    began, place, left, size = clock(), 0, runs, FEWEST
    while left:
        chosen, start = min(size, left), clock()
        state = np.random.SeedSequence([integer("seed", seed, 0), place]).generate_state(4)
        yield Part(chosen, runs, int.from_bytes(state.tobytes(), "little"))
        place, left, size, now = place + 1, left - chosen, TIMES * size, clock()
        # As long as the last part, run for run: it is less, since what is planned for a size is remembered.
        if now - began + (now - start) * min(size, left) / chosen > seconds:
            return


def long_enough(protocol: Protocol, rate: float, lift: float, arms: int, fixed: int) -> int:
    """Long enough for nearly all, with what noise adds where batches are not quiet."""
    first = quiet_size(protocol, rate, lift)
    loud = 1.0 + noise_variance(protocol, first) / (first * max(rate * (1.0 - rate), 1e-6))
    # Where the lift is large beside the noise, so many blocks of quiet batches that a horizon changes nothing in them.
    return math.ceil(max(LONG * loud * fixed, 2 * FEWEST_BLOCKS * arms * first))


def fixed_sample(rate: float, lift: float, arms: int = 2, power: float = 0.8, confidence: float = 0.95) -> int:
    """Users of all arms for a classical test of each variant against the control, looked at once, without privacy.

    Two-sided tests of two proportions with the pooled variance under the null; several variants share the error evenly.

    >>> fixed_sample(0.5, 0.05), fixed_sample(0.02, 0.004), fixed_sample(0.5, 0.05, arms=3)
    (3130, 42218, 5685)
    """
    from scipy.special import ndtri  # its import takes a while, which every command and server is spared

    between("power", power, 0, 1)
    other = min(rate + float(between("lift", lift, 0, 1)), 1.0)
    middle = (rate + other) / 2.0
    failure = (1.0 - confidence) / (arms - 1)
    reach = -float(ndtri(failure / 2.0)) * math.sqrt(2.0 * middle * (1.0 - middle))
    reach += float(ndtri(power)) * math.sqrt(rate * (1.0 - rate) + other * (1.0 - other))
    return arms * max(math.ceil((reach / lift) ** 2), 1)
