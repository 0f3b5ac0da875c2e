"""Every histogram that the contract tests run through, and the worlds they see."""

from typing import Any

import numpy as np

from croupier.protocols import HistogramMechanism, Numbers, histogram

EVERY: dict[str, dict[str, Any]] = {
    "two servers": {"model": "two-servers"},
    "over": {"side": "over"},
    "over, few messages": {"side": "over", "minimise": "messages"},
    "over, published": {"side": "over", "constants": "published"},
    "under": {"side": "under"},
    "under, published": {"constants": "published"},
    "under, proof": {"constants": "proof"},
    "coins": {"side": "both"},
    "local": {"model": "local"},
    "local, published": {"model": "local", "constants": "published"},
    "central": {"model": "central"},
    "central, published": {"model": "central", "constants": "published"},
    "central, pure": {"model": "central-pure"},
}
UNBIASED = [name for name in EVERY if name not in ("central", "central, published")]
SENDABLE = [name for name in EVERY if name != "under, proof"]
"""All but the one whose constants mean half a million messages a bucket."""


def make(name: str, *, users: int, size: int, epsilon: float = 0.9, **options: Any) -> HistogramMechanism:
    """A histogram of numbers."""
    return histogram(epsilon=epsilon, universe=Numbers(size), **EVERY[name] | options).plan(users)


def some_items(users: int, size: int) -> np.ndarray:
    """Half of the users hold item 1, the others spread over a few, and the last item is nobody's."""
    items = np.full(users, 1)
    items[users // 2 :] = np.arange(users - users // 2) % max(1, min(size - 1, 5))
    return items
