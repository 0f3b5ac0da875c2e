"""Run a policy in a world: thousands of runs at once, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from croupier.bandits.concurrent import Concurrent
from croupier.bandits.policy import MOST_USERS, Bools, Integers, Policy
from croupier.checks import CroupierError, InvalidParameter, integer, one_of
from croupier.frames import Rows, Tabular
from croupier.noise import SeededSource, seeded
from croupier.protocols import SumMechanism
from croupier.simulation.blocks import InLaw
from croupier.simulation.each_user import EachUser
from croupier.simulation.worlds import World
from croupier.texts import plural

Floats = NDArray[np.floating[Any]]

MODES = ("law", "users")


@dataclass(frozen=True, eq=False)
class Run(Tabular):
    """What came of a simulation: regret at checkpoints and at the end, and what the policy recommends.

    Parameters
    ----------
    policy : as it is at the end, with its estimates.
    world : where rewards came from.
    seed : all the chance that there was.
    checkpoints : after how many users regret was noted.
    curve : the regret then: a row for each run.
    regret : at the end, a number for each run.
    decided : after how many users each run was decided; None where the policy claims nothing.
    beside : the worlds of the other metrics.

    Examples
    --------
    >>> from croupier.simulation import Bernoulli, simulate, simulated_policy
    >>> policy = simulated_policy("dp-klucb", arms=2, horizon=5000, epsilon=1.0, runs=4, binary=True)
    >>> run = simulate(policy, Bernoulli([0.2, 0.8]), seed=1)
    >>> run.best_arm_rate, run.regret.shape, run.rows[0]["policy"]
    (1.0, (4,), 'dp-klucb')
    """

    policy: Policy
    world: World
    seed: int
    checkpoints: Integers
    curve: Floats
    regret: Floats
    decided: Floats | None = None
    """After how many users each run was decided: infinite where it was not, None where the policy claims nothing."""
    beside: tuple[World, ...] = ()
    """The worlds of the other metrics."""

    @property
    def false_decisions(self) -> Bools:
        """Which runs decided for an arm that is no better, or for no difference where there is a larger one.

        Where there are guardrails, also those that decided for an arm that harms one, or took out one that does not.
        """
        return self.policy.wrong(self._last_gaps, [world.means for world in self.beside])

    @property
    def best_arm_rate(self) -> float:
        """How often the recommended arm is truly a best one, where the world changes: at the end."""
        gaps = self._last_gaps
        return float(np.mean(gaps[np.arange(self.policy.runs), self.policy.best_arm] <= 1e-12))

    @property
    def lost_best_rate(self) -> float:
        """How often every best arm was eliminated."""
        best = self._last_gaps <= 1e-12
        return float(np.mean(~(best & self.policy.active).any(axis=1)))

    @property
    def _last_gaps(self) -> Floats:
        return self.world.gaps(self.policy.runs, int(self.policy.users.max()) - 1)

    @property
    def rows(self) -> Rows:
        """One row a run: its regret, and the arm that it recommends."""
        best = self._last_gaps[np.arange(self.policy.runs), self.policy.best_arm] <= 1e-12
        return Rows(
            {
                "policy": self.policy.name,
                "seed": self.seed,
                "run": run,
                "users": int(self.policy.users[run]),
                "regret": float(self.regret[run]),
                "best_arm": int(self.policy.best_arm[run]),
                "best_arm_found": bool(best[run]),
            }
            for run in range(self.policy.runs)
        )

    def curve_frame(self) -> Any:
        """Regret over time as a pandas DataFrame, one column a run, by the number of users."""
        frame = Rows(
            {"users": users} | {f"run {run}": value for run, value in enumerate(regrets)}
            for users, regrets in zip(self.checkpoints.tolist(), self.curve.T.tolist(), strict=True)
        ).frame()
        return frame.set_index("users")

    def __repr__(self) -> str:
        summary = self.summary()
        return (
            f"{summary['policy']} in {self.world!r}: "
            f"regret {summary['regret_mean']:.4g} ± {summary['regret_sem']:.2g} "
            f"(one standard error, {plural(summary['runs'], 'run')} of {self._spread()} users), "
            f"best arm found in {100 * summary['best_arm_rate']:.0f} %"
        )

    def _spread(self) -> str:
        """How many users a run had, from the shortest to the longest."""
        least, most = int(self.policy.users.min()), int(self.policy.users.max())
        return f"{most:,}" if least == most else f"{least:,} to {most:,}"

    def _repr_html_(self) -> str:
        return Rows([self.summary()])._repr_html_()

    def summary(self) -> dict[str, Any]:
        """The numbers that a table shows."""
        runs = len(self.regret)
        return {
            "policy": self.policy.name,
            "horizon": self.policy.horizon or int(self.policy.users.max()),
            "users_mean": float(self.policy.users.mean()),
            "runs": runs,
            "regret_mean": float(self.regret.mean()),
            "regret_sem": float(self.regret.std(ddof=1) / np.sqrt(runs)) if runs > 1 else 0.0,
            "regret_median": float(np.median(self.regret)),
            "regret_max": float(self.regret.max()),
            "best_arm_rate": self.best_arm_rate,
        } | self.decisions()

    def decisions(self) -> dict[str, Any]:
        """How many runs decided, after how many users, and how many were wrong; empty where nothing is claimed."""
        if self.decided is None:
            return {}
        return decision_summary(self.decided, self.false_decisions.tolist(), self.policy.alarmed.tolist())


def decision_summary(users: Floats, wrong: Sequence[bool], alarms: Sequence[bool]) -> dict[str, float]:
    """How many runs decided, after how many users half, 80 % and 95 % of all had, and how many were wrong."""
    return {
        "decided_rate": float(np.isfinite(users).mean()),
        **{
            f"users_{name}": float(np.quantile(users, share, method="higher"))
            for name, share in (("median", 0.5), ("80", 0.8), ("95", 0.95))
        },
        "wrong_rate": float(np.mean(wrong)),
        "alarm_rate": float(np.mean(alarms)),
    }


def simulate(
    policy: Policy,
    world: World,
    *,
    seed: int,
    users: int | None = None,
    checkpoints: int = 100,
    mode: str = "law",
    progress: Callable[[float], None] | None = None,
    watch: Callable[[Policy], None] | None = None,
    beside: Sequence[World] = (),
) -> Run:
    """Play a policy in a world until its horizon.

    Parameters
    ----------
    policy : as `croupier.bandits.policy` makes it, with as many runs as are wanted.
    world : where rewards come from, with as many arms as the policy.
    seed : all the chance there is: the same seed gives the same run.
    users : when to stop, for a policy that knows no horizon.
    checkpoints : at how many times regret is noted.
    mode : "law" draws each batch's sum and total noise once. "users" sends every user's reward through randomize,
        carrier and analyze. Both have the same law.
    progress : is told how much of the whole was done since it was last told.
    watch : sees the policy after every step.
    beside : where the other metrics come from, for a policy that has several: a world each, in their order.

    Examples
    --------
    >>> from croupier.bandits import policy
    >>> from croupier.simulation import Bernoulli
    >>> flagship = policy("dp-klucb", arms=3, horizon=20_000, epsilon=1.0, binary=True, runs=20)
    >>> run = simulate(flagship, Bernoulli([0.3, 0.5, 0.7]), seed=1)
    >>> run.best_arm_rate, round(run.summary()["regret_mean"], 1)
    (1.0, 39.0)
    """
    one_of("mode", mode, MODES)
    if not isinstance(policy, Policy):
        raise InvalidParameter("policy", policy, "a policy, as croupier.bandits.policy makes it")
    if not isinstance(world, World):
        raise InvalidParameter("world", world, "a world, such as Bernoulli([0.3, 0.5])")
    if world.arms != policy.arms:
        raise InvalidParameter("arms", policy.arms, f"{world.arms}, as many as the world has")
    if world.means.ndim == 2 and world.means.shape[0] != policy.runs:
        raise InvalidParameter("runs", policy.runs, f"{world.means.shape[0]}, one for each row of the world's means")
    if users is not None:
        integer("users", users, 1, MOST_USERS)
    limit = policy.horizon if policy.horizon is not None else users
    if limit is None:
        raise InvalidParameter("users", users, "given when the policy knows no horizon")
    if _side_by_side(policy):
        if len(beside) != len(policy.watched.others):
            due = f"{len(policy.watched.others)} worlds, one for each metric beside the primary one"
            raise InvalidParameter("beside", len(beside), due)
        return _in_blocks(policy, world, seed, limit, checkpoints, mode, progress, watch, tuple(beside))
    source = seeded(seed)
    trace = _Trace(world, policy.runs, limit, integer("checkpoints", checkpoints, 1))
    told = 0.0
    while not (policy.finished | (policy.users >= limit)).all():
        wanted = policy.wanted()
        if not wanted.any():
            raise CroupierError(f"{policy.name} gives users no arm, and is not finished: it would never end")
        assigned, released = policy.assign(wanted, limit)
        trace.add(policy.users, assigned)
        now = world.at(policy.users, assigned)
        policy.observe(_sums(policy, now, assigned, released, source, mode), assigned, released)
        if watch is not None:
            watch(policy)
        if progress is not None:
            done = float(policy.users.mean()) / limit
            progress(done - told)
            told = done
    return Run(policy, world, seed, trace.checkpoints, trace.curve, trace.regret)


def _side_by_side(policy: Policy) -> TypeGuard[Concurrent]:
    return policy.in_blocks


def _in_blocks(
    policy: Concurrent,
    world: World,
    seed: int,
    limit: int,
    checkpoints: int,
    mode: str,
    progress: Callable[[float], None] | None,
    watch: Callable[[Policy], None] | None,
    beside: tuple[World, ...],
) -> Run:
    """The arms of a block side by side in time; a clock counts who comes, for drift, silence and delay."""
    player = (InLaw if mode == "law" else EachUser)(policy, world, limit, seeded(seed), beside)
    trace = _Trace(world, policy.runs, limit, integer("checkpoints", checkpoints, 1))
    decided, told = np.where(policy.decided, policy.users, np.inf), 0.0
    while not (policy.finished | (policy.users >= limit)).all():
        block = player.block()
        means = np.broadcast_to(block.world.means, block.turns.shape)
        cost = (block.turns * (means.max(axis=1, keepdims=True) - means)).sum(axis=1)
        trace.share(policy.users, block.reports.sum(axis=1), cost)
        block.tell(policy)
        decided = np.where(policy.decided & np.isinf(decided), policy.users, decided)
        if watch is not None:
            watch(policy)
        if progress is not None:
            done = float(np.where(policy.finished, limit, policy.users).mean()) / limit
            progress(done - told)
            told = done
    return Run(policy, world, seed, trace.checkpoints, trace.finished(policy.users), trace.regret, decided, beside)


def _sums(policy: Policy, world: World, assigned: Integers, released: Bools, source: SeededSource, mode: str) -> Floats:
    """Estimated reward sums of the released batches, in units of a reward."""
    sums = np.zeros(assigned.shape)
    if policy.ladder.protocol is None:
        runs, arms = np.nonzero(released)
        sums[runs, arms] = world.sums(runs, arms, assigned[runs, arms], source.generator)
        return policy.disturb(sums, released, source.generator)
    for size in np.unique(assigned[released]).tolist():
        mechanism = policy.ladder.mechanism(size)
        assert mechanism is not None
        runs, arms = np.nonzero(released & (assigned == size))
        if mode == "law":
            encoded = world.encoded_sums(runs, arms, size, mechanism.precision, source.generator)
            decoded = mechanism.noisy(encoded, source)
        else:
            decoded = _one_by_one(mechanism, world, runs, arms, source)
        sums[runs, arms] = mechanism.unit_sums(decoded)
    return sums


def _one_by_one(
    mechanism: SumMechanism, world: World, runs: Integers, arms: Integers, source: SeededSource
) -> Integers:
    """The way of every single user."""
    span, low = mechanism.values.span, mechanism.values.low
    decoded = []
    for run, arm in zip(runs.tolist(), arms.tolist(), strict=True):
        rewards = world.rewards(run, arm, mechanism.users, source.generator)
        reports = mechanism.randomize(low + span * rewards, source)
        decoded.append(mechanism.analyze_many(mechanism.collect(reports), source))
    return np.asarray(decoded)


class _Trace:
    """Pseudo-regret at checkpoints, against the best arm at each time: a phase plays its arms in order."""

    def __init__(self, world: World, runs: int, limit: int, checkpoints: int) -> None:
        self.world = world
        even = np.linspace(limit / checkpoints, limit, checkpoints)
        early = np.geomspace(min(10.0, limit), limit, checkpoints)
        self.checkpoints = np.unique(np.concatenate((even, early)).astype(np.int64))
        self.curve = np.zeros((runs, len(self.checkpoints)))
        self.regret = np.zeros(runs)

    def add(self, start: Integers, assigned: Integers) -> None:
        now = start.astype(float)
        for arm in np.flatnonzero(assigned.any(axis=0)).tolist():
            users = assigned[:, arm]
            end = now + users
            first = int(np.searchsorted(self.checkpoints, now[users > 0].min(), side="right"))
            last = int(np.searchsorted(self.checkpoints, end.max(), side="right"))
            if first < last:
                points = self.checkpoints[None, first:last]
                inside = (points > now[:, None]) & (points <= end[:, None])
                reached = np.minimum(np.maximum(points, now[:, None]), end[:, None])
                value = self.regret[:, None] + self.world.regret(arm, now, reached)
                self.curve[:, first:last] = np.where(inside, value, self.curve[:, first:last])
            self.regret = self.regret + self.world.regret(arm, now, end[:, None])[:, 0]
            now = end

    def share(self, start: Integers, users: Integers, cost: Floats) -> None:
        """A block whose users, of all arms in turn, cost so much in all."""
        points, end = self.checkpoints[None, :], (start + users)[:, None]
        inside = (points > start[:, None]) & (points <= end)
        part = (points - start[:, None]) / np.maximum(users, 1)[:, None]
        self.curve = np.where(inside, self.regret[:, None] + part * cost[:, None], self.curve)
        self.regret = self.regret + cost

    def finished(self, users: Integers) -> Floats:
        """The curves of runs that may have stopped: their regret stays what it was."""
        return np.where(self.checkpoints[None, :] > users[:, None], self.regret[:, None], self.curve)
