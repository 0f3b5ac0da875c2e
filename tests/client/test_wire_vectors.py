"""The vectors of `docs/wire.md`: a client in another language is right when it reproduces or opens them."""

import hashlib
import hmac
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cases import vector_reports as reports
from cases import wire_vectors as making
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.sealing import SUITES, Unopenable, key_id, unseal
from croupier.messages.signing import Statement, to_text
from croupier.messages.wire import Envelope, Report, message_info, report_info, upload_bytes
from croupier.noise import seeded

VECTORS = json.loads(making.PATH.read_text(encoding="utf-8"))
REPORTS = {name: vector for name, vector in VECTORS.items() if " " in name} | {"two-batches": VECTORS["two-batches"]}
DRAWN = [name for name, vector in REPORTS.items() if "report_ephemeral" in vector]


@pytest.fixture(params=REPORTS, ids=str)
def vector(request):
    return REPORTS[request.param]


def batches_of(vector):
    """What a vector says of each batch: beside the rest where there is only one."""
    return vector.get("batches", [vector])


def test_configuration_and_offer_are_signed_by_both_and_have_these_hashes(vector):
    signed = Statement.from_dict("configuration", vector["configuration"])
    configuration = Configuration.from_text(signed.text)
    signed.check_both(configuration.verify_keys)
    assert to_text(signed.hash) == vector["configuration_hash"]
    offered = Statement.from_dict("offer", vector["offer"])
    offered.check_both(configuration.verify_keys)
    offer = Offer.from_text(offered.text)
    configuration.check(offer)
    assert [to_text(batch.hash) for batch in offer.batches] == [one["batch_hash"] for one in batches_of(vector)]


def test_the_shape_and_the_slots_are_made_again_bit_for_bit(vector):
    name = next(name for name, found in REPORTS.items() if found is vector)
    seed = (making.MECHANISMS | making.DRAWN).get(name.split(" ")[0], (None, None, 1))[2]
    offered = Offer.from_text(vector["offer"]["body"]).batches
    for batch, one in zip(offered, batches_of(vector), strict=True):
        form = batch.mechanism.shape
        shown = (one["slots"], one["slot_length"], one["cap"], one["front"])
        assert (form.slots, form.length, form.cap, form.front) == shown
        assert [slot.hex() for slot in batch.mechanism.slots(vector["value"], seeded(seed))] == one["opened"]


def test_the_upload_opens_layer_by_layer(vector):
    offer = Offer.from_text(vector["offer"]["body"])
    private = {server: bytes.fromhex(key) for server, key in vector["private_seal"].items()}
    outer = report_info("colours", offer.configuration)
    assert outer.hex() == vector["report_info"]
    envelope = Envelope.from_bytes(bytes.fromhex(vector["upload"]))
    suite = SUITES[vector["suite"]]
    assert envelope.suite == suite.number
    assert envelope.key == key_id(suite.public_of(private["front"]))
    report = Report.from_bytes(unseal(vector["suite"], private["front"], envelope.sealed, outer))
    assert report.to_bytes().hex() == vector["report"]
    assert (report.report.hex(), report.token.hex()) == (vector["report_id"], vector["token"])
    for batch, part, one in zip(offer.batches, report.parts, batches_of(vector), strict=True):
        inner = message_info("colours", offer.configuration, batch.hash)
        assert (part.batch, inner.hex()) == (batch.number, one["message_info"])
        assert [message.hex() for message in part.messages] == one["messages"]
        opened = [unseal(vector["suite"], private["analyzer"], m, inner).hex() for m in part.messages]
        assert opened == one["opened"]
    parts = [(batch.shape.slots, batch.shape.length + suite.overhead) for batch in offer.batches]
    assert len(vector["upload"]) == 2 * upload_bytes(parts, suite.overhead)


def test_the_report_is_laid_out_as_the_tables_say(vector):
    offer = json.loads(vector["offer"]["body"])
    parts = b""
    for batch, one in zip(offer["batches"], batches_of(vector), strict=True):
        count, length = len(one["messages"]), len(one["messages"][0]) // 2
        parts += batch["number"].to_bytes(4, "big") + count.to_bytes(2, "big") + length.to_bytes(2, "big")
        parts += bytes.fromhex("".join(one["messages"]))
    head = bytes.fromhex(vector["report_id"] + vector["token"]) + offer["offer"].to_bytes(4, "big")
    assert (head + bytes([len(offer["batches"])]) + parts).hex() == vector["report"]


def messages_of(mechanism, drawn):
    """The messages of a report by the document: from what was drawn, with nothing of the library."""
    if "ballot" in mechanism:
        size, side = mechanism["ballot"]["size"], mechanism["ballot"]["side"]
        width = max(1, -(-(size - 1).bit_length() // 8))
        own = [label for label in range(size) if (label == drawn["label"]) == (side == "over")]
        noise = [int(label) for label, count in drawn["noise"].items() for _ in range(count)]
        return [label.to_bytes(width, "big") for label in sorted(own + noise)]
    carrier, encoded = mechanism["carrier"], drawn["encoded"]
    if carrier["kind"] == "split-and-mix":
        residue = encoded + drawn["noise"]
        pieces = [*drawn["pieces"], (residue - sum(drawn["pieces"])) % carrier["modulus"]]
        return [piece.to_bytes(8, "big") for piece in pieces]
    silent = max(carrier["value_messages"] - encoded, 0)
    return [b"\0"] * (silent + drawn["zeros"]) + [b"\1"] * (encoded + drawn["ones"])


@pytest.mark.parametrize("name", DRAWN)
def test_messages_follow_from_what_was_drawn_and_dummies_come_after_them(name):
    vector = REPORTS[name]
    for batch, one in zip(json.loads(vector["offer"]["body"])["batches"], batches_of(vector), strict=True):
        messages = messages_of(json.loads(batch["mechanism"]), one["drawn"])
        filled = [b"\1" + message for message in messages]
        filled += [bytes(one["slot_length"])] * (one["slots"] - len(filled))
        assert [slot.hex() for slot in filled] == one["opened"]


def test_reports_have_real_noise_two_byte_labels_and_more_than_one_level():
    found = {name.split(" ")[0]: REPORTS[name].get("drawn", {}) for name in DRAWN}
    assert found["shuffled-laplace-range"]["noise"] < 0 < found["shuffled-laplace-range"]["encoded"]
    assert min(found["shuffled-bits-noisy"]["zeros"], found["shuffled-bits-noisy"]["ones"]) > 0
    assert min(found[f"counted-messages-{kind}"]["ones"] for kind in ("noisy", "under")) > 1
    assert found["shuffled-levels"]["encoded"] > 1
    assert found["histogram-under"]["noise"]
    assert max(map(int, found["histogram-buckets"]["noise"])) > 255
    bucket = int.from_bytes(hashlib.sha256(b"2024-05\0mauve").digest(), "big") >> (256 - 9)
    assert found["histogram-buckets"]["label"] == bucket


def test_sealing_with_a_given_ephemeral_key_is_that_of_rfc_9180():
    # Appendix A.1.1, sequence number 0: the only place where associated data is not empty.
    sealed = reports.sealed_with(
        "x25519-aes128gcm",
        bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"),
        b"Beauty is truth, truth beauty",
        b"Ode on a Grecian Urn",
        bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736"),
        b"Count-0",
    )
    assert sealed[:32].hex() == "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
    expected = "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    assert sealed[32:].hex() == expected


@pytest.mark.parametrize("vector", VECTORS["seals"], ids=lambda one: one["suite"])
def test_a_seal_with_its_ephemeral_key_is_made_again_and_opens(vector):
    suite, parts = vector["suite"], {k: bytes.fromhex(v) for k, v in vector.items() if k != "suite"}
    made = reports.sealed_with(suite, parts["public"], parts["plaintext"], parts["info"], parts["ephemeral"])
    assert made == parts["ciphertext"]
    assert SUITES[suite].public_of(parts["private"]) == parts["public"]
    assert unseal(suite, parts["private"], parts["ciphertext"], parts["info"]) == parts["plaintext"]
    with pytest.raises(Unopenable):
        unseal(suite, parts["private"], parts["ciphertext"], parts["info"] + b"\0")


def test_the_hybrid_suite_is_x_wing_with_its_number_in_hpke():
    vector = REPORTS["shuffled-bits mlkem768-x25519-aes128gcm"]
    private, info = bytes.fromhex(vector["private_seal"]["analyzer"]), bytes.fromhex(vector["message_info"])
    curve = X25519PrivateKey.from_private_bytes(private[64:])
    name = b"HPKE\x64\x7a\x00\x01\x00\x01"

    def extract(salt, label, key):
        return hmac.digest(salt, b"HPKE-v1" + name + label + key, "sha256")

    def expand(key, label, context, length):
        text = length.to_bytes(2, "big") + b"HPKE-v1" + name + label + context + b"\x01"
        return hmac.digest(key, text, "sha256")[:length]

    for message, opened in zip(vector["messages"], vector["opened"], strict=True):
        ciphertext = bytes.fromhex(message)
        lattice, point, rest = ciphertext[:1088], ciphertext[1088:1120], ciphertext[1120:]
        first = MLKEM768PrivateKey.from_seed_bytes(private[:64]).decapsulate(lattice)
        second = curve.exchange(X25519PublicKey.from_public_bytes(point))
        public = curve.public_key().public_bytes_raw()
        shared = hashlib.sha3_256(first + second + point + public + rb"\.//^" + b"\\").digest()
        context = b"\0" + extract(bytes(32), b"psk_id_hash", b"") + extract(bytes(32), b"info_hash", info)
        secret = extract(shared, b"secret", b"")
        key, nonce = expand(secret, b"key", context, 16), expand(secret, b"base_nonce", context, 12)
        assert AESGCM(key).decrypt(nonce, rest, b"").hex() == opened


def test_the_reports_are_those_that_the_script_makes(vector):
    name = next(name for name, found in REPORTS.items() if found is vector)
    fresh = reports.two_batches() if name == "two-batches" else reports.vector(*name.split(" "))
    # Where no ephemeral key is given, sealing is randomized; everything else is the same to the last bit.
    sealed = set() if name in DRAWN else {"messages", "report", "upload"}
    assert {k: v for k, v in fresh.items() if k not in sealed} == {k: v for k, v in vector.items() if k not in sealed}
    assert len(fresh["upload"]) == len(vector["upload"])


@pytest.mark.parametrize("group", [name for name in making.GROUPS if name not in ("two-batches", "deltas", "laws")])
def test_the_groups_are_those_that_the_script_makes(group):
    assert json.loads(json.dumps(making.GROUPS[group]())) == VECTORS[group]
