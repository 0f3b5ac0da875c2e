"""Reports in shares: each counts once, in a total of its own arm, when it comes late and when few come."""

import pytest

from cases.service.shares import BITS, DEADLINE, PLAN, USERS, one_bit_a_user, opened
from croupier.service.experiment_log import Asked
from croupier.validity import prio3_sum


def test_a_report_in_shares_counts_once_and_is_short(tmp_path, monkeypatch, validity):
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path, validity=validity)
        people = [service.comes() for _ in range(USERS)]
        # One number less what is sealed and wrapped: 8 bytes, or the bits of a number below 2^56 and their proof.
        share = 8 if validity == "none" else prio3_sum(2**BITS).sizes.leader
        assert all(len(person.body) == 246 + share for person in people)
        assert [service.reports(person) for person in people] == ["accepted"] * USERS
        assert service.reports(people[0]) == "repeated"
        service.settled(3)
        assert service.counted() == {0, 1, 2}
        service.close()


@pytest.mark.slow
def test_a_late_report_is_in_its_arms_next_batch(tmp_path, monkeypatch, validity):
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path, validity=validity)
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
        seen = service.counted()
        assert late.bit in seen
        assert len(service.accepted.keys() - seen) < USERS, "only an open batch has some that are not in a total"
        service.close()


@pytest.mark.slow
def test_a_batch_closes_at_its_deadline_with_what_came(tmp_path, monkeypatch, validity):
    """Larger than the smallest, smaller than was wanted; and with fewer than the smallest it waits, and says so."""
    with one_bit_a_user(monkeypatch):
        plan = {"program": {"policy": "dp-klucb", "horizon": 100_000, "growth": 5.0}}
        service = opened(tmp_path, experiment=PLAN | plan, validity=validity)
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
        assert service.counted() == service.accepted.keys()
        service.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "horizon"),
    [
        ("dp-klucb", 80),
        pytest.param("dp-klucb", 2000, marks=pytest.mark.evidence),
        pytest.param("vb-sdp-ae", 2000, marks=pytest.mark.evidence),
    ],
)
def test_one_report_a_minute_still_ends_an_experiment_and_nearly_all_are_used(
    tmp_path, record_property, policy, horizon
):
    """Batches would want hundreds: their deadlines close them with what came, and nothing is thrown away.

    Nor does the experiment end before its horizon because batches were short.
    """
    plan = PLAN | {
        "program": {"policy": policy, "horizon": horizon, "growth": 2.0},
        "privacy": {"epsilon": 4.0},
        "batches": {"smallest": 8, "deadline": 900},
    }
    service = opened(tmp_path, experiment=plan)
    for minute in range(2 * horizon):
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
    sizes = [record["users"] for record in service.records("released")]
    used = sum(sizes)
    assert used >= 0.99 * len(service.accepted)
    assert used > horizon - 2 * max(sizes)
    assert set(sizes) - {8, 16, 32, 64, 128, 256}, "some were cut short"
    record_property("reports accepted", len(service.accepted))
    record_property("reports used", used)
    service.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("operation", ["pause", "retire"])
def test_what_has_come_of_an_arm_that_leaves_counts(tmp_path, monkeypatch, operation, kind):
    """Some are settled when it is asked for, and others still wait."""
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path, kind)
        people = [service.comes() for _ in range(USERS - 1)]
        for person in people[:-1]:
            assert service.reports(person) == "accepted"
        service.step()
        service.step()
        assert service.reports(people[-1]) == "accepted"
        service.servers.run(service.live.operate(Asked(operation, people[0].arm)))
        for _ in range(4):
            service.step()
        assert {person.bit for person in people} == service.counted()
        later = [service.comes() for _ in range(3)]
        assert people[0].arm not in {person.arm for person in later if person is not None}
        service.close()


def test_of_an_arm_that_leaves_before_anybody_has_reported_nothing_is_released(tmp_path):
    service = opened(tmp_path)
    service.servers.run(service.live.operate(Asked("pause", service.comes().arm)))
    for _ in range(4):
        service.step()
    assert service.records("released") == []
    assert len(service.records("expired")) == 1
    service.close()
