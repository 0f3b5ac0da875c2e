"""What a device sums for a linear bandit: feature times reward, and the feature's outer product, as one vector.

The vector is (w·xz, the triangle of xxᵀ), with z = y - ½ where rewards are centred and z = y where not. Entries off the
diagonal are multiplied with √2, so that the triangle is as long as the matrix: ‖xxᵀ‖ = ‖x‖². With actions that have
parameters of their own there is a place for each, and all but the played action's are zero. How far two users' vectors
can be apart follows from that alone, so a device need not believe it.

Let x and x' have norms r, r' <= 1 and |z| <= a, and let s = |⟨x, x'⟩| (0 in different places). Then

    ‖wxz - wx'z'‖² + ‖xxᵀ - x'x'ᵀ‖² <= w²a²(r² + r'² + 2s) + r⁴ + r'⁴ - 2s² <= 2 + 2w²a² + w⁴a⁴/2,

the last at s = w²a²/2: a smaller w hides the matrix better, a larger one the rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, between, integer
from croupier.protocols.sums.encoding import Floats, KindOfValues

COUNTED = math.sqrt(0.75)
"""How the count of the control share is weighed beside its rewards: whoever changes both moves them no further than
whoever turns a reward around."""

LEAST = 2.0**-20
"""No weight is less: else what is computed of a user's vector could vanish, for some users and not for others."""

MOST_NUMBERS = 100_000
"""No report has more: they grow with the square of the features, and so does all that is done with them."""

SAFE = 1.0 + 1e-8
"""Distances are rounded up by this, for what floating-point numbers leave open."""


@dataclass(frozen=True)
class Moments(KindOfValues):
    """The first and second moments of feature vectors of norm at most one, beside rewards in [0, 1].

    Parameters
    ----------
    features : d, the numbers of a feature vector.
    places : parameters that they belong to: one that all actions share, or one for each action.
    weight : w, how much of the budget the rewards have.
    centred : whether rewards count less ½. Then the last feature is the constant √½, which takes up the difference.
    control : the weight of two more numbers, the rewards and the count of a control share; 0 without one.

    Examples
    --------
    >>> moments = Moments(features=2, weight=1.0)
    >>> moments.of([0.6, 0.5**0.5], 1.0).round(2).tolist()
    [0.3, 0.35, 0.36, 0.6, 0.5]
    >>> round(moments.diameter, 3)
    1.591
    """

    kind: ClassVar[str] = "moments"
    clip: ClassVar[bool] = False
    low, high, binary = -1.0, 1.0, False
    features: int
    places: int = 1
    weight: float = 1.0
    centred: bool = True
    control: float = 0.0

    def __post_init__(self) -> None:
        integer("features", self.features, 1)
        integer("places", self.places, 1)
        if self.dimension > MOST_NUMBERS:
            numbers = f"{self.dimension:,} numbers in {self.places} places, and {MOST_NUMBERS:,} are most"
            raise InvalidParameter("features", self.features, f"fewer: a report has {numbers}")
        between("weight", self.weight, LEAST, 1.0 / self.most, "[]")
        if between("control", self.control, 0, 1, "[]"):
            between("control", self.control, LEAST, 1, "[]")
        if not isinstance(self.centred, bool):
            raise InvalidParameter("centred", self.centred, "true or false")
        if self.control and not self.centred:
            raise InvalidParameter("control", self.control, "0 where rewards are not centred")

    @property
    def most(self) -> float:
        """a: how far from zero a reward counts at most."""
        return 0.5 if self.centred else 1.0

    @property
    def own(self) -> int:
        """Numbers of one place: d of xz and d(d+1)/2 of the triangle."""
        return self.features * (self.features + 3) // 2

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return self.places * self.own + (2 if self.control else 0)

    @property
    def _differing(self) -> int:
        """In how many numbers two users can differ."""
        return min(self.places, 2) * self.own + (2 if self.control else 0)

    @cached_property
    def diameter(self) -> float:
        """How far two users' vectors can be apart."""
        pull = (self.weight * self.most) ** 2  # at most one, so s = pull/2 is possible
        return math.sqrt(2.0 + 2.0 * pull + pull**2 / 2.0 + self.control**2) * SAFE

    @cached_property
    def taxicab(self) -> float:
        """The same in the sum of absolute differences: at most √(numbers that differ) times the distance.

        Nor is it more than twice the largest sum of absolute values, w·a‖x‖₁ + Σxᵢ² + √2·Σ|xᵢxⱼ|, which is where all
        |xᵢ| are 1/√d.
        """
        d = self.features
        longest = self.weight * self.most * math.sqrt(d) + 1.0 + (d - 1.0) / math.sqrt(2.0)
        control = (self.most + COUNTED) * self.control
        return min(math.sqrt(self._differing) * self.diameter, (2.0 * longest + control) * SAFE)

    def of(self, features: ArrayLike, rewards: ArrayLike, place: ArrayLike = 0, control: ArrayLike = False) -> Floats:
        """The vector of one user or many: their features, reward, place, and whether they are in the control share."""
        x = self._checked(features)
        y, where, chosen = np.asarray(rewards, dtype=np.float64), np.asarray(place), np.asarray(control, dtype=bool)
        if y.shape != x.shape[:-1]:
            raise InvalidParameter("rewards", f"shape {y.shape}", f"one for each feature vector: {x.shape[:-1]}")
        if (bad := y[~((y >= 0.0) & (y <= 1.0))]).size:
            raise InvalidParameter("rewards", float(bad.flat[0]), "numbers in [0, 1]")
        if not np.issubdtype(where.dtype, np.integer):
            raise InvalidParameter("place", str(where.dtype), f"a whole number in [0, {self.places - 1}]")
        if (wrong := where[(where < 0) | (where >= self.places)]).size:
            raise InvalidParameter("place", int(wrong.flat[0]), f"a whole number in [0, {self.places - 1}]")
        z = y - 0.5 if self.centred else y
        rows, columns, factors = self._triangle
        own = np.concatenate((self.weight * z[..., None] * x, factors * x[..., rows] * x[..., columns]), axis=-1)
        spread = np.zeros((*own.shape[:-1], self.places, self.own))
        np.put_along_axis(spread, np.broadcast_to(where, y.shape)[..., None, None], own[..., None, :], axis=-2)
        whole = spread.reshape(*own.shape[:-1], self.places * self.own)
        if not self.control:
            return whole
        chosen = np.broadcast_to(chosen, y.shape)
        counted = np.stack((self.control * z * chosen, COUNTED * self.control * chosen), axis=-1)
        return np.concatenate((whole, counted), axis=-1)

    def _checked(self, features: ArrayLike) -> Floats:
        """Feature vectors as they are sent, or a refusal of the first bad one."""
        try:
            x = np.asarray(features, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidParameter("features", type(features).__name__, f"vectors of {self.features} numbers") from None
        if x.ndim == 0 or x.shape[-1] != self.features:
            raise InvalidParameter("features", f"shape {x.shape}", f"vectors of {self.features} numbers")
        norms = np.sqrt(np.einsum("...i,...i->...", x, x))
        if (long := norms[~(norms <= 1.0 + 1e-9)]).size:
            raise InvalidParameter("features", f"a vector of norm {long.flat[0]:.6g}", "vectors of norm at most 1")
        constants = np.abs(x[..., -1] - math.sqrt(0.5))
        if self.centred and (off := x[..., -1][constants > 1e-6]).size:
            raise InvalidParameter("features", float(off.flat[0]), "√½ in the last place, where rewards are centred")
        # Rounding may leave a norm a hair above one: what is sent must lie in the ball.
        return np.asarray(x / np.maximum(norms, 1.0)[..., None])

    @cached_property
    def _triangle(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        rows, columns = np.triu_indices(self.features)
        return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2.0))

    def unit(self, values: ArrayLike) -> Floats:
        """Map each number from [-1, 1] to [0, 1]; what is no user's vector is refused, since it could lie further."""
        try:
            vectors = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidParameter("value", values, f"a vector of {self.dimension} numbers") from None
        if vectors.ndim == 0 or vectors.shape[-1] != self.dimension:
            raise InvalidParameter("value", f"shape {vectors.shape}", f"a vector of {self.dimension} numbers")
        if not self._of_users(vectors):
            raise InvalidParameter("value", "another vector", "the moments of one user: features of norm at most 1")
        return np.asarray((vectors + 1.0) / 2.0)

    def _of_users(self, vectors: Floats, slack: float = 1e-9) -> bool:
        """Whether these are vectors that `of` makes: a matrix M of rank one with M² = (tr M)M, and xz along it."""
        whole = vectors[..., : self.places * self.own].reshape(*vectors.shape[:-1], self.places, self.own)
        squares, (pulled, matrices) = np.linalg.norm(whole, axis=-1) ** 2, self.moments(vectors)
        traces = np.einsum("...ii->...", matrices)
        rank = np.abs(matrices @ matrices - traces[..., None, None] * matrices).max(initial=0.0)
        along = np.abs(np.einsum("...ij,...j->...i", matrices, pulled) - traces[..., None] * pulled).max(initial=0.0)
        longest = np.einsum("...i,...i->...", pulled, pulled) - self.most**2 * traces
        sound = (
            np.isfinite(vectors).all()
            and max(rank, along, longest.max(initial=0.0), -traces.min(initial=0.0)) <= slack
            and traces.max(initial=0.0) <= 1.0 + slack
            and ((squares > 0.0).sum(axis=-1) <= 1).all()
        )
        if not sound or not self.control:
            return bool(sound)
        rewards, counts = vectors[..., -2] / self.control, vectors[..., -1] / (COUNTED * self.control)
        counted = np.abs(counts - (counts > 0.5)).max(initial=0.0) <= slack
        return bool(counted and (np.abs(rewards) <= self.most * (counts > 0.5) + slack).all())

    def moments(self, sums: Floats) -> tuple[Floats, Floats]:
        """Σxz and Σxxᵀ of every place, from a sum of vectors (the last axis)."""
        whole = np.asarray(sums)[..., : self.places * self.own]
        whole = whole.reshape(*whole.shape[:-1], self.places, self.own)
        rows, columns, factors = self._triangle
        matrices = np.zeros((*whole.shape[:-1], self.features, self.features))
        matrices[..., rows, columns] = matrices[..., columns, rows] = whole[..., self.features :] / factors
        return whole[..., : self.features] / self.weight, matrices

    def controls(self, sums: Floats) -> tuple[float, float]:
        """Σz over the control share, and how many they are."""
        return float(sums[-2]) / self.control, float(sums[-1]) / (COUNTED * self.control)

    def along(self, number: float) -> Floats:
        """The vector of a user whose first feature is as large as can be, and whose reward is at either end."""
        own = np.zeros(self.features)
        own[0], own[-1] = math.sqrt(0.5), math.sqrt(0.5)
        return self.of(own, 1.0 if number > 0 else 0.0)

    def reach(self, precision: int) -> tuple[float, float]:
        """How far two users' encoded vectors can be apart, by length and by the sum of absolute differences.

        Couple the two roundings: numbers that can differ do so by one more at most, and the others are whole levels.
        """
        levels = precision / self.span
        rounded = self._differing if precision % 2 == 0 else self.dimension
        return levels * self.diameter + math.sqrt(rounded), levels * self.taxicab + rounded
