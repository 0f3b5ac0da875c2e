"""The client of `clients/javascript` in a real Chromium: every vector, whole experiments, refusals, and its page."""

import hashlib
import json
import os
import re
import secrets
import sqlite3
import time
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats

from cases import vector_reports as making
from cases.blind_tokens import ISSUERS
from cases.service.browser_pages import NO_OTHER_CHANCE, REACHED, SEEDED, Asked, bomb, site, write_demo
from cases.service.browser_world import LOWEST_CONTRAST, OVERFLOW, VIEWS, chromium, launched
from cases.service.processes import METRICS, SELDOM, home_of, in_process, transcript_of, written
from croupier.client import Limits, TokenRequest
from croupier.messages.admission import Admission
from croupier.messages.admittance import Door
from croupier.messages.offer import Offer
from croupier.messages.sealing import SUITES, unseal
from croupier.messages.signing import Statement, to_text
from croupier.messages.wire import Envelope, Report, message_info, report_info
from croupier.noise.serial import noise_from_dict
from croupier.protocols import HistogramMechanism, laplace, shuffled_laplace
from croupier.service import keys
from croupier.service.crowd import wait_finished
from croupier.service.processes import both
from croupier.service.verifying import verify

pytestmark = pytest.mark.slow

VECTORS = json.loads((Path(__file__).parents[1] / "client" / "wire_vectors.json").read_text(encoding="utf-8"))
SUITE = "x25519-aes128gcm"
REPORTS = [name for name in VECTORS if " " in name or name == "two-batches"]
GROUPS = ["caps", "deltas", "encodings", "honest", "laws", "ledger", "pieces", "receipt", "refusals", "seals", "shares"]
GROUPS += ["ticket"]

BANDIT = """
name = "{name}"
title = "Which colour do people press?"
arms = ["red", "green, the name of which is a little longer than a phone is wide"]
[program]
policy = "{policy}"
horizon = {horizon}
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = {epsilon}
[reward]
protocol = "{protocol}"
"""
COUNTER = """
name = "steps"
[program]
kind = "counter"
users = 64
shufflers = 2
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 4.0
[reward]
protocol = "shuffled-bits"
"""
HISTOGRAM = """
name = "fruit"
[program]
kind = "histogram"
users = 24
items = ["apple", "pear", "plum"]
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 4.0
"""
COMPARED = """
name = "compared"
arms = ["old", "new"]
[program]
policy = "split"
[decision]
smallest_effect = 0.5
then = "exploit"
minimum_run = 0
[reports]
report_within = 5
report_at = [0, 0]
"""
SEVERAL = COMPARED.replace('"compared"', '"several"') + "[privacy]\nepsilon = 8.0\n" + METRICS
IN_SHARES = '[privacy]\ntrust = "two-servers"\n'
UNPROVED = '[reports]\nvalidity = "none"\n'
RANGE = "binary = false\nlow = 1\nhigh = 5\n"
PLAYED = {
    "between": BANDIT.format(name="between", policy="vb-sdp-ae", horizon=96, epsilon=8.0, protocol="laplace").replace(
        "[privacy]\n", IN_SHARES
    )
    + RANGE,
    "labelled": HISTOGRAM.replace("fruit", "labelled").replace("[privacy]\n", '[privacy]\ntrust = "shuffler"\n'),
    "mixed": BANDIT.format(name="mixed", policy="vb-sdp-ae", horizon=96, epsilon=8.0, protocol="shuffled-laplace"),
    "counted": BANDIT.format(name="counted", policy="vb-sdp-ae", horizon=96, epsilon=8.0, protocol="counted-messages"),
    "steps": COUNTER,
    "fruit": HISTOGRAM,
    "compared": COMPARED,
    "several": SEVERAL,
}
OPEN = {
    "open": BANDIT.format(name="open", policy="dp-klucb", horizon=2000, epsilon=1.0, protocol="shuffled-laplace"),
    "liked": HISTOGRAM.replace("fruit", "liked").replace("4.0", "1.0").replace("[reports]\n", UNPROVED),
    "rated": BANDIT.format(name="rated", policy="dp-klucb", horizon=2000, epsilon=1.0, protocol="shuffled-laplace")
    + RANGE,
}
SOON = "report_at = [4, 5]"
"""For people who click through a page: when their reports are sent, in seconds."""
OPEN |= {name: OPEN[name].replace("report_at = [0, 0]", SOON) for name in ("liked", "rated")} | {
    "shown": BANDIT.format(name="shown", policy="dp-klucb", horizon=2000, epsilon=1.0, protocol="laplace")
    .replace("[privacy]\n", IN_SHARES)
    .replace("report_at = [0, 0]", SOON),
    "measured": SEVERAL.replace('"several"', '"measured"').replace("8.0", "1.0").replace("report_at = [0, 0]", SOON),
}
VALUES = {
    "between": [1, 5],
    "labelled": ["apple", "pear", "pear"],
    "mixed": [0, 1],
    "counted": [0, 1],
    "steps": [1],
    "fruit": ["apple", "pear", "pear"],
    "compared": [0, 1],
    "several": [{"finished": 0, "crashes": 1, "minutes": 15}, {"finished": 1, "crashes": 0, "minutes": 30.5}],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Both servers, which let pages of one web site be clients, and that site."""
    chromium()
    directory = tmp_path_factory.mktemp("browser-client")
    files = [written(directory, text, f"{name}.toml") for name, text in (PLAYED | OPEN).items()]
    home = home_of(directory)
    with site(directory / "site") as origin:
        allowed = {server: {**settings, "origins": origin} for server, settings in SELDOM.items()}
        with both(home, files, **allowed):
            yield home, origin


@pytest.fixture(scope="module")
def browser(world):
    with launched() as browser:
        yield browser


@pytest.fixture
def context(browser):
    context = browser.new_context(**VIEWS["light"])
    context.add_init_script(NO_OTHER_CHANCE)
    yield context
    context.close()


@pytest.fixture(scope="module")
def ask(browser, world):
    """One page for all that leaves nothing behind."""
    context = browser.new_context()
    context.add_init_script(NO_OTHER_CHANCE)
    yield Asked(context, world[1])
    context.close()


def test_no_group_of_vectors_is_left_out():
    assert sorted(VECTORS) == sorted([*REPORTS, *GROUPS])


def test_the_limits_are_those_of_the_other_client_but_for_what_a_browser_cannot_seal(ask):
    own = {
        "".join(part.title() if i else part for i, part in enumerate(name.split("_"))): value
        for name, value in asdict(Limits(suites=(SUITE,))).items()
    }
    assert ask("limits") == own | {name: [*own[name]] for name in ("admission", "suites", "trust")}


@pytest.mark.parametrize("name", REPORTS)
def test_every_stage_of_a_report_is_that_of_its_vector(name, ask):
    vector = VECTORS[name]
    if vector["suite"] != SUITE:
        assert ask("refusesSuite", vector) == {"refused": "unsupported"}
        return
    found = ask("report", vector)
    assert found["whole"] == {key: vector[key] for key in found["whole"]}
    assert found["opened"] == vector["report"]
    # Its own reports are as long, with the same token and offer, and no two have one id.
    assert found["lengths"] == [len(vector["upload"]) // 2] * 3
    assert all(own[32:152] == vector["report"][32:152] for own in found["own"])
    assert len({vector["report_id"], *(own[:32] for own in found["own"])}) == 3
    for batch, expected in zip(found["batches"], vector.get("batches", [vector]), strict=True):
        assert batch.pop("fits")
        assert batch == {key: expected[key] for key in batch}


@pytest.mark.parametrize("name", VECTORS["shares"])
def test_every_stage_of_a_report_in_shares_is_that_of_its_vector(name, ask):
    vector = VECTORS["shares"][name]
    found = ask("shared", vector)
    assert found["whole"] == {key: vector[key] for key in found["whole"]}
    given = {"suite", "private_seal", "private_sign", "configuration", "offer", "value", "report_id", "token"}
    assert {*vector} - {*found["whole"]} == given | {"report_ephemeral"}
    # Its own reports have other seeds, the turn's id and the same length, add up to the value and prove it.
    assert len({vector["front_part"][:64], *(own["seed"] for own in found["own"])}) == 3
    for own in found["own"]:
        assert own["whole"]
        assert own["id"] == own["named"]
        assert own["length"] == own["bytes"] == len(vector["upload"]) // 2
        for numbers, part in zip(own["numbers"], vector["parts"], strict=True):
            if not name.startswith("devices"):
                exact = np.array(BETWEEN.get(name, lambda _, secret=part["secret"]: secret)(vector["value"]))
                assert ((np.array(numbers) == np.floor(exact)) | (np.array(numbers) == np.ceil(exact))).all()


BETWEEN = {"laplace-range": lambda value: [(value + 1) / 4 * 127], "vectors": lambda value: (np.array(value) + 1) * 512}
BETWEEN["several"] = lambda value: [
    127 * value["finished"],
    127 * value["crashes"] / 5,
    127 * (value["minutes"] + 1) / 61,
]
BETWEEN |= {f"{name}-proved": BETWEEN[name] for name in ("vectors", "several")}
BETWEEN["number-proved"] = BETWEEN["laplace-range"]
"""Where a value lies between two whole numbers, and is rounded: by the value."""


def _with(mechanism, **changes):
    body = json.loads(mechanism)
    for path, value in changes.items():
        *outer, last = path.split("__")
        place = body
        for key in outer:
            place = place[key]
        place[last] = value
    return json.dumps(body)


def test_a_batch_in_shares_is_taken_only_as_it_was_signed_and_as_private_in_exact_fractions(ask):
    vector = VECTORS["shares"]["laplace-range"]
    (signed,) = (batch["mechanism"] for batch in json.loads(vector["offer"]["body"])["batches"])
    # One step of 127 at ε = 1: a scale of 127, exactly.
    fine = [signed, _with(signed, users=10**6), _with(signed, share__scale="127/1"), _with(signed, share__scale=200)]
    assert ask("covered", {"vector": vector, "mechanisms": fine}) == [None] * len(fine)
    less = [
        _with(signed, share__scale="126999999999999999999/1000000000000000000"),
        _with(signed, share__scale=126.99999999999999),
        _with(signed, precision=128),
        _with(signed, precision=64),
        _with(signed, values__high=4.0),
        _with(signed, values__clip=True),
        _with(signed, constants="published"),
        _with(signed, users=99),
    ]
    assert ask("covered", {"vector": vector, "mechanisms": less}) == ["not-covered"] * len(less)
    odd = [
        _with(signed, noise_from="batch"),
        _with(signed, noise_from="analyzer"),
        _with(signed, carrier__field="Field128"),
        _with(signed, carrier={"kind": "plain", "modulus": 2631, "slack": 1065}),
        _with(signed, honest=1),
        _with(signed, share={"family": "Skellam", "sigma2": "64516"}),
        _with(signed, share={"family": "PolyaDifference", "r": 1, "scale": 127}),
        _with(signed, side="over"),
        _with(signed, guarantee__participations=3),
        _with(signed, users=2**40, precision=2**40),
    ]
    found = ask("covered", {"vector": vector, "mechanisms": odd})
    assert {*found} <= {"unsupported", "malformed"}
    several = VECTORS["shares"]["several"]
    (signed,) = (batch["mechanism"] for batch in json.loads(several["offer"]["body"])["batches"])
    body = json.loads(signed)
    everybody = re.sub(r'"users":\d+', f'"users":{2**49}', signed)
    assert ask("covered", {"vector": several, "mechanisms": [signed, everybody]}) == [None, None]
    # A metric more than was signed for, or another name, order, range or part of the budget for one.
    louder = [one | {"share": one["share"] | {"scale": 200}} for one in body["sums"]]
    capped = [one | {"values": one["values"] | {"clip": True}} for one in body["sums"]]
    turns = [_with(signed, names=["finished", "crashes", "clicks"]), _with(signed, names=body["names"][::-1])]
    turns += [_with(signed, sums=louder), _with(signed, sums=capped), _with(signed, sums=body["sums"][::-1])]
    assert ask("covered", {"vector": several, "mechanisms": turns}) == ["not-covered"] * len(turns)
    odd = [_with(signed, names=["a", "a", "b"]), _with(signed, names=["a"]), _with(signed, sums=body["sums"][:2])]
    odd += [_with(signed, guarantee__delta=0.1), _with(signed, more=1), _with(signed, names=body["names"] * 3)]
    odd += [_with(signed, sums=[body["sums"][0] | {"users": 99}, *body["sums"][1:]])]
    odd += [_with(signed, sums=[body["sums"][0] | {"precision": 1}, *body["sums"][1:]])]
    assert ask("covered", {"vector": several, "mechanisms": odd}) == ["malformed"] * len(odd)
    counted = VECTORS["shares"]["histogram"]
    (signed,) = (batch["mechanism"] for batch in json.loads(counted["offer"]["body"])["batches"])
    turns = [signed, _with(signed, ballot__noise__scale="1999999/1000000"), _with(signed, ballot__noise__scale=1)]
    turns += [_with(signed, universe__names=["red", "green", "mauve"])]
    assert ask("covered", {"vector": counted, "mechanisms": turns}) == [None, *["not-covered"] * 3]


def test_seals_tickets_and_receipts_are_those_of_the_vectors(ask):
    seals = [vector for vector in VECTORS["seals"] if vector["suite"] == SUITE]
    assert seals
    assert [ask("seal", vector) for vector in seals] == [vector["ciphertext"] for vector in seals]
    assert ask("ticket", VECTORS["ticket"]) == VECTORS["ticket"]["header"]
    assert ask("receipt", VECTORS["receipt"]) == [None, "bad-signature", "bad-signature"]


def test_tokens_are_those_of_rfc_9578_and_the_challenges_of_rfc_9577(ask):
    vectors = Path(__file__).parents[1] / "client" / "rfc_tokens.json"
    if not vectors.exists():
        pytest.skip(f"{vectors.name} is not part of this repository: docs/testing.md says what it holds")
    rfc = json.loads(vectors.read_text())
    issuance = rfc["rfc9578"]
    for vector in issuance["vectors"]:
        found = ask("token", vector | {"pkS": issuance["pkS"]})
        assert (found["request"], found["token"]) == (vector["token_request"], vector["token"])
        assert found["refused"] == [{"refused": "bad-answer"}] * 2
    digests = [vector["token_authenticator_input"][68:132] for vector in rfc["rfc9577"]]
    assert [hashlib.sha256(bytes.fromhex(one)).hexdigest() for one in ask("challenges", rfc["rfc9577"])] == digests


def test_a_token_that_a_browser_asked_for_is_one_that_the_front_takes(ask):
    plain = making.configuration_of(making.MECHANISMS["shuffled-laplace"][0])
    issuer = ISSUERS[0]
    found = replace(plain, admission=Admission("tokens", issuer.public))
    given = {"statement": making.signed(found.statement()).to_dict()}
    requests = [ask("askForToken", given) for _ in range(2)]
    door = Door("colours", found.keys["front"].verify)
    names = set()
    for one in requests:
        assert one["headers"] == TokenRequest.headers
        answered = issuer.answer(bytes.fromhex(one["body"])).hex()
        names.add(found.admission.check(bytes.fromhex(ask("finishToken", one | {"answered": answered})), door))
    assert len(names) == 2
    assert ask("askForToken", {"statement": making.signed(plain.statement()).to_dict()}) == {"refused": "malformed"}
    others = [ask("askForToken", given | {"known": {"issuer": to_text(one.public)}}) for one in ISSUERS]
    assert [one.get("refused") for one in others] == [None, "bad-signature"]
    # An issuer's key of any other form is refused with its configuration.
    for bad in (issuer.public[:-1], bytes(32), issuer.public[:-1] + b"\3"):
        body = plain.to_dict() | {"admission": {"kind": "tokens", "issuer": to_text(bad)}}
        statement = making.signed(Statement.of("configuration", body)).to_dict()
        assert ask("joins", {"statements": [statement]}) == ["malformed"]


def test_laws_limits_and_losses_are_those_of_the_vectors(ask):
    for vector in VECTORS["laws"]:
        for first, table in ask("laws", vector | {"terms": 4000}):
            start, law = _whole(vector["share"]["family"], first, np.array(table))
            for x, mass, tail in zip(vector["x"], vector["pmf"], vector["tail"], strict=True):
                assert law[x - start] == pytest.approx(mass, rel=1e-9)
                assert law[x - start + 1 :].sum() == pytest.approx(tail, rel=1e-9)
    for vector in VECTORS["caps"]:
        plan = ask("plan", vector["mechanism"])
        assert [plan[name] for name in ("cap", "slots", "front")] == [vector[n] for n in ("cap", "slots", "front")]
        assert plan["frontExcess"] == pytest.approx(vector.get("front_above", 0.0), rel=1e-8)
        assert plan["excess"] == pytest.approx(vector["above"], rel=1e-9)
    for vector in VECTORS["deltas"]:
        found = ask("delta", vector)
        charged = vector["noise"] + (1.0 + np.exp(vector["epsilon"])) * vector["distance"]
        # Never less than the truth, and no more than is accepted by a client that takes ε as it is.
        assert vector["noise"] * (1.0 - 1e-7) <= found
        assert found <= max(vector["delta"], charged) * (1.0 + 1e-8)


def test_three_batches_together_cost_what_adding_over_all_outcomes_says(ask):
    counted = making.MECHANISMS["counted-messages"][0]
    law = counted.guard.window(1e-20).pmf
    pairs = np.stack((np.pad(law, (0, 1)), np.pad(law, (1, 0))))
    p, q = (np.einsum("i,j,k", one, one, one) for one in pairs)
    exact = max(np.maximum(a - np.exp(3.0) * b, 0.0).sum() for a, b in ((p, q), (q, p)))
    found = ask("delta", {"mechanisms": [counted.to_json()] * 3, "epsilon": 3.0})
    ideal = found - (1.0 + np.exp(3.0)) * 3 * counted.shape.distance
    assert exact * (1.0 - 1e-9) <= ideal <= exact * (1.0 + 1e-4)


def test_noise_that_would_keep_a_page_busy_is_refused_before_a_table_is_made(ask):
    """Each is signed by both servers, and would take hours or all of the memory."""
    names = ("counted-messages", "shuffled-bits", "shuffled-laplace")
    counted, bits, mixed = (json.loads(making.MECHANISMS[name][0].to_json()) for name in names)
    alone = json.loads(laplace(epsilon=1.0, binary=True, honest_fraction=0.9).plan(users=40).to_json())
    labelled = json.loads(making.MECHANISMS["histogram"][0].to_json())
    many = {"users": 10**12, "honest": 10**12, "front_shares": 10**12}
    hostile = [
        bits | many | {"share": {"family": "Binomial", "trials": 4000, "p": 0.5}},
        bits | many | {"share": {"family": "SparseBits", "slots": 4000, "rate": 0.5}},
        bits | many | {"users": 10**12 + 1},
        counted | many,
        counted | {"share": {"family": "Poisson", "rate": 10**9}},
        counted | {"share": {"family": "Polya", "r": 1e-3, "scale": 2**32}},
        counted | {"share": {"family": "Polya", "r": "1/1000000000", "scale": 10**6}},
        labelled | {"ballot": labelled["ballot"] | {"share": {"family": "Poisson", "rate": 2000}}},
        mixed | {"share": {"family": "PolyaDifference", "r": "1/40", "scale": 2**19}},
        alone | {"share": {"family": "PolyaDifference", "r": "1/40", "scale": 2**32}},
    ]
    vectors = [{"mechanisms": [json.dumps(one)], "epsilon": 1.0} for one in hostile]
    # Each batch alone is nothing, and together they are too much to hold, or to add up.
    wide = bits | {"honest": 700, "users": 700, "front_shares": 700}
    wide |= {"share": {"family": "SparseBits", "slots": 40, "rate": 0.5}}
    far = alone | {"precision": 2**16, "carrier": alone["carrier"] | {"modulus": 2**40}}
    far |= {"share": {"family": "PolyaDifference", "r": 1, "scale": 2**16 // 20}}
    vectors += [{"mechanisms": [json.dumps(wide)] * 2, "epsilon": 1.0}]
    vectors += [{"mechanisms": [json.dumps(far)] * 3, "epsilon": 1.0}]
    found = [one.get("refused") for one in ask("priced", vectors)]
    assert found[-2:] == ["unsupported"] * 2
    refused = {*found}
    assert refused == {"unsupported", "malformed", "too-many-messages"}


def test_noise_beyond_its_limit_is_drawn_again_whatever_the_value(ask):
    labelled = making.MECHANISMS["histogram"][0].to_json()
    assert set(ask("limited", {"mechanism": labelled, "value": "red", "times": 50})) == {1, 2}
    counted = making.MECHANISMS["counted-messages"][0].to_json()
    assert set(ask("limited", {"mechanism": counted, "value": 1, "times": 200})) == {1, 2}
    assert set(ask("limited", {"mechanism": counted, "value": 0, "times": 200})) == {0, 1}


def _whole(family, first, table):
    """The law that a table stands for: of a difference it is that of each part, of sparse bits that of their number."""
    if family == "PolyaDifference":
        return 1 - len(table), np.convolve(np.pad(table, (first, 0)), np.pad(table, (first, 0))[::-1])
    if family == "SparseBits":
        most = first + len(table)
        rows = [np.zeros(2 * most + 1) for _ in table]
        for sent, row in enumerate(rows, first):
            row[most - sent : most + sent + 1 : 2] = stats.binom(sent, 0.5).pmf(np.arange(sent + 1))
        return -most, np.tensordot(table, rows, 1)
    return first, table


def test_encodings_honest_users_pieces_and_the_ledger_are_those_of_the_vectors(ask):
    for vector in VECTORS["encodings"]:
        found, expected = ask("encoding", vector), vector["encoded"]
        if expected is None:
            assert found == "RangeError"
        else:
            assert (found["whole"], found["rest"]) == (expected["down"], pytest.approx(expected["chance"], abs=1e-15))
    assert [ask("honest", one) for one in VECTORS["honest"]] == [most for _, _, most in VECTORS["honest"]]
    for vector in VECTORS["pieces"]:
        assert ask("pieces", {**vector, "modulus": float(vector["modulus"])}) == vector["pieces"]
    for vector in VECTORS["ledger"]:
        for charged, turn in zip(ask("ledger", vector), vector["turns"], strict=True):
            expected = turn["charged"]
            assert charged == ("budget-spent" if expected is None else pytest.approx([*expected, 0.0], abs=1e-12)), turn


# Some have the text of the first one, and other signatures.
BY_HASH = {
    to_text(hashlib.sha256(one["body"].encode()).digest()): one
    for one in reversed(VECTORS["refusals"]["configurations"].values())
}
PINNED = {
    server: keys["verify"]
    for server, keys in json.loads(VECTORS["refusals"]["configurations"]["laplace"]["body"])["keys"].items()
}
NAMED = {
    "almost no pieces": "too-few-pieces",
    "one piece too few": "too-few-pieces",
    "half of the noise": "too-little-noise",
    "no noise on the device": "unsupported",
    "two batches where one was promised": "not-covered",
    "ε above the device's": "beyond-limits",
    "batches smaller than the device's": "beyond-limits",
    "one signature is missing": "bad-signature",
    "a stale revision": "bad-signature",
    "no noise of the front": "not-covered",
    "a part of a noise of the front": "malformed",
    "a revision that promises less": "broken-promise",
    "a batch opened under a later revision": "not-covered",
    "a batch opened under another promise": "broken-promise",
    "no proofs any more": "broken-promise",
    "proofs that nobody knows": "malformed",
    "proofs where a shuffler is trusted": "malformed",
    "a batch opened under what one server signed": "bad-signature",
}
"""How some refusals are called; the others are one of `REASONS`."""
REASONS = {*NAMED.values(), "malformed", "too-few-users", "too-many-messages"}


@pytest.mark.parametrize("case", VECTORS["refusals"]["cases"], ids=lambda case: case["why"])
def test_a_turn_is_taken_or_refused_by_name_as_its_vector_says_and_nothing_is_sent(case, ask):
    configurations = VECTORS["refusals"]["configurations"]
    given = {name: configurations.get(case[name]) for name in ("before", "configuration")}
    if json.loads(given["configuration"]["body"])["trust"] == "two-servers":
        given["keys"] = PINNED
    found = ask("turn", given | {"offer": case["offer"], "kept": BY_HASH})
    assert found["where"] == case["refused"]
    first, *rest = found["sent"]
    assert first == "GET colours"
    assert rest[:1] == ([] if case["refused"] == "configuration" else ["POST assignments"])
    # Only configurations that batches are pinned to are asked for after that.
    assert {request.removeprefix("GET ") for request in rest[1:]} <= {*BY_HASH}
    if case["refused"] is not None:
        assert found["why"] in REASONS
        assert found["why"] == NAMED.get(case["why"], found["why"])


def test_a_report_goes_where_the_front_is_under_the_newest_configuration(ask):
    mechanism = making.MECHANISMS["shuffled-laplace"][0]
    old = making.configuration_of(mechanism)
    new = making.configuration_of(mechanism, revision=1, urls=old.urls | {"front": "https://moved.example"})
    statements = {one.revision: making.signed(one.statement()) for one in (old, new)}
    asked = {}
    for joined, offered in ((new, old), (old, new)):
        pin = statements[offered.revision].hash
        offer = making.Offer("colours", pin, 7, 0, (making.Batch.of(3, pin, mechanism),))
        given = {"joined": statements[joined.revision], "offered": statements[offered.revision]}
        given["offer"] = making.signed(offer.statement())
        asked[joined.revision] = ask("moving", {name: one.to_dict() for name, one in given.items()})
    asked = {revision: found["asked"] for revision, found in asked.items()}
    assert asked[1][1:] == [f"{way} moved.example {what}" for way, what in STEPS]
    assert asked[0][1:3] == [f"{way} front.example {what}" for way, what in STEPS[:2]]
    assert asked[0][3:] == ["POST moved.example reports"]


def test_messages_are_sealed_to_the_key_that_their_batch_was_opened_under(ask):
    """An analyzer that takes a new key in the middle of a batch must not learn which messages came after."""
    mechanism = making.MECHANISMS["shuffled-laplace"][0]
    old = making.configuration_of(mechanism)
    private = making.fixed("another seal", 32)
    fresh = replace(old.keys["analyzer"], seal=SUITES[SUITE].public_of(private))
    new = making.configuration_of(mechanism, revision=1, keys=old.keys | {"analyzer": fresh})
    joined, offered = (making.signed(one.statement()) for one in (new, old))
    batch = making.Batch.of(3, offered.hash, mechanism)
    offer = making.signed(making.Offer("colours", joined.hash, 7, 0, (batch,)).statement())
    given = {"joined": joined, "offered": offered, "offer": offer}
    found = ask("moving", {name: one.to_dict() for name, one in given.items()})
    assert [request.split()[-1] for request in found["asked"][1:]] == ["assignments", "configurations", "reports"]
    envelope = Envelope.from_bytes(bytes.fromhex(found["upload"]))
    assert envelope.configuration == joined.hash
    seals = making.private_seal(SUITE)
    report = unseal(SUITE, seals["front"], envelope.sealed, report_info("colours", joined.hash))
    ((part,), info) = Report.from_bytes(report).parts, message_info("colours", offered.hash, batch.hash)
    assert all(len(unseal(SUITE, seals["analyzer"], one, info)) == 9 for one in part.messages)


def test_what_an_experiment_may_not_ask_of_a_device_is_refused_unless_the_app_allows_it(ask):
    mechanism = making.MECHANISMS["shuffled-laplace"][0]
    plain = making.configuration_of(mechanism)
    analyzer, front = plain.keys["analyzer"], plain.keys["front"]
    tickets = Admission("tickets", bytes(range(32)))
    alone = making.configuration_of(shuffled_laplace(epsilon=1.0, binary=True, honest_fraction=0.9).plan(users=40))
    refused = {
        "sharedKeys": replace(plain, keys=plain.keys | {"front": replace(front, seal=analyzer.seal)}),
        "plainHttp": replace(plain, urls=plain.urls | {"front": "http://front.example"}),
        "honestFraction": replace(plain, privacy=replace(plain.privacy, honest_fraction=0.91)),
        "frontNoise": alone,
        "admission": replace(plain, admission=tickets),
    }
    otherwise = {"sharedKeys": True, "plainHttp": True, "honestFraction": 0.95, "frontNoise": False}
    for name, configuration in refused.items():
        given = {"statements": [making.signed(configuration.statement()).to_dict()]}
        strict = {"admission": ["everybody"]} if name == "admission" else {}
        assert ask("joins", given | {"own": strict}) == ["beyond-limits"], name
        assert ask("joins", given | {"own": {name: otherwise[name]} if name in otherwise else {}}) == [None], name
    local = replace(plain, urls={"analyzer": "http://127.0.0.1:8400", "front": "http://[::1]:8401"})
    assert ask("joins", {"statements": [making.signed(local.statement()).to_dict()]}) == [None]
    body = plain.to_dict() | {"admission": {"kind": "tickets", "issuer": to_text(analyzer.verify)}}
    issuing = making.signed(Statement.of("configuration", body))
    assert ask("joins", {"statements": [issuing.to_dict()]}) == ["malformed"]


@pytest.mark.parametrize(
    "change",
    [
        lambda one: {"privacy": replace(one.privacy, epsilon=0.5)},
        lambda one: {"privacy": replace(one.privacy, unit="a person")},
        lambda one: {"recipe": one.recipe | {"smallest": 41}},
        lambda one: {"program": one.program | {"policy": "other"}},
        lambda one: {"admission": Admission("tickets", bytes(range(32)))},
    ],
)
def test_no_later_revision_changes_what_was_promised(change, ask):
    plain = making.configuration_of(making.MECHANISMS["shuffled-laplace"][0])
    later = replace(plain, revision=1, title="Another title", arms=(*plain.arms, "blue"))
    other = replace(later, revision=2, **change(plain))
    statements = [making.signed(one.statement()).to_dict() for one in (plain, later, other)]
    assert ask("joins", {"statements": statements}) == [None, None, "broken-promise"]


DAY = 86_400


def test_every_window_of_a_period_holds_the_budget_once_and_a_longer_one_counts_what_was_before(ask):
    spend = [{"at": at, "epsilon": 1.0} for at in (0, 10, DAY - 10, DAY - 5)]
    # A ledger that renewed a day after its first turn would pay for four more at once.
    again = [{"at": DAY + 1, "epsilon": 1.0}, {"at": DAY + 2, "epsilon": 1.0}, {"at": DAY + 11, "epsilon": 1.0}]
    assert ask("history", {"events": [*spend, *again]}) == [None] * 5 + ["budget-spent", None]
    daily = [{"at": 0, "epsilon": 4.0}, {"at": DAY, "epsilon": 1.0}, {"at": 2 * DAY, "epsilon": 1.0}]
    longer = [{"at": 3 * DAY, "join": 7 * DAY}, {"at": 3 * DAY, "epsilon": 1.0}, {"at": 7 * DAY, "epsilon": 1.0}]
    assert ask("history", {"events": [*daily, *longer]}) == [None] * 4 + ["budget-spent", None]
    # A clock that was ahead: what was spent counts from when that shows.
    back = [{"at": 100 * DAY, "epsilon": 4.0}, {"at": DAY, "join": DAY}, {"at": DAY + 1, "epsilon": 1.0}]
    assert ask("history", {"events": [*back, {"at": 2 * DAY, "epsilon": 1.0}]}) == [None, None, "budget-spent", None]


def test_a_batch_that_was_reported_to_does_not_come_back_as_another(ask):
    first = {"at": 0, "epsilon": 1.0, "batches": {"3": "hash"}}
    events = [first, first | {"batches": {"3": "hash", "4": "h"}}, first | {"batches": {"3": "other"}}]
    assert ask("history", {"events": events}) == [None, None, "broken-promise"]


STEPS = [("POST", "assignments"), ("GET", "configurations"), ("POST", "reports")]
DRAWS = [
    {"share": {"family": "Poisson", "rate": 0.375}, "parties": 1},
    {"share": {"family": "Poisson", "rate": "5/2"}, "parties": 160},
    {"share": {"family": "Polya", "r": "1/4", "beta": 0.75}, "parties": 1},
    {"share": {"family": "PolyaDifference", "r": "1/40", "scale": 26}, "parties": 20},
    {"share": {"family": "Polya", "r": 0.5, "scale": 2}, "parties": 1, "size": 5},
    {"share": {"family": "Poisson", "rate": 0.5}, "parties": 1, "size": 5},
]


def test_noise_has_its_law(browser, world):
    """Chi-square over 3,000 draws from a source that is always the same, so that this never fails by chance."""
    context = browser.new_context()
    context.add_init_script(SEEDED)
    ask = Asked(context, world[1])
    for one in DRAWS:
        drawn = np.array(ask("draws", one | {"times": 3000}))
        noise = noise_from_dict(one["share"]).times(one["parties"])
        _check_law(drawn, lambda x, noise=noise: noise.pmf(x))
    bits = np.array(ask("draws", {"share": {"family": "SparseBits", "slots": 4, "rate": 0.75}, "times": 3000}))
    _check_law(bits.sum(axis=1), stats.binom(4, 0.75).pmf)
    _check_law(bits[:, 1], stats.binom(4, 0.375).pmf)
    trials = np.array(ask("draws", {"share": {"family": "Binomial", "trials": 5, "p": 0.25}, "times": 3000}))
    assert (trials.sum(axis=1) == 5).all()
    _check_law(trials[:, 1], stats.binom(5, 0.25).pmf)
    range_of = {"values": {"low": 0, "high": 1, "binary": False, "clip": False}, "precision": 4, "value": 0.3125}
    up = np.array(ask("roundings", range_of | {"side": "unbiased", "times": 3000}))
    _check_law(up - 1, stats.bernoulli(0.25).pmf)
    _check_law(3 - np.array(ask("roundings", range_of | {"side": "under", "times": 3000})), stats.bernoulli(0.25).pmf)
    context.close()


def _check_law(drawn, pmf):
    """Values that are expected at least ten times, and all the others together."""
    values = np.arange(drawn.min() - 40, drawn.max() + 40)
    expected = len(drawn) * np.asarray(pmf(values), dtype=float)
    kept = expected >= 10.0
    seen = np.array([(drawn == value).sum() for value in values])
    observed, due = (
        np.append(seen[kept], seen[~kept].sum()),
        np.append(expected[kept], len(drawn) - expected[kept].sum()),
    )
    held = due > 1.0
    statistic = ((observed[held] - due[held]) ** 2 / due[held]).sum()
    assert stats.chi2(held.sum() - 1).sf(statistic) > 1e-6, (drawn[:20], observed, due)


IN_TWO_SHARES = ("between", "fruit", "compared", "several")


def test_devices_in_pages_play_whole_experiments_that_verify(ask, world):
    home, _ = world
    given = {"analyzer": home.analyzer_url, "values": VALUES, "devices": 400, "keys": _keys(home)}
    outcomes = ask("crowds", given)
    for name, found in outcomes.items():
        assert wait_finished(home.analyzer_url, name, 20)["finished"], found
        transcript = transcript_of(home, name)
        verdict = verify(transcript)
        assert verdict.finished
        assert verdict.damaged == 0
        assert verdict.reports > 0
        configuration = json.loads(json.loads(transcript.splitlines()[0])["configuration"]["body"])
        proved = configuration["validity"]["kind"] == "prio3"
        assert proved == (configuration["trust"] == "two-servers") == (name in IN_TWO_SHARES)
        # Whoever lies about more than a value is in no sum, and is counted: in a batch that closed, or in none.
        assert 0 < _invalid(transcript) <= found["lied"] if proved else "lied" not in found
        for mechanism, arm, decoded in _released(transcript):
            _check_sum(mechanism, decoded, VALUES[name], arm, found)
        if name == "compared":
            assert (verdict.decision["kind"], verdict.decision["leader"]) == ("better", 1)
            assert in_process(transcript) == verdict.decision


def test_whoever_comes_after_the_end_sees_the_arm_that_was_chosen(ask, world):
    home, _ = world
    assert wait_finished(home.analyzer_url, "compared", 20)["finished"]
    # The revision that names the arm is signed in the analyzer's next round.
    deadline = time.monotonic() + 20
    while "chosen" not in transcript_of(home, "compared"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    found = ask("comesLate", {"analyzer": home.analyzer_url, "name": "compared", "keys": _keys(home)})
    assert found == {"shown": ["new", False, ""], "recorded": False, "sent": ["GET compared"], "left": 100}


def _check_sum(mechanism, decoded, values, arm, found):
    """A released number is the sum of what its devices reported, up to noise; fails once in 10^9 batches at most."""
    left_out = 0
    if "sums" in mechanism.recipe:
        for name, one, number in zip(mechanism.names, mechanism.sums, decoded, strict=True):
            assert abs(one.estimate(number) - mechanism.users * values[arm][name]) <= one.radius(1e-9), name
        return
    if arm is not None:
        truth, estimate = mechanism.users * values[arm], mechanism.estimate(decoded)
    elif isinstance(mechanism, HistogramMechanism):
        # Its one batch has all reports that were accepted, but for those on their way when it was full: turns are given
        # out until proofs are checked, since some may be liars'.
        truth = np.array([found.get(f"accepted {item}", 0) for item in mechanism.universe.names])
        left_out = truth.sum() - mechanism.users
        assert 0 <= left_out <= found.get("lied", 0)
        estimate = mechanism.oracle.estimate(np.array(decoded))
    else:
        truth, estimate = mechanism.users * values[0], mechanism.estimate(decoded)
    assert (abs(estimate - truth) <= mechanism.radius(1e-9) + left_out).all()


def _invalid(transcript):
    """How many reports the servers have refused in public for their proofs."""
    released = [record for record in map(json.loads, transcript.splitlines()) if record["event"] == "released"]
    return sum(json.loads(record["receipt"]["body"])["refused"].get("invalid", 0) for record in released)


def _released(transcript):
    """The mechanism, for as many as reported, the arm and the number of every released batch."""
    batches = {}
    for record in map(json.loads, transcript.splitlines()):
        if record["event"] == "opened":
            offer = Offer.from_text(record["offer"]["body"])
            batches |= {batch.number: (batch.mechanism, offer.arm) for batch in offer.batches}
        elif record["event"] == "released":
            mechanism, arm = batches[record["batch"]]
            users = record.get("users")
            yield mechanism if users is None else mechanism.for_users(users), arm, record["decoded"]


def test_what_a_device_refuses_is_refused_before_anything_is_sent(ask, world):
    given = {"analyzer": world[0].analyzer_url, "name": "open", "keys": _keys(world[0])}
    forged = ask("meet", given | {"forged": "front"})
    assert (forged["refused"], forged["sent"]) == ("bad-signature", ["GET open"])
    small = ask("meet", given | {"own": {"epsilon": 0.99}})
    assert (small["refused"], small["sent"]) == ("beyond-limits", ["GET open"])
    spent = ask("meet", given | {"own": {"epsilonPerPeriod": 2.5}})
    assert (spent["refused"], spent["left"]) == ("budget-spent", 0.5)
    assert spent["sent"] == ["GET open", *["POST assignments", "POST reports"] * 2]


def test_a_report_whose_answer_was_lost_is_sent_again_and_counts_once(context, world):
    home, origin = world
    given, before = {"analyzer": home.analyzer_url, "name": "open", "keys": _keys(home)}, _accepted(home)
    lost = Asked(context, origin)("loseAnswer", given)
    assert (lost["taken"], lost["pending"], lost["left"]) == (0, 1, 3.0)
    assert 59 < lost["due"] <= 60
    assert "the answer was lost" in lost["trouble"]
    assert len(lost["bodies"]) == 2
    found = Asked(context, origin)("reopen", given)
    assert (found["taken"], found["pending"], found["left"]) == (0, 0, 3.0)
    assert {*found["bodies"], *lost["bodies"]} == {lost["bodies"][0]}
    assert _accepted(home) == before + 1


def _keys(home):
    servers = ("analyzer", "front")
    return {server: to_text(keys.load(home.directory / server / "keys").verify) for server in servers}


def _accepted(home, name="open"):
    """How many reports were accepted, as the front itself knows: what it tells everybody is coarse."""
    with closing(sqlite3.connect(home.directory / "front" / "front.db")) as store:
        return store.execute("select sum(accepted) from offers where experiment = ?", (name,)).fetchone()[0]


def test_tabs_that_share_an_account_lose_no_charge(context, world):
    pages = [Asked(context, world[1]) for _ in range(3)]
    for page in pages:
        page("startCharges", 20)
    for page in pages:
        page.page.wait_for_function("() => window.all")
    for page in pages:
        assert len(page("kept")["turns"]) == len(page("kept")["taken"]) == 60


@pytest.mark.parametrize("kept", [{}, {"version": 2}, "text", None])
def test_an_account_that_cannot_be_read_is_not_taken_for_an_empty_one(kept, context, world):
    assert Asked(context, world[1])("spoil", kept) == "bad-account"


def test_the_database_is_opened_once_and_the_browser_asked_to_keep_it(context, world):
    assert Asked(context, world[1])("openings") == {"opened": 1, "asked": 1}


def test_no_answer_is_endless_slow_without_end_or_somewhere_else(ask):
    bomb()
    said = {kind: ask("hostile", kind) for kind in ("endless", "bomb", "stalled", "elsewhere")}
    assert all(one.startswith("no-answer") for one in said.values()), said
    assert "more than 4194304 bytes" in said["bomb"]
    assert "more than 4194304 bytes" in said["endless"]
    assert "no answer in 2 seconds" in said["stalled"]
    assert set() == REACHED


def test_a_client_says_whom_it_trusts(ask):
    key = "A" * 43
    keys = [None, {}, {"analyzer": key}, {"analyzer": key, "front": ""}, {"analyzer": key, "front": "A"}]
    assert ask("mistrusted", keys) == [{"refused": "TypeError"}] * len(keys)


def test_experiments_of_one_name_at_two_analyzers_are_two(ask):
    mechanism = making.MECHANISMS["shuffled-laplace"][0]
    first = making.configuration_of(mechanism)
    strangers = {server: Ed25519PrivateKey.generate() for server in first.keys}
    verify_keys = {server: key.public_key().public_bytes_raw() for server, key in strangers.items()}
    other = replace(
        first, keys={server: replace(one, verify=verify_keys[server]) for server, one in first.keys.items()}
    )
    statements = {"first": making.signed(first.statement()), "second": other.statement()}
    for server, key in strangers.items():
        statements["second"] = statements["second"].signed(server, key)
    found = ask("namesakes", {name: one.to_dict() for name, one in statements.items()})
    assert found == [None, None, None, "bad-signature"]


class Page:
    """The demo's page, set up for an experiment and for keys, and everything about it that should not have happened."""

    def __init__(self, context, world, experiment, **trust):
        home, origin = world
        trust = trust or _keys(home)
        name = f"demo-{secrets.token_hex(4)}"
        write_demo(home.directory.parent / "site", name, home.analyzer_url, home.front_url, experiment, trust)
        self.address = f"{origin}/{name}/index.html"
        self.page, self.wrong, self.asked = context.new_page(), [], []
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.wrong.append(said.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, query=""):
        self.page.goto(self.address + query)
        return self.page


@pytest.mark.parametrize("view", VIEWS)
def test_a_participant_clicks_through_a_turn_and_is_told_what_was_sent(view, world, browser):
    home, _ = world
    context = browser.new_context(**VIEWS[view])
    context.add_init_script(NO_OTHER_CHANCE)
    before = _accepted(home, "shown") or 0
    shown = Page(context, world, "shown")
    page = shown.open()
    page.wait_for_selector("h1:has-text('Which colour do people press?')")
    assert "ε = 1" in page.locator("#promise").inner_text()
    assert "as long as one of the two is honest" in page.locator("#promise").inner_text()
    assert "Every report proves that its answer is a possible one" in page.locator("#promise").inner_text()
    page.get_by_text("Take a turn").click()
    page.wait_for_selector("#shown strong")
    _check_looks(page, view, "turn")
    page.get_by_text("Yes, it worked").click()
    page.wait_for_selector("#done h2")
    assert "294 bytes, as many as everybody sends" in page.locator("#sent").inner_text()
    assert "Of your ε = 4 you have 3 left" in page.locator("#left").inner_text()
    assert _accepted(home, "shown") == before
    _check_looks(page, view, "kept")
    page.wait_for_selector("#sent:has-text('Sent: 294 bytes')")
    assert _accepted_soon(home, "shown", before + 1)
    # Who returns sees the same arm, and takes no new turn.
    arm = page.locator("#shown strong").inner_text()
    page.reload()
    page.get_by_text("Take a turn").click()
    page.wait_for_selector("#status:has-text('You have seen it before')")
    assert page.locator("#shown strong").inner_text() == arm
    context.close()
    assert shown.wrong == []


def _accepted_soon(home, name, wanted):
    """The turn is no longer kept as soon as its report is on its way."""
    for _ in range(50):
        if _accepted(home, name) == wanted:
            return True
        time.sleep(0.1)
    return False


def test_the_page_asks_for_every_metric(world, context):
    page = Page(context, world, "measured").open()
    page.get_by_text("Take a turn").click()
    for name, value in (("finished", "2"), ("crashes", "9"), ("minutes", "12.5")):
        page.locator(f"input[name={name}]").fill(value)
    page.get_by_text("Send").click()
    assert page.locator("input:invalid").count() == 1, "a capped number may be larger"
    page.locator("input[name=finished]").fill("1")
    page.get_by_text("Send").click()
    page.wait_for_selector("#done h2")
    page.wait_for_selector("#sent:has-text('Sent: ')")


@pytest.mark.parametrize(("name", "answer"), [("liked", "pear"), ("rated", "3.5")])
def test_the_page_asks_for_items_and_for_numbers_too(name, answer, world, context):
    page = Page(context, world, name).open()
    page.get_by_text("Take a turn").click()
    assert ("Nothing proves that" in page.locator("#promise").inner_text()) == (name == "liked")
    if name == "liked":
        page.locator("select").select_option(answer)
    else:
        page.locator("input").fill("7")
        page.get_by_text("Send").click()
        assert page.locator("input:invalid").count() == 1
        page.locator("input").fill(answer)
    page.get_by_text("Send").click()
    page.wait_for_selector("#done h2")
    page.wait_for_selector("#sent:has-text('Sent: ')")
    assert _accepted_soon(world[0], name, 1)


def test_a_link_does_not_decide_whom_the_page_trusts(world, context):
    home, origin = world
    stranger = {"analyzer": "A" * 43, "front": "A" * 42 + "E"}
    link = {"analyzer": f"{origin}/hostile/moved", "experiment": "liked", "analyzer-key": "A" * 43} | stranger
    shown = Page(context, world, "open")
    page = shown.open("?" + urlencode(link))
    page.wait_for_selector("h1:has-text('Which colour do people press?')")
    assert [url for url in shown.asked if "/experiments/" in url] == [f"{home.analyzer_url}/experiments/open"]
    page = Page(context, world, "open", **stranger).open()
    page.wait_for_selector("#status:has-text('not signed by the two servers that this device trusts')")
    page = Page(context, world, "open", analyzer="", front="").open()
    page.wait_for_selector("#promise:has-text('This page trusts nobody yet')")


def test_nothing_that_gets_into_the_page_can_run_there_or_reach_anybody_else(world, context):
    page = Page(context, world, "open").open()
    page.wait_for_selector("h1:has-text('Which colour do people press?')")
    assert page.evaluate(INTRUDER, [f"{world[1]}/empty.html", f"{world[0].analyzer_url}/experiments/open"]) == {
        "elsewhere": "TypeError",
        "analyzer": "200",
        "markup": "TypeError",
        "inline": None,
        "attribute": None,
        "code": "EvalError",
    }


INTRUDER = """async ([elsewhere, analyzer]) => {
  const reached = (url) => fetch(url).then((answer) => String(answer.status), (error) => error.name);
  const thrown = (step) => { try { return String(step()); } catch (error) { return error.name; } };
  const script = document.createElement("script");
  try { script.textContent = "window.inline = 1"; } catch { script.append("window.inline = 1"); }
  const button = document.createElement("button");
  try { button.setAttribute("onclick", "window.attribute = 1"); } catch { }
  document.body.append(script, button);
  button.click();
  return {
    elsewhere: await reached(elsewhere), analyzer: await reached(analyzer),
    markup: thrown(() => document.body.insertAdjacentHTML("beforeend", "<b>")),
    inline: window.inline ?? null, attribute: window.attribute ?? null, code: thrown(() => (0, eval)("1")),
  };
}"""


def _check_looks(page, view, moment):
    found = page.evaluate(LOWEST_CONTRAST)
    assert found["ratio"] >= 4.5, found
    assert (found["paper"] < 0.05) == (view == "dark"), found
    assert page.evaluate(OVERFLOW) <= 0
    if shots := os.environ.get("CROUPIER_SCREENSHOTS"):
        page.screenshot(path=Path(shots) / f"browser-client-{moment}-{view}.png", full_page=True)
