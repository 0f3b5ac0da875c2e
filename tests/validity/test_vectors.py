"""The draft's own test vectors, byte for byte: positive ones all the way, negative ones up to where they fail."""

import json
from pathlib import Path

import pytest

from cases import plain_prio3
from croupier.validity import Refusal, Verifier, prio3_count, prio3_histogram, prio3_sum, prio3_sum_vec, shard_group
from croupier.validity.fields import FIELD128
from croupier.validity.xof import derive_seed, expand

FOLDER = Path(__file__).parent / "vectors"
FILES = sorted(path.stem for path in FOLDER.glob("Prio3*.json"))
GOOD = [name for name in FILES if "bad" not in name]
BAD = [name for name in FILES if "bad" in name]

MAKE = {
    "Prio3Count": lambda v: prio3_count(v["shares"]),
    "Prio3Sum": lambda v: prio3_sum(v["max_measurement"], v["shares"]),
    "Prio3SumVec": lambda v: prio3_sum_vec(*vector_of(v), shares=v["shares"]),
    "Prio3SumVecWithMultiproof": lambda v: prio3_sum_vec(*vector_of(v), proofs=3, shares=v["shares"]),
    "Prio3Histogram": lambda v: prio3_histogram(v["length"], v["chunk_length"], shares=v["shares"]),
}
PLAIN = {
    "Prio3Count": lambda v: plain_prio3.Count(),
    "Prio3Sum": lambda v: plain_prio3.Sum(v["max_measurement"]),
    "Prio3SumVec": lambda v: plain_prio3.SumVec(*vector_of(v)),
    "Prio3SumVecWithMultiproof": lambda v: plain_prio3.SumVec(*vector_of(v), proofs=3),
    "Prio3Histogram": lambda v: plain_prio3.Histogram(v["length"], v["chunk_length"]),
}
FAILS_AT = {"verifier_shares_to_message": Refusal.PROOF, "verify_next": Refusal.JOINT}


def vector_of(v):
    return v["length"], v["max_measurement"], v["chunk_length"]


def load(name):
    """A vector with its hexadecimal strings as bytes, but for the operations."""

    def raw(value):
        if isinstance(value, str):
            return bytes.fromhex(value)
        if isinstance(value, list):
            return [raw(one) for one in value]
        return {key: raw(one) for key, one in value.items()} if isinstance(value, dict) else value

    vector = json.loads((FOLDER / f"{name}.json").read_text())
    operations = vector.pop("operations")
    return raw(vector), [(one["operation"], one.get("aggregator_id"), one["success"]) for one in operations]


def kind(name):
    return name.partition("_")[0]


def column(vector, key):
    return [report[key] for report in vector["reports"]]


def shares_of(vector, server):
    return [report["input_shares"][server] for report in vector["reports"]]


def test_all_the_vectors_are_here():
    assert (len(GOOD), len(BAD)) == (13, 8)


@pytest.mark.parametrize("name", GOOD)
def test_one_report_is_sharded_as_in_the_vector(name):
    vector, _ = load(name)
    prio3 = MAKE[kind(name)](vector)
    for report in vector["reports"]:
        made = prio3.shard(report["measurement"], report["nonce"], vector["ctx"], report["rand"])
        assert list(made) == [report["public_share"], *report["input_shares"]]


@pytest.mark.parametrize("name", GOOD)
def test_a_group_goes_the_whole_way_as_in_the_vector(name):
    vector, _ = load(name)
    prio3, nonces, ctx = MAKE[kind(name)](vector), column(vector, "nonce"), vector["ctx"]
    publics, *shares = shard_group(prio3, column(vector, "measurement"), nonces, ctx, column(vector, "rand"))
    assert publics == column(vector, "public_share")
    assert shares == [shares_of(vector, server) for server in range(prio3.shares)]
    prepared = [
        Verifier(prio3, server, vector["verify_key"]).prepare(nonces, publics, share, ctx)
        for server, share in enumerate(shares)
    ]
    for i, report in enumerate(vector["reports"]):
        assert [one.verifier_shares[i] for one in prepared] == report["verifier_shares"][0]
    combined = [one.combine(*(other.verifier_shares for other in prepared if other is not one)) for one in prepared]
    assert all(messages == [report["verifier_messages"][0] for report in vector["reports"]] for messages in combined)
    finished = [one.finish(combined[0]) for one in prepared]
    for i, report in enumerate(vector["reports"]):
        only = [j == i for j in range(len(nonces))]
        assert [one.aggregate(only) for one in finished] == report["out_shares"]
    totals = [one.aggregate() for one in finished]
    assert totals == vector["agg_shares"]
    assert prio3.unshard(totals) == vector["agg_result"]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_report_is_refused_where_the_vector_says(name):
    vector, operations = load(name)
    prio3, nonces, ctx = MAKE[kind(name)](vector), column(vector, "nonce"), vector["ctx"]
    servers = [server for operation, server, _ in operations if operation == "verify_init"]
    prepared = [
        Verifier(prio3, server, vector["verify_key"]).prepare(
            nonces, column(vector, "public_share"), shares_of(vector, server), ctx
        )
        for server in servers
    ]
    assert [one.verifier_shares[0] for one in prepared] == vector["reports"][0]["verifier_shares"][0]
    (failed,) = [operation for operation, _, success in operations if not success]
    if failed == "verify_next":
        messages = column(vector, "verifier_messages")[0]
    else:
        messages = prepared[1].combine(prepared[0].verifier_shares)
        assert messages == [FAILS_AT[failed]]
    finished = prepared[0].finish(messages)
    assert finished.refusals == (FAILS_AT[failed],)
    assert not any(finished.aggregate())


@pytest.mark.parametrize("name", [name for name in FILES if "Histogram_2" not in name])
def test_the_plain_reading_agrees_with_the_vector(name):
    vector, operations = load(name)
    circuit, shares, ctx = PLAIN[kind(name)](vector), vector["shares"], vector["ctx"]
    for report in vector["reports"][:2]:
        public, inputs, nonce = report["public_share"], report["input_shares"], report["nonce"]
        if report["measurement"] is not None:
            numbers = circuit.encode(report["measurement"])
            assert plain_prio3.shard(circuit, numbers, nonce, ctx, report["rand"], shares) == [public, *inputs]
        found = [
            plain_prio3.verifier_share(circuit, i, vector["verify_key"], nonce, ctx, public, inputs[i], shares)
            for i in range(len(report["verifier_shares"][0]))
        ]
        assert [verifier for _, verifier, _ in found] == report["verifier_shares"][0]
        if ("verifier_shares_to_message", None, True) in operations:
            assert plain_prio3.message(circuit, ctx, [v for _, v, _ in found]) == report["verifier_messages"][0]
            assert [out for out, _, _ in found] == report["out_shares"]
        if ("verifier_shares_to_message", None, False) in operations:
            assert plain_prio3.message(circuit, ctx, [v for _, v, _ in found]) is None


def test_the_xof_gives_the_bytes_and_numbers_of_the_vector():
    vector = json.loads((FOLDER / "XofTurboShake128.json").read_text())
    seed, dst, binder = (bytes.fromhex(vector[name]) for name in ("seed", "dst", "binder"))
    assert derive_seed(seed, dst, binder).hex() == vector["derived_seed"]
    numbers = expand(FIELD128, seed, dst, binder, vector["length"])
    assert FIELD128.encode(numbers).hex() == vector["expanded_vec_field128"]
