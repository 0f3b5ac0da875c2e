"""Programs behind the service: the very decisions that their rooms make, given the same events."""

import numpy as np
import pytest

from croupier.bandits import Expired, Released, Session
from croupier.checks import CroupierError, InvalidParameter
from croupier.continual import Counter, counter
from croupier.noise import seeded
from croupier.service.programs import program

BANDIT = {
    "name": "dp-klucb",
    "arms": 3,
    "horizon": 3000,
    "epsilon": 1.0,
    "binary": True,
    "protocol_name": "shuffled-laplace",
}


def test_a_bandit_makes_the_decisions_of_its_session():
    rng = np.random.default_rng(1)
    running, session = program({"kind": "bandit"} | BANDIT), Session(BANDIT)
    steps = reports = 0
    while not running.finished:
        (turn,) = running.wanted
        (opened,) = session.open_batches
        assert (turn.number, turn.arm) == (opened.batch, opened.arm)
        assert turn.batches[0][1] == session.policy.ladder.mechanism(opened.users)
        steps += 1
        if steps % 7 == 0:
            running.expired(turn.number)
            session.observe(Expired(opened.batch))
            continue
        decoded = int(rng.binomial(opened.users, 0.3 + 0.2 * opened.arm))
        running.released(turn.number, decoded)
        session.observe(Released(opened.batch, decoded))
        reports += opened.users
        assert running.show()["users"] == sum(row["users"] for row in running.show()["arms"]) == reports
    assert session.finished
    assert running.show()["best_arm"] == int(session.policy.best_arm[0])
    assert [row["mean"] for row in running.show()["arms"]] == session.policy.means[0].tolist()


def test_all_arms_of_a_phase_are_open_at_once():
    running = program({"kind": "bandit"} | BANDIT | {"name": "vb-sdp-ae", "protocol_name": "shuffled-bits"})
    assert [turn.arm for turn in running.wanted] == [0, 1, 2]


def test_an_operator_pauses_retires_adds_and_stops():
    running = program({"kind": "bandit"} | BANDIT)
    for _ in range(3):
        running.released(running.wanted[0].number, 10)
    running.operate("retire", 0)
    running.operate("pause", 1)
    running.operate("add", None)
    running.released(running.wanted[0].number, 20)
    rows = running.show()["arms"]
    assert [row["active"] for row in rows] == [False, True, True, True]
    assert [row["paused"] for row in rows] == [False, True, False, False]
    assert running.wanted[0].arm == 3
    with pytest.raises(InvalidParameter):
        running.operate("pause", 9)
    with pytest.raises(InvalidParameter):
        running.operate("explode", None)
    running.operate("stop", None)
    assert running.finished
    assert running.wanted == []


COUNTER = {"users": 300, "shufflers": 2, "epsilon": 1.0, "over": "shuffled-bits", "low": 32}


def test_a_counter_is_the_continual_rooms_counter():
    plan = counter(**COUNTER)
    reference, running = Counter(plan), program({"kind": "counter"} | COUNTER)
    source = seeded(3)
    turns = 0
    while not running.finished:
        (turn,) = running.wanted
        assert [number for number, _ in turn.batches] == [batch.number for batch in reference.open]
        reference.arrive(plan.tree.low)
        full = {batch.number: batch.mechanism for batch in reference.shufflers.full}
        # Levels may come back in any order.
        for number in sorted(full, reverse=turns % 2 == 0):
            decoded = full[number].simulate(np.ones(full[number].users), source).decoded
            running.released(number, decoded)
            reference.release(number, decoded)
        turns += 1
        assert running.show()["estimate"] == reference.estimate
    assert turns == 300 // 32
    assert not reference.open


def test_a_counter_takes_full_batches_only_and_ends_with_one_that_is_refused():
    running = program({"kind": "counter"} | COUNTER)
    low, high = (number for number, _ in running.wanted[0].batches)
    with pytest.raises(InvalidParameter):
        running.released(high, 3)
    with pytest.raises(InvalidParameter):
        running.expired(99)
    running.expired(low)
    assert running.finished
    assert running.wanted == []


def test_a_histogram_counts_in_rounds():
    universe = {"kind": "items", "names": ["a", "b"]}
    running = program(
        {"kind": "histogram", "users": 50, "rounds": 2, "universe": universe, "epsilon": 1.0, "delta": 1e-6}
    )
    mean = running.mechanism.tally.noise.mean
    running.released(0, [40, 30])
    with pytest.raises(InvalidParameter):
        running.released(0, [40, 30])
    running.expired(1)
    assert running.wanted[0].number == 2
    running.released(2, [45, 20])
    assert running.finished
    assert [one["item"] for one in running.show()["top"]] == ["a", "b"]
    assert running.show()["top"][0]["count"] == pytest.approx(85 - 2 * mean)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"kind": "lottery"},
        {"kind": "bandit"},
        {"kind": "bandit", "name": "kl-ucb", "arms": 2, "horizon": 100},
        {"kind": "counter", "users": 100, "epsilon": 1.0, "nonsense": 3},
        {"kind": "histogram", "epsilon": 1.0, "universe": {"kind": "numbers", "size": 3}},
    ],
)
def test_a_program_that_makes_no_sense_is_refused_in_one_line(parameters):
    with pytest.raises(CroupierError) as refusal:
        program(parameters)
    assert "\n" not in str(refusal.value)
