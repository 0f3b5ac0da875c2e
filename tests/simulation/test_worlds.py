"""Worlds are what they say: true means, and batches drawn in law like users one by one.

Every chi-square test raises a false alarm with probability of about 1e-12, so all of them together below 1e-10.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import beta as beta_function
from scipy.special import gammaincc

from cases.worlds import LEVELLED, MEANS, REGISTERED, STEADY
from croupier.bandits import policy
from croupier.checks import InvalidParameter
from croupier.noise import seeded
from croupier.protocols.sums.values import encode
from croupier.simulation import Bernoulli, Beta, ClippedGaussian, Ratings, World, simulate, uniform_means
from croupier.simulation.levelled import Levelled

PRECISIONS = [1, 2, 7, 30]
EVERY = pytest.mark.parametrize("name", STEADY)
EVERY_LEVELLED = pytest.mark.parametrize("name", LEVELLED)


def expectation(world: World, arm: int, value: Callable[[float], float], precision: int) -> float:
    """E[value(reward)] from the definition of the world; `value` is smooth between the levels."""

    def over(density: Callable[[float], float]) -> float:
        edges = np.arange(precision + 1) / precision
        # Steps finer than the density's own width, or the integration would step over it.
        edges = np.union1d(edges, np.linspace(0, 1, 41))
        pieces = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        return sum(quad(lambda x: value(x) * density(x), a, b, epsabs=1e-14)[0] for a, b in pieces)

    if isinstance(world, ClippedGaussian):
        centre, std = float(world.centres[arm]), world.std
        below, above = (0.5 * math.erfc(side / (std * math.sqrt(2))) for side in (centre, 1 - centre))
        inside = over(lambda x: math.exp(-0.5 * ((x - centre) / std) ** 2) / (std * math.sqrt(2 * math.pi)))
        return below * value(0.0) + inside + above * value(1.0)
    if isinstance(world, Beta):
        a = float(world.means[arm]) * world.concentration
        b = world.concentration - a
        return over(lambda x: x ** (a - 1) * (1 - x) ** (b - 1) / float(beta_function(a, b)))
    if isinstance(world, Ratings):
        return float(np.mean([value(rating) for rating in world.tables[arm].tolist()]))
    assert isinstance(world, Bernoulli), "a world whose law is not written here"
    return float(world.means[arm]) * value(1.0) + (1 - float(world.means[arm])) * value(0.0)


def level_law(world: World, arm: int, precision: int, run: int = 0) -> np.ndarray:
    """The law of one user's encoded reward, as the world tells it."""
    if isinstance(world, Levelled):
        return world.level_law(run, arm, precision)
    law = np.zeros(precision + 1)
    law[[0, -1]] = 1 - world.means[arm], world.means[arm]
    return law


def sum_law(law: np.ndarray, users: int) -> np.ndarray:
    """The exact law of the sum of independent users."""
    total = np.ones(1)
    for _ in range(users):
        total = np.convolve(total, law)
    return total


def alarm(observed: np.ndarray, law: np.ndarray) -> float:
    """The chi-square p-value of whole numbers under a law on 0, 1, ...; levels share cells of 25 or more expected."""
    counts, expected = np.bincount(observed, minlength=len(law)), law * len(observed)
    assert len(counts) == len(law), "a sum beyond the largest possible one"
    assert counts[law == 0].sum() == 0, "a sum of probability zero"
    cells, held, cell = 0, 0.0, np.zeros(len(law), dtype=int)
    for level, mass in enumerate(expected.tolist()):
        cell[level], held = cells, held + mass
        if held >= 25:
            cells, held = cells + 1, 0.0
    cell = np.minimum(cell, cells - 1)
    if cells == 1:
        return 1.0
    found, hoped = np.bincount(cell, counts), np.bincount(cell, expected)
    return float(gammaincc((cells - 1) / 2, np.sum((found - hoped) ** 2 / hoped) / 2))


@EVERY_LEVELLED
@pytest.mark.parametrize("precision", [*PRECISIONS, 1_000])
def test_randomized_rounding_keeps_every_mean(name: str, precision: int) -> None:
    world = LEVELLED[name]
    for arm in range(world.arms):
        law = world.level_law(0, arm, precision)
        assert law.shape == (precision + 1,)
        assert law.min() >= 0
        assert law.sum() == pytest.approx(1.0, abs=1e-14)
        # The law is made of second differences, which magnify rounding by the square of the precision.
        error = max(1e-12, 1e-16 * precision**2)
        assert law @ np.arange(precision + 1) / precision == pytest.approx(world.means[arm], abs=error)


@EVERY
def test_means_are_the_integrals_of_the_rewards(name: str) -> None:
    world = STEADY[name]
    for arm in range(world.arms):
        assert expectation(world, arm, lambda x: 1.0, 1) == pytest.approx(1.0, abs=1e-10)
        assert expectation(world, arm, lambda x: x, 1) == pytest.approx(world.means[arm], abs=1e-10)


@EVERY_LEVELLED
@pytest.mark.parametrize("precision", [1, 2, 7])
def test_each_level_has_the_chance_that_rewards_around_it_give(name: str, precision: int) -> None:
    world = LEVELLED[name]

    def chance(level: int, x: float) -> float:
        return max(0.0, 1 - abs(x * precision - level))

    for arm in range(world.arms):
        law = [expectation(world, arm, partial(chance, level), precision) for level in range(precision + 1)]
        assert world.level_law(0, arm, precision) == pytest.approx(law, abs=1e-10)


@EVERY_LEVELLED
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_variance_is_that_of_rewards_and_rounding(name: str, precision: int) -> None:
    world, levels = LEVELLED[name], np.arange(precision + 1)

    def encoded_square(x: float) -> float:
        down = math.floor(x * precision)
        up = x * precision - down
        return down**2 * (1 - up) + (down + 1) ** 2 * up

    for arm in range(world.arms):
        law = world.level_law(0, arm, precision)
        square = expectation(world, arm, encoded_square, precision)
        assert law @ levels**2 == pytest.approx(square, rel=1e-9, abs=1e-9)


@EVERY
@pytest.mark.parametrize("precision", PRECISIONS)
def test_batches_in_law_and_users_one_by_one_have_the_same_sums(name: str, precision: int) -> None:
    world, source, users, trials = STEADY[name], seeded(17), 6, 20_000
    law = sum_law(level_law(world, 1, precision), users)
    zeros = np.zeros(trials, dtype=np.int64)
    in_law = world.encoded_sums(zeros, zeros + 1, users, precision, source.generator)
    assert in_law.dtype == np.int64
    assert alarm(in_law, law) > 1e-12
    rewards = world.rewards(0, 1, users * trials, source.generator)
    assert np.all((rewards >= 0) & (rewards <= 1))
    one_by_one = encode(rewards, precision, source).reshape(trials, users).sum(axis=1)
    assert alarm(one_by_one, law) > 1e-12


def test_the_chi_square_test_sees_a_slightly_wrong_law() -> None:
    world = ClippedGaussian(MEANS)
    zeros = np.zeros(20_000, dtype=np.int64)
    sums = world.encoded_sums(zeros, zeros, 6, 7, np.random.default_rng(5))
    assert alarm(sums, sum_law(world.level_law(0, 0, 7), 6)) > 1e-12
    assert alarm(sums, sum_law(ClippedGaussian([0.35, 0.5]).level_law(0, 0, 7), 6)) < 1e-12


@pytest.mark.parametrize("kind", [Bernoulli, ClippedGaussian, Beta])
def test_every_run_has_its_own_means(kind: Callable[..., World]) -> None:
    means = uniform_means(3, 4, 0.25, 0.75, np.random.default_rng(2))
    world, source, users, precision = kind(means), seeded(3), 40_000, 7
    assert world.arms == 3
    assert world.means.shape == (4, 3)
    runs, arms = np.nonzero(np.ones((4, 3)))
    order = np.random.default_rng(4).permutation(12)
    runs, arms = runs[order], arms[order]
    sums = world.encoded_sums(runs, arms, users, precision, source.generator)
    rewards = [world.rewards(run, arm, users, source.generator).mean() for run, arm in zip(runs, arms, strict=True)]
    # A reward's deviation is at most 1/2: seven standard errors, 24 averages, a false alarm once in 10^10.
    error = 7 * 0.5 / math.sqrt(users)
    assert sums / users / precision == pytest.approx(world.means[runs, arms], abs=error)
    assert rewards == pytest.approx(world.means[runs, arms], abs=error)


@EVERY
def test_one_row_of_means_serves_all_runs(name: str) -> None:
    world = STEADY[name]
    runs = np.array([5, 0, 900, 5])
    arms = np.array([1, 0, 1, 0])
    sums = world.encoded_sums(runs, arms, 40_000, 3, np.random.default_rng(6)) / 120_000
    # Seven standard errors of averages whose deviation is at most 1/2.
    assert sums == pytest.approx(world.means[arms], abs=7 * 0.5 / 200)


def test_sums_come_back_in_the_order_they_were_asked() -> None:
    runs, arms = np.array([0, 1, 1, 0, 1]), np.array([1, 0, 1, 0, 1])
    generator = np.random.default_rng(1)
    assert Bernoulli([[0, 1], [1, 0]]).encoded_sums(runs, arms, 9, 4, generator).tolist() == [36, 36, 0, 0, 0]
    assert Ratings([[0.0], [0.5]]).encoded_sums(runs, arms, 9, 4, generator).tolist() == [18, 0, 18, 0, 18]
    # Centres in the middle of a step of 1/4 would round either way; at its end they hardly ever do.
    steady = ClippedGaussian([[0.25, 0.75], [0.5, 0.25]], std=1e-9)
    assert steady.encoded_sums(runs, arms, 9, 4, generator).tolist() == [27, 18, 9, 9, 9]


@EVERY
def test_plain_sums_have_the_mean_of_the_rewards(name: str) -> None:
    world, users = STEADY[name], np.array([90_000, 10_000])
    sums = world.sums(np.array([0, 3]), np.array([1, 0]), users, np.random.default_rng(8))
    # Seven standard errors of sums whose terms deviate by at most 1/2.
    assert np.all(np.abs(sums - users * world.means[[1, 0]]) < 7 * 0.5 * np.sqrt(users))


def test_plain_sums_of_coins_are_binomial() -> None:
    zeros = np.zeros(20_000, dtype=np.int64)
    sums = Bernoulli([0.3, 0.6]).sums(zeros, zeros, zeros + 12, np.random.default_rng(9))
    assert alarm(sums.astype(int), sum_law(np.array([0.7, 0.3]), 12)) > 1e-12


def test_clipping_moves_means_towards_the_middle() -> None:
    world = ClippedGaussian([0.0, 0.25, 0.5, 0.75, 1.0])
    assert world.means[2] == pytest.approx(0.5, abs=1e-15)
    assert world.means + world.means[::-1] == pytest.approx(np.ones(5), abs=1e-15)
    assert np.all(np.diff(world.means) > 0)
    assert 0.25 < world.means[1] < 0.5
    assert ClippedGaussian([0.4, 0.6], std=1e-3).means == pytest.approx([0.4, 0.6], abs=1e-15)


def test_gaps_are_told_from_the_best_arm_of_each_run() -> None:
    assert Bernoulli([0.25, 0.75]).gaps(2).tolist() == [[0.5, 0], [0.5, 0]]
    assert Bernoulli([[0.25, 0.75], [1, 0.5]]).gaps(2).tolist() == [[0.5, 0], [0, 0.5]]
    assert Ratings([[0, 1], [0.25], [0.5, 0.5]]).gaps(1).tolist() == [[0, 0.25, 0]]
    clipped = ClippedGaussian([0.25, 0.75])
    assert clipped.gaps(1)[0, 0] == pytest.approx(clipped.means[1] - clipped.means[0], abs=1e-15)
    assert clipped.gaps(1)[0, 0] < 0.5


def test_only_zeros_and_ones_are_binary() -> None:
    assert Bernoulli([0.1, 0.2]).binary
    assert Ratings([[0, 1], [1, 1]]).binary
    assert not Ratings([[0, 1], [0.5]]).binary
    assert not Beta([0.1, 0.2]).binary
    assert not ClippedGaussian([0.1, 0.2]).binary


def test_uniform_means_stay_in_their_interval() -> None:
    means = uniform_means(10, 200, 0.45, 0.55, np.random.default_rng(1))
    assert means.shape == (200, 10)
    assert 0.45 <= means.min() < 0.451
    assert 0.549 < means.max() <= 0.55


@pytest.mark.parametrize("kind", [Bernoulli, ClippedGaussian, Beta])
@pytest.mark.parametrize("means", [[0.5, 1.1], [-0.1, 0.5], [0.5, math.nan], [[0.2, 0.4], [0.2, 2.0]]])
def test_a_mean_outside_the_range_is_refused_by_value(kind: Callable[..., World], means: list[object]) -> None:
    with pytest.raises(
        InvalidParameter, match=r"= (1\.1|-0\.1|nan|2\.0) is not allowed: it must be numbers in \[0, 1\]"
    ):
        kind(means)


@pytest.mark.parametrize("kind", [Bernoulli, ClippedGaussian, Beta])
@pytest.mark.parametrize("means", [0.5, [], [0.5], [[0.5], [0.5]], [[[0.1, 0.2]]]])
def test_fewer_than_two_arms_are_refused(kind: Callable[..., World], means: object) -> None:
    with pytest.raises(InvalidParameter, match="at least two arms"):
        kind(means)


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "wide"])
def test_a_bad_spread_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="^std = "):
        ClippedGaussian(MEANS, std=value)
    with pytest.raises(InvalidParameter, match="^concentration = "):
        Beta(MEANS, concentration=value)


@pytest.mark.parametrize("tables", [[], [[0.5]], [[0.5], []], [[0.5], [1.5]], [[-0.5], [0.5]], [[math.nan], [0.5]]])
def test_tables_without_arms_or_ratings_are_refused(tables: list[list[float]]) -> None:
    with pytest.raises(InvalidParameter, match="^tables = "):
        Ratings(tables)


@pytest.mark.parametrize("name", REGISTERED)
def test_whatever_is_registered_draws_rewards_whose_sums_are_the_law_of_a_batch(name: str) -> None:
    """The mean of 4,000 rewards in [0, 1] has a standard error below 0.008; 0.06 is seven of them."""
    world, generator = REGISTERED[name], np.random.default_rng(5)
    assert world.means.shape == (len(MEANS),)
    assert world.arms == len(MEANS)
    for arm in range(world.arms):
        rewards = world.rewards(0, arm, 4_000, generator)
        assert rewards.shape == (4_000,)
        assert rewards.min() >= 0.0
        assert rewards.max() <= 1.0
        if not world.changes:
            assert abs(rewards.mean() - world.means[arm]) < 0.06
    assert not world.binary or set(rewards.tolist()) <= {0.0, 1.0}
    assert "[0.3" in repr(world)


def test_a_list_of_means_is_no_world_and_a_number_no_policy() -> None:
    asked = policy("dp-klucb", arms=2, horizon=1000, epsilon=1.0)
    with pytest.raises(InvalidParameter, match=r"^world = \[0\.3, 0\.5\] .* a world, such as Bernoulli"):
        simulate(asked, [0.3, 0.5], seed=1)
    with pytest.raises(InvalidParameter, match="^policy = 'dp-klucb' .* a policy, as croupier.bandits.policy makes"):
        simulate("dp-klucb", Bernoulli([0.3, 0.5]), seed=1)


def test_more_users_than_can_be_counted_are_refused_by_name() -> None:
    huge, world = 10**400, Bernoulli([0.3, 0.5])
    for name, door in (
        ("horizon", lambda: policy("dp-klucb", arms=2, horizon=huge, epsilon=1.0)),
        ("users", lambda: simulate(policy("dp-klucb", arms=2, horizon=10, epsilon=1.0), world, seed=1, users=huge)),
    ):
        with pytest.raises(InvalidParameter, match=f"^{name} = 10+…? is not allowed"):
            door()
