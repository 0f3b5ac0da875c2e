"""What people are shown: an experiment's live state for the dashboard, and a participant's questions answered."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from typing import Any

from croupier.client.account import Account
from croupier.client.device import Device, Joined, Turn
from croupier.client.limits import Limits
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.sealing import SUITES
from croupier.messages.shares import upload_length
from croupier.messages.signing import from_text, to_text
from croupier.messages.wire import TOKEN
from croupier.noise import secure, seeded
from croupier.protocols import Mechanism
from croupier.service.experiment_log import Live


class Shown:
    """What is shown of one experiment: made once a version, as text, however many look at it."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self._version, self._text = -1, b""
        self._asked: tuple[Any, ...] = ()
        self._answer = b""

    def text(self) -> bytes:
        """Everything that the dashboard shows, as JSON."""
        live = self.live
        if self._version != live.version:
            self._version, self._text = live.version, _json(state(live))
        return self._text

    def participation(self) -> bytes:
        """What a participant may ask, as JSON: it changes with the configuration and the turns."""
        live = self.live
        asked = (live.configured, live.arms, *live.offers)
        if asked != self._asked:
            self._asked, self._answer = asked, _json(participation(live))
        return self._answer


def _json(body: Any) -> bytes:
    return json.dumps(_finite(body), ensure_ascii=False, separators=(",", ":")).encode()


def _finite(body: Any) -> Any:
    """JSON has no infinity: it becomes null."""
    if isinstance(body, dict):
        return {key: _finite(value) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [_finite(value) for value in body]
    return None if isinstance(body, float) and not math.isfinite(body) else body


def state(live: Live) -> dict[str, Any]:
    """Everything that the dashboard shows."""
    history = live.run.history
    counts = {standing["batch"]: standing for standing in live.standings.get("batches", [])}
    program = live.program.show()
    for row in program.get("arms", ()):
        row["out"] = history.outs.get(row["arm"])
    return {
        "experiment": live.name,
        "title": live.plan.title,
        "kind": live.plan.parameters["kind"],
        "asks_again": live.program.expires,
        "arms": list(live.arms),
        "values": live.plan.recipe.get("values"),
        "finished": live.program.finished,
        "trouble": live.trouble,
        "stalled": live.stalled,
        "trust": live.plan.trust,
        "privacy": _privacy(live) | {"worst_delta": history.worst_delta},
        "smallest": live.plan.recipe["smallest"],
        "assigned": live.counted("assigned"),
        "accepted": live.counted("accepted"),
        "reports": history.reports,
        "program": program,
        "open": [_open(offer, counts) for offer in live.offers.values()],
        "records": live.count,
        "head": to_text(live.run.head.hash),
        "events": list(history.events),
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
    return asdict(privacy) | {"protocol": _protocol(live.plan.recipe), "budget": budget}


def _protocol(recipe: dict[str, Any]) -> str:
    """What a batch's mechanism is called: by its protocol, or by its kind where it has none."""
    return str(recipe["protocol"] if "protocol" in recipe else recipe["kind"])


def _open(offer: Offer, counts: dict[int, dict[str, Any]]) -> dict[str, Any]:
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
    offers = list(live.offers.values()) or [offer for offer in (live.state.latest,) if offer is not None]
    body: dict[str, Any] = {
        "experiment": live.name,
        "title": live.plan.title,
        "arms": list(live.arms),
        "trust": live.plan.trust,
        "report_at": list(live.plan.reports.at),
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
        batches: list[dict[str, Any]] = []
        for batch in offer.batches:
            local = batch.mechanism.residual
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
                        {"value": value, "messages": _sample(batch.mechanism, value)}
                        for value in batch.mechanism.extremes
                    ],
                }
            )
        whole = {
            "upload_bytes": upload_length(offer, configuration.suite),
            "sample_upload": _sample_upload(live, offer),
            # A turn shows the same value to all its batches, so what they cost adds up.
            "residual_epsilon": sum(batch["residual_epsilon"] for batch in batches),
        }
        body["reports"].append({"arm": offer.arm, "batches": batches} | whole)
    return body


def _sample(mechanism: Mechanism, value: object) -> list[str]:
    """One report before sealing, made with a public seed: its messages, or the front's seed and the other share."""
    if mechanism.ring is None:
        return [slot.hex() for slot in mechanism.slots(value, seeded(1))]
    seed = hashlib.sha256(repr(value).encode()).digest()
    return [seed.hex(), mechanism.ring.split(mechanism.secret(value, seeded(1)), seed, b"a sample").hex()]


def _sample_upload(live: Live, offer: Offer) -> str:
    """The bytes of one upload as a device would send them, with a token of zeros that no front takes."""
    statement = live.state.configurations[offer.configuration]
    joined = Joined(Configuration.from_text(statement.text), statement)
    device = Device("", Account(None, Limits()), Limits(), secure())
    sealed = device.sealed(Turn(joined, offer, bytes(TOKEN), 0), offer.batches[0].mechanism.extremes[1])
    return from_text("body", sealed.body).hex()
