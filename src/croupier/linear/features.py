"""Feature maps: from a user's context and the offered actions to vectors of norm at most one ([TKMS23] section 5: φ(c,
a)).

A map runs on the device; any function to vectors of norm at most one will do. These two serve most worlds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import integer
from croupier.linear.statistics import check_features

Floats = NDArray[np.float64]


def with_constant(actions: ArrayLike) -> Floats:
    """(a, 1)/√2 for actions described by vectors of norm at most one: means then need not pass through zero.

    >>> with_constant([[0.6, 0.8]]).round(3).tolist()
    [[0.424, 0.566, 0.707]]
    """
    described = check_features(actions)
    ones = np.ones((*described.shape[:-1], 1))
    return np.asarray(np.concatenate((described, ones), axis=-1) / np.sqrt(2.0))


def blocks(contexts: ArrayLike, actions: int) -> Floats:
    """The context in the action's own block and zeros elsewhere: every action learns its own parameter.

    >>> blocks([0.6, 0.8], actions=2).tolist()
    [[0.6, 0.8, 0.0, 0.0], [0.0, 0.0, 0.6, 0.8]]
    """
    context = check_features(contexts)
    own = np.eye(integer("actions", actions, 1))
    spread = own[:, :, None] * context[..., None, None, :]
    return np.asarray(spread.reshape(*context.shape[:-1], actions, actions * context.shape[-1]))
