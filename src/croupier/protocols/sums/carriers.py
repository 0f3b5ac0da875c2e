"""What the intermediary does with a batch, and so what the analyzer sees.

A carrier turns a user's encoded value and noise into a report, a batch of reports into a view, and a view back into
one whole number: the encoded sum plus all noise. Encoded values are arrays with any leading axes, then the users,
then `coordinates` axes (one for vectors, none for numbers), so one line serves a client, a batch and a million
simulated batches. These are the ideal functionalities: the view holds what a perfect intermediary would let through,
and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.noise import Binomial, Noise, Poisson, Polya, SparseBits
from croupier.noise.source import Source, residues

if TYPE_CHECKING:
    from croupier.protocols.sums.mechanism import Mechanism

Integers = NDArray[np.int64]


class TamperedMessage(CroupierError, ValueError):
    """A report or a view that no honest party could have produced."""


@dataclass(frozen=True)
class ShuffledMessages:
    """A shuffler that permutes labelled messages: only how many there are of each kind comes through.

    A report is (zeros, ones) per coordinate: `value_messages` messages carry the value in unary, the rest are noise.
    """

    kind: ClassVar[str] = "shuffled-messages"
    value_messages: int

    def check_plan(self, plan: Mechanism) -> None:
        """Values travel in unary among bits, or as counted messages among Poisson or Pólya noise."""
        counted = isinstance(plan.share, Poisson | Polya)
        due = 0 if counted else plan.precision
        integer("value_messages", self.value_messages, due, due)
        if not isinstance(plan.share, Poisson | Polya | SparseBits | Binomial):
            raise InvalidParameter("share", plan.share, "noise that is sent as messages")
        if plan.noise_from != "batch" or (plan.side == "unbiased") == counted:
            raise InvalidParameter("noise_from", plan.noise_from, "batch, and counts err to one side")

    def report(self, encoded: Integers, noise: Noise | None, source: Source, coordinates: int) -> Integers:
        assert noise is not None
        zeros, ones = _tally(noise, encoded.size, source)
        silent = 0 if self.value_messages == 0 else self.value_messages - encoded
        return np.stack((zeros.reshape(encoded.shape) + silent, ones.reshape(encoded.shape) + encoded), axis=-1)

    def collect(self, reports: Integers, coordinates: int) -> Integers:
        return np.asarray(reports.sum(axis=-2 - coordinates))

    def front_report(self, noise: Noise, shares: int, source: Source, shape: tuple[int, ...]) -> Integers:
        """The noise of so many parties without a value: zeros and ones, per coordinate."""
        zeros, ones = _tally(noise.times(shares), math.prod(shape), source)
        return np.stack((zeros.reshape(shape), ones.reshape(shape)), axis=-1)

    def join(self, view: Integers, front: Integers, coordinates: int) -> Integers:
        """A view with the front's own messages among the others."""
        return view + front

    def check_report(self, report: Integers, noise: Noise) -> None:
        self._check(report, noise, 1, 0)

    def decode(self, view: Integers, users: int, noise: Noise, coordinates: int, front: int = 0) -> Integers:
        self._check(view, noise, users, front)
        zeros, ones = view[..., 0], view[..., 1]
        return ones - zeros + users * self.value_messages if isinstance(noise, SparseBits) else ones

    def weight(self, noise: Noise) -> int:
        """How far one encoded unit moves the decoded number: ones minus zeros move by two."""
        return 2 if isinstance(noise, SparseBits) else 1

    def _check(self, tallies: Integers, noise: Noise, users: int, front: int) -> None:
        if tallies.shape[-1:] != (2,) or (tallies < 0).any():
            raise TamperedMessage("a tally must be two whole numbers >= 0: zeros and ones")
        sent = tallies.sum(axis=-1)
        least, most = self._noise_range(noise)
        parties, own = users + front, users * self.value_messages
        if (sent < own + parties * least).any() or (most is not None and (sent > own + parties * most).any()):
            least, most = self.value_messages + least, None if most is None else self.value_messages + most
            raise TamperedMessage(
                f"{int(sent.flat[0])} messages from {users} users; each sends {least}"
                + ("" if most == least else f" to {most}" if most is not None else " or more")
                + (f", and the front the noise of {front} more" if front else "")
            )
        if self.value_messages == 0 and tallies[..., 0].any():
            raise TamperedMessage("a counted message is always a one, and a zero was found")

    def _noise_range(self, noise: Noise) -> tuple[int, int | None]:
        """The fewest and the most messages that one party's noise can be."""
        if isinstance(noise, SparseBits):
            return (noise.slots if noise.rate == 1 else 0), noise.slots
        if isinstance(noise, Binomial):
            return noise.trials, noise.trials
        return 0, None

    def messages_per_user(self, noise: Noise, dimension: int) -> float:
        """On average, at most: a counted value sends one message of its own."""
        if isinstance(noise, SparseBits):
            extra = float(noise.variance)
        elif isinstance(noise, Binomial):
            extra = float(noise.trials)
        else:
            extra = noise.mean
        return dimension * (max(self.value_messages, 1) + extra)

    def bits_per_message(self, dimension: int) -> int:
        label = math.ceil(math.log2(dimension)) if dimension > 1 else 0
        return label + (1 if self.value_messages else 0) if label + self.value_messages else 1


@dataclass(frozen=True)
class _Modular:
    """Whole numbers modulo `modulus`, read back as the range [-slack, users·precision + slack]."""

    modulus: int
    slack: int
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        integer("modulus", self.modulus, 2, 2**62)
        integer("slack", self.slack, 0, self.modulus)

    def check_plan(self, plan: Mechanism) -> None:
        """The range must hold every sum; reports that everyone sees must each be private alone, and only those."""
        if plan.side != "unbiased":
            raise InvalidParameter("side", plan.side, "unbiased for modular sums")
        integer("modulus", self.modulus, plan.users * plan.precision + 2 * self.slack + 1, 2**62)
        if (plan.noise_from == "user") != isinstance(self, Plain):
            raise InvalidParameter("noise_from", plan.noise_from, "user where every report is seen, and nowhere else")

    def check_report(self, report: Integers, noise: Noise) -> None:
        if ((report < 0) | (report >= self.modulus)).any():
            raise TamperedMessage(f"a report must lie in [0, {self.modulus})")

    def weight(self, noise: Noise) -> int:
        return 1

    def report(self, encoded: Integers, noise: Noise | None, source: Source, coordinates: int) -> Integers:
        drawn = 0 if noise is None else noise.sample(encoded.shape, source)
        return np.asarray((encoded + drawn) % self.modulus)

    def _decode_listed(self, view: Integers, listed: int, noise: Noise, coordinates: int) -> Integers:
        """Add up a view that lists its residues."""
        self.check_report(view, noise)
        found = view.shape[-1 - coordinates]
        if found != listed:
            raise TamperedMessage(f"{found} messages came through where {listed} were due")
        return self.signed(_sum_modulo(view, -1 - coordinates, self.modulus))

    def signed(self, total: Integers) -> Integers:
        """[CZ23] Alg. 1 line 28: what exceeds the largest possible sum plus slack has wrapped around from below."""
        return np.where(total >= self.modulus - self.slack, total - self.modulus, total)

    def bits_per_message(self, dimension: int) -> int:
        return dimension * math.ceil(math.log2(self.modulus))


@dataclass(frozen=True)
class SecureAggregation(_Modular):
    """Cryptography that reveals the sum of residues modulo m, and nothing else."""

    kind: ClassVar[str] = "secure-aggregation"

    def collect(self, reports: Integers, coordinates: int) -> Integers:
        return _sum_modulo(reports, -1 - coordinates, self.modulus)

    def decode(self, view: Integers, users: int, noise: Noise, coordinates: int, front: int = 0) -> Integers:
        self.check_report(view, noise)
        return self.signed(view)

    def messages_per_user(self, noise: Noise, dimension: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Plain(_Modular):
    """No intermediary: the analyzer sees every report, so each must be private by itself."""

    kind: ClassVar[str] = "plain"

    def collect(self, reports: Integers, coordinates: int) -> Integers:
        return reports

    def decode(self, view: Integers, users: int, noise: Noise, coordinates: int, front: int = 0) -> Integers:
        return self._decode_listed(view, users, noise, coordinates)

    def messages_per_user(self, noise: Noise, dimension: int) -> float:
        return 1.0


@dataclass(frozen=True)
class SplitAndMix(_Modular):
    """Secure aggregation by a shuffler: each user splits their residue into random pieces that add up to it.

    The shuffled pieces of a batch are within statistical distance 2^-security of a function of the sum alone, as long
    as `least_users` honest users take part (worst case; spec and docs give the bound).
    """

    pieces: int
    security: int
    kind: ClassVar[str] = "split-and-mix"
    least_users: ClassVar[int] = 19

    def check_plan(self, plan: Mechanism) -> None:
        """Fewer pieces than the bound asks for would show each user's residue."""
        super().check_plan(plan)
        integer("security", self.security, 1, 4096)
        least = SplitAndMix.for_batch(self.modulus, self.slack, plan.honest, self.security, plan.dimension).pieces
        integer("pieces", self.pieces, least)

    def report(self, encoded: Integers, noise: Noise | None, source: Source, coordinates: int) -> Integers:
        """Pieces on an axis after the users, each a residue or a vector of residues."""
        return self._split(super().report(encoded, noise, source, coordinates), source, coordinates)

    def front_report(self, noise: Noise, shares: int, source: Source, shape: tuple[int, ...]) -> Integers:
        """The pieces of so many parties who have noise and no value, one piece after another.

        The bound is for any inputs, so the first party may hold all of their noise.
        """
        residue = np.zeros((shares, *shape), dtype=np.int64)
        residue[0] = noise.times(shares).sample(shape, source) % self.modulus
        return self._split(residue, source, len(shape)).reshape(-1, *shape)

    def join(self, view: Integers, front: Integers, coordinates: int) -> Integers:
        """A view with the front's own pieces among the others."""
        return self._listed(np.concatenate((view, front), axis=-1 - coordinates), coordinates)

    def _split(self, residue: Integers, source: Source, coordinates: int) -> Integers:
        axis = residue.ndim - coordinates
        shape = (*residue.shape[:axis], self.pieces - 1, *residue.shape[axis:])
        random = residues(self.modulus, shape, source)
        last = (residue - _sum_modulo(random, axis, self.modulus)) % self.modulus
        return np.concatenate((random, np.expand_dims(last, axis)), axis=axis)

    def collect(self, reports: Integers, coordinates: int) -> Integers:
        """The pieces of all users as a multiset, listed in rising order: a uniform permutation says no more."""
        users = reports.ndim - coordinates - 2
        return self._listed(reports.reshape(*reports.shape[:users], -1, *reports.shape[users + 2 :]), coordinates)

    def _listed(self, pooled: Integers, coordinates: int) -> Integers:
        if not coordinates:
            return np.sort(pooled, axis=-1)
        order = np.lexsort(tuple(pooled[..., i] for i in reversed(range(pooled.shape[-1]))), axis=-1)
        return np.take_along_axis(pooled, order[..., None], axis=-2)

    def decode(self, view: Integers, users: int, noise: Noise, coordinates: int, front: int = 0) -> Integers:
        return self._decode_listed(view, (users + front) * self.pieces, noise, coordinates)

    def messages_per_user(self, noise: Noise, dimension: int) -> float:
        return float(self.pieces)

    @classmethod
    def for_batch(cls, modulus: int, slack: int, honest: int, security: int, dimension: int = 1) -> SplitAndMix:
        """The fewest pieces: M = max{3, ⌈(2κ + log₂|G|)/(log₂ n - log₂ e) + 2⌉} over G = Z_q^dimension [BBGN20]."""
        if honest < cls.least_users:
            raise InvalidParameter("users", honest, f"at least {cls.least_users} honest users for split-and-mix")
        size = dimension * math.log2(modulus)
        pieces = math.ceil((2 * security + size) / (math.log2(honest) - math.log2(math.e)) + 2)
        return cls(modulus, slack, max(3, pieces), security)


Carrier = ShuffledMessages | SecureAggregation | Plain | SplitAndMix

CARRIERS: dict[str, type[Any]] = {c.kind: c for c in (ShuffledMessages, SecureAggregation, Plain, SplitAndMix)}


def _tally(noise: Noise, count: int, source: Source) -> tuple[Integers, Integers]:
    """Noise as messages: the zeros and the ones that each of `count` users adds."""
    if isinstance(noise, SparseBits):
        return noise.bits.draw(count, source)
    ones = noise.sample(count, source)
    zeros = noise.trials - ones if isinstance(noise, Binomial) else np.zeros_like(ones)
    return zeros, ones


def _sum_modulo(values: Integers, axis: int, modulus: int) -> Integers:
    """Add residues; where 64 bits might not hold the sum, in exact integers."""
    if modulus * values.shape[axis] < 2**63:
        return np.asarray(values.sum(axis=axis) % modulus)
    return np.asarray(values.astype(object).sum(axis=axis) % modulus, dtype=np.int64)
