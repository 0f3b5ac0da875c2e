"""Messages as bytes: what a device really sends for a report, and how a batch of messages is read back.

Every message of a mechanism has one length. `docs/format.md` gives the layout with test vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter
from croupier.protocols.sums.carriers import ShuffledMessages, TamperedMessage
from croupier.protocols.sums.mechanism import Mechanism

MOST_MESSAGES = 100_000
"""A report of more messages than this can be simulated, not sent."""

RESIDUE = ">i8"
LABEL = 2


def message_bytes(mechanism: Mechanism) -> int:
    """The length of every message of this mechanism."""
    if isinstance(mechanism.carrier, ShuffledMessages):
        return 1 + LABEL * mechanism.coordinates
    return 8 * mechanism.dimension


def pack(mechanism: Mechanism, report: ArrayLike) -> tuple[bytes, ...]:
    """One user's report as messages, in no particular order: the shuffler mixes them with everyone's."""
    numbers = np.asarray(report, dtype=np.int64)
    mechanism.carrier.check_report(numbers, mechanism.share)
    if isinstance(mechanism.carrier, ShuffledMessages) and numbers.sum() > MOST_MESSAGES:
        limit = f"at most {MOST_MESSAGES}: {mechanism.protocol} here is for simulation only"
        raise InvalidParameter("messages", int(numbers.sum()), limit)
    return pack_noise(mechanism, numbers)


def pack_noise(mechanism: Mechanism, numbers: NDArray[np.int64]) -> tuple[bytes, ...]:
    """The same for the front's own noise, which is no user's report and may be longer."""
    if isinstance(mechanism.carrier, ShuffledMessages):
        rows = numbers.reshape(-1, 2)
        labels = [i.to_bytes(LABEL, "big") if mechanism.coordinates else b"" for i in range(len(rows))]
        return tuple(
            label + bytes([bit])
            for label, row in zip(labels, rows.tolist(), strict=True)
            for bit, count in enumerate(row)
            for _ in range(count)
        )
    units = numbers.reshape(-1, mechanism.dimension)
    return tuple(unit.astype(RESIDUE).tobytes() for unit in units)


def unpack(mechanism: Mechanism, messages: Sequence[bytes]) -> NDArray[np.int64]:
    """The view that a batch's messages make; anything malformed is refused."""
    size = message_bytes(mechanism)
    if any(len(message) != size for message in messages):
        raise TamperedMessage(f"every message of {mechanism.protocol} has {size} bytes")
    if isinstance(mechanism.carrier, ShuffledMessages):
        tally = np.zeros((mechanism.dimension, 2), dtype=np.int64)
        for message in messages:
            label, bit = int.from_bytes(message[:-1], "big"), message[-1]
            if label >= mechanism.dimension or bit > 1:
                raise TamperedMessage(f"message {message.hex()} names no coordinate and bit")
            tally[label, bit] += 1
        return tally if mechanism.coordinates else tally[0]
    if mechanism.carrier.kind == "secure-aggregation" and len(messages) != 1:
        raise TamperedMessage(f"{len(messages)} sums came out of secure aggregation where one was due")
    units = np.frombuffer(b"".join(messages), dtype=RESIDUE).astype(np.int64).reshape(-1, mechanism.dimension)
    mechanism.carrier.check_report(units, mechanism.share)
    listed = units if mechanism.coordinates else units[:, 0]
    return listed[0] if mechanism.carrier.kind == "secure-aggregation" else listed
