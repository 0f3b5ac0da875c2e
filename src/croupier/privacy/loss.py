"""Privacy losses as values: exact for one release, added and multiplied to compose."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from croupier.checks import InvalidParameter, Number, between, finite, integer, one_of, positive
from croupier.noise import DiscreteLaplace, Noise
from croupier.noise.base import rounded_up
from croupier.noise.window import DEEP
from croupier.privacy.composition import Composed, compose
from croupier.privacy.guarantee import ORDERS, renyi_to_approximate
from croupier.privacy.released import DIRECTIONS, NoisyNumber, NoisyVector, Released
from croupier.search import bracket, just_above_minimiser


@dataclass(frozen=True, eq=False, repr=False)
class Loss:
    """The privacy loss of releases about the same user; `+`, `*` and `Loss.total` compose.

    Parameters
    ----------
    releases : what is released, each with how often; `privacy_loss` makes a loss of one.
    distance : bounds the statistical distance between each real view and the ideal one, added over releases: a carrier
        that is only statistically secure costs (1 + e^ε) times that in δ.

    Examples
    --------
    >>> from croupier.noise import DiscreteLaplace
    >>> from croupier.privacy import privacy_loss
    >>> once = privacy_loss(DiscreteLaplace(scale=2), sensitivity=1)
    >>> float(once.pure), float((once + once).pure), 3 * once == once + once + once
    (0.5, 1.0, True)
    >>> round((3 * once).delta(1.2), 3), (3 * once).delta(1.5)
    (0.063, 0.0)
    """

    releases: tuple[tuple[Released, int], ...]
    distance: Number = 0

    def __add__(self, other: Loss) -> Loss:
        return Loss.total((self, other)) if isinstance(other, Loss) else NotImplemented

    @staticmethod
    def total(losses: Iterable[Loss]) -> Loss:
        """Compose many at once."""
        counts: Counter[Released] = Counter()
        distance = Fraction(0)
        for loss in losses:
            distance += Fraction(loss.distance)
            for release, count in loss.releases:
                counts[release] += count
        if not counts:
            raise InvalidParameter("losses", [], "at least one loss")
        return Loss(tuple(counts.items()), distance)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loss) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        """Equal whatever the order of composing."""
        return (frozenset(self.releases), self.distance)

    def __mul__(self, count: int) -> Loss:
        count = integer("count", count, 1)
        releases = tuple((release, count * times) for release, times in self.releases)
        return Loss(releases, count * Fraction(self.distance))

    __rmul__ = __mul__

    @property
    def single(self) -> Released | None:
        """The release, when there is only one and its loss is known exactly."""
        (first, count), *others = self.releases
        return first if count == 1 and not others and first.tabulated else None

    @property
    def _tabulated(self) -> bool:
        return all(release.tabulated for release, _ in self.releases)

    @cached_property
    def dominating(self) -> Loss:
        """A loss at least as large whose composition does not depend on what exactly was released.

        Where one release is purely private that is randomized response with its ε, of which everything as private is a
        function; elsewhere the loss itself.
        """
        release = self.single
        if release is None or release.pure == math.inf or not release.pure:
            return self
        response = NoisyNumber(DiscreteLaplace(1 / Fraction(release.pure)), 1)
        return replace(self, releases=((response, 1),))

    @property
    def pure(self) -> float:
        """The ε of pure DP, rounded up; infinite where no finite ε holds with δ = 0."""
        return math.inf if self.distance else self._ideal_pure

    @cached_property
    def _ideal_pure(self) -> float:
        total = Fraction(0)
        for release, count in self.releases:
            pure = release.pure
            if pure == math.inf:
                return math.inf
            total += count * Fraction(pure)
        return rounded_up(total)

    def delta(self, epsilon: float) -> float:
        """The least δ for which (ε, δ)-DP is proven: exact for one release, rounded up.

        >>> from croupier.noise import Binomial
        >>> privacy_loss(Binomial(268, 0.5)).delta(0.5) <= 1e-6 < privacy_loss(Binomial(267, 0.5)).delta(0.5)
        True
        """
        epsilon = float(finite("epsilon", epsilon))
        if epsilon < 0:
            raise InvalidParameter("epsilon", epsilon, "a finite number >= 0")
        if not self.distance:
            return self._ideal_delta(epsilon)
        # δ at a smaller ε is a δ here too; past the knee the carrier's own charge would only grow.
        return min(1.0, self._charged(epsilon), self._charged(min(epsilon, self._knee)))

    @cached_property
    def ideal(self) -> Loss:
        """The same releases over perfect carriers."""
        return replace(self, distance=0)

    def _charged(self, epsilon: float) -> float:
        return self.ideal.delta(epsilon) + carrier_delta(epsilon, self.distance)

    @cached_property
    def _knee(self) -> float:
        """Where the noise's own δ plus the carrier's is least: as a function of e^ε the sum is convex."""
        most = self.ideal.epsilon(min(1e-6 * float(self.distance), 0.5))
        return just_above_minimiser(self._charged, 0.0, most, resolution=1e-7)

    def _ideal_delta(self, epsilon: float) -> float:
        if epsilon >= self._ideal_pure:
            return 0.0
        release = self.single
        if release is None:
            return self._composed.delta(epsilon) if self._tabulated else self._renyi_delta(epsilon)
        pairs = release.pairs()
        shallow = max([pair.delta(epsilon) for pair in pairs])
        # The shallow table charges what it left out; where that matters, look deeper (unless the law is vast).
        charged = max([pair.cut for pair in pairs])
        if charged < 1e-6 * shallow or release.noise.variance > 1e10:
            return shallow
        return min(shallow, max(pair.delta(epsilon) for pair in release.pairs(DEEP)))

    def epsilon(self, delta: float) -> float:
        """The least ε for which (ε, δ)-DP is proven, rounded up; infinite where there is none.

        >>> from croupier.noise import DiscreteLaplace
        >>> loss = privacy_loss(DiscreteLaplace(scale=20), sensitivity=1)
        >>> round(loss.epsilon(0), 6), round((10 * loss).epsilon(0), 6)
        (0.05, 0.5)
        """
        delta = float(between("delta", delta, 0, 1, "[)"))
        if delta not in self._known:
            self._known[delta] = self._epsilon(delta)
        return self._known[delta]

    @cached_property
    def _known(self) -> dict[float, float]:
        """Every ε that was found, by its δ: a certificate, a table of prices and their bounds ask for the same one."""
        return {}

    def _epsilon(self, delta: float) -> float:
        if delta == 0.0:
            return self.pure
        if self.distance:
            return self._epsilon_over_carrier(delta)
        if self.single is None:
            composed = self._composed.epsilon(delta) if self._tabulated else renyi_to_approximate(self.rdp, delta)[0]
            return min(composed, self.pure)
        return _least(self.delta, delta, self._ideal_pure)

    def _epsilon_over_carrier(self, delta: float) -> float:
        """The least ε at which the noise meets what the carrier's own charge leaves of δ, from below."""
        epsilon = 0.0
        while (spare := delta - carrier_delta(epsilon, self.distance)) > 0.0:
            needed = self.ideal.epsilon(spare)
            if needed <= epsilon:
                return epsilon
            epsilon = needed * (1.0 + 1e-9) if math.isfinite(needed) else math.inf
        return math.inf

    def bounds(self, delta: float) -> tuple[float, float]:
        """Both sides of the numerical error at δ: the true ε lies between; the upper side is `epsilon`."""
        upper = self.epsilon(delta)
        release = self.single
        if not self._tabulated or (release is None and delta == 0.0):
            return 0.0, upper
        if release is not None:
            return _least(lambda e: max(p.least_delta(e) for p in release.pairs()), delta, upper, up=False), upper
        # A change that always rises, or always falls, is one that can happen: its loss is a lower bound.
        lower = max(loss._composed.least_epsilon(delta) for loss in self._one_way())
        return min(lower, upper), upper

    def _one_way(self) -> tuple[Loss, ...]:
        if all(release.noise.balanced or release.towards("up") == release for release, _ in self.releases):
            return (self,)
        return tuple(
            replace(self, releases=tuple((release.towards(way), count) for release, count in self.releases))
            for way in ("up", "down")
        )

    @cached_property
    def _composed(self) -> Composed:
        return compose(tuple((release.pair(), count) for release, count in self.releases))

    def _renyi_delta(self, epsilon: float) -> float:
        """δ at ε from the Rényi curve: [CZ23] Lemma 10 solved for δ."""
        exponents = (
            (order - 1.0) * (divergence - epsilon + math.log1p(-1.0 / order)) - math.log(order)
            for order, divergence in zip(ORDERS, self._renyi_curve, strict=True)
        )
        return math.exp(min(min(exponents), 0.0))

    @cached_property
    def _renyi_curve(self) -> tuple[float, ...]:
        """The divergence at every order that a conversion looks at; many ε ask for it."""
        return tuple(self.ideal.rdp(order) for order in ORDERS)

    def rdp(self, order: float) -> float:
        """An upper bound on the Rényi divergence of an order above 1; infinite for noise of bounded support.

        >>> from croupier.noise import Binomial, Skellam
        >>> privacy_loss(Binomial(1000, 0.5)).rdp(2)
        inf
        >>> round(privacy_loss(Skellam(400)).rdp(2), 8)
        0.00249999
        """
        order = float(finite("order", order))
        if order <= 1:
            raise InvalidParameter("order", order, "a number > 1")
        if self.distance:
            return math.inf
        return math.fsum(count * release.divergence(order) for release, count in self.releases)

    @property
    def zcdp(self) -> float:
        """An upper bound on ρ of zero-concentrated DP; infinite where the Rényi divergence is."""
        if self.distance:
            return math.inf
        return math.fsum(count * release.concentrated for release, count in self.releases)

    def __repr__(self) -> str:
        distance = f"; distance {float(self.distance):.3g}" if self.distance else ""
        return f"Loss({self}{distance})"

    def __str__(self) -> str:
        return "; ".join(f"{count} × {release}" for release, count in self.releases)


def privacy_loss(noise: Noise, sensitivity: int = 1, *, direction: str = "both") -> Loss:
    """The exact loss of releasing a whole number plus `noise`, when one user can move that number.

    Parameters
    ----------
    noise : a law on the whole numbers.
    sensitivity : by how much one user moves the number at most.
    direction : "both"; or "up" or "down" where the change is known to be a rise or a fall: a histogram's user leaves
        one bucket and enters another.

    Examples
    --------
    >>> from croupier.noise import DiscreteLaplace
    >>> loss = privacy_loss(DiscreteLaplace(scale=20), sensitivity=10)
    >>> round(loss.pure, 6)
    0.5
    >>> 2 * loss == loss + loss
    True
    """
    if not isinstance(noise, Noise):
        raise InvalidParameter("noise", noise, "a noise of croupier.noise")
    one_of("direction", direction, tuple(DIRECTIONS))
    return Loss(((NoisyNumber(noise, noise.check_sensitivity(sensitivity), direction), 1),))


def carrier_delta(epsilon: float, distance: Number) -> float:
    """(1 + e^ε) times the distance between the real view and the ideal one: what that costs in δ."""
    if epsilon > 700.0:
        return math.inf
    return (1.0 + math.exp(epsilon)) * float(distance) * (1.0 + 1e-12)


def vector_loss(noise: Noise, *, l2: float, l1: float) -> Loss:
    """The loss of releasing a vector of whole numbers plus noise in each; Skellam and Laplace noise have bounds."""
    release = NoisyVector(noise, float(positive("l2", l2)), float(positive("l1", l1)))
    release.divergence(2.0)  # a noise that has no bound for vectors is refused here
    return Loss(((release, 1),))


def _least(delta_of: Callable[[float], float], delta: float, pure: float, *, up: bool = True) -> float:
    """The least ε with delta_of(ε) <= delta, to one part in 10^9, on the asked side."""
    if delta_of(0.0) <= delta:
        return 0.0
    high = pure if math.isfinite(pure) else 2.0**-10
    while delta_of(high) > delta:
        high *= 2.0
        if high > 1e6 or math.isfinite(pure):
            return math.inf
    below, above = bracket(lambda epsilon: delta_of(epsilon) <= delta, 0.0, high, relative=1e-9)
    return above if up else below
