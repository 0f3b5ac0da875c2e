"""What a histogram counts: a public set of items, fixed before anyone reports.

It must be public. Every label that a user can send is one that noise could have sent too; a label that only a real
holder could have produced would name that holder, so a device refuses an item outside its universe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, integer, several
from croupier.protocols.sums.values import array_of

Integers = NDArray[np.int64]

LARGEST = 2**26
"""More buckets than this do not fit a table in memory."""


class ItemOutside(InvalidParameter):
    """An item that is not in the universe, and its place in the batch."""

    def __init__(self, item: object, place: int, allowed: str) -> None:
        super().__init__("item", item, allowed)
        self.place = place

    def __reduce__(self) -> tuple[type[ItemOutside], tuple[object, int, str]]:  # type: ignore[override]
        return type(self), (self.value, self.place, self.allowed)


@dataclass(frozen=True)
class Items:
    """A list of items, all different.

    >>> colours = Items(("red", "green", "blue"))
    >>> colours.indices(["blue", "red"]).tolist(), colours.name(1)
    ([2, 0], 'green')
    >>> colours.indices(["mauve"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    croupier.protocols.histograms.universe.ItemOutside: item = 'mauve' is not allowed: it must be ...
    """

    kind: ClassVar[str] = "items"
    counted: ClassVar[str] = "items"
    heading: ClassVar[str] = "item"
    explanation: ClassVar[tuple[str, ...]] = ()
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _texts("names", self.names))
        integer("size", len(self.names), 2, LARGEST)
        if len(self._places) < len(self.names):
            twice = next(name for place, name in enumerate(self.names) if self._places[name] != place)
            raise InvalidParameter("names", twice, "different from every other item of the universe")

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    @property
    def size(self) -> int:
        return len(self.names)

    def indices(self, items: Iterable[object]) -> Integers:
        """The places of these items, or a refusal that names the first one outside."""
        listed = several("items", items)
        places = self._places
        try:
            return np.fromiter((places[item] for item in listed), dtype=np.int64, count=len(listed))  # type: ignore[index]
        except (KeyError, TypeError):
            at = next(i for i, item in enumerate(listed) if not isinstance(item, str) or item not in places)
            raise ItemOutside(listed[at], at, f"one of the universe's {self.size:,} items") from None

    def name(self, index: int) -> str:
        return self.names[index]

    def some(self, most: int) -> Sequence[str]:
        """Items that users may hold, first ones first."""
        return self.names[:most]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "names": list(self.names)}


@dataclass(frozen=True)
class Buckets:
    """The 2^bits buckets of a public hash of any text; candidates read the buckets back.

    The bucket of an item is the leading `bits` bits of SHA-256(salt, a zero byte, item), both texts in UTF-8. Items
    that share a bucket are counted together, and `name` says so. Choose the salt after the items could be chosen, or
    someone may have picked items that collide.

    >>> buckets = Buckets(bits=16, salt="2024-05", candidates=("red", "green"))
    >>> buckets.name(buckets.bucket("red")), buckets.name(0)
    ('red', '(bucket 0: no candidate)')
    """

    kind: ClassVar[str] = "buckets"
    counted: ClassVar[str] = "buckets"
    heading: ClassVar[str] = "bucket of"
    bits: int
    salt: str = ""
    candidates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        integer("bits", self.bits, 1, LARGEST.bit_length() - 1)
        if not isinstance(self.salt, str) or "\0" in self.salt:
            raise InvalidParameter("salt", self.salt, "a text without a zero character")
        object.__setattr__(self, "candidates", tuple(dict.fromkeys(_texts("candidates", self.candidates))))

    @property
    def size(self) -> int:
        return int(2**self.bits)

    def bucket(self, item: str) -> int:
        """Where an item is counted."""
        digest = hashlib.sha256(f"{self.salt}\0{item}".encode()).digest()
        return int.from_bytes(digest[:4], "big") >> (32 - self.bits)

    def indices(self, items: Iterable[object]) -> Integers:
        """The buckets of these items: any text has one."""
        known: dict[object, int] = {}
        indices = []
        for place, item in enumerate(several("items", items)):
            if item not in known:
                if not isinstance(item, str):
                    raise ItemOutside(item, place, "a text")
                known[item] = self.bucket(item)
            indices.append(known[item])
        return np.asarray(indices, dtype=np.int64)

    @cached_property
    def members(self) -> dict[int, tuple[str, ...]]:
        """The candidates of every bucket that has any."""
        members: dict[int, tuple[str, ...]] = {}
        for item in self.candidates:
            at = self.bucket(item)
            members[at] = (*members.get(at, ()), item)
        return members

    @property
    def collisions(self) -> dict[int, tuple[str, ...]]:
        """Buckets with several candidates: their count is of all of them together."""
        return {bucket: items for bucket, items in self.members.items() if len(items) > 1}

    @property
    def explanation(self) -> tuple[str, ...]:
        """How a bucket's number becomes an item again, and where it cannot."""
        rule = f"the first {self.bits} bits of SHA-256(salt, zero byte, item), salt {self.salt!r}"
        lines = [f"An item's bucket is {rule}; it counts every item there, candidates or not."]
        if not self.candidates:
            lines.append("To read buckets back, name items to look for with --candidates FILE, one a line.")
        elif self.collisions:
            lines.append(f"{len(self.collisions):,} buckets hold several candidates, counted together (a + b).")
        return tuple(lines)

    def name(self, index: int) -> str:
        members = self.members.get(index, ())
        return " + ".join(members) if members else f"(bucket {index}: no candidate)"

    def some(self, most: int) -> Sequence[str]:
        """Items that users may hold: the candidates, or two of the many."""
        return (self.candidates or ("one", "another"))[:most]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "bits": self.bits, "salt": self.salt, "candidates": list(self.candidates)}


@dataclass(frozen=True)
class Numbers:
    """The whole numbers from 0 to size - 1, for programs whose items are indices already."""

    kind: ClassVar[str] = "numbers"
    counted: ClassVar[str] = "items"
    heading: ClassVar[str] = "item"
    explanation: ClassVar[tuple[str, ...]] = ()
    size: int

    def __post_init__(self) -> None:
        integer("size", self.size, 2, LARGEST)

    def indices(self, items: ArrayLike) -> Integers:
        array = array_of(items)
        if not np.issubdtype(array.dtype, np.integer):
            raise ItemOutside(items if array.ndim == 0 else array.dtype.name, 0, f"a whole number below {self.size:,}")
        outside = np.flatnonzero((array < 0) | (array >= self.size))
        if outside.size:
            at = int(outside[0])
            raise ItemOutside(int(array.flat[at]), at, f"a whole number in [0, {self.size - 1}]")
        return array.astype(np.int64)

    def name(self, index: int) -> str:
        return str(index)

    def some(self, most: int) -> Sequence[int]:
        """Items that users may hold, first ones first."""
        return range(min(self.size, most))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": self.size}


Universe = Items | Buckets | Numbers

UNIVERSES: dict[str, type[Any]] = {kind.kind: kind for kind in (Items, Buckets, Numbers)}


def universe_from_dict(data: dict[str, Any]) -> Universe:
    """Read a universe back."""
    body = dict(data)
    kind = body.pop("kind", None)
    if kind not in UNIVERSES:
        raise InvalidParameter("universe", kind, "one of " + ", ".join(UNIVERSES))
    try:
        universe: Universe = UNIVERSES[kind](**body)
    except TypeError as error:
        raise InvalidParameter("universe", kind, f"what {UNIVERSES[kind].__name__} holds ({error})") from None
    return universe


def _texts(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InvalidParameter(name, texts, "a sequence of texts")
    return tuple(texts)
