"""Worlds of linear bandits: features in the unit ball, means in [0, 1], and a parameter that explains them, or none."""

import math

import numpy as np
import pytest
from sklearn import datasets

from croupier.checks import CroupierError, InvalidParameter
from croupier.personal import check_features
from croupier.simulation.linear_worlds import TABLES, LateDirections, Sphere, class_table, linear_world, widened

SPHERES = {(2, 2): Sphere(2, 2, 1), (3, 5): Sphere(3, 5, 2), (12, 4): Sphere(12, 4, 3)}
LABELS = {"breast-cancer": 2, "iris": 3, "wine": 3}


def drawn(world, users=2_000, seed=1):
    return world.offer(users, np.random.default_rng(seed))


@pytest.mark.parametrize("shape", SPHERES)
def test_a_sphere_has_features_of_norm_one_a_unit_parameter_and_true_means(shape):
    world, (dimension, actions) = SPHERES[shape], shape
    offers = drawn(world)
    assert (world.dimension, world.actions) == shape
    assert offers.features.shape == (2_000, actions, dimension)
    assert math.isclose(np.linalg.norm(world.theta), 1.0)
    np.testing.assert_allclose(np.linalg.norm(offers.features, axis=-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(offers.features[..., -1], math.sqrt(0.5), rtol=1e-6)
    assert ((offers.means >= 0.0) & (offers.means <= 1.0)).all()
    hidden, own = math.sqrt(2.0) * world.theta[:-1], math.sqrt(2.0) * offers.features[..., :-1]
    np.testing.assert_allclose(offers.means, (1.0 + own @ hidden) / 2.0, atol=1e-6)
    np.testing.assert_allclose(offers.features @ world.centred[0], offers.means - 0.5, atol=1e-6)
    check_features(offers.features, dimension)


@pytest.mark.parametrize("seed", range(20))
def test_means_at_the_ends_stay_in_the_unit_interval(seed):
    # On a line actions are ±1, so every mean is 0 or 1 before rounding.
    means = drawn(Sphere(2, 3, seed), 50).means
    assert ((means >= 0.0) & (means <= 1.0)).all()


def test_actions_are_uniform_on_the_sphere():
    # Every mean and second moment deviates by less than 0.31/√n, so 3/√n is ten of those: no alarm is false.
    own = math.sqrt(2.0) * drawn(SPHERES[(12, 4)], 20_000).features[..., :-1].reshape(-1, 11)
    bound = 3.0 / math.sqrt(len(own))
    assert np.abs(own.mean(axis=0)).max() < bound
    assert np.abs(own.T @ own / len(own) - np.eye(11) / 11.0).max() < bound


def test_a_sphere_is_its_seed_s_and_its_offers_are_the_generator_s():
    assert np.array_equal(Sphere(4, 3, 7).theta, Sphere(4, 3, 7).theta)
    assert not np.array_equal(Sphere(4, 3, 7).theta, Sphere(4, 3, 8).theta)
    assert np.array_equal(drawn(Sphere(4, 3, 7)).features, drawn(Sphere(4, 3, 7)).features)
    assert not np.array_equal(drawn(Sphere(4, 3, 7)).features, drawn(Sphere(4, 3, 7), seed=2).features)


@pytest.mark.slow
@pytest.mark.parametrize("components", [1, 4])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_one_right_answer_and_a_parameter_for_every_class(name, components):
    world = class_table(name, components)
    assert world.actions == world.places == LABELS[name]
    assert world.dimension == components + 1
    assert world.wide == LABELS[name] * world.dimension
    assert world.theta is None
    offers = drawn(world, 500)
    assert offers.features.shape == (500, world.dimension)
    check_features(offers.features, world.dimension)
    np.testing.assert_allclose(offers.features[:, -1], math.sqrt(0.5))
    assert set(np.unique(offers.means).tolist()) == {0.0, 1.0}
    assert (offers.means.sum(axis=1) == 1.0).all()
    wide = widened(world, offers.features)
    assert wide.shape == (500, world.actions, world.wide)
    np.testing.assert_allclose(wide.sum(axis=1).reshape(500, world.actions, -1)[:, 0], offers.features)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_s_users_are_its_rows(name):
    world = class_table(name)
    rows, labels = getattr(datasets, f"load_{name.replace('-', '_')}")(return_X_y=True)
    assert np.array_equal(world.means.argmax(axis=1), labels)
    assert len(world.rows) == len(rows)
    offers = drawn(world, 5_000)
    # Drawn evenly: a share's deviation is at most ½/√5000, and eight of those are a false alarm of about 1e-15.
    shares = np.bincount(labels) / len(labels)
    assert np.abs(offers.means.mean(axis=0) - shares).max() < 4.0 / math.sqrt(5_000)
    # The description is linear in the principal components of standardised columns, each to the end of its range.
    centred = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    for component in range(4):
        scores = centred @ axes[:, -1 - component]
        assert math.isclose(abs(np.corrcoef(scores, world.rows[:, component])[0, 1]), 1.0, rel_tol=1e-6)
        assert math.isclose(np.abs(world.rows[:, component]).max(), 1.0 / math.sqrt(8.0))
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("name", TABLES)
def test_a_linear_rule_earns_more_than_any_single_class(name):
    world = class_table(name)
    shares = world.means.mean(axis=0)
    assert world.single == int(shares.argmax())
    assert world.single_mean == shares.max()
    assert world.single_mean + 0.2 < world.linear_mean < 1.0


def test_late_directions_appear_when_they_should():
    world = LateDirections(5, 3, appears=600, seed=1)
    early, late = (world.offer(500, np.random.default_rng(seed)).features for seed in range(2))
    assert not early[..., 2:4].any()
    assert early[..., :2].any()
    assert not late[:100, :, 2:4].any()
    assert not late[100:, :, :2].any()
    other = LateDirections(5, 3, appears=600, seed=1, turned=True)
    assert np.array_equal(other.theta[:2], world.theta[:2])
    assert np.array_equal(other.theta[2:4], -world.theta[2:4])
    assert math.isclose(np.linalg.norm(world.theta), 1.0)


def test_a_word_names_a_world():
    sphere = linear_world("sphere", dimension=4, actions=3, seed=5)
    assert isinstance(sphere, Sphere)
    assert np.array_equal(sphere.theta, Sphere(4, 3, 5).theta)
    for name in TABLES:
        assert linear_world(f"table:{name}", dimension=4, actions=3, seed=5).name == name


BAD = {
    "unknown world": ("world", lambda: linear_world("torus", dimension=3, actions=2, seed=1)),
    "a table without its word": ("world", lambda: linear_world("iris", dimension=3, actions=2, seed=1)),
    "unknown table": ("table", lambda: class_table("digits")),
    "one dimension": ("dimension", lambda: Sphere(1, 2, 1)),
    "one action": ("actions", lambda: Sphere(3, 1, 1)),
    "no components": ("components", lambda: class_table("iris", 0)),
    "more components than columns": ("components", lambda: class_table("iris", 5)),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_worlds_are_refused_by_name(case):
    name, call = BAD[case]
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        call()


def test_tables_without_scikit_learn_say_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(CroupierError, match=r"croupier\[learning\]"):
        class_table("iris")
