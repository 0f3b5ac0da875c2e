"""Write `wire_vectors.json`: every stage of a report, from a value to the body of an upload, with fixed keys.

Run it from the project's directory: `python tests/client/make_wire_vectors.py`. Sealing is randomized, so a sealed
vector is one that must open, not one that must be made again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from croupier.client.configuration import Batch, Configuration, Offer, Privacy, ServerKeys, recipe_of
from croupier.client.sealing import SUITES, key_id, seal
from croupier.client.signing import to_text
from croupier.client.wire import Envelope, Part, Report, message_info, report_info, shape, slots
from croupier.noise import seeded
from croupier.protocols import counted_messages, histogram, shuffled_bits, shuffled_laplace

PATH = Path(__file__).parent / "wire_vectors.json"

MECHANISMS = {
    "shuffled-laplace": (shuffled_laplace(epsilon=1.0, binary=True).plan(users=40), 1.0),
    "shuffled-bits": (shuffled_bits(epsilon=1.0, delta=1e-6).plan(users=200), 1.0),
    "counted-messages": (counted_messages(epsilon=1.0, delta=1e-6).plan(users=100), 0.0),
    "histogram": (histogram(epsilon=1.0, delta=1e-6, universe=("red", "green", "blue")).plan(users=100), "blue"),
}


def fixed(what: str, length: int) -> bytes:
    """Bytes that anyone can make again: SHA-256 of a label and a counter."""
    blocks = (hashlib.sha256(f"{what} {i}".encode()).digest() for i in range(-(-length // 32)))
    return b"".join(blocks)[:length]


def vector(name: str, suite: str) -> dict:
    """One mechanism the whole way."""
    mechanism, value = MECHANISMS[name]
    private = {server: fixed(f"{server} seal {suite}", 96 if "mlkem" in suite else 32) for server in SERVERS}
    sign = {server: Ed25519PrivateKey.from_private_bytes(fixed(f"{server} sign", 32)) for server in SERVERS}
    keys = {
        server: ServerKeys(SUITES[suite].public_of(private[server]), sign[server].public_key().public_bytes_raw())
        for server in SERVERS
    }
    configuration = Configuration(
        "colours",
        0,
        "Which colour?",
        ("red", "green"),
        {"kind": "bandit"},
        recipe_of(mechanism) | {"smallest": mechanism.users},
        Privacy(1.0, 1.01e-6, 1.0, "a device", 86_400),
        suite,
        keys,
        {"analyzer": "https://analyzer.example", "shuffler": "https://shuffler.example"},
    )
    signed = configuration.statement().signed("analyzer", sign["analyzer"]).signed("shuffler", sign["shuffler"])
    offer = Offer("colours", signed.hash, 7, 0, (Batch.of(3, mechanism),))
    offered = offer.statement().signed("analyzer", sign["analyzer"]).signed("shuffler", sign["shuffler"])
    batch = offer.batches[0]
    opened = slots(mechanism, value, seeded(1))
    inner = message_info("colours", signed.hash, batch.hash)
    sealed = tuple(seal(suite, keys["analyzer"].seal, slot, inner) for slot in opened)
    report = Report(fixed("report", 16), fixed("token", 56), 7, (Part(3, sealed),))
    outer = report_info("colours", signed.hash)
    body = Envelope(
        SUITES[suite].number,
        key_id(keys["shuffler"].seal),
        signed.hash,
        seal(suite, keys["shuffler"].seal, report.to_bytes(), outer),
    ).to_bytes()
    return {
        "suite": suite,
        "private_seal": {server: private[server].hex() for server in SERVERS},
        "private_sign": {server: fixed(f"{server} sign", 32).hex() for server in SERVERS},
        "configuration": signed.to_dict(),
        "configuration_hash": to_text(signed.hash),
        "offer": offered.to_dict(),
        "batch_hash": to_text(batch.hash),
        "slots": shape(mechanism).slots,
        "slot_length": shape(mechanism).length,
        "cap": shape(mechanism).cap,
        "value": value,
        "opened": [slot.hex() for slot in opened],
        "message_info": inner.hex(),
        "messages": [message.hex() for message in sealed],
        "report_id": report.report.hex(),
        "token": report.token.hex(),
        "report": report.to_bytes().hex(),
        "report_info": outer.hex(),
        "upload": body.hex(),
    }


SERVERS = ("analyzer", "shuffler")


def main() -> None:
    """All mechanisms under the default suite, and one under each of the others."""
    wanted = [(name, "x25519-aes128gcm") for name in MECHANISMS]
    wanted += [("shuffled-bits", suite) for suite in SUITES if suite != "x25519-aes128gcm"]
    found = {f"{name} {suite}": vector(name, suite) for name, suite in wanted}
    PATH.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
