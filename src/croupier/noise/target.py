"""What a search for the least noise of a family must meet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from croupier.search import least_passing_positive

if TYPE_CHECKING:
    from croupier.noise.base import Noise

RESOLUTION = 1e-5
"""How close, relatively, a real parameter comes to the least one."""


class Cost(Protocol):
    """What a use of some noise costs in privacy."""

    @property
    def pure(self) -> float: ...

    def delta(self, epsilon: float) -> float: ...


@dataclass(frozen=True)
class Target:
    """(ε, δ)-DP for one use of the noise.

    `loss` is what that use costs, and `one_release` what a single release costs at a given sensitivity, for searches
    that pass through another family. With `users` the noise divides among them.
    """

    epsilon: float
    delta: float
    sensitivity: int
    users: int | None
    failure: float
    loss: Callable[[Noise], Cost]
    one_release: Callable[[Noise, int], Cost]

    def met(self, noise: Noise) -> bool:
        return self.loss(noise).delta(self.epsilon) <= self.delta

    def least(self, passes: Callable[[float], bool], guess: float, floor: float = 1e-9) -> float:
        """The least parameter above `floor` that passes, rounded up by `RESOLUTION`."""
        return least_passing_positive(passes, guess, resolution=RESOLUTION, least=floor)

    def at(self, sensitivity: int) -> Target:
        """The same for one release at another sensitivity, whoever draws the noise."""
        single = partial(self.one_release, sensitivity=sensitivity)  # type: ignore[call-arg]
        return replace(self, sensitivity=sensitivity, users=None, loss=single)

    @property
    def gaussian_variance(self) -> float:
        """Where to start looking: about what a Gaussian would need."""
        return 2.0 * self.sensitivity**2 * math.log(1.0 / self.delta) / self.epsilon**2 + 1.0
