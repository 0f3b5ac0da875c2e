"""A sum planned for one batch size: what each device sends, what the analyzer makes of it, and what it proves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Number
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import CroupierError, InvalidParameter, between, integer, one_of
from croupier.frames import Rows, Tabular
from croupier.noise import Noise, Source
from croupier.noise.serial import noise_from_dict, noise_to_dict
from croupier.privacy import Guarantee, Loss
from croupier.protocols.mechanism import (
    MOST_MESSAGES,
    POSSIBLE,
    VERSION,
    Certificate,
    Decoded,
    Mechanism,
    Residual,
    canonical,
    check_front,
    is_affordable,
)
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.protocols.sums.carriers import CARRIERS, Carrier
from croupier.protocols.sums.error import deviation_with_rounding
from croupier.protocols.sums.values import Ball, Values, encode, values_from_dict, values_to_dict, whole_numbers
from croupier.validity.shares import Ring

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SIDES = ("unbiased", "over", "under")
PARTIES = ("batch", "user", "analyzer", "servers")
SERVERS = 2
CHUNK = 2**20
"""Messages that an audit holds in memory at once."""


@dataclass(frozen=True)
class SumMechanism(Mechanism):
    """One private sum over `users` users, calibrated: frozen, serializable, with its certificate.

    `share` is the noise of one party and `noise_from` says which: every user of the batch, whose shares hide each of
    them together ("batch"); every user, whose own share must suffice ("user"); the trusted analyzer ("analyzer"); or
    each of two servers, of which one must be honest ("servers"): then no user is counted on, and `honest` is 0.
    `front_shares` of noise come from the front besides: a whole noise, which hides a user among strangers only.
    """

    kind: ClassVar[str] = "SumMechanism"
    lets_users_return: ClassVar[bool] = True
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
        spread, of = math.sqrt(self.variance + self.rounding_variance), "coordinate" if self.dimension > 1 else "sum"
        return f"{self.protocol} for {self.users:,} users: {self.guarantee}; standard deviation {spread:.3g} of a {of}"

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
        return self.values.low, self.values.high

    def check_value(self, value: object) -> None:
        self.values.unit(self._one_value(value))

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

    def randomize(self, value: ArrayLike, source: Source) -> Integers:
        """Turn a user's value into their report, on their device; arrays of users (and batches) work too."""
        encoded = encode(self.values.unit(value), self.precision, source)
        if self.side == "under":
            encoded = self.precision - encoded
        return self.carrier.report(self, encoded, source)

    def collect(self, reports: ArrayLike) -> Integers:
        """What the intermediary lets through of a whole batch of reports (users on the axis after any batches)."""
        gathered = np.asarray(reports)
        if not np.issubdtype(gathered.dtype, np.integer):
            raise TamperedMessage("a report is whole numbers")
        gathered = gathered.astype(np.int64)
        inner = self.coordinates + self.carrier.report_axes
        received = gathered.shape[-1 - inner] if gathered.ndim > inner else 0
        if received != self.users:
            raise InvalidParameter("reports", received, f"a batch of exactly {self.users} reports")
        self.carrier.check_report(self, gathered)
        return self.carrier.collect(self, gathered)

    def analyze(self, view: ArrayLike, source: Source | None = None) -> Release:
        """Read a batch's view. `source` is needed where the analyzer, or two servers, add the noise."""
        decoded = self.analyze_many(view, source)
        if decoded.shape != self.value_shape:
            raise InvalidParameter("view", view, "that of one batch, as `collect` gives it; analyze_many reads several")
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
            view = self.carrier.join(self, view, self.front_report(source))
        return self.analyze(view, source)

    def front_report(self, source: Source) -> Integers:
        """What the front adds to a batch: the noise of `front_shares` parties who have no value."""
        return self.carrier.front_report(self, source)

    def analyze_many(self, views: ArrayLike, source: Source | None = None) -> Integers:
        """The decoded numbers of views with any leading axes."""
        return self._read_with(self.noise, views, source)

    def _read_with(self, noise: Noise, views: ArrayLike, source: Source | None) -> Integers:
        """The decoded numbers, with this noise where it is not in the reports."""
        decoded = self.carrier.decode(self, whole_numbers("view", views))
        if self.noise_from in ("analyzer", "servers"):
            if source is None:
                raise InvalidParameter("source", None, f"given: here the {self.noise_from} draws the noise")
            decoded = decoded + noise.sample(decoded.shape, source)
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
        total = self.weight * sums + self.noise.sample(sums.shape, source)
        return total if self.noise_from == "analyzer" else self.carrier.wrapped(total)

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

    def pack(self, report: ArrayLike) -> tuple[bytes, ...]:
        """One user's report as messages, in no particular order: the shuffler mixes them with everyone's.

        `docs/format.md` gives the layout with test vectors.
        """
        numbers = np.asarray(report, dtype=np.int64)
        self.carrier.check_report(self, numbers)
        if (count := self.carrier.message_count(self, numbers)) > MOST_MESSAGES:
            limit = f"at most {MOST_MESSAGES}: {self.protocol} here is for simulation only"
            raise InvalidParameter("messages", count, limit)
        return self.carrier.pack(self, numbers)

    def unpack(self, messages: Sequence[bytes]) -> Integers:
        """The view that a batch's messages make; anything malformed is refused."""
        if any(len(message) != self.message_bytes for message in messages):
            raise TamperedMessage(f"every message of {self.protocol} has {self.message_bytes} bytes")
        return self.carrier.unpack(self, messages)

    def _shape(self) -> Shape:
        shape = self.carrier.shape(self)
        if self.noise_from == "analyzer":
            # A device must not be talked into sending its value without noise.
            raise CroupierError(f"{self.protocol} has its noise from the analyzer, which would see the sum without it")
        return shape

    @property
    def ring(self) -> Ring | None:
        # As for a shape: what the analyzer is to add noise to, no device sends.
        return None if self.noise_from == "analyzer" else self.carrier.ring

    def for_users(self, users: int) -> Self:
        return replace(self, users=users) if self.fits_any_batch else super().for_users(users)

    def secret(self, value: object, source: Source) -> list[int]:
        self._check_shared()
        report = self.randomize(self._one_value(value), source)
        return [int(number) for number in np.atleast_1d(report)]

    def server_noise(self, source: Source) -> list[int]:
        self._check_shared()
        if self.noise_from != "servers":
            return [0] * self.dimension
        return [int(number) for number in self.share.sample(self.dimension, source)]

    def told(self, total: Sequence[int]) -> int | tuple[int, ...]:
        self._check_shared()
        decoded = self.carrier.decode(self, self.carrier.summed(self, total))
        return tuple(decoded.tolist()) if self.coordinates else int(decoded)

    def _check_shared(self) -> None:
        if self.ring is None:
            raise self._not_shared()

    def _one_value(self, value: object) -> Any:
        """A value of one user: a list would be taken for many users' values."""
        if self.coordinates:
            vector = np.asarray(value)
            if vector.shape != self.value_shape:
                raise InvalidParameter("value", f"shape {vector.shape}", f"a vector of {self.dimension} numbers")
            return vector
        if not isinstance(value, Number | np.bool_):
            raise InvalidParameter("value", value, "a number")
        return value

    def _messages(self, value: object, source: Source) -> tuple[bytes, ...]:
        value = self._one_value(value)
        unit = float(self.values.unit(value))  # type: ignore[arg-type]
        report = self.randomize(value, source)  # type: ignore[arg-type]
        while not self.carrier.fits(self, report, unit):
            report = self.randomize(value, source)  # type: ignore[arg-type]
        return self.pack(report)

    def _front_messages(self, source: Source) -> tuple[bytes, ...]:
        return self.carrier.pack(self, self.front_report(source))

    def _decoded(self, slots: Sequence[bytes | None]) -> Decoded:
        view, damaged = self.carrier.repaired(self, slots)
        return Decoded(self.analyze(view).decoded, damaged)

    @cached_property
    def residual(self) -> Residual:
        bare = self.noise_from in ("analyzer", "servers")
        return Residual(math.inf, 1.0) if bare else self.carrier.residual(self)

    def summary(self, decoded: int | Sequence[int]) -> dict[str, float]:
        if self.coordinates:
            return {}
        total = float(self.estimate(decoded))
        return {"sum": total, "mean": total / self.users}

    def exposed(self, end: int, trials: int, source: Source, progress: Callable[[int], None] | None = None) -> Integers:
        """All users hold the lowest value, the first one that or the highest; vectors stand on the first axis.

        The decoded sum tells most, or the first user's own report where it is visible. Of two servers' noises the one
        who looks knows his own.
        """
        lowest = self.values.along(self.values.low)
        batch = np.broadcast_to(lowest, (self.users, *lowest.shape)).copy()
        batch[0] = self.values.along(self.extremes[end])
        rows = max(1, CHUNK // max(1, int(self.users * self.messages_per_user * self.dimension)))
        drawn = []
        for done in range(0, trials, rows):
            now = min(rows, trials - done)
            view = self.collect(self.randomize(np.broadcast_to(batch, (now, *batch.shape)), source))
            if self.carrier.lists_reports:
                drawn.append(view[..., 0])
            else:
                decoded = self._read_with(self.guard, view, source)
                drawn.append(decoded[..., 0] if self.coordinates else decoded)
            if progress is not None:
                progress(now)
        return np.concatenate(drawn)

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


@dataclass(frozen=True)
class Release(Tabular):
    """What is published of one batch: a decoded whole number (or one per coordinate) and how it came about.

    Parameters
    ----------
    mechanism : the planned sum.
    decoded : what the batch's view decodes to.

    Examples
    --------
    >>> from croupier.noise import seeded
    >>> from croupier.protocols import laplace
    >>> laplace(epsilon=1.0).plan(users=100).run([0.25] * 100, seeded(1))
    24.8 ± 3.2 (95 %) of 100 users, 1-DP when one report is replaced, laplace
    """

    mechanism: SumMechanism
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
            mechanism = SumMechanism.from_json(json.dumps(body["mechanism"]))
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise InvalidParameter(
                "release", text[:60], f"version {VERSION} of a serialized release ({error!r})"
            ) from None
        return cls(mechanism, tuple(decoded) if isinstance(decoded, list) else decoded)
