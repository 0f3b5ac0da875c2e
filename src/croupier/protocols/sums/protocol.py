"""A protocol: a privacy target and a recipe, to be planned for any batch size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Literal

from croupier.checks import CroupierError, InvalidParameter, between, integer, one_of, positive, unread
from croupier.noise import Noise
from croupier.noise.window import TooWide
from croupier.privacy import Guarantee
from croupier.protocols.mechanism import TRUSTS
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.returning import one_of_several, returning
from croupier.protocols.sums.values import AnyValues, Ball, Values

CONSTANTS = ("tight", "published")
"""Counted messages also have "proof": the constants of a proof where its theorem can do with less."""
DEFAULT_DELTA = 1e-6
LARGEST_EPSILON = 500.0
"""e^ε of a larger ε is no double, and no privacy."""
MOST_PARTICIPATIONS = 100_000
PUBLISHED_WRAP, TIGHT_WRAP = 1e-6, 2.0**-40
"""How often a modular sum may wrap around, unless told otherwise; for tight settings it costs a few bits."""


EVERY = ("constants", "honest_fraction", "participations")
"""Options that every row reads."""
NUMBERS = (*EVERY, "low", "high", "binary", "clip")
"""Those that every row for numbers reads."""
VECTORS = (*EVERY, "dimension", "diameter", "clip")
"""Those that every row for vectors reads."""


@dataclass(frozen=True)
class Row:
    """One kind of protocol: what it promises against whom, what it reads, and how to plan it.

    Parameters
    ----------
    name : what `protocol` and `--protocol` take.
    trust : who must be trusted: one of `croupier.protocols.mechanism.TRUSTS`.
    notion : what it promises: "pure", "approximate", "renyi" or "concentrated".
    carrier : what carries its reports, in words.
    paper : its citation key.
    plan : makes the mechanism of a `Protocol` and a number of users; its promise is recomputed.
    options : what it reads besides epsilon and delta. Every other option is refused by name.
    constants : "tight", "published", or one of them alone.
    binary_only : whether it sums one of two values.
    caps_noise : whether its noise is limited when it is sent, which takes a share of δ.
    default_delta : the δ at an ε, when none is asked for.
    smallest : the fewest users of a batch.
    epsilon_below, delta_below : where published constants end.
    least_epsilon : below it the exact calibration of a batch takes longer than anybody waits for an experiment's.
    instead : how it is planned under each other trust, where its noise can also come from others.

    Examples
    --------
    >>> from croupier.protocols import ROWS
    >>> ROWS["laplace"].trusts, ROWS["laplace"].notion, ROWS["laplace"].vectors
    (('devices', 'two-servers'), 'pure', False)
    """

    name: str
    trust: str
    notion: str
    carrier: str
    paper: str = field(repr=False)
    plan: Callable[[Protocol, int], SumMechanism] = field(repr=False)
    options: tuple[str, ...]
    """What it reads besides epsilon and delta; every other option is refused by name."""
    constants: tuple[str, ...] = CONSTANTS
    binary_only: bool = False
    caps_noise: bool = False
    """Whether its noise is limited when it is sent, which takes a share of δ."""
    default_delta: Callable[[float], float] = field(default=lambda epsilon: DEFAULT_DELTA, repr=False)
    """The δ at this ε, when none is asked for."""
    smallest: Callable[[Protocol], int] = field(default=lambda protocol: 1, repr=False)
    epsilon_below: float = math.inf
    delta_below: float = 1.0
    least_epsilon: float = 0.0
    """Below it the exact calibration of a batch takes longer than anybody waits for a whole experiment's."""
    instead: Mapping[str, Callable[[Protocol, int], SumMechanism]] = field(default_factory=dict, repr=False, hash=False)

    @property
    def trusts(self) -> tuple[str, ...]:
        """Whom it can be planned to trust; the first unless one is asked for."""
        return (self.trust, *self.instead)

    def trusting(self, trust: str | None) -> dict[str, str]:
        """The option with which it trusts somebody else than usually; whom it cannot be planned to trust is refused.

        >>> from croupier.protocols import ROWS
        >>> ROWS["laplace"].trusting("two-servers"), ROWS["laplace"].trusting("devices")
        ({'trust': 'two-servers'}, {})
        """
        if trust in (None, self.trust):
            return {}
        if one_of("trust", str(trust), TRUSTS) not in self.instead:
            raise InvalidParameter("trust", trust, f"{' or '.join(self.trusts)} for {self.name}")
        return {"trust": str(trust)}

    @property
    def vectors(self) -> bool:
        """Whether it sums vectors."""
        return "dimension" in self.options

    @property
    def takes(self) -> tuple[str, ...]:
        """All that it reads."""
        return ("epsilon", *(() if self.notion == "pure" else ("delta",)), *self.options)

    def check_options(self, options: Mapping[str, object]) -> None:
        """Refuse an option that would not be read."""
        for name, value in options.items():
            if name not in self.options:
                raise unread(name, value, self.name, self.takes, (*NUMBERS, *VECTORS, *OWN))

    def values(
        self,
        low: float = 0.0,
        high: float = 1.0,
        binary: bool | None = None,
        clip: bool = False,
        dimension: int = 1,
        diameter: float = 2.0,
    ) -> Values | Ball:
        """What users may report; a row reads one kind of these options or the other."""
        if self.vectors:
            return Ball(integer("dimension", dimension, 1), clip=clip, diameter=diameter)
        if self.binary_only and binary is False:
            raise InvalidParameter("binary", binary, f"true or left out: {self.name} sums one of two values")
        return Values(low, high, binary=self.binary_only if binary is None else binary, clip=clip)

    def delta(self, epsilon: float, delta: float | None) -> float:
        """The δ that is asked for, or this row's own."""
        if self.notion == "pure":
            if delta not in (None, 0, 0.0):
                raise InvalidParameter("delta", delta, f"0 or left out: {self.name} is purely private")
            return 0.0
        if delta is None:
            return self.default_delta(epsilon)
        if delta == 0:
            raise InvalidParameter("delta", delta, f"a number in (0, 1): {self.name} is not purely private")
        return delta


@dataclass(frozen=True)
class Protocol:
    """A target (epsilon, delta) and how to meet it, whatever the batch size: what `laplace` and its kin return.

    Parameters
    ----------
    row : the kind of protocol.
    epsilon : the target ε.
    delta : the target δ: 0 for pure privacy; for Rényi and concentrated privacy the δ at which (ε, δ)-DP is reported.
    constants : "tight" or "published".
    values : what users may report.
    honest_fraction : the part of a batch that is counted on to add its noise: the guarantee rests on those users alone.
    precision, scaling : into how many steps a value is divided.
    side, failure : where counts may err, and how often by more than is minimised.
    wrap_failure : the chance of a modular wrap-around that is allowed (the papers' p; tight: 2^-40).
    trust : who must be trusted, where the row leaves a choice. None: whom the row trusts.
    participations : in how many batches a user may be, once in each: together they keep the promise ([CZ23] App. I).
    front_noise : whether the front of a service adds a whole noise of its own, for a user among strangers.
    room : the share of δ that a returning user's batches of one size may take; less where theirs are of several sizes.

    Examples
    --------
    >>> from croupier.protocols import laplace
    >>> laplace(epsilon=1.0, low=0, high=5)
    laplace(epsilon=1.0, constants='tight'; Values(low=0, high=5, binary=False, clip=False))
    """

    row: Row
    epsilon: float
    delta: float
    constants: str = "tight"
    values: AnyValues = field(default_factory=Values)
    honest_fraction: float = 1.0
    precision: int | None = None
    scaling: float = 10.0
    side: Literal["over", "under"] = "over"
    failure: float = 0.05
    wrap_failure: float | None = None
    front_noise: bool = False
    participations: int = 1
    trust: str | None = None
    room: float = 1.0

    def __post_init__(self) -> None:
        self.row.check_options({name: getattr(self, name) for name in OWN if getattr(self, name) != _default(name)})
        positive("epsilon", self.epsilon)
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidParameter("epsilon", self.epsilon, f"a number in (0, {LARGEST_EPSILON:g}]")
        between("delta", self.delta, 0, 1, "[)")
        one_of("constants", self.constants, self.row.constants)
        between("honest_fraction", self.honest_fraction, 0, 1, "(]")
        between("failure", self.failure, 0, 1)
        if self.wrap_failure is not None:
            between("wrap_failure", self.wrap_failure, 0, 1)
        one_of("side", self.side, ("over", "under"))
        integer("participations", self.participations, 1, MOST_PARTICIPATIONS)
        if self.trust is not None:
            one_of("trust", self.trust, self.row.trusts)
        if self.trusts == "two-servers":
            self._check_two_servers()
        if self.precision is not None:
            integer("precision", self.precision, 1)
        if not 1 <= self.scaling <= 10**6:
            raise InvalidParameter("scaling", self.scaling, "a number in [1, 1000000]")
        if self.published:
            if self.epsilon >= self.row.epsilon_below:
                limit = f"a number in (0, {self.row.epsilon_below:g}) with published constants ({self.row.paper})"
                raise InvalidParameter("epsilon", self.epsilon, limit)
            if self.delta >= self.row.delta_below:
                limit = f"a number in (0, {self.row.delta_below:g}) with published constants ({self.row.paper})"
                raise InvalidParameter("delta", self.delta, limit)

    def _check_two_servers(self) -> None:
        """Each server adds a whole noise: no user is counted on, and nobody has published such constants."""
        if self.honest_fraction != 1.0:
            raise InvalidParameter("honest_fraction", self.honest_fraction, "left out: the servers add all the noise")
        if self.published:
            raise InvalidParameter("constants", self.constants, "tight where the servers add the noise")
        for name in UNREAD_IN_SHARES:
            if getattr(self, name) != _default(name):
                raise InvalidParameter(name, getattr(self, name), "left out: sums in shares do not depend on it")

    def __repr__(self) -> str:
        """What makes it again, without what is as it always is."""
        usual = Protocol(self.row, self.epsilon, self.delta, self.constants, self.values)
        own = [f.name for f in fields(self)[5:] if getattr(self, f.name) != getattr(usual, f.name)]
        said = ["epsilon", *(["delta"] if self.delta else []), "constants", *own]
        return f"{self.name}({', '.join(f'{key}={getattr(self, key)!r}' for key in said)}; {self.values!r})"

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def trusts(self) -> str:
        """Who must be trusted."""
        return self.trust or self.row.trust

    def having(self, **options: Any) -> Protocol:
        """The same with these options, as far as the row reads them."""
        unread = UNREAD_IN_SHARES if self.trusts == "two-servers" else ()
        read = {name: options[name] for name in options if name in self.row.options and name not in unread}
        return replace(self, **read)

    def about(self, values: AnyValues) -> Protocol:
        """The same for other vectors than those that `dimension` and `diameter` say.

        >>> from croupier.protocols import Moments, shared_vectors
        >>> shared_vectors(epsilon=1.0, dimension=5).about(Moments(features=2)).plan(users=1000).dimension
        5
        """
        if not self.row.vectors or not values.coordinates:
            raise InvalidParameter("values", values, f"vectors, and {self.name} a protocol that sums them")
        return replace(self, values=values)

    @property
    def published(self) -> bool:
        return self.constants != "tight"

    @property
    def one_batch(self) -> Protocol:
        """What one of a user's batches is asked for by [CZ23] App. I; the same where it is the only one."""
        return self if self.participations == 1 else one_of_several(self)

    @property
    def wrap(self) -> float:
        """The chance of a modular wrap-around that is allowed."""
        return self.wrap_failure or (PUBLISHED_WRAP if self.published else TIGHT_WRAP)

    @property
    def smallest(self) -> int:
        """The least number of users a batch may have."""
        return self.row.smallest(self)

    def honest(self, users: int) -> int:
        """How many users of a batch are counted on: ⌈γn⌉, or none where the servers add the noise."""
        if self.trusts == "two-servers":
            return 0
        return max(1, math.ceil(self.honest_fraction * users - 1e-9))

    def front_shares(self, users: int) -> int:
        """How many parties' noise the front adds to a batch: as many as are counted on, or none."""
        return self.honest(users) if self.front_noise else 0

    def total_noise(self, share: Noise, users: int) -> Noise:
        """All noise in a batch whose parties each add this share."""
        return share.times(users + self.front_shares(users))

    def plan(self, users: int) -> SumMechanism:
        """Calibrate for a batch of exactly `users` users.

        >>> from croupier.protocols import shuffled_bits
        >>> mechanism = shuffled_bits(epsilon=0.5, delta=1e-6).plan(users=1000)
        >>> round(mechanism.variance, 1), mechanism.certificate().holds
        (67.7, True)
        """
        smallest = self.smallest
        if isinstance(users, bool) or not isinstance(users, int) or users < smallest:
            raise InvalidParameter("users", users, f"a whole number >= {smallest}, the smallest batch of {self.name}")
        try:
            return _plan(self, users)
        except TooWide as error:
            raise self._no_plan(users, str(error)) from None
        except (ArithmeticError, MemoryError):
            raise self._no_plan(users, "its numbers would be too large, or too small, to compute with") from None

    def _no_plan(self, users: int, why: str) -> CroupierError:
        given = f"users = {users:,}, epsilon = {self.epsilon:g}"
        return CroupierError(f"no plan of {self.name} can be computed for {given}: {why}")

    def wrap_slack(self, noise: Noise, published: float) -> int:
        """τ: how far beyond the largest sum the modular range reaches, at the allowed failure probability."""
        return math.ceil(published) if self.published else max(noise.tail_quantile(self.wrap / 2), 1)

    def mechanism(
        self, users: int, *, precision: int, share: Noise, carrier: object, notion: Guarantee, **more: object
    ) -> SumMechanism:
        """Put a mechanism together from what a row decided."""
        return SumMechanism(
            protocol=self.name,
            constants=self.constants,
            users=users,
            honest=self.honest(users),
            values=self.values,
            precision=precision,
            share=share,
            carrier=carrier,  # type: ignore[arg-type]
            guarantee=notion,
            front_shares=self.front_shares(users),
            **more,  # type: ignore[arg-type]
        )


OWN = ("precision", "scaling", "side", "failure", "wrap_failure", "front_noise", "participations", "trust")
"""The options that a protocol keeps; those of its values are in `values`."""
UNREAD_IN_SHARES = ("scaling", "wrap_failure")
"""Options that do not matter where two servers add the noise: the encoding is fixed, and no sum wraps around."""


def _default(name: str) -> Any:
    return Protocol.__dataclass_fields__[name].default


@lru_cache(maxsize=4096)
def _plan(protocol: Protocol, users: int) -> SumMechanism:
    plan = protocol.row.instead.get(protocol.trusts, protocol.row.plan)
    mechanism = plan(protocol, users) if protocol.participations == 1 else returning(protocol, users)
    claim = mechanism.guarantee
    if mechanism.trust != protocol.trusts:
        raise CroupierError(f"{protocol.name} says that {protocol.trusts} is trusted, and it is {mechanism.trust}")
    if claim.notion in ("pure", "approximate") and mechanism.promised.delta(claim.epsilon) <= claim.delta:
        return mechanism  # sooner than a whole certificate, which also searches for the least ε
    certificate = mechanism.certificate()
    if not certificate.holds:
        asked = f"(ε, δ) = ({certificate.claim.epsilon:g}, {certificate.claim.delta:g})"
        raise CroupierError(
            f"{protocol.name} for {users:,} users, epsilon = {protocol.epsilon:g}, could not be certified: it is to "
            f"keep {asked}, and δ = {certificate.delta:.3g} is what could be proven"
        )
    return mechanism
