"""The confidence set, by linear algebra: whatever noise and rewards do within their bounds, θ stays in it.

The events are built by hand. With G = Σxxᵀ, noise N, h and S = Σxη, the sums are G + N and Gθ + S + h. The
self-normalised bound at ρ says ‖S‖_{(G+ρI)⁻¹} <= σ√(2 log(2/α) + log det(G/ρ + I)), and the adversary may sit on it.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.checks import InvalidParameter
from croupier.continual import Tree, gaussian_deviation
from croupier.linear import SCALE, Confidence, confidence, statistics_dimension
from croupier.linear.ellipsoid import NoiseBounds

FEW = settings(derandomize=True, deadline=None, max_examples=80)
FAILURE, SIGMA = 0.1, 0.5


@dataclass
class GaussianSums:
    """Sums of 40 blocks with Gaussian noise of this variance each; it remembers at what failures it was asked."""

    variance: float = 9.0

    def __post_init__(self):
        self.asked = []

    def deviation(self, failure, *, directions=1.0, strength=1.0):
        self.asked.append(failure)
        tree = Tree(40, 1, 2, 1)
        return gaussian_deviation(tree, (self.variance,), failure, directions=directions, strength=strength)


def sums_of(vector, matrix):
    """The sums whose moments are these."""
    return np.concatenate((vector, matrix[np.triu_indices(len(vector))])) / SCALE


def bound_of(gram, rho=1.0):
    """How large ‖S‖ may be in the norm of (G + ρI)⁻¹."""
    growth = np.linalg.slogdet(gram / rho + np.eye(len(gram)))[1]
    return SIGMA * math.sqrt(2.0 * math.log(2.0 / FAILURE) + growth)


def distance(rule, theta):
    """‖θ̂ - θ‖_V, from the matrix V itself."""
    root = np.asarray(rule.root)
    v = np.linalg.inv(root @ root.T)
    gap = np.asarray(rule.theta) - theta
    return math.sqrt(float(gap @ v @ gap))


def symmetric(generator, dimension, norm):
    raw = generator.normal(size=(dimension, dimension))
    raw = raw + raw.T
    return norm * raw / np.abs(np.linalg.eigvalsh(raw)).max()


def unit(generator, dimension):
    raw = generator.normal(size=dimension)
    return raw / np.linalg.norm(raw)


def gram_of(generator, dimension, users):
    """Σxxᵀ of unit vectors that favour some directions."""
    x = generator.normal(size=(users, dimension)) * np.geomspace(1.0, generator.uniform(0.01, 1.0), dimension)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x.T @ x


@pytest.mark.parametrize("dimension", [1, 3, 8])
@pytest.mark.parametrize("users", [0, 17, 10_000])
def test_the_published_radius_is_that_of_the_paper(dimension, users):
    sums = GaussianSums()
    level = confidence(sums, dimension, failure=FAILURE, published=True)
    entry = SCALE * sums.deviation(FAILURE / 2.0, directions=statistics_dimension(dimension))
    ridge = 2.0 * entry * dimension
    assert math.isclose(level.ridge, ridge)
    assert math.isclose(level.least, ridge / 2.0)
    assert math.isclose(level.most, 1.5 * ridge)
    # [TKMS23] Theorem C.3, as printed.
    growth = dimension * math.log(3.0 + 2.0 * users / (dimension * ridge))
    printed = SIGMA * math.sqrt(2.0 * math.log(2.0 / FAILURE) + growth) + math.sqrt(1.5 * ridge) + math.sqrt(ridge / 2)
    assert math.isclose(level.published_radius(users), printed)
    assert level.rule(np.zeros(statistics_dimension(dimension)), users).radius == level.published_radius(users)


@given(st.integers(1, 6), st.integers(0, 10**6))
@FEW
def test_the_tight_radius_is_its_formula(dimension, seed):
    generator = np.random.default_rng(seed)
    matrix = gram_of(generator, dimension, 300) + symmetric(generator, dimension, 5.0)
    level = Confidence(dimension, 40.0, NoiseBounds(7.0, 50.0, 11.0), FAILURE)
    ridges = np.asarray([6.0, 8.0, 40.0])
    found = level.tight_radii(np.linalg.eigvalsh(matrix), ridges)
    for ridge, radius in zip(ridges, found, strict=True):
        v = matrix + ridge * np.eye(dimension)
        least = 1.0 / np.linalg.norm(np.linalg.inv(v), 2)
        lifted = max(7.0 + 1.0 - ridge, 0.0)
        growth = np.linalg.slogdet(v + lifted * np.eye(dimension))[1]
        heard = SIGMA * math.sqrt(2.0 * math.log(2.0 / FAILURE) + max(growth, 0.0))
        naive = math.sqrt(1.0 + lifted / least) * heard + (11.0 + ridge) / math.sqrt(least)
        assert math.isclose(radius, naive, rel_tol=1e-9)


@given(st.integers(1, 5), st.floats(0.0, 50.0), st.floats(0.0, 80.0), st.integers(0, 10**6))
@FEW
def test_every_step_of_the_tight_bound_holds(dimension, noise, ridge, seed):
    generator = np.random.default_rng(seed)
    gram, n = gram_of(generator, dimension, 400), symmetric(generator, dimension, noise)
    eye, v = np.eye(dimension), gram + n + ridge * np.eye(dimension)
    least = np.linalg.eigvalsh(v)[0]
    if least < 1e-3:
        return
    lifted = max(noise + 1.0 - ridge, 0.0)
    kappa = 1.0 + lifted / least
    slack = 1e-9 * np.linalg.norm(v, 2) * kappa
    # Σxxᵀ + I <= V + lifted·I <= κV, so norms by V⁻¹ are at most κ times those by (Σxxᵀ + I)⁻¹.
    assert np.linalg.eigvalsh(v + lifted * eye - gram - eye)[0] >= -slack
    assert np.linalg.eigvalsh(kappa * v - v - lifted * eye)[0] >= -slack
    s = generator.normal(size=dimension)
    by_v, by_gram = s @ np.linalg.solve(v, s), s @ np.linalg.solve(gram + eye, s)
    assert by_v <= kappa * by_gram * (1.0 + 1e-9)
    assert np.linalg.slogdet(gram + eye)[1] <= np.linalg.slogdet(v + lifted * eye)[1] + 1e-9
    # ‖h - (N + λI)θ‖_{V⁻¹} <= (‖h - Nθ‖ + λ)/√μ for ‖θ‖ <= 1.
    theta, h = unit(generator, dimension), generator.normal(size=dimension)
    rest = h - n @ theta - ridge * theta
    reach = math.sqrt(rest @ np.linalg.solve(v, rest))
    assert reach <= (np.linalg.norm(h - n @ theta) + ridge) / math.sqrt(least) * (1.0 + 1e-9)


@pytest.mark.parametrize("matrix", [0.0, 50.0])
@pytest.mark.parametrize("users", [2e3, 1e6])
def test_in_one_dimension_the_tight_radius_is_attained_to_the_last_bit(matrix, users):
    # Noise pulls the sum down by its bound, and θ = -1 lets rewards, noise and ridge push the same way.
    joint = 70.0
    level = Confidence(1, 4.0 * (matrix + 1.0), NoiseBounds(matrix, joint + matrix, joint), FAILURE, SIGMA)
    theta, gram = np.asarray([-1.0]), np.asarray([[users]])

    def rule_under(part):
        s = part * bound_of(gram) * math.sqrt(users + 1.0)
        h = part * joint - matrix * theta
        return level.rule(sums_of(gram @ theta + s + h, gram - matrix), int(users))

    pushed = rule_under(1.0)
    value = 1.0 / np.asarray(pushed.root)[0, 0] ** 2
    assert value - users < level.ridge - matrix - 1e-6, "not the fixed ridge"
    assert value - users <= 1.0 + 1e-6, "where the bound loses nothing"
    assert math.isclose(distance(pushed, theta), pushed.radius, rel_tol=1e-9)
    assert rule_under(0.999).holds(theta)
    assert not rule_under(1.001).holds(theta)


@pytest.mark.slow
@given(st.integers(1, 4), st.integers(0, 10**6), st.booleans(), st.sampled_from([30, 400, 20_000]))
@FEW
def test_whatever_stays_within_the_bounds_leaves_the_parameter_in_the_set(dimension, seed, published, users):
    generator = np.random.default_rng(seed)
    noise, joint, ridge = generator.uniform(0.0, 30.0), generator.uniform(0.0, 40.0), generator.uniform(1.0, 40.0)
    level = Confidence(
        dimension, noise + ridge, NoiseBounds(noise, joint + noise, joint), FAILURE, SIGMA, published=published
    )
    gram, theta = gram_of(generator, dimension, users), unit(generator, dimension)
    worst = np.linalg.eigh(gram)[1][:, 0]
    n = (-noise * np.outer(worst, worst), symmetric(generator, dimension, noise))[int(generator.integers(2))]
    rest = (worst, unit(generator, dimension), -theta)[int(generator.integers(3))]
    aim = (worst, unit(generator, dimension), np.linalg.solve(gram + np.eye(dimension), rest))
    s = aim[int(generator.integers(3))]
    # The largest S along its direction that both normalisations allow.
    s = s * min(
        bound_of(gram, rho) / math.sqrt(s @ np.linalg.solve(gram + rho * np.eye(dimension), s))
        for rho in (1.0, level.least)
    )
    h = joint * rest + n @ theta
    rule = level.rule(sums_of(gram @ theta + s + h, gram + n), users)
    assert rule.holds(theta)
    assert distance(rule, theta) <= rule.radius * (1.0 + 1e-9)


def test_the_chances_that_a_part_of_the_set_misses_add_up_to_the_failure():
    # Noise may leave its bounds, and rewards the self-normalised bound at ρ = 1, on which every chosen ridge rests.
    # While noise outweighs users the ridge is the fixed one; its radius must follow from these two, or adds a third.
    sums, users = GaussianSums(), 1
    level = confidence(sums, 2, failure=FAILURE)
    noise = 3.0 * sums.asked[0]
    assert set(sums.asked) == {sums.asked[0]}

    def chance(heard, growth):
        """α' from σ√(2 log(1/α') + growth)."""
        return math.exp(0.5 * (growth - (heard / SIGMA) ** 2))

    values = np.asarray([300.0, 700.0])
    ridge = level.noise.matrix + 2.0
    push = (level.noise.joint + ridge) / math.sqrt(values[0] + ridge)
    radius = float(level.tight_radii(values, np.asarray([ridge]))[0])
    chosen = chance(radius - push, float(np.log(values + ridge).sum()))
    early = level.rule(sums_of(np.zeros(2), -0.9 * level.noise.matrix * np.eye(2)), users)
    v = np.linalg.norm(np.asarray(early.root), axis=0) ** -2
    np.testing.assert_allclose(v, level.ridge - 0.9 * level.noise.matrix)
    pushes = (
        math.sqrt(level.most) + level.noise.vector / math.sqrt(level.least),
        (level.noise.joint + level.ridge) / math.sqrt(v.min()),
    )
    heard = early.radius - min(pushes)
    same_event = heard >= SIGMA * math.sqrt(2.0 * math.log(2.0 / FAILURE) + float(np.log(v).sum())) - 1e-9
    own = 0.0 if same_event else chance(heard, 2.0 * math.log(level.most / level.least + users / (2.0 * level.least)))
    assert noise + chosen + own <= FAILURE * (1.0 + 1e-9)


def test_the_rule_takes_the_narrowest_of_its_sets():
    level = confidence(GaussianSums(), 2, failure=FAILURE)
    gram = np.diag([900.0, 4000.0])
    rule = level.rule(sums_of(np.zeros(2), gram), 4900)
    width = rule.radius * np.linalg.norm(np.asarray(rule.root))
    fixed = replace(level, published=True).rule(sums_of(np.zeros(2), gram), 4900)
    assert width <= fixed.radius * np.linalg.norm(np.asarray(fixed.root))
    ridges = np.linspace(0.0, 1.0, 500) * level.ridge
    radii = level.tight_radii(np.diag(gram), ridges)
    widths = radii * np.sqrt((1.0 / (np.diag(gram)[None] + ridges[:, None])).sum(axis=1))
    assert math.isclose(width, widths.min(), rel_tol=1e-2)


def test_the_price_of_noise_goes_as_users_come_and_without_noise_there_is_none():
    noisy, clean = confidence(GaussianSums(), 3, failure=FAILURE), confidence(None, 3, failure=FAILURE)
    ratios = []
    for users in (10**3, 10**5, 10**7):
        sums = sums_of(np.zeros(3), users / 3.0 * np.eye(3))
        ratios.append(noisy.rule(sums, users).radius / clean.rule(sums, users).radius)
    assert ratios[0] > ratios[1] > ratios[2] >= 1.0
    assert ratios[0] > 2.0
    assert ratios[2] < 1.05
    published = replace(noisy, published=True)
    assert published.rule(sums, users).radius > 4.0 * clean.rule(sums, users).radius


LEVELS = {published: confidence(GaussianSums(), 3, failure=FAILURE, published=published) for published in (False, True)}
ENTRIES = st.floats(-1e100, 1e100) | st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1e-300, -1e100])


@given(st.lists(ENTRIES, min_size=9, max_size=9), st.booleans(), st.integers(0, 10**6))
@FEW
def test_v_is_positive_definite_whatever_the_sums_are(entries, published, users):
    rule = LEVELS[published].rule(np.asarray(entries), users)
    root = np.asarray(rule.root)
    lengths = np.linalg.norm(root, axis=0)
    assert np.isfinite(root).all()
    assert (lengths > 0.0).all()
    # Columns are orthogonal, so V⁻¹ has these lengths, squared, as eigenvalues.
    np.testing.assert_allclose(root.T @ root / np.outer(lengths, lengths), np.eye(3), atol=1e-9)
    assert np.isfinite(rule.theta).all()
    assert 0.0 < rule.radius < math.inf
    assert np.isfinite(rule.scores(np.eye(3))).all()


def test_noise_beyond_its_bound_meets_a_floor():
    for published in (True, False):
        level = confidence(GaussianSums(), 2, failure=FAILURE, published=published)
        rule = level.rule(sums_of(np.ones(2), -10.0 * level.ridge * np.eye(2)), 100)
        np.testing.assert_allclose(np.linalg.norm(np.asarray(rule.root), axis=0) ** -2, level.least)


def test_the_fixed_ridge_is_where_the_paper_s_radius_is_least():
    level = confidence(GaussianSums(), 3, failure=FAILURE)

    def cost(ridge):
        return math.sqrt(ridge + level.noise.matrix) + level.noise.vector / math.sqrt(ridge - level.noise.matrix)

    tried = level.noise.matrix * (1.0 + np.geomspace(0.005, 20.0, 4000))
    assert cost(level.ridge) <= min(map(cost, tried.tolist())) * (1.0 + 1e-3)
    assert level.least >= 1.0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dimension", {"dimension": 0}),
        ("ridge", {"ridge": 0.0}),
        ("failure", {"failure": 0.0}),
        ("failure", {"failure": 1.0}),
        ("reward_noise", {"reward_noise": -1.0}),
        ("exploration", {"exploration": 0.0}),
        ("ridge", {"ridge": math.nan}),
    ],
)
def test_a_senseless_confidence_is_refused_by_name(name, change):
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        Confidence(**({"dimension": 2, "ridge": 1.0, "noise": NoiseBounds(0, 0, 0), "failure": 0.1} | change))


def test_a_wrong_failure_is_named_as_it_was_given():
    with pytest.raises(InvalidParameter, match=r"^failure = -1 "):
        confidence(GaussianSums(), 2, failure=-1)
