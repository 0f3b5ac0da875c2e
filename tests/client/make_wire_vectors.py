"""Write `wire_vectors.json`: every stage of a report and every number that a client computes, with fixed keys.

Run it from the project's directory: `python tests/client/make_wire_vectors.py`. Version 1 is frozen: reports that are
in the file stay as they are. Where the sealing was randomized a vector is one that must open; where it names its
ephemeral keys it can be made again, bit for bit.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from croupier.client.account import Account, Pending
from croupier.client.configuration import Batch, Configuration, Offer, Privacy, ServerKeys, recipe_of
from croupier.client.limits import Limits
from croupier.client.sealing import SUITES, key_id, seal
from croupier.client.signing import Statement, to_text
from croupier.client.wire import Envelope, Part, Report, Reporting, message_info, report_info, shape, slots
from croupier.continual import counter
from croupier.noise import Binomial, Poisson, Polya, PolyaDifference, SparseBits, seeded
from croupier.noise.binomial import fair_rows
from croupier.noise.serial import noise_to_dict
from croupier.privacy import BudgetExceeded
from croupier.protocols import (
    Buckets,
    HistogramMechanism,
    Values,
    counted_messages,
    histogram,
    shuffled_bits,
    shuffled_laplace,
    shuffled_levels,
)
from croupier.protocols.carriers import SplitAndMix
from croupier.protocols.values import encode

PATH = Path(__file__).parent / "wire_vectors.json"
SERVERS = ("analyzer", "shuffler")
SUITE = "x25519-aes128gcm"
COLOURS = ("red", "green", "blue")
LEVELS = counter(200, 2, epsilon=1.0, delta=1e-6, over="shuffled-bits").mechanisms

MECHANISMS: dict[str, tuple[Reporting, Any, int]] = {
    "shuffled-laplace": (shuffled_laplace(epsilon=1.0, binary=True).plan(users=40), 1.0, 1),
    "shuffled-bits": (shuffled_bits(epsilon=1.0, delta=1e-6).plan(users=200), 1.0, 1),
    "counted-messages": (counted_messages(epsilon=1.0, delta=1e-6).plan(users=100), 0.0, 1),
    "histogram": (histogram(epsilon=1.0, delta=1e-6, universe=COLOURS).plan(users=100), "blue", 1),
}
"""What each report is made with: a mechanism, a value, and the seed of the draws."""

DRAWN: dict[str, tuple[Reporting, Any, int]] = {
    "shuffled-laplace-range": (shuffled_laplace(epsilon=1.0, low=-1, high=3).plan(users=40), 0.3, 6),
    "shuffled-levels": (shuffled_levels(epsilon=1.0, delta=1e-6).plan(users=100), 0.5, 1),
    "shuffled-bits-noisy": (shuffled_bits(epsilon=1.0, delta=1e-6).plan(users=32), 0.0, 2),
    "shuffled-bits-published": (
        shuffled_bits(epsilon=0.9, delta=1e-6, constants="published").plan(users=400),
        1.0,
        1,
    ),
    "counted-messages-noisy": (counted_messages(epsilon=1.0, delta=1e-6).plan(users=40), 1.0, 1),
    "counted-messages-under": (counted_messages(epsilon=0.25, delta=1e-6, side="under").plan(users=100), 0.0, 9),
    "histogram-under": (
        histogram(epsilon=1.0, delta=1e-6, universe=COLOURS, side="under").plan(users=100),
        "red",
        7,
    ),
    "histogram-buckets": (
        histogram(epsilon=1.0, delta=1e-6, universe=Buckets(9, "2024-05", ("red", "green"))).plan(users=2000),
        "mauve",
        10,
    ),
}
"""The same, in reports that also say what was drawn and with which ephemeral keys they are sealed."""


def fixed(what: str, length: int) -> bytes:
    """Bytes that anyone can make again: SHA-256 of a label and a counter."""
    blocks = (hashlib.sha256(f"{what} {i}".encode()).digest() for i in range(-(-length // 32)))
    return b"".join(blocks)[:length]


SIGN = {server: Ed25519PrivateKey.from_private_bytes(fixed(f"{server} sign", 32)) for server in SERVERS}


def private_seal(suite: str) -> dict[str, bytes]:
    return {server: fixed(f"{server} seal {suite}", 96 if "mlkem" in suite else 32) for server in SERVERS}


def configuration_of(mechanism: Reporting, suite: str = SUITE, **changes: Any) -> Configuration:
    """A bandit's configuration with two arms, around one mechanism."""
    private = private_seal(suite)
    found = Configuration(
        "colours",
        0,
        "Which colour?",
        ("red", "green"),
        {"kind": "bandit"},
        recipe_of(mechanism) | {"smallest": mechanism.users},
        Privacy(1.0, 1.01e-6, 1.0, "a device", 86_400),
        suite,
        {s: ServerKeys(SUITES[suite].public_of(private[s]), SIGN[s].public_key().public_bytes_raw()) for s in SERVERS},
        {"analyzer": "https://analyzer.example", "shuffler": "https://shuffler.example"},
    )
    return replace(found, **changes)


def signed(statement: Statement) -> Statement:
    return statement.signed("analyzer", SIGN["analyzer"]).signed("shuffler", SIGN["shuffler"])


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
    name: str, suite: str, configuration: Configuration, mechanisms: tuple[Reporting, ...], value: Any, seed: int
) -> dict[str, Any]:
    """One report the whole way, with what belongs to its only batch, or to each of them, beside it."""
    private, statement = private_seal(suite), signed(configuration.statement())
    public = {server: configuration.keys[server].seal for server in SERVERS}
    offer = Offer(
        "colours",
        statement.hash,
        7,
        0 if configuration.arms else None,
        tuple(Batch.of(3 + i, m) for i, m in enumerate(mechanisms)),
    )
    repeatable = name not in MECHANISMS

    def sealed(server: str, plaintext: bytes, info: bytes, ephemeral: bytes) -> bytes:
        if repeatable:
            return sealed_with(suite, public[server], plaintext, info, ephemeral)
        return seal(suite, public[server], plaintext, info)

    batches, parts = [], []
    for batch, mechanism in zip(offer.batches, mechanisms, strict=True):
        opened = slots(mechanism, value, seeded(seed))
        inner = message_info("colours", statement.hash, batch.hash)
        keys = [fixed(f"{name} {batch.number} {i}", 32) for i in range(len(opened))]
        messages = tuple(sealed("analyzer", slot, inner, key) for slot, key in zip(opened, keys, strict=True))
        parts.append(Part(batch.number, messages))
        batches.append(
            {
                "batch_hash": to_text(batch.hash),
                "slots": shape(mechanism).slots,
                "slot_length": shape(mechanism).length,
                "cap": shape(mechanism).cap,
                "opened": [slot.hex() for slot in opened],
                "message_info": inner.hex(),
                "messages": [message.hex() for message in messages],
            }
        )
        if repeatable:
            batches[-1] |= {"drawn": drawn(mechanism, value, opened, seed), "ephemeral": [key.hex() for key in keys]}
    report = Report(fixed("report", 16), fixed("token", 56), 7, tuple(parts))
    outer, key = report_info("colours", statement.hash), fixed(f"{name} report", 32)
    sealed_report = sealed("shuffler", report.to_bytes(), outer, key)
    body = Envelope(SUITES[suite].number, key_id(public["shuffler"]), statement.hash, sealed_report).to_bytes()
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


def drawn(mechanism: Reporting, value: Any, opened: tuple[bytes, ...], seed: int) -> dict[str, Any]:
    """What chance decided in a report: the encoded value and the noise, from which the messages follow."""
    sent = [slot[1:] for slot in opened if slot[0]]
    if isinstance(mechanism, HistogramMechanism):
        (label,) = mechanism.universe.indices([value]).tolist()
        counts = np.bincount([int.from_bytes(message, "big") for message in sent], minlength=mechanism.size)
        own = np.arange(mechanism.size) == label
        noise = counts - (own if mechanism.tally.side == "over" else ~own)
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
    privacy = Privacy(1.0, 1e-6, 1.0, "a device", 86_400)
    configuration = configuration_of(LEVELS[0], arms=(), program={"kind": "counter"}, privacy=privacy)
    return report_of("two-batches", SUITE, configuration, LEVELS, 1.0, 1)


def seals() -> list[dict[str, str]]:
    """Single seals with their ephemeral keys."""
    found = []
    for suite in ("x25519-aes128gcm", "x25519-chacha20poly1305"):
        private, ephemeral = private_seal(suite)["analyzer"], fixed(f"ephemeral {suite}", 32)
        info = b"croupier/1 message"
        public = SUITES[suite].public_of(private)
        whole = sealed_with(suite, public, b"\x01\x01", info, ephemeral)
        parts = {"private": private, "public": public, "ephemeral": ephemeral, "info": info, "ciphertext": whole}
        found.append({"suite": suite, "plaintext": "0101"} | {key: value.hex() for key, value in parts.items()})
    return found


LAWS = [
    (Poisson(0.375), 1, (0, 1, 5)),
    (Poisson(2.5), 160, (300, 400, 401, 500)),
    (Polya(0.25, beta=0.75), 1, (0, 1, 9)),
    (Polya(0.25, scale=5.5), 400, (300, 480, 900)),
    (PolyaDifference(0.025, scale=26), 1, (-30, 0, 1, 60)),
    (PolyaDifference(0.025, scale=26), 40, (-30, 0, 1, 60)),
    (PolyaDifference(0.025, scale=26), 60, (-30, 0, 1, 60)),
    (Binomial(3, 0.4), 100, (90, 120, 160)),
    (SparseBits(4, 0.75), 25, (-20, 0, 1, 30)),
]


def laws() -> list[dict[str, Any]]:
    """Probabilities of one party's noise, and of so many parties' together: P(X = x) and P(X > x)."""
    found = []
    for share, parties, points in LAWS:
        total = share.times(parties)
        found.append(
            {
                "share": noise_to_dict(share),
                "parties": parties,
                "x": list(points),
                "pmf": [float(total.pmf(x)) for x in points],
                "tail": [float(total.tail(x)) for x in points],
            }
        )
    return found


def caps() -> list[dict[str, Any]]:
    """The limit on the noise count of one user: by Poisson and by Pólya noise, and for rates far above a hundred."""
    buckets = histogram(epsilon=1.0, delta=1e-6, universe=Buckets(9)).plan(users=100)
    wide = histogram(epsilon=0.25, delta=1e-6, universe=Buckets(6), side="under").plan(users=32)
    mechanisms = [one for one, _, _ in (MECHANISMS | DRAWN).values() if shape(one).cap is not None] + [buckets, wide]
    found = []
    for mechanism in mechanisms:
        histogrammed = isinstance(mechanism, HistogramMechanism)
        noise = mechanism.tally.share.times(mechanism.size) if histogrammed else mechanism.share
        cap = shape(mechanism).cap
        above = {"above": float(noise.tail(cap)), "above_one_less": float(noise.tail(cap - 1))}
        found.append({"mechanism": mechanism.to_json(), "cap": cap, "slots": shape(mechanism).slots} | above)
    return found


NEGLIGIBLE = 1e-20
"""What several batches show together is added up without single probabilities below this."""


def pairs(mechanism: Reporting) -> np.ndarray:
    """Probabilities of everything that the view can show, under a value and under one that is larger by all of it."""

    def moved(pmf: np.ndarray, shift: int) -> np.ndarray:
        return np.stack((np.pad(pmf, (0, shift)), np.pad(pmf, (shift, 0))), axis=1)

    if isinstance(mechanism, HistogramMechanism):
        one = moved(mechanism.tally.share.times(mechanism.honest).window().pmf, 1)
        both = one[:, None, :] * one[None, :, ::-1]
        return both.reshape(-1, 2)
    guard = mechanism.guard
    if not isinstance(guard, SparseBits):
        return moved(guard.window().pmf, mechanism.precision)
    sent = guard.sent()
    start, weights = (guard.slots, [1.0]) if sent is None else (sent.window().start, sent.window().pmf)
    rows = fair_rows(start, start + len(weights), 1e-40)
    return np.concatenate([w * moved(row, mechanism.precision) for w, (_, row) in zip(weights, rows, strict=True)])


def noise_delta(mechanisms: tuple[Reporting, ...], epsilon: float) -> float:
    """δ of the noise alone, by adding over everything that all views together can show: all rise, or all fall."""
    found = pairs(mechanisms[0])
    for mechanism in mechanisms[1:]:
        found, further = (one[one.max(axis=1) > NEGLIGIBLE] for one in (found, pairs(mechanism)))
        found = (found[:, None, :] * further[None, :, :]).reshape(-1, 2)
    ratio = math.exp(epsilon)
    return max(float(np.maximum(p - ratio * q, 0.0).sum()) for p, q in (found.T, found.T[::-1]))


def deltas() -> list[dict[str, Any]]:
    """What turns cost: δ of the noise, the distance of carriers and limits, and the δ that the reference reports."""
    laplace, counted = MECHANISMS["shuffled-laplace"][0], MECHANISMS["counted-messages"][0]
    published = counted_messages(epsilon=0.9, delta=1e-6, constants="published").plan(users=400)
    bits = shuffled_bits(epsilon=0.9, delta=1e-6, constants="published").plan(users=400)
    uneven = replace(bits, share=Binomial(1, 0.2))
    turns = [((one,), one.guarantee.epsilon) for one, _, _ in (MECHANISMS | DRAWN).values() if one != bits]
    turns += [((uneven,), 0.9), ((published,), 0.9), ((laplace,), 0.5), ((counted,), 0.5)]
    turns += [(LEVELS, 1.0), ((counted, counted), 2.0), ((laplace, laplace), 1.5), ((laplace, laplace), 2.0)]
    levels = counter(3000, 3, epsilon=1.0, delta=1e-6, over="shuffled-laplace", constants="published")
    turns.append((levels.mechanisms, 1.0))
    found = []
    for mechanisms, epsilon in turns:
        offer = Offer("colours", bytes(32), 0, None, tuple(Batch.of(i, one) for i, one in enumerate(mechanisms)))
        # One number is compared exactly; a histogram's two counts and several batches are composed on a grid.
        exact = offer.loss.single is not None or offer.loss.ideal.delta(epsilon) == 0.0
        found.append(
            {
                "mechanisms": [one.to_json() for one in mechanisms],
                "epsilon": epsilon,
                "noise": offer.loss.ideal.delta(epsilon) if exact else noise_delta(mechanisms, epsilon),
                "distance": float(offer.loss.distance),
                "delta": offer.delta(epsilon),
            }
        )
    return found


def encodings() -> list[dict[str, Any]]:
    """Values and the two whole numbers they may become, the larger with this chance; None where they are refused."""
    kinds = {
        "fine": (Values(-1, 3), 26),
        "coarse": (Values(0.0, 5.0, clip=True), 3),
        "binary": (Values(0.0, 1.0, binary=True), 1),
        "clipped": (Values(0.0, 1.0, binary=True, clip=True), 1),
    }
    found = []
    for kind, value in [
        *itertools.product(["fine"], [-1, 0.3, 1.0, 2.9999, 3, 3.0001, -1.5]),
        *itertools.product(["coarse"], [-2.0, 0.1, 2.5, 5.0, 7.0]),
        *itertools.product(["binary", "clipped"], [0.0, 1.0, 0.5, 1.5]),
    ]:
        values, precision = kinds[kind]
        body: dict[str, Any] = {"low": values.low, "high": values.high, "binary": values.binary, "clip": values.clip}
        try:
            scaled = float(values.unit(value)) * precision
            down = math.floor(scaled)
            encoded: Any = {"down": down, "up": math.ceil(scaled), "chance": scaled - down}
        except ValueError:
            encoded = None
        found.append({"values": body, "precision": precision, "value": value, "encoded": encoded})
    return found


def honest_users() -> list[list[float]]:
    """[honest_fraction, users, the most honest users that a mechanism may count on]."""
    cases = [(0.55, 100), (0.9, 60), (0.9, 64), (0.07, 100), (1.0, 32), (0.5, 33), (0.001, 50)]
    protocol = shuffled_bits(epsilon=1.0)
    return [[share, users, replace(protocol, honest_fraction=share).honest(users)] for share, users in cases]


def pieces() -> list[dict[str, int]]:
    """The fewest pieces that split-and-mix may have."""
    cases = [(19, 2483, 40), (40, 2483, 40), (40, 109, 20), (1000, 10**6, 40), (900, 2**62, 128), (10**6, 3, 1)]
    fewest = [SplitAndMix.for_batch(modulus, 0, honest, security).pieces for honest, modulus, security in cases]
    names = ("honest", "modulus", "security", "pieces")
    return [dict(zip(names, (*case, few), strict=True)) for case, few in zip(cases, fewest, strict=True)]


def ticket() -> dict[str, Any]:
    """An issuer's ticket, as bytes and as the header that carries it."""
    key, name, expires = fixed("issuer sign", 32), fixed("ticket", 16), 1_900_000_000
    body = name + expires.to_bytes(8, "big")
    whole = body + Ed25519PrivateKey.from_private_bytes(key).sign(b"croupier/1 ticket\0colours\0" + body)
    return {
        "private_sign": key.hex(),
        "experiment": "colours",
        "id": name.hex(),
        "expires": expires,
        "ticket": whole.hex(),
        "header": to_text(whole),
    }


def receipt() -> dict[str, Any]:
    """What the shuffler signs of a released batch of the first report above."""
    mechanism = MECHANISMS["shuffled-laplace"][0]
    statement, batch = signed(configuration_of(mechanism).statement()), Batch.of(3, mechanism)
    body = {
        "version": 1,
        "experiment": "colours",
        "configuration": to_text(statement.hash),
        "batch": 3,
        "batch_hash": to_text(batch.hash),
        "reports": mechanism.users,
        "messages": mechanism.users * shape(mechanism).slots,
        "length": shape(mechanism).length + SUITES[SUITE].overhead,
        "parts": 1,
        "sha256": to_text(fixed("messages", 32)),
    }
    release = Statement.of("release", body).signed("shuffler", SIGN["shuffler"])
    return {"configuration": statement.to_dict(), "receipt": release.to_dict()}


def ledger() -> list[dict[str, Any]]:
    """Turns on devices with the default limits, and what each is charged; None where the ledger refuses it."""
    day = 86_400
    histories: list[tuple[int, list[tuple[int, str, float, float, list[int]]]]] = [
        (day, [(i, "colours", 1.0, 1e-6, [i]) for i in range(5)] + [(day, "colours", 1.0, 1e-6, [5])]),
        (
            2 * day,
            [(0, "colours", 2.0, 1e-6, [1]), (day, "sounds", 2.0, 1e-6, [1]), (day + 1, "sounds", 2.0, 1e-6, [2])],
        ),
        (day, [(0, "colours", 0.5, 1e-6, [1, 2]), (1, "colours", 0.5, 1e-6, [2, 3]), (2, "colours", 0.5, 1e-6, [4])]),
        (
            day,
            [
                (0, "a", 0.5, 1e-6, [1]),
                (1, "a", 0.5, 1e-6, [2]),
                (2, "a", 0.5, 1e-6, [1, 2]),
                (3, "a", 0.5, 9.5e-5, [3]),
            ],
        ),
        (day, [(0, "a", 2.0, 1e-5, [1]), (1, "a", 2.0, 1e-5, [1]), (2, "b", 2.0, 1e-5, [1])]),
    ]
    found = []
    for period, turns in histories:
        now = [0.0]
        account, listed = Account(None, Limits(), lambda now=now: now[0], period), []
        for number, (at, experiment, epsilon, delta, batches) in enumerate(turns):
            now[0] = float(at)
            try:
                account.charge(epsilon, delta, Pending(experiment, "", str(number), "", 0), batches)
                charged = [account.ledger.charges[-1].cost, account.ledger.charges[-1].delta]
            except BudgetExceeded:
                charged = None
            names = ("at", "experiment", "epsilon", "delta", "batches", "charged")
            listed.append(dict(zip(names, (at, experiment, epsilon, delta, batches, charged), strict=True)))
        found.append({"period": period, "turns": listed})
    return found


class Cases:
    """Turns that a client must take or refuse, each under a configuration that is named."""

    def __init__(self) -> None:
        self.configurations: dict[str, Any] = {}
        self.cases: list[dict[str, Any]] = []
        self.statements: dict[str, Statement] = {}

    def configuration(self, name: str, statement: Statement) -> str:
        self.configurations[name], self.statements[name] = statement.to_dict(), statement
        return name

    def add(self, why: str, name: str, *mechanisms: Any, refused: str | None = "offer", **more: Any) -> None:
        """A case: `refused` says what is refused, the configuration or the offer; None: nothing is."""
        before, changes = more.pop("before", None), more
        texts = [m if isinstance(m, str) else json.dumps(m, sort_keys=True) for m in mechanisms]
        body = {
            "version": 1,
            "experiment": "colours",
            "configuration": to_text(self.statements[name].hash),
            "offer": 7,
            "arm": 0,
            "batches": [{"number": 3 + i, "mechanism": text} for i, text in enumerate(texts)],
        } | changes
        offer = None if refused == "configuration" else signed(Statement.of("offer", body)).to_dict()
        self.cases.append({"why": why, "refused": refused, "before": before, "configuration": name, "offer": offer})


def changed(mechanism: Reporting, **changes: Any) -> dict[str, Any]:
    """A mechanism as data, with some of it replaced, parts of parts as `carrier__pieces`."""
    body = mechanism.to_dict()
    for path, value in changes.items():
        *outer, last = path.split("__")
        place = body
        for key in outer:
            place = place[key]
        place[last] = value
    return body


def refusals() -> dict[str, Any]:
    """Offers and configurations that differ in one thing from one that is accepted."""
    cases = Cases()
    laplace = shuffled_laplace(epsilon=1.0, binary=True).plan(users=40)
    whole = Privacy(1.0, laplace.guarantee.delta, 1.0, "a device", 86_400)
    plain = configuration_of(laplace, privacy=whole)
    cases.configuration("laplace", signed(plain.statement()))
    cases.add("as promised", "laplace", laplace.to_json(), refused=None)
    cases.add("almost no pieces", "laplace", changed(laplace, carrier__pieces=2))
    fewest = laplace.carrier.pieces
    cases.add("one piece too few", "laplace", changed(laplace, carrier__pieces=fewest - 1))
    cases.add("pieces for less security", "laplace", changed(laplace, carrier__security=30))
    cases.add("fewer than 19 honest users", "laplace", changed(laplace, honest=18, share__r="1/18", carrier__pieces=99))
    cases.add("half of the noise", "laplace", changed(laplace, share__r="1/80"))
    cases.add("noise of half the scale", "laplace", changed(laplace, share__scale="1/2"))
    cases.add("a modulus that does not hold the sum", "laplace", changed(laplace, carrier__modulus=40))
    cases.add("no noise on the device", "laplace", changed(laplace, noise_from="analyzer"))
    cases.add("another carrier", "laplace", changed(laplace, carrier={"kind": "plain", "modulus": 200, "slack": 20}))
    vectors = {"kind": "ball", "dimension": 1, "diameter": 2.0, "clip": False}
    cases.add("vectors", "laplace", changed(laplace, values=vectors))
    cases.add("other values than signed", "laplace", changed(laplace, values__clip=True))
    cases.add("a batch below the smallest", "laplace", shuffled_laplace(epsilon=1.0, binary=True).plan(39).to_json())
    cases.add("no arm", "laplace", laplace.to_json(), arm=None)
    cases.add("an arm that there is not", "laplace", laplace.to_json(), arm=2)
    cases.add("an offer of another experiment", "laplace", laplace.to_json(), experiment="sounds")
    cases.add("no batch", "laplace")
    cases.add("two batches where one was promised", "laplace", laplace.to_json(), laplace.to_json())
    twice = [{"number": 3, "mechanism": laplace.to_json()}] * 2
    cases.add("one batch twice", "laplace", laplace.to_json(), batches=twice)

    partly = shuffled_laplace(epsilon=1.0, binary=True, honest_fraction=0.55).plan(users=100)
    half = configuration_of(partly, privacy=replace(whole, honest_fraction=0.55))
    cases.configuration("partly", signed(half.statement()))
    cases.add("55 honest users of 100 at 0.55", "partly", partly.to_json(), refused=None)
    cases.add("56 honest users of 100 at 0.55", "partly", changed(partly, honest=56, share__r="1/56"))

    counted = counted_messages(epsilon=1.0, delta=1e-6).plan(users=100)
    cases.configuration("counted", signed(configuration_of(counted).statement()))
    cases.add("counts as promised", "counted", counted.to_json(), refused=None)
    thin = noise_to_dict(Poisson(counted.share.rate / 2))
    cases.add("half of the counted noise", "counted", changed(counted, share=thin))
    cases.add("a limit on the noise that costs too much", "counted", changed(counted, guarantee__delta=1e-3))

    uncounted = configuration_of(counted)
    uncounted = replace(
        uncounted, recipe=uncounted.recipe | {"values": changed(counted, values__binary=False)["values"]}
    )
    cases.configuration("uncounted", signed(uncounted.statement()))
    cases.add("counts of values that are not binary", "uncounted", changed(counted, values__binary=False))
    cases.add("a claim without a number for e^ε", "counted", changed(counted, guarantee__epsilon=1000.0))

    bits = shuffled_bits(epsilon=1.0, delta=1e-6).plan(users=100)
    cases.configuration("bits", signed(configuration_of(bits).statement()))
    cases.add("bits as promised", "bits", bits.to_json(), refused=None)
    cases.add("a value told by the number of its bits", "bits", changed(bits, carrier__value_messages=0))
    cases.add("bits that err to one side", "bits", changed(bits, side="over"))
    for count, refused in ((4095, None), (4096, "offer")):
        many = changed(bits, share={"family": "SparseBits", "slots": count, "rate": 1})
        cases.add(f"a report of {count + 1} slots", "bits", many, refused=refused)

    names = histogram(epsilon=1.0, delta=1e-6, universe=COLOURS).plan(users=100)
    counting = configuration_of(names, arms=(), program={"kind": "histogram"})
    cases.configuration("histogram", signed(counting.statement()))
    cases.add("a histogram as promised", "histogram", names.to_json(), refused=None, arm=None)
    thin = noise_to_dict(Poisson(names.tally.share.rate / 2))
    cases.add("half of a histogram's noise", "histogram", changed(names, ballot__share=thin), arm=None)
    other = changed(names, universe__names=["red", "green", "grey"])
    cases.add("another universe", "histogram", other, arm=None)

    limits = Limits()
    for why, change in {
        "ε above the device's": {"epsilon": 1.01 * limits.epsilon},
        "δ above the device's": {"delta": 1.01 * limits.delta},
        "a period longer than the device's": {"period": limits.longest_period + 1},
    }.items():
        cases.configuration(why, signed(replace(plain, privacy=replace(whole, **change)).statement()))
        cases.add(why, why, refused="configuration")
    small = shuffled_laplace(epsilon=1.0, binary=True).plan(users=limits.users - 1)
    cases.configuration("small", signed(configuration_of(small, privacy=whole).statement()))
    cases.add("batches smaller than the device's", "small", refused="configuration")
    for revision in (1, 2):
        cases.configuration(f"revision {revision}", signed(replace(plain, revision=revision).statement()))
    cases.add("a newer revision", "revision 2", laplace.to_json(), refused=None, before="laplace")
    cases.add("the revision before the newest", "revision 1", laplace.to_json(), refused=None, before="revision 2")
    cases.add("a stale revision", "laplace", refused="configuration", before="revision 2")
    cases.configuration("one", plain.statement().signed("analyzer", SIGN["analyzer"]))
    cases.add("one signature is missing", "one", refused="configuration")
    text = plain.statement()
    swapped = {"analyzer": signed(text).signatures["shuffler"], "shuffler": signed(text).signatures["analyzer"]}
    cases.configuration("swapped", Statement("configuration", text.text, swapped))
    cases.add("signatures under each other's names", "swapped", refused="configuration")
    kept = signed(text).signatures
    cases.configuration("edited", Statement("configuration", text.text.replace("Which", "What"), kept))
    cases.add("words that were not signed", "edited", refused="configuration")
    rogue = Ed25519PrivateKey.from_private_bytes(fixed("rogue sign", 32))
    keys = plain.keys | {"shuffler": replace(plain.keys["shuffler"], verify=rogue.public_key().public_bytes_raw())}
    foreign = replace(plain, keys=keys).statement().signed("analyzer", SIGN["analyzer"]).signed("shuffler", rogue)
    cases.configuration("other keys", foreign)
    cases.add("other keys than those seen first", "other keys", refused="configuration", before="laplace")
    return {"configurations": cases.configurations, "cases": cases.cases}


GROUPS = {
    "two-batches": two_batches,
    "seals": seals,
    "laws": laws,
    "caps": caps,
    "deltas": deltas,
    "encodings": encodings,
    "honest": honest_users,
    "pieces": pieces,
    "ledger": ledger,
    "ticket": ticket,
    "receipt": receipt,
    "refusals": refusals,
}
"""What is in the file beside whole reports, by name; a report's name has a space, for its suite."""


def main() -> None:
    """All mechanisms under the default suite, one under each of the others, and the groups."""
    kept = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    wanted = [(name, SUITE) for name in MECHANISMS | DRAWN]
    wanted += [("shuffled-bits", suite) for suite in SUITES if suite != SUITE]
    found = {f"{name} {suite}": kept.get(f"{name} {suite}") or vector(name, suite) for name, suite in wanted}
    found |= {name: group() for name, group in GROUPS.items()}
    PATH.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
