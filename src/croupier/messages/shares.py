"""A report in shares: one share for the front, the other sealed to the analyzer; `docs/wire.md` has every byte.

What a share is bound to names its experiment, configuration, arm, encoding or batch, and report. So no server can count
it under another arm, as another kind of value, under another report's name, or twice.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from croupier.messages import proofs
from croupier.messages.asked import Asked
from croupier.messages.offer import Offer
from croupier.messages.sealing import SUITES
from croupier.messages.wire import HEADER, REPORT_ID, TOKEN, Malformed, upload_bytes
from croupier.validity.xof import SEED

NO_ARM = 2**32 - 1
SEVERAL, ITEM = 3, 4
SCALES = {
    "range": (1, ("low", "high")),
    "moments": (2, ("features", "places", "weight", "centred", "control")),
    "ball": (5, ("diameter",)),
}
"""Of each kind of values its number in an encoding, and what else decides what a report's numbers mean."""
_ENCODING = struct.Struct(">BIQ")
_HEAD = struct.Struct(f">{REPORT_ID}s{TOKEN}sI")


def scopes(offer: Offer) -> tuple[bytes, ...]:
    """What each part of a report on this offer is for.

    Where the servers add the noise there is one part, and it is for the arm, whatever batch it falls into; in blocks it
    is for the arm in its epoch, so that it counts under the odds of its turn. It is for its encoding, too: noise hides
    what a report can change at most, and that is another number under another encoding. Where the devices add it there
    is one part for each batch, and for that batch alone: its noise is that of the batch.
    """
    asked = offer.batches[0].asked
    if asked.fits_any_batch:
        return (arm_scope(_arm_stream(offer), asked),)
    return tuple(batch.hash for batch in offer.batches)


def arm_scope(stream: str, asked: Asked) -> bytes:
    """The scope of an arm's reports, from the name of its stream and what the batch asks for."""
    numbers = stream.removeprefix("arm-").split("-")
    return b"".join(int(number).to_bytes(4, "big") for number in numbers) + encoding_of(asked)


def encoding_of(asked: Asked) -> bytes:
    """How the numbers of a report stand for a value: their kind, how many they are, the largest, and their scales.

    >>> from croupier.protocols import laplace
    >>> encoding_of(laplace(epsilon=1.0, low=-1.0, high=3.0, trust="two-servers").plan(users=100)).hex(" ", 8)
    '0100000001 000000000000007f bff0000000000000 4008000000000000'
    """
    recipe = asked.recipe
    if "sums" in recipe:
        kind, largest = SEVERAL, recipe["sums"][0]["precision"]
        scales = [one["values"][end] for one in recipe["sums"] for end in SCALES["range"][1]]
    elif "values" in recipe:
        kind, names = SCALES[recipe["values"]["kind"]]
        largest, scales = recipe["precision"], [recipe["values"][name] for name in names]
    else:
        kind, largest, scales = ITEM, 1, []
    return _ENCODING.pack(kind, asked.outputs or 1, largest) + struct.pack(f">{len(scales)}d", *scales)


def stream_of(offer: Offer) -> str:
    """The name of those whose reports count together: an arm's, in blocks one epoch's, or those on this offer alone."""
    return _arm_stream(offer) if offer.batches[0].mechanism.fits_any_batch else f"offer-{offer.number}"


def _arm_stream(offer: Offer) -> str:
    arm = f"arm-{NO_ARM if offer.arm is None else offer.arm}"
    return arm if offer.block is None else f"{arm}-{offer.block.epoch}"


def share_info(experiment: str, configuration: bytes, scope: bytes, part: int, report: bytes) -> bytes:
    """What both shares of a part are bound to: the seal of one, the expansion of the other's seed."""
    return b"croupier/2 share\0" + experiment.encode() + b"\0" + configuration + scope + bytes([part]) + report


class Form(NamedTuple):
    """How long everything is in a report in shares, whatever is in it: the front's share, and each sealed one."""

    front: int
    parts: tuple[int, ...]

    @property
    def size(self) -> int:
        """The report before it is sealed to the front."""
        return _HEAD.size + self.front + sum(self.parts)


def form(offer: Offer, suite: str, *, proved: bool) -> Form:
    """The form of every report on an offer; `proved` says whether it comes with a proof."""
    overhead = SUITES[suite].overhead
    prio3 = offer.batches[0].asked.prio3 if proved else None
    if prio3 is not None:
        front, analyzer = proofs.lengths(prio3)
        return Form(front, (analyzer + overhead,))
    asked = [batch.asked for batch in offer.batches[: len(scopes(offer))]]
    return Form(SEED, tuple(one.ring.size * (one.outputs or 1) + overhead for one in asked if one.ring is not None))


def upload_length(offer: Offer, suite: str, *, proved: bool) -> int:
    """The length of every upload on an offer, whatever is in it."""
    overhead = SUITES[suite].overhead
    if offer.batches[0].mechanism.ring is None:
        shapes = (batch.shape for batch in offer.batches)
        return upload_bytes(((shape.slots, shape.length + overhead) for shape in shapes), overhead)
    return HEADER + form(offer, suite, proved=proved).size + overhead


@dataclass(frozen=True)
class SharedReport:
    """What the front reads: its own token, the report's name, the offer, its share, and the analyzer's sealed ones.

    Its share begins with a seed, and is no more than that where the report comes without a proof.
    """

    report: bytes
    token: bytes
    offer: int
    share: bytes
    sealed: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        return _HEAD.pack(self.report, self.token, self.offer) + self.share + b"".join(self.sealed)

    @staticmethod
    def offer_of(data: bytes) -> int:
        """The offer that a report is on, which says how long its parts are."""
        if len(data) < _HEAD.size:
            raise Malformed("a report is shorter than its header")
        return int(_HEAD.unpack_from(data)[2])

    @classmethod
    def from_bytes(cls, data: bytes, form: Form) -> SharedReport:
        """Read a report of this form."""
        if len(data) != form.size:
            raise Malformed(f"a report of {len(data)} bytes, where {form.size} are due")
        report, token, offer = _HEAD.unpack_from(data)
        at, pieces = _HEAD.size, []
        for length in (form.front, *form.parts):
            pieces.append(data[at : at + length])
            at += length
        return cls(report, token, offer, pieces[0], tuple(pieces[1:]))
