"""How far noise can push the sums: coefficients along a direction, nets of directions, and Chernoff over all prefixes.

Statistical tests are seeded. A bound that fails with probability p is taken as broken when more of R runs exceed it
than a binomial of (R, p) does with probability 1e-12, so false alarms of the module stay below 1e-10.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from croupier.continual import Tree, gaussian_deviation
from croupier.linear import SCALE, confidence, linear_bandit, moments, statistics_dimension
from croupier.linear.ellipsoid import NoiseBounds
from croupier.noise import Skellam, seeded
from croupier.simulation.counting import TreeSum
from croupier.simulation.linear_sums import LocalSums, TrustedTree

FAILURE = 0.1


@dataclass(frozen=True)
class GaussianSums:
    """Gaussian noise on the nodes of a tree."""

    tree: Tree
    variances: tuple[float, ...]

    def deviation(self, failure, *, directions=1.0, strength=1.0):
        return gaussian_deviation(self.tree, self.variances, failure, directions=directions, strength=strength)


@lru_cache
def plan(shufflers, users=512):
    return linear_bandit(users, 2, shufflers, epsilon=2.0, smallest=32, failure=FAILURE)


def allowed(runs, probability, alarm=1e-12):
    """The most of `runs` that may exceed a bound of this failure."""
    return int(binom.isf(alarm, runs, probability))


@lru_cache
def images(dimension):
    """What a unit of noise in each sent coordinate, times SCALE, does to h and to N."""
    found = [moments(row, dimension) for row in np.eye(statistics_dimension(dimension)) / SCALE]
    return np.asarray([h for h, _ in found]), np.asarray([n for _, n in found])


def along(v, theta=None):
    """Coefficients of the coordinates' noises in vᵀNv, or in vᵀ(h - Nθ)."""
    h, n = images(len(v))
    return n @ v @ v if theta is None else h @ v - n @ theta @ v


def largest(value, size):
    """The maximum of a smooth function of `size` free numbers, from a few starts."""
    starts = np.random.default_rng(size).normal(size=(4, size))
    return max(-minimize(lambda free: -value(free), start).fun for start in starts)


def unit(free):
    return free / np.linalg.norm(free)


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_along_a_direction_the_matrix_noise_has_strength_two_at_most(dimension):
    strongest = largest(lambda free: float((along(unit(free)) ** 2).sum()), dimension)
    # Σ v_i⁴ + 4 Σ v_i² v_j² = 2 - Σ v_i⁴, largest where all entries are alike.
    assert math.isclose(strongest, 2.0 - 1.0 / dimension, rel_tol=1e-6)
    assert strongest <= 2.0
    assert largest(lambda free: float(np.abs(along(unit(free))).max()), dimension) <= 1.0 + 1e-9


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_along_a_direction_the_joint_noise_has_strength_three_at_most(dimension):
    def of(free):
        return along(unit(free[:dimension]), unit(free[dimension:]))

    strongest = largest(lambda free: float((of(free) ** 2).sum()), 2 * dimension)
    assert math.isclose(strongest, 3.0 - 1.0 / dimension, rel_tol=1e-6)
    assert strongest <= 3.0
    assert largest(lambda free: float(np.abs(of(free)).max()), 2 * dimension) <= 1.0 + 1e-9


@pytest.mark.parametrize(("dimension", "net"), [(1, 0.3), (2, 0.1), (2, 0.45), (3, 0.3)])
def test_half_a_net_is_as_small_as_claimed_and_sees_all_of_a_symmetric_matrix(dimension, net):
    generator = np.random.default_rng(dimension)
    crowd = generator.normal(size=(6000, dimension))
    crowd /= np.linalg.norm(crowd, axis=1, keepdims=True)
    # Greedily, one of every v, -v: none of those kept within `net` of another or of its opposite.
    kept = crowd[:1]
    for v in crowd:
        if np.abs(kept @ v).max() < 1.0 - net**2 / 2.0:
            kept = np.vstack((kept, v))
    assert len(kept) <= 0.5 * (1.0 + 2.0 / net) ** dimension
    for _ in range(50):
        n = generator.normal(size=(dimension, dimension))
        n = n + n.T
        seen = np.abs(np.einsum("ki,ij,kj->k", kept, n, kept)).max()
        assert np.linalg.norm(n, 2) * (1.0 - 2.0 * net) <= seen
        h = generator.normal(size=dimension)
        assert np.linalg.norm(h) * (1.0 - net) <= np.abs(kept @ h).max()


@pytest.mark.slow
def test_bounds_over_directions_are_the_best_net_s():
    sums = GaussianSums(Tree(64, 1, 4, 3), (1.0, 2.0, 3.0))
    found = NoiseBounds.by_direction(sums, 3, FAILURE)
    nets = np.linspace(0.01, 0.45, 2000)
    part = FAILURE / 3.0

    def least(halves, strength, shrink):
        return SCALE * min(
            sums.deviation(part, directions=halves * (1.0 + 2.0 / net) ** 3, strength=strength) / (1.0 - shrink * net)
            for net in nets.tolist()[::10]
        )

    assert math.isclose(found.matrix, least(0.5, 2.0, 2.0), rel_tol=1e-2)
    assert math.isclose(found.vector, least(1.0, 1.0, 1.0), rel_tol=1e-2)
    assert math.isclose(found.joint, least(1.0, 3.0, 1.0), rel_tol=1e-2)


def test_bounds_by_entry_are_the_paper_s():
    sums = GaussianSums(Tree(64, 1, 4, 3), (1.0, 2.0, 3.0))
    entry = SCALE * sums.deviation(FAILURE, directions=9.0)
    assert NoiseBounds.by_entry(sums, 3, FAILURE) == NoiseBounds(3.0 * entry, 3.0 * entry, 6.0 * entry)


@pytest.mark.parametrize("dimension", [5, 40])
def test_with_many_dimensions_directions_bind_less_than_entries(dimension):
    sums = GaussianSums(Tree(64, 1, 2, 6), (1.0,) * 6)
    tight, paper = (way(sums, dimension, FAILURE) for way in (NoiseBounds.by_direction, NoiseBounds.by_entry))
    assert tight.matrix < paper.matrix
    assert tight.joint < paper.joint


def test_a_confidence_set_in_two_hundred_dimensions_is_finite():
    # (1 + 2/ν)^d is beyond a double there; its logarithm is not.
    level = confidence(GaussianSums(Tree(64, 1, 2, 6), (1.0,) * 6), 200, failure=FAILURE)
    assert 0.0 < level.noise.matrix < math.inf


@pytest.mark.parametrize("sigma2", [0.5, 40.0, 9000.0])
def test_a_skellam_cumulant_is_the_law_s_and_grows_faster_than_a_square(sigma2):
    noise = Skellam(sigma2)
    slopes = np.geomspace(1e-2, 3.0, 30) / max(1.0, math.sqrt(sigma2))
    window = noise.window(1e-300)
    x = np.arange(window.start, window.stop)
    for slope in slopes.tolist():
        exponents = np.log(window.pmf) + slope * x
        peak = exponents.max()
        exact = peak + math.log(np.exp(exponents - peak).sum())
        assert math.isclose(float(noise.cumulant(np.asarray(slope))), exact, rel_tol=1e-6, abs_tol=1e-12)
    wide = np.geomspace(1e-3, 300.0, 2000)
    ratios = noise.cumulant(wide) / wide**2
    assert (np.diff(ratios) >= -1e-12 * ratios[1:]).all()


@pytest.mark.parametrize("strength", [1.0, 2.0, 3.0])
def test_a_direction_costs_no_more_than_its_strength(strength):
    noise = plan(2).counter.mechanisms[0].noise
    generator = np.random.default_rng(int(strength))
    slopes = np.geomspace(1e-3, 5.0, 50)
    for _ in range(50):
        coefficients = generator.dirichlet(np.full(9, 0.5)) * strength
        coefficients = np.sqrt(coefficients[coefficients <= 1.0])
        together = sum(noise.cumulant(c * slopes) for c in coefficients)
        assert (together <= strength * noise.cumulant(slopes) * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("strength", [1.0, 3.0])
@pytest.mark.parametrize(
    "tree", [Tree(7, 1, 8, 1), Tree(100, 3, 3, 3), Tree(64, 1, 2, 6), Tree(200, 1, 300, 1)], ids=str
)
def test_a_deviation_is_chernoff_s_bound_added_over_all_prefixes(tree, strength):
    variances = tuple(1.0 + level for level in range(tree.levels))
    found = gaussian_deviation(tree, variances, FAILURE, directions=7.0, strength=strength)
    prefixes = [tree.siblings(lowest) for lowest in range(tree.nodes[0] + 1)]
    totals = np.asarray([np.dot(counts, variances) for counts in prefixes])

    def chernoff(slope):
        return (np.log(np.exp(strength * totals * slope**2 / 2.0).sum()) + math.log(2.0 * 7.0 / FAILURE)) / slope

    naive = min(chernoff(slope) for slope in np.geomspace(0.02, 20.0, 4000) / math.sqrt(totals.max()))
    # The product over levels also counts prefixes beyond the last user, so it is never below the plain sum.
    assert naive * (1.0 - 1e-9) <= found <= naive * 1.2


@pytest.mark.parametrize("shufflers", [1, 2, None])
def test_a_counter_s_deviation_is_chernoff_s_bound_from_its_laws(shufflers):
    # With 480 users the last prefix is made of all the nodes it can be, so adding up by levels counts no other.
    counter = plan(shufflers, 480).counter
    tree = counter.tree

    def cumulant(level, slope):
        """log E e^{slope·error} of a finished node: Skellam noise, a coin of one step a user, and its children's."""
        mechanism, weight = counter.mechanisms[level], counter.weights.own[level]
        step = 2.0 / mechanism.precision
        noise = 2.0 * float(mechanism.noise.sigma2) * math.sinh(weight * slope * step / 2.0) ** 2
        coins = mechanism.users * (weight * slope * step) ** 2 / 8.0
        below = tree.degree * cumulant(level - 1, (1.0 - weight) * slope) if level else 0.0
        return noise + coins + below

    prefixes = np.asarray([tree.siblings(lowest) for lowest in range(tree.nodes[0] + 1)])

    def chernoff(slope):
        exponents = 2.0 * prefixes @ [cumulant(level, slope) for level in range(tree.levels)]
        return (np.log(np.exp(exponents).sum()) + math.log(2.0 * 7.0 / FAILURE)) / slope

    naive = min(chernoff(slope) for slope in np.geomspace(0.02, 20.0, 2000) / counter.noise_std)
    assert math.isclose(counter.deviation(FAILURE, directions=7.0, strength=2.0), naive, rel_tol=1e-3)


def spectral(noise):
    """‖h‖, ‖N‖ and the largest ‖h - Nθ‖ over unit θ (in two dimensions), of every prefix's noise."""
    found = [moments(row, 2) for row in noise]
    h, n = np.asarray([f[0] for f in found]), np.asarray([f[1] for f in found])
    angles = np.linspace(0.0, 2.0 * math.pi, 60, endpoint=False)
    thetas = np.stack((np.cos(angles), np.sin(angles)))
    joint = np.linalg.norm(h[:, :, None] - n @ thetas, axis=1)
    return np.asarray([np.linalg.norm(n, 2, axis=(1, 2)).max(), np.linalg.norm(h, axis=1).max()]), joint.max(axis=0)


def shuffled_noise(shufflers):
    return lambda seed: TreeSum(plan(shufflers).counter, seeded(seed)).run(np.zeros((512, 5)))[31::32]


def reference_noise(kind):
    def run(seed):
        sums = kind(512, 32, 5, 3.0, seeded(seed))
        return np.asarray([sums.extend(np.zeros((32, 5))) for _ in range(16)])

    return run


NOISES = {
    "one shuffler": (shuffled_noise(1), lambda: plan(1).counter),
    "two shufflers": (shuffled_noise(2), lambda: plan(2).counter),
    "a binary tree": (shuffled_noise(None), lambda: plan(None).counter),
    "a trusted tree": (reference_noise(TrustedTree), lambda: TrustedTree(512, 32, 5, 3.0, seeded(0))),
    "local noise": (reference_noise(LocalSums), lambda: LocalSums(512, 32, 5, 3.0, seeded(0))),
}


@pytest.mark.parametrize("name", NOISES)
def test_simulated_noise_of_all_prefixes_stays_within_its_bounds_and_near_them(name):
    run, sums = NOISES[name]
    runs = 60
    bounds = NoiseBounds.by_direction(sums(), 2, FAILURE)
    entry = sums().deviation(FAILURE, directions=5.0)
    found = [run(seed) for seed in range(runs)]
    norms = [spectral(noise) for noise in found]
    worst = np.asarray([own for own, _ in norms])
    # Each of the three bounds has a third of the failure; for the joint one θ is fixed in advance, so any one may be.
    assert (worst[:, 0] > bounds.matrix).sum() <= allowed(runs, FAILURE / 3.0)
    assert (worst[:, 1] > bounds.vector).sum() <= allowed(runs, FAILURE / 3.0)
    assert (np.asarray([joint for _, joint in norms]) > bounds.joint).sum(axis=0).max() <= allowed(runs, FAILURE / 3.0)
    assert sum(np.abs(noise).max() > entry for noise in found) <= allowed(runs, FAILURE)
    # Not bounds that nothing could break: the typical worst case is within a factor of five.
    assert np.median(worst[:, 0]) > bounds.matrix / 5.0
    assert np.median(worst[:, 1]) > bounds.vector / 5.0


def test_a_bound_that_forgets_the_prefixes_or_the_levels_is_caught():
    runs, counter = 60, plan(2).counter
    largest_noise = [np.abs(shuffled_noise(2)(seed)).max() for seed in range(runs)]
    one_node = gaussian_deviation(Tree(32, 32, 2, 1), (counter.mechanisms[0].variance,), FAILURE)
    assert sum(noise > one_node for noise in largest_noise) > allowed(runs, FAILURE)
