"""What a planned histogram and a planned selection share: a ballot with its claim, its batch and its serial form."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from croupier.checks import InvalidParameter, one_of
from croupier.noise import Source
from croupier.privacy import Guarantee, Loss
from croupier.protocols.histograms.oracles import Ballot, Integers, Progress, Reports, seat_of
from croupier.protocols.histograms.target import CONSTANTS, MODELS, ballot_from_dict, certificate_of
from croupier.protocols.sums.carriers import TamperedMessage
from croupier.protocols.sums.mechanism import VERSION, Certificate, canonical
from croupier.protocols.sums.wire import MOST_MESSAGES


@dataclass(frozen=True)
class Planned:
    """A ballot for one batch size and what it claims: frozen, serializable, with its certificate."""

    model: str
    constants: str
    ballot: Ballot
    guarantee: Guarantee

    @property
    def size(self) -> int:
        return self.ballot.size

    @property
    def users(self) -> int:
        return self.ballot.users

    @property
    def honest(self) -> int:
        return self.ballot.honest

    @property
    def front_shares(self) -> int:
        return self.ballot.front_shares

    @property
    def possible(self) -> tuple[int, int]:
        """Between which numbers every count lies; see `Mechanism.possible`."""
        return self.ballot.possible

    @property
    def loss(self) -> Loss:
        """The privacy loss of one user's change from one item to another, against whoever sees the view."""
        return self.ballot.loss

    def certificate(self) -> Certificate:
        """Recompute the privacy from the noise itself, and set it beside the claim."""
        return certificate_of(self.ballot, self.guarantee)

    @property
    def messages_per_user(self) -> float:
        return self.ballot.messages_per_user

    @property
    def message_bits(self) -> int:
        """A message is a label and nothing else."""
        return max(1, math.ceil(math.log2(self.ballot.labels)))

    @property
    def bits_per_user(self) -> float:
        return self.messages_per_user * self.message_bits

    @property
    def simulation_only(self) -> bool:
        """Whether a device would have to send more messages than anyone would."""
        return self.messages_per_user > MOST_MESSAGES

    def collect(self, reports: Reports | Iterable[ArrayLike]) -> Integers:
        """What the intermediary lets through of a whole batch of reports: how many messages carry each label."""
        if isinstance(reports, Reports):
            found, labels = len(reports), reports.labels
        else:
            listed = [np.asarray(report) for report in reports]
            if any(report.ndim != 1 or not np.issubdtype(report.dtype, np.integer) for report in listed):
                raise TamperedMessage("a report is a list of whole labels")
            found, labels = len(listed), np.concatenate(listed) if listed else np.empty(0, dtype=np.int64)
        if found != self.users:
            raise InvalidParameter("reports", found, f"a batch of exactly {self.users} reports")
        return self._counted(labels)

    def _counted(self, labels: Integers) -> Integers:
        if ((labels < 0) | (labels >= self.ballot.labels)).any():
            raise TamperedMessage(f"a label must lie in [0, {self.ballot.labels})")
        return np.bincount(labels, minlength=self.ballot.labels)

    def pack(self, report: ArrayLike) -> tuple[bytes, ...]:
        """One report as messages: each label big-endian, in as many bytes as the largest label needs."""
        labels = np.asarray(report, dtype=np.int64)
        if len(labels) > MOST_MESSAGES:
            raise InvalidParameter("messages", len(labels), f"at most {MOST_MESSAGES}: this is for simulation only")
        self._counted(labels)
        return tuple(label.to_bytes(self._message_bytes, "big") for label in labels.tolist())

    def unpack(self, messages: Sequence[bytes]) -> Integers:
        """The view that a whole batch's messages make; anything malformed is refused."""
        if any(len(message) != self._message_bytes for message in messages):
            raise TamperedMessage(f"every message has {self._message_bytes} bytes")
        labels = [int.from_bytes(message, "big") for message in messages]
        return self._counted(np.asarray(labels, dtype=np.int64))

    @property
    def _message_bytes(self) -> int:
        return -(-self.message_bits // 8)

    def _report(self, index: Integers, source: Source, seat: int | None) -> Integers:
        return self.ballot.report(index, source, seat_of(self.ballot, seat)).labels

    def _gathered(self, indices: Integers, source: Source, progress: Progress) -> Integers:
        if indices.shape != (self.users,):
            raise InvalidParameter("items", len(indices), f"a batch of exactly {self.users} items")
        return self.ballot.gather(indices, source, progress)

    def _in_law(self, counts: ArrayLike, source: Source) -> Integers:
        found = np.asarray(counts)
        if found.shape != (self.size,) or not np.issubdtype(found.dtype, np.integer) or (found < 0).any():
            raise InvalidParameter("counts", f"an array of shape {found.shape}", f"{self.size} whole numbers >= 0")
        if int(found.sum()) != self.users:
            raise InvalidParameter("counts", f"{int(found.sum())} users in all", f"{self.users} users in all")
        return self.ballot.law(found.astype(np.int64), source)

    def to_dict(self) -> dict[str, Any]:
        """The mechanism as plain data, complete: a device needs nothing else."""
        return {
            "version": VERSION,
            "kind": type(self).__name__,
            "model": self.model,
            "constants": self.constants,
            "ballot": self.ballot.to_dict(),
            "guarantee": {name: value for name, value in asdict(self.guarantee).items() if value is not None},
        }

    def to_json(self) -> str:
        """One line of canonical JSON: sorted keys, no spaces."""
        return canonical(self.to_dict())

    @classmethod
    def _read(cls, text: str) -> dict[str, Any]:
        """The parts of a serialized mechanism; whatever it claims must be what its noise proves."""
        try:
            body: dict[str, Any] = json.loads(text)
            if body.pop("version") != VERSION or body.pop("kind") != cls.__name__:
                raise InvalidParameter("mechanism", text[:60], f"version {VERSION} of a {cls.__name__}")
            one_of("model", body["model"], MODELS)
            one_of("constants", body["constants"], CONSTANTS)
            ballot, claim = ballot_from_dict(body["ballot"]), Guarantee(**body["guarantee"])
            certificate = certificate_of(ballot, claim)
        except InvalidParameter:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, ZeroDivisionError) as error:
            allowed = f"version {VERSION} of a serialized {cls.__name__} ({error!r})"
            raise InvalidParameter("mechanism", text[:60], allowed) from None
        if not certificate.holds or (claim.notion == "pure") != (claim.delta == 0):
            raise InvalidParameter("guarantee", str(claim), f"what the noise proves: δ = {certificate.delta:.3g}")
        return body | {"ballot": ballot, "guarantee": claim}
