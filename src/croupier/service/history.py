"""What a log says beyond the present state: the newest events, when arms went out, what the worst turn cost."""

from __future__ import annotations

from collections import deque

from croupier.messages.configuration import Configuration
from croupier.messages.offer import Batch, Offer
from croupier.service.programs import BanditProgram, Program
from croupier.service.records import Record

EVENTS = 200
"""The newest events that the dashboard gets; the transcript has all."""

KEPT = ("number", "event", "at", "batch", "decoded", "damaged", "reason", "operation", "arm", "name")
"""What an event shows of its record."""


class History:
    """Is told every record, right after the program was, and remembers what the program forgets."""

    def __init__(self, epsilon: float) -> None:
        self._epsilon = epsilon
        self._batches: dict[int, tuple[Batch, Offer]] = {}
        self._counted: set[int] = set()
        self._retired: set[int] = set()
        self._ended = False
        self.events: deque[Record] = deque(maxlen=EVENTS)
        self.outs: dict[int, Record] = {}
        self.reports, self.worst_delta = 0, 0.0

    def note(self, record: Record, program: Program) -> None:
        """Remember a record in short, without signatures and mechanisms, and what followed from it."""
        found = {key: record[key] for key in KEPT if key in record}
        if record["event"] == "configured":
            found["revision"] = Configuration.from_text(record["configuration"]["body"]).revision
        elif record["event"] == "opened":
            found |= self._opened(Offer.from_text(record["offer"]["body"]))
        elif record["event"] == "operated":
            if record["operation"] == "retire":
                self._retired.add(record["arm"])
        else:
            found |= self._over(record)
        out = _gone(program) - set(self.outs)
        for arm in out:
            when = {"record": record["number"], "at": record["at"], "reports": self.reports}
            self.outs[arm] = when | {"retired": arm in self._retired}
        if out:
            found["out"] = sorted(out)
        if program.finished and not self._ended:
            self._ended = found["ended"] = True
        self.events.append(found | {"reports": self.reports})

    def _opened(self, offer: Offer) -> Record:
        self._batches |= {batch.number: (batch, offer) for batch in offer.batches}
        self.worst_delta = max(self.worst_delta, offer.delta(self._epsilon))
        least = min(batch.mechanism.users for batch in offer.batches)
        return {"offer": offer.number, "arm": offer.arm, "users": least}

    def _over(self, record: Record) -> Record:
        batch, offer = self._batches.pop(record["batch"])
        mechanism = batch.mechanism
        found: Record = {"arm": offer.arm, "users": mechanism.users}
        if record["event"] != "released":
            return found
        if offer.number not in self._counted:
            # A counter's turn is one report in several batches: it counts with the first of them.
            self._counted.add(offer.number)
            self.reports += min(one.mechanism.users for one in offer.batches)
        return found | mechanism.summary(record["decoded"])


def _gone(program: Program) -> set[int]:
    if not isinstance(program, BanditProgram):
        return set()
    return {int(arm) for arm in (~program.session.policy.active[0]).nonzero()[0]}
