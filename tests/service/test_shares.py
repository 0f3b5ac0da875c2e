"""Reports in shares: each counts once, in one total, whatever is lost or killed; and every attack on a total fails."""

import random

import pytest

from cases.service.machine import ANSWER_LOST, ARRIVES, REQUEST_LOST
from cases.service.shares import DEADLINE, PLAN, USERS, bits_of, one_bit_a_user, opened


def everything_counts_once(service):
    """Every report that was accepted is in exactly one total, and in one of its own arm."""
    seen = {}
    arms = {record["offer"]["body"]: record for record in service.records("opened")}
    assert arms
    for record in service.records("released"):
        inside = bits_of(record["decoded"])
        assert len(inside) == record["users"], "a total holds as many reports as its receipt says"
        assert not inside & seen.keys(), "nobody counts twice"
        seen |= dict.fromkeys(inside, record["batch"])
    assert seen.keys() <= {person.bit for person in service.people}
    return seen


def test_a_report_in_shares_counts_once_and_is_short(tmp_path, monkeypatch):
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path)
        people = [service.comes() for _ in range(USERS)]
        assert all(len(person.body) == 254 for person in people)
        assert [service.reports(person) for person in people] == ["accepted"] * USERS
        assert service.reports(people[0]) == "repeated"
        service.settled(3)
        assert set(everything_counts_once(service)) == {0, 1, 2}
        service.close()


def test_a_late_report_is_in_its_arms_next_batch(tmp_path, monkeypatch):
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path)
        late = service.comes()
        service.servers.clock.now += 30  # Overdue: others are given turns in its place.
        for _ in range(USERS):
            service.reports(service.comes())
        service.settled(2)
        assert len(service.records("released")) == 1
        assert service.reports(late) == "accepted"
        for _ in range(12):
            person = service.comes()
            if person is not None:
                service.reports(person)
            service.step()
        service.settled()
        seen = everything_counts_once(service)
        assert late.bit in seen
        assert len(service.accepted.keys() - seen.keys()) < USERS, "only an open batch has some that are not in a total"
        service.close()


def test_a_batch_closes_at_its_deadline_with_what_came(tmp_path, monkeypatch):
    """Larger than the smallest, smaller than was wanted; and with fewer than the smallest it waits, and says so."""
    with one_bit_a_user(monkeypatch):
        plan = {"program": {"policy": "dp-klucb", "horizon": 100_000, "growth": 5.0}}
        service = opened(tmp_path, experiment=PLAN | plan)
        for _ in range(40):
            if not service.records("released"):
                person = service.comes()
                if person:
                    service.reports(person)
            service.step()
        rounds = 0
        while max(batch.mechanism.users for batch in service.live.open.values()) == USERS and rounds < 8:
            for _ in range(USERS):
                person = service.comes()
                if person:
                    service.reports(person)
            service.step()
            service.step()
            rounds += 1
        number, batch = next(iter(service.live.open.items()))
        assert batch.mechanism.users == 5 * USERS
        for _ in range(USERS - 1):
            assert service.reports(service.comes()) == "accepted"
        service.step()
        service.servers.clock.now += DEADLINE + 1
        service.step()
        service.step()
        assert number in service.live.open
        assert "fewer than 3 reports" in service.live.stalled
        for _ in range(2):
            service.reports(service.comes())
        service.settled(3)
        released = {record["batch"]: record for record in service.records("released")}
        assert USERS <= released[number]["users"] < 5 * USERS
        assert service.live.stalled == ""
        assert everything_counts_once(service).keys() == service.accepted.keys()
        service.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_crashes_between_any_two_writes_change_nothing(tmp_path, monkeypatch, kind):
    """Either server dies before or after each of its transactions, in the life of a batch; the wire loses answers.

    What was accepted counts once. A batch's total is the same however often it is asked for.
    """
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path, kind)
        for server in ("front", "analyzer"):
            for transaction in range(1, 9):
                for committed in (False, True):
                    if len(service.people) + USERS > 50:
                        break
                    people = [person for person in (service.comes() for _ in range(USERS)) if person]
                    service.servers.alive[server].die_at(transaction, committed)
                    for person in people:
                        if service.reports(person) is None:
                            service.reports(person)
                    for _ in range(4):
                        service.step()
        service.settled()
        seen = everything_counts_once(service)
        left = service.accepted.keys() - seen.keys()
        assert len(left) < 2 * USERS, "only a batch that is open has reports that are not in a total"
        assert len(seen) > 20
        service.close()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_lost_or_killed_every_report_counts_once(tmp_path, monkeypatch, seed):
    with one_bit_a_user(monkeypatch):
        chance = random.Random(seed)
        service = opened(tmp_path)
        while len(service.people) < 50:
            what = chance.random()
            if what < 0.5:
                person = service.comes()
                if person is not None and chance.random() < 0.8:
                    service.reports(person)
            elif what < 0.6 and service.people:
                service.reports(chance.choice(service.people))
            elif what < 0.7:
                service.servers.alive[chance.choice(("front", "analyzer"))].die_at(
                    chance.randint(1, 3), chance.random() < 0.5
                )
            elif what < 0.75:
                service.servers.kill(chance.choice(("front", "analyzer")))
            elif what < 0.8:
                service.servers.wire.fates = [ARRIVES] * chance.randint(0, 5) + [
                    chance.choice((REQUEST_LOST, ANSWER_LOST))
                ]
            elif what < 0.85:
                service.servers.clock.now += chance.choice((1, 10, DEADLINE))
            else:
                service.step()
        service.servers.wire.fates = []
        service.settled(20)
        seen = everything_counts_once(service)
        assert len(service.accepted.keys() - seen.keys()) < 2 * USERS
        service.close()


def test_one_report_a_minute_still_ends_an_experiment_and_nearly_all_are_used(tmp_path):
    """Batches would want hundreds: their deadlines close them with what came, and nothing is thrown away."""
    plan = PLAN | {
        "program": {"policy": "dp-klucb", "horizon": 400, "growth": 2.0},
        "privacy": {"epsilon": 4.0},
        "batches": {"smallest": 8, "deadline": 900},
    }
    service = opened(tmp_path, experiment=plan)
    for minute in range(900):
        person = service.comes(value=float(minute % 2))
        if person is not None and minute % 4:  # every fourth stays silent
            service.reports(person)
        service.servers.clock.now += 60
        if minute % 3 == 0:
            service.step()
            service.step()
        if service.live.program.finished:
            break
    assert service.live.program.finished
    used = sum(record["users"] for record in service.records("released"))
    assert used >= 0.99 * len(service.accepted)
    assert {record["users"] for record in service.records("released")} - {8, 16, 32, 64, 128, 256}, (
        "some were cut short"
    )
    service.close()
