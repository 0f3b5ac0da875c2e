"""What a histogram or a selection is asked for, and which frequency oracle meets it in which model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, between, one_of, positive
from croupier.noise import BoundedLaplace, DiscreteLaplace
from croupier.noise.serial import noise_from_dict
from croupier.noise.window import TooWide
from croupier.privacy import Guarantee, calibrate, move_loss
from croupier.protocols.histograms.central import BoundedStable, NoisyCounts, ThresholdStable, published_threshold
from croupier.protocols.histograms.choice import ExponentialMechanism, PermuteAndFlip, StableChoice, stable_threshold
from croupier.protocols.histograms.coins import HEADS, Coins, least_coins
from croupier.protocols.histograms.labelled import LabelledMessages
from croupier.protocols.histograms.least_noise import tight_noise
from croupier.protocols.histograms.local import ProjectiveResponse, best_response, hadamard_response
from croupier.protocols.histograms.oracles import FrequencyOracle, Selector
from croupier.protocols.histograms.shared_counts import SharedCounts
from croupier.protocols.mechanism import Certificate
from croupier.protocols.sums.counted import proof_noise, published_noise
from croupier.protocols.sums.protocol import DEFAULT_DELTA, LARGEST_EPSILON

MODELS = ("two-servers", "shuffle", "local", "central", "central-pure")
PURE = ("two-servers", "local", "central-pure")
TRUSTED = {
    "two-servers": "two-servers",
    "shuffler": "shuffle",
    "nobody": "local",
    "analyzer": "central",
}
"""The model in which items are counted, by whom one trusts."""


def trusted_model(trust: str) -> str:
    """The model in which this party is trusted; where there is none, a refusal that says which there are."""
    return TRUSTED[one_of("trust", trust, tuple(TRUSTED))]


CONSTANTS = ("tight", "published", "proof")
SIDES = ("over", "under", "both")
WISHES = ("error", "messages")

ORACLES: dict[str, type[Any]] = {
    oracle.kind: oracle
    for oracle in (
        LabelledMessages,
        Coins,
        ProjectiveResponse,
        BoundedStable,
        ThresholdStable,
        NoisyCounts,
        SharedCounts,
        PermuteAndFlip,
        StableChoice,
        ExponentialMechanism,
    )
}


@dataclass(frozen=True)
class Target:
    """A privacy target in a model.

    `published` takes the papers' noise ([GKM21] Theorem 39 at ε/2 and δ/2; Hadamard response; a threshold by the usual
    formula; the exponential mechanism), `proof` the larger noise of Corollary 40's proof at `failure`, `tight` the
    least that exact calculation allows. In the shuffle model `minimise` says least in what: the error (`over`: of the
    unbiased counts; `under`: of the counts that are never above the truth), or the messages with that last error.
    With `front_noise` the front of a service adds a whole noise of its own.
    """

    epsilon: float
    delta: float | None = None
    model: str = "shuffle"
    constants: str = "tight"
    side: str | None = None
    honest_fraction: float = 1.0
    failure: float = 0.05
    minimise: str = "error"
    front_noise: bool = False

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidParameter("epsilon", self.epsilon, f"a number in (0, {LARGEST_EPSILON:g}]")
        one_of("model", self.model, MODELS)
        one_of("constants", self.constants, CONSTANTS)
        between("honest_fraction", self.honest_fraction, 0, 1, "(]")
        between("failure", self.failure, 0, 1)
        one_of("minimise", self.minimise, WISHES)
        if self.minimise != "error" and (self.model, self.constants) != ("shuffle", "tight"):
            raise InvalidParameter("minimise", self.minimise, "error but for the shuffle model's tight constants")
        if self.front_noise and (self.model, self.side == "both") != ("shuffle", False):
            # Coins by seat are no sum of like shares, so nobody can add a whole noise of them.
            raise InvalidParameter("front_noise", self.front_noise, "false but for one-sided counts by a shuffler")
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", self._delta())
        if self.model == "shuffle":
            one_of("side", self.side or "over", SIDES)
            if self.side == "both" and self.constants != "tight":
                raise InvalidParameter("constants", self.constants, "tight for side = 'both', which no paper has")
        else:
            if self.side is not None:
                raise InvalidParameter("side", self.side, f"left out in the {self.model} model")
            self._check_no_crowd()
        if self.constants == "proof" and self.model != "shuffle":
            raise InvalidParameter("constants", self.constants, f"tight or published in the {self.model} model")
        if self.constants != "tight" and self.model not in PURE and self.epsilon >= 1:
            limit = "a number in (0, 1) with published constants ([GKM21] Lemmas 36 and 37)"
            raise InvalidParameter("epsilon", self.epsilon, limit)

    def _check_no_crowd(self) -> None:
        """Without a shuffler no user is counted on for the others' privacy; nobody has published two servers' noise."""
        if self.honest_fraction != 1.0:
            nobody = f"left out: in the {self.model} model no user is counted on"
            raise InvalidParameter("honest_fraction", self.honest_fraction, nobody)
        if self.model == "two-servers" and self.constants != "tight":
            raise InvalidParameter("constants", self.constants, "tight where the servers add the noise")

    def _delta(self) -> float:
        if self.model in PURE:
            if self.delta not in (None, 0, 0.0):
                raise InvalidParameter("delta", self.delta, f"0 or left out: the {self.model} model is purely private")
            return 0.0
        return float(between("delta", DEFAULT_DELTA if self.delta is None else self.delta, 0, 1))

    def __str__(self) -> str:
        """What is promised in which model, and what is not as it always is."""
        usual = Target(self.epsilon, self.delta, self.model, self.constants)
        own = [f.name for f in fields(self) if getattr(self, f.name) != getattr(usual, f.name)]
        said = [f"{self.model} model", f"{self.constants} constants", *(f"{key} = {getattr(self, key)}" for key in own)]
        return f"{self.guarantee}, {', '.join(said)}"

    @property
    def guarantee(self) -> Guarantee:
        assert self.delta is not None
        return Guarantee("pure" if self.model in PURE else "approximate", self.epsilon, self.delta)

    def honest(self, users: int) -> int:
        """How many users of a batch are counted on: ⌈γn⌉."""
        return max(1, math.ceil(self.honest_fraction * users - 1e-9))

    def front_shares(self, users: int) -> int:
        """How many parties' noise the front adds to a batch: as many as are counted on, or none."""
        return self.honest(users) if self.front_noise else 0

    def oracle(self, size: int, users: int) -> FrequencyOracle:
        """The way to count that meets the target."""
        oracle: FrequencyOracle = self._planned(_PLANS[self.model], size, users)
        return oracle

    def selector(self, size: int, users: int) -> Selector:
        """The way to choose: by counting, except where a trusted analyzer can do with less than all counts."""
        plan = _CHOICES.get((self.model, self.constants))
        return self.oracle(size, users) if plan is None else self._planned(plan, size, users)

    def _planned(self, plan: Callable[[Target, int, int], Any], size: int, users: int) -> Any:
        """What a plan makes, certified; a refusal of some part of ε is one of the ε that was asked for."""
        try:
            return certified(plan(self, size, users), self.guarantee)
        except InvalidParameter as error:
            given = vars(self) | {"size": size, "users": users}
            own = error.name in given and error.value == given[error.name]
            raise (error if own else self._no_noise()) from None
        except (TooWide, ArithmeticError):
            raise self._no_noise() from None

    def _no_noise(self) -> InvalidParameter:
        way = "larger" if self.epsilon < 1.0 else "smaller"
        return InvalidParameter("epsilon", self.epsilon, f"{way}: the {self.model} model has no noise for it")


@lru_cache(maxsize=1024)
def certificate_of(oracle: Selector, claim: Guarantee) -> Certificate:
    """The privacy of the view recomputed from the noise itself, beside the claim."""
    epsilon, delta = oracle.loss.epsilon(claim.delta), oracle.loss.delta(claim.epsilon)
    # δ is the finer of the two where releases compose: what it proves is proven.
    return Certificate(claim, min(epsilon, claim.epsilon) if delta <= claim.delta else epsilon, delta)


def certified(oracle: Any, claim: Guarantee) -> Any:
    """The oracle, or a refusal where its privacy cannot be proven."""
    proven = certificate_of(oracle, claim)
    if not proven.holds:
        asked = f"epsilon = {claim.epsilon:g} and delta = {claim.delta:g} were asked for"
        raise CroupierError(f"{oracle.kind}: {asked}, and δ = {proven.delta:.3g} is what could be proven")
    return oracle


def _shuffled(target: Target, size: int, users: int) -> FrequencyOracle:
    assert target.delta is not None
    honest = target.honest(users)
    if target.side == "both":
        coins, sure = least_coins(target.epsilon, target.delta, HEADS, honest, users)
        return Coins(size, users, honest, coins, sure, HEADS)
    if target.constants == "tight":
        side = target.side or "over"
        least = "variance" if (side, target.minimise) == ("over", "error") else "quantile"
        noise = tight_noise(target.epsilon, target.delta, least)
        return LabelledMessages(size, users, honest, noise.share(honest), side, target.front_shares(users))
    half = target.epsilon / 2.0, target.delta / 2.0
    wide = published_noise(*half) if target.constants == "published" else proof_noise(*half, target.failure)
    side = target.side or "under"
    return LabelledMessages(size, users, honest, wide.share(honest), side, target.front_shares(users))


def _local(target: Target, size: int, users: int) -> FrequencyOracle:
    if target.constants == "tight":
        return best_response(target.epsilon, size, users, target.failure, "radius")
    return hadamard_response(target.epsilon, size, users)


def _central(target: Target, size: int, users: int) -> FrequencyOracle:
    assert target.delta is not None
    if target.constants == "tight":
        return BoundedStable(size, users, _bounded_noise(target.epsilon, target.delta))
    threshold = published_threshold(target.epsilon, target.delta)
    return ThresholdStable(size, users, DiscreteLaplace(2 / Fraction(target.epsilon)), threshold)


@lru_cache(maxsize=256)
def _bounded_noise(epsilon: float, delta: float) -> BoundedLaplace:
    return calibrate(BoundedLaplace, epsilon=epsilon, delta=delta, loss=move_loss)


def _pure(target: Target, size: int, users: int) -> FrequencyOracle:
    return NoisyCounts(size, users, _pure_noise(target))


def _pure_noise(target: Target) -> DiscreteLaplace:
    """Of scale 2/ε: a user's move changes two counts by one."""
    return DiscreteLaplace(2 / Fraction(target.epsilon))


_PLANS: dict[str, Callable[[Target, int, int], FrequencyOracle]] = {
    "two-servers": lambda target, size, users: SharedCounts(size, users, _pure_noise(target)),
    "shuffle": _shuffled,
    "local": _local,
    "central": _central,
    "central-pure": _pure,
}


def _stable_choice(target: Target, size: int, users: int) -> Selector:
    assert target.delta is not None
    threshold = stable_threshold(target.epsilon, target.delta)
    return StableChoice(size, users, 2 / Fraction(target.epsilon), threshold)


_CHOICES: dict[tuple[str, str], Callable[[Target, int, int], Selector]] = {
    ("local", "tight"): (
        lambda target, size, users: best_response(target.epsilon, size, users, target.failure, "winner_error")
    ),
    ("central", "tight"): _stable_choice,
    ("central-pure", "tight"): lambda target, size, users: PermuteAndFlip(size, users, 2 / Fraction(target.epsilon)),
    ("central-pure", "published"): (
        lambda target, size, users: ExponentialMechanism(size, users, 2 / Fraction(target.epsilon))
    ),
}


def oracle_from_dict(data: dict[str, Any]) -> Selector:
    """Read an oracle back."""
    body = dict(data)
    kind = body.pop("kind")
    if kind not in ORACLES:
        raise InvalidParameter("kind", kind, "one of " + ", ".join(ORACLES))
    for name in ("noise", "share"):
        if name in body:
            body[name] = noise_from_dict(body[name])
    for name in ("keep", "heads", "scale"):
        if name in body:
            body[name] = Fraction(body[name])
    oracle: Selector = ORACLES[kind](**body)
    return oracle
