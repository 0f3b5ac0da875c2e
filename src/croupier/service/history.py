"""What a log says beyond the present state: the newest events, when arms went out, what the worst turn cost."""

from __future__ import annotations

from collections import deque

from croupier.messages.configuration import Configuration
from croupier.messages.offer import Batch, Offer
from croupier.programs import Change, Program
from croupier.programs.records import Record

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
        self.outs: dict[int, Record] = {}
        self.reports, self.worst_delta = 0, 0.0
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
        if "received" in change.record:
            self.unfilled += 1
        if "decoded" not in change.record:
            return {"arm": offer.arm, "users": mechanism.users}
        self.unfilled, users = 0, change.record.get("users", mechanism.users)
        if offer.number not in self._counted:
            # A counter's turn is one report in several batches: it counts with the first of them.
            self._counted.add(offer.number)
            self.reports += min(users, _users(offer))
        about: Record = {"arm": offer.arm, "users": users}
        return about | mechanism.for_users(users).summary(change.record["decoded"])


def _users(offer: Offer) -> int:
    """The users of a turn: those of its smallest batch."""
    return min(batch.mechanism.users for batch in offer.batches)
