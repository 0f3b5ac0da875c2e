"""Prio3 in a real Chromium: the draft's own vectors byte for byte, the bytes of `croupier.validity`, and refusals."""

import json
from pathlib import Path
from random import Random

import pytest

from cases.service.browser_pages import Asked, browsing
from croupier.validity import prio3_count, prio3_histogram, prio3_ranges, prio3_sum, prio3_sum_vec
from croupier.validity.circuits import best_chunk_length

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "validity" / "vectors"
FILES = sorted(path.stem for path in FOLDER.glob("Prio3*.json"))
BAD = [name for name in FILES if "bad" in name]


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser-proofs") / "site") as (context, origin):
        yield Asked(context, origin)


def load(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def played(ask, name):
    """What the browser finds, at all servers that the vector knows of."""
    vector = load(name)
    servers = {one["aggregator_id"] for one in vector["operations"] if one["operation"] == "verify_init"}
    return vector, ask("prio3Vector", {"kind": name.partition("_")[0], "servers": sorted(servers), "vector": vector})


def test_all_the_vectors_are_here():
    assert (len(FILES), len(BAD)) == (21, 8)


@pytest.mark.parametrize("name", [name for name in FILES if name not in BAD])
def test_a_report_goes_the_whole_way_as_in_the_vector(name, ask):
    vector, found = played(ask, name)
    for report, ours in zip(vector["reports"], found["reports"], strict=True):
        assert ours["made"] == [report["public_share"], *report["input_shares"]]
        assert ours["shown"] == report["verifier_shares"][0]
        assert ours["message"] == report["verifier_messages"][0]
        assert {*ours["seeds"]} == {ours["message"]}
        assert ours["outputs"] == report["out_shares"]
    result = vector["agg_result"]
    assert (found["totals"], found["result"]) == (
        vector["agg_shares"],
        result if isinstance(result, list) else [result],
    )


@pytest.mark.parametrize("name", BAD)
def test_a_bad_report_is_refused_where_the_vector_says(name, ask):
    vector, found = played(ask, name)
    ((report,), (ours,)) = vector["reports"], found["reports"]
    assert ours["shown"] == report["verifier_shares"][0]
    (failed,) = [one["operation"] for one in vector["operations"] if not one["success"]]
    if failed == "verify_next":
        (message,) = report["verifier_messages"]
        assert message not in ours["seeds"]
    else:
        assert ours["message"] is None


def test_the_xof_gives_the_bytes_and_numbers_of_the_vector(ask):
    vector = load("XofTurboShake128")
    assert ask("xofVector", vector) == [vector["derived_seed"], vector["expanded_vec_field128"]]


TYPES = [
    ("Prio3Count", {}, prio3_count(), [0, 1]),
    ("Prio3Sum", {"max_measurement": 1}, prio3_sum(1), [0, 1]),
    ("Prio3Sum", {"max_measurement": 7}, prio3_sum(7), [3, 7]),
    ("Prio3Sum", {"max_measurement": 127}, prio3_sum(127), [63, 64, 126]),
    ("Prio3Sum", {"max_measurement": 100}, prio3_sum(100), [36, 63, 64, 100]),
    ("Prio3Sum", {"max_measurement": 2**52 + 1}, prio3_sum(2**52 + 1), [2**52 + 1, 2**52]),
    ("Prio3Histogram", {"length": 1}, prio3_histogram(1), [0]),
    ("Prio3Histogram", {"length": 5}, prio3_histogram(5), [0, 4]),
    ("Prio3Histogram", {"length": 64}, prio3_histogram(64), [17]),
    ("Prio3SumVec", {"length": 3, "max_measurement": 5}, prio3_sum_vec(3, 5), [[5, 1, 4]]),
    ("Prio3SumVec", {"length": 20, "max_measurement": 255}, prio3_sum_vec(20, 255), [[*range(100, 120)]]),
    ("Prio3Ranges", {"ranges": [1, 5, 12, 1023]}, prio3_ranges([1, 5, 12, 1023]), [[1, 4, 12, 700], [0, 0, 0, 0]]),
]


def test_shares_are_those_of_the_python_client_from_the_same_chance_and_are_valid(ask):
    """Types, ranges and chunk lengths that no vector has; the draft's verdict is by its plain reading in JavaScript."""
    chance = Random(8)
    for kind, form, prio3, measurements in TYPES:
        vector = {"ctx": b"some context".hex(), "verify_key": chance.randbytes(32).hex(), "shares": 2} | form
        vector["reports"] = []
        for measurement in measurements:
            nonce, rand = chance.randbytes(16), chance.randbytes(prio3.rand_size)
            public, *inputs = (one.hex() for one in prio3.shard(measurement, nonce, b"some context", rand))
            given = {"measurement": measurement, "nonce": nonce.hex(), "rand": rand.hex()}
            vector["reports"].append(given | {"public_share": public, "input_shares": inputs})
        found = ask("prio3Vector", {"kind": kind, "servers": [0, 1], "vector": vector})
        for report, ours in zip(vector["reports"], found["reports"], strict=True):
            assert ours["made"] == [report["public_share"], *report["input_shares"]], (kind, form)
            assert ours["message"] is not None
    lengths = [*range(1, 200), 1000, 4097, 2**20]
    assert ask("chunkLengths", lengths) == [best_chunk_length(length) for length in lengths]


def test_shares_have_the_bytes_that_were_said_and_no_chance_in_common(ask):
    given = [["count", [], 1], ["sum", [7], 7], ["sum", [127], 9], ["sum", [255], 9], ["histogram", [5], 4]]
    given += [["sumVec", [20, 255], [9] * 20], ["sumVec", [20, 255, {"proofs": 3}], [9] * 20]]
    types = [prio3_count(), prio3_sum(7), prio3_sum(127), prio3_sum(255), prio3_histogram(5)]
    types += [prio3_sum_vec(20, 255), prio3_sum_vec(20, 255, proofs=3)]
    assert ask("sharded", given) == [list(one.sizes[:3]) for one in types]
    assert ask("repeated", given) == [0] * len(given)


REFUSED = [
    (["count", [], 2], "measurement = 2"),
    (["count", [], True], "measurement = true"),
    (["count", [], None], "measurement = null"),
    (["count", [], "1"], "measurement = 1"),
    (["sum", [7], 8], "measurement = 8"),
    (["sum", [7], -1], "measurement = -1"),
    (["sum", [7], 0.5], "measurement = 0.5"),
    (["sum", [2**60], 0], "maxMeasurement = 1152921504606847000"),
    (["sumVec", [2, 7], [1, 8]], "measurement[1] = 8"),
    (["sumVec", [2, 7], [1]], "measurement has 1"),
    (["sumVec", [2, 7], 1], "measurement has"),
    (["histogram", [5], 5], "measurement = 5"),
    (["count", [], 1, 15], "nonce = 15 bytes"),
    (["count", [], 1, 16, 2**16 - 8], "context = 65528 bytes"),
    (["count", [], 1, 16, 0, 63], "rand = 63 bytes"),
    (["sum", [0], 0], "maxMeasurement = 0"),
    (["sum", [2**63], 0], "maxMeasurement = "),
    (["sumVec", [0, 7], []], "length = 0"),
    (["sumVec", [2, 7, {"proofs": 2}], [1, 1]], "proofs = 2"),
    (["sumVec", [2, 7, {"proofs": 256}], [1, 1]], "proofs = 256"),
    (["sumVec", [2, 7, {"chunkLength": 0}], [1, 1]], "chunkLength = 0"),
    (["sumVec", [2, 7, {"shares": 1}], [1, 1]], "shares = 1"),
    (["histogram", [5, {"chunkLength": 6}], 0], "chunkLength = 6"),
]


def test_whatever_is_out_of_range_is_refused_by_name_and_never_shared(ask):
    """There is no zero knowledge for what is not valid."""
    found = ask("sharded", [given for given, _ in REFUSED])
    for said, (given, named) in zip(found, REFUSED, strict=True):
        assert str(said).startswith(f"RangeError: {named}"), (given, said)
