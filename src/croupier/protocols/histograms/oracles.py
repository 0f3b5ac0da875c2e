"""Frequency oracles: how often each label of a universe is held, in every private way of finding that out.

A frequency oracle is for histograms what a carrier and its noise are, together, for sums: a device turns its index into
labelled messages, the intermediary counts the messages of each label, and the analyzer reads the counts. A selector is
less: it need only tell which label is held most often. Each answers for all that is said through it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import CroupierError, InvalidParameter, between, integer, several
from croupier.noise import Source
from croupier.noise.serial import noise_to_dict
from croupier.privacy import Guarantee, Loss
from croupier.protocols.mechanism import Residual
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.protocols.sums.values import array_of
from croupier.search import least_passing_between, least_passing_ratio
from croupier.validity import Prio3
from croupier.validity.shares import Ring

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


class Selector(ABC):
    """One way in which `users` users' labels, out of `size`, are gathered: frozen, complete, with its exact loss."""

    kind: ClassVar[str]
    trust: ClassVar[str]
    """Who must be trusted; see `croupier.protocols.mechanism.TRUSTS`."""
    tells_counts: ClassVar[bool] = False
    """Whether it estimates how often every label is held."""
    lists_reports: ClassVar[bool] = False
    """Whether the view shows every user's own report."""
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
    def affordable(self) -> bool:
        """Whether its privacy is computed within a device's time and memory, whoever named its parameters."""
        return True

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

    @property
    def unanimous_failure(self) -> float:
        """The chance that an item which all users hold does not win. Here a bound; an oracle may know it better."""
        most = 1.0 - 2.0**-20
        if self.winner_error(most) >= self.users:
            return 1.0
        return least_passing_ratio(lambda p: self.winner_error(p) < self.users, 1e-15, most, resolution=1e-3)

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

    @property
    def message_bits(self) -> int:
        """A message is a label and nothing else."""
        return max(1, math.ceil(math.log2(self.labels)))

    @property
    def message_bytes(self) -> int:
        return -(-self.message_bits // 8)

    def counted(self, labels: Integers) -> Integers:
        """How many messages carry each label."""
        if ((labels < 0) | (labels >= self.labels)).any():
            raise TamperedMessage(f"a label must lie in [0, {self.labels})")
        return np.bincount(labels, minlength=self.labels)

    def pack(self, labels: Integers) -> tuple[bytes, ...]:
        """Labels as messages: big-endian, in as many bytes as the largest one needs."""
        self.counted(labels)
        return tuple(label.to_bytes(self.message_bytes, "big") for label in labels.tolist())

    def unpack(self, messages: Sequence[bytes]) -> Integers:
        """The view that a whole batch's messages make; anything malformed is refused."""
        if any(len(message) != self.message_bytes for message in messages):
            raise TamperedMessage(f"every message has {self.message_bytes} bytes")
        labels = [int.from_bytes(message, "big") for message in messages]
        return self.counted(np.asarray(labels, dtype=np.int64))

    def shape(self, claim: Guarantee) -> Shape:
        """What every report looks like to a front."""
        raise self._not_carried()

    @property
    def ring(self) -> Ring | None:
        """The numbers that reports are split into shares over; None where they are not carried in shares."""
        return None

    @property
    def prio3(self) -> Prio3 | None:
        """How a report proves that it is of one item; None where it cannot."""
        return None

    def encoding(self) -> dict[str, Any]:
        """What a report rests on beside the universe, whatever batch it falls into."""
        body = self.to_dict()
        return {key: body.get(key) for key in ("kind", "side")}

    def secret(self, index: int) -> list[int]:
        """What the device with this index splits into shares."""
        raise self._not_shared()

    def server_noise(self, source: Source) -> list[int]:
        """What one of two servers adds to its sum: a whole noise."""
        raise self._not_shared()

    def counts(self, total: Sequence[int]) -> Integers:
        """One number per item, from the sum of both servers' sums."""
        raise self._not_shared()

    def _not_shared(self) -> CroupierError:
        return CroupierError(f"a histogram by {self.kind} is not carried in shares between two servers")

    def front_labels(self, source: Source) -> Integers:
        """The labels that the front adds to a batch: the noise of `front_shares` parties who hold nothing."""
        raise self._not_carried()

    def repaired(self, shape: Shape, slots: Sequence[bytes | None]) -> tuple[Integers, int]:
        """One number per item, where what no honest device sends counts nowhere, and how much of that there was."""
        raise self._not_carried()

    def _not_carried(self) -> CroupierError:
        return CroupierError(f"a histogram by {self.kind} does not go through this front")

    @property
    @abstractmethod
    def residual(self) -> Residual:
        """What one report alone tells of its item."""

    def telling(self, views: Integers, others: Integers, source: Source) -> Integers:
        """For the audit: one number a view that tells most about a user who holds item 0 or 1, as the others do.

        Where a shuffler counts labels, by how much one item's messages outnumber the other's.
        """
        return np.asarray(views[:, 0] - views[:, 1])

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
        """The oracle as plain data."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]
        return {"kind": self.kind} | {name: PLAIN.get(name, lambda value: value)(own[name]) for name in own}


class FrequencyOracle(Selector):
    """A selector that estimates how often every label is held."""

    tells_counts: ClassVar[bool] = True

    def bounds_hold(self, share: str) -> str:
        """In words, which bounds cannot fail, and that the others hold with probability `share`."""
        return f"they hold for all items at once with probability {share}"

    @property
    @abstractmethod
    def std(self) -> float:
        """The standard deviation of the count of an item that nobody holds."""

    @abstractmethod
    def decode(self, view: Integers, source: Source | None) -> Integers:
        """One whole number per item; a central oracle draws its noise here."""

    @abstractmethod
    def estimate(self, decoded: Integers) -> Floats:
        """Counts from decoded numbers, unbiased except where an oracle says otherwise."""

    @abstractmethod
    def bounds(self, decoded: Integers, failure: float) -> tuple[Floats, Floats]:
        """Bounds on every true count, that hold together except with probability `failure`; 0 asks for certainty."""

    @abstractmethod
    def radius(self, failure: float) -> float:
        """How far any count, cut to [0, users], is from the truth, in all items at once."""

    def choose(self, view: Integers, source: Source | None) -> int:
        return int(np.argmax(self.decode(view, source)))


PLAIN: dict[str, Callable[[Any], Any]] = {
    "noise": noise_to_dict,
    "share": noise_to_dict,
    "keep": str,
    "heads": str,
    "scale": str,
}
"""How parameters that are no plain data are written, by name: noise by its family, fractions as text."""


def gathered(reports: Reports | Iterable[ArrayLike]) -> Reports:
    """Reports of many users, each a list of labels, in one."""
    if isinstance(reports, Reports):
        return reports
    listed = [array_of(report) for report in several("reports", reports)]
    if any(report.ndim != 1 or not np.issubdtype(report.dtype, np.integer) for report in listed):
        raise TamperedMessage("a report is a list of whole labels")
    labels = np.concatenate(listed) if listed else np.empty(0, dtype=np.int64)
    return Reports(labels, np.asarray([len(report) for report in listed], dtype=np.int64))


def check_batch(size: int, users: int, honest: int | None = None) -> None:
    """The numbers that every oracle has."""
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


def beaten(rival: Floats, rivals: int) -> Floats:
    """1 - (1 - p)^rivals: the chance that any of so many independent rivals does what each does with probability p."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(rivals * np.log1p(-np.clip(rival, 0.0, 1.0))))


def seat_of(oracle: Selector, seat: int | None) -> Integers:
    """The seat of one device, needed where devices share out the noise by number."""
    if seat is None:
        if oracle.needs_seats:
            raise InvalidParameter("seat", None, f"the user's number in the batch, 0 to {oracle.users - 1}")
        return np.zeros(1, dtype=np.int64)
    return np.asarray([integer("seat", seat, 0, oracle.users - 1)])
