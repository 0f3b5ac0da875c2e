"""What a server says of each report of a group: bytes that fit or do not, and the first reason against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from croupier.validity.arrays import Mask


class Refusal(StrEnum):
    """Why a report does not count."""

    LENGTH = "wrong-length"
    """A nonce or a share, a verifier share or a message is truncated or padded."""
    FIELD = "not-in-field"
    """A word of a share is no number of the field."""
    POINT = "revealing-point"
    """The random point would show the measurement: once in 2^50 reports or more."""
    PROOF = "wrong-proof"
    """The shares are of no valid measurement, or do not belong together, or to this nonce, context or key."""
    JOINT = "wrong-joint-randomness"
    """The message is not of the public share that the proof was checked with."""


REFUSALS = frozenset(Refusal)


class Rows(NamedTuple):
    """One byte string of each report, cut to a common length; what had another length is blank and marked."""

    rows: list[bytes]
    fit: Mask

    def cut(self, start: int, stop: int) -> list[bytes]:
        return [row[start:stop] for row in self.rows]


def fitted(given: Sequence[object], size: int) -> Rows:
    """These byte strings, if each has `size` bytes; others are replaced by zeros."""
    rows = [one if isinstance(one, bytes) and len(one) == size else None for one in given]
    return Rows(
        [bytes(size) if row is None else row for row in rows], np.array([row is not None for row in rows], bool)
    )


class Verdicts:
    """The first reason against each report, if there is one."""

    def __init__(self, refusals: Iterable[Refusal | None]) -> None:
        self.refusals = list(refusals)

    def refuse(self, why: Refusal, which: Mask) -> None:
        """Whoever has no reason against it yet, and is in `which`, has this one."""
        for report in np.flatnonzero(which):
            self.refusals[report] = self.refusals[report] or why

    def follow(self, answers: Sequence[bytes | Refusal]) -> None:
        """Refuse what the other server refused, for its reason."""
        for report, answer in enumerate(answers):
            if answer in REFUSALS:
                self.refusals[report] = self.refusals[report] or Refusal(answer)

    def or_bytes(self, given: Sequence[bytes]) -> list[bytes | Refusal]:
        return [why or one for why, one in zip(self.refusals, given, strict=True)]
