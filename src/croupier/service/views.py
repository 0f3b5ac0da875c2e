"""What people are shown: an experiment's live state for the dashboard, and a participant's questions answered."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from croupier.client.account import Account
from croupier.client.device import Device, Joined, Turn
from croupier.client.limits import Limits
from croupier.comparisons.decision import Decision
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Batch, Offer
from croupier.messages.proofs import prove
from croupier.messages.sealing import SUITES
from croupier.messages.shares import form, upload_length
from croupier.messages.signing import from_text, to_text
from croupier.messages.wire import TOKEN
from croupier.noise import secure, seeded
from croupier.programs import WHOLE
from croupier.protocols import Mechanism
from croupier.service.arm_standing import with_standing
from croupier.service.experiment_log import Live


class Shown:
    """What is shown of one experiment: made once a version, as text, however many look at it."""

    def __init__(self, live: Live, standing: Callable[[Live], str]) -> None:
        self.live, self._standing = live, standing
        self._version, self._text = (-1, ""), b""
        self._asked: tuple[Any, ...] = ()
        self._answer = b""

    def text(self) -> bytes:
        """Everything that the dashboard shows, as JSON."""
        live = self.live
        if self._version != (now := (live.version, self._standing(live))):
            self._version, self._text = now, _json(state(live) | {"standing": now[1]})
        return self._text

    def participation(self) -> bytes:
        """What a participant may ask, as JSON: it changes with the configuration and the turns."""
        live = self.live
        # Of a private experiment nothing is shown that changes with its turns.
        asked = (live.configured, live.arms, *(live.offers if live.plan.public else ()))
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
    program = with_standing(live.program)
    for row in program.get("arms", ()):
        row["out"] = history.outs.get(row["arm"])
    if "decision" in program:
        found = Decision(**program["decision"])
        program["decision"] |= {
            "sentence": found.sentence(live.arms, metric=program.get("metric", "")),
            "tipping_sentence": found.tipping_sentence(live.arms),
        }
    return {
        "experiment": live.name,
        "title": live.plan.title,
        "kind": live.plan.parameters["kind"],
        "asks_again": live.program.expires,
        "arms": list(live.arms),
        "values": live.plan.recipe.get("values"),
        "public": live.plan.public,
        "finished": live.program.finished,
        "operations": {name: known.takes for name, known in (WHOLE | dict(live.program.operations)).items()},
        "trouble": live.trouble,
        "stalled": live.stalled,
        "trust": live.plan.trust,
        "validity": live.plan.validity,
        "refused": dict(sorted(history.refused.items())),
        "privacy": _privacy(live) | {"worst_delta": history.worst_delta},
        "smallest": live.plan.recipe["smallest"],
        "assigned": live.counted("assigned"),
        "accepted": live.counted("accepted"),
        "reports": history.reports,
        "program": program,
        # What a program shows of comparisons: how arms stand to the control, now and so far, and how turns are dealt.
        "curve": history.curve(live.program),
        **{key: program.pop(key) for key in ("decision", "curve", "odds") if key in program},
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
    offers = _sampled(live)
    body: dict[str, Any] = {
        "experiment": live.name,
        "title": live.plan.title,
        "arms": list(live.arms),
        "trust": live.plan.trust,
        "validity": live.plan.validity,
        "report_at": list(live.plan.reports.at),
        "privacy": _privacy(live),
        "values": live.plan.recipe.get("values"),
        "features": _features(live.plan.parameters),
        "metrics": [{"name": one["name"], "epsilon": one["epsilon"]} for one in live.plan.recipe.get("sums", ())],
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
    for offer in offers:
        batches: list[dict[str, Any]] = []
        for batch, (front, length) in zip(offer.batches, _lengths(offer, configuration), strict=True):
            local = batch.mechanism.residual
            batches.append(
                {
                    "batch": batch.number,
                    "users": batch.mechanism.users,
                    "messages": batch.shape.slots,
                    "message_bytes": length,
                    "front_bytes": front,
                    "residual_epsilon": local.epsilon,
                    "hides_nothing_alone": local.hides_nothing,
                    "residual_advantage": local.advantage,
                    "sample": [
                        {"value": value, "messages": _sample(batch.mechanism, value, configuration.validity.proved)}
                        for value in batch.mechanism.extremes
                    ],
                }
            )
        whole = {
            "upload_bytes": upload_length(offer, configuration.suite, proved=configuration.validity.proved),
            "sample_upload": _sample_upload(live, offer),
            # A turn shows the same value to all its batches, so what they cost adds up.
            "residual_epsilon": sum(batch["residual_epsilon"] for batch in batches),
        }
        body["reports"].append({"arm": offer.arm, "batches": batches} | whole)
    return body


def _features(parameters: dict[str, Any]) -> list[str] | None:
    """What describes a user to their own device, where it chooses by itself; None where it does not."""
    return [feature["name"] for feature in parameters["features"]] if "features" in parameters else None


def _sampled(live: Live) -> list[Offer]:
    """The turns that are shown as examples: those that are open, or the last one; of a private experiment the first
    ones that there ever were, which tell nothing of how it stands.
    """
    if not live.plan.public and live.configured is not None:
        digest = live.configured.hash
        return [
            Offer(live.name, digest, one.number, one.arm, tuple(Batch.of(n, digest, m) for n, m in one.batches), None)
            for one in live.plan.program().wanted
        ]
    return list(live.offers.values()) or [offer for offer in (live.state.latest,) if offer is not None]


def _lengths(offer: Offer, configuration: Configuration) -> list[tuple[int, int]]:
    """For each batch the bytes that the front reads, none where there are no shares, and those of a sealed message."""
    if configuration.in_shares:
        front, parts = form(offer, configuration.suite, proved=configuration.validity.proved)
        return [(front, parts[min(place, len(parts) - 1)]) for place in range(len(offer.batches))]
    overhead = SUITES[configuration.suite].overhead
    return [(0, batch.shape.length + overhead) for batch in offer.batches]


def _sample(mechanism: Mechanism, value: object, proved: bool) -> list[str]:
    """One report before sealing, made with a public seed: its messages, or the front's share and the analyzer's."""
    if mechanism.ring is None:
        return [slot.hex() for slot in mechanism.slots(value, seeded(1))]
    seed, numbers = hashlib.sha256(repr(value).encode()).digest(), mechanism.secret(value, seeded(1))
    if proved and mechanism.prio3 is not None:
        rand = (seed * mechanism.prio3.rand_size)[: mechanism.prio3.rand_size]
        return [share.hex() for share in prove(mechanism.prio3, numbers, bytes(16), b"a sample", rand)]
    return [seed.hex(), mechanism.ring.split(numbers, seed, b"a sample").hex()]


def _sample_upload(live: Live, offer: Offer) -> str:
    """The bytes of one upload as a device would send them, with a token of zeros that no front takes."""
    statement = live.state.configurations[offer.configuration]
    joined = Joined(Configuration.from_text(statement.text), statement)
    device = Device("", Account(None, Limits()), Limits(), secure())
    sealed = device.sealed(Turn(joined, offer, bytes(TOKEN), 0), offer.batches[0].mechanism.extremes[1])
    return from_text("body", sealed.body).hex()
