"""Histograms: how many users hold each item of a public universe, whoever is trusted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from croupier.checks import InvalidParameter, by_name, integer
from croupier.frames import Rows, Tabular
from croupier.noise import Source
from croupier.privacy import Guarantee
from croupier.protocols.histograms.oracles import Floats, FrequencyOracle, Integers, Progress, Reports
from croupier.protocols.histograms.planned import Planned
from croupier.protocols.histograms.target import Target
from croupier.protocols.histograms.universe import Items, Universe, universe_from_dict
from croupier.protocols.mechanism import MOST_MESSAGES, VERSION, canonical
from croupier.protocols.sums.values import array_of
from croupier.validity import Prio3
from croupier.validity.shares import Ring


@by_name
def histogram(
    *,
    epsilon: float,
    delta: float | None = None,
    universe: Universe | Iterable[str],
    model: str = "shuffle",
    constants: str = "tight",
    side: str | None = None,
    honest_fraction: float = 1.0,
    failure: float = 0.05,
    minimise: str = "error",
    front_noise: bool = False,
) -> Histogram:
    """A recipe for counting items ([GKM21] Lemmas 36 and 37).

    Parameters
    ----------
    epsilon, delta : the target. δ None: 1e-6, and 0 between two servers, in the local and the pure central model.
    universe : all items that there are: `Items`, `Buckets`, `Numbers`, or a list of names.
    model : "two-servers", "shuffle", "local", "central" or "central-pure".
    constants : "tight", "published" or "proof"; between two servers tight alone.
    side : where counts may err, in the shuffle model. "over": never below the truth. "under": never above it, so that
        an item that nobody holds is exactly 0; a user sends a message for every item. "both": certain bounds on either
        side, by a fixed number of coins.
    honest_fraction : the part of a batch that is counted on to add its noise.
    failure : how often a bound may fail; it matters to `constants="proof"` only.
    minimise : "error", or "messages" for the noise of fewest messages.
    front_noise : whether the front of a service adds a whole noise of its own.

    Examples
    --------
    >>> from croupier.noise import seeded
    >>> recipe = histogram(epsilon=1.0, delta=1e-6, universe=("red", "green", "blue"))
    >>> release = recipe.plan(users=1000).run(["red"] * 700 + ["blue"] * 300, seeded(1))
    >>> release.winner
    'red'
    >>> bool(release.lower(0.05)[0] <= 700 <= release.upper(0.05)[0])
    True
    """
    target = Target(epsilon, delta, model, constants, side, honest_fraction, failure, minimise, front_noise)
    return Histogram(universe if isinstance(universe, Universe) else Items(tuple(universe)), target)


@dataclass(frozen=True, repr=False)
class Histogram:
    """A privacy target for counting a universe, to be planned for any batch size.

    Examples
    --------
    >>> histogram(epsilon=1.0, universe=("red", "green", "blue"), model="local")
    histogram of 3 items: 1-DP when one report is replaced, local model, tight constants
    """

    universe: Universe
    target: Target

    def __repr__(self) -> str:
        return f"histogram of {self.universe.size:,} {self.universe.counted}: {self.target}"

    def plan(self, users: int) -> HistogramMechanism:
        """Calibrate for a batch of exactly `users` users.

        `proof` takes its tail bound at the failure probability β/n, as [GKM21] Lemma 37 does.
        """
        integer("users", users, 1)
        target = self.target
        if target.constants == "proof":
            target = replace(target, failure=target.failure / users)
        oracle = target.oracle(self.universe.size, users)
        return HistogramMechanism(target.model, target.constants, oracle, target.guarantee, self.universe)


@dataclass(frozen=True, repr=False)
class HistogramMechanism(Planned):
    """A histogram planned for one batch size: frozen, serializable, with its certificate.

    Examples
    --------
    >>> histogram(epsilon=1.0, universe=("red", "green"), model="local").plan(users=99)  # doctest: +ELLIPSIS
    histogram of 2 items in the local model for 99 users: 1-DP when one report is replaced; standard ...
    """

    kind: ClassVar[str] = "HistogramMechanism"
    asks: ClassVar[str] = "histogram of"
    oracle: FrequencyOracle
    universe: Universe

    def __repr__(self) -> str:
        return f"{super().__repr__()}; standard deviation {self.oracle.std:.3g} of a count"

    def __post_init__(self) -> None:
        if not self.oracle.tells_counts or self.universe.size != self.oracle.size:
            raise InvalidParameter("universe", self.universe.size, f"{self.oracle.size} items, as the oracle counts")

    @property
    def possible(self) -> tuple[int, int]:
        return self.oracle.possible

    @property
    def outputs(self) -> int | None:
        return self.size

    def check_value(self, value: object) -> None:
        self.universe.indices([value])  # type: ignore[arg-type]

    @property
    def extremes(self) -> tuple[Any, Any]:
        items = self.universe.some(self.size)
        return items[0], items[-1]

    @cached_property
    def recipe(self) -> dict[str, Any]:
        body = self.to_dict()
        recipe = {key: body[key] for key in ("kind", "model", "constants", "universe")}
        return recipe | {"ballot": self.oracle.encoding(), "front_noise": self.front_shares > 0}

    @property
    def ring(self) -> Ring | None:
        return self.oracle.ring

    @property
    def prio3(self) -> Prio3 | None:
        return self.oracle.prio3

    def for_users(self, users: int) -> Self:
        if not self.fits_any_batch:
            return super().for_users(users)
        return replace(self, oracle=replace(self.oracle, users=users))  # type: ignore[type-var]

    def secret(self, value: object, source: Source) -> list[int]:
        return self.oracle.secret(int(self.universe.indices([value])[0]))  # type: ignore[arg-type]

    def server_noise(self, source: Source) -> list[int]:
        return self.oracle.server_noise(source)

    def told(self, total: Sequence[int]) -> tuple[int, ...]:
        return self._told(self.oracle.counts(total))

    @property
    def simulation_only(self) -> bool:
        return super().simulation_only or (self.ring is not None and self.size > MOST_MESSAGES)

    def _told(self, decoded: Integers) -> tuple[int, ...]:
        return tuple(decoded.tolist())

    @property
    def variance(self) -> float:
        """What noise adds to one count."""
        return self.oracle.std**2

    def radius(self, failure: float) -> float:
        """How far any count, cut to [0, users], is from the truth, in all items at once."""
        return self.oracle.radius(failure)

    def randomize(self, item: object, source: Source, *, seat: int | None = None) -> Integers:
        """A user's item as labelled messages, on their device, which refuses an item outside the universe."""
        return self._report(self.universe.indices([item]), source, seat)  # type: ignore[arg-type]

    def randomize_all(self, items: ArrayLike | Iterable[object], source: Source) -> Reports:
        """What every device of a batch sends, in the order of their seats."""
        indices = self.universe.indices(items)  # type: ignore[arg-type]
        if indices.shape != (self.users,):
            raise InvalidParameter("items", len(indices), f"a batch of exactly {self.users} items")
        return self.oracle.report(indices, source, np.arange(self.users))

    def analyze(self, view: ArrayLike, source: Source | None = None) -> HistogramRelease:
        """Read a batch's view. In the central models the analyzer draws the noise, and needs `source`."""
        return HistogramRelease(self, self.oracle.decode(array_of(view), source))

    def run(
        self, items: ArrayLike | Iterable[object], source: Source, progress: Progress = lambda part: None
    ) -> HistogramRelease:
        """The whole way of a batch: every device reports, the labels are counted, the counts are read."""
        indices = self.universe.indices(items)  # type: ignore[arg-type]
        return self.analyze(self._gathered(indices, source, progress), source)

    def simulate(self, counts: ArrayLike, source: Source) -> HistogramRelease:
        """The same law from the true counts of all items: total noise only (local: every user's response)."""
        return self.analyze(self._in_law(counts, source), source)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"universe": self.universe.to_dict()}

    @classmethod
    def _read(cls, body: dict[str, Any], affordable: bool) -> Self:
        return super()._read(body | {"universe": universe_from_dict(body["universe"])}, affordable)


@dataclass(frozen=True)
class Estimate:
    """One item with its count and bounds that hold for all items at once."""

    name: str
    index: int
    count: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class HistogramRelease(Tabular):
    """What is published of one batch: a whole number for each item, and how it came about.

    Parameters
    ----------
    mechanism : the histogram that was asked.
    decoded : what the batch's messages count to, item by item; `counts` are unbiased.

    Examples
    --------
    >>> from croupier.noise import seeded
    >>> mechanism = histogram(epsilon=4.0, universe=("red", "green"), model="two-servers").plan(users=100)
    >>> release = mechanism.simulate([70, 30], seeded(1))
    >>> release.winner, release.rows[0]["item"], bool(release.lower()[0] <= 70 <= release.upper()[0])
    ('red', 'red', True)
    """

    mechanism: HistogramMechanism
    decoded: Integers

    def __post_init__(self) -> None:
        self.decoded.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HistogramRelease):
            return NotImplemented
        return self.mechanism == other.mechanism and np.array_equal(self.decoded, other.decoded)

    def __hash__(self) -> int:
        return hash((self.mechanism, self.decoded.tobytes()))

    def __repr__(self) -> str:
        """The largest counts, how far any may be off, and what was promised."""
        first = ", ".join(f"{entry.name} {entry.count:,.0f}" for entry in self.top(3))
        more = ", ..." if self.mechanism.size > 3 else ""
        off = f"± {self.radius():.2g} (95 %, all {self.mechanism.size:,} at once)"
        model = f"histogram in the {self.mechanism.model} model"
        return f"{first}{more} {off} of {self.users:,} users, {self.privacy}, {model}"

    @property
    def rows(self) -> Rows:
        """One row an item, with bounds that all hold at once with 95 %."""
        lower, upper = self.mechanism.oracle.bounds(self.decoded, 0.05)
        name = self.mechanism.universe.name
        return Rows(
            {"item": name(i), "count": float(self.counts[i]), "lower": float(lower[i]), "upper": float(upper[i])}
            for i in range(self.mechanism.size)
        )

    def _repr_html_(self) -> str:
        largest = sorted(self.rows, key=lambda row: -row["count"])[:50]
        return Rows(largest)._repr_html_()

    @property
    def users(self) -> int:
        return self.mechanism.users

    @cached_property
    def counts(self) -> Floats:
        """Estimated counts, unbiased (so some are negative); the stable central ones are 0 where hidden instead."""
        return self.mechanism.oracle.estimate(self.decoded)

    def lower(self, failure: float = 0.05) -> Floats:
        """What no true count is below, but for this probability; 0 asks for what is certain."""
        return self.mechanism.oracle.bounds(self.decoded, failure)[0]

    def upper(self, failure: float = 0.05) -> Floats:
        """What no true count is above, but for this probability; 0 asks for what is certain."""
        return self.mechanism.oracle.bounds(self.decoded, failure)[1]

    def radius(self, failure: float = 0.05) -> float:
        """How far any count, cut to [0, users], is from the truth, in all items at once."""
        return self.mechanism.radius(failure)

    def top(self, count: int, failure: float = 0.05) -> list[Estimate]:
        """The items with the largest counts, largest first."""
        count = min(integer("count", count, 1), self.mechanism.size)
        order = np.argsort(-self.counts, kind="stable")[:count]
        lower, upper = self.mechanism.oracle.bounds(self.decoded, failure)
        name = self.mechanism.universe.name
        return [Estimate(name(i), i, float(self.counts[i]), float(lower[i]), float(upper[i])) for i in order.tolist()]

    @property
    def winner(self) -> str:
        """The item with the largest count."""
        return self.mechanism.universe.name(int(np.argmax(self.decoded)))

    @property
    def privacy(self) -> Guarantee:
        return self.mechanism.guarantee

    def to_json(self) -> str:
        """One line of canonical JSON; it carries its mechanism, so it can be read alone."""
        body = {"version": VERSION, "decoded": self.decoded.tolist(), "mechanism": self.mechanism.to_dict()}
        return canonical(body)

    @classmethod
    def from_json(cls, text: str) -> HistogramRelease:
        """Read a release back."""
        try:
            body = json.loads(text)
            integer("version", body["version"], VERSION, VERSION)
            mechanism = HistogramMechanism.from_json(json.dumps(body["mechanism"]))
            decoded = np.asarray([integer("decoded", n, -(2**62), 2**62) for n in body["decoded"]], dtype=np.int64)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            allowed = f"version {VERSION} of a serialized release ({error!r})"
            raise InvalidParameter("release", text[:60], allowed) from None
        if decoded.shape != (mechanism.size,):
            raise InvalidParameter("decoded", len(decoded), f"{mechanism.size} whole numbers")
        return cls(mechanism, decoded)
