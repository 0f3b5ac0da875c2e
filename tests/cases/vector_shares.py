"""Whole reports in shares, every stage of them, with fixed keys and a fixed seed: a part of `wire_vectors.json`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from cases.made import Made
from cases.vector_reports import (
    COLOURS,
    SERVERS,
    SUITE,
    configuration_of,
    fixed,
    private_seal,
    sealed_with,
    signed,
)
from croupier.bandits import Metrics
from croupier.continual import counter
from croupier.messages.block import Block
from croupier.messages.configuration import Configuration, Privacy, Reports
from croupier.messages.offer import Batch, Offer
from croupier.messages.proofs import Shares, prove
from croupier.messages.sealing import SUITES, key_id
from croupier.messages.shares import SharedReport, scopes, share_info
from croupier.messages.signing import to_text
from croupier.messages.validity import Validity
from croupier.messages.wire import Envelope, report_info
from croupier.noise import seeded
from croupier.protocols import Buckets, Mechanism, Moments, histogram, laplace, protocol
from croupier.validity import Verifier

TWO = {"epsilon": 1.0, "trust": "two-servers"}
BY_SERVERS = Privacy(1.0, 0.0, 0.0, "a device", 86_400)
BY_DEVICES = Privacy(1.0, 0.0, 0.9, "a device", 86_400)
NO_ARMS: dict[str, Any] = {"arms": (), "program": {"kind": "histogram"}}
PROOF_KEY = fixed("proof key", 32)
PROVED: dict[str, Any] = {"validity": Validity.checked_with(PROOF_KEY)}
BLOCK = Block(5, 2, (3, 4), users=200, left=1000)
MOMENTS = Moments(2, places=2, weight=1.5, control=0.5)
VECTOR = MOMENTS.of([0.3, math.sqrt(0.5)], 1.0, 1, control=True).tolist()
LINEAR: dict[str, Any] = {
    "arms": (),
    "program": {"kind": "linear"},
    "privacy": Privacy(1.0, 1e-6, 0.0, "a device", 86_400),
    "reports": Reports(86_400, (300.0, 600.0), MOMENTS.extremes[0]),
}
METRICS = Metrics.of({"finished": {"role": "primary"}, "crashes": {"high": 5}, "minutes": {"low": -1, "high": 60}}, 1.0)
REPORTED = {"finished": 1.0, "crashes": 2.0, "minutes": 12.5}
SEVERAL: dict[str, Any] = {
    "privacy": BY_SERVERS,
    "reports": Reports(86_400, (300.0, 600.0), METRICS.plan(users=100).extremes[0], repeat=False),
}


def of_vectors(name: str, values: Moments, **more: Any) -> Mechanism:
    """What sums vectors between two servers."""
    return protocol(name, epsilon=1.0, dimension=values.dimension, precision=1024, **more).about(values).plan(users=100)


SHARED: Made[tuple[tuple[Mechanism, ...], Any, dict[str, Any]]] = Made(
    {
        "laplace": lambda: ((laplace(binary=True, **TWO).plan(users=100),), 1.0, {"privacy": BY_SERVERS}),
        "laplace-block": lambda: (
            (laplace(binary=True, **TWO).plan(users=100),),
            1.0,
            {"privacy": BY_SERVERS, "reports": Reports(86_400, (300.0, 600.0), 0.0, repeat=False)},
        ),
        "laplace-range": lambda: ((laplace(low=-1, high=3, **TWO).plan(users=100),), 0.3, {"privacy": BY_SERVERS}),
        "histogram": lambda: (
            (histogram(epsilon=1.0, model="two-servers", universe=COLOURS).plan(users=100),),
            "blue",
            NO_ARMS | {"privacy": BY_SERVERS},
        ),
        "histogram-buckets": lambda: (
            (histogram(epsilon=1.0, model="two-servers", universe=Buckets(5, "2024-05", ("red",))).plan(users=100),),
            "mauve",
            NO_ARMS | {"privacy": BY_SERVERS},
        ),
        "count-proved": lambda: ((laplace(binary=True, **TWO).plan(users=100),), 1.0, {"privacy": BY_SERVERS} | PROVED),
        "number-proved": lambda: (
            (laplace(low=-1, high=3, **TWO).plan(users=100),),
            0.3,
            {"privacy": BY_SERVERS} | PROVED,
        ),
        "histogram-proved": lambda: (
            (histogram(epsilon=1.0, model="two-servers", universe=COLOURS).plan(users=100),),
            "blue",
            NO_ARMS | {"privacy": BY_SERVERS} | PROVED,
        ),
        "histogram-buckets-proved": lambda: (
            (histogram(epsilon=1.0, model="two-servers", universe=Buckets(5, "2024-05", ("red",))).plan(users=100),),
            "mauve",
            NO_ARMS | {"privacy": BY_SERVERS} | PROVED,
        ),
        "vectors": lambda: ((of_vectors("laplace-vectors", MOMENTS),), VECTOR, LINEAR),
        "vectors-proved": lambda: ((of_vectors("shared-vectors", MOMENTS, delta=1e-6),), VECTOR, LINEAR | PROVED),
        "several": lambda: ((METRICS.plan(users=100),), REPORTED, SEVERAL),
        "several-proved": lambda: ((METRICS.plan(users=100),), REPORTED, SEVERAL | PROVED),
        "devices": lambda: (
            (laplace(epsilon=1.0, binary=True, honest_fraction=0.9).plan(users=40),),
            1.0,
            {"privacy": BY_DEVICES},
        ),
        "devices-two-batches": lambda: (
            counter(200, 2, epsilon=1.0, over="laplace", honest_fraction=0.9).mechanisms,
            1.0,
            {"arms": (), "program": {"kind": "counter"}, "privacy": BY_DEVICES},
        ),
    }
)
"""What each report is made with: mechanisms, a value, and what its configuration has of its own."""


def shares() -> dict[str, Any]:
    """Reports in shares by name; all bytes can be made again."""
    return {name: _report(name, *made) for name, made in SHARED.items()}


def _report(name: str, mechanisms: tuple[Mechanism, ...], value: Any, own: dict[str, Any]) -> dict[str, Any]:
    configuration: Configuration = replace(configuration_of(mechanisms[0]), **own)
    smallest = min(mechanism.users for mechanism in mechanisms)
    configuration = replace(configuration, recipe=configuration.recipe | {"smallest": smallest})
    private, statement = private_seal(SUITE), signed(configuration.statement())
    public = {server: configuration.keys[server].seal for server in SERVERS}
    batches = tuple(Batch.of(3 + i, statement.hash, one) for i, one in enumerate(mechanisms))
    block = BLOCK if name.endswith("-block") else None
    offer = Offer("colours", statement.hash, 7, 0 if configuration.arms else None, batches, block=block)
    report, token, seed = fixed("report", 16), fixed("token", 56), fixed(f"{name} seed", 32)
    front, parts, sealed = seed, [], []
    for part, scope in enumerate(scopes(offer)):
        asked, key = offer.batches[part].asked, fixed(f"{name} share {part}", 32)
        assert asked.ring is not None
        info, secret = share_info("colours", statement.hash, scope, part, report), asked.secret(value, seeded(1))
        found = {"scope": scope.hex(), "share_info": info.hex(), "modulus": str(asked.ring.modulus), "secret": secret}
        if configuration.validity.proved:
            made, (front, share) = _proved(name, asked.prio3, secret, report, info)
            found |= made
        else:
            share = asked.ring.split(secret, seed, info)
            found["front_share"] = [str(number) for number in asked.ring.expand(seed, info, len(secret))]
        sealed.append(sealed_with(SUITE, public["analyzer"], share, info, key))
        found |= {"analyzer_share": share.hex(), "ephemeral": key.hex(), "sealed": sealed[-1].hex()}
        parts.append(found)
    whole = SharedReport(report, token, 7, front, tuple(sealed)).to_bytes()
    outer, key = report_info("colours", statement.hash), fixed(f"{name} report", 32)
    envelope = sealed_with(SUITE, public["front"], whole, outer, key)
    body = Envelope(SUITES[SUITE].number, key_id(public["front"]), statement.hash, envelope).to_bytes()
    return {
        "suite": SUITE,
        "private_seal": {server: private[server].hex() for server in SERVERS},
        "private_sign": {server: fixed(f"{server} sign", 32).hex() for server in SERVERS},
        "configuration": statement.to_dict(),
        "configuration_hash": to_text(statement.hash),
        "offer": signed(offer.statement()).to_dict(),
        "value": value,
        "front_part": front.hex(),
        "report_id": report.hex(),
        "token": token.hex(),
        "parts": parts,
        "report": whole.hex(),
        "report_info": outer.hex(),
        "report_ephemeral": key.hex(),
        "upload": body.hex(),
    }


def _proved(name: str, prio3: Any, secret: list[int], report: bytes, info: bytes) -> tuple[dict[str, Any], Shares]:
    """A proved part: all that Prio3 makes of it, at the device and at both servers."""
    rand = fixed(f"{name} rand", prio3.rand_size)
    public, leader, helper = prio3.shard(prio3.circuit.measurement(secret), report, info, rand)
    prepared = [
        Verifier(prio3, server, PROOF_KEY).prepare([report], [public], [share], info)
        for server, share in enumerate((leader, helper))
    ]
    (message,) = prepared[0].combine(prepared[1].verifier_shares)
    shown = {
        "type": type(prio3.circuit).__name__,
        "rand": rand,
        "public_share": public,
        "leader_share": leader,
        "helper_share": helper,
        "proof_key": PROOF_KEY,
        "analyzer_verifier": prepared[0].verifier_shares[0],
        "front_verifier": prepared[1].verifier_shares[0],
        "message": message,
        "analyzer_output": prepared[0].output_shares[0],
        "front_output": prepared[1].output_shares[0],
    }
    shares = prove(prio3, secret, report, info, rand)
    return {key: one.hex() if isinstance(one, bytes) else one for key, one in shown.items()}, shares
