"""What people are shown: an experiment's live state for the dashboard, and a participant's questions answered."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any

from croupier.client.account import Account
from croupier.client.configuration import Configuration, Offer
from croupier.client.limits import Limits
from croupier.client.residual import residual
from croupier.client.sealing import SUITES
from croupier.client.signing import Statement, from_text
from croupier.client.steps import Device, Joined, Turn
from croupier.client.wire import TOKEN, Reporting, capped_loss, slots, upload_bytes
from croupier.noise import secure, seeded
from croupier.privacy import Loss
from croupier.protocols import Mechanism
from croupier.protocols.universe import Numbers
from croupier.service.live import Live
from croupier.service.programs import BanditProgram

EVENTS = 200
"""The newest events that the dashboard gets; the transcript has all."""

KEPT = ("event", "at", "batch", "decoded", "damaged", "reason", "operation", "arm", "name")
"""What an event shows of its record."""


class History:
    """What the log says beyond the present state: when arms went out, when the run ended, what the worst turn cost.

    A second program is told the same events, one by one; it is deterministic, so it says what the first one did then.
    """

    def __init__(self, live: Live) -> None:
        self.live, self._twin = live, live.plan.program()
        self._offers: dict[int, Offer] = {}
        self._counted: set[int] = set()
        self.events: list[dict[str, Any]] = []
        self.outs: dict[int, dict[str, Any]] = {}
        self._retired: set[int] = set()
        self.reports, self.worst_delta = 0, 0.0
        self.follow()

    def follow(self) -> None:
        """Read what is new in the log."""
        for number in range(len(self.events), len(self.live.records)):
            self.events.append(self._read(number, self.live.records[number]))

    def _read(self, number: int, record: dict[str, Any]) -> dict[str, Any]:
        """A record in short, without signatures and mechanisms, and what followed from it."""
        found = {"number": number} | {key: record[key] for key in KEPT if key in record}
        ended = self._twin.finished
        if record["event"] == "configured":
            found["revision"] = Configuration.from_text(record["configuration"]["body"]).revision
        elif record["event"] == "opened":
            found |= self._opened(Offer.from_text(record["offer"]["body"]))
        elif record["event"] == "operated":
            self._twin.operate(record["operation"], record.get("arm"))
            if record["operation"] == "retire":
                self._retired.add(record["arm"])
        else:
            found |= self._over(record)
        out = self._gone() - set(self.outs)
        for arm in out:
            when = {"record": number, "at": record["at"], "reports": self.reports}
            self.outs[arm] = when | {"retired": arm in self._retired}
        if out:
            found["out"] = sorted(out)
        if self._twin.finished and not ended:
            found["ended"] = True
        return found | {"reports": self.reports}

    def _opened(self, offer: Offer) -> dict[str, Any]:
        self._offers |= {batch.number: offer for batch in offer.batches}
        mechanisms = tuple(batch.mechanism for batch in offer.batches)
        self.worst_delta = max(self.worst_delta, _delta(mechanisms, self.live.plan.privacy.epsilon))
        least = min(mechanism.users for mechanism in mechanisms)
        return {"offer": offer.number, "arm": offer.arm, "users": least}

    def _over(self, record: dict[str, Any]) -> dict[str, Any]:
        offer = self._offers[record["batch"]]
        mechanism = next(batch.mechanism for batch in offer.batches if batch.number == record["batch"])
        found: dict[str, Any] = {"arm": offer.arm, "users": mechanism.users}
        if record["event"] != "released":
            self._twin.expired(record["batch"])
            return found
        self._twin.released(record["batch"], record["decoded"])
        if offer.number not in self._counted:
            # A counter's turn is one report in several batches.
            self._counted.add(offer.number)
            self.reports += min(batch.mechanism.users for batch in offer.batches)
        if isinstance(record["decoded"], int) and isinstance(mechanism, Mechanism):
            found["sum"] = float(mechanism.estimate(record["decoded"]))
            found["mean"] = found["sum"] / mechanism.users
        return found

    def _gone(self) -> set[int]:
        if not isinstance(self._twin, BanditProgram):
            return set()
        return {int(arm) for arm in (~self._twin.session.policy.active[0]).nonzero()[0]}


@lru_cache(maxsize=1024)
def _delta(mechanisms: tuple[Reporting, ...], epsilon: float) -> float:
    """The δ that a turn in these batches really costs at this ε; many turns are alike."""
    return Loss.total(capped_loss(mechanism) for mechanism in mechanisms).delta(epsilon)


def state(history: History) -> dict[str, Any]:
    """Everything that the dashboard shows."""
    live = history.live
    history.follow()
    counts = {one["batch"]: one for one in live.standings.get("batches", [])}
    program = live.program.show()
    for row in program["arms"] if live.plan.parameters["kind"] == "bandit" else ():
        row["out"] = history.outs.get(row["arm"])
    return {
        "experiment": live.name,
        "title": live.plan.title,
        "kind": live.plan.parameters["kind"],
        "arms": list(live.arms),
        "values": live.plan.recipe.get("values"),
        "finished": live.program.finished,
        "trouble": live.trouble,
        "privacy": _privacy(live) | {"worst_delta": history.worst_delta},
        "smallest": live.plan.recipe["smallest"],
        "assigned": live.standings.get("assigned", 0),
        "accepted": live.standings.get("accepted", 0),
        "reports": history.reports,
        "program": program,
        "open": [_open(live, offer, counts) for offer in live.offers.values() if _is_open(live, offer)],
        "records": len(live.records),
        "events": history.events[-EVENTS:],
    }


def _privacy(live: Live) -> dict[str, Any]:
    """What one turn costs, and what a device spends over a period if its app leaves the client's limits as they are."""
    privacy, limits = live.plan.privacy, Limits()
    shares = [limits.epsilon_per_period / privacy.epsilon]
    if privacy.delta:
        shares.append(limits.delta_per_period / privacy.delta)
    within = privacy.epsilon <= limits.epsilon and privacy.delta <= limits.delta
    budget = {
        "epsilon": limits.epsilon_per_period,
        "delta": limits.delta_per_period,
        "period": max(privacy.period, limits.shortest_period),
        "turns": int(min(shares) + 1e-9) if within else 0,
    }
    return asdict(privacy) | {"protocol": live.plan.recipe.get("protocol", "histogram"), "budget": budget}


def _is_open(live: Live, offer: Offer) -> bool:
    return all(batch.number in live.open for batch in offer.batches)


def _open(live: Live, offer: Offer, counts: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return {
        "offer": offer.number,
        "arm": offer.arm,
        "batches": [
            {
                "batch": batch.number,
                "users": batch.mechanism.users,
                "received": counts.get(batch.number, {}).get("received", 0),
            }
            for batch in offer.batches
        ],
    }


def participation(live: Live) -> dict[str, Any]:
    """What a participant may ask: what is sent, what nobody learns, what is not promised, and a sample of the bytes.

    The sample shows one report of the lowest and one of the highest value, before sealing, made with a public seed.
    """
    offers = [offer for offer in live.offers.values() if _is_open(live, offer)] or list(live.offers.values())[-1:]
    body: dict[str, Any] = {
        "experiment": live.name,
        "title": live.plan.title,
        "arms": list(live.arms),
        "privacy": _privacy(live),
        "values": live.plan.recipe.get("values"),
        "smallest": live.plan.recipe["smallest"],
        "front_noise": live.plan.recipe["front_noise"],
        "servers": None,
        "admission": None,
        "reports": [],
    }
    if live.configured is None:
        return body
    configuration = Configuration.from_text(live.configured.text)
    body |= {"servers": configuration.urls, "admission": configuration.admission.to_dict()}
    overhead = SUITES[configuration.suite].overhead
    for offer in offers:
        sealed = ((batch.shape.slots, batch.shape.length + overhead) for batch in offer.batches)
        batches: list[dict[str, Any]] = []
        for batch in offer.batches:
            local = residual(batch.mechanism)
            batches.append(
                {
                    "batch": batch.number,
                    "users": batch.mechanism.users,
                    "messages": batch.shape.slots,
                    "message_bytes": batch.shape.length + overhead,
                    "residual_epsilon": local.epsilon,
                    "hides_nothing_alone": local.hides_nothing,
                    "residual_advantage": local.advantage,
                    "sample": [
                        {"value": value, "messages": [slot.hex() for slot in slots(batch.mechanism, value, seeded(1))]}
                        for value in _ends(batch.mechanism)
                    ],
                }
            )
        whole = {
            "upload_bytes": upload_bytes(sealed, overhead),
            "sample_upload": _sample_upload(live, offer),
            # A turn shows the same value to all its batches, so what they cost adds up.
            "residual_epsilon": sum(batch["residual_epsilon"] for batch in batches),
        }
        body["reports"].append({"arm": offer.arm, "batches": batches} | whole)
    return body


def _sample_upload(live: Live, offer: Offer) -> str:
    """The bytes of one upload as a device would send them, with a token of zeros that no shuffler takes."""
    record = next(one for one in live.records if one["event"] == "configured" and _hash(one) == offer.configuration)
    statement = Statement.from_dict("configuration", record["configuration"])
    joined = Joined(Configuration.from_text(statement.text), statement)
    device = Device("", Account(None, Limits()), Limits(), secure())
    sealed = device.sealed(Turn(joined, offer, bytes(TOKEN), 0), _ends(offer.batches[0].mechanism)[1])
    return from_text("body", sealed.body).hex()


def _hash(record: dict[str, Any]) -> bytes:
    return Statement.from_dict("configuration", record["configuration"]).hash


def _ends(mechanism: Reporting) -> tuple[Any, Any]:
    """Two values as different as can be."""
    if isinstance(mechanism, Mechanism):
        return mechanism.values.low, mechanism.values.high
    if isinstance(mechanism.universe, Numbers):
        return 0, mechanism.size - 1
    names = mechanism.universe.name
    return names(0), names(mechanism.size - 1)
