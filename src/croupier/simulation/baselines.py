"""Algorithms of other authors with continuous noise: references to compare with, never to deploy.

They draw their noise inside the simulation, from doubles, so they would leak on a real machine [Mir12].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.bandits import POLICIES, Elimination, Entry, Ladder, Policy, Request
from croupier.bandits.elimination import EVERYONE, Radius
from croupier.bandits.making import policy
from croupier.bandits.policy import Bools, Integers
from croupier.checks import CroupierError, InvalidParameter, between, ignored, one_of, positive
from croupier.comparisons.tails import TILTS, Floats, Tails
from croupier.protocols import ROWS, Protocol
from croupier.protocols.mechanism import TRUSTS
from croupier.registry import Registry


class DPSE(Elimination):
    """DP-SE in the central model [SS19]: batches sized by the gap that phase e looks for.

    R_e = max{32 log(8|V|e²/p)/Δ_e², 8 log(4|V|e²/p)/(εΔ_e)} + 1 with Δ_e = 2^-e; Laplace noise of scale 1/ε on every
    arm's sum, independently; an arm is removed when another is better by more than twice the radius. `part` of R_e is
    what a batch has: 1 as printed, less to ask what its constants cost.
    """

    def __init__(self, arms: int, horizon: int | None, epsilon: float, *, part: float = 1.0, **common: Any) -> None:
        self.epsilon = float(positive("epsilon", epsilon))
        self.part = float(between("part", part, 0, 1, "(]"))
        super().__init__(
            arms, horizon, Ladder(None, 1, 1.0), accumulate=False, radius=DPSERadius(self.epsilon), **common
        )

    def sizes(self, runs: Integers, arms: Integers) -> Integers:
        """R_e, and everyone for the last arm in play."""
        gap = np.exp2(-(self.phase[:, None] + 1.0))
        log8, log4 = _logs(self, self.phase[:, None] + 1.0)
        size = np.ceil(self.part * (np.maximum(32.0 * log8 / gap**2, 8.0 * log4 / (self.epsilon * gap)) + 1.0))
        size = np.where(self.settled[:, None], EVERYONE, np.minimum(size, EVERYONE))
        return np.asarray(size[runs, 0], dtype=np.int64)

    def over(self, protocol: Protocol | None, noise: float) -> Elimination:
        raise CroupierError(f"{self.name} has a noise of its own and no protocol")

    def batch_noise(self, users: int) -> Tails:
        """-log(1 - (l/ε)²): Laplace noise of scale 1/ε, whatever the size of the batch."""
        ratio = np.minimum(TILTS / self.epsilon, 1.0)
        with np.errstate(divide="ignore"):
            either_side = -np.log1p(-(ratio**2))
        return Tails(either_side, either_side)

    def disturb(self, sums: Floats, released: Bools, generator: np.random.Generator) -> Floats:
        return sums + np.where(released, generator.laplace(0.0, 1.0 / self.epsilon, sums.shape), 0.0)


@dataclass(frozen=True)
class DPSERadius(Radius):
    """√(log(8|V|e²/p)/2n) + log(4|V|e²/p)/(nε) in phase e, with n users of an arm."""

    epsilon: float

    def __call__(self, policy: Elimination) -> Floats:
        count = np.maximum(policy.counts, 1)
        log8, log4 = _logs(policy, policy.step.astype(float))
        return np.asarray(np.sqrt(log8 / (2.0 * count)) + log4 / (count * self.epsilon))

    def scaled(self, factor: float) -> DPSERadius:
        return DPSERadius(self.epsilon / factor if factor else math.inf)


def _logs(policy: Elimination, phase: Floats) -> tuple[Floats, Floats]:
    """log(8|V|e²/p) and log(4|V|e²/p)."""
    union = policy.in_play * phase**2 / policy.probability
    return np.log(8.0 * union), np.log(4.0 * union)


def _dp_se(request: Request) -> Policy:
    if request.epsilon is None:
        raise InvalidParameter("epsilon", None, "given: dp-se is private")
    return DPSE(request.arms, request.horizon, request.epsilon, failure=request.failure, **request.common())


@dataclass(frozen=True)
class Reference(Entry):
    """A baseline that is private by its own noise, not by a protocol."""

    @property
    def notion(self) -> str:
        return "pure"


REFERENCES: dict[str, Entry] = {"dp-se": Reference("dp-se", "DP-SE", "analyzer", None, "[SS19], a baseline", _dp_se)}

ALL_POLICIES: Registry[Entry] = POLICIES.extended(REFERENCES)
"""Everything that can be simulated."""


OPTIONS = ("scaling", "participations", "trust")
"""Options of protocols that commands hand through to a policy's own."""


BUDGET = ("epsilon", "delta", "constants")
"""What is said once of the privacy of all policies of a comparison, for those that read it."""

IN_BLOCKS = ("smallest_effect", "reporting", "reporting_zeros", "delay")
"""What only policies in blocks read: what is worth finding, who reports, and when."""


def read_options(name: str, over: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a protocol's options that a policy reads, over its own protocol or another; None is not given.

    A private policy that does not read `participations` is refused: it would promise less than it seems to. So is one
    that cannot trust whom it is asked to.

    >>> read_options("dist-rdp-se", None, {"scaling": 100.0}), read_options("dist-dp-se", None, {"scaling": 100.0})
    ({'scaling': 100.0}, {})
    """
    entry = ALL_POLICIES.find(name)
    kind = over or entry.protocol
    given = {key: value for key, value in given.items() if value is not None}
    if entry.notion == "none":
        return {}
    if kind is None and given.get("participations", 1) != 1:
        own = f"1: {name} has noise of its own, for one batch"
        raise InvalidParameter("participations", given["participations"], own)
    trust = given.pop("trust", None)
    if kind is None:
        if trust is not None and one_of("trust", trust, TRUSTS) != entry.model:
            raise InvalidParameter("trust", trust, f"{entry.model} for {name}, which has noise of its own")
        return {}
    row = ROWS.find(kind)
    return {key: value for key, value in given.items() if key in row.options} | row.trusting(trust)


def reads(name: str, over: str | None) -> tuple[str, ...]:
    """What a policy reads of that which is said once for all policies of a comparison.

    >>> reads("kl-ucb", None), reads("dp-se", None)
    ((), ('epsilon', 'trust'))
    """
    entry = ALL_POLICIES.find(name)
    kind = over or entry.protocol
    if entry.notion == "none":
        return ()
    if kind is None:
        return ("epsilon", "trust")
    return ("protocol", "constants", "trust", *ROWS.find(kind).takes, *(IN_BLOCKS if entry.in_blocks else ()))


def check_read(names: Iterable[str], over: str | None, given: Mapping[str, Any]) -> None:
    """Refuse an option that none of these policies reads; None is not given."""
    chosen = list(names)
    read = {key for name in chosen for key in reads(name, over)}
    for name in chosen:
        read_options(name, over, {key: given.get(key) for key in OPTIONS})
    for key, value in given.items():
        if value is not None and key not in read:
            raise ignored(key, value, chosen)


def simulated_policy(name: str, *, arms: int, horizon: int | None, **options: Any) -> Policy:
    """Make any policy by name, references included, for a simulation.

    Parameters
    ----------
    name : one of `croupier policies`, or an installed one.
    arms : how many arms there are.
    horizon : how many users will come. None: unknown.
    options : as `croupier.bandits.policy` has them.

    Examples
    --------
    >>> simulated_policy("dp-se", arms=3, horizon=10_000, epsilon=1.0).name
    'dp-se'
    """
    return policy(ALL_POLICIES.find(name), arms=arms, horizon=horizon, **options)
