"""Additive shares between two servers, over a field so large that no honest sum wraps around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from croupier.checks import InvalidParameter, integer, one_of
from croupier.noise import Source
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.protocols.sums.carriers.base import Carrier, Integers
from croupier.validity.fields import FIELD64
from croupier.validity.shares import FIELDS, WORD, Ring, share_bits

if TYPE_CHECKING:
    from croupier.protocols.sums.mechanism import SumMechanism

LARGEST = 2**62
"""No honest sum with its noise goes further, which is a quarter of the field."""


@dataclass(frozen=True)
class Shared(Carrier):
    """Each device splits its numbers into two shares; each server adds up its own and a whole noise of its own.

    Whoever has one server's shares has uniform numbers. The two sums together tell the noisy total and nothing else.
    """

    field: str = FIELD64.name
    kind: ClassVar[str] = "shared"
    trust: ClassVar[str] = "two-servers"
    noise_from: ClassVar[tuple[str, ...]] = ("servers",)

    @property
    def ring(self) -> Ring:
        return FIELDS[self.field]

    def check_plan(self, plan: SumMechanism) -> None:
        one_of("field", self.field, tuple(FIELDS))
        if plan.noise_from not in self.noise_from:
            raise InvalidParameter("noise_from", plan.noise_from, "servers, where each server adds a whole noise")
        if plan.side != "unbiased":
            raise InvalidParameter("side", plan.side, "unbiased for sums in shares")
        integer("precision", plan.precision, 1, LARGEST // plan.users)

    def recipe(self, plan: SumMechanism) -> dict[str, Any]:
        """What a report rests on whatever batch it falls into: the encoding, and who adds the noise."""
        return {"precision": plan.precision, "carrier": self.to_dict(), "noise_from": plan.noise_from}

    def check_report(self, plan: SumMechanism, report: Integers) -> None:
        if ((report < 0) | (report > plan.precision)).any():
            raise TamperedMessage(f"an encoded value must lie in [0, {plan.precision}]")

    def report(self, plan: SumMechanism, encoded: Integers, source: Source) -> Integers:
        """The encoded value itself: its shares tell either server nothing."""
        return encoded

    def collect(self, plan: SumMechanism, reports: Integers) -> Integers:
        return np.asarray(reports.sum(axis=-1 - plan.coordinates))

    def decode(self, plan: SumMechanism, view: Integers) -> Integers:
        return view

    def messages_per_user(self, plan: SumMechanism) -> float:
        return 2.0

    def bits_per_message(self, plan: SumMechanism) -> int:
        """On average: one share is a seed, the other a number for each coordinate."""
        return share_bits(plan.dimension) // 2

    def message_bytes(self, plan: SumMechanism) -> int:
        return WORD * plan.dimension

    def pack(self, plan: SumMechanism, report: Integers) -> tuple[bytes, ...]:
        return (self.ring.encode([int(number) for number in np.atleast_1d(report)]),)

    def unpack(self, plan: SumMechanism, messages: Sequence[bytes]) -> Integers:
        """The total that both servers' sums make."""
        if len(messages) != 1:
            raise TamperedMessage(f"{len(messages)} totals came out of two servers where one was due")
        try:
            total = self.ring.decode(messages[0], plan.dimension)
        except InvalidParameter as error:
            raise TamperedMessage(str(error)) from None
        return self.summed(plan, total)

    def summed(self, plan: SumMechanism, total: Sequence[int]) -> Integers:
        return super().summed(plan, self.ring.signed(total))

    def shape(self, plan: SumMechanism) -> Shape:
        return Shape(1, self.message_bytes(plan), 0)
