"""What every carrier answers for: all that is said through it, from a device's report to the number that is read.

A carrier is what an intermediary does with a batch. It turns a user's encoded value and noise into a report, a batch of
reports into a view, and a view back into one whole number: the encoded sum plus all noise. It knows its messages as
bytes, how they are padded, which of them an honest device sends, and what one report tells by itself.

Encoded values are arrays with any leading axes, then the users, then `plan.coordinates` axes (one for vectors, none for
numbers), so one line serves a client, a batch and a million simulated batches. These are the ideal functionalities: the
view holds what a perfect intermediary would let through, and nothing else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError
from croupier.noise import Noise, Source
from croupier.noise.base import rounded_up
from croupier.noise.window import TooWide
from croupier.privacy import Loss
from croupier.protocols.mechanism import Residual
from croupier.protocols.padding import Shape
from croupier.validity import Prio3
from croupier.validity.shares import Ring

if TYPE_CHECKING:
    from croupier.protocols.sums.planned import PlannedSum

Integers = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]


class Carrier(ABC):
    """One way from many reports to one number; `plan` is the mechanism that uses it."""

    kind: ClassVar[str]
    """Its name in a serialized mechanism."""
    trust: ClassVar[str]
    """Who must be trusted when the batch's users hide each other."""
    report_axes: ClassVar[int] = 0
    """How many axes one user's report has, beside those of a vector."""
    lists_reports: ClassVar[bool] = False
    """Whether the view shows every user's own report."""
    takes_front_noise: ClassVar[bool] = False
    """Whether a front can add noise of its own to a batch."""

    @property
    def ring(self) -> Ring | None:
        """The numbers that reports are split into shares over; None where they are not carried in shares."""
        return None

    def prio3(self, plan: PlannedSum) -> Prio3 | None:
        """How a report proves that it is in range; None where it cannot."""
        return None

    @property
    def distance(self) -> float:
        """How far, in statistical distance, a view can be from a function of the noisy sum alone."""
        return 0.0

    @abstractmethod
    def check_plan(self, plan: PlannedSum) -> None:
        """Refuse a mechanism that this carrier cannot carry, or would expose."""

    def secured(self, plan: PlannedSum, security: int) -> Carrier:
        """The same with a distance of at most 2^-security."""
        return self

    def recipe(self, plan: PlannedSum) -> dict[str, Any]:
        """What of this carrier all batches of an experiment have in common, where that matters to a report."""
        return {}

    def weight(self, plan: PlannedSum) -> int:
        """How far one encoded unit moves the decoded number."""
        return 1

    def loss(self, plan: PlannedSum) -> Loss:
        """The loss of one user's change in the number that comes through."""
        return plan.values.loss(plan.guard, plan.precision)

    @abstractmethod
    def report(self, plan: PlannedSum, encoded: Integers, source: Source) -> Integers:
        """What users with these encoded values send, each with noise of their own (none where the analyzer adds it)."""

    @abstractmethod
    def check_report(self, plan: PlannedSum, report: Integers) -> None:
        """Refuse reports that no honest device sends."""

    def message_count(self, plan: PlannedSum, report: Integers) -> int:
        """How many messages a report is."""
        return report.size // plan.dimension

    @abstractmethod
    def collect(self, plan: PlannedSum, reports: Integers) -> Integers:
        """What comes through of a whole batch."""

    @abstractmethod
    def decode(self, plan: PlannedSum, view: Integers) -> Integers:
        """The encoded sum plus all noise; a view that no honest batch gives is refused."""

    def wrapped(self, total: Integers) -> Integers:
        """What is decoded where the noisy sum is `total`."""
        return total

    def wrap_probability(self, noise: Noise) -> float:
        """A bound on the chance that something else than the noisy sum is decoded."""
        return 0.0

    def folded(self, noise: Noise, precision: int) -> float:
        """How likely noise lies so far out that, carried, it looks like some nearer one: it hides more than it says."""
        return 0.0

    @abstractmethod
    def messages_per_user(self, plan: PlannedSum) -> float:
        """On average."""

    @abstractmethod
    def bits_per_message(self, plan: PlannedSum) -> int:
        """How much a message says."""

    @abstractmethod
    def message_bytes(self, plan: PlannedSum) -> int:
        """The length of every message."""

    @abstractmethod
    def pack(self, plan: PlannedSum, report: Integers) -> tuple[bytes, ...]:
        """Reports, or the front's own noise, as messages, in no particular order."""

    @abstractmethod
    def unpack(self, plan: PlannedSum, messages: Sequence[bytes]) -> Integers:
        """The view that a batch's messages, all of the right length, make; anything malformed is refused."""

    def summed(self, plan: PlannedSum, total: Sequence[int]) -> Integers:
        """The view that two servers' sums of shares make, added up."""
        view = np.asarray(total, dtype=np.int64)
        return view if plan.coordinates else np.asarray(view[0])

    def front_report(self, plan: PlannedSum, source: Source) -> Integers:
        """The noise of `plan.front_shares` parties without a value."""
        raise CroupierError(f"{plan.protocol} does not go through a front ({self.kind})")

    def join(self, plan: PlannedSum, view: Integers, front: Integers) -> Integers:
        """A view with the front's own noise among the others' reports."""
        raise CroupierError(f"{plan.protocol} does not go through a front ({self.kind})")

    def shape(self, plan: PlannedSum) -> Shape:
        """What every report looks like to a front."""
        raise CroupierError(f"{plan.protocol} does not go through a front ({self.kind})")

    def fits(self, plan: PlannedSum, report: Integers, unit_value: float) -> bool:
        """Whether a report of this value, mapped to [0, 1], keeps the limit on its noise."""
        return True

    def repaired(self, plan: PlannedSum, slots: Sequence[bytes | None]) -> tuple[Integers, int]:
        """The view of a batch where what no honest device sends counts as harmless, and how much of that there was."""
        raise CroupierError(f"{plan.protocol} does not go through a front ({self.kind})")

    def residual(self, plan: PlannedSum) -> Residual:
        """What one report alone tells of its value."""
        return hidden_by(plan.share, plan.precision * self.weight(plan), plan.dimension)

    def to_dict(self) -> dict[str, Any]:
        parts: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {"kind": self.kind} | parts


def hidden_by(noise: Noise, shift: int, dimension: int) -> Residual:
    """A number plus noise: what the noise says of two values so far apart. Coordinates add up, which is a bound."""
    ratio = rounded_up(noise.log_ratio(shift))
    try:
        moved = distance_moved(noise.window().pmf, shift)
    except TooWide:
        # Laws whose ratio is within e^ε are no further apart than randomized response with that ε.
        moved = math.tanh(ratio / 2.0)
    return Residual(dimension * ratio, min(1.0, dimension * moved))


def distance_moved(law: Floats, shift: int) -> float:
    """The total variation distance between a law and itself moved by a shift."""
    padded = np.concatenate((law, np.zeros(shift)))
    moved = np.concatenate((np.zeros(shift), law))
    return float(np.abs(padded - moved).sum()) / 2.0
