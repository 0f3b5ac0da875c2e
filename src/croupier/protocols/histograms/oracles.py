"""How often each label of a universe is held: what every private way of finding that out offers.

For histograms a tally is what a carrier and its noise are, together, for sums: a device turns its index into labelled
messages, the intermediary counts the messages of each label, and the analyzer reads the counts. A ballot is less: it
need only tell which label is held most often.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between, integer
from croupier.noise import Noise, Source
from croupier.noise.serial import noise_to_dict
from croupier.privacy import Loss
from croupier.protocols.sums.carriers import TamperedMessage
from croupier.search import least_passing_between

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

Progress = Callable[[float], None]

CHUNK = 2**22
"""Messages of a batch that are held in memory at once."""


@dataclass(frozen=True, eq=False)
class Reports:
    """What many devices send: all their labels, user after user, and how many each one sent."""

    labels: Integers
    lengths: Integers

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Integers]:
        ends = np.cumsum(self.lengths)
        for end, length in zip(ends.tolist(), self.lengths.tolist(), strict=True):
            yield self.labels[end - length : end]


class Ballot(ABC):
    """One way in which `users` users' labels, out of `size`, are gathered: frozen, complete, with its exact loss."""

    kind: ClassVar[str]
    trusted: ClassVar[str]
    needs_seats: ClassVar[bool] = False
    size: int
    users: int
    front_shares: int = 0
    """How many parties' noise the front of a service adds."""

    @property
    def honest(self) -> int:
        """How many users are counted on to add their noise."""
        return self.users

    @property
    def labels(self) -> int:
        """How many labels a message can carry."""
        return self.size

    @property
    def possible(self) -> tuple[int, int]:
        """Between which numbers every decoded count lies, where that is limited."""
        return -(2**62), 2**62

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """The privacy loss of one user's change from one item to another, against whoever sees the view."""

    @property
    @abstractmethod
    def messages_per_user(self) -> float:
        """On average."""

    @abstractmethod
    def report(self, indices: Integers, source: Source, seats: Integers) -> Reports:
        """What the devices with these indices send."""

    @abstractmethod
    def law(self, counts: Integers, source: Source) -> Integers:
        """A view with the law that users with these true counts give, drawn at once."""

    @abstractmethod
    def choose(self, view: Integers, source: Source | None) -> int:
        """The index that seems to be held most often."""

    @abstractmethod
    def winner_error(self, failure: float) -> float:
        """How far the true count of the chosen index can be below the largest, except with this probability."""

    def gather(self, indices: Integers, source: Source, progress: Progress = lambda part: None) -> Integers:
        """The view of a whole batch: every device reports, a few at a time, and the labels are counted.

        `progress` is told the part of the whole that was done since it was last told.
        """
        step = max(1, int(CHUNK // max(1.0, self._drawn_per_user)))
        seats = np.arange(len(indices))
        view = np.zeros(self.labels, dtype=np.int64)
        for first in range(0, len(indices), step):
            few = slice(first, first + step)
            view += self._counted(indices[few], source, seats[few])
            progress(len(indices[few]) / len(indices))
        return view

    @property
    def _drawn_per_user(self) -> float:
        """How much a batch's user takes in memory while it is counted, in messages."""
        return self.messages_per_user

    def _counted(self, indices: Integers, source: Source, seats: Integers) -> Integers:
        return np.bincount(self.report(indices, source, seats).labels, minlength=self.labels)

    def check_view(self, view: Integers, least: int, most: int | None = None) -> Integers:
        """A view as an array of counts, or a refusal."""
        counts = np.asarray(view)
        if counts.shape != (self.labels,) or not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
            raise TamperedMessage(f"a view must be {self.labels:,} whole numbers >= 0, one for each label")
        total = int(counts.sum())
        if total < least or (most is not None and total > most):
            due = f"{least:,}" if least == most else f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
            raise TamperedMessage(f"{total:,} messages came through where {due} were due")
        return counts.astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The ballot as plain data."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]
        return {"kind": self.kind} | {name: _plain(value) for name, value in own.items()}


class Tally(Ballot):
    """A ballot that estimates how often every label is held."""

    @property
    @abstractmethod
    def std(self) -> float:
        """The standard deviation of the count of an item that nobody holds."""

    @abstractmethod
    def decode(self, view: Integers, source: Source | None) -> Integers:
        """One whole number per item; a central tally draws its noise here."""

    @abstractmethod
    def estimate(self, decoded: Integers) -> Floats:
        """Counts from decoded numbers, unbiased except where a tally says otherwise."""

    @abstractmethod
    def bounds(self, decoded: Integers, failure: float) -> tuple[Floats, Floats]:
        """Bounds on every true count, that hold together except with probability `failure`; 0 asks for certainty."""

    @abstractmethod
    def radius(self, failure: float) -> float:
        """How far any count, cut to [0, users], is from the truth, in all items at once."""

    def choose(self, view: Integers, source: Source | None) -> int:
        return int(np.argmax(self.decode(view, source)))


def _plain(value: Any) -> Any:
    if isinstance(value, Noise):
        return noise_to_dict(value)
    return str(value) if isinstance(value, Fraction) else value


def check_batch(size: int, users: int, honest: int | None = None) -> None:
    """The numbers that every tally has."""
    integer("size", size, 2)
    integer("users", users, 1)
    if honest is not None:
        integer("honest", honest, 1, users)


def check_failure(failure: float, *, certain: bool = True) -> float:
    """A failure probability; 0 only where certainty may be asked for."""
    return float(between("failure", failure, 0, 1, "[)" if certain else "()"))


def least_error(exceeds: Callable[[int], float], failure: float, most: int) -> float:
    """The least whole error with exceeds(error) <= failure, which falls with the error; `most` is certain."""
    return float(least_passing_between(lambda error: exceeds(error) <= failure, -1, most))


def seat_of(tally: Ballot, seat: int | None) -> Integers:
    """The seat of one device, needed where devices share out the noise by number."""
    if seat is None:
        if tally.needs_seats:
            raise InvalidParameter("seat", None, f"the user's number in the batch, 0 to {tally.users - 1}")
        return np.zeros(1, dtype=np.int64)
    return np.asarray([integer("seat", seat, 0, tally.users - 1)])
