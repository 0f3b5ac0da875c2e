"""Any noise at all: a table of exact probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from flint import arb, fmpq, fmpq_poly

from croupier.checks import InvalidParameter, Number, finite, integer
from croupier.noise.base import Noise, one_party, settle, show, to_arb
from croupier.noise.likelihoods import Pair, in_order
from croupier.noise.rests import exp_rest
from croupier.noise.window import DEEP, EPSILON, SHALLOW, Floats, Window

LARGEST_TABLE = 2**16
LONGEST_FRACTION = 1600
"""Bits of the common denominator: a law of doubles needs about 1100, and what is written can be read back."""


@dataclass(frozen=True, repr=False)
class Table(Noise):
    """P(start + i) = probabilities[i], exactly: what is δ(ε) of a noise of your own?

    Parameters
    ----------
    probabilities : numbers that add up to exactly one. Doubles are taken as the decimals they are written with, where
        those do: 0.1 is a tenth then. Otherwise they are taken as what they are, to the last bit.
    start : where the first of them stands.

    Examples
    --------
    >>> from croupier.privacy import privacy_loss
    >>> privacy_loss(Table([Fraction(1, 10), Fraction(8, 10), Fraction(1, 10)], start=-1)).delta(1.0)
    0.6281718171540986

    >>> Table([0.1, 0.8, 0.1], start=-1).probabilities
    (Fraction(1, 10), Fraction(4, 5), Fraction(1, 10))

    Doubles that were computed seldom add up to one; `Table.proportional` takes whatever is in the right proportion.

    >>> Table.proportional([1, 2, 1]).probabilities
    (Fraction(1, 4), Fraction(1, 2), Fraction(1, 4))
    """

    probabilities: tuple[Number, ...]
    start: int = 0

    def __post_init__(self) -> None:
        start = integer("start", self.start, -(2**40), 2**40)
        given = [finite("probabilities", value) for value in self.probabilities]
        exact, written = _fractions("probabilities", given), _written(given)
        exact = written if sum(written) == 1 else exact
        if sum(exact) != 1:
            allowed = "numbers that add up to exactly 1 (Table.proportional divides weights by their sum)"
            raise InvalidParameter("probabilities", show(exact), allowed)
        held = [i for i, mass in enumerate(exact) if mass]
        # Without zeros at the ends, equal laws are equal values.
        settle(self, probabilities=exact[held[0] : held[-1] + 1], start=start + held[0])

    @classmethod
    def proportional(cls, weights: Iterable[Number], start: int = 0) -> Table:
        """The law with these weights, each divided by their sum exactly."""
        exact = _fractions("weights", weights)
        total = sum(exact)
        if not total:
            raise InvalidParameter("weights", show(exact), "at least one number above 0")
        return cls(tuple(weight / total for weight in exact), start)

    @property
    def mean(self) -> float:
        return float(self._moment(1))

    @property
    def variance(self) -> float:
        return float(self._moment(2) - self._moment(1) ** 2)

    def _moment(self, power: int) -> Fraction:
        return sum((mass * x**power for x, mass in self._masses()), Fraction(0))

    def _masses(self) -> Iterator[tuple[int, Fraction]]:
        return ((self.start + i, Fraction(mass)) for i, mass in enumerate(self.probabilities))

    def extent(self, floor: float) -> float:
        return float(len(self.probabilities))

    @property
    def support(self) -> tuple[int | None, int | None]:
        return (self.start, self.start + len(self.probabilities) - 1)

    @property
    def symmetric(self) -> bool:
        return self.balanced and 2 * self.start == 1 - len(self.probabilities)

    @property
    def balanced(self) -> bool:
        return self.probabilities == self.probabilities[::-1]

    @property
    def affordable(self) -> bool:
        # With several peaks every shift is looked at.
        return self._one_peak or len(self.probabilities) <= 2**9

    @cached_property
    def _one_peak(self) -> bool:
        rises = [later > earlier for earlier, later in pairwise(self.probabilities) if later != earlier]
        return rises == sorted(rises, reverse=True)

    def decisive_shifts(self, sensitivity: int) -> tuple[int, ...]:
        """All where the law has several peaks: one on the even numbers hides a shift by two better than by one."""
        if self._one_peak:
            return (sensitivity,)
        # From the width of the table on, a shift tells everything.
        return tuple(range(1, min(sensitivity, len(self.probabilities)) + 1))

    def pair(self, shift: int, floor: float = SHALLOW) -> Pair:
        return _table_pair(self, shift)

    def cumulant(self, t: Floats) -> Floats:
        held = [(x, mass) for x, mass in self._masses() if mass]
        pmf = np.asarray([float(mass) for _, mass in held])
        centre = self._moment(1)
        exponents = np.multiply.outer(np.asarray(t), np.asarray([float(x - centre) for x, _ in held]))
        peak = np.maximum(exponents.max(axis=-1), 0.0)
        # Near t = 0 the sum is hardly above one, and only its excess keeps the digits. The mean is zero.
        excess = exp_rest(np.minimum(exponents, 1.0)) @ pmf
        far = np.log(np.exp(exponents - peak[..., None]) @ pmf) + peak
        return np.asarray(np.where(peak < 1.0, np.log1p(excess), far))

    def share(self, users: int) -> Table:
        return one_party(self, users)

    def times(self, users: int) -> Table:
        """The exact convolution; its fractions grow with the number of users, so that is limited."""
        bits = math.lcm(*(mass.denominator for _, mass in self._masses())).bit_length()
        most = min(LONGEST_FRACTION // bits, LARGEST_TABLE // len(self.probabilities))
        users = integer("users", users, 1, max(most, 1))
        power = fmpq_poly([fmpq(mass.numerator, mass.denominator) for _, mass in self._masses()]) ** users
        return Table(tuple(Fraction(int(c.p), int(c.q)) for c in power.coeffs()), self.start * users)

    def window(self, floor: float = SHALLOW) -> Window:
        return Window(self.start, np.asarray([float(mass) for mass in self.probabilities]), 0.0, 0.0, EPSILON)

    def cells(self) -> Iterator[tuple[int, arb]]:
        """Values and their probabilities as balls at the current precision, likely ones first."""
        held = ((x, mass) for x, mass in self._masses() if mass)
        return ((x, to_arb(mass)) for x, mass in sorted(held, key=lambda cell: -cell[1]))


def _fractions(name: str, values: Iterable[Number]) -> tuple[Fraction, ...]:
    """The values as exact fractions: none below zero, not too many, and none of monstrous length."""
    exact = tuple(Fraction(finite(name, value)) for value in values)
    if not 0 < len(exact) <= LARGEST_TABLE:
        raise InvalidParameter(name, f"{len(exact)} numbers", f"1 to {LARGEST_TABLE} numbers")
    if min(exact) < 0:
        raise InvalidParameter(name, show(exact), "numbers >= 0")
    common = 1
    for value in exact:
        common = math.lcm(common, value.denominator)
        if common.bit_length() > LONGEST_FRACTION:
            raise InvalidParameter(name, show(exact), f"fractions whose common denominator has {LONGEST_FRACTION} bits")
    return exact


def _written(values: Iterable[Number]) -> tuple[Fraction, ...]:
    """The values as a person writes them: a double as the shortest decimal that stands for it."""
    return tuple(Fraction(repr(value) if isinstance(value, float) else value) for value in values)


@lru_cache(maxsize=256)
def _table_pair(noise: Table, shift: int) -> Pair:
    """Every ratio from exact probabilities, each rounded once; what only one of the two laws allows is impossible."""
    law = dict(noise._masses())
    losses, masses = [], []
    impossible = cut = Fraction(0)
    for x, mass in law.items():
        other = law.get(x - shift, Fraction(0))
        if not mass:
            continue
        if not other:
            impossible += mass
        elif min(mass, other) < DEEP:
            cut += mass  # no double holds it with all its digits
        else:
            losses.append(_log_ratio(mass, other))
            masses.append(float(mass))
    scale = max(map(abs, losses), default=0.0)
    # One rounding for each mass, two for each loss, which are relative to it; sums add one a term.
    error = EPSILON * (4.0 + 2.0 * scale + len(masses))
    return in_order(np.asarray(losses), np.asarray(masses), float(impossible), float(cut) * (1.0 + EPSILON), error)


def _log_ratio(mass: Fraction, other: Fraction) -> float:
    return (
        float(np.log1p(float((mass - other) / other)))
        if abs(mass - other) < other / 2
        else float(np.log(float(mass / other)))
    )
