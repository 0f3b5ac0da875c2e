"""Coins of exact rational probability, Pólya's urn, and uniform numbers below a bound: tossed in arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from croupier.noise.source import Source, residues

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def chance(probability: Fraction, count: int, source: Source) -> Booleans:
    """Toss `count` coins of exactly this rational probability.

    >>> from croupier.noise import seeded
    >>> float(chance(Fraction(1, 3), 30_000, seeded(1)).mean().round(2))
    0.33
    """
    if 0 < probability < 1 and 256 % probability.denominator == 0:
        octets = source.words(-(-count // 8)).view(np.uint8)[:count]
        return np.asarray(octets < np.uint8(probability * 256))
    threshold, rest = divmod(probability.numerator << 64, probability.denominator)
    return chances(
        [threshold], np.zeros(count, dtype=np.int64), lambda _: Fraction(rest, probability.denominator), source
    )


def chances(thresholds: Sequence[int], which: Integers, rest: Callable[[int], Fraction], source: Source) -> Booleans:
    """Toss coin number which[i] for every i; coin j has probability (thresholds[j] + rest(j)) / 2^64, exactly.

    64 bits decide, and where they fall on the threshold itself a further coin, of the rest, does.
    """
    sure = np.asarray([threshold >> 64 for threshold in thresholds], dtype=np.bool_)
    limits = np.asarray([min(threshold, 2**64 - 1) for threshold in thresholds], dtype=np.uint64)[which]
    words = source.words(len(which))
    hit = np.asarray((words < limits) | sure[which])
    for tie in np.flatnonzero((words == limits) & ~hit):
        hit[tie] = chance(rest(int(which[tie])), 1, source)[0]
    return hit


def urn(labels: int, lengths: Integers, strength: Fraction, source: Source) -> Integers:
    """Labels below `labels`, user after user, by each user's own Pólya urn.

    A user's message number k keeps its own label with probability R/(R + k), and else repeats one of the k before it:
    given their number, negative binomial counts of total shape R have this law.
    """
    own = residues(labels, (int(lengths.sum()),), source)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    place = np.arange(len(own)) - starts
    a, b = strength.numerator, strength.denominator
    kept = [(a << 64) // (a + k * b) for k in range(int(lengths.max(initial=0)))]
    fresh = chances(kept, place, lambda k: Fraction((a << 64) % (a + k * b), a + k * b), source)
    repeats = np.flatnonzero(~fresh)
    origin = np.arange(len(own))
    origin[repeats] = starts[repeats] + _each_below(place[repeats], source)
    # A message may repeat one that repeats another: follow them all to their first.
    while not np.array_equal(further := origin[origin], origin):
        origin = further
    return own[origin]


def _each_below(bounds: Integers, source: Source) -> Integers:
    """Uniform whole numbers, each below its own bound, exactly (words past the last multiple are redrawn)."""
    ends = bounds.astype(np.uint64)
    words = source.words(len(ends))
    # 2^64 mod b, which does not fit a word, is (2^64 - b) mod b.
    excess = (~ends + np.uint64(1)) % ends
    while (late := np.flatnonzero(words < excess)).size:
        words[late] = source.words(late.size)
    return (words % ends).astype(np.int64)
