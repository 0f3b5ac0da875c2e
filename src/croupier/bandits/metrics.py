"""What an experiment measures: up to eight metrics a report, of which one decides, with the budget that each has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

from croupier.checks import InvalidParameter, between, did_you_mean, finite, one_of, positive
from croupier.protocols import Protocol, SeveralSums, SumMechanism, default_protocol, protocol
from croupier.protocols.sums.named import MOST
from croupier.protocols.sums.two_servers import PRECISION, TRUST

ROLES = ("primary", "guardrail", "secondary")
DIRECTIONS = ("higher", "lower")
NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
CARRIED: dict[str, Any] = {
    "protocol_name": default_protocol(TRUST),
    "binary": False,
    "trust": TRUST,
    "constants": "tight",
    "delta": 0.0,
}
"""How several metrics are summed; nothing else of it can be chosen."""
LEAST_PRIMARY = Fraction(1, 2)
"""The primary metric has at least so much of the budget."""


@dataclass(frozen=True)
class Metric:
    """One number of every report.

    Parameters
    ----------
    name : small letters, digits, hyphens and underscores.
    role : "primary" decides; a "guardrail" must not get worse; of a "secondary" one intervals are told.
    low, high : the ends of its range.
    binary : whether only the two ends are reported.
    cap : whether a value outside counts as the nearer end. Otherwise the device refuses it.
    better : "higher" or "lower".
    margin : of a guardrail, in its own unit: how much worse than the control an arm may be.
    share : of the budget; None: what the others leave, in equal parts.
    rate : what its mean is expected to be with the control, in its own unit. It saves users, and changes no claim.

    Examples
    --------
    >>> Metric("minutes", "guardrail", high=60, cap=True, margin=3).unit_margin
    0.05
    """

    name: str
    role: str = "secondary"
    low: float = 0.0
    high: float = 1.0
    binary: bool = False
    cap: bool = False
    better: str = "higher"
    margin: float | None = None
    share: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise InvalidParameter("metric", self.name, "a letter, then letters, digits, - or _, all small")
        one_of(self._key("role"), self.role, ROLES)
        one_of(self._key("better"), self.better, DIRECTIONS)
        for key in ("low", "high"):
            finite(self._key(key), getattr(self, key))
        for key in ("binary", "cap"):
            if not isinstance(getattr(self, key), bool):
                raise InvalidParameter(self._key(key), getattr(self, key), "true or false")
        if not self.low < self.high or not math.isfinite(float(self.high) - float(self.low)):
            raise InvalidParameter(self._key("high"), self.high, f"above low = {self.low!r}, at a finite distance")
        if self.share is not None:
            between(self._key("share"), self.share, 0, 1)
        if self.rate is not None:
            between(self._key("rate"), self.rate, self.low, self.high)
        if self.role == "guardrail":
            between(self._key("margin"), self.margin, 0, self.span)
        elif self.margin is not None:
            raise InvalidParameter(self._key("margin"), self.margin, "left out: only a guardrail has one")
        if self.role == "primary" and self.better != "higher":
            raise InvalidParameter(self._key("better"), self.better, "higher for the primary one: report its opposite")

    @classmethod
    def of(cls, name: str, table: Mapping[str, Any], **more: Any) -> Metric:
        """A metric as a configuration has it."""
        if not isinstance(table, Mapping):
            raise InvalidParameter(f"metrics.{name}", table, "a table")
        known = [entry.name for entry in fields(Metric)][1:]
        for key, value in table.items():
            if key not in known:
                taken = f"left out: a metric takes {', '.join(known)}{did_you_mean(key, known)}"
                raise InvalidParameter(f"metrics.{name}.{key}", value, taken)
        # Who gives a range of their own means numbers within it, unless they say otherwise.
        return cls(name, **{"binary": not {"low", "high"} & table.keys(), **table, **more})

    def _key(self, key: str) -> str:
        return f"metrics.{self.name}.{key}"

    @property
    def span(self) -> float:
        return float(self.high) - float(self.low)

    @property
    def unit_margin(self) -> float | None:
        """The margin, where the range is [0, 1]."""
        return None if self.margin is None else float(self.margin) / self.span

    @property
    def unit_rate(self) -> float | None:
        """The expected mean there."""
        return None if self.rate is None else (float(self.rate) - self.low) / self.span

    @property
    def guards(self) -> bool:
        return self.role == "guardrail"


@dataclass(frozen=True)
class Metrics:
    """All metrics of an experiment, the primary one first, and the budget that they share.

    Parameters
    ----------
    metrics : two to eight, of which one is primary.
    epsilon : of a whole report.

    Examples
    --------
    >>> asked = {"finished": {"role": "primary", "binary": True}, "crashes": {"high": 5, "cap": True}}
    >>> metrics = Metrics.of(asked, epsilon=1.0)
    >>> metrics.plan(users=100)
    finished, crashes for 100 users: 1-DP when one report is replaced
    >>> [protocol.epsilon for protocol in metrics.protocols]
    [0.5, 0.5]
    """

    metrics: tuple[Metric, ...]
    epsilon: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        roles = [metric.role for metric in self.metrics]
        if not 2 <= len(self.metrics) <= MOST:
            raise InvalidParameter("metrics", len(self.metrics), f"two to {MOST}: a single one is the reward itself")
        if roles.count("primary") != 1 or roles[0] != "primary":
            raise InvalidParameter("metrics", roles, "metrics of which exactly one is primary, and comes first")
        if len({*self.names}) < len(self.metrics):
            raise InvalidParameter("metrics", list(self.names), "different names")
        _ = self.shares

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]], epsilon: float, **given: Any) -> Metrics:
        """Metrics as a configuration has them: tables by name, and what else is given of their sums."""
        for key, value in given.items():
            if key not in CARRIED:
                raise InvalidParameter(key, value, "left out where there are several metrics: each says its own")
            if value not in (CARRIED[key], None):
                raise InvalidParameter(key, value, f"{CARRIED[key]} where there are several metrics")
        if not isinstance(tables, Mapping):
            raise InvalidParameter("metrics", tables, "tables by name, as [metrics.finished]")
        metrics = [Metric.of(name, body) for name, body in tables.items()]
        return cls(tuple(sorted(metrics, key=lambda metric: metric.role != "primary")), epsilon)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(metric.name for metric in self.metrics)

    @property
    def others(self) -> tuple[Metric, ...]:
        """All but the primary one."""
        return self.metrics[1:]

    @cached_property
    def shares(self) -> tuple[Fraction, ...]:
        """Of the budget, exactly: what is not said is shared evenly, and the primary one then has a half."""
        said = [None if metric.share is None else Fraction(str(metric.share)) for metric in self.metrics]
        if said[0] is None:
            said[0] = LEAST_PRIMARY if None in said[1:] else 1 - sum((one or Fraction(0) for one in said), Fraction(0))
        left = 1 - sum((one for one in said if one is not None), Fraction(0))
        unsaid = said.count(None)
        shares = tuple(left / unsaid if one is None else one for one in said)
        if shares[0] < LEAST_PRIMARY:
            raise InvalidParameter(f"metrics.{self.names[0]}.share", float(shares[0]), "at least one half: it decides")
        if sum(shares) != 1 or min(shares) <= 0:
            raise InvalidParameter("share", [float(one) for one in shares], "shares of the budget that add up to 1")
        return shares

    @cached_property
    def protocols(self) -> tuple[Protocol, ...]:
        """How each is summed, with its part of ε rounded down: together they never cost more than the whole."""
        precision = 1 if all(metric.binary for metric in self.metrics) else PRECISION
        return tuple(
            protocol(
                CARRIED["protocol_name"],
                epsilon=_below(share * Fraction(self.epsilon)),
                low=metric.low,
                high=metric.high,
                binary=metric.binary,
                clip=metric.cap,
                precision=precision,
                trust=TRUST,
            )
            for metric, share in zip(self.metrics, self.shares, strict=True)
        )

    @property
    def guarded(self) -> Iterator[tuple[Protocol, float, float]]:
        """Of each guardrail how it is summed, its expected mean and its margin, both where the range is [0, 1]."""
        for metric, summed in zip(self.metrics, self.protocols, strict=True):
            if metric.unit_margin is not None:
                yield summed, 0.5 if metric.unit_rate is None else metric.unit_rate, metric.unit_margin

    def plan(self, users: int) -> SeveralSums:
        """One batch of reports that each have all metrics."""
        sums: dict[str, SumMechanism] = {
            metric.name: summed.plan(users) for metric, summed in zip(self.metrics, self.protocols, strict=True)
        }
        return SeveralSums.of(sums, self.epsilon)


def _below(exact: Fraction) -> float:
    """The largest double that is no more than this.

    >>> Fraction(_below(Fraction(1, 3))) <= Fraction(1, 3)
    True
    """
    found = float(exact)
    return found if Fraction(found) <= exact else math.nextafter(found, 0.0)
