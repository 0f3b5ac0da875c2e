"""The points of a projective space over a prime field, and how many of a multiset lie on each hyperplane.

A point is a line through the origin of F_q^t, named by its vector whose first digit that is not zero is one. As base-q
numbers such vectors begin with the digit one, and their order numbers the points. A point and the hyperplane of all
points at right angles to it share their number. Any two hyperplanes meet in equally many points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from croupier.noise.source import Source, residues

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Space:
    """All points of dimension t over the field of q elements, q prime.

    >>> Space(field=3, dimension=3).size
    13
    """

    field: int
    dimension: int

    @classmethod
    def holding(cls, size: int, field: int) -> Space:
        """The least space, from dimension 2 on, with a point for every item."""
        dimension = 2
        while flat(field, dimension) < size:
            dimension += 1
        return cls(field, dimension)

    @property
    def size(self) -> int:
        return flat(self.field, self.dimension)

    @property
    def hyperplane(self) -> int:
        """How many points a hyperplane has."""
        return flat(self.field, self.dimension - 1)

    @property
    def common(self) -> int:
        """How many points two hyperplanes share."""
        return flat(self.field, self.dimension - 2)

    @property
    def common_to_three(self) -> int:
        """How many points three hyperplanes share at least: those of items in general position."""
        return flat(self.field, self.dimension - 3)

    @cached_property
    def _starts(self) -> Integers:
        """The number of the first point among those with a given last place of their leading one."""
        return np.asarray([flat(self.field, m) for m in range(self.dimension)])

    @cached_property
    def _powers(self) -> Integers:
        return np.asarray(self.field ** np.arange(self.dimension)[::-1])

    def numbers(self, labels: Integers) -> Integers:
        """The vectors of points, as base-q numbers."""
        level = np.searchsorted(self._starts, labels, side="right") - 1
        return np.asarray(self.field**level + labels - self._starts[level])

    def vectors(self, labels: Integers) -> Integers:
        """The vectors of points, their digits along the first axis."""
        return np.asarray(self.numbers(labels) // self._powers[:, None] % self.field)

    def labels(self, vectors: Integers) -> Integers:
        """The points on which vectors lie: divide by the first digit that is not zero."""
        q = self.field
        inverses = np.asarray([0, *(pow(d, -1, q) for d in range(1, q))])
        lead = (vectors != 0).argmax(axis=0)
        first = np.take_along_axis(vectors, lead[None, :], axis=0)[0]
        numbers = (vectors * inverses[first] % q * self._powers[:, None]).sum(axis=0)
        level = self.dimension - 1 - lead
        return np.asarray(numbers - q**level + self._starts[level])

    def draw(self, labels: Integers, on: NDArray[np.bool_], source: Source) -> Integers:
        """A uniform point on each label's hyperplane where `on`, else a uniform one off it.

        All coordinates but one are free; that one makes the product with the label's vector zero, or not.
        """
        q, count = self.field, len(labels)
        vector = self.vectors(labels)
        pivot = (vector != 0).argmax(axis=0)
        product = np.where(on, 0, 1 + residues(q - 1, (count,), source))
        drawn = np.zeros((self.dimension, count), dtype=np.int64)
        todo = np.arange(count)
        while todo.size:
            free = residues(q, (self.dimension, todo.size), source)
            at = pivot[todo], np.arange(todo.size)
            free[at] = 0
            # The label's own digit there is one, so the coordinate is the difference itself.
            free[at] = (product[todo] - (free * vector[:, todo]).sum(axis=0)) % q
            drawn[:, todo] = free
            # The origin is no point.
            todo = todo[~free.any(axis=0)]
        return self.labels(drawn)

    def on_hyperplanes(self, counts: Integers, wanted: int) -> Integers:
        """How many of the counted points lie on each of the first `wanted` hyperplanes.

        Give every multiple of a point its count. Σ over the multiples of u of ω^{<u,v>} is q - 1 where u lies on the
        hyperplane of v, and -1 elsewhere, so one Fourier transform over F_q^t counts them all.
        """
        every = self.numbers(np.arange(self.size))
        space = np.zeros(self.field**self.dimension)
        for scalar in range(1, self.field):
            space[self._multiples(scalar)[every]] = counts
        transformed = _transform(space, self.field, self.dimension)[every[:wanted]]
        return (np.rint(transformed).astype(np.int64) + int(counts.sum())) // self.field

    def _multiples(self, scalar: int) -> Integers:
        """Every vector times a scalar, digit by digit, both as base-q numbers."""
        digit = np.arange(self.field) * scalar % self.field
        numbers = np.zeros(1, dtype=np.int64)
        for _ in range(self.dimension):
            numbers = np.add.outer(numbers * self.field, digit).ravel()
        return numbers


def flat(field: int, dimension: int) -> int:
    """How many points a space or a flat in it has: (q^t - 1)/(q - 1)."""
    return int((field**dimension - 1) // (field - 1)) if dimension > 0 else 0


def _transform(space: Floats, field: int, dimension: int) -> Floats:
    """The real part of the Fourier transform over the vectors of a field; for 2 by sums and differences."""
    if field > 2:
        from scipy.fft import fftn

        return np.asarray(fftn(space.reshape((field,) * dimension)).real.ravel())
    for axis in range(dimension):
        halves = space.reshape(2**axis, 2, -1)
        space = np.stack((halves[:, 0] + halves[:, 1], halves[:, 0] - halves[:, 1]), axis=1).ravel()
    return space
