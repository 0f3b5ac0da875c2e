"""Reports in shares among the vectors, by another road: Keccak and HPKE by the letter, and nothing of the library's."""

import hashlib
import json
import struct
from itertools import islice

import pytest

from cases import plain_prio3
from cases import vector_reports as reports
from cases import wire_vectors as making
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.shares import SharedReport, form, upload_length
from croupier.messages.signing import Statement, from_text, to_text
from croupier.validity.xof import stream

SHARES = json.loads(making.PATH.read_text(encoding="utf-8"))["shares"]
RATE, WORD = 168, 2**64
# FIPS 202: rotations by x + 5y, and the constants of the last twelve of 24 rounds.
ROTATIONS = [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14]
CONSTANTS = [0x000000008000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003]
CONSTANTS += [0x8000000000008002, 0x8000000000000080, 0x000000000000800A, 0x800000008000000A]
CONSTANTS += [0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008]


def keccak(state):
    """Keccak-p[1600, 12] on 25 words."""

    def left(word, by):
        return (word << by | word >> (64 - by)) % WORD

    for constant in CONSTANTS:
        column = [state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20] for x in range(5)]
        mixed = [state[i] ^ column[(i - 1) % 5] ^ left(column[(i + 1) % 5], 1) for i in range(25)]
        moved = [0] * 25
        for x in range(5):
            for y in range(5):
                moved[y + 5 * ((2 * x + 3 * y) % 5)] = left(mixed[x + 5 * y], ROTATIONS[x + 5 * y])
        rows = [5 * (i // 5) for i in range(25)]
        state = [moved[i] ^ (~moved[rows[i] + (i + 1) % 5] % WORD & moved[rows[i] + (i + 2) % 5]) for i in range(25)]
        state[0] ^= constant
    return state


def words_of(seed, context, size=8):
    """The words of TurboSHAKE128 for a seed, tagged as `docs/wire.md` says, of so many bytes."""
    tag = bytes.fromhex("1200ffffcc010001") + context
    message = len(tag).to_bytes(2, "little") + tag + bytes([32]) + seed + b"\1"
    message += bytes(-len(message) % RATE)
    message = message[:-1] + bytes([message[-1] ^ 0x80])
    state, left = [0] * 25, b""
    for at in range(0, len(message), RATE):
        for lane in range(RATE // 8):
            state[lane] ^= int.from_bytes(message[at + 8 * lane : at + 8 * lane + 8], "little")
        state = keccak(state)
    while True:
        block = b"".join(word.to_bytes(8, "little") for word in state[: RATE // 8])
        # A block has 21 words of 8 bytes: one of 16 may begin in one and end in the next.
        left += block
        while len(left) >= size:
            yield int.from_bytes(left[:size], "little")
            left = left[size:]
        state = keccak(state)


PROVED = {"Count": plain_prio3.Count(), "Sum": plain_prio3.Sum(127)}
BARE = [name for name in SHARES if not name.endswith("-proved")]


@pytest.fixture(params=SHARES, ids=str)
def vector(request):
    return SHARES[request.param]


def test_this_keccak_is_that_of_the_library():
    tag = bytes.fromhex("1200ffffcc010001") + b"x" * 200
    expected = stream(bytes(range(32)), tag, b"").read(8 * 60)
    found = b"".join(word.to_bytes(8, "little") for word in islice(words_of(bytes(range(32)), b"x" * 200), 60))
    assert found == expected


MOMENTS = ("features", "places", "weight", "centred", "control")


def scope_of(offer):
    """By a plain reading of the documentation: the arm, the epoch in a block, and the encoding."""
    numbers = [2**32 - 1 if offer["arm"] is None else offer["arm"]]
    numbers += [offer["block"]["epoch"]] if "block" in offer else []
    mechanism = json.loads(offer["batches"][0]["mechanism"])
    if mechanism.get("kind") == "HistogramMechanism":
        encoding = struct.pack(">BIQ", 4, mechanism["ballot"]["size"], 1)
    elif mechanism.get("kind") == "SeveralSums":
        sums = mechanism["sums"]
        ends = [one["values"][end] for one in sums for end in ("low", "high")]
        encoding = struct.pack(f">BIQ{len(ends)}d", 3, len(sums), sums[0]["precision"], *ends)
    elif (values := mechanism["values"])["kind"] == "moments":
        length = values["places"] * values["features"] * (values["features"] + 3) // 2 + 2 * bool(values["control"])
        encoding = struct.pack(">BIQ5d", 2, length, mechanism["precision"], *(values[name] for name in MOMENTS))
    else:
        encoding = struct.pack(">BIQ2d", 1, 1, mechanism["precision"], values["low"], values["high"])
    return b"".join(number.to_bytes(4, "big") for number in numbers) + encoding


@pytest.mark.parametrize("name", BARE)
def test_both_shares_are_made_again_from_the_seed(name):
    vector = SHARES[name]
    offer, report = json.loads(vector["offer"]["body"]), bytes.fromhex(vector["report_id"])
    configuration = hashlib.sha256(vector["configuration"]["body"].encode()).digest()
    assert to_text(configuration) == vector["configuration_hash"]
    trust = json.loads(vector["configuration"]["body"])["trust"]
    assert len(vector["parts"]) == (1 if trust == "two-servers" else len(offer["batches"]))
    for number, (part, batch) in enumerate(zip(vector["parts"], offer["batches"], strict=False)):
        if trust == "two-servers":
            scope = scope_of(offer)
        else:
            said = b"croupier/2 batch\0" + batch["number"].to_bytes(4, "big")
            said += from_text("pin", batch["configuration"]) + batch["mechanism"].encode()
            scope = hashlib.sha256(said).digest()
        info = b"croupier/2 share\0colours\0" + configuration + scope + bytes([number]) + report
        assert (scope.hex(), info.hex()) == (part["scope"], part["share_info"])
        modulus = int(part["modulus"])
        size = 8 if modulus <= WORD else 16
        whole = 2 ** (8 * size) // modulus * modulus
        drawn = (word % modulus for word in words_of(bytes.fromhex(vector["front_part"]), info, size) if word < whole)
        ours = list(islice(drawn, len(part["secret"])))
        assert [str(one) for one in ours] == part["front_share"]
        other = [(secret - own) % modulus for secret, own in zip(part["secret"], ours, strict=True)]
        assert b"".join(one.to_bytes(size, "little") for one in other).hex() == part["analyzer_share"]


@pytest.mark.parametrize("name", [name for name in SHARES if name not in BARE])
def test_proofs_are_made_again_by_a_plain_reading_of_the_draft(name):
    """At the device, and at both servers, which agree that the report is valid."""
    vector = SHARES[name]
    (part,) = vector["parts"]
    configuration, offer = (json.loads(vector[one]["body"]) for one in ("configuration", "offer"))
    said = {key: bytes.fromhex(text) for key, text in part.items() if key not in ("type", "modulus", "secret")}
    report, numbers = bytes.fromhex(vector["report_id"]), part["secret"]
    key = to_text(hashlib.sha256(said["proof_key"]).digest())
    assert configuration["validity"] == {"kind": "prio3", "key": key}
    scope = scope_of(offer)
    hashed = hashlib.sha256(vector["configuration"]["body"].encode()).digest()
    info = b"croupier/2 share\0colours\0" + hashed + scope + b"\0" + report
    assert info == said["share_info"]
    if part["type"] == "Histogram":
        # The chunk length of the shortest proof: 1 for three items, 5 for 32.
        circuit, encoded = plain_prio3.Histogram(len(numbers), {3: 1, 32: 5}[len(numbers)]), numbers
    elif part["type"] == "SumVec":
        # Twelve numbers of eleven bits each: nine bits in a chunk; three of seven each: three.
        circuit = plain_prio3.SumVec(len(numbers), *{12: (1024, 9), 3: (127, 3)}[len(numbers)])
        encoded = circuit.encode(numbers)
    else:
        circuit = PROVED[part["type"]]
        encoded = circuit.encode(numbers[0])
    assert circuit.p == int(part["modulus"])
    public, leader, helper = plain_prio3.shard(circuit, encoded, report, info, said["rand"], 2)
    assert (public, leader, helper) == (said["public_share"], said["leader_share"], said["helper_share"])
    assert vector["front_part"] == (helper + public[:32]).hex()
    assert said["analyzer_share"] == leader + public[32:]
    shown = []
    for server, (name, share) in enumerate((("analyzer", leader), ("front", helper))):
        found = plain_prio3.verifier_share(circuit, server, said["proof_key"], report, info, public, share, 2)
        assert found[:2] == (said[f"{name}_output"], said[f"{name}_verifier"])
        shown.append(found[1])
    assert plain_prio3.message(circuit, info, shown) == said["message"]


def test_what_is_shared_is_the_value():
    assert SHARES["laplace"]["parts"][0]["secret"] == [1]
    # 0.325 of the way, on a scale of 127: 41.275.
    assert SHARES["laplace-range"]["parts"][0]["secret"][0] in (41, 42)
    assert SHARES["histogram"]["parts"][0]["secret"] == [0, 0, 1]
    assert SHARES["number-proved"]["parts"][0]["secret"] == SHARES["laplace-range"]["parts"][0]["secret"]
    bucket = int.from_bytes(hashlib.sha256(b"2024-05\0mauve").digest(), "big") >> (256 - 5)
    assert [place for place, one in enumerate(SHARES["histogram-buckets"]["parts"][0]["secret"]) if one] == [bucket]


def test_seals_report_and_upload_are_made_again_bit_for_bit(vector):
    public = {
        server: reports.SUITES[reports.SUITE].public_of(bytes.fromhex(key))
        for server, key in vector["private_seal"].items()
    }
    for part in vector["parts"]:
        share, info, key = (bytes.fromhex(part[name]) for name in ("analyzer_share", "share_info", "ephemeral"))
        assert reports.sealed_with(reports.SUITE, public["analyzer"], share, info, key).hex() == part["sealed"]
    head = vector["report_id"] + vector["token"] + (7).to_bytes(4, "big").hex() + vector["front_part"]
    assert vector["report"] == head + "".join(part["sealed"] for part in vector["parts"])
    hashed = from_text("hash", vector["configuration_hash"])
    info = b"croupier/2 report\0colours\0" + hashed
    assert info.hex() == vector["report_info"]
    report, key = (bytes.fromhex(vector[name]) for name in ("report", "report_ephemeral"))
    sealed = reports.sealed_with(reports.SUITE, public["front"], report, info, key)
    header = b"\2\1" + hashlib.sha256(public["front"]).digest()[:8] + hashed
    assert (header + sealed).hex() == vector["upload"]


def test_the_configuration_covers_the_offer_and_the_library_reads_the_report(vector):
    statement = Statement.from_dict("configuration", vector["configuration"])
    configuration = Configuration.from_text(statement.text)
    statement.check_both(configuration.verify_keys)
    offered = Statement.from_dict("offer", vector["offer"])
    offered.check_both(configuration.verify_keys)
    offer = Offer.from_text(offered.text)
    configuration.check(offer)
    proved = configuration.validity.proved
    read = SharedReport.from_bytes(bytes.fromhex(vector["report"]), form(offer, reports.SUITE, proved=proved))
    assert read.share.hex() == vector["front_part"]
    assert len(vector["upload"]) == 2 * upload_length(offer, reports.SUITE, proved=proved)


def test_reports_are_in_shares_with_a_seed_each():
    assert len({vector["front_part"][:64] for vector in SHARES.values()}) == len(SHARES)
