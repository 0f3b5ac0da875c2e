"""Experiments in blocks: every report counts once, the batches of a block close together, and odds are kept apart."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cases.service import shares
from cases.service.blocks import (
    LEAST,
    PLAN,
    SWINGING,
    WITHIN,
    check_arms_and_epochs,
    check_nothing_lost,
    check_old_epochs_are_over,
    check_together,
    counted,
    members,
    offers,
)
from cases.service.shares import DEADLINE, one_bit_a_user, opened
from croupier.messages.offer import Offer
from croupier.noise import secure
from croupier.service.decryption import open_all
from croupier.service.experiment_log import Asked
from croupier.service.store import FrontStore
from croupier.service.tickets import issue


@pytest.fixture
def service_of(tmp_path, monkeypatch):
    """Both servers with an experiment in blocks."""
    services = []
    with one_bit_a_user(monkeypatch, marks=False):

        def begin(experiment=PLAN, kind="sqlite", **more):
            services.append(opened(tmp_path, kind, experiment=experiment, **more))
            return services[-1]

        yield begin
        for service in services:
            service.close()


def come_and_report(service, count):
    """So many take a turn and report; their bits, in the order in which they were accepted."""
    people = [service.comes() for _ in range(count)]
    assert None not in people
    assert [service.reports(person) for person in people] == ["accepted"] * count
    return [person.bit for person in people]


def fill_a_block(service):
    """Users come until one more block is released."""
    before = len(members(service))
    for _ in range(20):
        come_and_report(service, 1)
        service.step()
        service.step()
        check_together(service)
        if len(members(service)) > before:
            return
    raise AssertionError("no block was released")


def test_a_block_closes_when_its_total_is_reached_and_has_all_who_came(service_of):
    service = service_of()
    come_and_report(service, 2 * LEAST - 1)
    service.step()
    service.step()
    assert service.records("released") == []
    come_and_report(service, 4)
    for _ in range(3):
        service.step()
        check_together(service)
    (block,) = members(service).values()
    assert {arm: len(inside) for arm, inside in block.items()} in ({0: 5, 1: 4}, {0: 4, 1: 5})
    assert counted(service) == service.accepted.keys()
    # Of turns each record holds how many were dealt, and both are in the receipt.
    released = service.records("released")
    assert sum(record["turns"] for record in released) == 9
    assert not any(record["over"] for record in released)
    assert service.live.program.show()["turns"] == [record["turns"] for record in released]


def test_everybody_gets_a_turn_however_many_reports_are_out(service_of):
    """An A/B test that shows some people nothing would waste them: within an epoch no turn is too many."""
    service = service_of()
    people = [service.comes() for _ in range(40)]
    assert None not in people
    assert abs(sum(person.arm == 0 for person in people) - 20) <= 2 * 8 // 2


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_deals_are_whole_whoever_gives_out_their_turns_and_whatever_crashes(service_of, kind):
    """Two workers in turns, then both at once, and a front that is killed in between: of 16 turns 8 are each arm's."""
    service = service_of(PLAN, kind)
    store = service.servers.front.front.store
    url = store.database.engine.url.render_as_string(hide_password=False)
    other = FrontStore(url, secure(), service.servers.keys["front"].store)

    def dealt(by, count):
        times = {"now": service.servers.clock(), "due": int(service.servers.clock()) + 5}
        turns = by.assign(service.name, [None] * count, **times, ahead=1.0, spare=0)
        return Counter(Offer.from_text(json.loads(envelope)["body"]).arm for _, envelope in turns)

    assert sum((dealt(by, 1) for _ in range(8) for by in (store, other)), Counter()) == {0: 8, 1: 8}
    found = dealt(store, 5)
    service.servers.kill("front")
    store = service.servers.front.front.store
    assert found + dealt(store, 11) == {0: 8, 1: 8}
    with ThreadPoolExecutor(2) as threads:
        at_once = list(threads.map(lambda by: [dealt(by, 2) for _ in range(12)], (store, other)))
    assert sum((one for each in at_once for one in each), Counter()) == {0: 24, 1: 24}
    other.close()


@pytest.mark.slow
def test_the_last_block_before_the_horizon_gives_out_no_more_turns_than_are_expected_to_fit(service_of):
    service = service_of(PLAN | {"program": {"policy": "split", "growth": 1.0, "horizon": 10}})
    people = [service.comes() for _ in range(14)]
    given = [person for person in people if person is not None]
    assert 10 <= len(given) <= 13
    for person in given:
        service.reports(person)
    service.settled(3)
    assert service.live.program.finished
    assert counted(service) == service.accepted.keys()


@pytest.mark.slow
def test_a_late_report_counts_in_its_arms_next_block(service_of):
    service = service_of()
    late = service.comes()
    come_and_report(service, 2 * LEAST + 2)
    for _ in range(3):
        service.step()
    assert len(members(service)) == 1
    assert service.reports(late) == "accepted"
    come_and_report(service, 2 * LEAST + 2)
    service.settled(3)
    assert counted(service) == service.accepted.keys()
    check_arms_and_epochs(service)


def test_a_deadline_closes_a_block_with_the_smallest_number_in_each_arm_and_not_before(service_of):
    plan = PLAN | {"program": {"policy": "split"}, "batches": {"smallest": LEAST, "deadline": DEADLINE}}
    service = service_of(plan | {"decision": {"minimum_run": 0, "smallest_effect": 0.2}})
    people = [service.comes() for _ in range(2 * LEAST)]
    first = [person for person in people if person.arm == 0]
    for person in first[: LEAST - 1]:
        service.reports(person)
    service.step()
    service.servers.clock.now += DEADLINE + 1
    service.step()
    service.step()
    assert service.records("released") == []
    assert "fewer than 3 reports" in service.live.stalled
    while {arm: sum(p.arm == arm and p.bit in service.accepted for p in service.people) for arm in (0, 1)} != {
        0: LEAST,
        1: LEAST,
    }:
        person = service.comes()
        if sum(p.arm == person.arm and p.bit in service.accepted for p in service.people) < LEAST:
            service.reports(person)
    for _ in range(4):
        service.step()
    (block,) = members(service).values()
    assert {arm: len(inside) for arm, inside in block.items()} == {0: LEAST, 1: LEAST}
    assert service.live.stalled == ""


@pytest.mark.slow
def test_reports_count_under_the_odds_of_their_turn_and_the_old_epoch_ends_with_its_window(service_of):
    service = service_of(SWINGING)
    late = [service.comes() for _ in range(14)]
    fill_a_block(service)
    wanted = {turn.block.epoch for turn in service.live.program.wanted}
    assert wanted == {0, 1}, "a block of the old epoch stays open beside the new one"
    assert {service.comes().epoch for _ in range(4)} == {1}, "nobody is dealt a turn in the old one"
    assert [service.reports(person) for person in late[1:]] == ["accepted"] * 13
    fill_a_block(service)
    # Odds do not change again while the old epoch is open.
    assert {offer.block.epoch for offer in offers(service).values()} == {0, 1}
    service.servers.clock.now += 2 * WITHIN
    for _ in range(4):
        service.step()
        check_together(service)
    over = [record for record in service.records("released") if record["over"]]
    assert {offers(service)[record["batch"]].block.epoch for record in over} == {0}
    assert {person.bit for person in late[1:]} <= counted(service)
    check_arms_and_epochs(service)
    fill_a_block(service)
    service.step()
    assert max(offer.block.epoch for offer in offers(service).values()) == 2


@pytest.mark.slow
def test_an_old_epoch_in_which_nobody_is_out_ends_at_once(service_of):
    service = service_of(SWINGING)
    fill_a_block(service)
    for _ in range(3):
        service.step()
    assert [record["batch"] for record in service.records("expired")] == [4, 5]
    assert {turn.block.epoch for turn in service.live.program.wanted} == {1}
    assert counted(service) == service.accepted.keys()


@pytest.mark.slow
def test_late_reports_are_released_however_few_when_their_window_has_passed(service_of):
    service = service_of(SWINGING)
    *late, _ = [service.comes() for _ in range(3)]
    fill_a_block(service)
    for person in late:
        service.reports(person)
    service.step()
    assert service.records("expired") == []
    assert service.live.stalled == ""
    service.servers.clock.now += 2 * WITHIN
    for _ in range(3):
        service.step()
        check_together(service)
    assert counted(service) == service.accepted.keys()
    arms = {person.arm for person in late}
    empty = service.records("expired")
    assert [record["received"] for record in empty] == [0] * (2 - len(arms)), "of an arm that nobody reported"
    keys = service.servers.front.front.store.batch_keys.names()
    assert not [name for name in keys if name.endswith("-0.1")], "nothing is left of what is over"


@pytest.mark.slow
def test_late_turns_that_nobody_reports_are_given_up(service_of):
    service = service_of(SWINGING)
    for _ in range(3):
        service.comes()
    fill_a_block(service)
    service.step()
    service.servers.clock.now += 2 * WITHIN
    for _ in range(3):
        service.step()
        check_together(service)
    assert [record["received"] for record in service.records("expired")] == [0, 0]
    assert counted(service) == service.accepted.keys()


@pytest.mark.slow
def test_a_holder_who_asks_again_when_odds_have_changed_is_dealt_a_turn_that_still_counts(service_of, monkeypatch):
    """The one of before would be reported when the last of its epoch are counted already."""
    issuer = Ed25519PrivateKey.generate()
    service = service_of(SWINGING | {"reports": {"report_within": WITHIN, "report_at": [0, 500]}}, issuer=issuer)
    mine = issue(issuer, service.name, int(service.servers.clock()) + 1)

    def asks():
        with monkeypatch.context() as patch:
            patch.setattr(shares, "issue", lambda *_: mine)
            return service.comes()

    first, again = asks(), asks()
    assert (again.epoch, again.arm) == (first.epoch, first.arm) == (0, first.arm)
    fill_a_block(service)
    service.step()
    service.servers.clock.now += 300
    now = asks()
    assert now.epoch == 1
    service.servers.clock.now += WITHIN - 100
    assert service.reports(now) == "accepted"
    assert service.reports(first) in ("token-expired", "token-spent")
    check_old_epochs_are_over(service)
    fill_a_block(service)
    assert now.bit in counted(service)


def test_a_turn_that_is_shown_again_is_dealt_once_and_over_when_it_is_reported(service_of, monkeypatch):
    issuer = Ed25519PrivateKey.generate()
    service = service_of(PLAN, issuer=issuer)
    mine = issue(issuer, service.name, int(service.servers.clock()) + 1)
    with monkeypatch.context() as patch:
        patch.setattr(shares, "issue", lambda *_: mine)
        service.comes()
        service.servers.clock.now += 2
        person = service.comes()
    assert service.reports(person) == "accepted"
    fill_a_block(service)
    released = service.records("released")
    assert [record["turns"] for record in released] == [record["users"] for record in released]


@pytest.mark.slow
@pytest.mark.parametrize("reported", [0, 1])
def test_a_report_that_is_written_when_its_epoch_is_over_is_refused_and_leaves_nothing(service_of, reported):
    """It was looked at a moment before: who is told that a report was accepted is counted."""
    service = service_of(SWINGING)
    late = [service.comes() for _ in range(3)]
    fill_a_block(service)
    for person in late[1 : 1 + reported]:
        assert service.reports(person) == "accepted"
    service.step()
    front, clock = service.servers.front.front, service.servers.clock
    clock.now = late[0].turn.expires - 0.01
    envelope, job = front.job(service.name, late[0].body)
    arrival = front.arrival(service.name, envelope, open_all([job])[0])
    clock.now += WITHIN
    front.advance()
    assert front.store.accept(front._prepared([arrival])) == ["token-expired"]
    check_old_epochs_are_over(service)
    with front.store.database.read() as connection:
        assert not [stream for stream in front.store.waiting(connection, service.name) if stream.endswith("-0")]


@pytest.mark.slow
def test_a_block_that_is_full_closes_though_nobody_reports_one_arm_and_the_check_of_who_is_silent_sounds(service_of):
    """A variant that crashes the app reports nothing: waiting for it would be waiting for ever."""
    service = service_of()
    for _ in range(70):
        turn = service.turn()
        if turn.offer.arm == 0:
            assert service.reports(service.seals(turn)) == "accepted"
        service.servers.clock.now += 15
        service.step()
        service.step()
        check_together(service)
    assert {record["received"] for record in service.records("expired")} == {0}
    assert service.live.program.policy.alarmed.tolist() == [True]
    assert service.live.program.show()["turns"][1] > 20, "turns that nobody reported are told, too"


@pytest.mark.slow
def test_an_arm_that_an_operator_pauses_is_dealt_to_nobody_and_nothing_of_it_is_lost(service_of):
    plan = PLAN | {"arms": ["red", "green", "blue"]}
    service = service_of(plan)
    late = [service.comes() for _ in range(12)]
    for person in late[:4]:
        service.reports(person)
    service.servers.run(service.live.operate(Asked("pause", 2)))
    service.step()
    assert {service.comes().arm for _ in range(20)} == {0, 1}
    for person in late[4:]:
        assert service.reports(person) == "accepted"
    service.step()
    service.servers.clock.now += 2 * WITHIN
    for _ in range(4):
        service.step()
        check_together(service)
    assert {person.bit for person in late} == counted(service)
    check_arms_and_epochs(service)
    with pytest.raises(Exception, match="two are left to compare"):
        service.servers.run(service.live.operate(Asked("pause", 1)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("sqlite", 2),
        ("postgresql", 4),
        pytest.param("sqlite", 1, marks=pytest.mark.evidence),
        pytest.param("postgresql", 1, marks=pytest.mark.evidence),
    ],
)
def test_crashes_between_any_two_writes_neither_lose_nor_double_nor_part_a_block(service_of, kind, every):
    """Either server dies before or after each of its transactions, in the life of a block; odds change, too."""
    service = service_of(SWINGING, kind)
    for server in ("front", "analyzer"):
        for transaction in range(1, 10, every):
            for committed in (False, True):
                if len(service.people) > 50:
                    break
                people = [person for person in (service.comes() for _ in range(3)) if person]
                service.servers.alive[server].die_at(transaction, committed)
                for person in people:
                    if service.reports(person) is None:
                        service.reports(person)
                for _ in range(4):
                    service.step()
                    check_together(service)
    service.settled(4)
    check_arms_and_epochs(service)
    check_nothing_lost(service, {person.bit for person in service.people})
    check_old_epochs_are_over(service)
    assert len(counted(service)) > 20 // every
