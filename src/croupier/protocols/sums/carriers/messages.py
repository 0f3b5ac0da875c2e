"""Messages that a shuffler permutes: only how many zeros and ones there are, of each coordinate, comes through.

In bits a value is sent in unary among noise bits. As counted messages every one is a message and a zero is none, and so
is every unit of noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from croupier.checks import CroupierError, InvalidParameter, integer, one_of
from croupier.noise import Noise, Source
from croupier.privacy import Loss, privacy_loss
from croupier.protocols.mechanism import Residual
from croupier.protocols.padding import Shape, TamperedMessage, capped, uncapped
from croupier.protocols.sums.carriers.base import Carrier, Integers, distance_moved

if TYPE_CHECKING:
    from croupier.protocols.sums.planned import PlannedSum

LABEL = 2
"""Bytes that name a coordinate."""


class ShuffledMessages(Carrier):
    """What both kinds share: a report is (zeros, ones) per coordinate, and so is a view."""

    kind: ClassVar[str] = "shuffled-messages"
    trust: ClassVar[str] = "shuffler"
    report_axes: ClassVar[int] = 1
    takes_front_noise: ClassVar[bool] = True
    value_messages: int
    """How many messages carry a value, whatever it is."""

    def loss(self, plan: PlannedSum) -> Loss:
        return plan.dimension * privacy_loss(plan.guard, plan.precision * self.weight(plan))

    @abstractmethod
    def _noise(self, noise: Noise, count: int, source: Source) -> tuple[Integers, Integers]:
        """The zeros and the ones that each of `count` parties adds."""

    @abstractmethod
    def _noise_range(self, plan: PlannedSum) -> tuple[int, int | None]:
        """The fewest and the most messages that one party's noise can be."""

    @abstractmethod
    def _own(self, encoded: Integers) -> tuple[Integers | int, Integers]:
        """The zeros and the ones that stand for a value."""

    def report(self, plan: PlannedSum, encoded: Integers, source: Source) -> Integers:
        zeros, ones = (drawn.reshape(encoded.shape) for drawn in self._noise(plan.share, encoded.size, source))
        silent, said = self._own(encoded)
        return np.stack((zeros + silent, ones + said), axis=-1)

    def collect(self, plan: PlannedSum, reports: Integers) -> Integers:
        return np.asarray(reports.sum(axis=-2 - plan.coordinates))

    def front_report(self, plan: PlannedSum, source: Source) -> Integers:
        whole = plan.share.times(plan.front_shares)
        zeros, ones = self._noise(whole, plan.dimension, source)
        return np.stack((zeros, ones), axis=-1).reshape(*plan.value_shape, 2)

    def join(self, plan: PlannedSum, view: Integers, front: Integers) -> Integers:
        return view + front

    def check_report(self, plan: PlannedSum, report: Integers) -> None:
        self._check(plan, report, 1, 0)

    def _check(self, plan: PlannedSum, tallies: Integers, users: int, front: int) -> None:
        if tallies.shape[-1:] != (2,) or (tallies < 0).any():
            raise TamperedMessage("a tally must be two whole numbers >= 0: zeros and ones")
        sent = tallies.sum(axis=-1)
        least, most = self._noise_range(plan)
        parties, own = users + front, users * self.value_messages
        if (sent < own + parties * least).any() or (most is not None and (sent > own + parties * most).any()):
            least, most = self.value_messages + least, None if most is None else self.value_messages + most
            raise TamperedMessage(
                f"{int(sent.flat[0])} messages from {users} users; each sends {least}"
                + ("" if most == least else f" to {most}" if most is not None else " or more")
                + (f", and the front the noise of {front} more" if front else "")
            )

    def bits_per_message(self, plan: PlannedSum) -> int:
        label = math.ceil(math.log2(plan.dimension)) if plan.dimension > 1 else 0
        return label + (1 if self.value_messages else 0) if label + self.value_messages else 1

    def message_bytes(self, plan: PlannedSum) -> int:
        return 1 + LABEL * plan.coordinates

    def pack(self, plan: PlannedSum, report: Integers) -> tuple[bytes, ...]:
        rows = report.reshape(-1, 2)
        labels = [i.to_bytes(LABEL, "big") if plan.coordinates else b"" for i in range(len(rows))]
        return tuple(
            label + bytes([bit])
            for label, row in zip(labels, rows.tolist(), strict=True)
            for bit, count in enumerate(row)
            for _ in range(count)
        )

    def unpack(self, plan: PlannedSum, messages: Sequence[bytes]) -> Integers:
        tally = np.zeros((plan.dimension, 2), dtype=np.int64)
        for message in messages:
            label, bit = int.from_bytes(message[:-1], "big"), message[-1]
            if label >= plan.dimension or bit > 1:
                raise TamperedMessage(f"message {message.hex()} names no coordinate and bit")
            tally[label, bit] += 1
        return tally if plan.coordinates else tally[0]

    def message_count(self, plan: PlannedSum, report: Integers) -> int:
        return int(report.sum())

    def _sorted_out(self, plan: PlannedSum, slots: Sequence[bytes | None]) -> tuple[list[bytes], int]:
        return plan.shape.sorted_out(slots, lambda message: self._possible(plan, message))

    def _possible(self, plan: PlannedSum, message: bytes) -> bool:
        return int.from_bytes(message[:-1], "big") < plan.dimension and message[-1] in self._said

    @property
    @abstractmethod
    def _said(self) -> tuple[int, ...]:
        """The bits that a message can carry."""


@dataclass(frozen=True)
class ShuffledBits(ShuffledMessages):
    """Bits: `value_messages` of them carry the value in unary, the rest are noise."""

    value_messages: int

    def check_plan(self, plan: PlannedSum) -> None:
        integer("value_messages", self.value_messages, plan.precision, plan.precision)
        _ = plan.share.bits  # or a refusal
        _check_batch(plan, "unbiased")

    def weight(self, plan: PlannedSum) -> int:
        """A one in place of a zero."""
        return 1 - plan.share.bits.zero

    def _noise(self, noise: Noise, count: int, source: Source) -> tuple[Integers, Integers]:
        return noise.bits.draw(count, source)

    def _noise_range(self, plan: PlannedSum) -> tuple[int, int | None]:
        return plan.share.bits.fewest, plan.share.bits.most

    def _own(self, encoded: Integers) -> tuple[Integers | int, Integers]:
        return self.value_messages - encoded, encoded

    @property
    def _said(self) -> tuple[int, ...]:
        return 0, 1

    def decode(self, plan: PlannedSum, view: Integers) -> Integers:
        self._check(plan, view, plan.users, plan.front_shares)
        zeros, ones = view[..., 0], view[..., 1]
        # Less what the values' own bits would say if all of them were zeros.
        return np.asarray(ones + plan.share.bits.zero * (zeros - plan.users * self.value_messages))

    def messages_per_user(self, plan: PlannedSum) -> float:
        return plan.dimension * (self.value_messages + plan.share.bits.mean)

    def shape(self, plan: PlannedSum) -> Shape:
        noise = plan.share.bits.most
        slots = plan.dimension * (self.value_messages + noise)
        return uncapped(slots, self.message_bytes(plan), plan.front_shares * plan.dimension * noise)

    def repaired(self, plan: PlannedSum, slots: Sequence[bytes | None]) -> tuple[Integers, int]:
        """For dummies, or damage, in place of bits that were due stand bits that add up to nothing."""
        messages, damaged = self._sorted_out(plan, slots)
        bits = plan.share.bits
        fewest = plan.users * self.value_messages + (plan.users + plan.front_shares) * bits.fewest
        missing = fewest - len(messages)
        if missing > 0 and not plan.coordinates:
            ones = -bits.zero * missing // 2
            messages += [b"\x01"] * ones + [b"\x00"] * (missing - ones)
            damaged = max(damaged, missing)
        return self.unpack(plan, messages), damaged

    def residual(self, plan: PlannedSum) -> Residual:
        """Unary bits among noise: whoever sees the report counts them all, and sometimes there are too few to hide."""
        advantage = sum(chance * distance_moved(ones, plan.precision) for chance, ones in plan.share.bits.seen())
        return Residual(math.inf, min(1.0, plan.dimension * advantage))


@dataclass(frozen=True)
class CountedMessages(ShuffledMessages):
    """Messages that are all ones: as many as the value says, and as many as the noise."""

    value_messages: int = field(default=0, init=False, repr=False)

    def check_plan(self, plan: PlannedSum) -> None:
        if not plan.share.counted:
            raise InvalidParameter("share", plan.share, "noise that is sent as counted messages")
        _check_batch(plan, "over", "under")

    def _noise(self, noise: Noise, count: int, source: Source) -> tuple[Integers, Integers]:
        ones = noise.sample(count, source)
        return np.zeros_like(ones), ones

    def _noise_range(self, plan: PlannedSum) -> tuple[int, int | None]:
        return 0, None

    def _own(self, encoded: Integers) -> tuple[Integers | int, Integers]:
        return 0, encoded

    @property
    def _said(self) -> tuple[int, ...]:
        return (1,)

    def _check(self, plan: PlannedSum, tallies: Integers, users: int, front: int) -> None:
        super()._check(plan, tallies, users, front)
        if tallies[..., 0].any():
            raise TamperedMessage("a counted message is always a one, and a zero was found")

    def decode(self, plan: PlannedSum, view: Integers) -> Integers:
        self._check(plan, view, plan.users, plan.front_shares)
        return view[..., 1]

    def messages_per_user(self, plan: PlannedSum) -> float:
        """At most: a value of zero sends no message of its own."""
        return plan.dimension * (1 + plan.share.mean)

    def shape(self, plan: PlannedSum) -> Shape:
        if not plan.values.binary:
            # The limit on the noise is kept by what a device knows of its own value.
            raise CroupierError(f"{plan.protocol} counts zeros and ones, and these values are not binary")
        batch = {"users": plan.users, "front_shares": plan.front_shares, "claim": plan.guarantee}
        return capped(plan.share, plan.precision, self.message_bytes(plan), **batch)  # type: ignore[arg-type]

    def fits(self, plan: PlannedSum, report: Integers, unit_value: float) -> bool:
        """A counted value is zero or one, so the noise is what is left of the report."""
        own = round(unit_value * plan.precision)
        own = plan.precision - own if plan.side == "under" else own
        assert plan.shape.cap is not None
        return bool(report[1] - own <= plan.shape.cap)

    def repaired(self, plan: PlannedSum, slots: Sequence[bytes | None]) -> tuple[Integers, int]:
        messages, damaged = self._sorted_out(plan, slots)
        return self.unpack(plan, messages), damaged


def shuffled_messages(value_messages: int) -> ShuffledMessages:
    """Both kinds go by one name in a serialized mechanism: where no message carries a value, values are counted."""
    return ShuffledBits(value_messages) if integer("value_messages", value_messages, 0) else CountedMessages()


def _check_batch(plan: PlannedSum, *sides: str) -> None:
    one_of("noise_from", plan.noise_from, ("batch",))
    one_of("side", plan.side, sides)
