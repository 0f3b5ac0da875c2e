"""The shuffle itself: a uniformly random order from a cryptographic source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from croupier.noise import Source

T = TypeVar("T")


def random_order(count: int, source: Source) -> NDArray[np.int64]:
    """A uniformly random order of range(count), exactly: sorted by random words, drawn again while any two are equal.

    Given that the words differ, each order of them is equally likely.

    >>> from croupier.noise import seeded
    >>> sorted(random_order(5, seeded(1)).tolist())
    [0, 1, 2, 3, 4]
    """
    while True:
        words = source.words(count)
        order = np.argsort(words)
        if count < 2 or np.all(np.diff(words[order]) > 0):
            return order


def without_copies(messages: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The messages, one a row, with random bytes in the place of every second one that equals another.

    Whoever sends one ciphertext in two reports spoils his own, not the batch.
    """
    heads = np.zeros((len(messages), 8), dtype=np.uint8)
    heads[:, : min(8, messages.shape[1])] = messages[:, :8]
    words = heads.view(np.uint64).ravel()
    order = np.argsort(words, kind="stable")
    alike = np.flatnonzero(words[order][1:] == words[order][:-1])
    seen, copies = set(), []
    for index in sorted({int(order[place]) for first in alike for place in (first, first + 1)}):
        body = messages[index].tobytes()
        if body in seen:
            copies.append(index)
        seen.add(body)
    if copies:
        messages = messages.copy()
        noise = np.frombuffer(os.urandom(len(copies) * messages.shape[1]), dtype=np.uint8)
        messages[copies] = noise.reshape(len(copies), -1)
    return messages


def mixed(things: Sequence[T], source: Source) -> list[T]:
    """The same things in a uniformly random order."""
    return [things[i] for i in random_order(len(things), source).tolist()]
