"""Feature maps: from a user's context and the offered actions to vectors of norm at most one ([TKMS23] section 5: φ(c,
a)).

A map runs on the device; any function to vectors of norm at most one will do. These two serve most worlds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, integer

Floats = NDArray[np.float64]

SLACK = {np.dtype(np.float32): 1e-5}
"""By how much rounding may leave a norm above one; doubles come much nearer."""


def with_constant(actions: ArrayLike) -> Floats:
    """(a, 1)/√2 for actions described by vectors of norm at most one: means then need not pass through zero.

    >>> with_constant([[0.6, 0.8]]).round(3).tolist()
    [[0.424, 0.566, 0.707]]
    """
    described = check_features(actions)
    ones = np.ones((*described.shape[:-1], 1), dtype=described.dtype)
    return np.asarray(np.concatenate((described, ones), axis=-1) * described.dtype.type(np.sqrt(0.5)))


def blocks(contexts: ArrayLike, actions: int) -> Floats:
    """The context in the action's own block and zeros elsewhere: every action learns its own parameter.

    >>> blocks([0.6, 0.8], actions=2).tolist()
    [[0.6, 0.8, 0.0, 0.0], [0.0, 0.0, 0.6, 0.8]]
    """
    context = check_features(contexts)
    own = np.eye(integer("actions", actions, 1), dtype=context.dtype)
    spread = own[:, :, None] * context[..., None, None, :]
    return np.asarray(spread.reshape(*context.shape[:-1], actions, actions * context.shape[-1]))


def check_features(features: ArrayLike, dimension: int | None = None) -> Floats:
    """Feature vectors of norm at most one, or a clear refusal. Single precision stays so: simulations use it."""
    try:
        x = np.asarray(features)
        x = x if x.dtype == np.float32 else x.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InvalidParameter("features", type(features).__name__, f"vectors of {dimension or 'd'} numbers") from None
    if x.ndim == 0 or (dimension is not None and x.shape[-1] != dimension):
        raise InvalidParameter("features", f"shape {x.shape}", f"vectors of {dimension or 'd'} numbers")
    squares = np.einsum("...i,...i->...", x, x)
    most = squares.max(initial=0.0)  # NaN if any entry is
    if not most <= 1.0 + SLACK.get(x.dtype, 1e-9):
        if not np.isfinite(x).all():
            bad = float(x[~np.isfinite(x)].flat[0])
            raise InvalidParameter("features", bad, "finite numbers: a missing one has to be filled in first")
        raise InvalidParameter("features", f"a vector of norm {np.sqrt(most):.6g}", "vectors of norm at most 1")
    # Rounding may leave a norm a hair above one: what is sent must lie in the ball.
    return x if most <= 1.0 else np.asarray(x / np.maximum(np.sqrt(squares), 1.0)[..., None])
