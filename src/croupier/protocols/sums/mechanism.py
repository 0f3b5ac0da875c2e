"""A sum carried out: what each device sends, what an intermediary lets through, and what the analyzer reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import replace
from numbers import Number
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import CroupierError, InvalidParameter
from croupier.noise import Noise, Source
from croupier.protocols.mechanism import MOST_MESSAGES, Decoded, check_source
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.protocols.sums.planned import PlannedSum
from croupier.protocols.sums.release import Release
from croupier.protocols.sums.values import array_of, whole_numbers
from croupier.texts import plural
from croupier.validity import Prio3
from croupier.validity.shares import Ring

Integers = NDArray[np.int64]

CHUNK = 2**20
"""Messages that an audit holds in memory at once."""


class SumMechanism(PlannedSum):
    """One private sum over `users` users, calibrated: frozen, serializable, with its certificate.

    `share` is the noise of one party and `noise_from` says which: every user of the batch, whose shares hide each of
    them together ("batch"); every user, whose own share must suffice ("user"); the trusted analyzer ("analyzer"); or
    each of two servers, of which one must be honest ("servers"): then no user is counted on, and `honest` is 0.
    `front_shares` of noise come from the front besides: a whole noise, which hides a user among strangers only.
    """

    kind: ClassVar[str] = "SumMechanism"
    lets_users_return: ClassVar[bool] = True

    def check_value(self, value: object) -> None:
        self.values.unit(self._one_value(value))

    def randomize(self, value: ArrayLike, source: Source) -> Integers:
        """Turn a user's value into their report, on their device; arrays of users (and batches) work too."""
        check_source(source)
        encoded = self.values.encode(value, self.precision, source)
        if self.side == "under":
            encoded = self.precision - encoded
        return self.carrier.report(self, encoded, source)

    def collect(self, reports: ArrayLike) -> Integers:
        """What the intermediary lets through of a whole batch of reports (users on the axis after any batches)."""
        gathered = array_of(reports)
        if not gathered.size and isinstance(reports, Sized) and not len(reports):
            raise self._wrong_count(0)
        if not np.issubdtype(gathered.dtype, np.integer):
            raise TamperedMessage("a report is whole numbers")
        gathered = gathered.astype(np.int64)
        inner = self.coordinates + self.carrier.report_axes
        received = gathered.shape[-1 - inner] if gathered.ndim > inner else 0
        if received != self.users:
            raise self._wrong_count(received)
        self.carrier.check_report(self, gathered)
        return self.carrier.collect(self, gathered)

    def _wrong_count(self, received: int) -> InvalidParameter:
        return InvalidParameter("reports", received, f"a batch of exactly {plural(self.users, 'report')}")

    def analyze(self, view: ArrayLike, source: Source | None = None) -> Release:
        """Read a batch's view. `source` is needed where the analyzer, or two servers, add the noise."""
        decoded = self.analyze_many(view, source)
        if decoded.shape != self.value_shape:
            raise InvalidParameter("view", view, "that of one batch, as `collect` gives it; analyze_many reads several")
        return Release(self, tuple(decoded.tolist()) if self.coordinates else int(decoded))

    def run(self, values: ArrayLike, source: Source) -> Release:
        """One batch the whole way: every user randomizes, the carrier carries, the analyzer reads.

        >>> from croupier.noise import seeded
        >>> from croupier.protocols import laplace
        >>> release = laplace(epsilon=1.0).plan(users=100).run([0.25] * 100, seeded(1))
        >>> abs(release.sum - 25) < release.radius(failure=1e-6)
        True
        """
        view = self.collect(self.randomize(values, source))
        if self.front_shares:
            view = self.carrier.join(self, view, self.front_report(source))
        return self.analyze(view, source)

    def front_report(self, source: Source) -> Integers:
        """What the front adds to a batch: the noise of `front_shares` parties who have no value."""
        return self.carrier.front_report(self, source)

    def analyze_many(self, views: ArrayLike, source: Source | None = None) -> Integers:
        """The decoded numbers of views with any leading axes."""
        return self._read_with(self.noise, views, source)

    def _read_with(self, noise: Noise, views: ArrayLike, source: Source | None) -> Integers:
        """The decoded numbers, with this noise where it is not in the reports."""
        decoded = self.carrier.decode(self, whole_numbers("view", views))
        if self.noise_from in ("analyzer", "servers"):
            if source is None:
                raise InvalidParameter("source", None, f"given: here noise is drawn by the {self.noise_from}")
            check_source(source)
            decoded = decoded + noise.sample(decoded.shape, source)
        return decoded

    def simulate(self, values: ArrayLike, source: Source) -> Release:
        """One batch in law: values are encoded and added, and the total noise is drawn once."""
        check_source(source)
        encoded = self.values.encode(values, self.precision, source)
        axis = -1 - self.coordinates
        if encoded.ndim < 1 + self.coordinates or encoded.shape[axis] != self.users:
            raise InvalidParameter("values", encoded.shape, f"a batch of exactly {self.users} values")
        if self.side == "under":
            encoded = self.precision - encoded
        total = self.noisy(encoded.sum(axis=axis), source)
        return Release(self, tuple(total.tolist()) if self.coordinates else int(total))

    def noisy(self, encoded_sums: ArrayLike, source: Source) -> Integers:
        """Decoded numbers of batches with these encoded sums, in law: any shape, one draw of noise each."""
        sums = np.asarray(encoded_sums, dtype=np.int64)
        total = self.weight * sums + self.noise.sample(sums.shape, source)
        return total if self.noise_from == "analyzer" else self.carrier.wrapped(total)

    def pack(self, report: ArrayLike) -> tuple[bytes, ...]:
        """One user's report as messages, in no particular order: the shuffler mixes them with everyone's.

        `docs/format.md` gives the layout with test vectors.
        """
        numbers = np.asarray(report, dtype=np.int64)
        self.carrier.check_report(self, numbers)
        if (count := self.carrier.message_count(self, numbers)) > MOST_MESSAGES:
            limit = f"at most {MOST_MESSAGES}: {self.protocol} here is for simulation only"
            raise InvalidParameter("messages", count, limit)
        return self.carrier.pack(self, numbers)

    def unpack(self, messages: Sequence[bytes]) -> Integers:
        """The view that a batch's messages make; anything malformed is refused."""
        if any(len(message) != self.message_bytes for message in messages):
            raise TamperedMessage(f"every message of {self.protocol} has {self.message_bytes} bytes")
        return self.carrier.unpack(self, messages)

    def _shape(self) -> Shape:
        shape = self.carrier.shape(self)
        if self.noise_from == "analyzer":
            # A device must not be talked into sending its value without noise.
            raise CroupierError(f"{self.protocol} has its noise from the analyzer, which would see the sum without it")
        return shape

    @property
    def ring(self) -> Ring | None:
        # As for a shape: what the analyzer is to add noise to, no device sends.
        return None if self.noise_from == "analyzer" else self.carrier.ring

    @property
    def prio3(self) -> Prio3 | None:
        return self.carrier.prio3(self)

    def for_users(self, users: int) -> Self:
        return replace(self, users=users) if self.fits_any_batch else super().for_users(users)

    def secret(self, value: object, source: Source) -> list[int]:
        self._check_shared()
        report = self.randomize(self._one_value(value), source)
        return [int(number) for number in np.atleast_1d(report)]

    def server_noise(self, source: Source) -> list[int]:
        self._check_shared()
        if self.noise_from != "servers":
            return [0] * self.dimension
        return [int(number) for number in self.share.sample(self.dimension, source)]

    def told(self, total: Sequence[int]) -> int | tuple[int, ...]:
        self._check_shared()
        decoded = self.carrier.decode(self, self.carrier.summed(self, total))
        return tuple(decoded.tolist()) if self.coordinates else int(decoded)

    def _check_shared(self) -> None:
        if self.ring is None:
            raise self._not_shared()

    def _one_value(self, value: object) -> Any:
        """A value of one user: a list would be taken for many users' values."""
        if self.coordinates:
            vector = array_of(value)
            if vector.shape != self.value_shape:
                raise InvalidParameter("value", f"shape {vector.shape}", f"a vector of {self.dimension} numbers")
            return vector
        if not isinstance(value, Number | np.bool_):
            raise InvalidParameter("value", value, "a number")
        return value

    def _messages(self, value: object, source: Source) -> tuple[bytes, ...]:
        value = self._one_value(value)
        unit = float(self.values.unit(value))  # type: ignore[arg-type]
        report = self.randomize(value, source)  # type: ignore[arg-type]
        while not self.carrier.fits(self, report, unit):
            report = self.randomize(value, source)  # type: ignore[arg-type]
        return self.pack(report)

    def _front_messages(self, source: Source) -> tuple[bytes, ...]:
        return self.carrier.pack(self, self.front_report(source))

    def _decoded(self, slots: Sequence[bytes | None]) -> Decoded:
        view, damaged = self.carrier.repaired(self, slots)
        return Decoded(self.analyze(view).decoded, damaged)

    def exposed(self, end: int, trials: int, source: Source, progress: Callable[[int], None] | None = None) -> Integers:
        """All users hold the lowest value, the first one that or the highest; vectors stand on the first axis.

        The decoded sum tells most, or the first user's own report where it is visible. Of two servers' noises the one
        who looks knows his own.
        """
        lowest, other = np.asarray(self.extremes[0]), self.extremes[end]
        batch = np.broadcast_to(lowest, (self.users, *lowest.shape)).copy()
        batch[0] = other
        rows = max(1, CHUNK // max(1, int(self.users * self.messages_per_user * self.dimension)))
        drawn = []
        for done in range(0, trials, rows):
            now = min(rows, trials - done)
            view = self.collect(self.randomize(np.broadcast_to(batch, (now, *batch.shape)), source))
            if self.carrier.lists_reports:
                drawn.append(view[..., 0])
            else:
                decoded = self._read_with(self.guard, view, source)
                drawn.append(decoded[..., 0] if self.coordinates else decoded)
            if progress is not None:
                progress(now)
        return np.concatenate(drawn)
