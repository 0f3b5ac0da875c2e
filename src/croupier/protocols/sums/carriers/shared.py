"""Additive shares between two servers, over a field so large that no honest sum wraps around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from croupier.checks import CroupierError, InvalidParameter, integer, one_of
from croupier.noise import Source
from croupier.noise.window import TooWide
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.protocols.sums.carriers.base import Carrier, Integers
from croupier.validity import Prio3, prio3_number, prio3_ranges
from croupier.validity.fields import FIELD64, FIELD128
from croupier.validity.shares import FIELDS, Ring

if TYPE_CHECKING:
    from croupier.protocols.sums.planned import PlannedSum

LARGEST = 2**62
"""No honest sum with its noise goes further, which is a quarter of the field."""
FAR = 100
"""Standard deviations beyond which no noise here goes: Laplace noise does with a chance of 10⁻⁶¹."""


class LeavesField(TooWide):
    """Noise that would wrap around in the field that sums are shared over."""

    def __init__(self, std: float) -> None:
        CroupierError.__init__(
            self, f"noise of standard deviation {std:.3g} leaves the field that sums are shared over"
        )


@dataclass(frozen=True)
class Shared(Carrier):
    """Each device splits its numbers into two shares; each server adds up its own and a whole noise of its own.

    Whoever has one server's shares has uniform numbers. The two sums together tell the noisy total and nothing else.
    The field is the one that reports are proved in: the small one for a number, the large one for vectors.
    """

    field: str = FIELD64.name
    kind: ClassVar[str] = "shared"
    trust: ClassVar[str] = "two-servers"
    noise_from: ClassVar[tuple[str, ...]] = ("servers",)

    @property
    def ring(self) -> Ring:
        return FIELDS[self.field]

    def check_plan(self, plan: PlannedSum) -> None:
        one_of("field", self.field, (FIELD128.name if plan.coordinates else FIELD64.name,))
        if plan.noise_from not in self.noise_from:
            raise InvalidParameter("noise_from", plan.noise_from, "servers, where each server adds a whole noise")
        if plan.side != "unbiased":
            raise InvalidParameter("side", plan.side, "unbiased for sums in shares")
        integer("precision", plan.precision, 1, LARGEST // plan.users)
        if not plan.users * plan.precision + FAR * plan.share.std <= LARGEST:
            raise LeavesField(plan.share.std)

    def prio3(self, plan: PlannedSum) -> Prio3:
        levels = plan.values.levels(plan.precision)
        return prio3_ranges(levels) if plan.coordinates else prio3_number(*levels)

    def recipe(self, plan: PlannedSum) -> dict[str, Any]:
        """What a report rests on whatever batch it falls into: the encoding, and who adds the noise."""
        return {"precision": plan.precision, "carrier": self.to_dict(), "noise_from": plan.noise_from}

    def check_report(self, plan: PlannedSum, report: Integers) -> None:
        levels = np.array(plan.values.levels(plan.precision), dtype=np.int64)
        if ((report < 0) | (report > (levels if plan.coordinates else levels[0]))).any():
            raise TamperedMessage(f"an encoded value must lie in [0, {levels.max()}]")

    def report(self, plan: PlannedSum, encoded: Integers, source: Source) -> Integers:
        """The encoded value itself: its shares tell either server nothing."""
        return encoded

    def collect(self, plan: PlannedSum, reports: Integers) -> Integers:
        return np.asarray(reports.sum(axis=-1 - plan.coordinates))

    def decode(self, plan: PlannedSum, view: Integers) -> Integers:
        return view

    def messages_per_user(self, plan: PlannedSum) -> float:
        return 2.0

    def bits_per_message(self, plan: PlannedSum) -> int:
        """On average: one share is a seed, the other a number for each coordinate."""
        return self.ring.share_bits(plan.dimension) // 2

    def message_bytes(self, plan: PlannedSum) -> int:
        return self.ring.size * plan.dimension

    def pack(self, plan: PlannedSum, report: Integers) -> tuple[bytes, ...]:
        return (self.ring.encode([int(number) for number in np.atleast_1d(report)]),)

    def unpack(self, plan: PlannedSum, messages: Sequence[bytes]) -> Integers:
        """The total that both servers' sums make."""
        if len(messages) != 1:
            raise TamperedMessage(f"{len(messages)} totals came out of two servers where one was due")
        try:
            total = self.ring.decode(messages[0], plan.dimension)
        except InvalidParameter as error:
            raise TamperedMessage(str(error)) from None
        return self.summed(plan, total)

    def summed(self, plan: PlannedSum, total: Sequence[int]) -> Integers:
        return super().summed(plan, self.ring.signed(total))

    def shape(self, plan: PlannedSum) -> Shape:
        return Shape(1, self.message_bytes(plan), 0)
