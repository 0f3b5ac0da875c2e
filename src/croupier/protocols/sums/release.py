"""What is published of one batch of a sum."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.checks import InvalidParameter, integer
from croupier.frames import Rows, Tabular
from croupier.privacy import Guarantee
from croupier.protocols.mechanism import VERSION, canonical
from croupier.protocols.sums.planned import PlannedSum
from croupier.texts import plural


@dataclass(frozen=True)
class Release(Tabular):
    """What is published of one batch: a decoded whole number (or one per coordinate) and how it came about.

    Parameters
    ----------
    mechanism : the planned sum.
    decoded : what the batch's view decodes to.

    Examples
    --------
    >>> from croupier.noise import seeded
    >>> from croupier.protocols import laplace
    >>> laplace(epsilon=1.0).plan(users=100).run([0.25] * 100, seeded(1))
    24.8 ± 3.2 (95 %) of 100 users, 1-DP when one report is replaced, laplace
    """

    mechanism: PlannedSum
    decoded: int | tuple[int, ...]

    def __repr__(self) -> str:
        """The estimate, how far it may be off, and what was promised."""
        sums = self.sum if isinstance(self.sum, float) else np.round(self.sum, 1).tolist()
        radius, side = self.radius(), self.mechanism.side
        off = {"unbiased": f"± {radius:.2g}", "over": f"- {radius:.2g} + 0", "under": f"- 0 + {radius:.2g}"}[side]
        shown = f"{sums:.1f}" if isinstance(sums, float) else str(sums)
        return f"{shown} {off} (95 %) of {plural(self.users, 'user')}, {self.privacy}, {self.mechanism.protocol}"

    @property
    def rows(self) -> Rows:
        """One row for each number that is published, with bounds that hold with 95 %."""
        sums, (low, high) = np.atleast_1d(self.sum), self.interval()
        return Rows(
            {
                "coordinate": place,
                "sum": float(value),
                "lower": float(lower),
                "upper": float(upper),
                "users": self.users,
                "epsilon": self.privacy.epsilon,
                "delta": self.privacy.delta,
                "protocol": self.mechanism.protocol,
            }
            for place, (value, lower, upper) in enumerate(
                zip(sums, np.atleast_1d(low), np.atleast_1d(high), strict=True)
            )
        )

    @property
    def users(self) -> int:
        return self.mechanism.users

    @property
    def sum(self) -> Any:
        """The estimated sum of the batch's values."""
        estimate = self.mechanism.estimate(self.decoded)
        return estimate if estimate.ndim else float(estimate)

    @property
    def mean(self) -> Any:
        """The estimated mean value."""
        return self.sum / self.users

    def radius(self, failure: float = 0.05) -> float:
        """A bound on the error of the sum that fails with at most this probability."""
        return self.mechanism.radius(failure)

    def interval(self, failure: float = 0.05) -> tuple[Any, Any]:
        """Bounds on the batch's true sum; one end is certain for a one-sided count."""
        low = self.sum - (0.0 if self.mechanism.side == "under" else self.radius(failure))
        high = self.sum + (0.0 if self.mechanism.side == "over" else self.radius(failure))
        return low, high

    @property
    def privacy(self) -> Guarantee:
        return self.mechanism.guarantee

    def to_json(self) -> str:
        """One line of canonical JSON; it carries its mechanism, so it can be read alone."""
        decoded = list(self.decoded) if isinstance(self.decoded, tuple) else self.decoded
        return canonical({"version": VERSION, "decoded": decoded, "mechanism": self.mechanism.to_dict()})

    @classmethod
    def from_json(cls, text: str) -> Release:
        try:
            body = json.loads(text)
            if body["version"] != VERSION:
                raise InvalidParameter("version", body["version"], f"{VERSION}")
            decoded = body["decoded"]
            for number in decoded if isinstance(decoded, list) else [decoded]:
                integer("decoded", number, -(2**63), 2**63 - 1)
            mechanism = PlannedSum.from_json(json.dumps(body["mechanism"]))
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise InvalidParameter(
                "release", text[:60], f"version {VERSION} of a serialized release ({error!r})"
            ) from None
        return cls(mechanism, tuple(decoded) if isinstance(decoded, list) else decoded)
