"""What every noise offers: its exact law, its split into shares, samples of it, and what it costs in privacy."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from croupier.checks import InvalidParameter, Number, integer
from croupier.noise.bits import Bits
from croupier.noise.inversion import inverter
from croupier.noise.likelihoods import Pair, directed_pair, renyi_divergence, shifted
from croupier.noise.source import SeededSource, Source
from croupier.noise.target import Target
from croupier.noise.window import DEEP, LARGEST_DRAW, SHALLOW, Floats, Integers, Window, check_width


def to_arb(value: Number) -> arb:
    """Return `value` as a ball; ints, doubles and fractions are all exact inputs."""
    if isinstance(value, Fraction):
        return arb(value.numerator) / arb(value.denominator)
    return arb(value)


def show(value: object) -> str:
    """Print a parameter as a person would write it."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value.numerator)
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}" if value.denominator <= 10**9 else f"{float(value):.12g}"
    if isinstance(value, tuple):
        shown = [show(entry) for entry in value]
        return "[" + ", ".join(shown if len(shown) <= 12 else [*shown[:5], "...", *shown[-5:]]) + "]"
    return repr(value)


Family = TypeVar("Family", bound="Noise")


class Noise(ABC):
    """An integer distribution: frozen, hashable, comparable."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The expectation."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance; see each family for its parameters."""

    @property
    def std(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)

    def extent(self, floor: float) -> float:
        """About how many values have a probability of at least `floor`, to refuse a table before it is made."""
        depth = -math.log(floor)
        return 2.0 * (self.std * math.sqrt(2.0 * depth) + depth)

    @property
    def affordable(self) -> bool:
        """Whether its privacy is computed within about a second and a gigabyte, whoever named its parameters."""
        return self.std <= 2.0**24

    @property
    def support(self) -> tuple[int | None, int | None]:
        """The least and the largest value; None where there is none."""
        return (None, None)

    @property
    def symmetric(self) -> bool:
        """Whether x and -x are equally likely."""
        return self.support == (None, None)

    @property
    def balanced(self) -> bool:
        """Whether the law is its own mirror image about some centre: a shift up then tells as much as one down."""
        return self.symmetric

    def check_sensitivity(self, sensitivity: int) -> int:
        """Return how far one user can move the number under this noise, or refuse it."""
        return integer("sensitivity", sensitivity, 1)

    def decisive_shifts(self, sensitivity: int) -> tuple[int, ...]:
        """Shifts of which one tells at least as much as any other up to `sensitivity`.

        For a law with one peak that is the largest: max(0, P(x) - e^ε P(x - shift)) never falls as the shift grows.
        """
        return (sensitivity,)

    def log_ratio(self, shift: int) -> Number:
        """The supremum of |log P(x + shift)/P(x)| over the integers, exactly: pure ε; infinite for most families."""
        return math.inf

    def pair(self, shift: int, floor: float = SHALLOW) -> Pair:
        """The log-likelihood ratios of X against X + shift, down to probabilities of `floor`."""
        return shifted(self, self.window(floor), shift)

    def divergence(self, shift: int, order: float) -> float:
        """An upper bound on the Rényi divergence of X from X + shift."""
        if self.support != (None, None):
            return math.inf  # the two have different supports
        return min(renyi_divergence(directed_pair(self, shift), order), rounded_up(self.log_ratio(shift)))

    def concentrated(self, shift: int) -> float:
        """An upper bound on ρ of zero-concentrated DP: ½ε² for pure ε ([CZ23] Lemma 10), else infinite."""
        pure = self.log_ratio(shift)
        return 0.5 * float(pure) ** 2 if math.isfinite(pure) else math.inf

    def vector_log_ratio(self, l1: float) -> Number:
        """Pure ε of a vector of whole numbers with this noise in each, which one user moves by `l1` steps in all."""
        step = self.log_ratio(1)
        return math.floor(l1) * Fraction(step) if math.isfinite(step) else math.inf

    def vector_divergence(self, order: float, l2: float, l1: float) -> float:
        """An upper bound on the divergence of such a vector, by its sensitivities: for pure ε, min{ε, ½αε²} [BS16]."""
        return min(self._vector_pure(l1), order * self.vector_concentrated(l2, l1))

    def vector_concentrated(self, l2: float, l1: float) -> float:
        """An upper bound on ρ of such a vector."""
        return 0.5 * self._vector_pure(l1) ** 2

    def _vector_pure(self, l1: float) -> float:
        if math.isinf(pure := self.vector_log_ratio(l1)):
            raise InvalidParameter("noise", self, "one with a bound for vectors: Skellam or Laplace noise")
        return rounded_up(pure)

    widest_search: ClassVar[float] = 2.0**17
    """The largest standard deviation that a search tries: it tabulates some thirty noises within seconds."""

    purely_private: ClassVar[bool] = False
    """Whether the family can meet a target with δ = 0."""

    @classmethod
    def calibrated(cls, target: Target) -> Self:
        """The least noise of this family that meets a target, on the safe side of the root."""
        raise InvalidParameter("family", cls.__name__, "one with a search for its least noise, such as DiscreteLaplace")

    @property
    def bits(self) -> Bits:
        """How it is sent as bits; refused for noise that is not made of them."""
        raise InvalidParameter("share", self, "noise that is sent as bits")

    @property
    def counted(self) -> bool:
        """Whether it is a number of messages without limit, whose draws for many labels are one draw, spread."""
        return False

    def spread(self, labels: int, lengths: Integers, source: Source) -> Integers:
        """Labels of messages, party after party, with the law of a draw for each label, given every party's total.

        This noise is the law of the totals.
        """
        raise InvalidParameter("share", self, "noise that is sent as counted messages")

    @property
    def cumulant_rises(self) -> bool:
        """Whether cumulant(t)/t² never falls as t grows, so that a part of the noise is bounded by its share of it."""
        return False

    @abstractmethod
    def cumulant(self, t: Floats) -> Floats:
        """log E[e^{t(X - mean)}], or an upper bound; infinite where the expectation is."""

    @abstractmethod
    def share(self, users: int) -> Noise:
        """What each of `users` users draws so that together they draw this."""

    @abstractmethod
    def times(self, users: int) -> Noise:
        """The sum of `users` independent copies."""

    @abstractmethod
    def window(self, floor: float = SHALLOW) -> Window:
        """The law wherever the probability is at least `floor`."""

    def bulk(self, reach: int) -> Floats:
        """P(X = -reach), ..., P(X = reach) to an absolute error of 1e-14, which wide laws give sooner than a window."""
        window = self.window()
        law = np.zeros(2 * reach + 1)
        first, stop = max(window.start, -reach), min(window.stop, reach + 1)
        if first < stop:
            law[first + reach : stop + reach] = window.pmf[first - window.start : stop - window.start]
        return law

    def pmf(self, x: ArrayLike) -> Any:
        """P(X = x).

        >>> from croupier.noise import DiscreteLaplace
        >>> round(DiscreteLaplace(scale=2).pmf(0), 6)
        0.244919
        """
        return _pointwise(lambda w, i: np.where((i >= 0) & (i < len(w.pmf)), w.pmf.take(i, mode="clip"), 0.0), self, x)

    def cdf(self, x: ArrayLike) -> Any:
        """P(X <= x)."""
        return _pointwise(lambda w, i: _cumulative(self, w)[0][np.clip(i + 1, 0, len(w.pmf))], self, x)

    def tail(self, x: ArrayLike) -> Any:
        """P(X > x), accurate far into the tail."""
        return _pointwise(lambda w, i: _cumulative(self, w)[1][np.clip(i + 1, 0, len(w.pmf))], self, x)

    def quantile(self, probability: float) -> int:
        """The least x with P(X <= x) >= probability.

        >>> from croupier.noise import Poisson
        >>> Poisson(4).quantile(0.5)
        4
        """
        probability = open_probability(probability)
        if probability > 0.5:
            return self.tail_quantile(1.0 - probability)
        window = self.window(SHALLOW if probability > 1e-30 else DEEP)
        _check_depth(probability, window.below)
        below, _ = _cumulative(self, window)
        return window.start + int(np.searchsorted(below[1:], probability))

    def tail_quantile(self, probability: float) -> int:
        """The least x with P(X > x) <= probability; keeps its accuracy where 1 - probability rounds to one."""
        probability = open_probability(probability)
        window = self.window(SHALLOW if probability > 1e-30 else DEEP)
        _check_depth(probability, window.above)
        _, above = _cumulative(self, window)
        # above[i] is P(X > start + i - 1) and decreases.
        index = len(above) - int(np.searchsorted(above[::-1], probability, side="right"))
        return window.start + max(index, 0) - 1

    def deviation(self, failure: float) -> float:
        """The least d with P(|X - mean| > d) <= failure, up to the lattice: the two tails together."""
        if self.symmetric:
            return float(max(self.tail_quantile(failure / 2), 0))
        centre = self.mean
        low, high = self.quantile(failure / 2), self.tail_quantile(failure / 2)
        return max(centre - low, high - centre)

    def sample(self, size: int | tuple[int, ...], source: Source) -> Integers:
        """Draw `size` values.

        A cryptographic source gives exact samples: words are compared with certified values of the cdf, and a word
        that falls on a boundary is resolved with more bits. A seeded source simulates the same law with NumPy.

        >>> from croupier.noise import DiscreteLaplace, secure
        >>> DiscreteLaplace(scale=20).sample(1000, secure()).shape
        (1000,)
        """
        check_width(self, self._largest, LARGEST_DRAW)
        shape = tuple(size) if isinstance(size, tuple | list) else (int(size),)
        count = math.prod(shape)
        if isinstance(source, SeededSource):
            drawn = self._simulate(count, source.generator)
        else:
            drawn = self._draw(count, source)
        return drawn.reshape(shape)

    @property
    def _largest(self) -> float:
        """About the largest value that is ever drawn, either way."""
        low, high = self.support
        if low is None or high is None:
            return abs(self.mean) + self.extent(2.0**-64)
        return float(max(abs(low), abs(high)))

    def cells(self) -> Iterator[tuple[int, arb]]:
        """Values and their probabilities as balls at the current precision, likely ones first.

        Exact samples are drawn by them. A family that can draw in another way need not list them.
        """
        raise InvalidParameter("noise", self, "one that lists its values (`cells`), which exact samples need")

    def _draw(self, count: int, source: Source) -> Integers:
        """Draw exactly from any source of words."""
        return inverter(self).sample(count, source)

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        window = self.window()
        below, _ = _cumulative(self, window)
        index = np.searchsorted(below[1:], generator.random(count), side="right")
        return window.start + np.minimum(index, len(window.pmf) - 1)

    def __repr__(self) -> str:
        shown = ((f.name, getattr(self, f.name)) for f in fields(self) if f.repr)  # type: ignore[arg-type]
        return (
            f"{type(self).__name__}({', '.join(f'{name}={show(value)}' for name, value in shown if value is not None)})"
        )


def rounded_up(value: Number) -> float:
    """The least double that is no less than an exact number."""
    nearest = float(value)
    if math.isinf(nearest) or Fraction(nearest) >= value:
        return nearest
    return math.nextafter(nearest, math.inf)


def split(name: str, value: Number, users: int) -> Fraction:
    """Divide a parameter exactly; doubles are fractions too."""
    return Fraction(value) / integer("users", users, 1)


def multiply(value: Number, users: int) -> Number:
    """Multiply a parameter exactly, and keep whole results whole."""
    product = Fraction(value) * integer("users", users, 1)
    return int(product) if product.denominator == 1 else product


def one_party(noise: Family, users: int) -> Family:
    """Return the noise itself as the one share that it has: a `share` for noise that does not divide.

    Parameters
    ----------
    noise : what one party draws.
    users : how many parties there are; only one is allowed.

    Examples
    --------
    >>> from croupier.noise import BoundedLaplace
    >>> one_party(BoundedLaplace(0.5, 3), users=2)
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: users = 2 is not allowed: it must be 1: BoundedLaplace noise is drawn by one party
    """
    if integer("users", users, 1) != 1:
        raise InvalidParameter("users", users, f"1: {type(noise).__name__} noise is drawn by one party")
    return noise


def open_probability(probability: float) -> float:
    """Return a probability strictly between zero and one, or refuse it."""
    if not 0.0 < probability < 1.0:
        raise InvalidParameter("probability", probability, "a number in (0, 1)")
    return float(probability)


def _check_depth(probability: float, outside: float) -> None:
    if probability < outside:
        raise InvalidParameter("probability", probability, f"at least {outside:.3g}: this law is tabulated no deeper")


def whole(x: ArrayLike) -> Integers:
    """Points as 64-bit integers, or a refusal; those beyond 2^61 are beyond every law."""
    points = np.asarray(x)
    if points.dtype == object or points.dtype == np.uint64:
        points = np.asarray([min(int(v), 2**61) for v in points.ravel()]).reshape(points.shape)
    if not np.issubdtype(points.dtype, np.integer) and not (
        np.issubdtype(points.dtype, np.floating) and np.all(np.isfinite(points)) and np.all(points == np.floor(points))
    ):
        raise InvalidParameter("x", x, "whole numbers")
    return np.asarray(np.clip(points, -(2**61), 2**61).astype(np.int64))


def settle(noise: Noise, **values: object) -> None:
    """Keep checked parameters as plain Python numbers, whatever they came as."""
    for name, value in values.items():
        object.__setattr__(noise, name, value)


def _pointwise(look: Callable[[Window, Integers], Floats], noise: Noise, x: ArrayLike) -> Any:
    points = whole(x)
    window = noise.window()
    index = points.astype(np.int64) - window.start
    if index.size and (index.min() < 0 or index.max() >= len(window.pmf)):
        window = noise.window(DEEP)
        index = points.astype(np.int64) - window.start
    values = look(window, index)
    return values if points.ndim else float(values)


@lru_cache(maxsize=64)
def _cumulative(noise: Noise, window: Window) -> tuple[Floats, Floats]:
    """P(X < start+i) and P(X >= start+i), each summed from its own far end, where the terms are small."""
    below = window.below + np.concatenate(([0.0], np.cumsum(window.pmf)))
    above = window.above + np.concatenate((np.cumsum(window.pmf[::-1])[::-1], [0.0]))
    return np.minimum(below, 1.0), np.minimum(above, 1.0)
