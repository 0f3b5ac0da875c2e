"""A list that stays short however much is put in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from croupier.checks import integer


class Thinned:
    """At most so many items of a growing list: evenly spread ones, and always the newest.

    >>> few = Thinned(4)
    >>> for number in range(10):
    ...     few.append(number)
    >>> list(few)
    [0, 4, 8, 9]
    """

    def __init__(self, most: int) -> None:
        self.most = integer("most", most, 2)
        self._kept: list[Any] = []
        self._newest: Any = None
        self._stride, self._count = 1, 0

    def append(self, item: Any) -> None:
        """Take one more in; when there are too many, every second goes."""
        if self._count % self._stride == 0:
            self._kept.append(item)
        self._newest, self._count = item, self._count + 1
        if len(self._kept) == self.most:
            self._kept, self._stride = self._kept[::2], 2 * self._stride

    def __iter__(self) -> Iterator[Any]:
        yield from self._kept
        if self._count and (self._count - 1) % self._stride:
            yield self._newest
