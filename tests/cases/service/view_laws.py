"""The exact law of what an analyzer holds of one batch, written down from the protocols' definitions alone.

The analyzer opens a batch's slots in a uniformly random order, so its view is how many there are of each kind. Their
total is fixed, so the dummies say nothing more. A law is an array: its entry at (a, b, ...) is the probability that a
messages of the first kind came, b of the second, and so on. Of the code that is checked nothing is used here but the
parameters of a mechanism. An adversary subtracts what he knows, so a view is a law of the parties he does not know.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import convolve
from scipy.special import gammaln

from croupier.noise import Binomial, Noise, Poisson, Polya, PolyaDifference, SparseBits
from croupier.protocols import HistogramMechanism, Mechanism

Law = NDArray[np.float64]


def counts(noise: Noise, parties: float, most: int) -> Law:
    """P(0), ..., P(most) of the noise of so many parties."""
    x = np.arange(most + 1)
    if isinstance(noise, Poisson):
        rate = float(noise.rate) * parties
        return np.asarray(np.exp(x * math.log(rate) - rate - gammaln(x + 1.0)))
    if isinstance(noise, Binomial):
        return _binomial(round(noise.trials * parties), float(noise.p))[: most + 1]
    assert isinstance(noise, Polya)
    beta = float(noise.beta) if noise.beta is not None else math.exp(-1.0 / float(noise.scale))  # type: ignore[arg-type]
    r = float(noise.r) * parties
    return np.asarray(
        np.exp(gammaln(x + r) - gammaln(x + 1.0) - gammaln(r) + x * math.log(beta) + r * math.log1p(-beta))
    )


def _binomial(trials: int, p: float) -> Law:
    x = np.arange(trials + 1)
    ways = gammaln(trials + 1.0) - gammaln(x + 1.0) - gammaln(trials - x + 1.0)
    if p == 1.0:
        return np.asarray(x == trials, dtype=np.float64)
    return np.asarray(np.exp(ways + x * math.log(p) + (trials - x) * math.log1p(-p)))


def bits(noise: SparseBits | Binomial, parties: int) -> Law:
    """Zeros and ones among the noise bits of so many parties; only the ones, where all bits are always sent."""
    if isinstance(noise, Binomial):
        return _binomial(noise.trials * parties, float(noise.p))
    slots = noise.slots * parties
    if noise.rate == 1:
        return _binomial(slots, 0.5)
    law = np.zeros((slots + 1, slots + 1))
    for sent, chance in enumerate(_binomial(slots, float(noise.rate))):
        law[np.arange(sent, -1, -1), np.arange(sent + 1)] = chance * _binomial(sent, 0.5)
    return law


def limited(law: Law, most: int) -> Law:
    """The law given that no more than `most` messages are sent in all."""
    sent = sum(np.indices(law.shape))
    kept = np.where(sent <= most, law, 0.0)[tuple(slice(0, most + 1) for _ in law.shape)]
    return np.asarray(kept / kept.sum())


def independent(laws: Sequence[Law]) -> Law:
    """The joint law of independent parts: one axis after another."""
    joint = laws[0]
    for law in laws[1:]:
        joint = np.multiply.outer(joint, law)
    return joint


def together(laws: Iterable[Law]) -> Law:
    """How many messages independent parties send together."""
    first, *others = laws
    for law in others:
        # Transforms err by some 1e-16 a cell, which only large arrays are worth.
        first = np.maximum(convolve(first, law, method="direct" if law.ndim == 1 else "fft"), 0.0)
    return first


def moved(law: Law, by: Sequence[int]) -> Law:
    """The law with so many certain messages of each kind more."""
    found = np.zeros(tuple(size + step for size, step in zip(law.shape, by, strict=True)))
    found[tuple(slice(step, None) for step in by)] = law
    return found


def alike(laws: Sequence[Law]) -> list[Law]:
    """The same laws as arrays of one shape."""
    size = tuple(max(sizes) for sizes in zip(*(law.shape for law in laws), strict=True))
    return [np.pad(law, [(0, n - m) for n, m in zip(size, law.shape, strict=True)]) for law in laws]


def excess(one: Law, other: Law, epsilon: float) -> float:
    """Σ max(0, P - e^ε Q): the least δ of this direction."""
    p, q = alike([one, other])
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def delta(laws: Iterable[Law], epsilon: float, cut: float = 0.0) -> float:
    """The least δ between any two of these laws, in both directions; what was cut off is charged."""
    return max(excess(p, q, epsilon) for p, q in permutations(laws, 2)) + (1.0 + math.exp(epsilon)) * cut


# What the parties of one batch send


def own_messages(mechanism: Mechanism, value: int) -> tuple[int, ...]:
    """What a value is sent as: messages of each kind. Values are levels 0, ..., g of a sum, or items."""
    if isinstance(mechanism, HistogramMechanism):
        held = tuple(int(item == value) for item in range(mechanism.size))
        return held if mechanism.oracle.side == "over" else tuple(1 - one for one in held)
    level = mechanism.precision - value if mechanism.side == "under" else value
    return (mechanism.precision - level, level) if zeros_tell(mechanism) else (level,)


def zeros_tell(mechanism: Mechanism) -> bool:
    """Whether how many bits are zero is not known from how many are one."""
    return isinstance(mechanism.share, SparseBits) and mechanism.share.rate != 1


def levels(mechanism: Mechanism) -> range:
    """The values that a user may have."""
    return range(mechanism.size if isinstance(mechanism, HistogramMechanism) else mechanism.precision + 1)


def noise_law(mechanism: Mechanism, parties: int, most: int | None) -> Law:
    """The noise messages of parties who draw them at once, no more than `most` where that is a limit."""
    if isinstance(mechanism, HistogramMechanism):
        assert most is not None
        one = counts(mechanism.oracle.share, parties, most)
        return limited(independent([one] * mechanism.size), most)
    share = mechanism.share
    if isinstance(share, SparseBits | Binomial):
        return bits(share, parties)
    assert most is not None
    return limited(counts(share, parties, most), most)


def user_law(mechanism: Mechanism, value: int) -> Law:
    """What one honest user sends."""
    return moved(noise_law(mechanism, 1, mechanism.shape.cap), own_messages(mechanism, value))


def front_law(mechanism: Mechanism) -> Law:
    """What the front adds: the noise of as many parties as are counted on."""
    return noise_law(mechanism, _counted_on(mechanism), mechanism.shape.front)


def among_fakes(mechanism: Mechanism, value: int) -> Law:
    """The view of a batch whose other users are the adversary's: the user, and the front's noise."""
    return together([front_law(mechanism), user_law(mechanism, value)])


def without_front(mechanism: Mechanism, value: int) -> Law:
    """The view when the front's noise is known, and only the users who are counted on are honest."""
    others = [user_law(mechanism, 0)] * (_counted_on(mechanism) - 1)
    return together([user_law(mechanism, value), *others])


def all_honest(mechanism: Mechanism, value: int) -> Law:
    """The view when everybody is."""
    others = [user_law(mechanism, 0)] * (mechanism.users - 1)
    return together([front_law(mechanism), user_law(mechanism, value), *others])


def turns_in_a_row(mechanism: Mechanism, values: Sequence[int]) -> Law:
    """The view of a batch in which one device took several turns, and all others are the adversary's."""
    return together([front_law(mechanism), *(user_law(mechanism, value) for value in values)])


def _counted_on(mechanism: Mechanism) -> int:
    return mechanism.oracle.counted_on if isinstance(mechanism, HistogramMechanism) else mechanism.honest


# Sums modulo m, and the pieces that they are split into


def difference(noise: PolyaDifference, parties: float, reach: int) -> Law:
    """P(-reach), ..., P(reach) of the difference of two Pólya counts."""
    most = reach + 40 * (1 + round(float(noise.scale) * (1 + float(noise.r) * parties)))
    one = counts(Polya(1, scale=noise.scale), float(noise.r) * parties, most)
    return np.asarray(np.correlate(one, one, "full"))[most - reach : most + reach + 1]


def residues_of(law: Law, start: int, modulus: int) -> Law:
    """A law on whole numbers from `start` on, modulo m."""
    found = np.zeros(modulus)
    np.add.at(found, (np.arange(len(law)) + start) % modulus, law)
    return found


class Mix:
    """The exact law of the shuffled pieces of many parties over Z_m, by its generating function.

    m^(pieces - 1) equally likely lists of pieces add up to x. By the roots of unity their generating function is
    f_x = Σ_t ω^(-tx)·s_t^pieces with s_t = Σ_a ω^(ta)·z_a / m, and that of independent parties is a product. It is
    evaluated on a grid of roots of unity, one axis a residue but the first, and read off by a Fourier transform.
    """

    def __init__(self, modulus: int, pieces: int, parties: int) -> None:
        self.modulus, self.pieces, self.parties = modulus, pieces, parties
        size = pieces * parties + 1
        roots = np.exp(-2j * np.pi * np.arange(size) / size)
        axes = [np.ones([1] * (modulus - 1))]
        axes += [roots.reshape([-1 if i == axis else 1 for i in range(modulus - 1)]) for axis in range(modulus - 1)]
        turn = np.exp(2j * np.pi / modulus)
        sums = [sum(turn ** (t * a) * axes[a] for a in range(modulus)) / modulus for t in range(modulus)]
        powers = [one**pieces for one in sums]
        self._split = [sum(turn ** (-t * x) * powers[t] for t in range(modulus)) for x in range(modulus)]

    def law(self, residues: Sequence[Law]) -> Law:
        """How often each residue but 0 is among the pieces of parties whose own residues have these laws."""
        assert len(residues) == self.parties
        found: NDArray[np.complex128] = np.ones([1] * (self.modulus - 1), dtype=np.complex128)
        # Equal parties are one power.
        for party, times in _tallied(residues):
            found = found * sum(chance * self._split[x] for x, chance in enumerate(party)) ** times
        return np.maximum(np.fft.ifftn(found).real, 0.0)

    def known(self, residues: Sequence[int]) -> Law:
        """The same for parties whose residues are known."""
        return self.law([np.eye(self.modulus)[x] for x in residues])


def _tallied(residues: Sequence[Law]) -> list[tuple[Law, int]]:
    keys = [law.tobytes() for law in residues]
    return [(np.frombuffer(key), keys.count(key)) for key in dict.fromkeys(keys)]


def distance(one: Law, other: Law) -> float:
    """The statistical distance of two laws."""
    return 0.5 * float(np.abs(one - other).sum())


def mixing_bound(modulus: int, pieces: int, parties: int) -> float:
    """2^-κ, where pieces = 2 + (2κ + log₂ m)/(log₂ h - log₂ e): what is claimed for so many pieces."""
    kappa = ((pieces - 2) * math.log2(parties / math.e) - math.log2(modulus)) / 2.0
    return 2.0**-kappa
