"""Every policy by name: the papers' own, the yardsticks without privacy, and the flagship."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Unpack

from croupier.bandits.batch_sizes import SMALLEST, Ladder
from croupier.bandits.elimination import Elimination, Radius, SubExponentialRadius, SubGaussianRadius
from croupier.bandits.in_blocks import (
    BLOCK_GROWTH,
    ConcurrentElimination,
    ConcurrentIMED,
    ConcurrentKLUCB,
    TopTwo,
    in_blocks,
)
from croupier.bandits.index import IMED, KLUCB, UCB1
from croupier.bandits.metrics import Metrics
from croupier.bandits.policy import Policy
from croupier.bandits.regret_bounds import sdp_ae_batch, shuffled_bits_sigma
from croupier.bandits.split import Split
from croupier.bandits.terms import Terms
from croupier.bandits.thompson import Thompson, Uniform
from croupier.checks import InvalidParameter, one_of, positive
from croupier.protocols import ROWS, Protocol, protocol
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.protocols.sums.recipes import Returning
from croupier.protocols.sums.secagg import LOCAL_CONSTANT
from croupier.registry import Registry, instances

GROWTH = 1.3
"""The flagship's ratio of batch sizes, and its exploration of 0.6 log T: tuned on instances that no figure uses."""

LEAST_EPSILON = 1e-4
"""Below it noise drowns every batch, and its calibration takes longer than anybody waits."""


@dataclass(frozen=True)
class Entry:
    """One policy of the catalogue: whom it trusts, what it promises, and where it comes from.

    Parameters
    ----------
    name : what `--policy` takes.
    paper_name : what its authors call it.
    model : who is trusted, as `croupier policies` says it.
    protocol : the name of the protocol that its sums come by; None without privacy.
    paper : its citation key, or "yardstick".
    build : makes the policy of a `Request`.
    tight_only : whether there are no published constants: nobody has published the policy over these sums.
    in_blocks : whether its arms run side by side in blocks, so that their differences may be claimed.

    Examples
    --------
    >>> POLICIES["dp-klucb"].protocol, POLICIES["dp-klucb"].notion, POLICIES["dp-klucb"].paper
    ('laplace', 'pure', '[AWHOIB25]')
    """

    name: str
    paper_name: str
    model: str
    protocol: str | None
    paper: str = field(repr=False)
    build: Callable[[Request], Policy] = field(repr=False)
    tight_only: bool = False
    """Whether there are no published constants: nobody has published the policy over these sums."""
    in_blocks: bool = False
    """Whether its arms run side by side in blocks, so that their differences may be claimed."""

    @property
    def trusts(self) -> tuple[str, ...]:
        """Whom it can be asked to trust, over its own protocol; the first unless one is named."""
        return (self.model,) if self.protocol is None else protocol(self.protocol, epsilon=0.5).row.trusts

    @property
    def notion(self) -> str:
        """What the policy's default protocol promises."""
        if self.protocol is None:
            return "none"
        return protocol(self.protocol, epsilon=0.5).row.notion


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    entry: Entry
    arms: int
    horizon: int | None
    epsilon: float | None
    protocol: Protocol | None
    constants: str
    runs: int
    smallest: int | None
    growth: float | None
    failure: float | None
    exploration: float | None
    seed: int = 0
    terms: Terms = field(default_factory=Terms)
    metrics: Metrics | None = None

    def ladder(self, growth: float, published_first: int = 2) -> Ladder:
        """Batch sizes: the papers' from two users on, tight ones from the smallest batch."""
        first = published_first if self.constants == "published" else SMALLEST
        if self.protocol is None:
            first = 1
        return Ladder(self.protocol, self.smallest or first, self.growth or growth)

    def common(self) -> dict[str, Any]:
        return {"runs": self.runs, "name": self.entry.name}


def policy(
    name: str,
    *,
    arms: int,
    horizon: int | None,
    epsilon: float | None = None,
    delta: float | None = None,
    constants: str = "tight",
    runs: int = 1,
    binary: bool = False,
    protocol_name: str | None = None,
    smallest: int | None = None,
    growth: float | None = None,
    failure: float | None = None,
    exploration: float | None = None,
    seed: int = 0,
    decision: Terms | Mapping[str, Any] | None = None,
    metrics: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Unpack[Returning],
) -> Policy:
    """Make a policy by its name in `POLICIES`: [TKMS21], [CZ23], [AWHOIB25] and yardsticks.

    Parameters
    ----------
    name : one of `croupier policies`, or an installed one.
    arms : how many arms there are.
    horizon : how many users will come. None: unknown, and guessed by doubling.
    epsilon, delta : the privacy of one user's report; none for a policy without privacy.
    constants : "tight" or "published": the noise of the protocol and the radii of the policy.
    runs : how many runs are played at once.
    binary : whether rewards are zero or one.
    protocol_name : another protocol than the policy's own.
    smallest : the size of an arm's first batch.
    growth : how much larger each batch is than the one before.
    failure : the chance of losing the best arm (elimination).
    exploration : scales the index policies' level.
    seed : all the chance that a policy has (Thompson sampling).
    decision : what may be claimed, and what then: `Terms`, or their names and values (policies in blocks).
    metrics : several numbers a report, by name, each with what `croupier.bandits.Metric` takes (policies in blocks,
        between two servers). The primary one is what the policy plays for.
    options : of the protocol: `low`, `high`, `clip`, `honest_fraction`, `precision`, `scaling`, `side`, `wrap_failure`,
        `front_noise`, `participations` (users may return so often), `trust`, as `croupier.protocols.protocol` has them.

    Examples
    --------
    >>> flagship = policy("dp-klucb", arms=3, horizon=10**6, epsilon=1.0, binary=True)
    >>> flagship.wanted().tolist()
    [[32, 0, 0]]
    """
    entry = POLICIES.find(name)
    one_of("constants", constants, CONSTANTS)
    kind = protocol_name or entry.protocol
    if constants == "published" and not entry.tight_only and entry.protocol not in (None, kind):
        whose = f"{entry.protocol} with published constants: {entry.paper} states no radius for another noise"
        raise InvalidParameter("protocol_name", protocol_name, whose)
    carried: Protocol | None = None
    measured: Metrics | None = None
    if metrics is not None:
        if not entry.in_blocks:
            raise InvalidParameter("metrics", [*metrics], f"left out: {name} compares nothing; take one in blocks")
        said = {"protocol_name": kind, "binary": binary, "constants": constants, "delta": delta, **options}
        measured = Metrics.of(metrics, float(positive("epsilon", epsilon)), **said)
        _check_epsilon(entry.name, "laplace", measured.epsilon, constants)
        carried = measured.protocols[0]
    elif kind is not None:
        if epsilon is None:
            raise InvalidParameter("epsilon", None, f"given: {name} is private")
        _check_epsilon(entry.name, kind, epsilon, constants)
        try:
            recipe = partial(protocol, binary=True) if binary else protocol
            trust = ROWS.find(kind).trusting(options.pop("trust", None))
            carried = recipe(kind, epsilon=epsilon, delta=delta, constants=constants, **options | trust)  # type: ignore[arg-type]
        except InvalidParameter as error:
            if error.name == "delta" and delta is None:
                raise _unplannable(epsilon, kind, error) from None
            raise
        if carried.published and horizon is not None:
            # The papers let the modular sum wrap around with their own p.
            carried = carried.having(wrap_failure=min(failure or 1.0 / max(horizon, 2), 0.5))
    chosen = (constants, runs, smallest, growth, failure, exploration, seed, _terms(decision), measured)
    built = entry.build(Request(entry, arms, horizon, epsilon, carried, *chosen))
    _check_first_batch(built.ladder)
    built.ladder.check_promise(horizon)
    return built


def _terms(given: Terms | Mapping[str, Any] | None) -> Terms:
    """As they are, or of plain values, as a configuration has them."""
    if given is not None and not isinstance(given, Mapping):
        return given
    known = {entry.name for entry in fields(Terms)}
    for key, value in (given or {}).items():
        if key not in known:
            raise InvalidParameter(f"decision.{key}", value, f"one of {', '.join(sorted(known))}")
    return Terms(**given or {})


def _check_epsilon(name: str, kind: str, epsilon: float, constants: str) -> None:
    """Refuse what would only make people wait."""
    row = ROWS.get(kind)
    least = LEAST_EPSILON if row is None or constants == "published" else max(LEAST_EPSILON, row.least_epsilon)
    if 0 < epsilon < least:
        raise InvalidParameter("epsilon", epsilon, f"at least {least:g} for {name} over {kind}")


def _check_first_batch(ladder: Ladder) -> None:
    """Refuse an ε for which no batch can be planned in the user's words, not in those of a formula that overflows."""
    try:
        ladder.mechanism(ladder.first)
    except InvalidParameter as error:
        assert ladder.protocol is not None
        if error.value == ladder.protocol.epsilon:
            raise
        raise _unplannable(ladder.protocol.epsilon, ladder.protocol.name, error) from None
    except (ArithmeticError, ValueError) as error:
        assert ladder.protocol is not None
        raise _unplannable(ladder.protocol.epsilon, ladder.protocol.name, error) from None


def _unplannable(epsilon: float, kind: str, why: Exception) -> InvalidParameter:
    return InvalidParameter("epsilon", epsilon, f"one at which {kind} can plan a batch ({why})")


def _elimination(request: Request, radius: Radius | None, *, accumulate: bool, growth: float, first: int = 2) -> Policy:
    return Elimination(
        request.arms,
        request.horizon,
        request.ladder(growth, first),
        accumulate=accumulate,
        failure=request.failure,
        radius=radius if request.constants == "published" else None,
        **request.common(),
    )


def _sigma(request: Request) -> float:
    """[TKMS21]'s σ, for the noise that this protocol really has."""
    assert request.protocol is not None
    batch = request.protocol.one_batch
    return _noises(batch) * shuffled_bits_sigma(batch.epsilon, batch.delta)


def _noises(protocol: Protocol) -> float:
    """How many times the papers' σ the noise has: n users' shares where γn suffice, and a front's whole noise."""
    return math.sqrt(1.0 / protocol.honest_fraction + (1.0 if protocol.front_noise else 0.0))


def _sdp_ae(request: Request) -> Policy:
    """Fixed batches, all phases: ⌈σ²⌉ users ([TKMS21] Cor. 3.2, which prints σ), or fewer where the noise is less."""
    assert request.protocol is not None
    if request.constants == "published":
        size = sdp_ae_batch(_sigma(request))
    else:
        # Sixteen times the noise's variance: rewards, at a quarter each, then vary four times as much as the noise.
        size = max(SMALLEST, math.ceil(16.0 * request.protocol.plan(10_000).variance))
    return _all_phases(replace(request, smallest=request.smallest or size), growth=1.0)


def _vb_sdp_ae(request: Request) -> Policy:
    """Batches of 2^t users, all phases ([TKMS21] Alg. 2)."""
    return _all_phases(request, growth=2.0)


def _all_phases(request: Request, growth: float) -> Policy:
    radius = SubGaussianRadius(_sigma(request)) if request.constants == "published" else None
    return _elimination(request, radius, accumulate=True, growth=growth)


def _batched(sigma: Callable[[Protocol], tuple[float, float, float]]) -> Callable[[Request], Policy]:
    """[CZ23] Alg. 1 with (σ, h) of its noise."""

    def build(request: Request) -> Policy:
        assert request.protocol is not None
        radius = None
        if request.constants == "published":
            batch = request.protocol.one_batch
            spread, h, local = sigma(batch)
            radius = SubExponentialRadius(_noises(batch) * spread, h, local)
        return _elimination(request, radius, accumulate=False, growth=2.0)

    return build


def _laplace(protocol: Protocol) -> tuple[float, float, float]:
    return math.sqrt(2.0) / protocol.epsilon, 1.0 / protocol.epsilon, 0.0


def _half(protocol: Protocol) -> tuple[float, float, float]:
    return 2.0 * math.sqrt(2.0) / protocol.epsilon, 2.0 / protocol.epsilon, 0.0


def _skellam(protocol: Protocol) -> tuple[float, float, float]:
    scaled = math.sqrt(2.0) / (protocol.scaling * protocol.epsilon)
    return 2.0 / protocol.epsilon + scaled, scaled, 0.0


def _gauss(protocol: Protocol) -> tuple[float, float, float]:
    scaled = math.sqrt(2.0) / (protocol.scaling * protocol.epsilon)
    return math.sqrt(2.0) / protocol.epsilon + scaled, 0.0, 0.0


def _local(protocol: Protocol) -> tuple[float, float, float]:
    return math.sqrt(2.0) / protocol.epsilon, 0.0, LOCAL_CONSTANT * math.sqrt(2.0) / protocol.epsilon


def _plain_elimination(request: Request) -> Policy:
    """Elimination without privacy, tight bounds, all phases."""
    return _elimination(replace(request, constants="tight"), None, accumulate=True, growth=2.0)


def _index(kind: type[KLUCB] | type[IMED]) -> Callable[[Request], Policy]:
    def build(request: Request) -> Policy:
        exploration = request.exploration or 0.6
        return kind(
            request.arms, request.horizon, request.ladder(GROWTH, SMALLEST), exploration=exploration, **request.common()
        )

    return build


def _thompson(request: Request) -> Policy:
    return Thompson(
        request.arms, request.horizon, request.ladder(GROWTH, SMALLEST), seed=request.seed, **request.common()
    )


OFTEN = 1.01
"""The yardsticks reconsider an arm after every hundredth of its pulls, so from one user on."""


def _kl_ucb(request: Request) -> Policy:
    """KL-UCB at level log T."""
    ladder = Ladder(None, request.smallest or 1, request.growth or OFTEN)
    return KLUCB(request.arms, request.horizon, ladder, exploration=request.exploration or 1.0, **request.common())


def _ucb1(request: Request) -> Policy:
    return UCB1(request.arms, request.horizon, request.ladder(OFTEN), **request.common())


def _plain_thompson(request: Request) -> Policy:
    ladder = request.ladder(OFTEN)
    return Thompson(request.arms, request.horizon, ladder, seed=request.seed, **request.common())


def _uniform(request: Request) -> Policy:
    return Uniform(request.arms, request.horizon, request.ladder(BLOCK_GROWTH), **request.common())


_OWN: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("dp-klucb", "DP-KLUCB, distributed", "devices", "laplace", "[AWHOIB25]", _index(KLUCB), True),
        Entry("dp-imed", "DP-IMED, distributed", "devices", "laplace", "[AWHOIB25]", _index(IMED), True),
        Entry("dp-thompson", "Thompson sampling", "devices", "laplace", "yardstick", _thompson, True),
        *(
            Entry(name, title, "devices", "laplace", paper, in_blocks(kind), True, True)
            for name, title, paper, kind in (
                ("split", "A/B/n test in blocks", "croupier", Split),
                ("concurrent-elimination", "elimination in blocks", "croupier", ConcurrentElimination),
                ("dp-top-two", "top two in blocks", "after [JA25]", TopTwo),
                ("concurrent-klucb", "DP-KLUCB in blocks", "[AWHOIB25]", ConcurrentKLUCB),
                ("concurrent-imed", "DP-IMED in blocks", "[AWHOIB25]", ConcurrentIMED),
            )
        ),
        Entry("sdp-ae", "SDP-AE", "shuffler", "shuffled-bits", "[TKMS21] Alg. 1", _sdp_ae),
        Entry("vb-sdp-ae", "VB-SDP-AE", "shuffler", "shuffled-bits", "[TKMS21] Alg. 2", _vb_sdp_ae),
        Entry("dist-dp-se", "Dist-DP-SE", "devices", "laplace", "[CZ23] Thm 1", _batched(_laplace)),
        Entry("dist-rdp-se", "Dist-RDP-SE", "devices", "skellam", "[CZ23] Thm 2", _batched(_skellam)),
        Entry("dist-zcdp-se", "Dist-CDP-SE", "devices", "discrete-gaussian", "[CZ23] Thm 4", _batched(_gauss)),
        Entry(
            "shuffle-dp-se",
            "Dist-DP-SE, shuffled",
            "shuffler",
            "shuffled-laplace",
            "[CZ23] Thm 3",
            _batched(_half),
        ),
        Entry("central-dp-se", "CDP-SE", "analyzer", "central-laplace", "[CZ23] Thm 5", _batched(_laplace)),
        Entry("local-dp-se", "LDP-SE", "nobody", "local-laplace", "[CZ23] Thm 6", _batched(_local)),
        Entry("elimination", "successive elimination", "none", None, "yardstick", _plain_elimination),
        Entry("kl-ucb", "KL-UCB", "none", None, "yardstick", _kl_ucb),
        Entry("ucb1", "UCB1", "none", None, "yardstick", _ucb1),
        Entry("thompson", "Thompson sampling", "none", None, "yardstick", _plain_thompson),
        Entry("uniform", "uniform play", "none", None, "yardstick", _uniform),
    )
}

POLICIES: Registry[Entry] = Registry("policy", "croupier.policies", _OWN, instances(Entry, "an Entry"))
"""Every policy by name. DP-SE, a baseline with continuous noise, is in `croupier.simulation`."""
