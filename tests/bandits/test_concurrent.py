"""Policies in blocks: batches that open and close together, whole or not at all."""

import numpy as np
import pytest

from croupier.bandits import Terms, policy
from croupier.checks import InvalidParameter


def split(**options):
    settings = {"arms": 3, "horizon": 10_000, "epsilon": 1.0, "binary": True, "trust": "two-servers", "smallest": 32}
    settings |= options
    return policy("split", **settings)


def test_a_block_has_a_batch_for_every_arm_in_the_sizes_of_its_odds():
    chosen = split(decision={"shares": [2, 1, 1]})
    assert chosen.in_blocks
    assert chosen.odds().tolist() == [[0.5, 0.25, 0.25]]
    assert chosen.block_users().tolist() == [128]
    assert chosen.wanted().tolist() == [[64, 32, 32]]


def test_a_block_counts_what_was_reported_not_what_was_wanted():
    chosen = split()
    chosen.observe(np.array([[20.0, 30.0, 25.0]]), np.array([[40, 50, 45]]), np.ones((1, 3), dtype=bool))
    assert chosen.counts.tolist() == [[40, 50, 45]]
    assert chosen.blocks.tolist() == [1]
    assert chosen.block_users().tolist() == [3 * 34]


def test_the_horizon_cuts_the_last_block_for_all_arms_alike():
    chosen = split(horizon=150)
    wanted = chosen.wanted()
    chosen.observe(np.full((1, 3), 16.0), *chosen.assign(wanted))
    assigned, released = chosen.assign(chosen.wanted())
    assert assigned.sum() == 54
    assert not released.any(), "18 reports an arm are fewer than a batch needs"


def test_where_sums_may_have_wrapped_around_no_interval_and_no_lift_is_known():
    metrics = {"finished": {"role": "primary"}, "waited": {"role": "guardrail", "margin": 0.1}}
    chosen = split(arms=2, metrics=metrics, binary=False)
    told = np.array([[400, 400]])
    for _ in range(9):
        chosen.observe(np.array([[150.0, 250.0]]), told, np.ones((1, 2), dtype=bool), beside=np.full((1, 2, 1), 200.0))
    before = chosen.decision()
    assert before.lift is not None
    assert 0 < before.lower < before.difference < before.upper < 1
    assert all(-1 < row["lower"] < row["upper"] < 1 for row in chosen.metric_rows())
    for comparison in (chosen.comparison, *chosen.watched.comparisons):
        comparison.wrapped += 2 * chosen.levels.reserve
    after = chosen.decision()
    assert (after.lower, after.upper, after.lift) == (-1.0, 1.0, None)
    assert [(row["lower"], row["upper"]) for row in chosen.metric_rows()] == [(-1.0, 1.0)] * 2
    assert [bound.tolist() for bound in chosen.intervals()] == [[[0.0, 0.0]], [[1.0, 1.0]]]


def test_arms_come_and_go_between_blocks():
    chosen = split()
    chosen.pause(1)
    assert chosen.odds().tolist() == [[0.5, 0.0, 0.5]]
    chosen.resume(1)
    chosen.retire(2)
    assert chosen.add_arm() == 3
    assert chosen.odds()[0] == pytest.approx([1 / 3, 1 / 3, 0.0, 1 / 3])


@pytest.mark.parametrize(
    ("terms", "named"),
    [
        ({"control": 3}, "control"),
        ({"confidence": 1.0}, "confidence"),
        ({"smallest_effect": 0.0}, "smallest_effect"),
        ({"then": "go"}, "then"),
        ({"shares": [1, 2]}, "shares"),
        ({"controll": 1}, "controll"),
    ],
)
def test_terms_outside_their_range_are_refused(terms, named):
    with pytest.raises(InvalidParameter, match=named):
        split(decision=terms)


def test_terms_are_the_same_from_a_configuration_and_from_code():
    plain = {"smallest_effect": 0.05, "then": "exploit", "shares": [1.0, 1.0, 2.0]}
    assert split(decision=plain).terms == Terms(smallest_effect=0.05, then="exploit", shares=(1.0, 1.0, 2.0))


@pytest.mark.parametrize("arms", [2, 3, 7, 10])
def test_a_block_that_the_horizon_leaves_whole_is_always_released(arms):
    rng = np.random.default_rng(arms)
    chosen = policy("dp-top-two", arms=arms, horizon=10**8, epsilon=1.0, binary=True, trust="two-servers", runs=50)
    for _ in range(15):
        wanted = chosen.wanted()
        assigned, released = chosen.assign(wanted)
        assert np.array_equal(released, wanted > 0)
        assert np.array_equal(assigned.sum(axis=1), chosen.block_users())
        chosen.observe(rng.binomial(assigned, np.linspace(0.4, 0.6, arms)).astype(float), assigned, released)
        if chosen.finished.all():
            break
