"""How many users an experiment needs until it concludes by its own rule, and what a fixed sample size would be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from croupier.bandits import Policy, Terms
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
SHARES = (0.5, 0.8, 0.95)
"""Of all experiments: half of them, most, nearly all."""

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Wait:
    """After how many users simulated experiments had concluded; infinite where they had not."""

    users: Floats = field(repr=False)

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
    **options: Any,
) -> Forecast:
    """Simulate experiments with these means, and as many in which all arms are like the control.

    A report comes while the next users come, up to `delay` of them.

    >>> found = forecast("split", means=[0.3, 0.6], epsilon=1.0, trust="two-servers", runs=200)
    >>> found.better.until(0.5) < 250, found.wrong < 0.03
    (True, True)
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

    def play(world: Bernoulli, seed: int) -> tuple[Policy, Wait, float]:
        run = simulate(simulated_policy(name, runs=runs, **given), Delayed(world, delay), seed=seed, checkpoints=1)
        if run.decided is None:
            raise InvalidParameter("policy", name, "one that claims comparisons: in blocks")
        return run.policy, Wait(run.decided), float(run.false_decisions.mean())

    policy, better, wrong = play(Bernoulli(table), seed)
    _, alike, false = play(Bernoulli(np.full(len(table), rate)), seed + 1)
    batch = policy.ladder.first
    return Forecast(name, carried.trusts, carried.name, epsilon, batch, better, alike, (wrong + false) / 2.0)


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
    between("power", power, 0, 1)
    other = min(rate + float(between("lift", lift, 0, 1)), 1.0)
    middle = (rate + other) / 2.0
    failure = (1.0 - confidence) / (arms - 1)
    reach = -float(ndtri(failure / 2.0)) * math.sqrt(2.0 * middle * (1.0 - middle))
    reach += float(ndtri(power)) * math.sqrt(rate * (1.0 - rate) + other * (1.0 - other))
    return arms * max(math.ceil((reach / lift) ** 2), 1)
