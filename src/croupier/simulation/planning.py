"""How many users an experiment needs until the better arm is found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.bandits.making import LEAST_EPSILON
from croupier.bandits.policy import Policy
from croupier.checks import InvalidParameter, between, integer
from croupier.protocols import ROWS
from croupier.simulation.baselines import ALL_POLICIES, check_read, simulated_policy
from croupier.simulation.runner import simulate
from croupier.simulation.worlds import Bernoulli, checked_means

GRID_RATIO = 1.02
"""Needs are told to two per cent."""


@dataclass(frozen=True)
class Plan:
    """An experiment of `arms` arms, one of them better by `lift`, and the users it needs."""

    policy: str
    protocol: str | None
    epsilon: float | None
    users: float
    """Infinite when the horizon that was tried does not suffice."""


def users_needed(
    name: str,
    *,
    means: Sequence[float],
    epsilon: float | None = None,
    delta: float | None = None,
    protocol_name: str | None = None,
    confidence: float = 0.95,
    runs: int = 1000,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
    **protocol_options: Any,
) -> Plan:
    """The least number of users from which on the policy recommends the best arm in 95 % of runs.

    `protocol_options` (`participations`, `scaling`) go to the protocol that sums the batches. `progress` is told how
    much of the whole was done since it was last told.

    >>> users_needed("kl-ucb", means=lifted(arms=2, lift=0.3), runs=200).users < 1000
    True
    """
    # The best comes last, so that no tie is broken in its favour.
    order = np.sort(checked_means(means))
    arms, lift = len(order), round(float(order[-1] - order[-2]), 12)
    if lift <= 0:
        raise InvalidParameter("means", list(means), "numbers of which one is the largest")
    options: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "protocol_name": protocol_name} | protocol_options
    entry = ALL_POLICIES.find(name)
    if entry.protocol is None:
        options = {} if entry.notion == "none" else {"epsilon": epsilon}
        check_read([name], None, protocol_options | {"protocol": protocol_name})
    one_batch = None if epsilon is None else epsilon / protocol_options.get("participations", 1)
    horizon = _horizon(arms, lift, one_batch, local=_trusts_nobody(name, protocol_name))
    policy = simulated_policy(name, arms=arms, horizon=horizon, runs=runs, binary=True, **options)
    watch = _Recommended(policy, best=arms - 1, horizon=horizon)
    simulate(policy, Bernoulli(order), seed=seed, checkpoints=1, watch=watch, progress=progress)
    return Plan(name, protocol_name, epsilon, watch.users(confidence))


LEAST = 1e-6
"""No smaller difference is planned for: to find it takes about as many users as its square goes into one."""


def lifted(arms: int, lift: float, control: float = 0.5) -> list[float]:
    """Means of which the last is better than all others by `lift`.

    >>> lifted(arms=3, lift=0.25)
    [0.5, 0.5, 0.75]
    """
    integer("arms", arms, 2)
    between("lift", lift, 0, 1)
    control = float(between("control", control, 0, 1, "[]"))
    if control + lift > 1:
        raise InvalidParameter("lift", lift, f"at most {1 - control:g}, since the other arms' mean is {control:g}")
    return [control] * (arms - 1) + [control + lift]


def _trusts_nobody(name: str, protocol_name: str | None) -> bool:
    """Whether every report of this policy must be private alone: then it needs far more of them."""
    if protocol_name is not None and protocol_name in ROWS:
        return ROWS[protocol_name].trust == "nobody"
    return name in ALL_POLICIES and ALL_POLICIES[name].model == "nobody"


def _horizon(arms: int, lift: float, epsilon: float | None, *, local: bool) -> int:
    """Generous: several times what theory asks for."""
    need = 200.0 * arms / lift**2
    if epsilon is not None:
        hidden = max(epsilon, LEAST_EPSILON) * lift  # policies refuse less
        need += 400.0 * arms / hidden
        if local:
            need += 800.0 * arms / hidden**2
    return math.ceil(need)


class _Recommended:
    """Whether each run recommends the best arm, on a geometric grid of users."""

    def __init__(self, policy: Policy, best: int, horizon: int) -> None:
        steps = math.ceil(math.log(horizon) / math.log(GRID_RATIO))
        self.grid = np.unique(np.ceil(GRID_RATIO ** np.arange(steps + 1)))
        self.right = np.zeros((policy.runs, len(self.grid)), dtype=bool)
        self.best, self.last = best, np.zeros(policy.runs)

    def __call__(self, policy: Policy) -> None:
        now = policy.users.astype(float)
        # What was recommended holds from these users on, until the next step overwrites it.
        since = self.grid[None, :] >= now[:, None]
        self.right = np.where(since, (policy.best_arm == self.best)[:, None], self.right)

    def users(self, confidence: float) -> float:
        enough = self.right.mean(axis=0) >= confidence
        wrong = np.flatnonzero(~enough)
        if not wrong.size:
            return float(self.grid[0])
        return float(self.grid[wrong[-1] + 1]) if wrong[-1] + 1 < len(self.grid) else math.inf
