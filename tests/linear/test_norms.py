"""How long a parameter can be: no mean in [0, 1] needs a longer one, and some need it as long."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from croupier.checks import CroupierError, InvalidParameter
from croupier.linear import TUNED, box_norm, described_norm, growing_bandit, usual_norm
from croupier.personal import Context, Feature, Personal
from croupier.service.experiment import plan
from croupier.simulation.linear_runner import simulate_linear
from croupier.simulation.linear_worlds import Table

RNG = np.random.default_rng(1)


def box(features):
    return Context(tuple(Feature(f"f{i}", -1, 1) for i in range(features)))


def corners(features):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=features))).reshape(2**features, features)


@pytest.mark.parametrize("features", [0, 1, 2, 3, 6])
def test_no_mean_in_range_has_a_longer_parameter_and_one_is_as_long(features):
    x = box(features).rows(corners(features))
    drawn = RNG.normal(size=(2_000, features + 1)) * RNG.choice([0.0, 0.1, 1.0, 10.0], size=(2_000, features + 1))
    drawn = np.vstack((drawn[np.abs(drawn).sum(axis=1) > 0.0], np.eye(features + 1)))
    scaled = drawn * (0.5 / np.abs(drawn @ x.T).max(axis=1))[:, None]
    lengths = np.linalg.norm(scaled, axis=1)
    assert lengths.max() <= box_norm(features) * (1.0 + 1e-12)
    assert lengths.max() >= box_norm(features) * (1.0 - 1e-12), "the mean (1 + c)/2 is as far as it goes"


DESCRIBED = {
    "unit ones": np.eye(3),
    "one number": np.array([[1.0], [-0.5], [0.2]]),
    "more numbers than actions": np.array([[1.0, 0.5, -1.0], [0.3, -0.2, 1.0]]),
    "more actions than numbers": RNG.uniform(-1, 1, (6, 2)),
    "the same twice": np.array([[1.0, 0.4], [1.0, 0.4], [-0.3, 1.0]]),
    "nothing": np.zeros((2, 2)),
}


@pytest.mark.parametrize("features", [0, 1, 2])
@pytest.mark.parametrize("name", DESCRIBED)
def test_a_parameter_that_actions_share_is_no_longer_than_is_said(name, features):
    table = DESCRIBED[name]
    personal = Personal(tuple(f"a{i}" for i in range(len(table))), box(features), tuple(map(tuple, table.tolist())))
    x = personal.combined(box(features).rows(corners(features))).reshape(-1, personal.dimension)
    # Of all with the same means the shortest lies in the span of what users can have.
    _, values, directions = np.linalg.svd(x, full_matrices=False)
    span = directions[values > 1e-9 * values[0]]
    drawn = RNG.normal(size=(3_000, len(span))) @ span
    drawn = np.vstack((drawn, np.eye(personal.dimension) @ span.T @ span))
    reach = np.abs(drawn @ x.T).max(axis=1)
    lengths = np.linalg.norm(drawn[reach > 1e-9], axis=1) * 0.5 / reach[reach > 1e-9]
    assert lengths.max() <= described_norm(features, table)


def test_for_unit_descriptions_it_is_the_least_bound():
    """All means are (1 + c₁)/2 then, whatever the action."""
    for actions, features in ((2, 1), (3, 2)):
        personal = Personal(("a", "b", "c")[:actions], box(features), tuple(map(tuple, np.eye(actions).tolist())))
        theta = np.zeros((features + 1, actions))
        theta[0] = math.sqrt(features * actions)
        x = personal.combined(box(features).rows(corners(features)))
        means = x @ np.append(theta.ravel(), 0.0)
        assert means == pytest.approx(np.repeat(corners(features)[:, :1] / 2.0, actions, axis=1))
        assert np.linalg.norm(theta) == pytest.approx(described_norm(features, np.eye(actions)))


def test_descriptions_that_are_nearly_dependent_are_refused():
    with pytest.raises(InvalidParameter, match="^described = 'numbers that are nearly dependent' "):
        described_norm(1, [[1.0, 0.0], [1.0, 1e-9]])


def test_a_plan_takes_what_follows_and_one_where_nothing_does():
    assert usual_norm(11, places=2) == box_norm(10) == math.sqrt(5.0)
    assert usual_norm(11, places=1) == usual_norm(11, places=2, centred=False) == 1.0
    usual = growing_bandit(4_000, 5, places=2, epsilon=1.0)
    assert usual.sets.norm == math.sqrt(2.0)
    assert growing_bandit(4_000, 5, places=2, epsilon=1.0, norm=0.5).sets.norm == 0.5


FILE = {
    "name": "tips",
    "arms": ["video", "mail"],
    "program": {"kind": "linear", "users": 4000, "features": {f"f{i}": [0, 1] for i in range(8)}},
}


def test_it_is_signed_with_the_experiment_and_read_from_there():
    assert plan(FILE).parameters["norm"] == 2.0
    assert plan(FILE).program().plan.sets.norm == 2.0
    given = FILE | {"program": FILE["program"] | {"norm": 0.7}}
    assert plan(given).parameters["norm"] == plan(given).program().plan.sets.norm == 0.7
    shared = FILE["program"] | {"features": {"age": [0, 1]}, "described": {"video": [1, 0], "mail": [0, 1]}}
    assert plan(FILE | {"program": shared}).parameters["norm"] == described_norm(1, np.eye(2))
    near = shared | {"described": {"video": [1, 0], "mail": [1, 1e-9]}}
    with pytest.raises(CroupierError, match="nearly dependent"):
        plan(FILE | {"program": near})
    assert plan(FILE | {"program": near | {"norm": 3.0}}).parameters["norm"] == 3.0


@pytest.mark.parametrize("norm", [0.0, -1.0, math.inf, math.nan, "1", 1e7])
def test_a_norm_that_is_none_is_refused_by_name(norm):
    with pytest.raises(CroupierError, match="program.norm"):
        plan(FILE | {"program": FILE["program"] | {"norm": norm}})


def strong(features, slope, rows=4_000):
    """Users anywhere in the box; the first feature alone moves the mean of either action, one up, one down."""
    values = np.random.default_rng(0).uniform(-1.0, 1.0, (rows, features))
    world = Table(box(features), values, 0.5 + np.outer(values[:, 0], (slope / 2.0, -slope / 2.0)), ["a", "b"])
    theta = np.zeros((2, features + 1))
    theta[:, 0], theta[:, -1] = np.array([1.0, -1.0]) * slope * math.sqrt(features / 2.0), math.sqrt(0.5)
    world.theta = theta.ravel()
    return world


def held(runs, users, **options):
    """In how many runs the sets held both parameters at all times, each with a chance of 95 % at least."""
    world = strong(10, 0.9)
    budget = {"trust": "two-servers", "failure": 0.05} | options
    return sum(bool(simulate_linear("growing", world, users, seed=run, **budget).held) for run in range(runs))


def test_sets_hold_strong_effects_of_one_of_many_features():
    assert held(4, 20_000) == 4, "each misses with 5 % at most; that none of these does was checked"


def test_a_norm_that_is_too_small_would_be_noticed():
    assert held(4, 20_000, norm=1.0) == 0


@pytest.mark.evidence
def test_sets_hold_strong_effects_as_often_as_they_say(record_property):
    runs = 200
    found = held(runs, 20_000)
    record_property("runs whose sets held the parameters at all times", f"{found} of {runs}")
    record_property("the same with norm 1", f"{held(20, 20_000, norm=1.0)} of 20")
    # Fewer than a binomial of (200, 0.95) has with probability 1e-9 would be broken sets.
    assert found >= binom.ppf(1e-9, runs, 0.95)


def regret(world, exploration, **options):
    """Of twenty runs of 100,000 users, on average."""
    budget = {"trust": "two-servers", "exploration": exploration} | options
    runs = [simulate_linear("growing", world, 100_000, seed=run, **budget) for run in range(20)]
    return float(np.mean([run.regret[-1] for run in runs]))


@pytest.mark.evidence
@pytest.mark.parametrize("features", [1, 3, 5, 10])
def test_what_it_costs_that_nothing_more_is_assumed(features, record_property):
    """Where norm 1 is right too: one feature moves the mean by 0.9, or by 0.9·√(2/m) where there are more than two."""
    world = strong(features, 0.9 if features == 1 else 0.891 * math.sqrt(2.0 / features))
    for name, exploration in (("proven", 1.0), ("tuned", TUNED)):
        ours, told = regret(world, exploration), regret(world, exploration, norm=1.0)
        record_property(f"regret {name}, as the range says", round(ours))
        record_property(f"regret {name}, with norm 1", round(told))
        assert ours < 1.6 * told
