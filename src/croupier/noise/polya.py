"""Pólya (negative binomial) noise with any real shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, ctx

from croupier.checks import InvalidParameter, Number, between, positive
from croupier.noise.base import multiply, settle, split, to_arb
from croupier.noise.chances import urn
from croupier.noise.precision import precise
from croupier.noise.ratio import RatioNoise
from croupier.noise.rests import exp_rest, log_rest
from croupier.noise.source import Source
from croupier.noise.target import Target
from croupier.noise.window import Floats, Integers

MODE_BITS = 256
"""Enough for the whole part of a mode below 2^61, also where β is close to one."""


@lru_cache(maxsize=64)
def decay(scale: Number, bits: int) -> arb:
    """e^{-1/scale} as a ball, once for every precision: long tables ask for it at every cell."""
    return (-1 / to_arb(scale)).exp()


@dataclass(frozen=True, repr=False)
class Polya(RatioNoise):
    """P(x) = Γ(x+r)/(x! Γ(r)) β^x (1-β)^r: Poisson with a Gamma(r, scale β/(1-β)) rate ([CZ23] Fact 1).

    NumPy's and SciPy's negative binomial take 1-β where this takes β.

    Parameters
    ----------
    r : how many geometric numbers are added up; it may be a fraction.
    beta : β.
    scale : b, in the place of `beta`, for β = e^{-1/b} exactly.

    Examples
    --------
    >>> Polya(r=2, beta=0.75).mean
    6.0
    >>> Polya(r=1, scale=20).share(1000)
    Polya(r=1/1000, scale=20)
    """

    r: Number
    beta: Number | None = None
    scale: Number | None = None

    def __post_init__(self) -> None:
        settle(self, r=positive("r", self.r))
        if (self.beta is None) == (self.scale is None):
            raise InvalidParameter("beta", self.beta, "given if and only if scale is not")
        if self.beta is not None:
            settle(self, beta=between("beta", self.beta, 0, 1))
        if self.scale is not None:
            settle(self, scale=positive("scale", self.scale))

    def _beta(self, real: Callable[[Number], Any]) -> Any:
        if self.beta is not None:
            return real(self.beta)
        assert self.scale is not None
        return math.exp(-1.0 / float(self.scale)) if real is float else decay(self.scale, ctx.prec)

    @property
    def odds(self) -> float:
        """β/(1-β): the mean for r = 1, and the scale of the Gamma mixture."""
        if self.beta is not None:
            return float(Fraction(self.beta) / (1 - Fraction(self.beta)))
        assert self.scale is not None
        return 1.0 / math.expm1(1.0 / float(self.scale))

    @property
    def mean(self) -> float:
        return float(self.r) * self.odds

    @property
    def variance(self) -> float:
        return float(self.r) * self.odds * (1.0 + self.odds)

    @property
    def affordable(self) -> bool:
        # Tables reach many times `odds` into the tail, however rarely anything is there.
        return self.odds <= 2.0**13 and self.std <= 2.0**17

    @property
    def support(self) -> tuple[int | None, int | None]:
        return (0, None)

    @property
    def mode(self) -> int:
        if self.r <= 1:
            return 0
        if self.beta is not None:
            exact = Fraction(self.beta)
            return math.floor((Fraction(self.r) - 1) * exact / (1 - exact))
        with precise(MODE_BITS):
            beta = self._beta(to_arb)
            # Where the ball holds a whole number, both neighbours are as likely as each other.
            return int(((to_arb(self.r) - 1) * beta / (1 - beta)).mid().floor().unique_fmpz())

    widest_search = 300.0  # for each of many β

    def extent(self, floor: float) -> float:
        return super().extent(floor) - math.log(floor) * self.odds

    def _mass(self) -> arb:
        r = to_arb(self.r)
        constant: arb = r * (1 - self._beta(to_arb)).log() - r.lgamma()
        return (self._log_mass(self.mode, arb.lgamma) + constant).exp()

    def _log_mass(self, x: int, log_gamma: Callable[[arb], arb]) -> arb:
        decline: arb = x * self._beta(to_arb).log()
        return log_gamma(to_arb(self.r) + x) - log_gamma(arb(x + 1)) + decline

    def _growth(self, x: Any, real: Callable[[Number], Any]) -> Any:
        return (x + real(self.r)) * self._beta(real) / (x + 1)

    @property
    def _growth_limit(self) -> float:
        return math.nextafter(self._beta(float), 1.0)

    def _growth_limit_ball(self) -> arb:
        limit: arb = self._beta(to_arb)
        return limit

    def cumulant(self, t: Floats) -> Floats:
        argument = self.odds * np.expm1(np.asarray(t))
        with np.errstate(divide="ignore"):
            log = np.where(argument < 1.0, -log_rest(-np.minimum(argument, 1.0)), np.inf)
        return np.asarray(float(self.r) * (log + self.odds * exp_rest(t)))

    @classmethod
    def calibrated(cls, target: Target) -> Polya:
        """Over β, the least shape r that will do; of those the least error quantile, then the least mean."""

        def shape(beta: float) -> Polya:
            mean = target.gaussian_variance
            return Polya(target.least(lambda r: target.met(Polya(r, beta)), mean * (1.0 - beta) / beta), beta)

        largest = math.exp(-0.05 * target.epsilon)
        # What counts is how far β is from one.
        candidates = [shape(1.0 - gap) for gap in np.geomspace(0.999, 1.0 - largest, 24).tolist()]
        return min(candidates, key=lambda noise: (noise.tail_quantile(target.failure), noise.mean))

    def share(self, users: int) -> Polya:
        return Polya(split("r", self.r, users), self.beta, self.scale)

    def times(self, users: int) -> Polya:
        return Polya(multiply(self.r, users), self.beta, self.scale)

    @property
    def counted(self) -> bool:
        return True

    def spread(self, labels: int, lengths: Integers, source: Source) -> Integers:
        """By an urn: given their number, messages of negative binomial counts repeat each other's labels."""
        return urn(labels, lengths, Fraction(self.r), source)

    def _simulate(self, count: int, generator: np.random.Generator) -> Integers:
        return generator.poisson(generator.gamma(float(self.r), self.odds, count))
