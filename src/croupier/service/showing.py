"""What people are shown: an experiment's live state for the dashboard, and a participant's questions answered."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from croupier.client.account import Account
from croupier.client.configuration import Configuration, Offer
from croupier.client.limits import Limits
from croupier.client.residual import residual
from croupier.client.sealing import SUITES
from croupier.client.signing import Statement, from_text
from croupier.client.steps import Device, Joined, Turn
from croupier.client.wire import TOKEN, Reporting, slots, upload_bytes
from croupier.noise import secure, seeded
from croupier.protocols import Mechanism
from croupier.service.analyzer import Live

EVENTS = 200
"""The newest events that the dashboard gets; the transcript has all."""


def state(live: Live) -> dict[str, Any]:
    """Everything that the dashboard shows."""
    counts = {one["batch"]: one for one in live.standings.get("batches", [])}
    return {
        "experiment": live.name,
        "title": live.plan.title,
        "kind": live.plan.parameters["kind"],
        "arms": list(live.arms),
        "finished": live.program.finished,
        "trouble": live.trouble,
        "privacy": asdict(live.plan.privacy) | {"protocol": live.plan.recipe.get("protocol", "histogram")},
        "smallest": live.plan.recipe["smallest"],
        "assigned": live.standings.get("assigned", 0),
        "accepted": live.standings.get("accepted", 0),
        "program": live.program.show(),
        "open": [_open(live, offer, counts) for offer in live.offers.values() if _is_open(live, offer)],
        "records": len(live.records),
        "events": [_event(live, number) for number in range(max(0, len(live.records) - EVENTS), len(live.records))],
    }


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


def _event(live: Live, number: int) -> dict[str, Any]:
    """A record in short: without signatures and mechanisms."""
    record = live.records[number]
    found = {"number": number} | {
        key: record[key]
        for key in ("event", "at", "batch", "decoded", "damaged", "reason", "operation", "arm", "name")
        if key in record
    }
    if record["event"] == "opened":
        offer = live.offers[_offer_number(record)]
        found |= {"offer": offer.number, "arm": offer.arm}
        found["users"] = min(batch.mechanism.users for batch in offer.batches)
    elif record["event"] == "configured":
        found["revision"] = Configuration.from_text(record["configuration"]["body"]).revision
    elif "batch" in record:
        offer = next(o for o in live.offers.values() if any(b.number == record["batch"] for b in o.batches))
        batch = next(b for b in offer.batches if b.number == record["batch"])
        found |= {"arm": offer.arm, "users": batch.mechanism.users}
        if (
            record["event"] == "released"
            and isinstance(record["decoded"], int)
            and isinstance(batch.mechanism, Mechanism)
        ):
            found["mean"] = float(batch.mechanism.estimate(record["decoded"])) / batch.mechanism.users
    return found


def _offer_number(record: dict[str, Any]) -> int:
    return Offer.from_text(record["offer"]["body"]).number


def participation(live: Live) -> dict[str, Any]:
    """What a participant may ask: what is sent, what nobody learns, what is not promised, and a sample of the bytes.

    The sample shows one report of the lowest and one of the highest value, before sealing, made with a public seed.
    """
    offers = [offer for offer in live.offers.values() if _is_open(live, offer)] or list(live.offers.values())[-1:]
    body: dict[str, Any] = {
        "experiment": live.name,
        "title": live.plan.title,
        "arms": list(live.arms),
        "privacy": asdict(live.plan.privacy) | {"protocol": live.plan.recipe.get("protocol", "histogram")},
        "values": live.plan.recipe.get("values"),
        "smallest": live.plan.recipe["smallest"],
        "servers": None if live.configured is None else Configuration.from_text(live.configured.text).urls,
        "reports": [],
    }
    if live.configured is None:
        return body
    overhead = SUITES[Configuration.from_text(live.configured.text).suite].overhead
    for offer in offers:
        shapes = tuple(batch.shape for batch in offer.batches)
        batches = []
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
        whole = {"upload_bytes": upload_bytes(shapes, overhead), "sample_upload": _sample_upload(live, offer)}
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
    names = mechanism.universe.name
    return names(0), names(mechanism.size - 1)
