"""The front's decisions: what it serves, whom it believes, and what each way of cheating is refused by."""

import itertools
import json
from collections import Counter
from dataclasses import replace

import pytest
from sqlalchemy import update

from cases.service.world import SIGN, SUITE, World, keys_of, signed, upload, witness
from croupier.messages.admission import Admission
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import SUITES, key_id, seal
from croupier.messages.signing import Statement, from_text
from croupier.messages.wire import Envelope, Report, report_info
from croupier.noise import secure
from croupier.protocols import shuffled_bits
from croupier.service import tickets, tokens
from croupier.service.front import coarse
from croupier.service.notary import Rules
from croupier.service.problems import Problem
from croupier.service.store import FrontStore, StoreProblem
from croupier.service.store.schema import POOLS


@pytest.fixture
def world(sqlite_url):
    found = World(FrontStore(sqlite_url, secure(), bytes(32)))
    found.open()
    yield found
    found.front.store.close()


def refused(token, work, *arguments):
    with pytest.raises(Problem) as problem:
        work(*arguments)
    assert problem.value.token == token


def rebuilt(world, turn, **changes):
    """An upload made by hand: what an honest device sends, with something changed."""
    honest = Envelope.from_bytes(world.report(turn, 1.0))
    key = keys_of("front").newest(SUITE)
    info = report_info(world.plan.name, turn.offer.configuration)
    report = Report.from_bytes(SUITES[SUITE].hpke.decrypt(honest.sealed, SUITES[SUITE].read_private(key.private), info))
    report = replace(report, **changes)
    return replace(honest, sealed=seal(SUITE, key.public, report.to_bytes(), info)).to_bytes()


def parts_of(world, turn):
    honest = Envelope.from_bytes(world.report(turn, 1.0))
    key = keys_of("front").newest(SUITE)
    info = report_info(world.plan.name, turn.offer.configuration)
    plain = SUITES[SUITE].hpke.decrypt(honest.sealed, SUITES[SUITE].read_private(key.private), info)
    return Report.from_bytes(plain).parts


@pytest.mark.slow
def test_both_arms_of_a_phase_fill_and_leave_with_exactly_their_users(world):
    assert world.fill() == 40
    assert world.front.close_full() == 2
    for offer in world.offers():
        number = offer.batches[0].number
        receipt = Statement.from_dict("release", world.front.receipt(world.plan.name, number))
        receipt.check("front", keys_of("front").verify)
        assert receipt.body["reports"] == 20
        witness(world.front, world.plan.name)
        payload = world.front.part(world.plan.name, number, 0)
        assert len(payload) == receipt.body["messages"] * receipt.body["length"]
        world.front.acknowledge(world.plan.name, number)
        refused("already-released", world.front.part, world.plan.name, number, 0)
        world.front.acknowledge(world.plan.name, number)


def test_a_report_sent_twice_counts_once(world):
    turn = world.turn()
    body = world.report(turn, 1.0)
    assert world.upload(body) == ["accepted"]
    assert world.upload(body, body) == ["repeated", "repeated"]
    assert sum(one.received for one in world.front.store.standings(world.plan.name)) == 1


def test_two_reports_for_one_token_count_once(world):
    turn = world.turn()
    another = replace(turn, report=bytes(16))
    assert world.upload(world.report(turn, 1.0), world.report(another, 0.0)) == ["accepted", "token-spent"]


def test_a_forged_token_is_refused(world):
    turn = world.turn()
    forged = bytearray(turn.token)
    forged[-1] ^= 1
    assert world.upload(rebuilt(world, turn, token=bytes(forged))) == ["bad-token"]
    own = tokens.issue(bytes(32), world.plan.name, turn.offer.number, 2**40)
    assert world.upload(rebuilt(world, turn, token=own)) == ["bad-token"]


def test_a_token_with_a_later_expiry_is_refused(world):
    turn = world.turn()
    longer = turn.token[:16] + (2**40).to_bytes(8, "big") + turn.token[24:]
    assert world.upload(rebuilt(world, turn, token=longer)) == ["bad-token"]


def test_an_expired_token_is_refused(sqlite_url):
    world = World(FrontStore(sqlite_url, secure(), bytes(32)))
    world.open(deadline=1e6)
    turn = world.turn()
    body = world.report(turn, 1.0)
    world.clock.now = turn.expires - 0.01
    assert world.upload(body) == ["accepted"]
    turn = world.turn()
    world.clock.now = turn.expires
    assert world.upload(world.report(turn, 1.0)) == ["token-expired"]
    # What was accepted in time is known to be, however late its sender asks.
    assert world.upload(body) == ["repeated"]
    world.front.store.close()


def test_a_token_for_one_arm_buys_no_place_in_the_other(world):
    first, second = world.offers()
    turn = world.turn()
    other = second if turn.offer.number == first.number else first
    assert world.upload(rebuilt(world, turn, offer=other.number)) == ["bad-token"]
    elsewhere = tuple(replace(part, batch=other.batches[0].number) for part in parts_of(world, turn))
    assert world.upload(rebuilt(world, turn, parts=elsewhere)) == ["wrong-batch"]
    assert world.upload(rebuilt(world, turn, parts=(*parts_of(world, turn), *elsewhere))) == ["wrong-batch"]


def test_too_many_too_few_longer_or_equal_messages_are_refused(world):
    turn = world.turn()
    (part,) = parts_of(world, turn)
    for messages in (
        part.messages[:-1],
        (*part.messages, part.messages[0]),
        tuple(message + b"\0" for message in part.messages),
        (part.messages[0],) * len(part.messages),
    ):
        assert world.upload(rebuilt(world, turn, parts=(replace(part, messages=messages),))) == ["wrong-shape"]
    assert world.upload(world.report(turn, 1.0)) == ["accepted"]


def test_garbage_is_refused_at_each_layer(world):
    turn = world.turn()
    honest = world.report(turn, 1.0)
    envelope = Envelope.from_bytes(honest)
    changed = bytearray(honest)
    changed[-1] ^= 1
    key = keys_of("front").newest(SUITE)
    info = report_info(world.plan.name, turn.offer.configuration)
    for body, outcome in (
        (b"", "malformed-report"),
        (b"\x09" + honest[1:], "malformed-report"),
        (honest[:42], "malformed-report"),
        (bytes(changed), "unopenable-report"),
        (honest[:-1], "unopenable-report"),
        (replace(envelope, key=bytes(8)).to_bytes(), "unopenable-report"),
        (replace(envelope, suite=3).to_bytes(), "unopenable-report"),
        (replace(envelope, configuration=bytes(32)).to_bytes(), "unopenable-report"),
        (replace(envelope, sealed=seal(SUITE, key.public, b"not a report", info)).to_bytes(), "malformed-report"),
    ):
        assert world.upload(body) == [outcome]
    assert world.upload(honest) == ["accepted"]


def test_a_report_sealed_for_one_experiment_does_not_open_in_another(world):
    assert world.upload(world.report(world.turn(), 1.0), name="elsewhere") == ["unopenable-report"]


@pytest.mark.slow
def test_a_late_report_is_told_that_its_batch_has_closed(world):
    late = [world.turn() for _ in range(3)]
    world.clock.now += 60
    world.fill()
    assert {outcome for turn in late for outcome in world.upload(world.report(turn, 1.0))} == {"batch-closed"}


def test_a_batch_that_does_not_fill_expires_and_is_never_released_smaller(world):
    world.fill(most=10)
    number = world.offers()[0].batches[0].number
    refused("not-released", world.front.receipt, world.plan.name, number)
    world.clock.now += 101
    assert world.front.sweep() == 2
    refused("batch-expired", world.front.receipt, world.plan.name, number)
    refused("batch-expired", world.front.part, world.plan.name, number, 0)
    refused("batch-expired", world.front.acknowledge, world.plan.name, number)
    refused("nothing-open", world.turn)


def test_open_batches_are_told_no_finer_than_by_eight():
    """In eighths alone a batch of eight would tell when each report came."""
    for users in (2, 8, 16, 63, 64, 1000):
        told = [coarse(received, users) for received in range(users)]
        assert all(a == b or b - a >= min(users, 8) for a, b in itertools.pairwise(told))
        assert coarse(users, users) == users


def test_a_finished_experiment_gives_no_more_turns(world):
    turn = world.turn()
    world.front.finish(world.plan.name)
    refused("experiment-finished", world.turn)
    assert world.upload(world.report(turn, 1.0)) == ["batch-closed"]
    refused("unknown-experiment", world.front.finish, "nothing")
    assert [p.token for p in world.front.assign([("nothing", None)])] == ["unknown-experiment"]


def test_a_configuration_must_be_the_analyzers_and_name_this_front(world):
    front, name = world.front, world.plan.name
    again = front.register(name, world.configuration().statement().signed("analyzer", SIGN()))
    assert again.to_dict() == world.signed.to_dict()
    refused("bad-signature", front.register, name, world.configuration().statement())
    refused("bad-request", front.register, "other", world.configuration().statement().signed("analyzer", SIGN()))
    stranger = replace(
        world.configuration(), keys={s: keys_of("analyzer").public(SUITE) for s in ("analyzer", "front")}
    )
    refused("bad-signature", front.register, name, stranger.statement().signed("analyzer", SIGN()))
    changed = replace(world.configuration(), title="another")
    refused("configuration-conflict", front.register, name, changed.statement().signed("analyzer", SIGN()))
    newer = replace(world.configuration(1), title="another")
    front.register(name, newer.statement().signed("analyzer", SIGN()))
    assert json.loads(front.configuration(name)["body"])["revision"] == 1
    assert front.configuration(name, world.signed.hash)["body"] == world.signed.text
    refused("unknown-configuration", front.configuration, name, bytes(32))


def test_a_name_belongs_to_the_analyzer_that_used_it_first(world):
    thief = keys_of("thief")
    stolen = replace(
        world.configuration(1), keys={"analyzer": thief.public(SUITE), "front": keys_of("front").public(SUITE)}
    )
    refused(
        "configuration-conflict",
        world.front.register,
        world.plan.name,
        stolen.statement().signed("analyzer", thief.sign),
    )


def test_a_front_lends_itself_to_no_more_than_its_rules_allow(sqlite_url):
    for rules in (Rules(largest_epsilon=1.9), Rules(smallest_batch=21)):
        store = FrontStore(sqlite_url, secure(), bytes(32))
        refused("beyond-policy", World, store, rules)
        store.close()


def test_an_offer_beyond_the_signed_configuration_is_refused(world):
    offer = world.offers()[0]
    weak = shuffled_bits(epsilon=9.0).plan(users=20)
    greedy = replace(offer, number=50, batches=(Batch.of(50, offer.configuration, weak),))
    refused("not-covered", world.front.open_offer, world.plan.name, 50, signed(greedy), None)
    refused("bad-signature", world.front.open_offer, world.plan.name, 0, offer.statement(), None)
    lost = replace(offer, configuration=bytes(32))
    refused("unknown-configuration", world.front.open_offer, world.plan.name, 0, signed(lost), None)
    refused("bad-request", world.front.open_offer, world.plan.name, 9, signed(offer), None)
    other = replace(offer, batches=(replace(offer.batches[0], number=77),))
    refused("offer-conflict", world.front.open_offer, world.plan.name, offer.number, signed(other), None)


def test_an_unknown_batch_is_named_so(world):
    for work in (world.front.receipt, world.front.acknowledge, world.front.cancel):
        refused("unknown-batch", work, world.plan.name, 99)


def test_old_keys_still_open_what_was_sealed_to_them(world, tmp_path):
    from croupier.service import keys as key_files

    directory = tmp_path / "keys"
    before = key_files.make(directory)
    key_files.rotate(directory)
    after = key_files.load(directory)
    assert after.newest(SUITE).id != before.newest(SUITE).id
    assert after.by_id(before.newest(SUITE).id) == before.newest(SUITE)
    assert after.by_id(key_id(b"unknown")) is None


def test_every_outcome_of_the_store_is_a_problem_or_a_success(world):
    from croupier.service.problems import PROBLEMS

    turn = world.turn()
    body = world.report(turn, 1.0)
    found = Counter(upload(world.front, world.plan.name, body, body, world.report(turn, 0.0)))
    assert set(found) - {"accepted", "repeated"} <= set(PROBLEMS)
    assert isinstance(Offer.from_text(turn.offer.statement().text), Offer)
    assert from_text("x", "AA") == b"\0"


@pytest.mark.slow
def test_an_issuer_admits_each_ticket_holder_to_one_report(sqlite_url):
    issuer, stranger = keys_of("issuer").sign, keys_of("thief").sign
    rules = Rules(admission=Admission("tickets", issuer.public_key().public_bytes_raw()), remember=2 * tickets.DAY)
    world = World(FrontStore(sqlite_url, secure(), bytes(32)), rules)
    world.open()
    now = int(world.clock.now)
    later = now + 500
    ticket = tickets.issue(issuer, world.plan.name, later)
    first, second = world.turn(ticket), world.turn(ticket)
    assert world.upload(world.report(first, 1.0)) == ["accepted"]
    # Asking again after a lost answer is fine; reporting again is not.
    assert world.upload(world.report(second, 0.0)) == ["token-spent"]
    # Not even when the front has taken a new key for its tokens.
    world.front.keys = replace(world.front.keys, token=bytes(32))
    refused("not-admitted", world.turn, ticket)
    assert world.upload(world.report(world.turn(tickets.issue(issuer, world.plan.name, later)), 1.0)) == ["accepted"]
    for bad in (
        b"",
        ticket[:-1],
        tickets.issue(stranger, world.plan.name, later),
        tickets.issue(issuer, "elsewhere", later),
        tickets.issue(issuer, world.plan.name, now - tickets.DAY),
        tickets.issue(issuer, world.plan.name, now + 2 * tickets.DAY + 1),
        ticket[:16] + (later + tickets.DAY).to_bytes(8, "big") + ticket[24:],
        _to_the_second(issuer, world.plan.name, now + 500),
    ):
        refused("not-admitted", world.turn, bad)
    world.front.store.close()


def _to_the_second(issuer, experiment, expires):
    """A ticket whose issuer tells when it was issued."""
    said = bytes(16) + expires.to_bytes(8, "big")
    assert expires % tickets.DAY
    return said + issuer.sign(b"croupier/2 ticket\0" + experiment.encode() + b"\0" + said)


def test_tickets_of_one_day_all_expire_at_once():
    issuer = keys_of("issuer").sign
    seconds = (1, 1000, tickets.DAY - 1, tickets.DAY)
    found = {tickets.issue(issuer, "colours", 20_000 * tickets.DAY + after)[16:24] for after in seconds}
    assert found == {(20_001 * tickets.DAY).to_bytes(8, "big")}


def test_a_ticket_holder_has_one_turn_at_a_time_however_often_he_asks(sqlite_url):
    """Else one person could take every turn, and no batch would ever fill."""
    issuer = keys_of("issuer").sign
    rules = Rules(admission=Admission("tickets", issuer.public_key().public_bytes_raw()), remember=2 * tickets.DAY)
    world = World(FrontStore(sqlite_url, secure(), bytes(32)), rules)
    world.open()
    later = int(world.clock.now) + 500
    greedy = tickets.issue(issuer, world.plan.name, later)
    turns = [world.turn(greedy) for _ in range(100)]
    assert len({turn.offer.number for turn in turns}) == 1
    assert world.front.store.plays(world.plan.name)[0] == 1
    world.turn(tickets.issue(issuer, world.plan.name, later))
    assert world.front.store.plays(world.plan.name)[0] == 2
    # Once overdue it may be somebody else's, and he may be given another.
    world.clock.now += 60
    world.turn(greedy)
    assert world.front.store.plays(world.plan.name)[0] == 3
    world.front.store.close()


def test_one_ciphertext_in_two_reports_spoils_those_and_not_the_batch(world):
    first, second = [world.turn() for _ in range(2)]
    while second.offer.number != first.offer.number:
        second = world.turn()
    (part,) = parts_of(world, first)
    assert world.upload(rebuilt(world, first, parts=(part,)), rebuilt(world, second, parts=(part,))) == ["accepted"] * 2
    world.clock.now += 60
    world.fill()
    assert world.front.close_full() == 2
    number = first.offer.batches[0].number
    body = Statement.from_dict("release", world.front.receipt(world.plan.name, number)).body
    witness(world.front, world.plan.name)
    payload = world.front.part(world.plan.name, number, 0)
    messages = [payload[i : i + body["length"]] for i in range(0, len(payload), body["length"])]
    due = 20 * len(part.messages) + first.offer.batches[0].shape.front
    assert len(set(messages)) == len(messages) == body["messages"] == due
    assert sum(message in part.messages for message in messages) == len(part.messages)


def test_a_batch_that_cannot_be_closed_stops_no_other(world):
    world.fill()
    broken = world.offers()[0].batches[0].number
    with world.front.store.database.write() as connection:
        connection.execute(update(POOLS).where(POOLS.c.batch == broken).values(payload=b"x" * 40))
    with pytest.raises(StoreProblem):
        world.front.close_full()
    states = {one["batch"]: one["state"] for one in world.front.standings(world.plan.name)["batches"]}
    assert sorted(states.values()) == ["closed", "ready"]
    assert states[broken] == "closed"
