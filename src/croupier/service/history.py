"""What a log says beyond the present state: the newest events, when arms went out, what the worst turn cost."""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any

from croupier.messages.configuration import Configuration
from croupier.messages.offer import Batch, Offer
from croupier.programs import Change, Program
from croupier.programs.interpreter import seconds
from croupier.programs.records import Record
from croupier.service.curve import Curve, point

EVENTS = 200
"""The newest events that the dashboard gets; the transcript has all."""

HIDDEN = {"previous", "signature", "configuration", "offer", "receipt", "witness"}
"""What an event does not show of its record: signatures and statements."""


class History:
    """Is told what every record did, and remembers what the state forgets."""

    def __init__(self, epsilon: float) -> None:
        self._epsilon = epsilon
        self._counted: set[int] = set()
        self.events: deque[Record] = deque(maxlen=EVENTS)
        self._curve, self._newest, self._has_arms = Curve(), dict[str, Any](), False
        self.outs: dict[int, Record] = {}
        self.reports, self.worst_delta = 0, 0.0
        self.refused: Counter[str] = Counter()
        """How many reports in shares did not count, by reason."""
        self.unfilled = 0
        """How many batches in a row did not fill in time."""

    def note(self, change: Change, program: Program) -> None:
        """Remember a record in short, and what followed from it."""
        record = change.record
        event = {key: value for key, value in record.items() if key not in HIDDEN} | self._about(change)
        for arm in change.out:
            when = {"record": record["number"], "at": record["at"], "reports": self.reports}
            self.outs[arm] = when | {"retired": arm in program.retired}
        if change.out:
            event["out"] = sorted(change.out)
        if change.ended:
            event["ended"] = True
        self.events.append(event | {"reports": self.reports})
        if record["event"] == "released" and not program.decides:
            # Who decides has a curve of its own, of differences.
            self._newest = {"record": record["number"], "at": seconds(record["at"]), "reports": self.reports}
            self._has_arms = change.offer is not None and change.offer.arm is not None
            if self._curve.due():
                self._curve.add(self._point(program))

    def _point(self, program: Program) -> dict[str, Any]:
        return point(self._newest, program.show() if self._has_arms else {})

    def curve(self, program: Program) -> list[dict[str, Any]]:
        """How estimates went: a few moments of the past, and the newest."""
        points = self._curve.points
        if not points or points[-1]["record"] == self._newest["record"]:
            return points
        return [*points, self._point(program)]

    def _about(self, change: Change) -> Record:
        """What the event was about, in short."""
        if change.batch is not None:
            return self._over(change, change.batch)
        if change.offer is not None:
            self.worst_delta = max(self.worst_delta, change.offer.delta(self._epsilon))
            return {"offer": change.offer.number, "arm": change.offer.arm, "users": _users(change.offer)}
        if change.operation is not None:
            return {"done": change.operation.done}
        if "configuration" in change.record:
            return {"revision": Configuration.from_text(change.record["configuration"]["body"]).revision}
        return {}

    def _over(self, change: Change, batch: Batch) -> Record:
        offer, mechanism = change.offer, batch.mechanism
        assert offer is not None
        # One of an arm that nobody reported ends with its block, whatever its deadline.
        empty = {key: change.record[key] for key in ("turns",) if key in change.record}
        if "received" in change.record and not empty:
            self.unfilled += 1
        if "decoded" not in change.record:
            return {"arm": offer.arm, "users": mechanism.users} | empty
        self.unfilled, users = 0, change.record.get("users", mechanism.users)
        refused = json.loads(change.record["receipt"]["body"]).get("refused", {})
        if offer.number not in self._counted:
            # A counter's turn is one report in several batches: it counts with the first of them.
            self._counted.add(offer.number)
            self.reports += users if offer.block else min(users, _users(offer))
            self.refused.update(refused)
        about: Record = {"arm": offer.arm, "users": users} | ({"refused": refused} if refused else {})
        return about | mechanism.for_users(users).summary(change.record["decoded"])


def _users(offer: Offer) -> int:
    """The users of a turn: those of its smallest batch."""
    return min(batch.mechanism.users for batch in offer.batches)
