"""What an account keeps beside its ledger: turns to report, reports on their way, whom it trusts, and arms seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from croupier.checks import InvalidParameter, finite


@dataclass(frozen=True)
class Taken:
    """A turn that is paid for and not yet reported: when that is due, until when it may be, and what came of it.

    `turn` is its text; `outcome` holds what was recorded, if anything was.
    """

    id: str
    experiment: str
    report_at: float
    until: float
    turn: str
    outcome: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        finite("report_at", self.report_at)
        finite("until", self.until)
        if len(self.outcome) > 1:
            raise InvalidParameter("outcome", self.outcome, "one, or none")


@dataclass(frozen=True)
class Pending:
    """A sealed report that is not yet known to have arrived; `experiment` is its address at the analyzer.

    After `until` it is not sent any longer.
    """

    experiment: str
    url: str
    report: str
    body: str
    until: float


@dataclass(frozen=True)
class Trusted:
    """What a device joined: the servers' keys as first seen or pinned, their promise, and their newest revision."""

    analyzer: str
    front: str
    revision: int
    promise: str


@dataclass(frozen=True)
class Seen:
    """The arm of an experiment that this user was shown."""

    arm: int
    name: str
