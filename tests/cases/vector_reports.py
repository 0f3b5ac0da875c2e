"""Whole reports, every stage of them, with fixed keys: the first part of `wire_vectors.json`."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from cases.made import Made
from croupier.continual import counter
from croupier.messages.admission import EVERYBODY
from croupier.messages.configuration import Configuration, Privacy, Reports, ServerKeys
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import SUITES, key_id, seal
from croupier.messages.signing import Statement, to_text
from croupier.messages.validity import NOT_PROVED
from croupier.messages.wire import Envelope, Part, Report, message_info, report_info
from croupier.noise import seeded
from croupier.protocols import (
    Buckets,
    HistogramMechanism,
    Mechanism,
    counted_messages,
    histogram,
    shuffled_bits,
    shuffled_laplace,
    shuffled_levels,
)
from croupier.protocols.sums.carriers import SplitAndMix
from croupier.protocols.sums.values import encode

SERVERS = ("analyzer", "front")
SUITE = "x25519-aes128gcm"
COLOURS = ("red", "green", "blue")
OURS = {"honest_fraction": 0.9, "front_noise": True}
"""What a service plans: nine of ten users are counted on, and the front adds a whole noise of its own."""
MECHANISMS: Made[tuple[Mechanism, Any, int]] = Made(
    {
        "shuffled-laplace": lambda: (shuffled_laplace(epsilon=1.0, binary=True, **OURS).plan(users=40), 1.0, 1),
        "shuffled-bits": lambda: (shuffled_bits(epsilon=1.0, delta=1e-6, **OURS).plan(users=200), 1.0, 1),
        "counted-messages": lambda: (counted_messages(epsilon=1.0, delta=1e-6, **OURS).plan(users=100), 0.0, 1),
        "histogram": lambda: (
            histogram(epsilon=1.0, delta=1e-6, universe=COLOURS, **OURS).plan(users=100),
            "blue",
            1,
        ),
    }
)
"""What each report is made with: a mechanism, a value, and the seed of the draws."""

DRAWN: Made[tuple[Mechanism, Any, int]] = Made(
    {
        "shuffled-laplace-range": lambda: (
            shuffled_laplace(epsilon=1.0, low=-1, high=3, **OURS).plan(users=40),
            0.3,
            6,
        ),
        "shuffled-levels": lambda: (shuffled_levels(epsilon=1.0, delta=1e-6, **OURS).plan(users=100), 0.5, 1),
        "shuffled-bits-noisy": lambda: (shuffled_bits(epsilon=1.0, delta=1e-6, **OURS).plan(users=32), 0.0, 2),
        "shuffled-bits-published": lambda: (
            shuffled_bits(epsilon=0.9, delta=1e-6, constants="published", **OURS).plan(users=400),
            1.0,
            1,
        ),
        "counted-messages-noisy": lambda: (counted_messages(epsilon=1.0, delta=1e-6, **OURS).plan(users=40), 1.0, 1),
        "counted-messages-under": lambda: (
            counted_messages(epsilon=0.25, delta=1e-6, side="under", **OURS).plan(users=100),
            0.0,
            9,
        ),
        "histogram-under": lambda: (
            histogram(epsilon=1.0, delta=1e-6, universe=COLOURS, side="under", **OURS).plan(users=100),
            "red",
            7,
        ),
        "histogram-buckets": lambda: (
            histogram(epsilon=1.0, delta=1e-6, universe=Buckets(9, "2024-05", ("red", "green")), **OURS).plan(
                users=2000
            ),
            "mauve",
            10,
        ),
    }
)
"""The same, in reports that also say what was drawn and with which ephemeral keys they are sealed."""


@cache
def levels() -> tuple[Mechanism, ...]:
    """What the batches of a counter's turn are made with."""
    return counter(200, 2, epsilon=1.0, delta=1e-6, over="shuffled-bits", **OURS).mechanisms


def fixed(what: str, length: int) -> bytes:
    """Bytes that anyone can make again: SHA-256 of a label and a counter."""
    blocks = (hashlib.sha256(f"{what} {i}".encode()).digest() for i in range(-(-length // 32)))
    return b"".join(blocks)[:length]


SIGN = {server: Ed25519PrivateKey.from_private_bytes(fixed(f"{server} sign", 32)) for server in SERVERS}


def private_seal(suite: str) -> dict[str, bytes]:
    return {server: fixed(f"{server} seal {suite}", 96 if "mlkem" in suite else 32) for server in SERVERS}


def configuration_of(mechanism: Mechanism, suite: str = SUITE, **changes: Any) -> Configuration:
    """A bandit's configuration with two arms, around one mechanism."""
    private = private_seal(suite)
    found = Configuration(
        "colours",
        0,
        "Which colour?",
        ("red", "green"),
        {"kind": "bandit"},
        mechanism.recipe | {"smallest": mechanism.users},
        mechanism.trust,
        Reports(86_400, (600, 7_200), mechanism.extremes[0]),
        Privacy(1.0, 1.01e-6, 0.9, "a device", 86_400),
        EVERYBODY,
        NOT_PROVED,
        suite,
        {s: ServerKeys(SUITES[suite].public_of(private[s]), SIGN[s].public_key().public_bytes_raw()) for s in SERVERS},
        {"analyzer": "https://analyzer.example", "front": "https://front.example"},
    )
    return replace(found, **changes)


def signed(statement: Statement) -> Statement:
    return statement.signed("analyzer", SIGN["analyzer"]).signed("front", SIGN["front"])


def sealed_with(suite: str, public: bytes, plaintext: bytes, info: bytes, ephemeral: bytes, aad: bytes = b"") -> bytes:
    """RFC 9180, base mode, one shot, with a given ephemeral key: by the letter, for the two suites over X25519."""

    def extract(name: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
        return hmac.digest(salt or bytes(32), b"HPKE-v1" + name + label + key, "sha256")

    def expand(name: bytes, key: bytes, label: bytes, context: bytes, length: int) -> bytes:
        text = length.to_bytes(2, "big") + b"HPKE-v1" + name + label + context + b"\x01"
        return hmac.digest(key, text, "sha256")[:length]

    number, key_length, aead = {
        "x25519-aes128gcm": (1, 16, AESGCM),
        "x25519-chacha20poly1305": (3, 32, ChaCha20Poly1305),
    }[suite]
    private = X25519PrivateKey.from_private_bytes(ephemeral)
    encapsulated = private.public_key().public_bytes_raw()
    agreed = private.exchange(X25519PublicKey.from_public_bytes(public))
    kem, name = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01" + number.to_bytes(2, "big")
    shared = expand(kem, extract(kem, b"", b"eae_prk", agreed), b"shared_secret", encapsulated + public, 32)
    context = b"\0" + extract(name, b"", b"psk_id_hash", b"") + extract(name, b"", b"info_hash", info)
    secret = extract(name, shared, b"secret", b"")
    key = expand(name, secret, b"key", context, key_length)
    nonce = expand(name, secret, b"base_nonce", context, 12)
    return encapsulated + aead(key).encrypt(nonce, plaintext, aad)


def vector(name: str, suite: str) -> dict[str, Any]:
    """One mechanism the whole way."""
    mechanism, value, seed = (MECHANISMS | DRAWN)[name]
    return report_of(name, suite, configuration_of(mechanism, suite), (mechanism,), value, seed)


def report_of(
    name: str, suite: str, configuration: Configuration, mechanisms: tuple[Mechanism, ...], value: Any, seed: int
) -> dict[str, Any]:
    """One report the whole way, with what belongs to its only batch, or to each of them, beside it."""
    private, statement = private_seal(suite), signed(configuration.statement())
    public = {server: configuration.keys[server].seal for server in SERVERS}
    offer = Offer(
        "colours",
        statement.hash,
        7,
        0 if configuration.arms else None,
        tuple(Batch.of(3 + i, statement.hash, m) for i, m in enumerate(mechanisms)),
    )
    repeatable = name not in MECHANISMS

    def sealed(server: str, plaintext: bytes, info: bytes, ephemeral: bytes) -> bytes:
        if repeatable:
            return sealed_with(suite, public[server], plaintext, info, ephemeral)
        return seal(suite, public[server], plaintext, info)

    batches, parts = [], []
    for batch, mechanism in zip(offer.batches, mechanisms, strict=True):
        opened = mechanism.slots(value, seeded(seed))
        inner = message_info("colours", statement.hash, batch.hash)
        keys = [fixed(f"{name} {batch.number} {i}", 32) for i in range(len(opened))]
        messages = tuple(sealed("analyzer", slot, inner, key) for slot, key in zip(opened, keys, strict=True))
        parts.append(Part(batch.number, messages))
        batches.append(
            {
                "batch_hash": to_text(batch.hash),
                "slots": mechanism.shape.slots,
                "slot_length": mechanism.shape.length,
                "cap": mechanism.shape.cap,
                "front": mechanism.shape.front,
                "opened": [slot.hex() for slot in opened],
                "message_info": inner.hex(),
                "messages": [message.hex() for message in messages],
            }
        )
        if repeatable:
            batches[-1] |= {"drawn": drawn(mechanism, value, opened, seed), "ephemeral": [key.hex() for key in keys]}
    report = Report(fixed("report", 16), fixed("token", 56), 7, tuple(parts))
    outer, key = report_info("colours", statement.hash), fixed(f"{name} report", 32)
    sealed_report = sealed("front", report.to_bytes(), outer, key)
    body = Envelope(SUITES[suite].number, key_id(public["front"]), statement.hash, sealed_report).to_bytes()
    return {
        "suite": suite,
        "private_seal": {server: private[server].hex() for server in SERVERS},
        "private_sign": {server: fixed(f"{server} sign", 32).hex() for server in SERVERS},
        "configuration": statement.to_dict(),
        "configuration_hash": to_text(statement.hash),
        "offer": signed(offer.statement()).to_dict(),
        "value": value,
        "report_id": report.report.hex(),
        "token": report.token.hex(),
        "report": report.to_bytes().hex(),
        "report_info": outer.hex(),
        "upload": body.hex(),
        **({"report_ephemeral": key.hex()} if repeatable else {}),
        **(batches[0] if len(batches) == 1 else {"batches": batches}),
    }


def drawn(mechanism: Mechanism, value: Any, opened: tuple[bytes, ...], seed: int) -> dict[str, Any]:
    """What chance decided in a report: the encoded value and the noise, from which the messages follow."""
    sent = [slot[1:] for slot in opened if slot[0]]
    if isinstance(mechanism, HistogramMechanism):
        (label,) = mechanism.universe.indices([value]).tolist()
        counts = np.bincount([int.from_bytes(message, "big") for message in sent], minlength=mechanism.size)
        own = np.arange(mechanism.size) == label
        noise = counts - (own if mechanism.oracle.side == "over" else ~own)
        return {"label": label, "noise": {str(i): int(noise[i]) for i in np.flatnonzero(noise)}}
    # The encoding comes first of all draws, so that the same seed gives it again.
    found = int(encode(mechanism.values.unit(value), mechanism.precision, seeded(seed)))
    encoded = mechanism.precision - found if mechanism.side == "under" else found
    carrier = mechanism.carrier
    if isinstance(carrier, SplitAndMix):
        pieces = [int.from_bytes(message, "big") for message in sent]
        noise = (sum(pieces) - encoded) % carrier.modulus
        signed_noise = noise - carrier.modulus if 2 * noise > carrier.modulus else noise
        return {"encoded": encoded, "noise": signed_noise, "pieces": pieces[:-1]}
    ones = sent.count(b"\x01") - encoded
    silent = carrier.value_messages - encoded if carrier.value_messages else 0
    return {"encoded": encoded, "zeros": sent.count(b"\0") - silent, "ones": ones}


def two_batches() -> dict[str, Any]:
    """A counter's turn: one value in two batches of different sizes."""
    privacy = Privacy(1.0, 1e-6, 0.9, "a device", 86_400)
    configuration = configuration_of(levels()[0], arms=(), program={"kind": "counter"}, privacy=privacy)
    return report_of("two-batches", SUITE, configuration, levels(), 1.0, 1)


def seals() -> list[dict[str, str]]:
    """Single seals with their ephemeral keys."""
    found = []
    for suite in ("x25519-aes128gcm", "x25519-chacha20poly1305"):
        private, ephemeral = private_seal(suite)["analyzer"], fixed(f"ephemeral {suite}", 32)
        info = b"croupier/2 message"
        public = SUITES[suite].public_of(private)
        whole = sealed_with(suite, public, b"\x01\x01", info, ephemeral)
        parts = {"private": private, "public": public, "ephemeral": ephemeral, "info": info, "ciphertext": whole}
        found.append({"suite": suite, "plaintext": "0101"} | {key: value.hex() for key, value in parts.items()})
    return found


def ticket() -> dict[str, Any]:
    """An issuer's ticket, as bytes and as the header that carries it."""
    key, name, expires = fixed("issuer sign", 32), fixed("ticket", 16), 1_900_022_400
    body = name + expires.to_bytes(8, "big")
    whole = body + Ed25519PrivateKey.from_private_bytes(key).sign(b"croupier/2 ticket\0colours\0" + body)
    return {
        "private_sign": key.hex(),
        "experiment": "colours",
        "id": name.hex(),
        "expires": expires,
        "ticket": whole.hex(),
        "header": to_text(whole),
    }


def receipt() -> dict[str, Any]:
    """What the front signs of a released batch of the first report above."""
    mechanism = MECHANISMS["shuffled-laplace"][0]
    statement = signed(configuration_of(mechanism).statement())
    batch = Batch.of(3, statement.hash, mechanism)
    body = {
        "version": 2,
        "experiment": "colours",
        "configuration": to_text(statement.hash),
        "batch": 3,
        "batch_hash": to_text(batch.hash),
        "reports": mechanism.users,
        "messages": mechanism.users * mechanism.shape.slots + mechanism.shape.front,
        "length": mechanism.shape.length + SUITES[SUITE].overhead,
        "parts": 1,
        "sha256": to_text(fixed("messages", 32)),
    }
    release = Statement.of("release", body).signed("front", SIGN["front"])
    return {"configuration": statement.to_dict(), "receipt": release.to_dict()}
