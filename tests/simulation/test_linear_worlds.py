"""Worlds of linear bandits: features in the unit ball, means in [0, 1], and a parameter that explains them, or none."""

import math

import numpy as np
import pytest
from sklearn import datasets

from croupier.checks import CroupierError, InvalidParameter
from croupier.linear.statistics import check_features
from croupier.simulation.linear_worlds import TABLES, Sphere, Table, linear_world

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
    np.testing.assert_allclose(np.linalg.norm(offers.features, axis=-1), 1.0, rtol=1e-12)
    assert ((offers.means >= 0.0) & (offers.means <= 1.0)).all()
    hidden, own = math.sqrt(2.0) * world.theta[:-1], math.sqrt(2.0) * offers.features[..., :-1]
    np.testing.assert_allclose(offers.means, (1.0 + own @ hidden) / 2.0, atol=1e-12)
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
def test_a_table_gives_every_class_its_own_block_and_one_right_answer(name, components):
    world = Table(name, components)
    width = components + 1
    assert world.actions == LABELS[name]
    assert world.dimension == LABELS[name] * width
    assert world.theta is None
    offers = drawn(world, 500)
    assert offers.features.shape == (500, world.actions, world.dimension)
    check_features(offers.features, world.dimension)
    np.testing.assert_allclose(np.linalg.norm(offers.features, axis=-1), 1.0, rtol=1e-12)
    assert set(np.unique(offers.means).tolist()) == {0.0, 1.0}
    assert (offers.means.sum(axis=1) == 1.0).all()
    for action in range(world.actions):
        outside = np.delete(offers.features[:, action], np.s_[action * width : (action + 1) * width], axis=1)
        assert not outside.any()
        block = offers.features[:, action, action * width : (action + 1) * width]
        assert np.array_equal(block, offers.features[:, 0, :width])


@pytest.mark.parametrize("name", TABLES)
def test_a_table_s_users_are_its_rows(name):
    world = Table(name)
    rows, labels = getattr(datasets, f"load_{name.replace('-', '_')}")(return_X_y=True)
    assert np.array_equal(world.labels, labels)
    assert len(world.rows) == len(rows)
    offers = drawn(world, 5_000)
    # Drawn evenly: a share's deviation is at most ½/√5000, and eight of those are a false alarm of about 1e-15.
    shares = np.bincount(labels) / len(labels)
    assert np.abs(offers.means.mean(axis=0) - shares).max() < 4.0 / math.sqrt(5_000)
    # Without the common scale, the description is linear in the principal components of standardised columns.
    centred = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    described = world.rows[:, :-1] / world.rows[:, -1:]
    values, axes = np.linalg.eigh(centred.T @ centred)
    for component in range(4):
        scores = centred @ axes[:, -1 - component]
        assert math.isclose(abs(np.corrcoef(scores, described[:, component])[0, 1]), 1.0, rel_tol=1e-6)
        assert math.isclose(np.abs(described[:, component]).max(), 1.0)
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("name", TABLES)
def test_a_linear_parameter_chooses_well_on_a_table(name):
    world = Table(name)
    # Least squares on the one-hot answers: what a linear bandit could learn at best, or nearly.
    fitted = np.linalg.lstsq(world.rows, np.eye(world.actions)[world.labels], rcond=None)[0]
    right = float(((world.rows @ fitted).argmax(axis=1) == world.labels).mean())
    assert 0.75 < right < 1.0


def test_a_word_names_a_world():
    sphere = linear_world("sphere", dimension=4, actions=3, seed=5)
    assert isinstance(sphere, Sphere)
    assert np.array_equal(sphere.theta, Sphere(4, 3, 5).theta)
    for name in TABLES:
        assert linear_world(name, dimension=4, actions=3, seed=5).name == name


BAD = {
    "unknown world": ("world", lambda: linear_world("torus", dimension=3, actions=2, seed=1)),
    "unknown table": ("table", lambda: Table("digits")),
    "one dimension": ("dimension", lambda: Sphere(1, 2, 1)),
    "one action": ("actions", lambda: Sphere(3, 1, 1)),
    "no components": ("components", lambda: Table("iris", 0)),
    "more components than columns": ("components", lambda: Table("iris", 5)),
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
        Table("iris")
