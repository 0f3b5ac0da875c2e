"""From the opened messages of a batch to one number, whatever some of its users may have sent.

A message that does not open, or says what no honest device says, counts as a harmless one: a zero. Its sender could
have sent that very zero, so nobody else's part changes; how many there were is public.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.messages.wire import REAL, Reporting, read_slot, shape
from croupier.noise import Binomial, SparseBits
from croupier.protocols import HistogramMechanism, Mechanism
from croupier.protocols.histograms.labelled import LabelledMessages
from croupier.protocols.sums.carriers import ShuffledMessages, SplitAndMix, TamperedMessage
from croupier.protocols.sums.wire import RESIDUE, unpack


@dataclass(frozen=True)
class Decoded:
    """What a batch's view decodes to, and how many of its messages were damaged."""

    decoded: int | tuple[int, ...]
    damaged: int


def decode(mechanism: Reporting, slots: Sequence[bytes | None]) -> Decoded:
    """Decode a whole batch: as many opened slots as its users sent, None where one did not open.

    >>> from croupier.messages.wire import slots
    >>> from croupier.noise import seeded
    >>> from croupier.protocols import shuffled_laplace
    >>> mechanism = shuffled_laplace(epsilon=5.0, binary=True).plan(users=40)
    >>> batch = [slot for user in range(40) for slot in slots(mechanism, user % 2, seeded(user))]
    >>> decode(mechanism, batch)
    Decoded(decoded=20, damaged=0)
    """
    form = shape(mechanism)
    due = mechanism.users * form.slots + form.front
    if len(slots) != due:
        raise TamperedMessage(f"{len(slots)} messages where {due} are due")
    if isinstance(mechanism, HistogramMechanism):
        counts, damaged = _labels(mechanism, slots)
        return Decoded(tuple(counts.tolist()), damaged)
    if isinstance(mechanism.carrier, SplitAndMix):
        messages, damaged = _residues(mechanism, slots)
    else:
        messages, damaged = _bits(mechanism, slots)
    return Decoded(mechanism.analyze(unpack(mechanism, messages)).decoded, damaged)


def _residues(mechanism: Mechanism, slots: Sequence[bytes | None]) -> tuple[list[bytes], int]:
    assert isinstance(mechanism.carrier, SplitAndMix)
    length = shape(mechanism).length
    blank = bytes(length)
    joined = b"".join(slot if slot is not None and len(slot) == length else blank for slot in slots)
    table = np.frombuffer(joined, dtype=np.uint8).reshape(len(slots), length)
    numbers = np.ascontiguousarray(table[:, 1:]).view(RESIDUE).astype(np.int64)
    good = (table[:, 0] == REAL[0]) & ((numbers >= 0) & (numbers < mechanism.carrier.modulus)).all(axis=1)
    whole = np.where(good[:, None], numbers, 0).astype(RESIDUE)
    return [row.tobytes() for row in whole], int((~good).sum())


def _bits(mechanism: Mechanism, slots: Sequence[bytes | None]) -> tuple[list[bytes], int]:
    messages, damaged = _sorted_out(mechanism, slots, lambda message: _possible(mechanism, message))
    missing = _fewest(mechanism) - len(messages)
    if missing > 0 and not mechanism.coordinates:
        # Somebody sent dummies, or damage, where bits were due. Ones minus zeros then lack just those bits;
        # a count of ones lacks the ones among them.
        ones = missing // 2 if isinstance(mechanism.share, SparseBits) else 0
        messages += [b"\x01"] * ones + [b"\x00"] * (missing - ones)
        damaged = max(damaged, missing)
    return messages, damaged


def _labels(mechanism: HistogramMechanism, slots: Sequence[bytes | None]) -> tuple[NDArray[np.int64], int]:
    ballot = mechanism.ballot
    assert isinstance(ballot, LabelledMessages)
    messages, damaged = _sorted_out(mechanism, slots, lambda message: int.from_bytes(message, "big") < ballot.labels)
    labels = np.array([int.from_bytes(message, "big") for message in messages], dtype=np.int64)
    # Users who send nothing but dummies are counted nowhere.
    missing = mechanism.users * (1 if ballot.side == "over" else ballot.size - 1) - len(messages)
    return ballot.read(np.bincount(labels, minlength=ballot.size)), max(damaged, missing, 0)


def _sorted_out(
    mechanism: Reporting, slots: Sequence[bytes | None], possible: Callable[[bytes], bool]
) -> tuple[list[bytes], int]:
    """The messages that an honest device could have sent, without dummies, and how many slots were none of either."""
    messages: list[bytes] = []
    damaged = 0
    # There are few different slots, so each kind is read once.
    for slot, count in Counter(slots).items():
        try:
            message = None if slot is None else read_slot(mechanism, slot)
            honest = slot is not None and (message is None or possible(message))
        except TamperedMessage:
            message, honest = None, False
        if not honest:
            damaged += count
        elif message is not None:
            messages += [message] * count
    return messages, damaged


def _possible(mechanism: Mechanism, message: bytes) -> bool:
    carrier = mechanism.carrier
    assert isinstance(carrier, ShuffledMessages)
    label, bit = int.from_bytes(message[:-1], "big"), message[-1]
    return label < mechanism.dimension and (bit == 1 or (bit == 0 and carrier.value_messages > 0))


def _fewest(mechanism: Mechanism) -> int:
    """The fewest messages of a coordinate that an honest batch holds: values, and noise that is always sent."""
    carrier, share = mechanism.carrier, mechanism.share
    assert isinstance(carrier, ShuffledMessages)
    noise = 0
    if isinstance(share, Binomial):
        noise = share.trials
    elif isinstance(share, SparseBits) and share.rate == 1:
        noise = share.slots
    return mechanism.users * carrier.value_messages + (mechanism.users + mechanism.front_shares) * noise
