"""What a device sums for a linear bandit: how far two users can be apart, what is refused, and exact privacy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from croupier.checks import InvalidParameter
from croupier.noise import seeded
from croupier.protocols import Moments, SumMechanism, audit, laplace, laplace_vectors, shared_vectors
from croupier.protocols.sums.values import encode, values_from_dict, values_to_dict

FEW = settings(derandomize=True, deadline=None, max_examples=60)
HAIR = 1e-7
KINDS = {
    "shared": Moments(3, weight=1.3),
    "own": Moments(2, places=3, weight=0.8),
    "not centred": Moments(2, weight=0.6, centred=False),
    "control": Moments(2, places=2, weight=1.1, control=0.5),
}
EVERY = pytest.mark.parametrize("kind", KINDS)


def drawn(moments, count, seed=1):
    """Features, rewards, places and control of some users, many of them at the edge of what is allowed."""
    generator = np.random.default_rng(seed)
    free = moments.features - moments.centred
    x = generator.normal(size=(count, free))
    norm = np.linalg.norm(x, axis=1, keepdims=True) if free else np.ones((count, 1))
    reach = math.sqrt(0.5) if moments.centred else 1.0
    x = (
        x
        / np.maximum(norm, 1e-12)
        * reach
        * np.where(generator.random((count, 1)) < 0.5, 1.0, generator.random((count, 1)))
    )
    if moments.centred:
        x = np.column_stack((x, np.full(count, math.sqrt(0.5))))
    rewards = np.where(generator.random(count) < 0.6, generator.integers(0, 2, count), generator.random(count))
    control = generator.random(count) < 0.5 if moments.control else np.zeros(count, dtype=bool)
    return x, rewards, generator.integers(0, moments.places, count), control


@EVERY
def test_the_moments_of_sums_are_those_of_the_users(kind):
    moments = KINDS[kind]
    x, rewards, place, control = drawn(moments, 50)
    sums = moments.of(x, rewards, place, control).sum(axis=0)
    pulled, matrices = moments.moments(sums)
    z = rewards - 0.5 * moments.centred
    for own in range(moments.places):
        mine = place == own
        np.testing.assert_allclose(pulled[own], x[mine].T @ z[mine], atol=1e-12)
        np.testing.assert_allclose(matrices[own], x[mine].T @ x[mine], atol=1e-12)
    if moments.control:
        earned, count = moments.controls(sums)
        assert math.isclose(earned, float(z[control].sum()), abs_tol=1e-12)
        assert math.isclose(count, control.sum())


@EVERY
def test_every_number_fits_its_range_and_users_are_known_from_their_vectors(kind):
    moments = KINDS[kind]
    vectors = moments.of(*drawn(moments, 200))
    assert vectors.shape == (200, moments.dimension)
    assert np.abs(vectors).max() <= 1.0
    np.testing.assert_allclose(moments.unit(vectors), (vectors + 1.0) / 2.0)


@EVERY
def test_no_two_users_are_further_apart_than_is_said(kind):
    moments = KINDS[kind]
    first, second = (moments.of(*drawn(moments, 3_000, seed)) for seed in (1, 2))
    gap = first - second
    assert np.linalg.norm(gap, axis=1).max() <= moments.diameter
    assert np.abs(gap).sum(axis=1).max() <= moments.taxicab


def test_the_distance_is_attained():
    # Without the constant, which binds one of the features, a search finds the bound itself.
    moments = Moments(3, weight=1.3 / 2.0, centred=False)

    def user(free):
        x = free[:-1] / max(1.0, float(np.linalg.norm(free[:-1])))
        return moments.of(x, math.sin(free[-1]) ** 2)

    starts = np.random.default_rng(1).normal(size=(5, 8))
    found = max(
        -minimize(lambda free: -float(np.linalg.norm(user(free[:4]) - user(free[4:]))), start).fun for start in starts
    )
    assert moments.diameter - 1e-6 < found <= moments.diameter


@given(st.floats(0.3, 2.0), st.integers(0, 10**6))
@FEW
def test_every_step_of_the_bound_holds(weight, seed):
    generator = np.random.default_rng(seed)
    x, other = (generator.normal(size=3) for _ in range(2))
    x, other = (v / np.linalg.norm(v) * generator.random() ** 0.2 for v in (x, other))
    z, reward = generator.choice([-0.5, 0.5], 2)
    r, q, s = float(x @ x), float(other @ other), abs(float(x @ other))
    pull = (weight * 0.5) ** 2
    rewards = weight**2 * float(((x * z - other * reward) ** 2).sum())
    matrix = float(((np.outer(x, x) - np.outer(other, other)) ** 2).sum())
    assert rewards <= pull * (r + q + 2.0 * s) + 1e-12
    assert math.isclose(matrix, r**2 + q**2 - 2.0 * s**2, abs_tol=1e-12)
    assert pull * (r + q + 2.0 * s) + r**2 + q**2 - 2.0 * s**2 <= 2.0 + 2.0 * pull + pull**2 / 2.0 + 1e-12


@EVERY
@pytest.mark.parametrize("precision", [64, 63])
def test_encoded_vectors_reach_no_further_whatever_the_coins_say(kind, precision):
    moments = KINDS[kind]
    first, second = (moments.unit(moments.of(*drawn(moments, 400, seed))) * precision for seed in (3, 4))
    coins = np.random.default_rng(1).random(first.shape)
    # The same coins for both, as the proof couples them.
    gap = np.floor(first + coins) - np.floor(second + coins)
    l2, l1 = moments.reach(precision)
    assert np.linalg.norm(gap, axis=1).max() <= l2
    assert np.abs(gap).sum(axis=1).max() <= l1


def test_the_zeros_of_other_places_are_whole_levels_of_an_even_grid():
    moments = KINDS["own"]
    vectors = moments.of(*drawn(moments, 50))
    encoded = encode(moments.unit(vectors), 64, seeded(1))
    assert (encoded[vectors == 0.0] == 32).all()


BROKEN = {
    "too long": lambda v: 1.2 * v,
    "rewards beyond their range": lambda v: v * np.where(np.arange(len(v)) < 2, 3.0, 1.0),
    "a matrix of rank two": lambda v: v + np.eye(len(v))[4] * 0.1,
    "two places at once": lambda v: v + np.roll(v, 5),
    "not a number": lambda v: np.where(np.arange(len(v)) == 0, math.nan, v),
    "half a user of the control share": lambda v: v + np.eye(len(v))[-1] * 0.2,
    "a reward without its user": lambda v: v + np.eye(len(v))[-2] * 0.2,
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_user_s_vector_is_refused(case):
    moments = KINDS["control"]
    vector = moments.of([0.7, math.sqrt(0.5)], 1.0, 0, False)
    moments.unit(vector)
    with pytest.raises(InvalidParameter, match="^value = 'another vector'"):
        moments.unit(BROKEN[case](vector))


BAD = {
    "norm above one": (lambda m: m.of([0.9, math.sqrt(0.5)], 1.0), "features"),
    "no constant": (lambda m: m.of([0.7, 0.5], 1.0), "features"),
    "another dimension": (lambda m: m.of([0.7], 1.0), "features"),
    "not a number": (lambda m: m.of([math.nan, math.sqrt(0.5)], 1.0), "features"),
    "reward above one": (lambda m: m.of([0.1, math.sqrt(0.5)], 1.5), "rewards"),
    "reward not a number": (lambda m: m.of([0.1, math.sqrt(0.5)], math.nan), "rewards"),
    "too few rewards": (lambda m: m.of([[0.1, math.sqrt(0.5)]] * 2, 1.0), "rewards"),
    "no such place": (lambda m: m.of([0.1, math.sqrt(0.5)], 1.0, 2), "place"),
    "half a place": (lambda m: m.of([0.1, math.sqrt(0.5)], 1.0, 0.5), "place"),
    "a vector of another length": (lambda m: m.unit(np.zeros(3)), "value"),
    "words": (lambda m: m.unit("none"), "value"),
    "no features": (lambda m: Moments(0), "features"),
    "too much weight": (lambda m: Moments(2, weight=2.1), "weight"),
    "a control share without a constant": (lambda m: Moments(2, weight=0.5, centred=False, control=0.5), "control"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case):
    call, name = BAD[case]
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        call(KINDS["control"])


@EVERY
def test_what_it_is_travels_with_the_mechanism(kind):
    values = KINDS[kind]
    assert values_from_dict(values_to_dict(values)) == values
    mechanism = shared_vectors(epsilon=1.0, dimension=values.dimension, precision=64).about(values).plan(40)
    assert SumMechanism.from_json(mechanism.to_json()) == mechanism
    assert mechanism.checkable, "a device knows how far its vectors reach"


def test_scalars_have_no_vectors():
    with pytest.raises(InvalidParameter, match="^values = "):
        laplace(epsilon=1.0).about(KINDS["own"])


def grid_of_users(moments):
    """Everybody there is, of one feature, on a grid."""
    xs = [math.sqrt(0.5)] if moments.centred else [0.0, 0.3, 0.7, 1.0, -0.4, -1.0]
    return [moments.of([x], y) for x in xs for y in (0.0, 0.4, 1.0)]


def law_of(value, mechanism, noise):
    """The joint law of a user's encoded vector with noise, by direct summation; what it leaves out is below 1e-12."""
    unit = mechanism.values.unit(value) * mechanism.precision
    reach = noise.tail_quantile(1e-14)
    steps = np.arange(-reach, reach + 1)
    law = np.ones(())
    for level in unit:
        whole, fraction = math.floor(level), level - math.floor(level)
        own = np.zeros(mechanism.precision + 2 * reach + 1)
        for up, chance in ((0, 1.0 - fraction), (1, fraction)):
            if chance:
                own[whole + up + steps + reach] += chance * noise.pmf(steps)
        law = np.multiply.outer(law, own)
    return law


@pytest.mark.parametrize("values", [Moments(1, weight=0.7, centred=False), Moments(1, weight=0.9)], ids=str)
def test_whoever_sees_a_sum_of_one_feature_learns_no_more_than_promised(values):
    """Every pair of users on a grid, the others' values known: exact laws, and either server knows its own noise."""
    users = grid_of_users(values)
    approximate = shared_vectors(epsilon=1.5, delta=1e-3, dimension=values.dimension, precision=4).about(values).plan(3)
    pure = laplace_vectors(epsilon=1.5, dimension=values.dimension, precision=4).about(values).plan(3)
    for mechanism in (approximate, pure):
        laws = [law_of(user, mechanism, mechanism.share) for user in users]
        worst = 0.0
        for first, second in itertools.permutations(laws, 2):
            worst = max(worst, float(np.maximum(first - math.exp(1.5) * second, 0.0).sum()))
        assert worst <= mechanism.guarantee.delta + 1e-10
        assert mechanism.guarantee.delta == (0.0 if mechanism is pure else 1e-3)


def test_half_the_noise_would_be_noticed():
    values = Moments(1, weight=1.0, centred=False)
    mechanism = laplace_vectors(epsilon=1.5, dimension=2, precision=4).about(values).plan(3)
    thin = type(mechanism.share)(mechanism.share.scale / 2)
    laws = [law_of(user, mechanism, thin) for user in grid_of_users(values)]
    worst = max(float(np.maximum(a - math.exp(1.5) * b, 0.0).sum()) for a, b in itertools.permutations(laws, 2))
    assert worst > 1e-3


@pytest.mark.parametrize("recipe", [shared_vectors, laplace_vectors], ids=lambda r: r.__name__)
def test_an_audit_of_the_real_path_stays_below_the_claim(recipe):
    values = KINDS["shared"]
    mechanism = recipe(epsilon=1.0, dimension=values.dimension, precision=32).about(values).plan(19)
    found = audit(mechanism, 4_000, seeded(3))
    assert found.passed
