"""How a counter is planned: its tree, and one mechanism a level that together meet the user's budget."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.continual.counter import CounterPlan
from croupier.continual.tree import Tree, Weights, binary_tree, shuffler_tree
from croupier.privacy import Loss
from croupier.protocols import Mechanism, Protocol, protocol

SMALLEST = 32
"""The least batch of a tight counter, unless its carrier wants more."""

LEVEL_DELTA = 0.01
"""Of its equal part of δ, each tight level names this share; what counts is the exact composition of all."""

LEVEL_WRAP = 2.0**-64
"""How often a tight level's modular sum may wrap around: a long counter releases very many."""

SPREAD = 4.0
"""Standard deviations that a tight tree's shape weighs against its unfinished node."""


def counter(
    users: int,
    shufflers: int | None = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
    constants: str = "tight",
    over: str | None = None,
    low: int | None = None,
    **options: Any,
) -> CounterPlan:
    """Plan a counter of `users` users with `shufflers` shufflers, or as many as a binary tree has levels.

    `over` names the protocol that sums a batch (default: shuffled-bits, for vectors shuffled-vectors); `options` go to
    it. `low` is the size of the smallest batch. `published`: 002 Alg. 2 and 3, every level (ε/k, δ/k). `tight`: levels
    are as private as their exact composition needs, finished nodes are combined by inverse variance, the smallest
    batch balances noise with delay, and users of an unfinished node count as the middle of the range.

    >>> plan = counter(10_000, 3, epsilon=1.0)
    >>> plan.tree.sizes, plan.loss.delta(1.0) <= 1e-6
    ((32, 224, 1568), True)
    """
    integer("users", users, 2)
    if shufflers is not None:
        integer("shufflers", shufflers, 1)
    over = over or ("shuffled-vectors" if "dimension" in options else "shuffled-bits")
    pure = delta == 0
    recipe = protocol(over, epsilon=epsilon, delta=None if pure else delta, constants=constants, **options)
    if recipe.published:
        return _published(users, shufflers, recipe, delta, low)
    recipe = replace(recipe, wrap_failure=recipe.wrap_failure or LEVEL_WRAP)
    least = max(SMALLEST, recipe.smallest) if low is None else integer("low", low, recipe.smallest)
    integer("users", users, least)
    tree = _shape(users, shufflers, least, low is not None, recipe)
    mechanisms = tight_levels(recipe, tree.sizes, epsilon, recipe.delta)
    noise = [mechanism.variance + mechanism.rounding_variance for mechanism in mechanisms]
    return CounterPlan(
        tree, mechanisms, Weights.best(tree.degree, noise), float(epsilon), _delta(recipe, delta), centred=True
    )


def best_counter(users: int, most: int | None = None, **options: Any) -> CounterPlan:
    """The counter with the least error bound among 1, 2, ... shufflers (at most `most`) and the binary tree."""
    tree = counter(users, **options)
    found = [tree]
    for shufflers in range(1, min(most or tree.shufflers, tree.shufflers) + 1):
        try:
            found.append(counter(users, shufflers, **options))
        except InvalidParameter:
            break
    fitting = [plan for plan in found if most is None or plan.shufflers <= most]
    return min(fitting, key=lambda plan: plan.bound(0.05))


def _published(users: int, shufflers: int | None, recipe: Protocol, delta: float, low: int | None) -> CounterPlan:
    """002 Alg. 2 (binary tree, each level at (ε, δ)/log₂ n) and Alg. 3 (k levels at (ε, δ)/k)."""
    least = max(2, recipe.smallest) if low is None else integer("low", low, recipe.smallest)
    if shufflers is None:
        tree = binary_tree(users, least)
        parts = max(tree.levels, math.ceil(math.log2(users)))
    else:
        tree = shuffler_tree(users, shufflers, low)
        if tree.low < recipe.smallest:
            tree = shuffler_tree(users, shufflers, recipe.smallest)
        parts = shufflers
    level = replace(recipe, epsilon=recipe.epsilon / parts, delta=recipe.delta / parts)
    mechanisms = tuple(level.plan(size) for size in tree.sizes)
    plain = Weights.plain(tree.levels)
    return CounterPlan(tree, mechanisms, plain, recipe.epsilon, _delta(recipe, delta), centred=False)


def _delta(recipe: Protocol, asked: float) -> float:
    return recipe.delta or float(asked)


def _shape(users: int, shufflers: int | None, least: int, fixed: bool, recipe: Protocol) -> Tree:
    """The tree whose smallest batch balances noise with delay; `least` as it stands when it was asked for."""

    def grow(low: int) -> Tree:
        return binary_tree(users, low) if shufflers is None else shuffler_tree(users, shufflers, low)

    first = grow(least)
    if fixed:
        return first
    # One calibration tells the noise of a level; with another number of levels it changes in proportion, nearly.
    unit = tight_levels(recipe, (first.sizes[-1],) * first.levels, recipe.epsilon, recipe.delta)[-1]
    variance = (unit.variance + unit.rounding_variance) / first.levels

    def error(tree: Tree) -> float:
        noise = [variance * tree.levels] * tree.levels
        refined = Weights.best(tree.degree, noise).variances(tree.degree, noise)
        return SPREAD * math.sqrt(tree.worst(refined)) + (tree.low - 1) * recipe.values.span / 2.0

    trees = [first]
    low = 2 * least
    while low * 4 <= users:
        try:
            trees.append(grow(low))
        except InvalidParameter:
            break
        low *= 2
    return min(trees, key=error)


@lru_cache(maxsize=256)
def tight_levels(recipe: Protocol, sizes: tuple[int, ...], epsilon: float, delta: float) -> tuple[Mechanism, ...]:
    """One mechanism for each batch size, so that one user in all of them has (epsilon, delta), composed exactly.

    Levels share one ε. The schedule is fixed in advance, so composing the mechanisms' own losses is sound.
    """
    levels = len(sizes)
    if levels == 1:
        return (replace(recipe, epsilon=epsilon, delta=delta).plan(sizes[0]),)
    if delta == 0.0:
        return tuple(replace(recipe, epsilon=epsilon / levels).plan(size) for size in sizes)
    level_delta = 0.0 if recipe.row.notion == "pure" else LEVEL_DELTA * delta / levels

    def at(size: int, level_epsilon: float) -> Mechanism:
        return replace(recipe, epsilon=level_epsilon, delta=level_delta).plan(size)

    # The largest batch stands for all while the scale is found: total ε is nearly proportional to a level's.
    scale = epsilon / math.sqrt(levels)
    for _ in range(8):
        found = (levels * at(sizes[-1], scale).loss).epsilon(delta)
        if not math.isfinite(found):
            raise CroupierError(f"{recipe.name} cannot meet (ε, δ) = ({epsilon:g}, {delta:g}) over {levels} levels")
        scale *= epsilon / found
        if abs(found / epsilon - 1.0) < 1e-3:
            break
    while True:
        mechanisms = tuple(at(size, scale) for size in sizes)
        total = Loss.total(mechanism.loss for mechanism in mechanisms)
        if total.delta(epsilon) <= delta:
            return mechanisms
        scale *= min(1.0 - 1e-4, (1.0 - 1e-6) * epsilon / total.epsilon(delta))
