"""Reports that look alike whatever the value: a fixed number of slots of one length, filled up with dummies.

What a mechanism sends more or less of is filled up with dummies that only the analyzer can tell, and a count of noise
that knows no limit gets one, charged to δ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from croupier.checks import CroupierError

if TYPE_CHECKING:
    from croupier.noise import Noise
    from croupier.privacy import Guarantee

REAL = b"\x01"
CAP_SHARE = 0.01
"""Limits on the noise counts of all parties may cost this share of a mechanism's δ."""

MOST_SLOTS = 4096
"""A report of more messages than this is not worth sending."""

MOST_FRONT = 2**22
"""Nor is a front's own noise of more messages than this, where they are counted."""


class TamperedMessage(CroupierError, ValueError):
    """A report or a view that no honest party could have produced."""


@dataclass(frozen=True)
class Shape:
    """What every report of a mechanism looks like: how many messages, how long each, and the limit on its noise.

    `front` messages of the same length come from the front, whatever noise it draws.
    """

    slots: int
    length: int
    front: int
    cap: int | None = None
    distance: float = 0.0
    """How far the limits on noise can move the view of a batch: n·P(Z > cap), and P(Z' > front) for the front's."""

    def padded(self, messages: Sequence[bytes]) -> tuple[bytes, ...]:
        """One user's messages as slots, with dummies up to a fixed count."""
        return self._padded(messages, self.slots)

    def padded_front(self, messages: Sequence[bytes]) -> tuple[bytes, ...]:
        """The same for the front's own."""
        return self._padded(messages, self.front)

    def _padded(self, messages: Sequence[bytes], count: int) -> tuple[bytes, ...]:
        return (*(REAL + message for message in messages), *(bytes(self.length) for _ in range(count - len(messages))))

    def message(self, slot: bytes) -> bytes | None:
        """The message in an opened slot, None for a dummy; anything else is refused."""
        if len(slot) != self.length:
            raise TamperedMessage(f"a slot has {self.length} bytes here")
        if slot[:1] == REAL:
            return slot[1:]
        if slot != bytes(self.length):
            raise TamperedMessage("a slot is neither a message nor a dummy")
        return None

    def sorted_out(self, slots: Sequence[bytes | None], possible: Callable[[bytes], bool]) -> tuple[list[bytes], int]:
        """The messages that an honest device could have sent, without dummies, and how many slots were none of either.

        A slot that did not open is None.
        """
        messages: list[bytes] = []
        damaged = 0
        # There are few different slots, so each kind is read once.
        for slot, count in Counter(slots).items():
            try:
                message = None if slot is None else self.message(slot)
                honest = slot is not None and (message is None or possible(message))
            except TamperedMessage:
                message, honest = None, False
            if not honest:
                damaged += count
            elif message is not None:
                messages += [message] * count
        return messages, damaged


def uncapped(slots: int, message_bytes: int, front: int) -> Shape:
    """The shape of reports whose messages are always as many, or few enough."""
    return Shape(_few(slots), len(REAL) + message_bytes, front)


def capped(noise: Noise, own: int, message_bytes: int, *, users: int, front_shares: int, claim: Guarantee) -> Shape:
    """`own` messages and noise, with the least limits on each party's noise whose cost (1 + e^ε)·ΣP(Z > cap) stays
    below its share of δ. The parties are the users, and the front when it adds noise of its own.
    """
    # Before any table is made: what cannot fit on average is refused for the price of a product.
    _few(own + math.ceil(noise.mean))
    mean = front_shares * noise.mean
    if mean > MOST_FRONT:
        raise CroupierError(f"the front would add {mean:.3g} messages, and {MOST_FRONT} is the most that is sent")
    spare = CAP_SHARE * claim.delta / (1.0 + math.exp(claim.epsilon)) / (users + (1 if front_shares else 0))
    cap = max(1, noise.tail_quantile(spare))
    slots, length, distance = _few(own + cap), len(REAL) + message_bytes, users * float(noise.tail(cap))
    if not front_shares:
        return Shape(slots, length, 0, cap, distance * (1.0 + 1e-9))
    whole = noise.times(front_shares)
    front = max(1, whole.tail_quantile(spare))
    return Shape(slots, length, front, cap, (distance + float(whole.tail(front))) * (1.0 + 1e-9))


def _few(slots: int) -> int:
    if slots > MOST_SLOTS:
        raise CroupierError(f"a report would hold {slots} messages, and {MOST_SLOTS} is the most that is sent")
    return slots
