"""Blocks where every batch must be full: they close together when all are, or are given up together."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select

from cases.service.blocks import LEAST, PLAN, check_together
from cases.service.shares import DEADLINE, opened
from croupier.service.experiment_log import Asked
from croupier.service.store.schema import BATCHES, PENDING, POOLS

ISSUER = Ed25519PrivateKey.generate()
TRUSTS = {
    "shuffler": {"reward": {"protocol": "shuffled-bits"}, "privacy": {"epsilon": 8.0, "honest_fraction": 1.0}},
    "devices": {"privacy": {"trust": "devices", "epsilon": 8.0, "honest_fraction": 1.0}},
    "nobody": {"privacy": {"trust": "nobody", "epsilon": 8.0}},
}


@pytest.fixture(params=TRUSTS)
def plan(request):
    return PLAN | {"reward": {"binary": True}} | TRUSTS[request.param]


@pytest.fixture
def service(plan, tmp_path):
    found = opened(tmp_path, experiment=plan, validity="none", ahead=2.0, issuer=ISSUER)
    yield found
    found.close()


def sizes(service):
    """How many users every open batch wants."""
    return {turn.number: turn.batches[0][1].users for turn in service.live.program.wanted}


def test_a_block_closes_when_all_its_batches_are_full(service):
    wanted = sizes(service)
    assert len(wanted) == 2
    people = [service.comes(value=1.0) for _ in range(2 * sum(wanted.values()))]
    by_arm = {arm: [person for person in people if person is not None and person.arm == arm] for arm in (0, 1)}
    for person in by_arm[0][: wanted[0]]:
        assert service.reports(person) == "accepted"
    for _ in range(3):
        service.step()
        check_together(service)
    assert service.reports(by_arm[0][wanted[0]]) == "batch-closed", "a full batch takes no more"
    assert service.records("released") == [], "one that is full waits for the others"
    for person in by_arm[1][: wanted[1]]:
        assert service.reports(person) == "accepted"
    for _ in range(4):
        service.step()
        check_together(service)
    released = service.records("released")
    assert [record["batch"] for record in released] == [0, 1]
    assert {record["users"] for record in released} == set(wanted.values())
    assert all(record["turns"] >= record["users"] and record["over"] for record in released)
    assert sizes(service), "the next block is open"


def filled(service, by_arm, wanted):
    """Exactly as many report as the batches want; who is left has not reported."""
    for arm, users in wanted.items():
        for _ in range(users):
            assert service.reports(by_arm[arm].pop()) == "accepted"
    for _ in range(4):
        service.step()


def come_to_next_block(service, count):
    people = [person for person in (service.comes(value=1.0) for _ in range(count)) if person is not None]
    return {arm: [person for person in people if person.arm == arm] for arm in (0, 1)}


@pytest.mark.slow
def test_turns_that_are_out_are_not_silent_and_are_told_when_they_are_over(tmp_path):
    """Of a block's turns, those that bring a report too late were not silent, however late that is known."""
    plan = PLAN | {"reward": {"binary": True}} | TRUSTS["devices"]
    service = opened(tmp_path, experiment=plan, validity="none", ahead=2.0, issuer=ISSUER)
    check = service.live.program.policy.silence
    wanted = dict(enumerate(sizes(service).values()))
    out = come_to_next_block(service, 40)
    filled(service, out, wanted)
    assert out[0], "turns of the first block are out"
    assert [record["silent"] for record in service.records("released")] == [[], []], "they may still be reported"
    assert all(record["turns"] == record["users"] for record in service.records("released"))
    # Two of the second arm report too late; said twice it counts once.
    for person in out[1][:2] * 2:
        assert service.reports(person) == "batch-closed"
    service.servers.clock.now += plan["reports"]["report_at"][1] + 600
    for _ in range(3):
        service.step()
    following = come_to_next_block(service, 40)
    filled(service, following, dict(enumerate(sizes(service).values())))
    first, second = service.records("released")[-2:]
    assert second["silent"] == [], "one batch tells of all"
    told = dict(map(tuple, first["silent"]))
    assert set(told) == {0, 1}
    assert told[0] <= len(out[0])
    assert told[1] <= len(out[1]) - 2
    assert float(abs(check.won).max()) > 0.0, "the check has heard of it"
    service.close()


def test_an_arm_whose_batch_is_ahead_waits_for_the_others(tmp_path):
    """Else its batch is full at some earlier time, and what changed since would look like a difference."""
    plan = PLAN | {"reward": {"binary": True}, "batches": {"smallest": 12}} | TRUSTS["devices"]
    service = opened(tmp_path, experiment=plan, validity="none", ahead=2.0, issuer=ISSUER)
    people = [service.comes(value=1.0) for _ in range(12)]
    quick = [person for person in people if person.arm == 0]
    for person in quick[:3]:
        service.reports(person)
    assert {service.comes(value=1.0).arm for _ in range(6)} == {0, 1}, "turns of the other one are out"
    # Of those that are overdue by now nothing is expected any more.
    service.servers.clock.now += plan["reports"]["report_at"][1] + 600
    late = [service.comes(value=1.0) for _ in range(3)]
    assert {person.arm for person in late[:2]} == {1}, "three reports ahead: it waits"
    for person in late[:2]:
        service.reports(person)
    assert {service.comes(value=1.0).arm for _ in range(8)} == {0, 1}, "the other one has caught up"
    service.close()


def test_a_block_that_does_not_fill_in_time_is_given_up_as_a_whole(service):
    wanted = sizes(service)
    people = [service.comes(value=1.0) for _ in range(2 * sum(wanted.values()))]
    for person in [person for person in people if person is not None and person.arm == 0][: wanted[0]]:
        assert service.reports(person) == "accepted"
    service.step()
    service.servers.clock.now += DEADLINE + 1
    for _ in range(2):
        service.step()
        check_together(service)
    assert service.records("released") == []
    assert [record["batch"] for record in service.records("expired")] == [0, 1]
    assert min(sizes(service)) == 2, "another block is open"
    with service.servers.front.front.store.database.read() as connection:
        for table in (POOLS, PENDING):
            assert connection.execute(select(table)).first() is None, "nothing of it is kept"
        states = {row.number: row.state for row in connection.execute(select(BATCHES.c.number, BATCHES.c.state))}
    assert (states[0], states[1]) == ("expired", "expired")


def test_an_arm_that_is_to_leave_goes_from_its_block_and_the_others_go_on(tmp_path):
    plan = PLAN | {"arms": ["red", "green", "blue"], "reward": {"binary": True}} | TRUSTS["devices"]
    service = opened(tmp_path, experiment=plan, validity="none", ahead=2.0, issuer=ISSUER)
    wanted = sizes(service)
    service.servers.run(service.live.operate(Asked("pause", 2)))
    for _ in range(3):
        service.step()
    people = [service.comes(value=1.0) for _ in range(4 * LEAST)]
    assert {person.arm for person in people if person} == {0, 1}
    for person in people:
        if person:
            service.reports(person)
    for _ in range(4):
        service.step()
    assert [record["batch"] for record in service.records("released")] == [0, 1]
    assert [record["batch"] for record in service.records("expired")] == [2]
    assert len(sizes(service)) == 2
    assert wanted.keys() == {0, 1, 2}
    service.close()
