"""What can be released about a user, and what one such release tells: a noisy number, or a noisy vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import ClassVar

from croupier.checks import Number
from croupier.noise import Noise
from croupier.noise.likelihoods import Pair, directed_pair, upper_envelope, worst_pair
from croupier.noise.window import SHALLOW

DIRECTIONS = {"both": (1, -1), "up": (1,), "down": (-1,)}


class Released(ABC):
    """Something that was released about the users: what it tells about one of them."""

    tabulated: ClassVar[bool]
    """Whether every loss is known with its probability, and not the Rényi curve alone."""

    noise: Noise

    @property
    @abstractmethod
    def pure(self) -> Number:
        """The ε of pure DP, as an exact number where it is finite."""

    @abstractmethod
    def divergence(self, order: float) -> float:
        """An upper bound on the Rényi divergence between the views of two neighbouring inputs."""

    @property
    @abstractmethod
    def concentrated(self) -> float:
        """An upper bound on ρ of zero-concentrated DP."""

    @abstractmethod
    def pairs(self, floor: float = SHALLOW) -> tuple[Pair, ...]:
        """The pairs of laws that a change of one user's value can lead to, where they are tabulated."""

    def pair(self) -> Pair:
        """One pair that stands for all of them, for composition."""
        return reduce(upper_envelope, self.pairs())

    def of_group(self, users: int) -> Released | None:
        """The same when so many users change at once, where that is known exactly."""
        return None

    def towards(self, direction: str) -> Released:
        """The same with every change a rise ("up") or a fall ("down"), where both can happen."""
        return self


@dataclass(frozen=True)
class NoisyNumber(Released):
    """One noisy number: its noise, how far one user can move it, and which way."""

    noise: Noise
    sensitivity: int
    direction: str = "both"
    tabulated: ClassVar[bool] = True

    @cached_property
    def shifts(self) -> tuple[int, ...]:
        """The changes that decide: every other one tells less. Searches ask often."""
        signs = DIRECTIONS[self.direction][: 1 if self.noise.balanced else None]
        shifts = self.noise.decisive_shifts(self.sensitivity)
        return tuple([sign * shift for sign in signs for shift in shifts])

    def pairs(self, floor: float = SHALLOW) -> tuple[Pair, ...]:
        return tuple([directed_pair(self.noise, shift, floor) for shift in self.shifts])

    def pair(self) -> Pair:
        return worst_pair(self.noise, self.shifts)

    @property
    def pure(self) -> Number:
        return max(map(self.noise.log_ratio, self.shifts))

    def divergence(self, order: float) -> float:
        return _divergence(self, order)

    @property
    def concentrated(self) -> float:
        return _concentrated(self)

    def of_group(self, users: int) -> NoisyNumber | None:
        """It moves so many times as far."""
        self.noise.check_sensitivity(users * self.sensitivity)
        return replace(self, sensitivity=users * self.sensitivity)

    def towards(self, direction: str) -> NoisyNumber:
        return replace(self, direction=direction) if self.direction == "both" else self

    def __str__(self) -> str:
        return f"{self.noise!r}, sensitivity {self.sensitivity}"


@dataclass(frozen=True)
class NoisyVector(Released):
    """A vector of whole numbers, each coordinate plus noise; known by its Rényi divergence and its pure ε alone."""

    noise: Noise
    l2: float
    l1: float
    tabulated: ClassVar[bool] = False

    @property
    def pure(self) -> Number:
        return self.noise.vector_log_ratio(self.l1)

    def divergence(self, order: float) -> float:
        return self.noise.vector_divergence(order, self.l2, self.l1)

    @property
    def concentrated(self) -> float:
        return self.noise.vector_concentrated(self.l2, self.l1)

    def pairs(self, floor: float = SHALLOW) -> tuple[Pair, ...]:
        return ()

    def __str__(self) -> str:
        return f"{self.noise!r} per coordinate, L2 sensitivity {self.l2:.6g}"


@lru_cache(maxsize=4096)
def _divergence(release: NoisyNumber, order: float) -> float:
    return max(release.noise.divergence(shift, order) for shift in release.shifts)


@lru_cache(maxsize=256)
def _concentrated(release: NoisyNumber) -> float:
    return max(release.noise.concentrated(shift) for shift in release.shifts)
