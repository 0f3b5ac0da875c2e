"""A protocol planned for one batch size: what each device sends, what the analyzer makes of it, and what it proves."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, between, integer, one_of
from croupier.frames import Rows, Tabular
from croupier.noise import Noise, Skellam, Source
from croupier.noise.serial import noise_from_dict, noise_to_dict
from croupier.privacy import Guarantee, Loss, privacy_loss, skellam_divergence, vector_loss
from croupier.protocols.sums.carriers import (
    CARRIERS,
    Carrier,
    ShuffledMessages,
    SplitAndMix,
    TamperedMessage,
)
from croupier.protocols.sums.error import deviation_with_rounding
from croupier.protocols.sums.values import Ball, Values, encode

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

VERSION = 1
SIDES = ("unbiased", "over", "under")
PARTIES = ("batch", "user", "analyzer")
POSSIBLE = 2.0**-40
"""How often an honest batch may decode to what is taken for damage."""


@dataclass(frozen=True)
class Mechanism:
    """One private sum over `users` users, calibrated: frozen, serializable, with its certificate.

    `share` is the noise of one party and `noise_from` says which: every user of the batch, whose shares hide each of
    them together ("batch"); every user, whose own share must suffice ("user"); or the trusted analyzer ("analyzer").
    `front_shares` of noise come from the front besides: a whole noise, which hides a user among strangers only.
    """

    protocol: str
    constants: str
    users: int
    honest: int
    values: Values | Ball
    precision: int
    share: Noise
    carrier: Carrier
    guarantee: Guarantee
    noise_from: str = "batch"
    side: str = "unbiased"
    front_shares: int = 0

    def __post_init__(self) -> None:
        integer("users", self.users, 1)
        integer("honest", self.honest, 1, self.users)
        integer("precision", self.precision, 1)
        one_of("noise_from", self.noise_from, PARTIES)
        one_of("side", self.side, SIDES)
        one_of("constants", self.constants, ("tight", "published", "proof"))
        if not isinstance(self.protocol, str):
            raise InvalidParameter("protocol", self.protocol, "a name")
        self.carrier.check_plan(self)
        check_front(self.front_shares, self.honest)
        if self.front_shares and not isinstance(self.carrier, ShuffledMessages | SplitAndMix):
            raise InvalidParameter("front_shares", self.front_shares, f"0 for {self.carrier.kind}")
        if (self.noise_from == "analyzer") != (self.protocol == "central-laplace"):
            # A device must not be talked into sending its value without noise.
            raise InvalidParameter("noise_from", self.noise_from, "analyzer for central-laplace, and for nothing else")
        if self.guarantee.notion == "pure" and self.guarantee.delta != 0:
            raise InvalidParameter("delta", self.guarantee.delta, "0 for pure privacy")

    @property
    def coordinates(self) -> int:
        """The number of axes of one user's value."""
        return 1 if isinstance(self.values, Ball) else 0

    @property
    def dimension(self) -> int:
        return self.values.dimension if isinstance(self.values, Ball) else 1

    @cached_property
    def noise(self) -> Noise:
        """All the noise in the decoded number, when every user adds theirs, and the front its own."""
        return self.share if self.noise_from == "analyzer" else self.share.times(self.users + self.front_shares)

    @property
    def guard(self) -> Noise:
        """The noise that is sure to hide any one user: that of the honest users, or of one party alone.

        The front's own noise has the same law as that of the honest users, so it hides as much.
        """
        return self.share.times(self.honest) if self.noise_from == "batch" else self.share

    @property
    def unit(self) -> float:
        """What one step of the decoded number is worth, in the values' own units."""
        return self.values.span / (self.precision * self.carrier.weight(self.share))

    @cached_property
    def loss(self) -> Loss:
        """The exact privacy loss of one user's change, against whoever sees the view."""
        guard = self.guard
        if isinstance(self.values, Ball) and isinstance(guard, Skellam):
            # Couple the two roundings: the whole vectors differ by at most g‖x-x'‖ plus one in each coordinate.
            scale = self.precision / self.values.span
            l2 = scale * self.values.diameter + math.sqrt(self.dimension)
            loss = vector_loss(guard, l2=l2, l1=math.sqrt(self.dimension) * l2)
        else:
            loss = self.dimension * privacy_loss(guard, self.precision * self.carrier.weight(self.share))
        distance = 2.0**-self.carrier.security if isinstance(self.carrier, SplitAndMix) else 0
        return Loss(loss.releases, distance)

    def randomize(self, value: ArrayLike, source: Source) -> Integers:
        """Turn a user's value into their report, on their device; arrays of users (and batches) work too."""
        encoded = encode(self.values.unit(value), self.precision, source)
        if self.side == "under":
            encoded = self.precision - encoded
        own_noise = None if self.noise_from == "analyzer" else self.share
        return self.carrier.report(encoded, own_noise, source, self.coordinates)

    def collect(self, reports: ArrayLike) -> Integers:
        """What the intermediary lets through of a whole batch of reports (users on the axis after any batches)."""
        gathered = np.asarray(reports)
        if not np.issubdtype(gathered.dtype, np.integer):
            raise TamperedMessage("a report is whole numbers")
        gathered = gathered.astype(np.int64)
        inner = self.coordinates + (1 if isinstance(self.carrier, ShuffledMessages | SplitAndMix) else 0)
        found = gathered.shape[-1 - inner] if gathered.ndim > inner else 0
        if found != self.users:
            raise InvalidParameter("reports", found, f"a batch of exactly {self.users} reports")
        self.carrier.check_report(gathered, self.share)
        return self.carrier.collect(gathered, self.coordinates)

    def analyze(self, view: ArrayLike, source: Source | None = None) -> Release:
        """Read a batch's view. Only a central mechanism needs `source`: there the analyzer adds the noise."""
        decoded = self.analyze_many(view, source)
        return Release(self, tuple(decoded.tolist()) if self.coordinates else int(decoded))

    def run(self, values: ArrayLike, source: Source) -> Release:
        """One batch the whole way: every user randomizes, the carrier carries, the analyzer reads.

        >>> from croupier.noise import seeded
        >>> from croupier.protocols import laplace
        >>> release = laplace(epsilon=1.0).plan(users=100).run([0.25] * 100, seeded(1))
        >>> abs(release.sum - 25) < release.radius(failure=1e-6)
        True
        """
        view = self.collect(self.randomize(np.asarray(values), source))
        if self.front_shares:
            view = self.carrier.join(view, self.front_report(source), self.coordinates)  # type: ignore[union-attr]
        return self.analyze(view, source)

    def front_report(self, source: Source) -> Integers:
        """What the front adds to a batch: the noise of `front_shares` parties who have no value."""
        shape = (self.dimension,) if self.coordinates else ()
        assert isinstance(self.carrier, ShuffledMessages | SplitAndMix)
        return self.carrier.front_report(self.share, self.front_shares, source, shape)

    def analyze_many(self, views: ArrayLike, source: Source | None = None) -> Integers:
        """The decoded numbers of views with any leading axes."""
        decoded = self.carrier.decode(np.asarray(views), self.users, self.share, self.coordinates, self.front_shares)
        if self.noise_from == "analyzer":
            if source is None:
                raise InvalidParameter("source", None, "given: in the central model the analyzer draws the noise")
            decoded = decoded + self.share.sample(decoded.shape, source)
        return decoded

    def simulate(self, values: ArrayLike, source: Source) -> Release:
        """One batch in law: values are encoded and added, and the total noise is drawn once."""
        unit = self.values.unit(values)
        axis = -1 - self.coordinates
        if unit.ndim < 1 + self.coordinates or unit.shape[axis] != self.users:
            raise InvalidParameter("values", unit.shape, f"a batch of exactly {self.users} values")
        encoded = encode(unit, self.precision, source)
        if self.side == "under":
            encoded = self.precision - encoded
        total = self.noisy(encoded.sum(axis=axis), source)
        return Release(self, tuple(total.tolist()) if self.coordinates else int(total))

    def noisy(self, encoded_sums: ArrayLike, source: Source) -> Integers:
        """Decoded numbers of batches with these encoded sums, in law: any shape, one draw of noise each."""
        sums = np.asarray(encoded_sums, dtype=np.int64)
        total = self.carrier.weight(self.share) * sums + self.noise.sample(sums.shape, source)
        if isinstance(self.carrier, ShuffledMessages) or self.noise_from == "analyzer":
            return total
        return self.carrier.signed(total % self.carrier.modulus)

    def estimate(self, decoded: ArrayLike) -> Floats:
        """The sum of the users' values, in their own units, from decoded numbers."""
        shift = 0.0 if self.side != "unbiased" else self.noise.mean
        steps = np.asarray(decoded, dtype=np.float64) - shift
        total = self.users * self.values.low + steps * self.unit
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
        if isinstance(self.carrier, ShuffledMessages) or self.noise_from == "analyzer":
            return 0.0
        return min(1.0, 2.0 * float(self.noise.tail(self.carrier.slack)))

    @cached_property
    def possible(self) -> tuple[int, int]:
        """Between which decoded numbers a batch lies, except with probability 2^-40, if at least the honest add noise.

        Values add up to something in [0, n·g]; what lies beyond that and the noise was spoilt.
        """
        fewest = self.noise if self.noise_from != "batch" else self.share.times(self.honest + self.front_shares)
        noises, odds = (self.noise, fewest), POSSIBLE / (4.0 * self.dimension)
        low = min(noise.quantile(odds) for noise in noises)
        high = max(noise.tail_quantile(odds) for noise in noises)
        return low, high + self.carrier.weight(self.share) * self.users * self.precision

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
        rounding = 0 if self.values.binary else self.users * self.carrier.weight(self.share) ** 2
        return deviation_with_rounding(self.noise, rounding, spare) * self.unit

    @property
    def omission_bias(self) -> float:
        """How far, at most, the users not counted as honest can push the sum by leaving their noise out."""
        if self.noise_from == "analyzer":
            return 0.0
        return (self.users - self.honest) * abs(self.share.mean) * self.unit

    @property
    def messages_per_user(self) -> float:
        return self.carrier.messages_per_user(self.share, self.dimension)

    @property
    def bits_per_user(self) -> float:
        return self.messages_per_user * self.carrier.bits_per_message(self.dimension)

    def certificate(self) -> Certificate:
        """Recompute the privacy of the view from the noise itself, and set it beside the claim."""
        return self._certificate

    @cached_property
    def _certificate(self) -> Certificate:
        claim = self.guarantee
        divergence = rho = None
        if claim.order is not None:
            divergence = _divergence_bound(self, claim.order)
        if claim.rho is not None:
            rho = self.loss.zcdp
        return Certificate(claim, self.loss.epsilon(claim.delta), self.loss.delta(claim.epsilon), rho, divergence)

    def to_dict(self) -> dict[str, Any]:
        """The mechanism as plain data, complete: a device needs nothing else."""
        return {
            "version": VERSION,
            "protocol": self.protocol,
            "constants": self.constants,
            "users": self.users,
            "honest": self.honest,
            "values": {"kind": "ball" if self.coordinates else "range"} | asdict(self.values),
            "precision": self.precision,
            "share": noise_to_dict(self.share),
            "carrier": {"kind": self.carrier.kind} | asdict(self.carrier),
            "guarantee": {k: v for k, v in asdict(self.guarantee).items() if v is not None},
            "noise_from": self.noise_from,
            "side": self.side,
        } | ({"front_shares": self.front_shares} if self.front_shares else {})

    def to_json(self) -> str:
        """One line of canonical JSON: sorted keys, no spaces."""
        return canonical(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Mechanism:
        """Read a mechanism back; anything unknown, missing or inconsistent is refused."""
        try:
            body = json.loads(text)
            if body.pop("version") != VERSION:
                raise InvalidParameter("version", text[:60], f"{VERSION}")
            values, carrier = dict(body.pop("values")), dict(body.pop("carrier"))
            kind = {"ball": Ball, "range": Values}[values.pop("kind")]
            return cls(
                **body
                | {
                    "values": kind(**values),
                    "share": noise_from_dict(body["share"]),
                    "carrier": CARRIERS[carrier.pop("kind")](**carrier),
                    "guarantee": Guarantee(**body["guarantee"]),
                }
            )
        except (KeyError, TypeError, AttributeError, AssertionError, json.JSONDecodeError) as error:
            raise InvalidParameter(
                "mechanism", text[:60], f"version {VERSION} of a serialized mechanism ({error!r})"
            ) from None


@dataclass(frozen=True)
class Certificate:
    """A claim, and the exact values recomputed from the noise."""

    claim: Guarantee
    epsilon: float
    delta: float
    rho: float | None = None
    divergence: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the recomputed privacy is at least as good as every number of the claim."""
        claim, hair = self.claim, 1.0 + 1e-9
        if self.rho is not None and self.rho > (claim.rho or 0.0) * hair:
            return False
        if self.divergence is not None and self.divergence > (claim.divergence or 0.0) * hair:
            return False
        return self.delta <= claim.delta * hair or self.epsilon <= claim.epsilon * hair


@dataclass(frozen=True)
class Release(Tabular):
    """What is published of one batch: a decoded whole number (or one per coordinate) and how it came about."""

    mechanism: Mechanism
    decoded: int | tuple[int, ...]

    def __repr__(self) -> str:
        """The estimate, how far it may be off, and what was promised."""
        sums = self.sum if isinstance(self.sum, float) else np.round(self.sum, 1).tolist()
        radius, side = self.radius(), self.mechanism.side
        off = {"unbiased": f"± {radius:.2g}", "over": f"- {radius:.2g} + 0", "under": f"- 0 + {radius:.2g}"}[side]
        shown = f"{sums:.1f}" if isinstance(sums, float) else str(sums)
        return f"{shown} {off} (95 %) of {self.users:,} users, {self.privacy}, {self.mechanism.protocol}"

    @property
    def rows(self) -> Rows:
        """One row for each number that is published, with bounds that hold with 95 %."""
        sums, (low, high) = np.atleast_1d(self.sum), self.interval()
        return Rows(
            {
                "coordinate": place,
                "sum": float(value),
                "lower": float(lower),
                "upper": float(upper),
                "users": self.users,
                "epsilon": self.privacy.epsilon,
                "delta": self.privacy.delta,
                "protocol": self.mechanism.protocol,
            }
            for place, (value, lower, upper) in enumerate(
                zip(sums, np.atleast_1d(low), np.atleast_1d(high), strict=True)
            )
        )

    @property
    def users(self) -> int:
        return self.mechanism.users

    @property
    def sum(self) -> Any:
        """The estimated sum of the batch's values."""
        estimate = self.mechanism.estimate(self.decoded)
        return estimate if estimate.ndim else float(estimate)

    @property
    def mean(self) -> Any:
        """The estimated mean value."""
        return self.sum / self.users

    def radius(self, failure: float = 0.05) -> float:
        """A bound on the error of the sum that fails with at most this probability."""
        return self.mechanism.radius(failure)

    def interval(self, failure: float = 0.05) -> tuple[Any, Any]:
        """Bounds on the batch's true sum; one end is certain for a one-sided count."""
        low = self.sum - (0.0 if self.mechanism.side == "under" else self.radius(failure))
        high = self.sum + (0.0 if self.mechanism.side == "over" else self.radius(failure))
        return low, high

    @property
    def privacy(self) -> Guarantee:
        return self.mechanism.guarantee

    def to_json(self) -> str:
        """One line of canonical JSON; it carries its mechanism, so it can be read alone."""
        decoded = list(self.decoded) if isinstance(self.decoded, tuple) else self.decoded
        return canonical({"version": VERSION, "decoded": decoded, "mechanism": self.mechanism.to_dict()})

    @classmethod
    def from_json(cls, text: str) -> Release:
        try:
            body = json.loads(text)
            if body["version"] != VERSION:
                raise InvalidParameter("version", body["version"], f"{VERSION}")
            decoded = body["decoded"]
            for number in decoded if isinstance(decoded, list) else [decoded]:
                integer("decoded", number, -(2**63), 2**63 - 1)
            mechanism = Mechanism.from_json(json.dumps(body["mechanism"]))
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise InvalidParameter(
                "release", text[:60], f"version {VERSION} of a serialized release ({error!r})"
            ) from None
        return cls(mechanism, tuple(decoded) if isinstance(decoded, list) else decoded)


def _divergence_bound(mechanism: Mechanism, order: float) -> float:
    """The least of the exact divergence and the paper's bound: a claim may rest on either."""
    guard = mechanism.guard
    exact = mechanism.loss.rdp(order)
    if not isinstance(guard, Skellam):
        return exact
    return min(exact, skellam_divergence(guard.sigma2, order, mechanism.precision))


def check_front(front_shares: int, honest: int) -> None:
    """The front adds a whole noise of its own, that of as many parties as are counted on, or none."""
    if front_shares:
        integer("front_shares", front_shares, honest, honest)


def canonical(body: dict[str, Any]) -> str:
    """JSON with sorted keys and no spaces: equal values have equal text."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
