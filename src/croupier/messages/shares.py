"""A report in shares: the seed of one share for the front, the other sealed to the analyzer; `docs/wire.md` has bytes.

What a share is bound to names its experiment, configuration, arm or batch, and report. So no server can count it under
another arm, under another report's name, or twice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from croupier.messages.offer import Offer
from croupier.messages.sealing import SUITES
from croupier.messages.wire import HEADER, REPORT_ID, TOKEN, Malformed, upload_bytes
from croupier.validity.shares import WORD
from croupier.validity.xof import SEED

NO_ARM = 2**32 - 1
_HEAD = struct.Struct(f">{REPORT_ID}s{TOKEN}sI{SEED}s")


def scopes(offer: Offer) -> tuple[bytes, ...]:
    """What each part of a report on this offer is for.

    Where the servers add the noise there is one part, and it is for the arm, whatever batch it falls into. Where the
    devices do there is one for each batch, and for that batch alone: its noise is that of the batch.
    """
    if offer.batches[0].asked.fits_any_batch:
        return ((NO_ARM if offer.arm is None else offer.arm).to_bytes(4, "big"),)
    return tuple(batch.hash for batch in offer.batches)


def arm_scope(stream: str) -> bytes:
    """The scope of an arm's reports, from the name of its stream."""
    return int(stream.removeprefix("arm-")).to_bytes(4, "big")


def stream_of(offer: Offer) -> str:
    """The name of those whose reports count together: an arm's, or those on this offer alone."""
    if offer.batches[0].mechanism.fits_any_batch:
        return f"arm-{NO_ARM if offer.arm is None else offer.arm}"
    return f"offer-{offer.number}"


def share_info(experiment: str, configuration: bytes, scope: bytes, part: int, report: bytes) -> bytes:
    """What both shares of a part are bound to: the seal of one, the expansion of the other's seed."""
    return b"croupier/2 share\0" + experiment.encode() + b"\0" + configuration + scope + bytes([part]) + report


def part_lengths(offer: Offer, overhead: int) -> tuple[int, ...]:
    """How long each sealed share is."""
    return tuple(WORD * (batch.asked.outputs or 1) + overhead for batch in offer.batches[: len(scopes(offer))])


def upload_length(offer: Offer, suite: str) -> int:
    """The length of every upload on an offer, whatever is in it."""
    overhead = SUITES[suite].overhead
    if offer.batches[0].mechanism.ring is None:
        shapes = (batch.shape for batch in offer.batches)
        return upload_bytes(((shape.slots, shape.length + overhead) for shape in shapes), overhead)
    return HEADER + shared_upload_bytes(part_lengths(offer, overhead)) + overhead


def shared_upload_bytes(lengths: Sequence[int]) -> int:
    """How long a report is before it is sealed to the front, whatever is in it."""
    return _HEAD.size + sum(lengths)


@dataclass(frozen=True)
class SharedReport:
    """What the front reads: its own token, the report's name, the offer, a seed of its shares, and the sealed ones."""

    report: bytes
    token: bytes
    offer: int
    seed: bytes
    sealed: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        return _HEAD.pack(self.report, self.token, self.offer, self.seed) + b"".join(self.sealed)

    @staticmethod
    def offer_of(data: bytes) -> int:
        """The offer that a report is on, which says how long its parts are."""
        if len(data) < _HEAD.size:
            raise Malformed("a report is shorter than its header")
        return int(_HEAD.unpack_from(data)[2])

    @classmethod
    def from_bytes(cls, data: bytes, lengths: Sequence[int]) -> SharedReport:
        """Read a report whose sealed shares have these lengths."""
        if len(data) != shared_upload_bytes(lengths):
            raise Malformed(f"a report of {len(data)} bytes, where {shared_upload_bytes(lengths)} are due")
        report, token, offer, seed = _HEAD.unpack_from(data)
        at, sealed = _HEAD.size, []
        for length in lengths:
            sealed.append(data[at : at + length])
            at += length
        return cls(report, token, offer, seed, tuple(sealed))
