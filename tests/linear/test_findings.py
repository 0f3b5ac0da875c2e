"""What a linear experiment has learnt: coefficients and gains whose intervals hold, and who chooses what.

Statistical tests are seeded; each says what chance allows.
"""

import math

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.linear import LinearServer, growing_bandit
from croupier.linear.findings import telling
from croupier.noise import seeded
from croupier.personal import Belief, Context, Feature
from croupier.simulation.linear_players import Growing, Needs
from croupier.simulation.linear_worlds import Table

CONTEXT = Context((Feature("age", 20, 60),))


def linear_table(slopes, levels, rows=400):
    """Users of any age; action a earns level + slope·(age - 40)/20."""
    ages = np.linspace(20, 60, rows)
    means = np.asarray(levels) + np.outer((ages - 40) / 20, slopes)
    return Table(CONTEXT, ages[:, None], means, [f"action {place}" for place in range(len(slopes))])


WORLD = linear_table((0.3, -0.3, 0.0), (0.5, 0.5, 0.55))


def server_after(world, users, seed, control=0.1, **options):
    """A server that has seen all its users, through the simulation."""
    needs = Needs(world, users, 2.0, 1e-6, "tight", 0.05, 0.3, None, 32, "devices", control, options)
    source = seeded(seed)
    player = Growing(needs, needs.growing_plan("devices"), source)
    while player.room:
        count = min(player.room, 8192)
        offers, rule = world.offer(count, source.generator), player.rule
        actions, chosen = rule.play(offers.features, source)
        means = offers.means[np.arange(count), actions]
        rewards = (source.generator.random(count) < means).astype(float)
        player.take(offers.features, rewards, actions, chosen)
    return player.server


@pytest.fixture(scope="module")
def learnt():
    return server_after(WORLD, 80_000, 1).findings


def test_coefficients_are_in_the_features_own_units_with_bounds_that_hold(learnt):
    rows = learnt.coefficients(0.05, CONTEXT)
    assert [(row["action"], row["coefficient"]) for row in rows] == [
        (a, c) for a in range(3) for c in ("age", "(level)")
    ]
    truth = [0.3 / 20, 0.5, -0.3 / 20, 0.5, 0.0, 0.55]
    for row, value in zip(rows, truth, strict=True):
        assert row["lower"] <= value <= row["upper"]
        assert row["lower"] <= row["value"] <= row["upper"]
    # The two actions that are played know their slopes by then; a failure of 5 % is for all numbers at all times.
    assert rows[0]["lower"] > 0.0 > rows[2]["upper"]
    wider = learnt.coefficients(1e-9, CONTEXT)
    assert all(w["upper"] - w["lower"] > row["upper"] - row["lower"] for w, row in zip(wider, rows, strict=True))
    raw = learnt.coefficients(0.05)
    assert math.isclose(raw[0]["value"] / math.sqrt(2.0) / 20.0, rows[0]["value"], rel_tol=1e-9)


def test_who_chooses_what_is_told_in_shares_and_mean_features(learnt):
    rows = learnt.choices(CONTEXT)
    assert math.isclose(sum(row["share"] for row in rows), 1.0)
    assert rows[0]["mean_age"] > 45 > 35 > rows[1]["mean_age"], "the old like the first action, the young the second"
    for row in rows:
        assert row["lower"] <= row["share"] <= row["upper"]


@pytest.mark.parametrize("shares", [(1 / 3, 1 / 3, 1 / 3), (0.98, 0.01, 0.01)])
def test_shares_add_up_however_large_the_noise_is_and_are_nearer_to_the_truth_for_it(shares):
    """Users whose actions are known, in 200 runs under much noise."""
    users, source = 1_000, seeded(7)
    plan = growing_bandit(users, 2, epsilon=0.5, places=3, control=0.1, trust="devices", first=users)
    actions = np.repeat(np.arange(3), [round(users * share) for share in shares[:2]] + [users])[:users]
    features = np.tile([0.0, math.sqrt(0.5)], (users, 1))
    vectors = plan.moments.of(features, np.ones(users), actions)
    off, raw, held = 0.0, 0.0, 0
    for _ in range(200):
        server = LinearServer(plan)
        server.arrive(users)
        server.release(0, server.due[0].mechanism.simulate(vectors, source).decoded)
        rows = server.findings.choices()
        found = np.array([row["share"] for row in rows])
        assert math.isclose(found.sum(), 1.0)
        assert all(0.0 <= row["lower"] <= row["share"] <= row["upper"] <= 1.0 for row in rows)
        alone = 2.0 * plan.moments.moments(server.findings.total)[1][:, -1, -1] / users
        off, raw = off + ((found - shares) ** 2).sum(), raw + ((alone - shares) ** 2).sum()
        held += sum(row["lower"] <= share <= row["upper"] for row, share in zip(rows, shares, strict=True))
    assert off < raw * (2 / 3 + 0.1), "least squares take a third off the variance; being no less than 0 takes more"
    # If the three intervals of a run always failed together: more than 35 of 200 runs with 3e-11.
    assert held >= 600 - 3 * 35


def test_a_control_share_measures_the_gain_and_its_action_is_the_best_single_one(learnt):
    gain = learnt.gain()
    assert gain.measured
    assert gain.action == 2
    # The best rule earns ½ + E max(0.3|t|, 0.05) = 0.6542 of a uniform t, and the single action 0.55.
    assert gain.lower < 0.1042 < gain.upper
    assert math.isclose(gain.gain, gain.personal - gain.single)
    assert abs(gain.single - 0.55) < 0.05
    assert gain.lower > 0.0
    assert gain.users == 80_000 - learnt.batches[0].users
    assert "measured" in str(gain)


def test_without_a_control_share_the_gain_is_the_model_s_word():
    findings = server_after(WORLD, 30_000, 2, control=0.0).findings
    gain = findings.gain()
    assert not gain.measured
    assert "as the model says" in str(gain)
    assert gain.lower < 0.1 < gain.upper


def test_where_one_action_is_best_for_everybody_no_gain_is_shown():
    flat = linear_table((0.0, 0.0), (0.7, 0.4))
    gains = [server_after(flat, 10_000, seed).findings.gain() for seed in range(5)]
    # Each interval lies above the gain with 2.5 % at most: three of five with 1.5e-4.
    assert sum(gain.lower > 0.0 for gain in gains) <= 2
    assert all(gain.action == 0 for gain in gains)


def test_one_batch_tells_no_gain():
    server = LinearServer(growing_bandit(3_000, 2, epsilon=2.0, places=3, control=0.1, trust="devices"))
    with pytest.raises(InvalidParameter, match="^batches = 0 "):
        server.findings.gain()


def test_without_a_constant_nobody_is_counted():
    plan = growing_bandit(3_000, 2, epsilon=2.0, centred=False, trust="devices", first=300)
    server = LinearServer(plan)
    server.arrive(300)
    mechanism = server.due[0].mechanism
    server.release(0, mechanism.simulate(plan.moments.of(np.zeros((300, 2)), np.ones(300)), seeded(1)).decoded)
    with pytest.raises(InvalidParameter, match="^centred = False "):
        server.findings.choices()


def test_earlier_sets_are_published_only_where_they_say_much_more():
    axes = ((1.0, 0.0), (0.0, 1.0))
    early = Belief((0.0, 0.0), axes, (50.0, 50.0), 1.0, 10.0)
    late = Belief((0.0, 0.0), axes, (50.0, 5_000.0), 1.0, 40.0)
    same = Belief((0.0, 0.0), axes, (60.0, 4_000.0), 1.0, 12.0)
    assert telling([early, late]) == (late, early), "where nobody plays, noise adds up"
    assert telling([late, same]) == (same,)
    assert telling([late]) == (late,)
