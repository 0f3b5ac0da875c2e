"""Programs: the very decisions that their rooms make, told the same."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from croupier.bandits import policy
from croupier.checks import CroupierError, InvalidParameter
from croupier.continual import Counter, counter
from croupier.noise import seeded
from croupier.programs import program
from croupier.programs.counter import POINTS
from croupier.programs.thinned import Thinned

BANDIT = {
    "name": "dp-klucb",
    "arms": 3,
    "horizon": 3000,
    "epsilon": 1.0,
    "binary": True,
    "protocol_name": "shuffled-laplace",
}


def test_a_bandit_makes_the_decisions_of_its_policy():
    """One arm at a time, as the policy asks; users of a batch that expired have not played."""
    rng = np.random.default_rng(1)
    running, chosen = program({"kind": "bandit"} | BANDIT), policy(**BANDIT)
    steps = reports = 0
    while not running.finished:
        (turn,) = running.wanted
        assigned, released = chosen.assign(chosen.wanted())
        assert released[0].nonzero()[0].tolist() == [turn.arm]
        mechanism = chosen.ladder.mechanism(int(assigned[0, turn.arm]))
        assert turn.batches == ((turn.number, mechanism),)
        steps += 1
        if steps % 7 == 0:
            running.expired(turn.number)
            continue
        decoded = int(rng.binomial(mechanism.users, 0.3 + 0.2 * turn.arm))
        running.released(turn.number, decoded)
        chosen.observe(np.where(released, mechanism.unit_sums(decoded), 0.0), assigned, released)
        reports += mechanism.users
        assert running.show()["users"] == sum(row["users"] for row in running.show()["arms"]) == reports
    assert running.show()["best_arm"] == int(chosen.best_arm[0])
    assert [row["mean"] for row in running.show()["arms"]] == chosen.means[0].tolist()


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


COUNTER = {"users": 300, "shufflers": 2, "epsilon": 1.0, "over": "shuffled-bits", "smallest": 32}


def test_a_counter_is_the_continual_rooms_counter():
    plan = counter(**COUNTER)
    reference, running = Counter(plan), program({"kind": "counter"} | COUNTER)
    source = seeded(3)
    turns = 0
    while not running.finished:
        (turn,) = running.wanted
        assert [number for number, _ in turn.batches] == [batch.number for batch in reference.open]
        reference.arrive(plan.tree.smallest)
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


def told(running, spoiled, seed):
    """Run a counter to its end: batches come back in any order, and those that are spoiled are refused.

    Returns what it wanted, turn by turn, and the counter of its room that was told the same.
    """
    rng, reference = np.random.default_rng(seed), Counter(running.plan)
    seen, wanted = 0, []
    while not running.finished:
        (turn,) = running.wanted
        wanted.append(turn)
        reference.arrive(running.plan.tree.smallest)
        full = {batch.number: batch for batch in reference.shufflers.full}
        for number in rng.permutation(sorted(full)).tolist():
            mechanism = full[number].mechanism
            if number in spoiled:
                running.expired(number)
                reference.leave_out(number)
            else:
                decoded = mechanism.simulate(np.ones(mechanism.users), seeded(1000 * seed + number)).decoded
                running.released(number, decoded)
                reference.release(number, decoded)
        seen += 1
        shown = running.show()
        assert shown["users"] == reference.users == 32 * seen
        assert (shown["estimate"], shown["left_out"]) == (reference.estimate, reference.left_out)
        assert shown["bound"] == reference.bound(0.05)
        assert shown["points"][-1] == [shown["users"], shown["estimate"], shown["bound"]]
    return wanted, reference


@pytest.mark.parametrize("seed", range(6))
def test_a_counter_goes_on_without_a_batch_that_is_refused(seed):
    """As many turns as without: every user still comes, and the truth is within what it says."""
    rng = np.random.default_rng(seed)
    running = program({"kind": "counter"} | COUNTER)
    spoiled = set(rng.choice(12, size=seed, replace=False).tolist())
    wanted, reference = told(running, spoiled, seed)
    assert [turn.number for turn in wanted] == list(range(300 // 32))
    shown = running.show()
    assert abs(shown["estimate"] - 288) <= shown["bound"]
    assert (shown["bound"] > running.plan.bound(0.05)) == bool(spoiled)
    assert running.wanted == []
    assert not reference.open
    # Told the same in another order within a turn, it wants the same and ends the same.
    again = program({"kind": "counter"} | COUNTER)
    rng = np.random.default_rng(seed + 100)
    for turn in wanted:
        assert again.wanted == [turn]
        due = [number for number, mechanism in turn.batches if (turn.number + 1) * 32 % mechanism.users == 0]
        for number in rng.permutation(due).tolist():
            if number in spoiled:
                again.expired(number)
            else:
                mechanism = dict(turn.batches)[number]
                decoded = mechanism.simulate(np.ones(mechanism.users), seeded(1000 * seed + number)).decoded
                again.released(number, decoded)
    assert again.finished
    assert again.show() == shown


def test_a_counter_sums_values_of_both_signs():
    """Alternating 4 and -3, in [-5, 5]: within the stated bound at every turn, and a batch left out counts as zeros."""
    parameters = COUNTER | {"over": "shuffled-laplace", "low": -5.0, "high": 5.0, "epsilon": 4.0}
    running, source = program({"kind": "counter"} | parameters), seeded(5)
    values = np.where(np.arange(300) % 2 == 0, 4.0, -3.0)
    begins = {}
    while not running.finished:
        (turn,) = running.wanted
        for number, mechanism in turn.batches:
            begins.setdefault(number, (turn.number * 32, mechanism))
        due = [turn.batches[0][0]]
        while due:
            begin, mechanism = begins[due[0]]
            decoded = mechanism.simulate(values[begin : begin + mechanism.users], source).decoded
            running.expired(due[0]) if turn.number == 3 else running.released(due[0], decoded)
            due = sorted(running.unwanted)
        shown = running.show()
        assert abs(shown["estimate"] - values[: shown["users"]].sum()) <= shown["bound"]
    assert running.show()["users"] == 288
    assert running.plan.middle == 0.0


def everybody(mechanism):
    """What a batch decodes to when everybody reports a one and the noise is its mean."""
    return round(mechanism.noise.mean + mechanism.users / mechanism.unit)


def test_a_counter_says_of_how_many_users_nothing_is_known():
    running = program({"kind": "counter"} | COUNTER)
    planned = running.show()["bound"]
    (low, _), (high, upper) = running.wanted[0].batches
    running.expired(low)
    shown = running.show()
    assert (shown["users"], shown["estimate"], shown["left_out"]) == (32, 16.0, 32)
    assert shown["bound"] == pytest.approx(planned + 16)
    for _ in range(upper.users // 32 - 2):
        ((number, mechanism), _) = running.wanted[0].batches
        running.released(number, everybody(mechanism))
    assert running.show()["left_out"] == 32
    running.released(high, everybody(upper))
    assert running.wanted == []
    running.expired(next(iter(running._due)))
    # The upper batch stands for all its users, also those whose lowest batch was left out.
    assert running.show()["left_out"] == 0
    assert running.show()["estimate"] == pytest.approx(upper.users, abs=1)


def test_a_counter_takes_full_batches_only_and_each_once():
    running = program({"kind": "counter"} | COUNTER)
    low, high = (number for number, _ in running.wanted[0].batches)
    before = running.show()
    for wrong in (high, 99):
        with pytest.raises(InvalidParameter, match="one that is full"):
            running.released(wrong, 3)
    with pytest.raises(InvalidParameter):
        running.expired(99)
    assert running.show() == before
    running.expired(low)
    for refuse in (running.expired, lambda number: running.released(number, 3)):
        with pytest.raises(InvalidParameter):
            refuse(low)
    assert not running.finished


def test_an_upper_batch_that_is_gone_early_is_left_out_when_its_users_have_come():
    """Later turns leave it out: no server takes anything for it any more."""
    running, whole = program({"kind": "counter"} | COUNTER), program({"kind": "counter"} | COUNTER)
    (_, (high, upper)) = running.wanted[0].batches
    running.expired(high)
    with pytest.raises(InvalidParameter):
        running.expired(high)
    with pytest.raises(InvalidParameter):
        running.released(high, 3)
    for _ in range(upper.users // 32):
        (turn,) = whole.wanted
        assert running.wanted == [replace(turn, batches=turn.batches[:1])]
        ((number, mechanism),) = running.wanted[0].batches
        running.released(number, everybody(mechanism))
        whole.released(number, everybody(mechanism))
    whole.expired(high)
    assert running.show() == whole.show()
    assert running.wanted == whole.wanted != []


def test_an_operators_stop_still_ends_a_counter():
    running = program({"kind": "counter"} | COUNTER)
    low, high = (number for number, _ in running.wanted[0].batches)
    running.expired(low)
    running.operate("stop", None)
    assert running.finished
    assert running.wanted == []
    for refuse in (running.expired, lambda number: running.released(number, 3)):
        with pytest.raises(InvalidParameter, match="stopped"):
            refuse(high)


def test_a_counters_points_stay_few_and_the_newest_is_always_there():
    running = program(
        {"kind": "counter", "users": 3000, "shufflers": 1, "epsilon": 1.0, "over": "laplace", "smallest": 2}
    )
    while not running.finished:
        turn = running.wanted[0]
        running.released(turn.number, 1)
        points = running.show()["points"]
        assert len(points) <= POINTS
        assert points[0][0] == 2
        assert points[-1][0] == 2 * (turn.number + 1)
    users = [point[0] for point in points]
    assert len(users) >= POINTS // 2
    assert {b - a for a, b in itertools.pairwise(users[:-1])} == {8}


@pytest.mark.parametrize("most", [2, 3, 4, 5, 10])
def test_a_thinned_list_is_evenly_spread(most):
    few = Thinned(most)
    for number in range(200):
        few.append(number)
        found = list(few)
        assert len(found) <= most
        assert (found[0], found[-1]) == (0, number)
        assert len({b - a for a, b in itertools.pairwise(found[:-1])}) <= 1
        assert len(found) > min(number, most - 1) / 2


def test_a_histogram_counts_in_rounds():
    universe = {"kind": "items", "names": ["a", "b"]}
    running = program(
        {"kind": "histogram", "users": 50, "rounds": 2, "universe": universe, "epsilon": 1.0, "delta": 1e-6}
    )
    mean = running.mechanism.oracle.noise.mean
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
