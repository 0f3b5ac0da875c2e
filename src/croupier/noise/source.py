"""Where randomness comes from: a cryptographic source for releases, a seeded one for simulations."""

from __future__ import annotations

import os
import threading
from typing import Protocol, runtime_checkable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from croupier.checks import integer

Words = NDArray[np.uint64]

KEY_WORDS = 2**20
"""A secure source takes a new key before it has handed out more words than this."""

_KEY, _COUNTER = 32, 16
_STATE = _KEY + _COUNTER


@runtime_checkable
class Source(Protocol):
    """A stream of independent uniform 64-bit words."""

    def words(self, count: int) -> Words:
        """Return the next `count` words."""
        ...

    def renew(self) -> None:
        """Forget what could tell the words handed out so far, where there is anything to hide."""
        ...


class SecureSource:
    """AES-256 in counter mode under a key from the operating system; a forked child takes a key of its own.

    `renew` takes a new key: fresh entropy, encrypted under the old stream. Who saw the state before does not know the
    entropy, and who knows the entropy does not know the stream. The old key is gone, so an image of the memory tells no
    noise of before, and two clones of a machine draw different noise. A key serves `KEY_WORDS` words at most, or one
    call that asks for more.
    """

    def __init__(self) -> None:
        self._start()
        os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._take(bytearray(os.urandom(_STATE)))

    def _take(self, state: bytearray) -> None:
        """Begin a stream, and wipe what it began from."""
        view = memoryview(state)
        self._stream = Cipher(algorithms.AES(view[:_KEY]), modes.CTR(view[_KEY:])).encryptor()
        self._drawn = 0
        state[:] = bytes(_STATE)

    def _renew(self) -> None:
        state = bytearray(_STATE)
        self._stream.update_into(os.urandom(_STATE), state)
        self._take(state)

    def renew(self) -> None:
        with self._lock:
            self._renew()

    def words(self, count: int) -> Words:
        stream = np.zeros(count, dtype=np.uint64)
        if count:
            with self._lock:
                if self._drawn and self._drawn + count > KEY_WORDS:
                    self._renew()
                self._stream.update_into(bytes(8 * count), stream.data.cast("B"))
                self._drawn += count
        return stream

    def __repr__(self) -> str:
        return "secure()"


class SeededSource:
    """A repeatable source for simulations. Never use it for a real release."""

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self.seed = seed
        self.generator = np.random.default_rng(seed)

    def words(self, count: int) -> Words:
        return self.generator.integers(0, 2**64, size=count, dtype=np.uint64)

    def renew(self) -> None:
        """Do nothing: whoever repeats a simulation gets the same words."""

    def __repr__(self) -> str:
        return f"seeded({self.seed})"


_shared = SecureSource()


def secure() -> SecureSource:
    """The process's cryptographic source: what a real report or release draws from.

    Examples
    --------
    >>> from croupier.noise import DiscreteLaplace
    >>> len(DiscreteLaplace(scale=20).sample(5, secure()))
    5
    """
    return _shared


def seeded(seed: int) -> SeededSource:
    """A repeatable source for simulations. Whoever knows the seed can take the noise away again.

    Parameters
    ----------
    seed : a whole number >= 0.

    Examples
    --------
    >>> seeded(7).words(1) == seeded(7).words(1)
    array([ True])
    """
    return SeededSource(integer("seed", seed, 0))


def bernoulli(probability: NDArray[np.float64], source: Source) -> NDArray[np.int64]:
    """Draw one bit per entry; a double has 53 bits, so 64 random ones decide it exactly.

    The threshold p·2^64 of a double p >= 2^-11 is a whole number; below that the floor errs by < 2^-64.
    """
    words = source.words(probability.size).reshape(probability.shape)
    # 2^64 itself does not fit a word, so certainty is handled apart.
    certain = probability >= 1.0
    threshold = np.where(certain, 0.0, probability * 2.0**64).astype(np.uint64)
    return ((words < threshold) | certain).astype(np.int64)


def fractions(out: NDArray[np.float64], source: Source) -> None:
    """Fill an array with uniform multiples of 2^-53 below one, each from a word's first 53 bits."""
    if isinstance(source, SeededSource):
        source.generator.random(out=out)  # the same numbers, made at once
    else:
        np.multiply(source.words(out.size).reshape(out.shape) >> np.uint64(11), 2.0**-53, out=out)


def permutation(size: int, source: Source) -> NDArray[np.int64]:
    """Return a uniformly random order of range(size), exactly (Fisher-Yates with rejection)."""
    order = np.arange(size, dtype=np.int64)
    for last in range(size - 1, 0, -1):
        other = below(last + 1, source)
        order[last], order[other] = order[other], order[last]
    return order


def below(bound: int, source: Source) -> int:
    """Return a uniform integer in [0, bound), exactly."""
    integer("bound", bound, 1, 2**64)
    excess = 2**64 % bound
    while True:
        word = int(source.words(1)[0])
        if word >= excess:
            return word % bound


def residues(bound: int, shape: tuple[int, ...], source: Source) -> NDArray[np.int64]:
    """Return uniform integers in [0, bound), bound <= 2^62, exactly (words past the last multiple are redrawn)."""
    size = int(np.prod(shape))
    excess = np.uint64(2**64 % bound)
    words = source.words(size)
    while (late := np.flatnonzero(words < excess)).size:
        words[late] = source.words(late.size)
    return (words % np.uint64(bound)).astype(np.int64).reshape(shape)
