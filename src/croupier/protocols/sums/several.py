"""Several private sums of one report: a number for each metric, all in one vector of shares between two servers.

Every number is divided into as many levels, so that one proof of range holds for all of them: whoever lies is worth one
report in every metric, and no more. The budget is divided by the noise: sum i has Laplace noise of its own scale g/εᵢ
from each server, so that one report is exactly (Σεᵢ)-DP, and every sum alone is what `laplace` makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, integer
from croupier.noise import Source
from croupier.privacy import Guarantee, Loss
from croupier.protocols.mechanism import POSSIBLE, VERSION, Certificate, Decoded, Mechanism, Residual
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.protocols.sums.named import MOST, each
from croupier.protocols.sums.planned import SERVERS
from croupier.texts import plural
from croupier.validity import Prio3, prio3_sum_vec
from croupier.validity.fields import FIELD128
from croupier.validity.shares import FIELDS, Ring

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

FINE = 2.0**20
"""How finely the audit tells apart what it sees."""


@dataclass(frozen=True)
class SeveralSums(Mechanism):
    """Sums of the numbers that one report has, each planned by itself for two servers.

    Parameters
    ----------
    names : of the numbers, in the order in which they are added up.
    sums : how each of them is summed: as many users, as many levels, and a noise of its own.
    guarantee : pure, with an ε that is at least the sum of theirs.

    Examples
    --------
    >>> from croupier.protocols import laplace
    >>> plans = [laplace(epsilon=e, trust="two-servers").plan(users=100) for e in (0.75, 0.25)]
    >>> both = SeveralSums.of({"finished": plans[0], "minutes": plans[1]})
    >>> both.guarantee.epsilon, both.prio3
    (1.0, Prio3(SumVec(2, max_measurement=127, chunk_length=5), proofs=1, shares=2))
    """

    kind: ClassVar[str] = "SeveralSums"
    trust: ClassVar[str] = "two-servers"
    ring: ClassVar[Ring] = FIELDS[FIELD128.name]
    names: tuple[str, ...]
    sums: tuple[SumMechanism, ...]
    guarantee: Guarantee

    def __post_init__(self) -> None:
        integer("sums", len(self.sums), 2, MOST)
        strings = all(isinstance(name, str) and name for name in self.names)
        if not strings or len({*self.names}) < len(self.names) or len(self.names) != len(self.sums):
            raise InvalidParameter("names", list(self.names), f"{len(self.sums)} different names")
        for name, one in self._named:
            odd = one.trust != self.trust or one.coordinates or one.guarantee.notion != "pure"
            if odd or one.guarantee.participations > 1:
                raise InvalidParameter(name, one.protocol, "a purely private sum of numbers between two servers")
            if (one.users, one.precision) != (self.users, self.precision):
                raise InvalidParameter(name, (one.users, one.precision), "planned for as many users and levels as all")
        if self.guarantee.notion != "pure" or self.guarantee.participations > 1:
            raise InvalidParameter("guarantee", str(self.guarantee), "a pure one, for one report")

    @classmethod
    def of(cls, sums: Mapping[str, SumMechanism], epsilon: float | None = None) -> Self:
        """Sums of one report, with the ε that they were made from, or all that they cost together."""
        spent = Loss.total(one.loss for one in sums.values()).pure
        return cls(tuple(sums), tuple(sums.values()), Guarantee("pure", spent if epsilon is None else epsilon))

    def __repr__(self) -> str:
        return f"{', '.join(self.names)} for {plural(self.users, 'user')}: {self.guarantee}"

    @property
    def _named(self) -> Iterator[tuple[str, SumMechanism]]:
        return zip(self.names, self.sums, strict=True)

    @property
    def users(self) -> int:  # type: ignore[override]
        return self.sums[0].users

    @property
    def honest(self) -> int:  # type: ignore[override]
        return 0

    @property
    def front_shares(self) -> int:  # type: ignore[override]
        return 0

    @property
    def constants(self) -> str:  # type: ignore[override]
        return self.sums[0].constants

    @property
    def precision(self) -> int:
        return self.sums[0].precision

    @cached_property
    def loss(self) -> Loss:
        """Everything that one report changes: all sums together."""
        return Loss.total(one.loss for one in self.sums)

    def certificate(self) -> Certificate:
        return Certificate(self.guarantee, self.loss.pure, self.loss.delta(self.guarantee.epsilon))

    @cached_property
    def possible(self) -> tuple[int, int]:
        # Two noises go beyond twice a number only if one goes beyond it. A table of their sum would take minutes.
        odds = POSSIBLE / (4.0 * SERVERS * len(self.sums))
        reach = max(SERVERS * one.share.tail_quantile(odds) for one in self.sums)
        return -reach, reach + self.users * self.precision

    @property
    def outputs(self) -> int:
        return len(self.sums)

    @property
    def messages_per_user(self) -> float:
        return 2.0

    @property
    def bits_per_user(self) -> float:
        return float(self.ring.share_bits(self.outputs))

    @property
    def recipe(self) -> dict[str, Any]:
        first = self.sums[0].recipe
        sums = [one.recipe | {"name": name, "epsilon": one.guarantee.epsilon} for name, one in self._named]
        return {"kind": self.kind, "sums": sums} | {key: first[key] for key in ("protocol", "values", "front_noise")}

    @property
    def extremes(self) -> tuple[dict[str, float], dict[str, float]]:
        low, high = ({name: one.extremes[end] for name, one in self._named} for end in (0, 1))
        return low, high

    def check_value(self, value: object) -> None:
        each(self.names, value, lambda place, number: self.sums[place].check_value(number))

    def unit_sums(self, decoded: ArrayLike) -> Floats:
        """Unbiased sums of every metric mapped to [0, 1], the metrics on the last axis."""
        numbers = np.asarray(decoded)
        return np.stack([one.unit_sums(numbers[..., place]) for place, one in enumerate(self.sums)], axis=-1)

    def summary(self, decoded: int | Sequence[int]) -> dict[str, float]:
        numbers = list(np.atleast_1d(decoded).tolist())
        return self.sums[0].summary(numbers[0]) | {
            f"{key}_{name}": value
            for (name, one), number in zip(self._named, numbers, strict=True)
            for key, value in one.summary(number).items()
        }

    @property
    def residual(self) -> Residual:
        return self.sums[0].residual

    # In shares between two servers

    @property
    def prio3(self) -> Prio3:
        return prio3_sum_vec(self.outputs, self.precision)

    def for_users(self, users: int) -> Self:
        return replace(self, sums=tuple(one.for_users(users) for one in self.sums))

    def secret(self, value: object, source: Source) -> list[int]:
        found = each(self.names, value, lambda place, number: self.sums[place].secret(number, source))
        return [number for (number,) in found]

    def server_noise(self, source: Source) -> list[int]:
        return [number for one in self.sums for number in one.server_noise(source)]

    def told(self, total: Sequence[int]) -> tuple[int, ...]:
        return tuple(int(number) for number in self.ring.signed(total))

    def run(self, values: Sequence[Mapping[str, float]], source: Source) -> tuple[int, ...]:
        """One batch the whole way, as two servers would decode it: every user's numbers, and both servers' noise."""
        if len(values) != self.users:
            raise InvalidParameter("values", len(values), f"a batch of exactly {self.users} reports")
        parts = [self.secret(value, source) for value in values]
        return self.told(self.ring.total([*parts, *(self.server_noise(source) for _ in range(SERVERS))], self.outputs))

    def _shape(self) -> Shape:
        return Shape(1, self.ring.size * self.outputs, 0)

    def _messages(self, value: object, source: Source) -> tuple[bytes, ...]:
        return (self.ring.encode(self.secret(value, source)),)

    def _front_messages(self, source: Source) -> tuple[bytes, ...]:
        return ()

    def _decoded(self, slots: Sequence[bytes | None]) -> Decoded:
        raise TamperedMessage(f"{len(slots)} messages came for sums that are told by two servers' totals")

    def exposed(self, end: int, trials: int, source: Source, progress: Callable[[int], None] | None = None) -> Integers:
        """How likely each batch is if the first user has the highest values, against the lowest, in steps of 2⁻²⁰.

        All others hold the lowest. A server that looks knows its own noise, so that one noise is left.
        """
        seen = np.zeros(trials)
        for one in self.sums:
            noise = one.guard.sample(trials, source) + end * one.precision
            seen += (np.abs(noise) - np.abs(noise - one.precision)) * (one.guarantee.epsilon / one.precision)
        if progress is not None:
            progress(trials)
        return np.rint(FINE * seen).astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "kind": self.kind,
            "names": list(self.names),
            "sums": [one.to_dict() for one in self.sums],
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def _read(cls, body: dict[str, Any], affordable: bool) -> Self:
        sums = []
        for one in body.pop("sums"):
            if one.pop("version") != VERSION:
                raise InvalidParameter("version", one, f"{VERSION}")
            sums.append(SumMechanism._read(one, affordable))
        names, guarantee = tuple(body.pop("names")), Guarantee.from_dict(body.pop("guarantee"))
        return cls(names, tuple(sums), guarantee, **body)


Sums = SumMechanism | SeveralSums
"""What a batch of an arm is summed by: one number a report, or several."""
