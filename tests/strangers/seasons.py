"""A world that changes with time: what people like follows the seasons.

Run it with: croupier simulate --world seasons:Seasons --means .3,.5,.6 --horizon 20000
"""

from __future__ import annotations

from typing import Any

import numpy as np

from croupier.simulation import Changing, checked_means

YEAR = 10_000
"""Users in a year."""


class Seasons(Changing):
    """Every arm's mean goes up and down by a fifth once a year, each arm at its own time of the year."""

    def __init__(self, means: Any) -> None:
        self.means = checked_means(means)

    def means_at(self, run: int, times: Any) -> Any:
        """Every arm's mean when so many users have come before: one row for each time."""
        base = self.means[run] if self.means.ndim == 2 else self.means
        peak = np.arange(self.arms) / self.arms
        return np.clip(base + 0.2 * np.sin(2 * np.pi * (times[:, None] / YEAR - peak)), 0.0, 1.0)
