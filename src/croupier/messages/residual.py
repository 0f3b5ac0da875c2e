"""What is left of a user's privacy when both servers collude, and see one report whole.

Then only the user's own share of the noise hides the value. For modular sums that is a finite local ε; where noise is
sent as messages, a share may hide nothing at all, and then this says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from croupier.messages.wire import Reporting
from croupier.noise import Noise, SparseBits
from croupier.protocols import HistogramMechanism
from croupier.protocols.histograms.labelled import LabelledMessages
from croupier.protocols.histograms.least_noise import move

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Residual:
    """The local guarantee of one report: ε (may be infinite), and how well the best guess at the value can do.

    `advantage` is the total variation distance between the reports of the lowest and the highest value: 0 means that
    a report tells nothing, 1 that it tells which of the two it was.
    """

    epsilon: float
    advantage: float

    @property
    def hides_nothing(self) -> bool:
        return math.isinf(self.epsilon)


@lru_cache(maxsize=1024)
def residual(mechanism: Reporting) -> Residual:
    """The local guarantee of one report of this mechanism.

    >>> from croupier.protocols import shuffled_bits, shuffled_laplace
    >>> local = residual(shuffled_laplace(epsilon=1.0, binary=True).plan(users=1000))
    >>> round(local.epsilon, 1), round(local.advantage, 3)
    (7.9, 0.999)
    >>> residual(shuffled_bits(epsilon=1.0).plan(users=1000)).epsilon
    inf
    """
    if isinstance(mechanism, HistogramMechanism):
        # A report without noise shows its item, and with few users' noise in it nearly every report is one.
        assert isinstance(mechanism.ballot, LabelledMessages)
        return Residual(math.inf, min(1.0, move(mechanism.ballot.share).delta(0.0)))
    shift = mechanism.precision * mechanism.carrier.weight(mechanism.share)
    if isinstance(mechanism.share, SparseBits):
        return _sparse(mechanism.share, mechanism.precision, mechanism.dimension)
    return _whole(mechanism.share, shift, mechanism.dimension)


def _whole(noise: Noise, shift: int, dimension: int) -> Residual:
    """A number plus noise: the largest log ratio of P(x) to P(x - shift), over the table of the law."""
    window = noise.window()
    law = window.pmf
    if dimension > 1:
        # Any coordinate may move by the whole range: coordinates add up, and this is a bound, not the exact value.
        one = _whole(noise, shift, 1)
        return Residual(dimension * one.epsilon, min(1.0, dimension * one.advantage))
    low, high = noise.support
    if low is not None or high is not None or shift >= len(law):
        epsilon = math.inf
    else:
        # Beyond the table the ratio of these families only comes closer to that of their exponential tail.
        inside = np.abs(np.log(law[shift:]) - np.log(law[:-shift]))
        epsilon = float(inside.max()) + 2.0 * window.error
    padded = np.concatenate((law, np.zeros(shift)))
    moved = np.concatenate((np.zeros(shift), law))
    return Residual(epsilon, min(1.0, float(np.abs(padded - moved).sum()) / 2.0))


def _sparse(noise: SparseBits, levels: int, dimension: int) -> Residual:
    """Unary bits among fair ones: whoever sees the report counts the fair ones, and sometimes there are too few."""
    rate, slots = float(noise.rate), noise.slots
    advantage = 0.0
    for sent in range(slots + 1):
        chance = math.comb(slots, sent) * rate**sent * (1.0 - rate) ** (slots - sent)
        fair = np.array([math.comb(sent, k) for k in range(sent + 1)], dtype=float) / 2.0**sent
        padded = np.concatenate((fair, np.zeros(levels)))
        moved = np.concatenate((np.zeros(levels), fair))
        advantage += chance * float(np.abs(padded - moved).sum()) / 2.0
    return Residual(math.inf, min(1.0, dimension * advantage))
