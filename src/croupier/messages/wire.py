"""The report as bytes, from a user's numbers to the body of an upload; `docs/wire.md` gives every byte.

A report holds the same number of messages whatever the value: what a mechanism sends more or less of is filled up with
dummies that only the analyzer can tell, and a count of noise that knows no limit gets one, charged to δ.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Number

import numpy as np

from croupier.checks import CroupierError, InvalidParameter
from croupier.messages.sealing import KEY_ID
from croupier.noise import Noise, Poisson, Polya, Source, SparseBits
from croupier.privacy import Loss
from croupier.protocols import HistogramMechanism, Mechanism
from croupier.protocols.histograms.labelled import LabelledMessages
from croupier.protocols.sums.carriers import ShuffledMessages, SplitAndMix, TamperedMessage
from croupier.protocols.sums.wire import message_bytes, pack, pack_noise

Reporting = Mechanism | HistogramMechanism
"""What can be reported on: a sum, or a histogram."""

VERSION = 2
REAL = b"\x01"
REPORT_ID, TOKEN, HASH = 16, 56, 32
CAP_SHARE = 0.01
"""Limits on the noise counts of all parties may cost this share of a mechanism's δ."""

LONGEST_UPLOAD = 2**20
"""No upload is longer than this."""

MOST_SLOTS = 4096
"""A report of more messages than this is not worth sending."""

MOST_FRONT = 2**22
"""Nor is a front's own noise of more messages than this, where they are counted."""

_HEADER = struct.Struct(f">BB{KEY_ID}s{HASH}s")
_BUNDLE = struct.Struct(f">{REPORT_ID}s{TOKEN}sIB")
_PART = struct.Struct(">IHH")


class Malformed(CroupierError):
    """Bytes that are no report."""


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


@lru_cache(maxsize=1024)
def shape(mechanism: Reporting) -> Shape:
    """The shape of a mechanism's reports, or a refusal when no front can carry it.

    >>> from croupier.protocols import counted_messages, shuffled_laplace
    >>> shape(shuffled_laplace(epsilon=1.0, binary=True).plan(users=1000)).slots
    13
    >>> shape(counted_messages(epsilon=1.0).plan(users=1000)).cap
    5
    """
    if isinstance(mechanism, HistogramMechanism):
        return _labelled_shape(mechanism)
    carrier, share = mechanism.carrier, mechanism.share
    if not isinstance(carrier, SplitAndMix | ShuffledMessages):
        raise CroupierError(f"{mechanism.protocol} does not go through a front ({carrier.kind})")
    if mechanism.noise_from != "batch":
        raise CroupierError(f"{mechanism.protocol} has its noise from the {mechanism.noise_from}, not from the batch")
    length = 1 + message_bytes(mechanism)
    if isinstance(carrier, SplitAndMix):
        return Shape(_few(carrier.pieces), length, mechanism.front_shares * carrier.pieces)
    if isinstance(share, Poisson | Polya):
        if not mechanism.values.binary:
            # The limit on the noise is kept by what a device knows of its own value.
            raise CroupierError(f"{mechanism.protocol} counts zeros and ones, and these values are not binary")
        return _capped_shape(mechanism, share, mechanism.precision, length, mechanism.front_shares)
    noise = share.slots if isinstance(share, SparseBits) else share.trials  # type: ignore[attr-defined]
    slots = _few(mechanism.dimension * (carrier.value_messages + noise))
    return Shape(slots, length, mechanism.front_shares * mechanism.dimension * noise)


def _labelled_shape(mechanism: HistogramMechanism) -> Shape:
    ballot = mechanism.ballot
    if not isinstance(ballot, LabelledMessages):
        raise CroupierError(f"a histogram by {ballot.kind} does not go through this front")
    own = 1 if ballot.side == "over" else ballot.size - 1
    noise = ballot.share.times(ballot.size)
    return _capped_shape(mechanism, noise, own, 1 + -(-mechanism.message_bits // 8), mechanism.front_shares)


def _capped_shape(mechanism: Reporting, noise: Noise, own: int, length: int, front_shares: int) -> Shape:
    """The least limits on each party's noise whose cost (1 + e^ε)·ΣP(Z > cap) stays below its share of δ.

    The parties are the users, and the front when it adds noise of its own.
    """
    # Before any table is made: what cannot fit on average is refused for the price of a product.
    _few(own + math.ceil(noise.mean))
    mean = front_shares * noise.mean
    if mean > MOST_FRONT:
        raise CroupierError(f"the front would add {mean:.3g} messages, and {MOST_FRONT} is the most that is sent")
    claim, users = mechanism.guarantee, mechanism.users
    spare = CAP_SHARE * claim.delta / (1.0 + math.exp(claim.epsilon)) / (users + (1 if front_shares else 0))
    cap = max(1, noise.tail_quantile(spare))
    slots, distance = _few(own + cap), users * float(noise.tail(cap))
    if not front_shares:
        return Shape(slots, length, 0, cap, distance * (1.0 + 1e-9))
    whole = noise.times(front_shares)
    front = max(1, whole.tail_quantile(spare))
    return Shape(slots, length, front, cap, (distance + float(whole.tail(front))) * (1.0 + 1e-9))


def capped_loss(mechanism: Reporting) -> Loss:
    """The exact loss of a mechanism as it is sent: with its noise limited."""
    loss = mechanism.loss
    return Loss(loss.releases, float(loss.distance) + shape(mechanism).distance)


def slots(mechanism: Reporting, value: object, source: Source) -> tuple[bytes, ...]:
    """One user's randomized report as padded messages and dummies: always as many, always as long."""
    form = shape(mechanism)
    return _padded(_messages(mechanism, value, source, form), form.slots, form.length)


def front_slots(mechanism: Reporting, source: Source) -> tuple[bytes, ...]:
    """The front's own noise in the same form; a count that exceeds its limit is drawn again."""
    form = shape(mechanism)
    if not form.front:
        return ()
    messages = _front_messages(mechanism, source)
    while len(messages) > form.front:
        messages = _front_messages(mechanism, source)
    return _padded(messages, form.front, form.length)


def _front_messages(mechanism: Reporting, source: Source) -> tuple[bytes, ...]:
    if isinstance(mechanism, HistogramMechanism):
        assert isinstance(mechanism.ballot, LabelledMessages)
        width = shape(mechanism).length - len(REAL)
        return tuple(label.to_bytes(width, "big") for label in mechanism.ballot.front_labels(source).tolist())
    return pack_noise(mechanism, mechanism.front_report(source))


def _padded(messages: Sequence[bytes], count: int, length: int) -> tuple[bytes, ...]:
    """Messages as slots, with dummies up to a fixed count."""
    return (*(REAL + message for message in messages), *(bytes(length) for _ in range(count - len(messages))))


def _messages(mechanism: Reporting, value: object, source: Source, form: Shape) -> tuple[bytes, ...]:
    """The messages of a report; one whose noise exceeds the limit is drawn again, whatever its value."""
    if isinstance(mechanism, HistogramMechanism):
        labels = mechanism.randomize(value, source)
        while len(labels) > form.slots:
            labels = mechanism.randomize(value, source)
        return mechanism.pack(labels)
    if not isinstance(value, Number | np.bool_):
        # A list would be taken for many users' values.
        raise InvalidParameter("value", value, "a number")
    report = mechanism.randomize(value, source)  # type: ignore[arg-type]
    if form.cap is not None:
        # A counted value is zero or one, so the noise is what is left of it.
        own = round(float(mechanism.values.unit(value)) * mechanism.precision)  # type: ignore[arg-type]
        own = mechanism.precision - own if mechanism.side == "under" else own
        while report[1] - own > form.cap:
            report = mechanism.randomize(value, source)  # type: ignore[arg-type]
    return pack(mechanism, report)


def read_slot(mechanism: Reporting, slot: bytes) -> bytes | None:
    """The message in an opened slot, None for a dummy; anything else is refused."""
    form = shape(mechanism)
    if len(slot) != form.length:
        raise TamperedMessage(f"a slot has {form.length} bytes here")
    if slot[:1] == REAL:
        return slot[1:]
    if slot != bytes(form.length):
        raise TamperedMessage("a slot is neither a message nor a dummy")
    return None


def message_info(experiment: str, pin: bytes, batch: bytes) -> bytes:
    """What a message sealed to the analyzer is bound to: experiment, the batch's pinned configuration, and its hash."""
    return b"croupier/2 message\0" + experiment.encode() + b"\0" + pin + batch


def report_info(experiment: str, configuration: bytes) -> bytes:
    """What a report sealed to the front is bound to."""
    return b"croupier/2 report\0" + experiment.encode() + b"\0" + configuration


@dataclass(frozen=True)
class Envelope:
    """The body of an upload: which key opens it, under which configuration, and the sealed report."""

    suite: int
    key: bytes
    configuration: bytes
    sealed: bytes

    def to_bytes(self) -> bytes:
        return _HEADER.pack(VERSION, self.suite, self.key, self.configuration) + self.sealed

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope:
        if len(data) <= _HEADER.size:
            raise Malformed(f"an upload has more than {_HEADER.size} bytes, and this one has {len(data)}")
        version, suite, key, configuration = _HEADER.unpack_from(data)
        if version != VERSION:
            raise Malformed(f"an upload of version {version}, where {VERSION} is known")
        return cls(suite, key, configuration, data[_HEADER.size :])


@dataclass(frozen=True)
class Part:
    """The sealed messages that a report adds to one batch."""

    batch: int
    messages: tuple[bytes, ...]


@dataclass(frozen=True)
class Report:
    """What the front reads: its own token, the report's name, the offer, and sealed messages for each batch."""

    report: bytes
    token: bytes
    offer: int
    parts: tuple[Part, ...]

    def to_bytes(self) -> bytes:
        pieces = [_BUNDLE.pack(self.report, self.token, self.offer, len(self.parts))]
        for part in self.parts:
            pieces.append(_PART.pack(part.batch, len(part.messages), len(part.messages[0])))
            pieces += part.messages
        return b"".join(pieces)

    @classmethod
    def from_bytes(cls, data: bytes) -> Report:
        """Read a report; every byte must have its place."""
        try:
            report, token, offer, count = _BUNDLE.unpack_from(data)
            at, parts = _BUNDLE.size, []
            for _ in range(count):
                batch, number, length = _PART.unpack_from(data, at)
                at += _PART.size
                end = at + number * length
                if not number or not length or end > len(data):
                    raise Malformed("a report is shorter than it says")
                parts.append(Part(batch, tuple(data[i : i + length] for i in range(at, end, length))))
                at = end
        except struct.error:
            raise Malformed("a report is shorter than its header") from None
        if at != len(data) or not parts:
            raise Malformed("a report has bytes that belong to nothing")
        return cls(report, token, offer, tuple(parts))


def upload_bytes(parts: Iterable[tuple[int, int]], overhead: int) -> int:
    """The length of every upload of an offer, whatever is in it: for each batch the number of its sealed messages and
    their length, and what sealing adds to the whole.
    """
    return _HEADER.size + _BUNDLE.size + sum(_PART.size + number * length for number, length in parts) + overhead


def _few(slots: int) -> int:
    if slots > MOST_SLOTS:
        raise CroupierError(f"a report would hold {slots} messages, and {MOST_SLOTS} is the most that is sent")
    return slots
