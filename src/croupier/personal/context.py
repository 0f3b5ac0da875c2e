"""What a user is described by: named numbers with public ranges, and the vector that a device makes of them.

Each number is moved from its range to [-1, 1]. Divided by √m they have a norm of at most one, and with a constant they
are (c/√m, 1)/√2: a vector of norm at most one, in which a coefficient stands for each number and one for the level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, Number, between, did_you_mean, finite

Floats = NDArray[np.float64]

NARROWEST, FARTHEST = 1e-200, 1e200
"""How near to each other the ends of a range may be, and how far from zero: so a value's place in it is a number."""

LEVEL = "(level)"
"""What the constant's coefficient is called, beside those of the features."""


@dataclass(frozen=True)
class Feature:
    """A number that describes a user, with its public range."""

    name: str
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidParameter("name", self.name, "the name of a feature")
        low, high = (float(self._end(name, end)) for name, end in (("low", self.low), ("high", self.high)))
        if not high - low >= NARROWEST:
            raise InvalidParameter(
                f"{self.name}.high", self.high, f"above low = {self.low:g}, by {NARROWEST:g} at least"
            )

    def _end(self, name: str, value: object) -> Number:
        return between(f"{self.name}.{name}", value, -FARTHEST, FARTHEST, "[]")

    def checked(self, value: object, clip: bool) -> float:
        """The value, moved to its range where that was asked for; else anything outside is refused by name."""
        allowed = f"a number in [{self.low:g}, {self.high:g}]"
        try:
            number = float(finite(self.name, value, allowed))
        except InvalidParameter:
            if isinstance(value, np.floating | np.integer) and math.isfinite(float(value)):
                number = float(value)
            else:
                raise
        except OverflowError:
            raise InvalidParameter(self.name, value, allowed) from None
        if clip:
            return min(max(number, float(self.low)), float(self.high))
        if not self.low <= number <= self.high:
            raise InvalidParameter(self.name, value, allowed)
        return number


@dataclass(frozen=True)
class Context:
    """The features of an experiment, in order.

    Parameters
    ----------
    features : names and ranges. With none every user is alike.
    clip : whether a value outside its range is moved to the nearer end. Otherwise it is refused.

    Examples
    --------
    >>> context = Context((Feature("age", 0, 100), Feature("visits", 0, 20)))
    >>> context.vector({"age": 75, "visits": 10}).round(3).tolist()
    [0.25, 0.0, 0.707]
    >>> context.vector({"age": 75})
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: visits = None is not allowed: it must be a number in [0, 20]
    """

    features: tuple[Feature, ...]
    clip: bool = False

    def __post_init__(self) -> None:
        if len({*self.names, LEVEL}) <= len(self.features):
            raise InvalidParameter(
                "features", list(self.names), f"names of which no two are alike, and none is {LEVEL}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @property
    def dimension(self) -> int:
        """Of the vector: a number for each feature, and the constant."""
        return len(self.features) + 1

    @property
    def intercept(self) -> Floats:
        """u with ⟨u, x⟩ = 1 for every user's vector x."""
        unit = np.zeros(self.dimension)
        unit[-1] = math.sqrt(2.0)
        return unit

    @cached_property
    def _ranges(self) -> tuple[Floats, Floats]:
        ends = np.array([(feature.low, feature.high) for feature in self.features], dtype=np.float64).reshape(-1, 2)
        return ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2.0

    def vector(self, context: Mapping[str, object]) -> Floats:
        """A user's vector, on the device; whatever is missing, unknown or out of range is refused by its name."""
        if not isinstance(context, Mapping):
            raise InvalidParameter("context", context, "numbers by their names")
        for name in context:
            if name not in self.names:
                known = ", ".join(self.names) or "none"
                raise InvalidParameter("context", name, f"one of {known}{did_you_mean(name, self.names)}")
        values = [feature.checked(context.get(feature.name), self.clip) for feature in self.features]
        return np.asarray(self.rows([values])[0])

    def rows(self, values: ArrayLike) -> Floats:
        """The vectors of many users: a row each, a column a feature, all in range."""
        table = np.asarray(values, dtype=np.float64)
        table = table.reshape((-1, len(self.features)) if self.features else (len(table), 0))
        middle, half = self._ranges
        scaled = (table - middle) / half
        if self.clip:
            scaled = np.clip(scaled, -1.0, 1.0)
        bad = ~(np.abs(scaled) <= 1.0 + 1e-12)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            self.features[column].checked(float(table[row, column]), clip=False)
        described = np.clip(scaled, -1.0, 1.0) / math.sqrt(max(1, len(self.features)))
        return np.column_stack((described, np.ones(len(table)))) / math.sqrt(2.0)

    def values(self, entries: ArrayLike) -> Floats:
        """The features whose entries of a vector, without the constant, are these."""
        middle, half = self._ranges
        return np.asarray(np.asarray(entries) / self.scales[:-1] * half + middle)

    def unit_effects(self, theta: ArrayLike) -> Floats:
        """What a coefficient says in the features' own units: the change of the mean for one more of each.

        The last one is the mean of a user in the middle of all ranges, less what rewards are centred at.
        """
        _, half = self._ranges
        own = np.asarray(theta, dtype=np.float64) * self.scales
        return np.append(own[:-1] / half, own[-1])

    @property
    def scales(self) -> Floats:
        """What each entry of a vector is multiplied with when its feature is at the end of its range."""
        m = max(1, len(self.features))
        return np.append(np.full(len(self.features), 1.0 / math.sqrt(2.0 * m)), 1.0 / math.sqrt(2.0))
