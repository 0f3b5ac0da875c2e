"""The least noise that meets a privacy target, found from the exact loss; always on the safe side of the root."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TypeVar

import numpy as np

from croupier.checks import InvalidParameter, between, integer, positive
from croupier.noise import (
    Binomial,
    DiscreteGaussian,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    Skellam,
    SparseBits,
)
from croupier.noise.binomial import fair_rows
from croupier.privacy.loss import Loss, privacy_loss
from croupier.search import least_passing_integer, least_passing_positive

Family = TypeVar("Family", bound=Noise)

RESOLUTION = 1e-5
"""How close, relatively, a real parameter comes to the least one."""


def calibrate(
    family: type[Family],
    *,
    epsilon: float,
    delta: float = 0.0,
    sensitivity: int = 1,
    users: int | None = None,
    failure: float = 0.05,
    loss: Callable[[Noise], Loss] | None = None,
) -> Family:
    """Return the least noise of a family under which one release is (epsilon, delta)-DP.

    Least means least variance, and for `Polya`, used for counts that err to one side, the least error quantile at
    `failure`. `Binomial` is fair bits, as few as will do; with `users` the bits divide among them and their bias is
    chosen too. `SparseBits` needs `users`: each sends as many fair bits as are slots a user, each with one probability.
    `loss` replaces the loss of one release of the noise by that of a larger use of it (say, two buckets at once).

    >>> calibrate(Binomial, epsilon=0.5, delta=1e-6)
    Binomial(trials=268, p=0.5)
    >>> calibrate(DiscreteLaplace, epsilon=0.5, sensitivity=10)
    DiscreteLaplace(scale=20)
    """
    positive("epsilon", epsilon)
    between("delta", delta, 0, 1, "[)")
    integer("sensitivity", sensitivity, 1)
    between("failure", failure, 0, 1)
    if users is not None:
        integer("users", users, 1)
    if family not in _SEARCHES:
        raise InvalidParameter("family", family.__name__, "one of " + ", ".join(f.__name__ for f in _SEARCHES))
    if delta == 0.0 and family is not DiscreteLaplace:
        raise InvalidParameter("delta", delta, f"a number in (0, 1): {family.__name__} noise is never purely private")
    of = loss or (lambda noise: privacy_loss(noise, sensitivity))
    search = _SEARCHES[family]
    found = search(Target(float(epsilon), float(delta), sensitivity, users, float(failure), of))
    assert isinstance(found, family)
    return found


class Target:
    """What a search must meet."""

    def __init__(
        self,
        epsilon: float,
        delta: float,
        sensitivity: int,
        users: int | None,
        failure: float,
        loss: Callable[[Noise], Loss],
    ) -> None:
        self.epsilon, self.delta, self.sensitivity = epsilon, delta, sensitivity
        self.users, self.failure, self.loss = users, failure, loss

    def met(self, noise: Noise) -> bool:
        return self.loss(noise).delta(self.epsilon) <= self.delta

    @property
    def gaussian_variance(self) -> float:
        """Where to start looking: about what a Gaussian would need."""
        return 2.0 * self.sensitivity**2 * math.log(1.0 / self.delta) / self.epsilon**2 + 1.0


def _least(passes: Callable[[float], bool], guess: float) -> float:
    return least_passing_positive(passes, guess, resolution=RESOLUTION)


def _laplace(target: Target) -> DiscreteLaplace:
    """Pure DP needs scale sensitivity/ε and no more; δ buys next to nothing here."""
    scale = Fraction(target.loss(DiscreteLaplace(1)).pure) / Fraction(target.epsilon)
    return DiscreteLaplace(int(scale) if scale.denominator == 1 else scale)


def _binomial(target: Target) -> Binomial:
    guess = math.ceil(4.0 * target.gaussian_variance)
    fair = least_passing_integer(lambda trials: target.met(Binomial(trials, 0.5)), 0, guess)
    if target.users is None:
        return Binomial(fair, 0.5)
    least_bits = max(1, math.ceil(fair / target.users))
    candidates = []
    for bits in range(least_bits, least_bits + 3):
        trials = bits * target.users
        bias = _least(partial(_bias_suffices, target, trials), fair / trials / 2.0)
        candidates.append(Binomial(trials, min(bias, 0.5)))
    return min(candidates, key=lambda noise: (noise.variance, noise.trials))


def _bias_suffices(target: Target, trials: int, bias: float) -> bool:
    return target.met(Binomial(trials, min(bias, 0.5)))


def _sparse(target: Target) -> SparseBits:
    """The least rate at which E[δ(M)] over the number M of fair bits sent meets the target."""
    if target.users is None:
        raise InvalidParameter("users", None, "a whole number >= 1 for SparseBits")
    if target.sensitivity % 2:
        raise InvalidParameter("sensitivity", target.sensitivity, "even: a flipped bit moves ones minus zeros by two")
    step = target.sensitivity // 2
    fair = calibrate(Binomial, epsilon=target.epsilon, delta=target.delta, sensitivity=step).trials
    slots = max(1, math.ceil(fair / target.users)) * target.users
    low, high = max(1, math.floor(fair - 11.0 * math.sqrt(fair))), math.ceil(fair + 24.0 * math.sqrt(fair) + 200.0)
    rows = fair_rows(low, min(high, slots) + 1, 1e-30)
    deltas = np.asarray([_fair_delta(row, step, target.epsilon) for _, row in rows])

    def met(rate: float) -> bool:
        if rate >= 1.0:
            return True
        sent = Binomial(slots, rate).window(1e-25)
        bits = np.arange(sent.start, sent.stop)
        # Fewer bits than the table knows count as no privacy; more are at least as good as its last.
        known = np.where(bits < low, 1.0, deltas[np.clip(bits - low, 0, len(deltas) - 1)])
        return float(np.dot(sent.pmf, known)) + sent.below + sent.above <= target.delta * (1.0 - 1e-9)

    noise = SparseBits(slots, min(_least(met, fair / slots), 1.0))
    while noise.rate < 1 and not target.met(noise):
        noise = SparseBits(slots, min(float(noise.rate) * (1.0 + RESOLUTION), 1.0))
    while not target.met(noise):
        slots += target.users
        noise = SparseBits(slots, 1)
    return SparseBits(slots, 1) if noise.rate == 1 else noise


def _fair_delta(row: np.ndarray, step: int, epsilon: float) -> float:
    """Σ max(0, P(k) - e^ε P(k - step)) for fair bits; by symmetry one direction is both."""
    moved = np.concatenate((np.zeros(step), row[:-step])) if len(row) > step else np.zeros_like(row)
    return float(np.maximum(row - math.exp(epsilon) * moved, 0.0).sum()) * (1.0 + 1e-10) + 1e-28


def _poisson(target: Target) -> Poisson:
    return Poisson(_least(lambda rate: target.met(Poisson(rate)), target.gaussian_variance))


def _skellam(target: Target) -> Skellam:
    return Skellam(_least(lambda sigma2: target.met(Skellam(sigma2)), target.gaussian_variance))


def _gaussian(target: Target) -> DiscreteGaussian:
    return DiscreteGaussian(_least(lambda sigma2: target.met(DiscreteGaussian(sigma2)), target.gaussian_variance))


def _polya(target: Target) -> Polya:
    """Over β, the least shape r that will do; of those the least error quantile, then the least mean."""

    def shape(beta: float) -> Polya:
        mean = target.gaussian_variance
        return Polya(_least(lambda r: target.met(Polya(r, beta)), mean * (1.0 - beta) / beta), beta)

    largest = math.exp(-0.05 * target.epsilon)
    # What counts is how far β is from one.
    candidates = [shape(1.0 - gap) for gap in np.geomspace(0.999, 1.0 - largest, 24).tolist()]
    return min(candidates, key=lambda noise: (noise.tail_quantile(target.failure), noise.mean))


_SEARCHES: dict[type[Noise], Callable[[Target], Noise]] = {
    Binomial: _binomial,
    SparseBits: _sparse,
    DiscreteLaplace: _laplace,
    Poisson: _poisson,
    Polya: _polya,
    Skellam: _skellam,
    DiscreteGaussian: _gaussian,
}
