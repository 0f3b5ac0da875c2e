"""A linear bandit over batches that grow by a ratio: everyone is in one of them, and all sums accumulate.

[TKMS23]'s tree has every user in as many sums as it has levels, which share the budget. Here a user is in one sum, so
its noise is paid once, and j batches carry j noises. The price is that a growing share of all users chooses by what was
known before their batch began; see docs/personalisation.md for contexts on which that loses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between, by_name, integer, one_of, positive
from croupier.linear.noise_norms import largest_matrix, longest_vector
from croupier.linear.noise_sum import NoiseSum
from croupier.linear.norms import usual_norm
from croupier.linear.sets import NoiseBounds, Sets, chance_at
from croupier.linear.sums import GrowingSums, Sums
from croupier.privacy import Guarantee
from croupier.protocols import ROWS, Moments, Protocol, SumMechanism, protocol
from croupier.protocols.mechanism import TRUSTS

Floats = NDArray[np.float64]

PRECISION = 1024
"""Steps of a number: rounding is then little beside any noise, and the zeros of other actions' places are whole."""

RATIO = 1.3
"""By which the users summed grow from batch to batch."""

FIRST = 3.0
"""Users of the first batch, times the exploration, for each feature and unit of noise (see `first_batch`)."""

OPTIMISTS = 0.5
"""The share of devices that try what may be best; the others play what surely is good (see `Rule`)."""

TUNED = 0.15
"""An exploration that did well on instances which were then discarded; it has no guarantee."""

SMALLEST = 32
"""No batch is smaller."""

LARGEST_FIRST = 1 / 8
"""The first batch has at most this share of all users, who choose at random."""

NOISES: dict[str, tuple[str, ...]] = {
    trust: names
    for trust in TRUSTS
    if (names := tuple(name for name in ROWS.own if ROWS[name].vectors and trust in ROWS[name].trusts))
}
"""The protocols that sum vectors, by whom they trust; croupier's own, so that a replay weighs the same ones."""

LAWS = ("skellam", "laplace")
"""What noise is called here: of ε and δ, or of ε alone."""

WRAP = 2.0**-64
"""How often a modular sum may wrap around: it costs bits, and the sets count it."""

WEIGHTS = np.geomspace(0.3, 2.0, 35)
"""How much of the budget rewards may have, beside the features' products."""


@dataclass(frozen=True)
class GrowingPlan:
    """Batches that grow by `ratio`, what sums them, and how sums become a rule."""

    users: int
    protocol: Protocol
    sets: Sets
    first: int
    ratio: float = RATIO
    largest: int | None = None
    exploration: float = 1.0
    optimists: float = OPTIMISTS
    control: float = 0.0
    single: int | None = None

    def __post_init__(self) -> None:
        integer("users", self.users, 1)
        integer("first", self.first, 1, self.users)
        if not math.isfinite(self.ratio) or self.ratio <= 1.0:
            raise InvalidParameter("ratio", self.ratio, "a finite number > 1")
        if self.largest is not None:
            integer("largest", self.largest, 1)
        positive("exploration", self.exploration)
        between("optimists", self.optimists, 0, 1, "(]")
        between("control", self.control, 0, 1, "[)")
        if self.single is not None:
            integer("single", self.single, 0)
        if self.control and self.single is None and self.moments.places == 1:
            raise InvalidParameter("single", None, "the number of an action, where actions share a parameter")

    @property
    def moments(self) -> Moments:
        return cast(Moments, self.protocol.values)

    @property
    def dimension(self) -> int:
        """Of a feature vector."""
        return self.moments.features

    @property
    def privacy(self) -> Guarantee:
        """What a user is promised, who is in one batch."""
        notion = "approximate" if self.protocol.delta else "pure"
        return Guarantee(notion, self.protocol.epsilon, self.protocol.delta)

    @property
    def trust(self) -> str:
        return self.protocol.trusts

    def size(self, summed: int, came: int) -> int:
        """The next batch: what makes the users summed grow by the ratio; the last one takes a small rest with it."""
        left = self.users - came
        grown = max(self.first, math.ceil(summed * (self.ratio - 1.0))) if summed else self.first
        if self.largest is not None:
            grown = min(grown, max(self.largest, self.protocol.smallest))
        fits_once_more = left - grown >= max(grown // 2, self.protocol.smallest)
        return grown if fits_once_more else left

    def ends(self) -> Iterator[int]:
        """Where batches end if all of them fill.

        >>> list(growing_bandit(20_000, 2, epsilon=1.0, first=1_000, ratio=3.0).ends())
        [1000, 3000, 9000, 20000]
        """
        came = 0
        while came < self.users:
            came += self.size(came, came)
            yield came

    def mechanism(self, users: int) -> SumMechanism:
        """What sums a batch of so many users."""
        return self.protocol.plan(users)

    def sums(self) -> Sums:
        """Its batches under way, none yet."""
        return GrowingSums(self)

    def noise_bounds(self, sums: NoiseSum, sets: Sets | None = None) -> NoiseBounds:
        """How far the noise of these batches can have pushed the sums of one parameter, at this time."""
        part = (sets or self.sets).part * chance_at(sums.batches)
        return _noise_bounds(sums, self.moments, self.sets.norm, part)


@lru_cache(maxsize=4096)
def _noise_bounds(sums: NoiseSum, moments: Moments, norm: float, failure: float) -> NoiseBounds:
    """‖N‖ and ‖h - Nθ‖ along directions.

    vᵀNv combines the triangle's noises with v_i² and √2·v_iv_j: none above one, and their squares add up to one. Along
    v, h has v_i/w, and Nθ coefficients whose squares add up to ½(‖θ‖² + ⟨v, θ⟩²) <= S².
    """
    spare = failure - sums.wrap_probability
    if spare <= 0.0:
        raise InvalidParameter("failure", failure, f"above {sums.wrap_probability:.3g}, how often a sum wraps around")
    std, pull = math.sqrt(sums.variance), 1.0 / moments.weight
    together, most = pull**2 + norm**2, max(pull, norm)
    d = moments.features
    return NoiseBounds(
        largest_matrix(d, std, lambda slopes: sums.cumulant(slopes, 1.0, 1.0), spare),
        longest_vector(d, std * math.sqrt(together), lambda slopes: sums.cumulant(slopes, most, together), spare),
    )


@by_name
def growing_bandit(
    users: int,
    dimension: int,
    *,
    epsilon: float,
    delta: float = 1e-6,
    places: int = 1,
    trust: str = "two-servers",
    noise: str | None = None,
    weight: float | None = None,
    centred: bool = True,
    control: float = 0.0,
    single: int | None = None,
    failure: float | None = None,
    norm: float | None = None,
    reward_noise: float = 0.5,
    exploration: float = 1.0,
    optimists: float = OPTIMISTS,
    first: int | None = None,
    ratio: float = RATIO,
    largest: int | None = None,
    precision: int = PRECISION,
    honest_fraction: float = 1.0,
    front_noise: bool = False,
) -> GrowingPlan:
    """Plan a linear bandit whose batches grow by a ratio: [TKMS23] Alg. 4 with every user in one sum.

    Parameters
    ----------
    users : how many will come.
    dimension : how many numbers a feature vector has.
    epsilon, delta : the privacy of one user, who is in one batch. δ = 0 takes Laplace noise.
    places : 1 where all actions share one parameter, or how many actions have one each.
    trust : "two-servers", each of which adds a whole noise; "devices" or "shuffler", where a sum has one noise.
    noise : "skellam" or "laplace". None: the one that pushes the sums less.
    weight : how much of the budget rewards have beside the features' products. None: what pushes estimates least.
    centred : whether rewards count less ½; then the last number of every feature vector is √½, as with a context.
    control : the share of users who play the best single action, to measure what personalisation gains.
    single : the action that the control share plays. None: what the model takes for the best, where actions have
        parameters of their own.
    failure : α, the chance that a confidence set ever misses. None: 1/n.
    norm : the largest norm of a parameter, of centred rewards where they are centred. None: what the range of rewards
        implies where every action has a parameter and features are those of a `Context`; else 1 (see `usual_norm`).
    reward_noise : σ, the sub-Gaussian scale of a reward: ½ for rewards in [0, 1].
    exploration : scales how far estimates are taken to be off; only 1 is proven. `TUNED` did well.
    optimists : the share of devices that choose optimistically, all others pessimistically (see `Rule`).
    first : users of the first batch, who choose at random. None: see `first_batch`.
    ratio : by which the users summed grow from batch to batch.
    largest : the most users of a batch. None: no limit; needed where contexts may turn.
    precision : into how many steps each number is divided; with a proof of range an upload grows with its bits.
    honest_fraction, front_noise : of the protocol, where users are counted on (see `shuffled_vectors`).

    Examples
    --------
    >>> plan = growing_bandit(100_000, 5, epsilon=1.0)
    >>> plan.protocol.name, plan.trust, plan.first < 2_000
    ('shared-vectors', 'two-servers', True)
    >>> print(growing_bandit(100_000, 2, epsilon=1.0, delta=0.0).privacy)
    1-DP when one report is replaced
    """
    integer("users", users, SMALLEST)
    failure = 1.0 / users if failure is None else failure
    norm = usual_norm(dimension, integer("places", places, 1), centred) if norm is None else norm
    sets = Sets(failure, places, norm, reward_noise)
    between("delta", delta, 0, 1, "[)")
    between("control", control, 0, 1, "[)")
    moments = Moments(dimension, places, 1.0 / 2.0, centred, 0.5 if control else 0.0)
    names = NOISES[one_of("trust", trust, tuple(NOISES))]
    law = LAWS[True] if delta == 0.0 else None if noise is None else one_of("noise", noise, LAWS)
    if law is not None:
        names = tuple(name for name in names if LAWS[_pure(name)] == law)
    if not names:
        raise InvalidParameter("noise", law, f"{LAWS[False]}, with a delta above 0, where the {trust} is trusted")
    budget: dict[str, Any] = {"epsilon": epsilon, "trust": trust, "precision": integer("precision", precision, 2)}
    budget |= {} if honest_fraction == 1.0 else {"honest_fraction": honest_fraction}
    budget |= {"front_noise": True} if front_noise else {}
    candidates = [_weighed(name, moments, budget, delta, weight, norm) for name in names]
    shape: dict[str, Any] = {"ratio": ratio, "largest": largest, "control": control, "single": single}
    shape |= {"exploration": exploration, "optimists": optimists}
    plans = [GrowingPlan(users, asked, sets, min(users, asked.smallest), **shape) for asked in candidates]
    best = plans[0] if len(plans) == 1 else min(plans, key=_typical_push)
    chosen = first_batch(best) if first is None else integer("first", first, best.protocol.smallest, users)
    return replace(best, first=chosen)


def _weighed(
    name: str, moments: Moments, budget: dict[str, Any], delta: float, weight: float | None, norm: float
) -> Protocol:
    """The protocol with the weight of rewards at which noise pushes an estimate least.

    It pushes by the noise of a number, in proportion to how far users are apart, times √(1/w² + S²).
    """
    if weight is None:

        def push(w: float) -> float:
            own = replace(moments, weight=w)
            return (own.taxicab if _pure(name) else own.diameter) * math.hypot(1.0 / w, norm)

        weight = min((float(w) for w in WEIGHTS if w <= 1.0 / moments.most), key=push)
    given = dict(budget)
    if given["trust"] == ROWS[name].trust:
        given.pop("trust")  # as it is anyway
    if budget["trust"] != "two-servers":
        given.setdefault("wrap_failure", WRAP)
    if not _pure(name):
        given["delta"] = delta
    values = replace(moments, weight=weight)
    return protocol(name, dimension=values.dimension, **given).about(values)


def _pure(name: str) -> bool:
    """Whether a protocol promises ε alone: the distance of two users is then the sum of absolute differences."""
    return ROWS[name].notion == "pure"


def _typical_push(plan: GrowingPlan) -> float:
    """How far noise can push the sums when some batches are in, in which its law shows."""
    size = max(plan.protocol.smallest, SMALLEST)
    mechanism = plan.mechanism(size)
    sums = NoiseSum()
    for _ in range(4):
        sums = sums.plus(mechanism)
    return plan.noise_bounds(sums).joint


def first_batch(plan: GrowingPlan) -> int:
    """Users of the first batch: as many, for each feature of each parameter, as the noise of one batch can hide.

    They choose at random, so along a feature there is a user for each d of them. Where estimates are taken to be less
    far off than is proven, the batch is smaller in proportion.
    """
    least = max(SMALLEST, plan.protocol.smallest)
    push = plan.noise_bounds(NoiseSum().plus(plan.mechanism(least))).joint
    wanted = math.ceil(FIRST * plan.exploration * plan.dimension * plan.moments.places * push)
    most = max(least, int(LARGEST_FIRST * plan.users))
    return min(max(least, wanted), most, plan.users)
