"""A sum planned for one batch size: its noise, how far off it is, what it proves, and its serial form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, between, integer, one_of
from croupier.noise import Noise
from croupier.noise.serial import noise_from_dict, noise_to_dict
from croupier.privacy import Guarantee, Loss
from croupier.protocols.mechanism import (
    POSSIBLE,
    VERSION,
    Certificate,
    Mechanism,
    Residual,
    check_front,
    is_affordable,
)
from croupier.protocols.sums.carriers import CARRIERS, Carrier
from croupier.protocols.sums.error import deviation_with_rounding
from croupier.protocols.sums.values import AnyValues, values_from_dict, values_to_dict
from croupier.texts import plural

Floats = NDArray[np.float64]

SIDES = ("unbiased", "over", "under")
PARTIES = ("batch", "user", "analyzer", "servers")
SERVERS = 2


@dataclass(frozen=True)
class PlannedSum(Mechanism):
    """What is true of a private sum whoever carries it out: all that its carrier, and its release, ask about."""

    protocol: str
    constants: str
    users: int
    honest: int
    values: AnyValues
    precision: int
    share: Noise
    carrier: Carrier
    guarantee: Guarantee
    noise_from: str = "batch"
    side: str = "unbiased"
    front_shares: int = 0

    def __post_init__(self) -> None:
        integer("users", self.users, 1)
        one_of("noise_from", self.noise_from, PARTIES)
        integer("honest", self.honest, 0 if self.noise_from == "servers" else 1, self.users)
        integer("precision", self.precision, 1)
        one_of("side", self.side, SIDES)
        one_of("constants", self.constants, ("tight", "published", "proof"))
        if not isinstance(self.protocol, str):
            raise InvalidParameter("protocol", self.protocol, "a name")
        self.carrier.check_plan(self)
        check_front(self.front_shares, self.honest)
        if self.front_shares and not self.carrier.takes_front_noise:
            raise InvalidParameter("front_shares", self.front_shares, f"0 for {self.carrier.kind}")
        if self.guarantee.notion == "pure" and self.guarantee.delta != 0:
            raise InvalidParameter("delta", self.guarantee.delta, "0 for pure privacy")

    def __repr__(self) -> str:
        """What it is for, how far off a sum is, and what is promised."""
        spread = math.sqrt(self.variance + self.rounding_variance)
        of = "coordinate" if self.dimension > 1 else "sum"
        asked = f"{self.protocol} for {plural(self.users, 'user')}: {self.guarantee}"
        return f"{asked}; standard deviation {spread:.3g} of a {of}"

    @property
    def trust(self) -> str:
        return {"user": "nobody", "analyzer": "analyzer"}.get(self.noise_from, self.carrier.trust)

    @property
    def coordinates(self) -> int:
        """The number of axes of one user's value."""
        return self.values.coordinates

    @property
    def dimension(self) -> int:
        return self.values.dimension

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The axes of one user's value."""
        return (self.dimension,) * self.coordinates

    @property
    def checkable(self) -> bool:
        return self.values.checkable

    @property
    def outputs(self) -> int | None:
        return self.dimension if self.coordinates else None

    @property
    def extremes(self) -> tuple[Any, Any]:
        return self.values.extremes

    @cached_property
    def noise(self) -> Noise:
        """All the noise in the decoded number, when every party adds theirs."""
        parties = {"analyzer": 1, "servers": SERVERS}.get(self.noise_from, self.users + self.front_shares)
        return self.share if parties == 1 else self.share.times(parties)

    @property
    def guard(self) -> Noise:
        """The noise that is sure to hide any one user: that of the honest users, or of one party alone.

        The front's own noise has the same law as that of the honest users, so it hides as much.
        """
        return self.share.times(self.honest) if self.noise_from == "batch" else self.share

    @property
    def weight(self) -> int:
        """How far one encoded unit moves the decoded number."""
        return self.carrier.weight(self)

    @property
    def unit(self) -> float:
        """What one step of the decoded number is worth, in the values' own units."""
        return self.values.span / (self.precision * self.weight)

    @cached_property
    def loss(self) -> Loss:
        """The exact privacy loss of one user's change, against whoever sees the view."""
        return Loss(self.carrier.loss(self).releases, self.carrier.distance)

    @cached_property
    def promised(self) -> Loss:
        """The loss of all that the guarantee covers: of one batch, or of as many as a user may take part in."""
        count = self.guarantee.participations
        return self.loss if count == 1 else count * self.loss.dominating

    def estimate(self, decoded: ArrayLike) -> Floats:
        """The sum of the users' values, in their own units, from decoded numbers."""
        shift = 0.0 if self.side != "unbiased" else self.noise.mean
        steps = np.asarray(decoded, dtype=np.float64) - shift
        total = self.values.decode(steps, self.users, self.precision * self.weight)
        return self.users * (self.values.low + self.values.high) - total if self.side == "under" else total

    def unit_sums(self, decoded: ArrayLike) -> Floats:
        """Unbiased sums of the values mapped to [0, 1], from decoded numbers, whatever side they err to."""
        steps = (np.asarray(decoded, dtype=np.float64) - self.noise.mean) * (self.unit / self.values.span)
        return self.users - steps if self.side == "under" else steps

    @property
    def variance(self) -> float:
        """The variance that noise adds to the sum (per coordinate), in the values' own units."""
        return self.noise.variance * self.unit**2

    @property
    def rounding_variance(self) -> float:
        """What encoding can add to that at most: a coin toss a user, when no value is a whole level."""
        return 0.0 if self.values.binary else self.users * (self.values.span / self.precision) ** 2 / 4.0

    @cached_property
    def wrap_probability(self) -> float:
        """A bound on the chance that the modular sum wraps around, which is an error of the size of the batch."""
        return 0.0 if self.noise_from == "analyzer" else self.carrier.wrap_probability(self.noise)

    @cached_property
    def possible(self) -> tuple[int, int]:
        """Between which decoded numbers a batch lies, except with probability 2^-40, if at least the honest add noise.

        Values add up to something in [0, n·g]; what lies beyond that and the noise was spoilt.
        """
        fewest = self.noise if self.noise_from != "batch" else self.share.times(self.honest + self.front_shares)
        noises, odds = (self.noise, fewest), POSSIBLE / (4.0 * self.dimension)
        low = min(noise.quantile(odds) for noise in noises)
        high = max(noise.tail_quantile(odds) for noise in noises)
        return low, high + self.weight * self.users * self.precision

    def radius(self, failure: float) -> float:
        """A bound on the error of the sum (of every coordinate) that fails with at most this probability.

        Exact noise quantiles, the rounding by Hoeffding's bound within them, and the chance of a wrap-around set aside
        first. Infinite when that alone is larger.
        """
        failure = float(between("failure", failure, 0, 1))
        spare = failure / self.dimension - self.wrap_probability
        if spare <= 0.0:
            return math.inf
        if self.side != "unbiased":
            return self.noise.tail_quantile(spare) * self.unit
        rounding = 0 if self.values.binary else self.users * self.weight**2
        return deviation_with_rounding(self.noise, rounding, spare) * self.unit

    @property
    def omission_bias(self) -> float:
        """How far, at most, the users not counted as honest can push the sum by leaving their noise out."""
        if self.noise_from in ("analyzer", "servers"):
            return 0.0
        return (self.users - self.honest) * abs(self.share.mean) * self.unit

    @property
    def messages_per_user(self) -> float:
        return self.carrier.messages_per_user(self)

    @property
    def bits_per_user(self) -> float:
        return self.messages_per_user * self.carrier.bits_per_message(self)

    @property
    def message_bytes(self) -> int:
        """The length of every message."""
        return self.carrier.message_bytes(self)

    @cached_property
    def residual(self) -> Residual:
        bare = self.noise_from in ("analyzer", "servers")
        return Residual(math.inf, 1.0) if bare else self.carrier.residual(self)

    def summary(self, decoded: int | Sequence[int]) -> dict[str, float]:
        if self.coordinates:
            return {}
        total = float(self.estimate(decoded))
        return {"sum": total, "mean": total / self.users}

    def certificate(self) -> Certificate:
        return self._certificate

    @cached_property
    def _certificate(self) -> Certificate:
        claim = self.guarantee
        loss = self.promised
        divergence = None if claim.order is None else loss.rdp(claim.order)
        rho = None if claim.rho is None else loss.zcdp
        return Certificate(claim, loss.epsilon(claim.delta), loss.delta(claim.epsilon), rho, divergence)

    @cached_property
    def recipe(self) -> dict[str, Any]:
        body = self.to_dict()
        recipe = {key: body[key] for key in ("protocol", "constants", "values", "side")}
        return recipe | {"front_noise": self.front_shares > 0} | self.carrier.recipe(self)

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "protocol": self.protocol,
            "constants": self.constants,
            "users": self.users,
            "honest": self.honest,
            "values": values_to_dict(self.values),
            "precision": self.precision,
            "share": noise_to_dict(self.share),
            "carrier": self.carrier.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "noise_from": self.noise_from,
            "side": self.side,
        } | ({"front_shares": self.front_shares} if self.front_shares else {})

    @classmethod
    def _read(cls, body: dict[str, Any], affordable: bool) -> Self:
        share, carrier = noise_from_dict(body["share"]), dict(body["carrier"])
        parties = 1 if body["noise_from"] == "servers" else body["users"]
        if affordable and not is_affordable(share, parties):
            raise InvalidParameter("share", str(share), f"noise that {body['users']} devices can compute with")
        parts = {
            "values": values_from_dict(body["values"]),
            "share": share,
            "carrier": CARRIERS[carrier.pop("kind")](**carrier),
            "guarantee": Guarantee.from_dict(body["guarantee"]),
        }
        return cls(**body | parts)
