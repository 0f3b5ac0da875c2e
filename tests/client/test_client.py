"""What a device does over a network that loses things: it joins, plays and reports, and never reports twice."""

import json
from dataclasses import replace

import pytest

from cases.client import MECHANISM, Server, answer, both_signed, configuration, device, drive, offer, took, turn
from croupier.checks import CroupierError, InvalidParameter
from croupier.client import (
    BadSignature,
    BeyondLimits,
    BrokenPromise,
    Client,
    Limits,
    NotCovered,
    Refused,
    Spent,
    Unreachable,
)
from croupier.client.device import REPORT_TYPE, Lost, Response
from croupier.client.steps import ATTEMPTS
from croupier.messages.sealing import unseal
from croupier.messages.signing import Statement, to_text
from croupier.messages.wire import Envelope, Report, message_info, report_info
from croupier.noise import secure
from croupier.privacy import BudgetExceeded
from croupier.protocols import shuffled_laplace

ANALYZER, FRONT = Server.make(), Server.make()
FOUND = configuration(ANALYZER, FRONT)
SIGNED = both_signed(FOUND.statement(), ANALYZER, FRONT)
OFFER = both_signed(offer(SIGNED).statement(), ANALYZER, FRONT)


def problem(status, token, **headers):
    return answer(status, {"type": f"urn:croupier:error:{token}", "title": token, "status": status}, **headers)


ASSIGNED = answer(201, {"offer": OFFER.to_dict(), "token": to_text(bytes(56)), "expires": 2**40})
JOINED = answer(200, SIGNED.to_dict())


def test_a_device_joins_plays_and_reports():
    own = device()
    found, requests = drive(own.play("colours"), JOINED, ASSIGNED)
    assert [(r.method, r.url) for r in requests] == [
        ("GET", "https://analyzer.test/experiments/colours"),
        ("POST", "https://front.test/experiments/colours/assignments"),
    ]
    assert (found.arm, found.arm_name) == (0, "red")
    report, requests = drive(own.send_now(found, 1.0), answer(201, {"status": "accepted"}))
    assert requests[0].headers["content-type"] == REPORT_TYPE
    assert own.account.ledger.spent == 1.0
    assert own.account.pending == {}
    assert report


def test_the_upload_opens_at_the_front_and_its_messages_at_the_analyzer_only():
    own = device()
    found = took(own, SIGNED, offer(SIGNED), token=b"t" * 56)
    _, requests = drive(own.send_now(found, 1.0), answer(201, {"status": "accepted"}))
    envelope = Envelope.from_bytes(requests[0].content)
    info = report_info("colours", SIGNED.hash)
    report = Report.from_bytes(unseal(FRONT.suite, FRONT.seal, envelope.sealed, info))
    assert report.token == b"t" * 56
    batch = found.offer.batches[0]
    opened = [
        unseal(ANALYZER.suite, ANALYZER.seal, message, message_info("colours", SIGNED.hash, batch.hash))
        for message in report.parts[0].messages
    ]
    residues = [int.from_bytes(MECHANISM.shape.message(slot), "big") for slot in opened]
    total = sum(residues) % MECHANISM.carrier.modulus
    # One user's share is 0 with probability about 0.97; 1 + a few it always is.
    assert min(abs(total - 1), MECHANISM.carrier.modulus - abs(total - 1)) < 30


def test_a_lost_answer_is_asked_for_again_with_the_same_bytes():
    own = device()
    found = took(own, SIGNED, offer(SIGNED))
    _, requests = drive(
        own.send_now(found, 1.0),
        None,
        problem(503, "not-ready"),
        problem(429, "too-busy"),
        answer(200, {"status": "repeated"}),
    )
    assert len(requests) == 4
    assert len({request.content for request in requests}) == 1
    assert own.account.ledger.spent == 1.0
    assert own.account.pending == {}


def test_without_any_answer_the_report_is_kept_and_the_charge_stays():
    own = device()
    with pytest.raises(Unreachable):
        drive(own.send_now(took(own, SIGNED, offer(SIGNED)), 1.0), *[None] * ATTEMPTS)
    assert len(own.account.pending) == 1
    assert own.account.ledger.spent == 1.0


def test_a_refused_report_is_not_sent_again_and_the_charge_stays():
    own = device()
    with pytest.raises(Refused) as refusal:
        drive(own.send_now(took(own, SIGNED, offer(SIGNED)), 1.0), problem(409, "batch-closed"))
    assert refusal.value.problem == "batch-closed"
    assert own.account.pending == {}
    assert own.account.ledger.spent == 1.0


def test_a_spent_ledger_takes_no_turn_from_anybody():
    own = device(Limits(epsilon_per_period=1.5))
    found, _ = drive(own.play("colours"), JOINED, ASSIGNED)
    drive(own.send_now(found, 1.0), answer(201, {"status": "accepted"}))
    with pytest.raises(BudgetExceeded, match="colours costs"):
        drive(own.play("colours", sticky=False))


def test_what_is_refused_leaves_no_trace_in_the_account():
    own = device()
    forever = configuration(ANALYZER, FRONT, privacy=replace(FOUND.privacy, period=10**9))
    signed = both_signed(forever.statement(), ANALYZER, FRONT)
    with pytest.raises(BeyondLimits, match="period"):
        drive(own.join("colours"), answer(200, signed.to_dict()))
    assert own.account.trusted == {}
    assert own.account.period == Limits().shortest_period


def test_an_unsigned_configuration_is_refused():
    lonely = FOUND.statement().signed("analyzer", ANALYZER.sign)
    with pytest.raises(BadSignature):
        drive(device().join("colours"), answer(200, lonely.to_dict()))


def test_a_configuration_beyond_the_limits_is_refused():
    with pytest.raises(BeyondLimits):
        drive(device(Limits(epsilon=0.9)).join("colours"), JOINED)


def test_an_offer_signed_by_one_server_or_beyond_the_configuration_is_refused():
    lonely = offer(SIGNED).statement().signed("front", FRONT.sign)
    body = {"token": to_text(bytes(56)), "expires": 1}
    with pytest.raises(BadSignature):
        drive(device().play("colours"), JOINED, answer(201, body | {"offer": lonely.to_dict()}))
    greedy = offer(SIGNED, shuffled_laplace(epsilon=3.0, binary=True).plan(users=40))
    signed = both_signed(greedy.statement(), ANALYZER, FRONT)
    with pytest.raises(NotCovered):
        drive(device().play("colours"), JOINED, answer(201, body | {"offer": signed.to_dict()}))


def test_an_offer_under_another_revision_fetches_that_one():
    newer = configuration(ANALYZER, FRONT, revision=1)
    signed = both_signed(newer.statement(), ANALYZER, FRONT)
    found = both_signed(offer(signed).statement(), ANALYZER, FRONT)
    body = {"offer": found.to_dict(), "token": to_text(bytes(56)), "expires": 5}
    own = device()
    got, requests = drive(own.play("colours"), JOINED, answer(201, body), answer(200, signed.to_dict()))
    assert requests[2].url.endswith(f"/configurations/{to_text(signed.hash)}")
    assert got.joined.configuration.revision == 1
    assert own.joined["colours"].configuration.revision == 1


def test_a_report_goes_where_the_front_is_now_even_if_its_batch_was_begun_elsewhere():
    moved = {"analyzer": "https://analyzer.test", "front": "https://moved.test"}
    newer = both_signed(configuration(ANALYZER, FRONT, revision=1, urls=moved).statement(), ANALYZER, FRONT)
    own = device()
    found, requests = drive(own.play("colours"), answer(200, newer.to_dict()), ASSIGNED, JOINED)
    assert requests[1].url == "https://moved.test/experiments/colours/assignments"
    _, requests = drive(own.send_now(found, 1.0), answer(201, {"status": "accepted"}))
    assert requests[0].url == "https://moved.test/experiments/colours/reports"


SOON = {"retry-after": "1e-9"}


def test_a_device_waits_for_a_turn_as_long_as_it_is_patient():
    nothing = problem(409, "nothing-open", **{"retry-after": "0.5"})
    with pytest.raises(Refused):
        drive(device().play("colours"), JOINED, nothing)
    found, requests = drive(device().play("colours", patience=30.0), JOINED, nothing, nothing, ASSIGNED)
    assert found.offer.number == 0
    assert requests[1].headers["prefer"].startswith("wait=")
    # However soon the front wants to be asked again, it is not asked again and again.
    with pytest.raises(Refused):
        drive(device().play("colours", patience=1.0), JOINED, *[problem(409, "nothing-open", **SOON)] * 12)


@pytest.mark.parametrize(
    ("document", "header", "seconds"),
    [
        ({"retry_after": 0.2}, "1", 0.2),
        ({}, "3", 3.0),
        ({}, "", None),
        ({"retry_after": "soon"}, "3", None),
        ({"retry_after": -1}, "3", None),
        ({"retry_after": 10**400}, "3", None),
        ({}, "\xb2", None),
        ({}, "inf", None),
    ],
)
def test_a_device_may_come_back_when_the_document_says_or_else_the_header(document, header, seconds):
    body = {"type": "urn:croupier:error:nothing-open"} | document
    with pytest.raises(Refused) as refusal:
        drive(device().play("colours"), JOINED, answer(409, body, **{"retry-after": header}))
    assert refusal.value.retry_after == seconds


@pytest.mark.parametrize("status", [403, 404, 407, 501, 507, 511, 520, 530])
def test_what_a_network_answers_instead_of_the_front_settles_no_report(status):
    own = device()
    strange = Response(status, {}, b"<html>Please log in</html>")
    _, requests = drive(
        own.send_now(took(own, SIGNED, offer(SIGNED)), 1.0), strange, answer(201, {"status": "accepted"})
    )
    assert len(requests) == 2
    assert own.account.pending == {}


def test_an_offer_is_not_even_read_before_its_signatures():
    own = device()
    huge = dict(json.loads(OFFER.text), batches="not read")
    forged = {"body": json.dumps(huge), "signatures": OFFER.to_dict()["signatures"]}
    with pytest.raises(BadSignature):
        drive(own.play("colours"), JOINED, answer(201, {"offer": forged, "token": "", "expires": 0}))


def test_a_signed_offer_that_cannot_be_computed_is_refused_by_name():
    own = device()
    mechanism = json.loads(MECHANISM.to_json())
    mechanism["share"]["scale"] = "1/" + "9" * 400
    body = json.loads(OFFER.text)
    body["batches"][0]["mechanism"] = json.dumps(mechanism)
    odd = both_signed(Statement.of("offer", body), ANALYZER, FRONT)
    with pytest.raises(CroupierError):
        drive(own.play("colours"), JOINED, answer(201, {"offer": odd.to_dict(), "token": "", "expires": 0}))


def test_a_turn_in_a_batch_that_was_reported_to_costs_more_and_is_refused_when_that_is_too_much():
    privacy = FOUND.privacy
    own = device(Limits(epsilon_per_period=10.0, delta_per_period=2 * privacy.delta))
    found, _ = drive(own.play("colours"), JOINED, ASSIGNED)
    drive(own.send_now(found, 1.0), answer(201, {"status": "accepted"}))
    with pytest.raises(BudgetExceeded, match="δ"):
        drive(own.play("colours", sticky=False), ASSIGNED)
    assert own.account.ledger.spent == privacy.epsilon


def test_a_later_revision_that_promises_less_is_refused_where_it_is_joined_and_where_it_is_offered():
    own = device(Limits(epsilon=10.0))
    drive(own.join("colours"), JOINED)
    weaker = configuration(ANALYZER, FRONT, revision=1, privacy=replace(FOUND.privacy, epsilon=3.0))
    signed = both_signed(weaker.statement(), ANALYZER, FRONT)
    with pytest.raises(BrokenPromise, match="privacy.epsilon was 1.0, and is 3.0"):
        drive(own.join("colours"), answer(200, signed.to_dict()))
    found = both_signed(offer(signed).statement(), ANALYZER, FRONT)
    body = {"offer": found.to_dict(), "token": to_text(bytes(56)), "expires": 5}
    with pytest.raises(BrokenPromise, match="privacy.epsilon was 1.0, and is 3.0"):
        drive(own.play("colours"), answer(201, body), answer(200, signed.to_dict()))
    assert own.joined["colours"].configuration == FOUND


def test_a_batch_that_was_reported_to_is_refused_when_it_comes_under_another_pin():
    """Else its messages would be sealed to another key, and one user's part of it could be opened by itself."""
    own = device()
    found, _ = drive(own.play("colours"), JOINED, ASSIGNED)
    drive(own.send_now(found, 1.0), answer(201, {"status": "accepted"}))
    renewed = {"analyzer": replace(ANALYZER.public, seal=Server.make().public.seal), "front": FRONT.public}
    newer = both_signed(configuration(ANALYZER, FRONT, revision=1, keys=renewed).statement(), ANALYZER, FRONT)
    moved = both_signed(offer(newer, number=1).statement(), ANALYZER, FRONT)
    body = {"offer": moved.to_dict(), "token": to_text(bytes(56)), "expires": 5}
    with pytest.raises(BrokenPromise, match="batch 10 of .* has another pin than before"):
        drive(own.play("colours", sticky=False), answer(201, body), answer(200, newer.to_dict()))


def test_earlier_configurations_that_a_turn_would_be_kept_with_have_a_bound():
    """Two servers could sign as many as an offer has batches: the account would grow by all of them."""
    own, arms = device(), tuple(f"{number:0>990}" for number in range(400))
    found, _ = drive(own.play("colours"), JOINED, ASSIGNED)
    newest = replace(found.joined, configuration=replace(found.joined.configuration, revision=9))
    earlier = [
        both_signed(configuration(ANALYZER, FRONT, revision=revision, arms=arms).statement(), ANALYZER, FRONT)
        for revision in (1, 2, 3)
    ]
    few = own._all_pinned(newest, {earlier[0].hash})
    assert [*drive(few, answer(200, earlier[0].to_dict()))[0]] == [earlier[0].hash]
    served = {statement.hash: answer(200, statement.to_dict()) for statement in earlier}
    with pytest.raises(NotCovered, match="more than 1,048,576 characters together"):
        drive(own._all_pinned(newest, set(served)), *(served[pin] for pin in set(served)))


class Renewed:
    """A secure source that counts how often it forgot."""

    def __init__(self):
        self.times = 0

    def words(self, count):
        return secure().words(count)

    def renew(self):
        self.times += 1


def test_the_noise_of_a_report_is_forgotten_as_soon_as_it_is_sealed_or_refused():
    own = device()
    own.source = Renewed()
    own.sealed(turn(SIGNED, offer(SIGNED)), 1.0)
    assert own.source.times == 1
    with pytest.raises(InvalidParameter):
        own.sealed(turn(SIGNED, offer(SIGNED)), 0.5)
    assert own.source.times == 2


def test_the_reason_why_there_was_no_answer_is_said():
    with pytest.raises(Unreachable, match="GET https://analyzer.test/experiments/colours: the answer is too good"):
        drive(device().join("colours"), *[Lost("the answer is too good")] * ATTEMPTS)


def test_a_spent_device_says_when_it_can_take_part_again():
    own = device(Limits(epsilon_per_period=1.0), clock=lambda: 1000.0)
    own.account.clock = lambda: 1000.0
    drive(own.send_now(took(own, SIGNED, offer(SIGNED)), 1.0), answer(201, {"status": "accepted"}))
    with pytest.raises(Spent, match="there is enough in 86400 s") as refusal:
        drive(own.play("colours"), JOINED)
    assert refusal.value.until == own.account.renews_at == 87_400.0


def test_a_ticket_that_is_no_bytes_is_named():
    with pytest.raises(InvalidParameter, match="ticket"):
        drive(device().play("colours", ticket="abc"))
    with pytest.raises(InvalidParameter, match="analyzer"):
        Client("127.0.0.1:8400")


def test_keys_are_pinned_as_bytes_or_as_the_text_that_is_printed():
    keys = {server: one.public.verify for server, one in (("analyzer", ANALYZER), ("front", FRONT))}
    texts = {server: to_text(key) for server, key in keys.items()}
    assert Client("https://analyzer.test", keys=texts).device.keys == keys
    assert Client("https://analyzer.test", keys=keys).device.keys == keys
    for wrong in (texts | {"front": "AAAA"}, {"analyzer": texts["analyzer"]}, texts | {"front": b"short"}, []):
        with pytest.raises(InvalidParameter, match="keys"):
            Client("https://analyzer.test", keys=wrong)
