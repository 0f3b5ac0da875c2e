"""The private sums as functions: each with the options that its row reads, and `protocol` for any row by name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Literal, ParamSpec, TypedDict, Unpack

from croupier.protocols.sums.bits import SHUFFLED_BITS, SHUFFLED_LEVELS
from croupier.protocols.sums.counted import COUNTED_MESSAGES
from croupier.protocols.sums.protocol import Protocol, Row
from croupier.protocols.sums.secagg import CENTRAL_LAPLACE, DISCRETE_GAUSSIAN, LAPLACE, LOCAL_LAPLACE, SKELLAM
from croupier.protocols.sums.split_and_mix import SHUFFLED_LAPLACE, SHUFFLED_VECTORS
from croupier.protocols.sums.vectors import LAPLACE_VECTORS, SHARED_VECTORS
from croupier.registry import Registry, instances

_OWN: dict[str, Row] = {
    row.name: row
    for row in (
        SHUFFLED_BITS,
        SHUFFLED_LEVELS,
        LAPLACE,
        SKELLAM,
        DISCRETE_GAUSSIAN,
        CENTRAL_LAPLACE,
        LOCAL_LAPLACE,
        SHUFFLED_LAPLACE,
        COUNTED_MESSAGES,
        SHUFFLED_VECTORS,
        SHARED_VECTORS,
        LAPLACE_VECTORS,
    )
}

ROWS: Registry[Row] = Registry("protocol", "croupier.protocols", _OWN, instances(Row, "a Row"))
"""Every protocol by name."""

VALUES = ("low", "high", "binary", "clip", "dimension", "diameter")
"""Options that say what users may report."""

PARAMETERS = {
    "epsilon": "the target ε for one user's report: smaller is more private.",
    "delta": "the target δ. None: this protocol's own. Pure privacy has none.",
    "constants": '"tight": the least noise that meets the target, calculated exactly. "published": the paper\'s noise.',
    "low": "the least value that a user may report.",
    "high": "the largest value that a user may report.",
    "binary": "whether users report one of the two ends only.",
    "clip": "whether a value outside is moved to the nearest allowed one. Otherwise it is refused.",
    "dimension": "how many numbers a user's vector has; its Euclidean norm is one at most.",
    "diameter": "how far two users' vectors can be apart, where that is known to be less than 2.",
    "honest_fraction": "the part of a batch that is counted on to add its noise.",
    "precision": "into how many steps a range is divided. None: as many as the noise makes worthwhile.",
    "scaling": "how much finer the steps are than the noise requires, from 1 to 1,000,000.",
    "side": '"over": a count is never below the truth. "under": never above it.',
    "failure": "how often the error may exceed the one that is minimised.",
    "wrap_failure": "how often a modular sum may wrap around. None: 2^-40 (tight) or 1e-6 (published).",
    "participations": "in how many batches a user may be, once in each: all together keep the promise.",
    "trust": 'who must be trusted. "devices" each add a share of the noise; either of "two-servers" adds a whole one.',
    "front_noise": "whether the front of a service adds a whole noise of its own, for a user among strangers.",
}
"""What every parameter of a recipe means."""

TARGET = ("epsilon", "delta")
"""What every recipe reads."""

Given = ParamSpec("Given")


class Shared(TypedDict, total=False):
    """Options that a bandit and a counter pass on to their protocol."""

    low: float
    high: float
    clip: bool
    honest_fraction: float
    precision: int | None
    scaling: float
    side: Literal["over", "under"]
    wrap_failure: float | None
    front_noise: bool
    trust: str | None


class Returning(Shared, total=False):
    """Those of a bandit, whose users may return."""

    participations: int


class Level(Shared, total=False):
    """Those of a counter, whose levels may sum vectors."""

    binary: bool | None
    failure: float
    dimension: int
    diameter: float


class Options(Level, Returning, total=False):
    """All options of all protocols."""


def recipe(build: Callable[Given, Protocol]) -> Callable[Given, Protocol]:
    """The recipe of the row with the same name."""
    return _door(build, build, build.__name__, build.__doc__ or "")


def like(model: Callable[Given, Protocol], name: str, text: str) -> Callable[Given, Protocol]:
    """The recipe of a row that reads what another row reads, or less."""
    return _door(model, partial(protocol, name.replace("_", "-")), name, text)


def _door(
    model: Callable[Given, Any], build: Callable[..., Protocol], name: str, text: str
) -> Callable[Given, Protocol]:
    """Describe a recipe's parameters, and refuse by name what its row does not read."""
    row = ROWS[name.replace("_", "-")]

    @wraps(model)
    def door(*arguments: Given.args, **options: Given.kwargs) -> Protocol:
        row.check_options({key: options[key] for key in options if key not in TARGET})
        if "delta" not in read:
            # Whoever asks a purely private sum for a δ is told why there is none.
            row.delta(math.nan, options.pop("delta", None))  # type: ignore[arg-type]
        return build(*arguments, **options)

    said, example = inspect.cleandoc(text).split("\n\n>>>", 1)
    every = inspect.signature(model)
    read = [key for key in every.parameters if key in row.takes]
    described = "\n".join(f"{key} : {PARAMETERS[key]}" for key in read)
    door.__signature__ = every.replace(parameters=[every.parameters[key] for key in read])  # type: ignore[attr-defined]
    door.__name__ = door.__qualname__ = name
    door.__doc__ = f"{said}\n\nParameters\n----------\n{described}\n\nExamples\n--------\n>>>{example}"
    return door


def protocol(
    name: str,
    *,
    epsilon: float,
    delta: float | None = None,
    constants: str = "tight",
    **options: Unpack[Options],
) -> Protocol:
    """Return a private sum by its name in `ROWS`. Every row has a function with its own options, as `laplace`.

    A row says which options it reads. All others are refused by name.

    Parameters
    ----------
    name : one of `croupier protocols`, or an installed one.
    epsilon, delta, constants : as in `laplace` and `shuffled_bits`.
    options : `low`, `high`, `binary`, `clip` (what users may report); `dimension`, `diameter` (of vectors);
        `honest_fraction`, `participations`, `precision`, `scaling`, `side`, `failure`, `wrap_failure`, `front_noise`,
        `trust`.

    Examples
    --------
    >>> protocol("laplace", epsilon=1.0).plan(users=100).certificate().holds
    True
    >>> protocol("laplace", epsilon=1.0, side="under")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: side = 'under' is not allowed: it must be left out: laplace takes epsilon, ...
    """
    row = ROWS.find(name)
    given: dict[str, Any] = {"constants": constants, **options}
    row.check_options(given)
    values = row.values(**{key: given.pop(key) for key in VALUES if key in given})
    return Protocol(row, epsilon, row.delta(epsilon, delta), values=values, **given)


@recipe
def shuffled_bits(
    *,
    epsilon: float,
    delta: float | None = None,
    constants: str = "tight",
    honest_fraction: float = 1.0,
    participations: int = 1,
    front_noise: bool = False,
    low: float = 0.0,
    high: float = 1.0,
    binary: bool | None = None,
    clip: bool = False,
) -> Protocol:
    """Sums of bits through a shuffler, hidden among random bits ([TKMS21] Alg. 3).

    >>> shuffled_bits(epsilon=0.5, delta=1e-6).plan(users=1000)
    shuffled-bits for 1,000 users: (0.5, 1e-6)-DP when one report is replaced; standard deviation 8.23 of a sum
    """
    return protocol("shuffled-bits", **locals())


@recipe
def shuffled_levels(
    *,
    epsilon: float,
    delta: float | None = None,
    constants: str = "tight",
    honest_fraction: float = 1.0,
    participations: int = 1,
    front_noise: bool = False,
    precision: int | None = None,
    low: float = 0.0,
    high: float = 1.0,
    binary: bool = False,
    clip: bool = False,
) -> Protocol:
    """Sums of numbers through a shuffler: as many ones as the value has steps, hidden among random bits [CSUZZ19].

    >>> shuffled_levels(epsilon=0.5, low=1, high=5).plan(users=1000)
    shuffled-levels for 1,000 users: (0.5, 1e-6)-DP when one report is replaced; standard deviation 33.7 of a sum
    """
    return protocol("shuffled-levels", **locals())


@recipe
def laplace(
    *,
    epsilon: float,
    constants: str = "tight",
    honest_fraction: float = 1.0,
    participations: int = 1,
    low: float = 0.0,
    high: float = 1.0,
    binary: bool = False,
    clip: bool = False,
    precision: int | None = None,
    wrap_failure: float | None = None,
    trust: str | None = None,
) -> Protocol:
    """Sums under secure aggregation, with discrete Laplace noise: purely private ([CZ23] Thm 1).

    >>> laplace(epsilon=1.0).plan(users=1000)
    laplace for 1,000 users: 1-DP when one report is replaced; standard deviation 1.42 of a sum
    >>> laplace(epsilon=1.0, trust="two-servers").plan(users=1000)
    laplace for 1,000 users: 1-DP when one report is replaced; standard deviation 2 of a sum
    """
    return protocol("laplace", **locals())


@recipe
def skellam(
    *,
    epsilon: float,
    delta: float | None = None,
    constants: str = "tight",
    honest_fraction: float = 1.0,
    participations: int = 1,
    low: float = 0.0,
    high: float = 1.0,
    binary: bool = False,
    clip: bool = False,
    precision: int | None = None,
    scaling: float = 10.0,
    wrap_failure: float | None = None,
    trust: str | None = None,
) -> Protocol:
    """Sums under secure aggregation, with Skellam noise: Rényi privacy ([CZ23] Thm 2).

    >>> print(skellam(epsilon=1.0, delta=1e-6).plan(users=1000).guarantee)
    (6, 3.00003)-RDP, so (4.8864, 1e-6)-DP when one report is replaced
    """
    return protocol("skellam", **locals())


@recipe
def shuffled_laplace(
    *,
    epsilon: float,
    delta: float | None = None,
    wrap_failure: float | None = None,
    precision: int | None = None,
    constants: str = "tight",
    honest_fraction: float = 1.0,
    participations: int = 1,
    front_noise: bool = False,
    low: float = 0.0,
    high: float = 1.0,
    binary: bool = False,
    clip: bool = False,
) -> Protocol:
    """Sums through a shuffler with discrete Laplace noise, by values split into random shares [IKOS06], [BBGN20].

    It stands for [CZ23] Thm 3 and is another protocol, with a δ.

    >>> shuffled_laplace(epsilon=1.0, delta=1e-6).plan(users=1000)
    shuffled-laplace for 1,000 users: (1, 1e-6)-DP when one report is replaced; standard deviation 1.42 of a sum
    """
    return protocol("shuffled-laplace", **locals())


@recipe
def counted_messages(
    *,
    epsilon: float,
    delta: float | None = None,
    constants: str = "tight",
    side: Literal["over", "under"] = "over",
    failure: float = 0.05,
    honest_fraction: float = 1.0,
    participations: int = 1,
    front_noise: bool = False,
    low: float = 0.0,
    high: float = 1.0,
    binary: bool | None = None,
    clip: bool = False,
) -> Protocol:
    """Counts that are never below (or never above) the truth: messages are counted ([GKM21] Alg. 7 and 8).

    >>> counted_messages(epsilon=1.0, delta=1e-6, side="under").plan(users=1000)
    counted-messages for 1,000 users: (1, 1e-6)-DP when one report is replaced; standard deviation 5.84 of a sum
    """
    return protocol("counted-messages", **locals())


def _vectors(
    *,
    epsilon: float,
    dimension: int,
    delta: float | None = None,
    constants: str = "tight",
    honest_fraction: float = 1.0,
    participations: int = 1,
    front_noise: bool = False,
    diameter: float = 2.0,
    clip: bool = False,
    precision: int | None = None,
    wrap_failure: float | None = None,
    trust: str | None = None,
) -> Protocol:
    """What sums of vectors may be asked for; a row reads some of it."""
    raise AssertionError("recipes take their signatures from here, and nobody calls it")


discrete_gaussian = like(
    skellam,
    "discrete_gaussian",
    """Sums under secure aggregation, with discrete Gaussian noise: concentrated privacy ([CZ23] Thm 4).

    >>> print(discrete_gaussian(epsilon=1.0, delta=1e-6).plan(users=1000).guarantee)
    0.5-zCDP, so (4.88656, 1e-6)-DP when one report is replaced
    """,
)

central_laplace = like(
    laplace,
    "central_laplace",
    """Sums whose noise a trusted analyzer adds: a yardstick ([CZ23] Thm 5).

    >>> central_laplace(epsilon=1.0).plan(users=1000)
    central-laplace for 1,000 users: 1-DP when one report is replaced; standard deviation 1.42 of a sum
    """,
)

local_laplace = like(
    laplace,
    "local_laplace",
    """Sums of reports that are each private alone, so that nobody is trusted ([CZ23] Thm 6).

    >>> local_laplace(epsilon=1.0).plan(users=1000)
    local-laplace for 1,000 users: 1-DP when one report is replaced; standard deviation 44.7 of a sum
    """,
)

shuffled_vectors = like(
    _vectors,
    "shuffled_vectors",
    """Sums of vectors of norm at most one through a shuffler ([CJMP22]; tight: split into random shares [BBGN20]).

    >>> shuffled_vectors(epsilon=1.0, dimension=3, delta=1e-6).plan(users=1000)
    shuffled-vectors for 1,000 users: (1, 1e-6)-DP when one report is replaced; standard deviation 9.19 of a coordinate
    """,
)

shared_vectors = like(
    _vectors,
    "shared_vectors",
    """Sums of vectors of norm at most one in shares between two servers, each of which adds a whole Skellam noise.

    >>> shared_vectors(epsilon=1.0, dimension=3, delta=1e-6).plan(users=1000)
    shared-vectors for 1,000 users: (1, 1e-6)-DP when one report is replaced; standard deviation 13 of a coordinate
    """,
)

laplace_vectors = like(
    _vectors,
    "laplace_vectors",
    """The same with discrete Laplace noise: purely private, and less noise where a vector has few numbers.

    >>> laplace_vectors(epsilon=1.0, dimension=3).plan(users=1000)
    laplace-vectors for 1,000 users: 1-DP when one report is replaced; standard deviation 7 of a coordinate
    """,
)
