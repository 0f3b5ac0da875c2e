"""Sums modulo a number that no honest sum exceeds: by secure aggregation, with no intermediary, or split and mixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from croupier.checks import InvalidParameter, integer
from croupier.noise import Noise, Source
from croupier.noise.source import residues
from croupier.protocols.padding import REAL, Shape, TamperedMessage, uncapped
from croupier.protocols.sums.carriers.base import Carrier, Integers
from croupier.validity.shares import Ring

if TYPE_CHECKING:
    from croupier.protocols.sums.planned import PlannedSum

RESIDUE = ">i8"


@dataclass(frozen=True)
class Modular(Carrier):
    """Whole numbers modulo `modulus`, read back as the range [-slack, users·precision + slack]."""

    modulus: int
    slack: int
    noise_from: ClassVar[tuple[str, ...]] = ("batch", "analyzer")
    """Who may add the noise: reports that everyone sees must each be private alone, and only those."""

    def __post_init__(self) -> None:
        integer("modulus", self.modulus, 2, 2**62)
        integer("slack", self.slack, 0, self.modulus)

    def check_plan(self, plan: PlannedSum) -> None:
        """The range must hold every sum."""
        if plan.side != "unbiased":
            raise InvalidParameter("side", plan.side, "unbiased for modular sums")
        integer("modulus", self.modulus, plan.users * plan.precision + 2 * self.slack + 1, 2**62)
        if plan.noise_from not in self.noise_from:
            raise InvalidParameter("noise_from", plan.noise_from, "user where every report is seen, and nowhere else")

    def check_report(self, plan: PlannedSum, report: Integers) -> None:
        if ((report < 0) | (report >= self.modulus)).any():
            raise TamperedMessage(f"a report must lie in [0, {self.modulus})")

    def report(self, plan: PlannedSum, encoded: Integers, source: Source) -> Integers:
        drawn = 0 if plan.noise_from == "analyzer" else plan.share.sample(encoded.shape, source)
        return np.asarray((encoded + drawn) % self.modulus)

    def _decode_listed(self, plan: PlannedSum, view: Integers, listed: int) -> Integers:
        """Add up a view that lists its residues."""
        self.check_report(plan, view)
        received = view.shape[-1 - plan.coordinates] if view.ndim > plan.coordinates else 0
        if received != listed:
            raise TamperedMessage(f"{received} messages came through where {listed} were due")
        return self._signed(sum_modulo(view, -1 - plan.coordinates, self.modulus))

    def _signed(self, total: Integers) -> Integers:
        """[CZ23] Alg. 1 line 28: what exceeds the largest possible sum plus slack has wrapped around from below."""
        return np.where(total >= self.modulus - self.slack, total - self.modulus, total)

    def wrapped(self, total: Integers) -> Integers:
        return self._signed(total % self.modulus)

    def wrap_probability(self, noise: Noise) -> float:
        return min(1.0, 2.0 * float(noise.tail(self.slack)))

    def folded(self, noise: Noise, precision: int) -> float:
        """What lies outside one period around the centre, wherever a user's value moves it."""
        reach = self.modulus // 2 - precision - 1
        return 1.0 if reach < 0 else min(1.0, 2.0 * float(noise.tail(reach)))

    def messages_per_user(self, plan: PlannedSum) -> float:
        return 1.0

    def bits_per_message(self, plan: PlannedSum) -> int:
        return plan.dimension * math.ceil(math.log2(self.modulus))

    def message_bytes(self, plan: PlannedSum) -> int:
        return 8 * plan.dimension

    def pack(self, plan: PlannedSum, report: Integers) -> tuple[bytes, ...]:
        return tuple(unit.astype(RESIDUE).tobytes() for unit in report.reshape(-1, plan.dimension))

    def unpack(self, plan: PlannedSum, messages: Sequence[bytes]) -> Integers:
        units = np.frombuffer(b"".join(messages), dtype=RESIDUE).astype(np.int64).reshape(-1, plan.dimension)
        self.check_report(plan, units)
        return units if plan.coordinates else units[:, 0]

    def repaired(self, plan: PlannedSum, slots: Sequence[bytes | None]) -> tuple[Integers, int]:
        """Every slot holds a residue; what is none counts as zero."""
        length = plan.shape.length
        blank = bytes(length)
        joined = b"".join(slot if slot is not None and len(slot) == length else blank for slot in slots)
        table = np.frombuffer(joined, dtype=np.uint8).reshape(len(slots), length)
        numbers = np.ascontiguousarray(table[:, 1:]).view(RESIDUE).astype(np.int64)
        good = (table[:, 0] == REAL[0]) & ((numbers >= 0) & (numbers < self.modulus)).all(axis=1)
        pieces = np.where(good[:, None], numbers, 0)
        return (pieces if plan.coordinates else pieces[:, 0]), int((~good).sum())


@dataclass(frozen=True)
class SecureAggregation(Modular):
    """Cryptography that reveals the sum of residues modulo m, and nothing else."""

    kind: ClassVar[str] = "secure-aggregation"
    trust: ClassVar[str] = "devices"

    @property
    def ring(self) -> Ring:
        """Two servers that hold shares modulo m are such cryptography."""
        return Ring(self.modulus)

    def shape(self, plan: PlannedSum) -> Shape:
        return Shape(1, self.message_bytes(plan), 0)

    def collect(self, plan: PlannedSum, reports: Integers) -> Integers:
        return sum_modulo(reports, -1 - plan.coordinates, self.modulus)

    def decode(self, plan: PlannedSum, view: Integers) -> Integers:
        self.check_report(plan, view)
        return self._signed(view)

    def unpack(self, plan: PlannedSum, messages: Sequence[bytes]) -> Integers:
        if len(messages) != 1:
            raise TamperedMessage(f"{len(messages)} sums came out of secure aggregation where one was due")
        return np.asarray(super().unpack(plan, messages)[0])


@dataclass(frozen=True)
class Plain(Modular):
    """No intermediary: the analyzer sees every report, so each must be private by itself."""

    kind: ClassVar[str] = "plain"
    trust: ClassVar[str] = "nobody"
    lists_reports: ClassVar[bool] = True
    noise_from: ClassVar[tuple[str, ...]] = ("user",)

    def collect(self, plan: PlannedSum, reports: Integers) -> Integers:
        return reports

    def decode(self, plan: PlannedSum, view: Integers) -> Integers:
        return self._decode_listed(plan, view, plan.users)

    def shape(self, plan: PlannedSum) -> Shape:
        return uncapped(1, self.message_bytes(plan), 0)


@dataclass(frozen=True)
class SplitAndMix(Modular):
    """Secure aggregation by a shuffler: each user splits their residue into random pieces that add up to it.

    The shuffled pieces of a batch are within statistical distance 2^-security of a function of the sum alone, as long
    as `least_users` honest users take part (worst case; spec and docs give the bound).
    """

    pieces: int
    security: int
    kind: ClassVar[str] = "split-and-mix"
    trust: ClassVar[str] = "shuffler"
    report_axes: ClassVar[int] = 1
    takes_front_noise: ClassVar[bool] = True
    least_users: ClassVar[int] = 19

    @property
    def distance(self) -> float:
        return 2.0**-self.security

    def check_plan(self, plan: PlannedSum) -> None:
        """Fewer pieces than the bound asks for would show each user's residue."""
        super().check_plan(plan)
        integer("security", self.security, 1, 4096)
        integer("pieces", self.pieces, self._for(plan, self.security).pieces)

    def secured(self, plan: PlannedSum, security: int) -> SplitAndMix:
        return self if self.security >= security else self._for(plan, security)

    def _for(self, plan: PlannedSum, security: int) -> SplitAndMix:
        return SplitAndMix.for_batch(self.modulus, self.slack, plan.honest, security, plan.dimension)

    def report(self, plan: PlannedSum, encoded: Integers, source: Source) -> Integers:
        """Pieces on an axis after the users, each a residue or a vector of residues."""
        return self._split(super().report(plan, encoded, source), source, plan.coordinates)

    def front_report(self, plan: PlannedSum, source: Source) -> Integers:
        """The pieces of so many parties who have noise and no value, one piece after another.

        The bound is for any inputs, so the first party may hold all of their noise.
        """
        shares, shape = plan.front_shares, plan.value_shape
        residue = np.zeros((shares, *shape), dtype=np.int64)
        residue[0] = plan.share.times(shares).sample(shape, source) % self.modulus
        return self._split(residue, source, len(shape)).reshape(-1, *shape)

    def join(self, plan: PlannedSum, view: Integers, front: Integers) -> Integers:
        return self._listed(np.concatenate((view, front), axis=-1 - plan.coordinates), plan.coordinates)

    def _split(self, residue: Integers, source: Source, coordinates: int) -> Integers:
        axis = residue.ndim - coordinates
        shape = (*residue.shape[:axis], self.pieces - 1, *residue.shape[axis:])
        random = residues(self.modulus, shape, source)
        last = (residue - sum_modulo(random, axis, self.modulus)) % self.modulus
        return np.concatenate((random, np.expand_dims(last, axis)), axis=axis)

    def collect(self, plan: PlannedSum, reports: Integers) -> Integers:
        """The pieces of all users as a multiset, listed in rising order: a uniform permutation says no more."""
        users = reports.ndim - plan.coordinates - 2
        pooled = reports.reshape(*reports.shape[:users], -1, *reports.shape[users + 2 :])
        return self._listed(pooled, plan.coordinates)

    def _listed(self, pooled: Integers, coordinates: int) -> Integers:
        if not coordinates:
            return np.sort(pooled, axis=-1)
        order = np.lexsort(tuple(pooled[..., i] for i in reversed(range(pooled.shape[-1]))), axis=-1)
        return np.take_along_axis(pooled, order[..., None], axis=-2)

    def decode(self, plan: PlannedSum, view: Integers) -> Integers:
        return self._decode_listed(plan, view, (plan.users + plan.front_shares) * self.pieces)

    def messages_per_user(self, plan: PlannedSum) -> float:
        return float(self.pieces)

    def shape(self, plan: PlannedSum) -> Shape:
        return uncapped(self.pieces, self.message_bytes(plan), plan.front_shares * self.pieces)

    @classmethod
    def for_batch(cls, modulus: int, slack: int, honest: int, security: int, dimension: int = 1) -> SplitAndMix:
        """The fewest pieces: M = max{3, ⌈(2κ + log₂|G|)/(log₂ n - log₂ e) + 2⌉} over G = Z_q^dimension [BBGN20]."""
        if honest < cls.least_users:
            raise InvalidParameter("users", honest, f"at least {cls.least_users} honest users for split-and-mix")
        size = dimension * math.log2(modulus)
        pieces = math.ceil((2 * security + size) / (math.log2(honest) - math.log2(math.e)) + 2)
        return cls(modulus, slack, max(3, pieces), security)


def sum_modulo(values: Integers, axis: int, modulus: int) -> Integers:
    """Add residues; where 64 bits might not hold the sum, in exact integers."""
    if modulus * values.shape[axis] < 2**63:
        return np.asarray(values.sum(axis=axis) % modulus)
    return np.asarray(values.astype(object).sum(axis=axis) % modulus, dtype=np.int64)
