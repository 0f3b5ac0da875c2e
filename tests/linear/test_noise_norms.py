"""How far noise pushes a vector or a matrix: the means over a sphere exactly, and bounds that noise keeps.

Statistical tests are seeded. A bound that fails with probability p is taken as broken when more of R draws exceed it
than a binomial of (R, p) does with probability 1e-12.
"""

import math

import numpy as np
import pytest
from flint import arb, ctx
from scipy.integrate import quad
from scipy.stats import binom, chi2

from croupier.linear import NoiseSum, growing_bandit, largest_matrix, longest_vector
from croupier.linear.noise_norms import log_quadratic_mean, log_sphere_mean
from croupier.noise import seeded

DIMENSIONS = [1, 2, 3, 5, 10, 20]


def gaussian(slopes):
    return slopes**2 / 2.0


def sphere_density(dimension):
    """Of one coordinate of a uniform point on the sphere."""
    log_area = math.lgamma(dimension / 2.0) - math.lgamma((dimension - 1) / 2.0) - math.log(math.pi) / 2.0
    return lambda u: math.exp(log_area) * (1.0 - u * u) ** ((dimension - 3) / 2.0)


@pytest.mark.parametrize("dimension", [3, 5, 10, 20])
@pytest.mark.parametrize("s", [0.1, 1.0, 8.0, 60.0])
def test_means_over_the_sphere_are_integrals(dimension, s):
    density = sphere_density(dimension)
    length = quad(lambda u: math.exp(s * (u - 1.0)) * density(u), -1.0, 1.0, epsabs=0.0, epsrel=1e-10)[0]
    square = quad(lambda u: math.exp(s * (2.0 * u * u - 2.0)) * density(u), -1.0, 1.0, epsabs=0.0, epsrel=1e-10)[0]
    found = float(log_sphere_mean(dimension, np.asarray([s]))[0])
    assert math.isclose(found, s + math.log(length), rel_tol=1e-6, abs_tol=1e-6)
    found = float(log_quadratic_mean(dimension, np.asarray([s]))[0])
    assert math.isclose(found, s + math.log(square), rel_tol=1e-6, abs_tol=1e-6)


@pytest.mark.parametrize("dimension", [2, 5, 20, 60])
def test_they_are_rounded_down_also_far_out(dimension):
    s = np.geomspace(1e-2, 3e3, 40)
    with ctx.workprec(400):
        exact = [
            float(arb(x) + (arb(-2.0 * x)).hypgeom_1f1(arb(dimension - 1) / 2, arb(dimension) / 2).log()) for x in s
        ]
    found = log_quadratic_mean(dimension, s)
    assert (found <= np.asarray(exact)).all()
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_a_gaussian_vector_is_bounded_little_beyond_its_quantile(dimension):
    for failure in (1e-2, 1e-7):
        bound = longest_vector(dimension, 1.0, gaussian, failure)
        quantile = math.sqrt(chi2.isf(failure, dimension))
        assert quantile < bound < 1.3 * quantile


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_bounds_grow_with_the_noise_and_the_odds(dimension):
    for bound in (longest_vector, largest_matrix):
        ours = bound(dimension, 1.0, gaussian, 1e-3)
        assert math.isclose(bound(dimension, 3.0, lambda s: 9.0 * s**2 / 2.0, 1e-3), 3.0 * ours, rel_tol=1e-3)
        assert bound(dimension, 1.0, gaussian, 1e-6) > ours
    assert largest_matrix(dimension, 0.0, gaussian, 0.1) == 0.0


def symmetric(numbers, dimension):
    """Matrices whose triangles hold these numbers, those off the diagonal over √2."""
    rows, columns = np.triu_indices(dimension)
    found = np.zeros((len(numbers), dimension, dimension))
    found[:, rows, columns] = found[:, columns, rows] = numbers / np.where(rows == columns, 1.0, math.sqrt(2.0))
    return found


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_gaussian_noise_keeps_its_bounds_and_comes_near_them(dimension):
    runs, failure = 20_000, 0.01
    generator = np.random.default_rng(dimension)
    matrices = symmetric(generator.normal(size=(runs, dimension * (dimension + 1) // 2)), dimension)
    norms = np.abs(np.linalg.eigvalsh(matrices)).max(axis=1)
    bound = largest_matrix(dimension, 1.0, gaussian, failure)
    assert (norms > bound).sum() <= binom.isf(1e-12, runs, failure)
    assert np.quantile(norms, 1.0 - failure) > bound / 1.4
    lengths = np.linalg.norm(generator.normal(size=(runs, dimension)), axis=1)
    assert (lengths > longest_vector(dimension, 1.0, gaussian, failure)).sum() <= binom.isf(1e-12, runs, failure)


@pytest.mark.parametrize("law", ["skellam", "laplace"])
@pytest.mark.parametrize("trust", ["two-servers", "devices"])
def test_the_noise_of_real_batches_keeps_the_bounds_of_a_plan(law, trust):
    failure, runs, batches = 0.2, 3_000, 3
    plan = growing_bandit(4_000, 3, epsilon=1.0, trust=trust, noise=law, failure=failure)
    moments, mechanism = plan.moments, plan.mechanism(200)
    sums = NoiseSum()
    for _ in range(batches):
        sums = sums.plus(mechanism)
    assert sums.batches == batches
    steps = mechanism.noise.sample((runs, batches, moments.dimension), seeded(1)).sum(axis=1) * mechanism.unit
    h, n = moments.moments(steps)
    theta = np.asarray([0.6, -0.48, 0.64])
    bounds = plan.noise_bounds(sums)
    part = failure / 3.0 / (batches * (batches + 1))
    joint = np.linalg.norm(h[:, 0] - n[:, 0] @ theta, axis=1)
    matrix = np.abs(np.linalg.eigvalsh(n[:, 0])).max(axis=1)
    assert (joint > bounds.joint).sum() <= binom.isf(1e-12, runs, part)
    assert (matrix > bounds.matrix).sum() <= binom.isf(1e-12, runs, part)
    assert np.quantile(joint, 1.0 - part) > bounds.joint / 1.8, "not a bound that nothing could break"
    assert np.quantile(matrix, 1.0 - part) > bounds.matrix / 1.8


def test_a_bound_for_one_batch_would_be_broken_by_three():
    plan = growing_bandit(4_000, 3, epsilon=1.0, trust="devices", failure=0.2)
    mechanism = plan.mechanism(200)
    once = plan.noise_bounds(NoiseSum().plus(mechanism))
    steps = mechanism.noise.sample((3_000, 3, plan.moments.dimension), seeded(1)).sum(axis=1) * mechanism.unit
    _, n = plan.moments.moments(steps)
    broken = (np.abs(np.linalg.eigvalsh(n[:, 0])).max(axis=1) > once.matrix).sum()
    assert broken > binom.isf(1e-12, 3_000, 0.2 / 6.0)


def test_coefficients_along_a_direction_are_what_the_bound_says():
    plan = growing_bandit(4_000, 3, epsilon=1.0, failure=0.2)
    moments, generator = plan.moments, np.random.default_rng(1)
    h, n = moments.moments(np.eye(moments.dimension))
    for _ in range(200):
        v, theta = generator.normal(size=(2, 3))
        v, theta = v / np.linalg.norm(v), theta / np.linalg.norm(theta)
        quadratic = n[:, 0] @ v @ v
        assert math.isclose(float((quadratic**2).sum()), 1.0)
        assert np.abs(quadratic).max() <= 1.0 + 1e-12
        joint = h[:, 0] @ v - n[:, 0] @ theta @ v
        pull = 1.0 / moments.weight
        assert float((joint**2).sum()) <= pull**2 + 1.0 + 1e-12
        assert np.abs(joint).max() <= max(pull, 1.0) + 1e-12


def test_rounding_counts_as_much_as_it_can_move_a_sum():
    plan = growing_bandit(4_000, 2, epsilon=1.0, trust="devices", noise="skellam", failure=0.2)
    few, many = (NoiseSum().plus(plan.mechanism(users)) for users in (100, 4_000))
    slopes = np.asarray([0.1, 1.0])
    step = 2.0 / 1024
    gap = many.cumulant(slopes, 1.0, 1.0) - few.cumulant(slopes, 1.0, 1.0)
    np.testing.assert_allclose(gap, 3_900 * (slopes * step) ** 2 / 8.0, rtol=1e-6)
    assert math.isclose(many.variance - few.variance, 3_900 * step**2 / 4.0, rel_tol=1e-9)
