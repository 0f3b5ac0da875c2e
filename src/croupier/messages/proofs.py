"""A report with its proof, as the two servers get it: the front is Prio3's helper, the analyzer its leader.

Both shares are bound to the same bytes, `info`, which name experiment, configuration, arm, part and report: they are
Prio3's context, and the report's name is its nonce. Where a type has joint randomness each server also gets the other's
part of it, which is half of Prio3's public share. Nothing here needs NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from croupier.validity import Prio3
from croupier.validity.xof import SEED


class Shares(NamedTuple):
    """What one report is to each server."""

    front: bytes
    analyzer: bytes


class Share(NamedTuple):
    """What one server has of a report, as Prio3 reads it."""

    public: bytes
    share: bytes


def lengths(prio3: Prio3) -> tuple[int, int]:
    """Bytes for the front, and for the analyzer."""
    part = SEED if prio3.joint else 0
    return prio3.sizes.helper + part, prio3.sizes.leader + part


def prove(prio3: Prio3, numbers: Sequence[int], report: bytes, info: bytes, rand: bytes | None = None) -> Shares:
    """Split what a report adds to a sum, and prove that it is in range; what is not is refused here.

    >>> from croupier.validity import prio3_count
    >>> [len(share) for share in prove(prio3_count(), [1], bytes(16), b"experiment, arm, report")]
    [32, 48]
    """
    public, leader, helper = prio3.shard(prio3.circuit.measurement(numbers), report, info, rand)
    return Shares(helper + public[:SEED], leader + public[SEED:])


def front_share(prio3: Prio3, data: bytes) -> Share:
    """What the front was sent; its own half of the public share is not looked at."""
    share, part = data[: prio3.sizes.helper], data[prio3.sizes.helper :]
    return Share(part + bytes(len(part)), share)


def analyzer_share(prio3: Prio3, data: bytes) -> Share:
    """What the analyzer was sent."""
    share, part = data[: prio3.sizes.leader], data[prio3.sizes.leader :]
    return Share(bytes(len(part)) + part, share)
