"""Counters of other authors: calibrated right, with the covariance they are known for, one by one and all at once."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp

from croupier.checks import InvalidParameter
from croupier.noise import DiscreteLaplace, seeded
from croupier.simulation.counting import CountingError, RunningSum
from croupier.simulation.reference_sums import CentralTree, SquareRoot, gaussian_scale, local_sum
from croupier.simulation.streams import bernoulli_stream

TARGET = {"epsilon": 1.0, "delta": 1e-6}
CENTRAL = [CentralTree, SquareRoot]


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1.0, 1e-6), (0.1, 1e-6), (0.01, 1e-10), (3.0, 1e-3), (10.0, 1e-12), (0.5, 0.3), (50.0, 1e-6)],
)
def test_the_gaussian_scale_is_the_least_that_meets_the_target(epsilon: float, delta: float) -> None:
    """δ by the integral of max(0, p - e^ε q) over the real line, in fifty digits."""
    scale = gaussian_scale(epsilon, delta)
    with mp.workdps(50):
        for share, side in ((1 + 1e-9, -1), (1 - 1e-9, 1)):
            sigma = mp.mpf(scale) * share
            # N(0, σ²) against N(1, σ²): the first is e^ε times denser left of ½ - εσ².
            edge = mp.mpf("0.5") - epsilon * sigma**2
            tails = [mp.erfc(-(edge - centre) / (sigma * mp.sqrt(2))) / 2 for centre in (0, 1)]
            found = tails[0] - mp.exp(epsilon) * tails[1]
            assert mp.sign(found - delta) == side


class OneHot:
    """Stands in for a generator: draw number `which` is one deviation, all others are nothing."""

    def __init__(self, which: int) -> None:
        self.which, self.seen, self.scales = which, 0, set()

    def normal(self, mean: float, scale: float, size: int | None = None) -> Any:
        assert mean == 0.0
        self.scales.add(scale)
        count = 1 if size is None else size
        drawn = np.where(np.arange(self.seen, self.seen + count) == self.which, scale, 0.0)
        self.seen += count
        return float(drawn[0]) if size is None else drawn


class Source:
    def __init__(self, generator: OneHot) -> None:
        self.generator = generator


def linear_map(kind: type, users: int, length: int, one_by_one: bool) -> np.ndarray:
    """How the noises that are drawn enter the estimates: one column for each draw."""
    columns, draws = [], 1
    which = 0
    while which < draws:
        generator = OneHot(which)
        running = kind(users, Source(generator), **TARGET)
        zeros = np.zeros(length)
        columns.append(np.array([running.update(0) for _ in zeros]) if one_by_one else running.run(zeros))
        draws, which = generator.seen, which + 1
    return np.array(columns).T


@pytest.mark.parametrize("kind", CENTRAL)
@pytest.mark.parametrize(("users", "length"), [(1, 1), (2, 2), (3, 3), (8, 8), (13, 13), (16, 16), (21, 11), (32, 32)])
def test_one_by_one_and_all_at_once_have_the_same_covariance(kind: type, users: int, length: int) -> None:
    """Both are linear in independent Gaussians, so the same covariance is the same law."""
    streaming, whole = (linear_map(kind, users, length, one_by_one) for one_by_one in (True, False))
    assert streaming @ streaming.T == pytest.approx(whole @ whole.T, rel=1e-9, abs=1e-9)


def dyadic_blocks(t: int, top: int) -> int:
    """How many blocks of length 1, 2, 4, ..., top make up 1..t, the largest first."""
    return t // top + (t % top).bit_count()


@pytest.mark.parametrize("users", [1, 2, 3, 7, 8, 9, 16, 21, 64])
def test_the_tree_has_as_many_nodes_in_a_prefix_as_brute_force_counts(users: int) -> None:
    levels = max(1, math.ceil(math.log2(max(users, 2))))
    covariance = linear_map(CentralTree, users, users, False)
    variances = (covariance**2).sum(axis=1)
    node = gaussian_scale(**TARGET) ** 2 * levels
    expected = [node * dyadic_blocks(t, 2 ** (levels - 1)) for t in range(1, users + 1)]
    assert variances == pytest.approx(expected)
    running = CentralTree(users, seeded(1), **TARGET)
    assert running._std == pytest.approx(math.sqrt(max(expected)))
    assert running.memory_nodes == levels


@pytest.mark.parametrize("users", [1, 2, 3, 8, 21, 64])
@pytest.mark.parametrize("kind", CENTRAL)
def test_all_estimates_together_hide_a_user_as_well_as_one_gaussian_release(kind: type, users: int) -> None:
    """Estimates are A x + N z; a user's unit change is as plain as a shift of N⁻¹A e_j of standard Gaussians."""
    noise = linear_map(kind, users, users, True)
    shifts = np.linalg.solve(noise, np.tril(np.ones((users, users))))
    plainest = float(np.linalg.norm(shifts, axis=0).max())
    allowed = 1.0 / gaussian_scale(**TARGET)
    assert plainest <= allowed * (1 + 1e-9)
    if kind is SquareRoot:
        assert plainest == pytest.approx(allowed)


@pytest.mark.parametrize("users", [1, 2, 5, 40])
def test_square_root_factors_multiply_to_the_matrix_of_ones(users: int) -> None:
    factors = SquareRoot(users, seeded(1), **TARGET)._factors
    lower = np.array(
        [[factors[row - column] if row >= column else 0.0 for column in range(users)] for row in range(users)]
    )
    assert lower @ lower == pytest.approx(np.tril(np.ones((users, users))), abs=1e-12)
    # Σ_j C(2j, j)/4^j x^j is (1 - x)^{-1/2}.
    assert factors == pytest.approx([math.comb(2 * j, j) / 4**j for j in range(users)])


@pytest.mark.parametrize("users", [1, 2, 9, 33])
def test_the_square_root_factorization_has_its_known_variances(users: int) -> None:
    """S_n·S_t·σ² at time t: z has the deviation that hides a user, who moves F x by √S_n at most."""
    squares = np.cumsum([(math.comb(2 * j, j) / 4**j) ** 2 for j in range(users)])
    variances = (linear_map(SquareRoot, users, users, True) ** 2).sum(axis=1)
    sigma = gaussian_scale(**TARGET)
    assert variances == pytest.approx(squares[-1] * squares * sigma**2)
    assert SquareRoot(users, seeded(1), **TARGET)._std == pytest.approx(squares[-1] * sigma)


@pytest.mark.parametrize("kind", CENTRAL)
def test_estimates_are_the_prefix_sums_plus_that_noise(kind: type) -> None:
    values = np.linspace(0.0, 1.0, 20)
    with_values, with_zeros = (kind(20, seeded(3), **TARGET).run(v) for v in (values, np.zeros(20)))
    assert with_values - with_zeros == pytest.approx(np.cumsum(values))
    streaming, silent = kind(20, seeded(3), **TARGET), kind(20, seeded(3), **TARGET)
    differences = [streaming.update(value) - silent.update(0) for value in values]
    assert differences == pytest.approx(np.cumsum(values))


@pytest.mark.parametrize("kind", CENTRAL)
def test_errors_are_within_the_bound(kind: Callable[..., RunningSum]) -> None:
    """100 runs at β = 0.05: more than 33 failures have probability below 1e-18."""
    values = bernoulli_stream(500, 0.5, 1)
    error = CountingError.measure(lambda run: kind(500, seeded(run), **TARGET), values, 100)
    bound = kind(500, seeded(1), **TARGET).bound(0.05)
    assert error.within(bound) >= 0.67
    assert error.within(bound / 3) < 0.67


@pytest.mark.parametrize("kind", CENTRAL)
@pytest.mark.parametrize("count", [1, 13, 20])
def test_the_variance_of_every_estimate_is_that_of_its_noise(kind: type, count: int) -> None:
    exact = (linear_map(kind, 20, count, True) ** 2).sum(axis=1)
    assert kind(20, seeded(1), **TARGET).mean_squares(np.ones(count)) == pytest.approx(exact)


def test_the_worst_error_of_a_reference_is_measured_where_its_variance_is_largest() -> None:
    """300 runs: the mean square is within 0.6 of the variance but with probability below 1e-9."""
    error = CountingError.measure(lambda run: SquareRoot(500, seeded(run), **TARGET), np.ones(500), 300)
    assert error.rms_error_worst**2 == pytest.approx(SquareRoot(500, seeded(1), **TARGET)._std ** 2, rel=0.6)
    few = CountingError.measure(lambda run: SquareRoot(500, seeded(run), **TARGET), np.ones(500), 3)
    assert few.rms_error_worst < few.rms_error_largest


def test_the_square_root_factorization_beats_the_tree() -> None:
    for users in (2**10, 2**16):
        assert SquareRoot(users, seeded(1), **TARGET)._std < CentralTree(users, seeded(1), **TARGET)._std


def test_a_local_sum_adds_everyones_own_noise() -> None:
    running = local_sum(50, seeded(1), epsilon=0.5)
    plan = running.plan
    assert plan.mechanisms[0].users == 1
    assert plan.mechanisms[0].noise == DiscreteLaplace(2)
    assert plan.privacy.notion == "pure"
    assert plan.loss.pure == 0.5
    assert plan.noise_std == pytest.approx(math.sqrt(50 * DiscreteLaplace(2).variance))
    assert plan.pending_error == 0.0
    values = bernoulli_stream(50, 0.5, 1)
    assert abs(running.run(values)[-1] - values.sum()) < running.bound(1e-9)


@pytest.mark.parametrize("kind", CENTRAL)
def test_more_users_than_planned_are_refused(kind: Callable[..., RunningSum]) -> None:
    running = kind(3, seeded(1), **TARGET)
    for _ in range(3):
        running.update(1)
    with pytest.raises(InvalidParameter, match="users = 4 .*at most 3, as planned"):
        running.update(1)
    with pytest.raises(InvalidParameter, match=r"values = \(4,\).*at most 3"):
        running.run(np.ones(4))


@pytest.mark.parametrize("kind", CENTRAL)
@pytest.mark.parametrize("value", [1.5, -0.1, math.nan, math.inf, "one", None])
def test_a_value_outside_the_range_is_refused_one_by_one_and_in_an_array(
    kind: Callable[..., RunningSum], value: object
) -> None:
    with pytest.raises(InvalidParameter, match="value = "):
        kind(5, seeded(1), **TARGET).update(value)
    with pytest.raises(InvalidParameter, match="value"):
        kind(5, seeded(1), **TARGET).run([0.5, value])  # type: ignore[list-item]


@pytest.mark.parametrize("kind", CENTRAL)
def test_an_array_of_another_shape_is_refused(kind: Callable[..., RunningSum]) -> None:
    for values in (np.ones((2, 2)), [], np.float64(1.0)):
        with pytest.raises(InvalidParameter, match=r"values = .*\(t,\)"):
            kind(5, seeded(1), **TARGET).run(values)


BAD: list[tuple[dict[str, object], str]] = [
    ({"users": 0}, "users = 0"),
    ({"users": 2.5}, "users = 2.5"),
    ({"epsilon": 0}, "epsilon = 0"),
    ({"epsilon": math.nan}, "epsilon = nan"),
    ({"delta": 0}, "delta = 0"),
    ({"delta": 1}, "delta = 1"),
]


@pytest.mark.parametrize("kind", CENTRAL)
@pytest.mark.parametrize(("change", "found"), BAD, ids=[found for _, found in BAD])
def test_bad_parameters_are_refused_by_name(
    kind: Callable[..., RunningSum], change: dict[str, object], found: str
) -> None:
    options = {"users": 10} | TARGET | change
    with pytest.raises(InvalidParameter, match=f"{found} "):
        kind(options.pop("users"), seeded(1), **options)


@pytest.mark.parametrize("failure", [0, 1, math.nan])
def test_a_failure_probability_must_be_one(failure: float) -> None:
    with pytest.raises(InvalidParameter, match="failure"):
        CentralTree(10, seeded(1), **TARGET).bound(failure)
