"""What a client must believe and what it must refuse, by the vectors of `docs/wire.md`: turns, tickets, receipts."""

import hashlib
import json
import math

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cases import vector_reports as reports
from cases import wire_vectors as making
from cases.client import device
from croupier.checks import CroupierError
from croupier.client.device import Request, Response
from croupier.client.limits import Limits
from croupier.messages.admittance import NotAdmitted
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Batch
from croupier.messages.signing import BadSignature, Statement, from_text, to_text
from croupier.service import tickets
from croupier.service.receipts import BadRelease, check_receipt

VECTORS = json.loads(making.PATH.read_text(encoding="utf-8"))
CASES = VECTORS["refusals"]["cases"]

REASONS = {
    "almost no pieces": "pieces = 2",
    "one piece too few": "pieces = ",
    "no noise of the front": "front_noise of the batch",
    "a part of a noise of the front": "front_shares",
    "a revision that promises less": "privacy.epsilon was 1.0, and is 2.0",
    "a batch opened under a later revision": "pinned to revision 2",
    "a batch opened under another promise": "promises something else",
    "a batch opened under what one server signed": "not signed by the front",
    "pieces for less security": "a turn would cost",
    "fewer than 19 honest users": "at least 19 honest users",
    "half of the noise": "a turn would cost",
    "noise of half the scale": "a turn would cost",
    "a modulus that does not hold the sum": "modulus = 40",
    "no noise on the device": "noise from the analyzer",
    "another carrier": "noise_from",
    "vectors": "values of kind ball",
    "other values than signed": "values of the batch",
    "a batch below the smallest": "a batch of 39",
    "no arm": "arm None",
    "an arm that there is not": "arm 2",
    "an offer of another experiment": "sounds",
    "odds that are left out": "odds",
    "odds of zero": "odds = 0",
    "odds above one": "odds = 1.25",
    "odds that nobody is told, of public results": "odds of None",
    "odds that everybody is told, of private results": "odds of 0.25",
    "a block without the offer's batch": "a block with this offer's one batch",
    "a block with a batch twice": "different ones",
    "a block of nobody": "block users = 0",
    "a block whose epoch is no number": "block epoch = '2'",
    "a block with something unknown": "version 2 of one",
    "a block that is nothing": "version 2 of one",
    "no batch": "1 to 64 batches",
    "two batches where one was promised": "a turn would cost",
    "one batch twice": "different ones",
    "56 honest users of 100 at 0.55": "56 honest users of 100",
    "half of the counted noise": "a turn would cost",
    "a limit on the noise that costs too much": "a turn would cost",
    "counts of values that are not binary": "are not binary",
    "a claim without a number for e^ε": "version 2 of one",
    "a value told by the number of its bits": "sent as counted messages",
    "bits that err to one side": "side = .over. is not allowed",
    "a report of 4097 slots": "4097 messages",
    "half of a histogram's noise": "what the noise proves",
    "another universe": "universe of the batch",
    "ε above the device's": "ε = 2.02",
    "δ above the device's": "δ = 1.01e-05",
    "a period longer than the device's": "period of 31622401",
    "batches smaller than the device's": "batches of 31",
    "a stale revision": "revision 0 is stale",
    "one signature is missing": "not signed by the front",
    "signatures under each other's names": "signature does not fit",
    "words that were not signed": "signature does not fit",
    "other keys than those seen first": "other keys",
    "no proofs any more": "validity.kind was 'prio3', and is 'none'",
    "nothing said of validity": "KeyError.*validity",
    "proofs that nobody knows": "validity = 'prio9'",
    "proofs without a key": "a hash of 32 bytes with prio3",
    "proofs with a key that is no hash": "a hash of 32 bytes with prio3",
    "no proofs and a key": "left out with none",
    "proofs where a shuffler is trusted": "none where the trust is shuffler",
    "a little less Skellam noise": "a turn would cost",
    "a little less Laplace noise": "a turn would cost",
} | {
    f"vectors with {noise} noise {how}": why
    for noise in ("skellam", "laplace")
    for how, why in {
        "of another weight": "values of the batch",
        "of more places": "values of the batch",
        "on a finer scale": "precision of the batch",
        "in a small field": "one of Field128",
        "that no device can check": "values of kind ball",
    }.items()
}
"""Why each case is refused: a part of what the refusal says."""


CONFIGURATIONS = VECTORS["refusals"]["configurations"]
# Some have the text of the first one, and other signatures.
BY_HASH = {to_text(hashlib.sha256(one["body"].encode()).digest()): one for one in reversed(CONFIGURATIONS.values())}


PINNED = Configuration.from_text(CONFIGURATIONS["laplace"]["body"]).verify_keys


def drive(steps, body):
    """Answer the first request of a step with this body, and then those for configurations by their hash."""
    request = next(steps)
    try:
        while True:
            assert isinstance(request, Request)
            request = steps.send(Response(201, {}, json.dumps(body).encode()))
            body = BY_HASH[request.url.rpartition("/")[2]]
    except StopIteration as done:
        return done.value


def join(client, name):
    return drive(client.join("colours"), VECTORS["refusals"]["configurations"][name])


def play(client, offer):
    return drive(client.play("colours"), {"offer": offer, "token": to_text(bytes(56)), "expires": 2**33})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_a_turn_is_taken_or_refused_as_its_vector_says(case):
    configuration = json.loads(CONFIGURATIONS[case["configuration"]]["body"])
    # One of two servers must be honest: then no turn is taken without their keys.
    pinned = PINNED if configuration["trust"] == "two-servers" else None
    client = device(keys=pinned)
    if case["before"] is not None:
        join(client, case["before"])
    if case["refused"] == "configuration":
        with pytest.raises(CroupierError, match=REASONS[case["why"]]):
            join(client, case["configuration"])
        return
    join(client, case["configuration"])
    if case["refused"] == "offer":
        with pytest.raises(CroupierError, match=REASONS[case["why"]]):
            play(client, case["offer"])
    else:
        assert play(client, case["offer"]).offer.number == 7


def test_every_refusal_has_a_reason_and_something_that_is_accepted_beside_it():
    assert {case["why"] for case in CASES if case["refused"]} == set(REASONS)
    accepted = {case["configuration"] for case in CASES if case["refused"] is None}
    assert {case["configuration"] for case in CASES if case["refused"] == "offer"} - accepted == {"uncounted"}


def test_every_offer_is_well_signed_so_that_only_its_contents_can_be_refused():
    for case in CASES:
        if case["offer"] is not None:
            keys = Configuration.from_text(VECTORS["refusals"]["configurations"]["laplace"]["body"]).verify_keys
            Statement.from_dict("offer", case["offer"]).check_both(keys)


@pytest.mark.parametrize("history", VECTORS["ledger"], ids=lambda one: one["turns"][-1]["experiment"])
def test_the_ledger_adds_up_the_turns_of_a_window_and_more_for_those_that_share_a_batch(history):
    limits, period, paid = Limits(), Limits().shortest_period, []
    for turn in history["turns"]:
        now, period = turn["at"], max(period, turn["period"])
        for one in paid:
            # A turn of the future counts from when it was noticed to be one.
            one["since"] = one["at"] if one["at"] <= now else min(now, one["since"] if one["noticed"] else now)
            one["noticed"] |= one["at"] > now
        window = [one for one in paid if one["since"] > now - period]
        before, after = _together(window), _together([*window, turn])
        if after[0] > limits.epsilon_per_period * 1.000001 or after[1] > limits.delta_per_period * 1.000001:
            assert turn["charged"] is None
            continue
        assert turn["charged"] == pytest.approx([after[0] - before[0], after[1] - before[1]], rel=1e-9, abs=1e-16)
        paid.append(turn | {"noticed": False})


def _together(turns):
    """(ε, δ) of turns: those that share batches, directly or through others, are steps from neighbour to neighbour."""
    left, epsilon, delta = list(turns), 0.0, 0.0
    while left:
        group = [left.pop()]
        for one in group:
            near = [
                other
                for other in left
                if other["experiment"] == one["experiment"] and {*other["batches"]} & {*one["batches"]}
            ]
            for other in near:
                left.remove(other)
                group.append(other)
        epsilon += sum(one["epsilon"] for one in group)
        delta += group[0]["delta"] * _steps(group[0]["epsilon"], len(group))
    return epsilon, delta


def _steps(epsilon, turns):
    return sum(math.exp(k * epsilon) for k in range(turns))


def test_a_ticket_is_the_issuers_word_on_a_name_a_time_and_the_experiment():
    vector = VECTORS["ticket"]
    ticket, issuer = (
        bytes.fromhex(vector["ticket"]),
        Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vector["private_sign"])),
    )
    assert (len(ticket), ticket[:16].hex()) == (88, vector["id"])
    assert int.from_bytes(ticket[16:24], "big") == vector["expires"]
    issuer.public_key().verify(
        ticket[24:], b"croupier/2 ticket\0" + vector["experiment"].encode() + b"\0" + ticket[:24]
    )
    assert from_text("ticket", vector["header"]) == ticket
    public, now = issuer.public_key().public_bytes_raw(), vector["expires"] - 60.0
    assert tickets.check(public, ticket, vector["experiment"], now, longest=60) == ticket[:16]
    with pytest.raises(NotAdmitted, match="this experiment"):
        tickets.check(public, ticket, "sounds", now, longest=60)


def test_a_receipt_is_the_shufflers_word_on_a_released_batch():
    vector = VECTORS["receipt"]
    statement = Statement.from_dict("configuration", vector["configuration"])
    configuration = Configuration.from_text(statement.text)
    receipt = Statement.from_dict("release", vector["receipt"])
    offered = json.loads(VECTORS["shuffled-laplace x25519-aes128gcm"]["offer"]["body"])["batches"][0]
    batch = Batch(offered["number"], hashlib.sha256(statement.text.encode()).digest(), offered["mechanism"])
    body = check_receipt(receipt, configuration, batch)
    assert set(vector["receipt"]["signatures"]) == {"front"}
    report = VECTORS["shuffled-laplace x25519-aes128gcm"]
    assert body["messages"] == body["reports"] * report["slots"] + report["front"]
    front = Ed25519PrivateKey.from_private_bytes(reports.fixed("front sign", 32)).public_key()
    signature = from_text("signature", vector["receipt"]["signatures"]["front"])
    front.verify(signature, b"croupier/2 release\0" + vector["receipt"]["body"].encode())
    with pytest.raises(InvalidSignature):
        front.verify(signature, b"croupier/2 offer\0" + vector["receipt"]["body"].encode())
    with pytest.raises(BadRelease, match="batch = 3, and 4"):
        check_receipt(receipt, configuration, Batch(4, batch.pin, batch.text))
    with pytest.raises(BadSignature):
        receipt.check("analyzer", configuration.verify_keys["analyzer"])
