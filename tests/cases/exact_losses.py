"""The laws written down from their definitions in 60 digits, and privacy by direct summation over them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from mpmath.ctx_mp import MPContext

from croupier.noise import (
    Binomial,
    BoundedLaplace,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
    Table,
)

# A context of its own: no other test sees its precision.
mp = MPContext()
mp.dps = 60

DEPTH = 160.0
"""Laws are listed down to probabilities of about e^-DEPTH, unless asked for more."""


def number(value):
    """Return an int, double or fraction without rounding it to a double."""
    return mp.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mp.mpf(value)


@dataclass(frozen=True, eq=False)
class Law:
    """Listed probabilities, and whether the support ends where the list does."""

    masses: dict[int, object]
    ends_below: bool = False
    ends_above: bool = False

    def paired(self, shift: int):
        """Yield (P(x), P(x - shift)); where the list merely stops, the point is left out: it weighs nothing."""
        first, last = min(self.masses), max(self.masses)
        for x, mass in self.masses.items():
            other = x - shift
            if other in self.masses:
                yield mass, self.masses[other]
            elif (other < first and self.ends_below) or (other > last and self.ends_above):
                yield mass, mp.mpf(0)


def _fall(mass: Callable[[int], object], start: int, depth: float) -> dict[int, object]:
    """List masses from `start` upwards until they vanish; they must only fall from there."""
    listed, least = {}, mp.exp(-depth)
    for x in itertools.count(start):
        listed[x] = mass(x)
        if listed[x] < least:
            break
    return listed


def binomial(trials: int, p) -> Law:
    p, q = number(p), 1 - number(p)
    masses = {k: mp.mpf(math.comb(trials, k)) * p**k * q ** (trials - k) for k in range(trials + 1)}
    return Law(masses, ends_below=True, ends_above=True)


def poisson(rate, depth: float = DEPTH) -> Law:
    rate = number(rate)
    base, top = mp.exp(-rate), int(rate)
    mass = lambda x: base * rate**x / math.factorial(x)  # noqa: E731
    return Law({x: mass(x) for x in range(top)} | _fall(mass, top, depth), ends_below=True)


def polya(r, beta, depth: float = DEPTH) -> Law:
    r, beta = number(r), number(beta)
    base, top = (1 - beta) ** r / mp.gamma(r), max(0, int((r - 1) * beta / (1 - beta))) + 1
    mass = lambda x: base * mp.gamma(x + r) / math.factorial(x) * beta**x  # noqa: E731
    return Law({x: mass(x) for x in range(top)} | _fall(mass, top, depth), ends_below=True)


def symmetric(mass: Callable[[int], object], depth: float) -> Law:
    side = _fall(mass, 0, depth)
    return Law({-x: value for x, value in side.items()} | side)


def skellam(sigma2, depth: float = DEPTH) -> Law:
    z = number(sigma2)
    base = mp.exp(-z)
    return symmetric(lambda x: base * mp.besseli(x, z), depth)


def gaussian(sigma2, depth: float = DEPTH) -> Law:
    weights = symmetric(lambda x: mp.exp(-mp.mpf(x * x) / (2 * number(sigma2))), depth).masses
    total = mp.fsum(weights.values())
    return Law({x: weight / total for x, weight in weights.items()})


def laplace(scale, depth: float = DEPTH) -> Law:
    beta = mp.exp(-1 / number(scale))
    base = (1 - beta) / (1 + beta)
    return symmetric(lambda x: base * beta**x, depth)


def _add(left: dict[int, object], right: dict[int, object]) -> dict[int, object]:
    """The law of a sum, by the definition of convolution."""
    total: dict[int, object] = {}
    for (x, a), (y, b) in itertools.product(left.items(), right.items()):
        total[x + y] = total.get(x + y, 0) + a * b
    return total


def _gaussian_sum(noise: DiscreteGaussianSum) -> Law:
    part = gaussian(noise.sigma2).masses
    total = part
    for _ in range(noise.count - 1):
        total = _add(total, part)
    return Law(total)


def _difference(noise: PolyaDifference, depth: float) -> Law:
    part = polya(noise.r, mp.exp(-1 / number(noise.scale)), depth).masses
    full = _add(part, {-x: mass for x, mass in part.items()})
    # Only half as far out is every pair of parts listed.
    return Law({x: mass for x, mass in full.items() if 2 * abs(x) <= len(part)})


@cache
def law(noise: Noise, depth: float = DEPTH) -> Law:
    """The law of a noise, never from the noise's own methods."""
    match noise:
        case Binomial():
            return binomial(noise.trials, noise.p)
        case Poisson():
            return poisson(noise.rate, depth)
        case Polya():
            return polya(noise.r, mp.exp(-1 / number(noise.scale)) if noise.beta is None else noise.beta, depth)
        case Skellam():
            return skellam(noise.sigma2, depth)
        case DiscreteGaussian():
            return gaussian(noise.sigma2, depth)
        case DiscreteLaplace():
            return laplace(noise.scale, depth)
        case DiscreteGaussianSum():
            return _gaussian_sum(noise)
        case PolyaDifference():
            return _difference(noise, depth)
        case BoundedLaplace():
            weights = {x: mp.exp(-abs(x) / number(noise.scale)) for x in range(-noise.bound, noise.bound + 1)}
            total = mp.fsum(weights.values())
            return Law({x: weight / total for x, weight in weights.items()}, ends_below=True, ends_above=True)
        case Table():
            return Law(dict(enumerate(map(number, noise.probabilities), noise.start)), ends_below=True, ends_above=True)
    raise AssertionError(noise)


def hockey_stick(own: Law, shift: int, epsilon):
    """Σ_x max(0, P(x) - e^ε P(x - shift))."""
    factor, nothing = mp.exp(number(epsilon)), mp.mpf(0)
    return mp.fsum(max(nothing, mass - factor * other) for mass, other in own.paired(shift))


@cache
def views(noise: Noise, depth: float = DEPTH) -> tuple[tuple[object, Law, int], ...]:
    """What is seen, as a mixture of laws: weight, law, and how much the noise moves when that law moves by one.

    Sparse bits show how many bits were sent; given that, one flipped bit moves the ones by one and the noise by two.
    """
    if not isinstance(noise, SparseBits):
        return ((mp.mpf(1), law(noise, depth), 1),)
    sent = {noise.slots: mp.mpf(1)} if noise.rate == 1 else binomial(noise.slots, noise.rate).masses
    return tuple((weight, binomial(bits, 0.5), 2) for bits, weight in sent.items())


def exact_delta(noise: Noise, shift: int, epsilon, depth: float = DEPTH):
    """δ(ε) of the noise against itself moved by `shift`."""
    seen = views(noise, depth)
    # Exact division: // would round a negative odd shift.
    return mp.fsum(weight * hockey_stick(own, int(Fraction(shift, unit)), epsilon) for weight, own, unit in seen)


def closed_form(trials: int, p: float, epsilon: float):
    """The spec's two tail sums for Binomial noise and shift 1, by 60-digit recurrence from both ends."""
    p, e = mp.mpf(p), mp.exp(mp.mpf(epsilon))
    odds = p / (1 - p)
    k1 = int(mp.ceil((trials + 1) * p / (p + e * (1 - p)))) - 1
    k2 = int(mp.floor(e * (trials + 1) * p / (1 - p + e * p))) + 1

    def tail(k: int, step: int):
        """P(X = k) and what lies beyond it in the direction of `step`."""
        if not 0 <= k <= trials:
            return mp.mpf(0), mp.mpf(0)
        first = mass = mp.binomial(trials, k) * p**k * (1 - p) ** (trials - k)
        beyond, least = mp.mpf(0), mass * mp.mpf(10) ** -50
        while mass > least and 0 <= k + step <= trials:
            mass *= odds * (trials - k) / (k + 1) if step > 0 else k / (odds * (trials - k + 1))
            k += step
            beyond += mass
        return first, beyond

    below, above = tail(k1, -1), tail(k2 - 1, 1)
    return max(first + beyond - e * beyond for first, beyond in (below, above))


def exact_divergence(own: Law, shift: int, order):
    """The Rényi divergence of a law from itself moved, for a support that is all integers."""
    order = number(order)
    return mp.log(mp.fsum(mass**order * other ** (1 - order) for mass, other in own.paired(shift))) / (order - 1)


Atoms = tuple[np.ndarray, np.ndarray, float]


def atoms(noise: Noise, shift: int) -> Atoms:
    """Losses log P/Q, their masses under P, and the mass where Q is zero, as doubles of the exact values."""
    losses, masses, alone = [], [], mp.mpf(0)
    for weight, own, unit in views(noise):
        for mass, other in own.paired(int(Fraction(shift, unit))):
            if other == 0:
                alone += weight * mass
            elif weight * mass > 1e-25:
                losses.append(float(mp.log(mass / other)))
                masses.append(float(weight * mass))
    return np.asarray(losses), np.asarray(masses), float(alone)


def joint(parts: Iterable[Atoms]) -> Atoms:
    """The same for independent releases seen together, by listing every combination of outcomes above 1e-20."""
    losses, masses, kept = np.zeros(1), np.ones(1), 1.0
    for own_losses, own_masses, alone in parts:
        combined = np.round(np.add.outer(losses, own_losses).ravel(), 12)
        weights = np.multiply.outer(masses, own_masses).ravel()
        held = weights > 1e-20
        # Outcomes of equal loss are one outcome.
        losses, places = np.unique(combined[held], return_inverse=True)
        masses, kept = np.bincount(places, weights[held]), kept * (1.0 - alone)
    return losses, masses, 1.0 - kept


def joint_delta(seen: Atoms, epsilon: float) -> float:
    """δ(ε) of what is seen together."""
    losses, masses, alone = seen
    above = losses > epsilon
    return float(np.dot(masses[above], -np.expm1(epsilon - losses[above]))) + alone


def root(delta_of: Callable[[float], float], delta: float, high: float = 64.0) -> float:
    """The least ε >= 0 at which a falling profile is within `delta`, to 1e-9."""
    low = 0.0
    if delta_of(low) <= delta:
        return low
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
    return high
