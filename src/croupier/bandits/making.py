"""A policy made of its row: over its protocol, with its metrics, and with nothing that was asked for left unread."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Unpack

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.catalogue import POLICIES
from croupier.bandits.entry import Entry, Request
from croupier.bandits.metrics import Metrics
from croupier.bandits.policy import Policy
from croupier.bandits.terms import Terms
from croupier.checks import CroupierError, InvalidParameter, between, did_you_mean, ignored, integer, one_of, positive
from croupier.protocols import ROWS, Protocol, protocol
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.protocols.sums.recipes import Returning

ROOM, ATTEMPTS = 0.998, 8
"""How closely batches of several sizes are made to keep what they promise together, and how often that is tried."""

LEAST_EPSILON = 1e-4
"""Below it noise drowns every batch, and its calibration takes longer than anybody waits."""


def policy(
    name: str | Entry,
    *,
    arms: int,
    horizon: int | None,
    epsilon: float | None = None,
    delta: float | None = None,
    constants: str | None = None,
    runs: int = 1,
    binary: bool = False,
    protocol_name: str | None = None,
    smallest: int | None = None,
    growth: float | None = None,
    failure: float | None = None,
    exploration: float | None = None,
    seed: int | None = None,
    decision: Terms | Mapping[str, Any] | None = None,
    metrics: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Unpack[Returning],
) -> Policy:
    """Make a policy by its name in `POLICIES`: [TKMS21], [CZ23], [AWHOIB25] and baselines.

    What neither the policy nor its protocol reads is refused by name.

    Parameters
    ----------
    name : one of `croupier policies`, an installed one, or an `Entry` of your own.
    arms : how many arms there are.
    horizon : how many users will come. None: unknown, and guessed by doubling.
    epsilon, delta : the privacy of one user's report; none for a policy without privacy.
    constants : "tight" or "published": the noise of the protocol and the radii of the policy. None: tight.
    runs : how many runs are played at once.
    binary : whether rewards are zero or one.
    protocol_name : another protocol than the policy's own.
    smallest : the size of an arm's first batch.
    growth : how much larger each batch is than the one before.
    failure : the chance of losing the best arm (elimination).
    exploration : scales the index policies' level.
    seed : all the chance that a policy has (Thompson sampling). None: 0.
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

    A row makes the same policy as its name, and needs no registration:

    >>> policy(POLICIES["dp-klucb"], arms=3, horizon=10**6, epsilon=1.0, binary=True).wanted().tolist()
    [[32, 0, 0]]
    """
    entry = POLICIES.find(name) if isinstance(name, str) else name
    own = {"failure": failure, "exploration": exploration, "seed": seed, "decision": decision}
    _check_known(entry.name, options)
    _check_numbers(smallest, growth, failure, exploration)
    kind = protocol_name or entry.protocol
    if kind is None:
        _check_no_protocol(entry, epsilon, delta, options | ({} if constants is None else {"constants": constants}))
    constants = one_of("constants", constants or CONSTANTS[0], CONSTANTS)
    if constants == "published" and not entry.tight_only and entry.protocol not in (None, kind):
        whose = f"{entry.protocol} with published constants: no radius is stated for another noise ({entry.paper})"
        raise InvalidParameter("protocol_name", protocol_name, whose)
    carried: Protocol | None = None
    measured: Metrics | None = None
    if metrics is not None:
        if not entry.in_blocks:
            raise InvalidParameter(
                "metrics", [*metrics], f"left out: {entry.name} compares nothing; take one in blocks"
            )
        said = {"protocol_name": kind, "binary": binary, "constants": constants, "delta": delta, **options}
        measured = Metrics.of(metrics, float(positive("epsilon", epsilon)), **said)
        carried = measured.protocols[0]
        _check_epsilon(entry.name, carried.name, measured.epsilon, constants)
    elif kind is not None:
        carried = _carried(entry.name, kind, epsilon, delta, constants, binary, options)
        if carried.published and horizon is not None:
            # The papers let the modular sum wrap around with their own p.
            carried = carried.having(wrap_failure=min(failure or 1.0 / max(horizon, 2), 0.5))
    terms = _terms(decision)
    chosen = (constants, runs, smallest, growth, failure, exploration, seed or 0, terms, measured)
    built = entry.build(Request(entry, arms, horizon, epsilon, carried, *chosen))
    if not hasattr(built, "ladder"):
        raise CroupierError(f"policy {entry.name!r} builds {type(built).__name__}, not a Policy")
    _check_read(entry.name, built, own | {"shares": terms.shares})
    _check_ladder(entry.name, built.ladder, protocol_name, smallest, growth)
    _check_first_batch(built.ladder)
    for _ in range(ATTEMPTS):
        excess = built.ladder.excess(horizon)
        if carried is None or excess <= 1.0:
            return built
        # Composed each with its own size batches keep the promise. In a mix of sizes, whose noises differ a little,
        # they may cost a little more: then each is left less room for it.
        carried = replace(carried, room=carried.room * ROOM / excess)
        built = entry.build(Request(entry, arms, horizon, epsilon, carried, *chosen))
    raise CroupierError(f"{carried!r} costs a user who returns to batches of other sizes more than its δ")


def _carried(
    name: str,
    kind: str,
    epsilon: float | None,
    delta: float | None,
    constants: str,
    binary: bool,
    options: Mapping[str, Any],
) -> Protocol:
    """The protocol that sums the batches."""
    if epsilon is None:
        raise InvalidParameter("epsilon", None, f"given: {name} is private")
    if ROWS.find(kind).vectors:
        raise InvalidParameter("protocol_name", kind, "one that sums numbers: a reward is no vector")
    _check_epsilon(name, kind, epsilon, constants)
    read = {key: value for key, value in options.items() if key != "trust"}
    try:
        recipe = partial(protocol, binary=True) if binary else protocol
        trust = ROWS.find(kind).trusting(options.get("trust"))
        return recipe(kind, epsilon=epsilon, delta=delta, constants=constants, **read | trust)
    except InvalidParameter as error:
        if error.name == "delta" and delta is None:
            raise _unplannable(epsilon, kind, error) from None
        raise


def _terms(given: Terms | Mapping[str, Any] | None) -> Terms:
    """As they are, or of plain values, as a configuration has them."""
    if given is not None and not isinstance(given, Mapping):
        return given
    known = sorted(entry.name for entry in fields(Terms))
    for key, value in (given or {}).items():
        if key not in known:
            taken = f"left out: a decision takes {', '.join(known)}{did_you_mean(key, known)}"
            raise InvalidParameter(f"decision.{key}", value, taken)
    return Terms(**given or {})


def _check_known(name: str, options: Mapping[str, object]) -> None:
    """Refuse what no policy reads; what some protocol reads is for the policy's own to refuse."""
    known = sorted(Returning.__optional_keys__)
    for key, value in options.items():
        if key not in known:
            taken = [*inspect.signature(policy).parameters, *known]
            raise ignored(key, value, [name], did_you_mean(key, taken))


def _check_no_protocol(entry: Entry, epsilon: float | None, delta: float | None, options: Mapping[str, object]) -> None:
    """Refuse what only a protocol would read: without one a policy has noise of its own, or no privacy at all."""
    private = entry.notion != "none"
    for key, value in options.items():
        if not (private and key == "trust" and value in (None, entry.model)):
            raise ignored(key, value, [entry.name])
    for key, value in (("epsilon", epsilon), ("delta", delta)):
        if value is not None and not private:
            raise InvalidParameter(key, value, f"left out: {entry.name} is without privacy")
    if delta not in (None, 0, 0.0):
        raise InvalidParameter("delta", delta, f"0 or left out: {entry.name} is purely private")


def _check_read(name: str, built: Policy, given: Mapping[str, object]) -> None:
    """Refuse what only other policies read."""
    for key, value in given.items():
        if value is not None and key not in built.reads:
            raise ignored(key, value, [name])


def _check_numbers(
    smallest: int | None, growth: float | None, failure: float | None, exploration: float | None
) -> None:
    """Refuse a zero here, where nobody takes it for a number that was not given."""
    if smallest is not None:
        integer("smallest", smallest, 1)
    if growth is not None:
        between("growth", growth, 1, math.inf, "[)")
    if failure is not None:
        between("failure", failure, 0, 1)
    if exploration is not None:
        positive("exploration", exploration)


def _check_ladder(name: str, ladder: Ladder, kind: str | None, smallest: int | None, growth: float | None) -> None:
    """Refuse what was asked of a ladder that is not the policy's: some have sizes of their own, or no noise."""
    if kind is not None and ladder.protocol is None:
        raise ignored("protocol_name", kind, [name])
    if smallest is not None and ladder.first < smallest:
        raise ignored("smallest", smallest, [name])
    if growth is not None and ladder.growth != growth:
        raise ignored("growth", growth, [name])


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
    except (ArithmeticError, ValueError, CroupierError) as error:
        assert ladder.protocol is not None
        raise _unplannable(ladder.protocol.epsilon, ladder.protocol.name, error) from None


def _unplannable(epsilon: float, kind: str, why: Exception) -> InvalidParameter:
    return InvalidParameter("epsilon", epsilon, f"one at which {kind} can plan a batch ({why})")
