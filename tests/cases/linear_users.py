"""Users of a personalised experiment in one process, who choose by its rule and report what it asks for."""

from typing import Any

import numpy as np

from croupier.noise import seeded
from croupier.personal import Rule
from croupier.programs.linear import LinearProgram
from croupier.protocols import SumMechanism


def vectors_of(running: LinearProgram, users: int, source: Any, rule: Rule | None = None) -> Any:
    """What so many users report: who has more of the first feature likes the first action, others the second."""
    personal, moments = running.personal, running.plan.moments
    values = source.generator.random((users, len(personal.context.features)))
    ends = np.array([(one.low, one.high) for one in personal.context.features])
    x = personal.context.rows(ends[:, 0] + values * (ends[:, 1] - ends[:, 0]))
    offered = personal.combined(x) if personal.described else x
    actions, control = (rule or running.server.rule).play(offered, source)
    own = offered[np.arange(users), actions] if personal.described else offered
    likes = np.where(actions == 0, values[:, 0], np.where(actions == 1, 1.0 - values[:, 0], 0.3))
    rewards = (source.generator.random(users) < likes).astype(float)
    return moments.of(own, rewards, 0 if personal.described else actions, control)


def summed(running: LinearProgram, mechanism: SumMechanism, seed: int) -> list[int]:
    """What a batch of them decodes to."""
    source = seeded(seed)
    return list(mechanism.simulate(vectors_of(running, mechanism.users, source), source).decoded)
