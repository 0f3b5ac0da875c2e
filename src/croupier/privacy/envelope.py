"""The loss of a release of which it is only known that it is one of several: batches of other sizes, say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import ClassVar

from croupier.checks import InvalidParameter, Number
from croupier.noise import Noise
from croupier.noise.likelihoods import Pair, upper_envelope
from croupier.noise.window import SHALLOW
from croupier.privacy.loss import Loss
from croupier.privacy.released import Released


@dataclass(frozen=True)
class AnyOf(Released):
    """One of these releases, whichever is chosen, and by whatever was seen before.

    Its profile δ(ε) is the largest of theirs, so it is at least as revealing as each. Composed, it covers every
    sequence of them, one that is chosen on the way included.
    """

    releases: tuple[Released, ...]
    noise: Noise = field(init=False, repr=False, compare=False)
    tabulated: ClassVar[bool] = True

    def __post_init__(self) -> None:
        widest = max((release.noise for release in self.releases), key=lambda noise: noise.variance)
        object.__setattr__(self, "noise", widest)

    def pairs(self, floor: float = SHALLOW) -> tuple[Pair, ...]:
        return (self._envelope,)

    @cached_property
    def _envelope(self) -> Pair:
        return reduce(upper_envelope, (release.pair() for release in self.releases))

    @property
    def pure(self) -> Number:
        return max(release.pure for release in self.releases)

    def divergence(self, order: float) -> float:
        return max(release.divergence(order) for release in self.releases)

    @property
    def concentrated(self) -> float:
        return max(release.concentrated for release in self.releases)

    def __str__(self) -> str:
        return f"any of {len(self.releases)}, such as {self.releases[0]}"


def any_of(losses: Iterable[Loss]) -> Loss:
    """The loss of one release that may be any of these.

    >>> from croupier.noise import Binomial
    >>> from croupier.privacy import privacy_loss
    >>> few, many = privacy_loss(Binomial(300, 0.5)), privacy_loss(Binomial(400, 0.5))
    >>> 5 * any_of([few, many]) == 5 * few, (5 * any_of([few, many])).delta(1.5) >= (5 * few).delta(1.5)
    (False, True)
    """
    found = list(losses)
    releases = tuple(dict.fromkeys(loss.single for loss in found))
    if not found or None in releases:
        raise InvalidParameter("losses", [str(loss) for loss in found], "losses of one tabulated release each")
    distance = max(loss.distance for loss in found)
    return Loss(((releases[0] if len(releases) == 1 else AnyOf(releases), 1),), distance)  # type: ignore[arg-type]
