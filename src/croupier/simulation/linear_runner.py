"""Run linear bandits on simulated users: everyone of an open batch chooses by the same rule, so many at once.

`MODELS` lists them: those of `croupier.linear`, and other authors'. The latter are references: their noise is
continuous and drawn in the simulation, so they are never deployable. `linear_players` holds what each model does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, integer, one_of
from croupier.frames import Rows, Tabular
from croupier.linear import Gain
from croupier.noise import seeded
from croupier.personal import Rule
from croupier.simulation.linear_players import MODELS, Build, Needs, Player
from croupier.simulation.linear_worlds import LinearWorld

Floats = NDArray[np.float64]

CHUNK = 8192
"""Users who choose at once, at most: their features stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class LinearRun(Tabular):
    """Pseudo-regret after each batch, or chunk of one, and whether the confidence set always held the parameter.

    >>> from croupier.simulation.linear_worlds import Sphere
    >>> run = simulate_linear("linucb", Sphere(3, 5, seed=1), 320, seed=1)
    >>> len(run.rows), run.rows[-1]["users"], run.summary()["held"]
    (10, 320, True)
    """

    users: NDArray[np.int64]
    regret: Floats
    held: bool | None
    rule: Rule
    vacuous: float
    """The share of users during whom β‖x‖_{V⁻¹} was above 1 for all: the proven bound then says nothing."""
    reward: float = 0.0
    """The mean reward of a user."""
    gain: Gain | None = None
    """What a control share measured, where there is one."""

    @property
    def rows(self) -> Rows:
        """One row a batch, or chunk of one: the users by then, and their regret."""
        curve = zip(self.users.tolist(), self.regret.tolist(), strict=True)
        return Rows({"users": users, "regret": regret} for users, regret in curve)

    def _repr_html_(self) -> str:
        return Rows([self.summary()])._repr_html_()

    def summary(self) -> dict[str, Any]:
        """The numbers that a table shows."""
        told: dict[str, Any] = {"held": self.held, "vacuous": self.vacuous, "reward": self.reward}
        if self.gain is not None:
            told |= {"gain": self.gain.gain, "gain_lower": self.gain.lower, "gain_upper": self.gain.upper}
        return self.rows[-1] | told

    def at(self, points: NDArray[np.int64]) -> Floats:
        """Regret at given numbers of users, straight between blocks."""
        return np.asarray(np.interp(points, np.append(0, self.users), np.append(0.0, self.regret)))


def simulate_linear(
    model: str | Build,
    world: LinearWorld,
    users: int,
    *,
    seed: int,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    shufflers: int | None = None,
    constants: str = "tight",
    failure: float | None = None,
    exploration: float = 1.0,
    block: int = 32,
    trust: str = "shuffler",
    control: float = 0.0,
    each: bool = False,
    progress: Callable[[float], None] | None = None,
    **growing: object,
) -> LinearRun:
    """Play `users` users. References read their sums every `block` users; others when a batch is full.

    `model` is one of `MODELS`, or a function like those. `trust`, `control` and `growing` (`first`, `ratio`, `largest`,
    `noise`, ...) go to `growing_bandit`. `each` lets users choose one by one instead of many at once: slower, and the
    same.
    """
    build = MODELS[one_of("model", model, tuple(MODELS))] if isinstance(model, str) else model
    integer("users", users, 2 * integer("block", block, 1))
    failure = failure if failure is not None else 1.0 / users
    source = seeded(seed)
    needs = Needs(
        world, users, epsilon, delta, constants, failure, exploration, shufflers, block, trust, control, growing
    )
    player = build(needs, source)
    ends, regrets, held, regret, blind, earned, came = [], [], True, 0.0, 0.0, 0.0, 0
    while came < users:
        # What is over when the last batch is full still plays by the last rule.
        count = min(player.room or users - came, users - came, CHUNK)
        offers = world.offer(count, source.generator)
        rule = player.rule
        features = player.seen(offers.features)
        if each:
            one_by_one = [rule.play(own, source) for own in features]
            played, control_share = (np.asarray([part[i] for part in one_by_one]) for i in range(2))
        else:
            played, control_share = rule.play(features, source)
        rows = np.arange(count)
        means = offers.means[rows, played]
        regret += float((offers.means.max(axis=1) - means).sum())
        rewards = (source.generator.random(count) < means).astype(np.float64)
        earned += float(rewards.sum())
        blind += count * says_nothing(rule)
        if player.room:
            chosen = features[rows, played] if features.ndim == 3 else features
            player.take(chosen, rewards, played, control_share)
        came += count
        ends.append(came)
        regrets.append(regret)
        if player.rule is not rule:
            held = held and _holds(player, world)
        if progress is not None:
            progress(count / users)
    known = held if world.theta is not None else None
    return LinearRun(
        np.asarray(ends), np.asarray(regrets), known, player.rule, blind / users, earned / users, player.gain()
    )


def _holds(player: Player, world: LinearWorld) -> bool:
    truth = world.centred if player.centred else world.theta
    return truth is None or player.rule.holds(truth)


def says_nothing(rule: Rule) -> bool:
    """Whether even the best known direction has a confidence interval wider than all rewards."""
    return rule.blank or all(np.add(*own[0].half_widths).min() > 1.0 for own in rule.beliefs)


def exponent(users: NDArray[np.int64], regret: Floats, first: float = 0.01) -> float:
    """The slope of log regret over log users, from the given share of the run on."""
    if not 0 < first < 1:
        raise InvalidParameter("first", first, "a number in (0, 1)")
    late = (users >= first * users[-1]) & (regret > 0.0)
    return float(np.polyfit(np.log(users[late]), np.log(regret[late]), 1)[0])
