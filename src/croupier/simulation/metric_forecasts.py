"""What several metrics cost: users until the primary one is shown with its part of ε, and guardrails are safe."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from croupier.bandits import Concurrent, Metrics, Policy, Terms, policy
from croupier.checks import InvalidParameter, integer
from croupier.simulation.forecasts import Wait, fixed_sample, forecast, long_enough, parts
from croupier.simulation.runner import simulate
from croupier.simulation.worlds import Bernoulli, checked_means

TRUST = "two-servers"


@dataclass(frozen=True)
class MetricsForecast:
    """How long an experiment with several metrics takes, when one arm is better and no guardrail is any worse."""

    policy: str
    epsilon: float
    share: float
    """Of the budget, the primary metric's."""
    batch: int
    horizon: int
    whole: Wait
    """Until the experiment concludes if the primary metric is the only one, and has the whole budget."""
    primary: Wait
    """Until the better arm is shown to be so, with its share."""
    guardrails: dict[str, Wait]
    """Until the better arm is shown to be safe in each."""
    decided: Wait
    """Until all of that."""
    wrong: float

    def slow(self, share: float) -> list[str]:
        """Guardrails that are not shown to be safe by the horizon in this share of experiments."""
        return [name for name, wait in self.guardrails.items() if math.isinf(wait.until(share))]


def forecast_metrics(
    name: str,
    *,
    means: Sequence[float],
    epsilon: float,
    metrics: Mapping[str, Mapping[str, Any]],
    horizon: int | None = None,
    confidence: float = 0.95,
    runs: int = 1000,
    seed: int = 0,
    seconds: float = math.inf,
    progress: Callable[[float], None] | None = None,
) -> MetricsForecast:
    """Simulate experiments in which the primary metric has these means and all others are the same with every arm.

    Parameters
    ----------
    name : a policy in blocks.
    means : of the primary metric, the control's first.
    epsilon : of a whole report.
    metrics : as a configuration has them; a metric's `rate` is its mean (a half of its range unless said).
    horizon : after how many users experiments end. None: long enough for nearly all.
    seconds : of the processor; there are fewer runs where so many would take more.
    progress : is told how much of the whole was done since it was last told.

    Examples
    --------
    >>> asked = {"a": {"role": "primary"}, "b": {"role": "guardrail", "margin": 0.2, "rate": 0.3}}
    >>> found = forecast_metrics("split", means=[0.3, 0.6], epsilon=2.0, metrics=asked, runs=100)
    >>> found.whole.until(0.5) <= found.primary.until(0.5) <= found.decided.until(0.8)
    True
    """
    table = checked_means(means)
    rate, lift = float(table[0]), float(table.max() - table[0])
    if lift <= 0:
        raise InvalidParameter("means", list(means), "numbers of which one is larger than the control's, the first")
    measured = Metrics.of(metrics, epsilon)
    terms = Terms(0, confidence, smallest_effect=lift, rate=min(max(rate, 1e-6), 1.0 - 1e-6))
    given: dict[str, Any] = {"epsilon": epsilon, "arms": len(table), "decision": terms}
    if horizon is None:
        horizon = _horizon(measured, rate, lift, len(table), confidence)
    best = int(table.argmax())
    beside = [Bernoulli([0.5 if one.unit_rate is None else one.unit_rate] * len(table)) for one in measured.others]
    watches: list[_Watch] = []
    decided: list[Wait] = []
    wrong = 0
    for part in parts(runs, seed, seconds / 2.0):
        # Policies that are not in blocks take no metrics.
        made = policy(name, horizon=integer("horizon", horizon, 1), runs=part.runs, metrics=metrics, **given)
        chosen, watch = cast(Concurrent, made), _Watch(measured, part.runs, best)
        told = part.share(progress, 2)
        world = Bernoulli(table)
        run = simulate(chosen, world, seed=part.seed, checkpoints=1, beside=beside, watch=watch, progress=told)
        assert run.decided is not None
        watches.append(watch)
        decided.append(Wait(np.where(chosen.winner == best, run.decided, np.inf)))
        wrong += int(run.false_decisions.sum())
    alone = forecast(
        name,
        means=list(means),
        epsilon=epsilon,
        trust=TRUST,
        confidence=confidence,
        runs=runs,
        seed=seed,
        seconds=seconds / 2.0,
        progress=progress and (lambda share: progress(share / 2.0)),
    )
    shown = Wait(np.concatenate([watch.shown for watch in watches]))
    guards = {guard: Wait(np.concatenate([watch.safe[guard] for watch in watches])) for guard in watches[0].safe}
    every = Wait.joined(decided)
    last = (alone.better, shown, guards, every, wrong / len(every.users))
    return MetricsForecast(name, epsilon, float(measured.shares[0]), chosen.ladder.first, horizon, *last)


class _Watch:
    """When the better arm was first shown to be better, and to be safe in each guardrail."""

    def __init__(self, metrics: Metrics, runs: int, best: int) -> None:
        self.best = best
        self.shown = np.full(runs, np.inf)
        self.safe = {one.name: np.full(runs, np.inf) for one in metrics if one.guards}

    def __call__(self, policy: Policy) -> None:
        chosen = cast(Concurrent, policy)
        users = chosen.users.astype(float)
        won = chosen.claims.won & (chosen.claims.leader == self.best)
        self.shown = np.where(won & np.isinf(self.shown), users, self.shown)
        for name, guard in zip(self.safe, chosen.guarded, strict=True):
            first = guard.safe[:, self.best] & np.isinf(self.safe[name])
            self.safe[name] = np.where(first, users, self.safe[name])


def _horizon(metrics: Metrics, rate: float, lift: float, arms: int, confidence: float) -> int:
    """Long enough for the primary metric and for every guardrail, each with its part of the budget."""
    needs = [(metrics.protocols[0], rate, lift), *metrics.guarded]
    return max(
        long_enough(protocol, mean, effect, arms, fixed_sample(mean, effect, arms, confidence=confidence))
        for protocol, mean, effect in needs
    )
