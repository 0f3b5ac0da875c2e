"""Binomial noise: bits that users add to a shuffled batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from croupier.checks import InvalidParameter, Number, between, integer
from croupier.noise.base import open_probability, settle, to_arb
from croupier.noise.bits import Bits
from croupier.noise.likelihoods import Pair
from croupier.noise.ratio import RatioNoise
from croupier.noise.rests import exp_rest, log_rest
from croupier.noise.source import Source
from croupier.noise.tails import least_tail_quantile
from croupier.noise.target import Target
from croupier.noise.window import SHALLOW, Floats, Integers
from croupier.search import least_passing_integer

WIDE = 1e10
"""Above this variance the law is not tabulated."""

WIDEST = 1.5e5
"""The privacy loss of a Binomial law is tabulated up to this standard deviation."""


@dataclass(frozen=True, repr=False)
class Binomial(RatioNoise):
    """The number of ones among `trials` bits, each one with probability `p`: the noise of [TKMS21] Alg. 3.

    Parameters
    ----------
    trials : how many bits.
    p : the probability of a one: a double, or a fraction for an exact one.

    Examples
    --------
    >>> Binomial(trials=1000, p=0.5).share(10)
    Binomial(trials=100, p=0.5)
    """

    trials: int
    p: Number

    def __post_init__(self) -> None:
        settle(self, trials=integer("trials", self.trials, 1), p=between("p", self.p, 0, 1))

    @property
    def mean(self) -> float:
        return float(self.trials * Fraction(self.p))

    @cached_property
    def variance(self) -> float:
        p = Fraction(self.p)
        return float(self.trials * p * (1 - p))

    @property
    def support(self) -> tuple[int | None, int | None]:
        return (0, self.trials)

    @property
    def balanced(self) -> bool:
        return 2 * Fraction(self.p) == 1

    @property
    def mode(self) -> int:
        return min(math.floor((self.trials + 1) * Fraction(self.p)), self.trials)

    def _mass(self) -> arb:
        return (self._log_mass(self.mode, arb.lgamma) + arb(self.trials + 1).lgamma()).exp()

    def _log_mass(self, x: int, log_gamma: Callable[[arb], arb]) -> arb:
        p, others = to_arb(self.p), self.trials - x
        return x * p.log() + others * (1 - p).log() - log_gamma(arb(x + 1)) - log_gamma(arb(others + 1))

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        exact = Fraction(self.p)
        return (self.trials - x) * real(exact) / ((x + 1) * real(1 - exact))

    def cumulant(self, t: Floats) -> Floats:
        p = float(self.p)
        return self.trials * (log_rest(p * np.expm1(t)) + p * exp_rest(t))

    def share(self, users: int) -> Binomial:
        if self.trials % integer("users", users, 1):
            raise InvalidParameter("users", users, f"a divisor of trials = {self.trials}, since a bit cannot be split")
        return Binomial(self.trials // users, self.p)

    def times(self, users: int) -> Binomial:
        return Binomial(self.trials * integer("users", users, 1), self.p)

    @property
    def bits(self) -> Bits:
        """All are sent, and the ones among them count."""
        return Bits(self.trials, self.trials, float(self.trials), 0, self._zeros_and_ones, self._seen)

    def _zeros_and_ones(self, count: int, source: Source) -> tuple[Integers, Integers]:
        ones = self.sample(count, source)
        return self.trials - ones, ones

    def _seen(self) -> Iterator[tuple[float, Floats]]:
        yield 1.0, self.window().pmf

    def pair(self, shift: int, floor: float = SHALLOW) -> Pair:
        """Fewer trials are less private, so a law too wide to tabulate is bounded by a narrower one."""
        if self.std > WIDEST:
            return replace(super(Binomial, self.narrower(WIDEST)).pair(shift, floor), substitute=True)
        return super().pair(shift, floor)

    def narrower(self, std: float) -> Binomial:
        """Fewer trials of the same bits, with about the given standard deviation."""
        return Binomial(max(1, math.floor(self.trials * std**2 / self.variance)), self.p)

    @classmethod
    def calibrated(cls, target: Target) -> Binomial:
        """Fair bits, as few as will do; with users the bits divide among them and their bias is chosen too."""
        guess = math.ceil(4.0 * target.gaussian_variance)
        fair = least_passing_integer(lambda trials: target.met(Binomial(trials, 0.5)), 0, guess)
        if target.users is None:
            return Binomial(fair, 0.5)
        least_bits = max(1, math.ceil(fair / target.users))
        candidates = []
        for bits in range(least_bits, least_bits + 3):
            trials = bits * target.users

            def suffices(bias: float, trials: int = trials) -> bool:
                return target.met(Binomial(trials, min(bias, 0.5)))

            candidates.append(Binomial(trials, min(target.least(suffices, fair / trials / 2.0), 0.5)))
        return min(candidates, key=lambda noise: (noise.variance, noise.trials))

    def quantile(self, probability: float) -> int:
        open_probability(probability)
        if self.variance <= WIDE or probability > 0.5:
            return super().quantile(probability)
        return self.trials - Binomial(self.trials, 1 - Fraction(self.p)).tail_quantile(probability)

    def tail_quantile(self, probability: float) -> int:
        """Where a table would not fit, Chernoff's bound P(X >= x) <= e^{-N kl(x/N, p)}: an upper bound."""
        open_probability(probability)
        if self.variance <= WIDE:
            return super().tail_quantile(probability)
        p = float(self.p)

        def tail(steps: int) -> float:
            rate = p + steps / self.trials
            if rate >= 1.0:
                return 0.0
            excess = rate * math.log(rate / p) + (1.0 - rate) * math.log((1.0 - rate) / (1.0 - p))
            return math.exp(-self.trials * excess * (1.0 - 1e-6))

        return math.ceil(self.mean) + least_tail_quantile(tail, probability, math.ceil(self.std))

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return generator.binomial(self.trials, float(self.p), count)
