"""How a counter is planned: its tree, and one mechanism a level that together meet the user's budget."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Unpack

from croupier.checks import CroupierError, InvalidParameter, between, integer
from croupier.continual.plan import CounterPlan
from croupier.continual.tree import Tree, Weights, binary_tree, shuffler_tree
from croupier.privacy import Loss
from croupier.protocols import ROWS, Protocol, SumMechanism, default_protocol, protocol
from croupier.protocols.sums.protocol import LARGEST_EPSILON
from croupier.protocols.sums.recipes import Level

SMALLEST = 32
"""The least batch of a tight counter, unless its carrier wants more."""

LEVEL_DELTA = 0.7
"""Of its equal part of δ, each tight level names this share; what counts is the exact composition of all."""

CARRIER_DELTA = 0.01
"""Of δ, split-and-mix takes no more than this share."""

LEVEL_WRAP = 2.0**-64
"""How often a tight level's modular sum may wrap around: a long counter releases very many."""

SPREAD = 4.0
"""Standard deviations that a tight tree's shape weighs against its unfinished node."""

LEAST_EPSILON, LEAST_PURE_EPSILON = 0.01, 1e-3
"""Below this the noise of a tight counter's levels is so wide that searching for it takes more than seconds."""


def counter(
    users: int,
    shufflers: int | None = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
    constants: str = "tight",
    over: str | None = None,
    smallest: int | None = None,
    **options: Unpack[Level],
) -> CounterPlan:
    """Plan a running sum over `users` users who come one after another ([TKMS23] Alg. 2 and 3).

    Parameters
    ----------
    users : how many will come.
    shufflers : how many batches a user takes part in at once. None: as many as a binary tree has levels.
    epsilon, delta : the privacy of one user, all batches together.
    constants : "published": every level has (ε/k, δ/k). "tight": levels are as private as their exact composition
        needs, finished nodes are combined by inverse variance, the smallest batch balances noise with delay, and users
        of an unfinished node count as the middle of the range.
    over : the protocol that sums a batch. None: shuffled-bits, and shuffled-vectors for vectors.
    smallest : the size of the smallest batch.
    options : of the protocol: `low`, `high`, `binary`, `clip`, `dimension`, `diameter`, `honest_fraction`, `precision`,
        `scaling`, `side`, `failure`, `wrap_failure`, `front_noise`, `trust`, as `croupier.protocols.protocol` takes
        them. With `trust="two-servers"` one report is in the sums of all levels, which the servers form themselves.

    Examples
    --------
    >>> plan = counter(10_000, 3, epsilon=1.0)
    >>> plan.tree.sizes, plan.loss.delta(1.0) <= 1e-6
    ((32, 224, 1568), True)
    """
    integer("users", users, 2)
    if shufflers is not None:
        integer("shufflers", shufflers, 1)
    if "participations" in options:
        given = options["participations"]  # type: ignore[typeddict-item]
        raise InvalidParameter("participations", given, "left out: a counter composes its levels itself")
    over = over or default_protocol("shuffler", reports="vectors" if "dimension" in options else "bits")
    # A purely private level needs no δ; the composition of several may still use the one that is asked for.
    pure = over in ROWS and ROWS[over].notion == "pure"
    recipe = protocol(over, epsilon=epsilon, delta=None if pure else delta, constants=constants, **options)
    delta = float(between("delta", delta, 0, 1, "[)"))
    if recipe.published:
        return _published(users, shufflers, recipe, delta, smallest)
    if epsilon < (floor := LEAST_PURE_EPSILON if pure else LEAST_EPSILON):
        raise InvalidParameter("epsilon", epsilon, f"at least {floor:g} for a counter over {over}")
    recipe = recipe.having(wrap_failure=recipe.wrap_failure or LEVEL_WRAP)
    least = max(SMALLEST, recipe.smallest) if smallest is None else integer("smallest", smallest, recipe.smallest)
    integer("users", users, least)
    with _as_asked(recipe):
        tree = _shape(users, shufflers, least, smallest is not None, recipe, delta)
        mechanisms = tight_levels(recipe, tree.sizes, delta)
    noise = [mechanism.variance + mechanism.rounding_variance for mechanism in mechanisms]
    return CounterPlan(tree, mechanisms, Weights.best(tree.degree, noise), float(epsilon), delta, centred=True)


@contextmanager
def _as_asked(recipe: Protocol) -> Iterator[None]:
    """A refusal of a level's ε is one of the whole counter's, which is what was asked for."""
    way = "larger" if recipe.epsilon < 1.0 else "smaller"
    said = f"{way}: {recipe.name} has no noise for a level of this counter"
    refusal = InvalidParameter("epsilon", recipe.epsilon, said)
    try:
        yield
    except InvalidParameter as error:
        other = error.name != "epsilon" or error.value == recipe.epsilon
        raise (error if other else refusal) from None
    except CroupierError:
        raise refusal from None


class Asked(Level, total=False):
    """What a counter takes beside its ε and who uses it."""

    delta: float
    constants: str
    over: str | None
    smallest: int | None


def best_counter(users: int, most: int | None = None, *, epsilon: float, **asked: Unpack[Asked]) -> CounterPlan:
    """The counter with the least error bound among 1, 2, ... shufflers and the binary tree (see [TKMS23]).

    Parameters
    ----------
    users, epsilon : as in `counter`.
    most : the most shufflers that may be used. None: as many as the binary tree has levels.
    asked : as in `counter`: `delta`, `constants`, `over`, `smallest`; and of the protocol `low`, `high`, `binary`,
        `clip`, `dimension`, `diameter`, `honest_fraction`, `precision`, `scaling`, `side`, `failure`, `wrap_failure`,
        `front_noise`, `trust`.

    Examples
    --------
    >>> best_counter(2_000, 3, epsilon=1.0).shufflers
    3
    """
    if most is not None:
        integer("most", most, 1)
    tree = counter(users, epsilon=epsilon, **asked)
    plans = [tree]
    for shufflers in range(1, min(most or tree.shufflers, tree.shufflers) + 1):
        try:
            plans.append(counter(users, shufflers, epsilon=epsilon, **asked))
        except InvalidParameter:
            break
    fitting = [counted for counted in plans if most is None or counted.shufflers <= most]
    return min(fitting, key=lambda counted: counted.bound(0.05))


def _published(users: int, shufflers: int | None, recipe: Protocol, delta: float, smallest: int | None) -> CounterPlan:
    """[TKMS23] Alg. 2 (binary tree, each level at (ε, δ)/log₂ n) and Alg. 3 (k levels at (ε, δ)/k)."""
    least = max(2, recipe.smallest) if smallest is None else integer("smallest", smallest, recipe.smallest)
    if shufflers is None:
        tree = binary_tree(users, least)
        parts = max(tree.levels, math.ceil(math.log2(users)))
    else:
        tree = shuffler_tree(users, shufflers, smallest)
        if tree.smallest < recipe.smallest:
            tree = shuffler_tree(users, shufflers, recipe.smallest)
        parts = shufflers
    if recipe.row.notion not in PROMISED:
        raise InvalidParameter("over", recipe.name, "a protocol whose ε is that of (ε, δ), with published constants")
    level = replace(recipe, epsilon=_part(recipe.epsilon, parts), delta=recipe.delta / parts)
    with _as_asked(recipe):
        mechanisms = tuple(level.plan(size) for size in tree.sizes)
    return CounterPlan(tree, mechanisms, Weights.plain(tree.levels), recipe.epsilon, delta, centred=False)


def _shape(users: int, shufflers: int | None, least: int, fixed: bool, recipe: Protocol, delta: float) -> Tree:
    """The tree whose smallest batch balances noise with delay; `least` as it stands when it was asked for."""

    def grow(smallest: int) -> Tree:
        return binary_tree(users, smallest) if shufflers is None else shuffler_tree(users, shufflers, smallest)

    first = grow(least)
    if fixed:
        return first
    # One calibration tells the noise of a level; with another number of levels it changes in proportion, nearly.
    unit = tight_levels(recipe, (first.sizes[-1],) * first.levels, delta)[-1]
    variance = (unit.variance + unit.rounding_variance) / first.levels

    def error(tree: Tree) -> float:
        noise = [variance * tree.levels] * tree.levels
        refined = Weights.best(tree.degree, noise).variances(tree.degree, noise)
        return SPREAD * math.sqrt(tree.worst(refined)) + (tree.smallest - 1) * recipe.values.span / 2.0

    trees = [first]
    smallest = 2 * least
    while smallest * 4 <= users:
        try:
            trees.append(grow(smallest))
        except InvalidParameter:
            break
        smallest *= 2
    return min(trees, key=error)


@lru_cache(maxsize=256)
def tight_levels(recipe: Protocol, sizes: tuple[int, ...], delta: float) -> tuple[SumMechanism, ...]:
    """One mechanism for each batch size, so that one user in all of them has (recipe.epsilon, delta), composed exactly.

    Levels share one ε. The schedule is fixed in advance, so composing the mechanisms' own losses is sound.
    """
    epsilon, levels = recipe.epsilon, len(sizes)
    pure = recipe.row.notion == "pure"
    if levels == 1 and recipe.row.notion in PROMISED:
        return (replace(recipe, delta=0.0 if pure else delta).plan(sizes[0]),)
    level_delta = 0.0 if pure else LEVEL_DELTA * delta / levels
    if delta == 0.0:
        return tuple(replace(recipe, epsilon=_part(epsilon, levels)).plan(size) for size in sizes)
    # A carrier's distance is charged at the total ε, not at a level's; twice that leaves room for the search.
    security = math.ceil(2.0 * min(epsilon, 300.0) / math.log(2.0) + math.log2(2.0 * levels / (CARRIER_DELTA * delta)))

    def at(size: int, level_epsilon: float) -> SumMechanism:
        level = replace(recipe, epsilon=min(level_epsilon, LARGEST_EPSILON), delta=level_delta)
        return _secured(level.plan(size), security)

    def total(mechanisms: tuple[SumMechanism, ...]) -> Loss:
        return Loss.total(mechanism.loss for mechanism in mechanisms)

    # The largest batch stands for all while the scale is found: total ε is nearly proportional to a level's.
    scale = epsilon / math.sqrt(levels)
    for _ in range(8):
        spent = (levels * at(sizes[-1], scale).loss).epsilon(delta)
        scale = _nearer(scale, spent, epsilon)
        if abs(spent / epsilon - 1.0) < CLOSE:
            break
    best: tuple[SumMechanism, ...] | None = None
    for _ in range(64):
        mechanisms = tuple(at(size, scale) for size in sizes)
        loss = total(mechanisms)
        if loss.delta(epsilon) <= delta:
            best, spent = mechanisms, loss.epsilon(delta)
            if spent >= (1.0 - 5 * CLOSE) * epsilon or scale >= LARGEST_EPSILON:
                return best
            scale = _nearer(scale, spent, (1.0 - CLOSE) * epsilon)
        elif best is not None:
            return best
        else:
            scale = min(_nearer(scale, loss.epsilon(delta), epsilon), (1.0 - 1e-4) * scale)
    if best is None:
        raise CroupierError(f"{recipe.name} cannot meet (ε, δ) = ({epsilon:g}, {delta:g}) over {levels} levels")
    return best


PROMISED = ("pure", "approximate")
"""Notions whose ε a plan takes as it is; that of the others is a parameter of their noise."""

CLOSE = 1e-3
"""How near, relatively, a total ε comes to the one asked for; always from below."""


def _nearer(scale: float, spent: float, wanted: float) -> float:
    """The scale at which a total proportional to it would be as wanted."""
    # Far from the goal proportion says little: no step is longer than a doubling.
    return scale * min(max(wanted / max(spent, 1e-9), 0.5), 2.0)


def _part(epsilon: float, levels: int) -> float:
    """The largest double of which so many are no more than ε."""
    part = epsilon / levels
    while levels * Fraction(part) > Fraction(epsilon):
        part = math.nextafter(part, 0.0)
    return part


def _secured(mechanism: SumMechanism, security: int) -> SumMechanism:
    """The same with a carrier of so many bits of security."""
    return replace(mechanism, carrier=mechanism.carrier.secured(mechanism, security))
