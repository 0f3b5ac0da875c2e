"""What a planned histogram and a planned selection share: an oracle with its claim, its batch and its serial form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from croupier.checks import InvalidParameter, one_of
from croupier.noise import Source
from croupier.privacy import Guarantee, Loss
from croupier.protocols.histograms.oracles import CHUNK, Integers, Progress, Reports, Selector, gathered, seat_of
from croupier.protocols.histograms.target import CONSTANTS, MODELS, certificate_of, oracle_from_dict
from croupier.protocols.mechanism import MOST_MESSAGES, VERSION, Certificate, Decoded, Mechanism, Residual
from croupier.protocols.padding import Shape
from croupier.protocols.sums.values import array_of


@dataclass(frozen=True, repr=False)
class Planned(Mechanism):
    """An oracle for one batch size and what it claims: frozen, serializable, with its certificate."""

    asks: ClassVar[str]
    """What is asked about its items, in words."""
    model: str
    constants: str
    oracle: Selector
    guarantee: Guarantee

    def __repr__(self) -> str:
        """What is asked of whom, and what is promised."""
        asked = f"{self.asks} {self.size:,} items in the {self.model} model"
        return f"{asked} for {self.users:,} users: {self.guarantee}"

    @property
    def size(self) -> int:
        return self.oracle.size

    @property
    def users(self) -> int:  # type: ignore[override]
        return self.oracle.users

    @property
    def honest(self) -> int:  # type: ignore[override]
        return self.oracle.honest

    @property
    def front_shares(self) -> int:  # type: ignore[override]
        return self.oracle.front_shares

    @property
    def trust(self) -> str:
        return self.oracle.trust

    @property
    def loss(self) -> Loss:
        """The privacy loss of one user's change from one item to another, against whoever sees the view."""
        return self.oracle.loss

    def certificate(self) -> Certificate:
        return certificate_of(self.oracle, self.guarantee)

    @property
    def messages_per_user(self) -> float:
        return self.oracle.messages_per_user

    @property
    def message_bits(self) -> int:
        """A message is a label and nothing else."""
        return self.oracle.message_bits

    @property
    def bits_per_user(self) -> float:
        return self.messages_per_user * self.message_bits

    @abstractmethod
    def randomize(self, value: Any, source: Source, *, seat: int | None = None) -> Integers:
        """What a user holds, as labelled messages."""

    def collect(self, reports: Reports | Iterable[ArrayLike]) -> Integers:
        """What the intermediary lets through of a whole batch of reports: how many messages carry each label."""
        batch = gathered(reports)
        if len(batch) != self.users:
            raise InvalidParameter("reports", len(batch), f"a batch of exactly {self.users} reports")
        return self.oracle.counted(batch.labels)

    def pack(self, report: ArrayLike) -> tuple[bytes, ...]:
        """One report as messages: each label big-endian, in as many bytes as the largest label needs."""
        labels = np.asarray(report, dtype=np.int64)
        if len(labels) > MOST_MESSAGES:
            raise InvalidParameter("messages", len(labels), f"at most {MOST_MESSAGES}: this is for simulation only")
        return self.oracle.pack(labels)

    def unpack(self, messages: Sequence[bytes]) -> Integers:
        """The view that a whole batch's messages make; anything malformed is refused."""
        return self.oracle.unpack(messages)

    def _shape(self) -> Shape:
        return self.oracle.shape(self.guarantee)

    def _messages(self, value: object, source: Source) -> tuple[bytes, ...]:
        labels = self.randomize(value, source)
        while len(labels) > self.shape.slots:
            labels = self.randomize(value, source)
        return self.pack(labels)

    def _front_messages(self, source: Source) -> tuple[bytes, ...]:
        return self.oracle.pack(self.oracle.front_labels(source))

    def _decoded(self, slots: Sequence[bytes | None]) -> Decoded:
        counts, damaged = self.oracle.repaired(self.shape, slots)
        return Decoded(self._told(counts), damaged)

    @abstractmethod
    def _told(self, decoded: Integers) -> int | tuple[int, ...]:
        """What is published of a number for each item."""

    @property
    def residual(self) -> Residual:
        return self.oracle.residual

    def _report(self, index: Integers, source: Source, seat: int | None) -> Integers:
        return self.oracle.report(index, source, seat_of(self.oracle, seat)).labels

    def _gathered(self, indices: Integers, source: Source, progress: Progress) -> Integers:
        if indices.shape != (self.users,):
            raise InvalidParameter("items", len(indices), f"a batch of exactly {self.users} items")
        return self.oracle.gather(indices, source, progress)

    def _in_law(self, counts: ArrayLike, source: Source) -> Integers:
        array = array_of(counts)
        if array.shape != (self.size,) or not np.issubdtype(array.dtype, np.integer) or (array < 0).any():
            raise InvalidParameter("counts", f"an array of shape {array.shape}", f"{self.size} whole numbers >= 0")
        if int(array.sum()) != self.users:
            raise InvalidParameter("counts", f"{int(array.sum())} users in all", f"{self.users} users in all")
        return self.oracle.law(array.astype(np.int64), source)

    def exposed(self, end: int, trials: int, source: Source, progress: Callable[[int], None] | None = None) -> Integers:
        """The first user holds item 0 or 1, and everybody else one of the two.

        Where every report is seen, the first user's own tells most; elsewhere what the oracle says of its view.
        """
        if self.oracle.lists_reports:
            return self.oracle.report(np.full(trials, end), source, np.zeros(trials, dtype=np.int64)).labels
        batch = np.arange(self.users) % 2
        batch[0] = end
        rows = max(1, int(CHUNK // (self.users * max(1.0, self.messages_per_user))))
        drawn = []
        for done in range(0, trials, rows):
            now = min(rows, trials - done)
            drawn.append(self._telling(batch, now, source))
            if progress is not None:
                progress(now)
        return np.concatenate(drawn)

    def _telling(self, batch: Integers, batches: int, source: Source) -> Integers:
        seats = np.tile(np.arange(self.users), batches)
        reports = self.oracle.report(np.tile(batch, batches), source, seats)
        owners = np.repeat(np.arange(batches), reports.lengths.reshape(batches, -1).sum(axis=1))
        labels = self.oracle.labels
        views = np.bincount(owners * labels + reports.labels, minlength=batches * labels).reshape(batches, labels)
        return self.oracle.telling(views, np.bincount(batch[1:], minlength=2), source)

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "kind": self.kind,
            "model": self.model,
            "constants": self.constants,
            "ballot": self.oracle.to_dict(),
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def _read(cls, body: dict[str, Any], affordable: bool) -> Self:
        """Whatever a mechanism claims must be what its noise proves."""
        one_of("model", body["model"], MODELS)
        one_of("constants", body["constants"], CONSTANTS)
        oracle, claim = oracle_from_dict(body.pop("ballot")), Guarantee.from_dict(body["guarantee"])
        if affordable and not oracle.affordable:
            raise InvalidParameter("share", oracle, f"noise that {oracle.users} devices can compute with")
        certificate = certificate_of(oracle, claim)
        if not certificate.holds or (claim.notion == "pure") != (claim.delta == 0):
            raise InvalidParameter("guarantee", str(claim), f"what the noise proves: δ = {certificate.delta:.3g}")
        return cls(**body | {"oracle": oracle, "guarantee": claim})
