"""Models beside each other, and from how many users on personalisation is shown to gain."""

import math

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.personal import Context, Feature
from croupier.simulation.linear_compare import ENTRIES, compare, users_to_gain
from croupier.simulation.linear_runner import simulate_linear
from croupier.simulation.linear_worlds import Sphere, Table, class_table

BUDGET = {"epsilon": 2.0, "delta": 1e-6, "trust": "two-servers"}


@pytest.mark.slow
def test_every_model_has_a_row_and_says_whether_it_is_proven():
    told = []
    found = compare(
        lambda seed: Sphere(3, 4, seed),
        700,
        entries=list(ENTRIES.values()),
        runs=2,
        seed=1,
        progress=told.append,
        **BUDGET,
    )
    rows = {one.entry.label: one.row() for one in found}
    assert list(rows) == list(ENTRIES)
    assert math.isclose(sum(told), 1.0)
    for label, row in rows.items():
        assert row["proven"] == (not label.endswith("-tuned"))
        assert 0.0 <= row["regret_mean"] <= row["regret_max"] <= 700
        assert 0.0 < row["reward_mean"] < 1.0
        assert row["held"] is not None
        assert "gain" not in row
    assert rows["no-privacy"]["regret_mean"] == min(row["regret_mean"] for row in rows.values())
    assert rows["local"]["before_learning"]
    assert not rows["no-privacy"]["before_learning"]


def test_all_models_meet_the_same_worlds():
    seen = []

    def world(seed):
        seen.append(seed)
        return Sphere(3, 4, seed)

    compare(world, 400, entries=[ENTRIES["no-privacy"], ENTRIES["growing"]], runs=3, seed=7, **BUDGET)
    assert seen == [7, 8, 9, 7, 8, 9]


@pytest.mark.slow
def test_a_gain_is_shown_at_the_size_that_is_planned_with_fresh_seeds():
    world = class_table("wine")
    need = users_to_gain(world, control=0.1, runs=8, seed=1, **BUDGET)
    assert 2_000 <= need.users <= 16_000
    assert need.shown >= 0.9
    assert [users for users, _ in need.tried] == [2_000 * 2**step for step in range(len(need.tried))]
    fresh = [
        simulate_linear("growing", world, int(need.users), seed=500 + run, control=0.1, exploration=0.15, **BUDGET).gain
        for run in range(10)
    ]
    # Nine in ten were asked for; of ten fresh ones fewer than six would be a chance of 1.6e-3 at most.
    assert sum(gain.lower > 0.0 for gain in fresh) >= 6
    assert all(gain.upper > 0.0 for gain in fresh)


@pytest.mark.slow
def test_where_nothing_is_to_be_gained_no_number_of_users_shows_a_gain():
    rows = np.linspace(0.0, 1.0, 50)
    world = Table(
        Context((Feature("a"),)), rows[:, None], np.column_stack((0.3 + 0 * rows, 0.8 - 0.1 * rows)), ["x", "y"]
    )
    assert math.isclose(world.linear_mean, world.single_mean)
    need = users_to_gain(world, control=0.1, runs=6, seed=1, most=8_000, **BUDGET)
    assert need.users == math.inf
    assert math.isnan(need.gain)
    assert len(need.tried) == 3


def test_a_plan_needs_a_control_share():
    with pytest.raises(InvalidParameter, match="^control = 0.0 "):
        users_to_gain(class_table("iris"), control=0.0, **BUDGET)
