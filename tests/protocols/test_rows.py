"""Each row's own formula, from its paper."""

import math
from fractions import Fraction

import numpy as np
import pytest

from cases.protocols import make
from croupier.checks import InvalidParameter
from croupier.noise import Binomial, DiscreteLaplace, Polya, PolyaDifference, Skellam, SparseBits, seeded
from croupier.privacy import privacy_loss
from croupier.protocols import ROWS
from croupier.protocols.sums.carriers import SecureAggregation, SplitAndMix


def test_published_bits_follow_algorithm_3_on_both_sides_of_tau() -> None:
    tau = 96 * math.log(2 / 1e-6) / 0.5**2
    assert make("shuffled-bits", "published").plan(32).share == Binomial(math.ceil(tau / 32), 0.5)
    assert make("shuffled-bits", "published").plan(100_000).share == Binomial(1, tau / 200_000)


@pytest.mark.parametrize(("epsilon", "published", "least"), [(0.1, 139_296, 5279), (0.5, 5600, 268), (0.9, 1728, 96)])
def test_published_bits_cost_what_the_exact_calculation_says(epsilon: float, published: int, least: int) -> None:
    assert make("shuffled-bits", "published", epsilon=epsilon).plan(32).noise == Binomial(published, 0.5)
    tight = make("shuffled-bits", "tight", epsilon=epsilon).plan(32).noise
    assert isinstance(tight, SparseBits)
    assert tight.variance <= least * 1.02


def test_published_counts_follow_theorem_39() -> None:
    noise = make("counted-messages", "published", epsilon=0.999999).plan(100).noise
    assert isinstance(noise, Polya)
    assert noise.r == pytest.approx(3 * (1 + math.log(1e6)))
    assert noise.mean == pytest.approx(201, rel=0.01)
    assert noise.variance == pytest.approx(1107, rel=0.01)
    assert 1e-21 < privacy_loss(noise).delta(1.0) < 1e-20


@pytest.mark.parametrize("users", [16, 100, 4096])
def test_published_laplace_follows_theorem_1(users: int) -> None:
    mechanism = make("laplace", "published").plan(users)
    g = math.ceil(0.5 * math.sqrt(users))
    tau = math.ceil(g / 0.5 * math.log(2 / 1e-6))
    assert mechanism.precision == g
    assert mechanism.carrier == SecureAggregation(users * g + 2 * tau + 1, tau)
    assert mechanism.share == PolyaDifference(Fraction(1, users), 2 * g)
    assert mechanism.noise == DiscreteLaplace(2 * g)


def test_published_skellam_and_gaussian_follow_theorems_2_and_4() -> None:
    g = math.ceil(10 * 0.5 * 10)
    skellam = make("skellam", "published").plan(100)
    assert skellam.noise == Skellam(4 * g * g)
    assert skellam.carrier.slack == math.ceil(4 * g * math.sqrt(math.log(2e6)) + math.sqrt(2) * math.log(2e6))
    gaussian = make("discrete-gaussian", "published").plan(100)
    assert gaussian.share.sigma2 == Fraction(4 * g * g, 100)
    assert gaussian.carrier.slack == math.ceil(2 * g * math.sqrt(2 * math.log(2e6)))
    assert gaussian.guarantee.rho == pytest.approx(0.125, rel=1e-6)


def test_published_local_laplace_leaves_the_room_of_theorem_6() -> None:
    mechanism = make("local-laplace", "published").plan(100)
    g = math.ceil(0.5 * 10)
    assert mechanism.noise == DiscreteLaplace(2 * g).times(100)
    assert mechanism.carrier.slack == math.ceil(1.6 * 2 * g * math.sqrt(200 * math.log(2e6)))


def test_published_shuffled_laplace_has_the_noise_of_half_epsilon() -> None:
    shuffled, halved = make("shuffled-laplace", "published"), make("laplace", "published", epsilon=0.25)
    assert shuffled.plan(100).noise == halved.plan(100).noise
    assert shuffled.plan(100).precision == halved.plan(100).precision


@pytest.mark.parametrize("users", [19, 100, 10_000])
def test_split_and_mix_sends_enough_pieces(users: int) -> None:
    mechanism = make("shuffled-laplace", "tight", delta=1e-9).plan(users)
    carrier = mechanism.carrier
    assert isinstance(carrier, SplitAndMix)
    assert (1 + math.exp(0.5)) * 2.0**-carrier.security <= 1e-9
    distance = (carrier.pieces - 2) * (math.log2(users) - math.log2(math.e)) - math.log2(carrier.modulus)
    assert distance >= 2 * carrier.security
    assert carrier.modulus >= users * mechanism.precision + 2 * carrier.slack + 1


def test_pieces_add_up_to_the_report_and_all_but_one_are_uniform() -> None:
    mechanism = make("shuffled-laplace", "tight").plan(50)
    carrier = mechanism.carrier
    pieces = mechanism.randomize(np.zeros(20_000), seeded(1))
    assert pieces.shape == (20_000, carrier.pieces)
    totals = pieces.sum(axis=-1) % carrier.modulus
    assert np.mean(totals == 0) > 0.8, "most shares of fifty are zero"
    cells = np.histogram(pieces, bins=16, range=(0, carrier.modulus))[0]
    expected = pieces.size / 16
    # Chi-square with 15 degrees of freedom above 90: probability below 1e-12.
    assert ((cells - expected) ** 2 / expected).sum() < 90


@pytest.mark.parametrize("side", ["over", "under"])
def test_counts_err_to_one_side_with_certainty(side: str) -> None:
    mechanism = make("counted-messages", "tight", side=side).plan(50)
    rng = np.random.default_rng(4)
    values = rng.integers(0, 2, (20_000, 50))
    decoded = mechanism.analyze_many(mechanism.collect(mechanism.randomize(values, seeded(5))))
    error = mechanism.estimate(decoded) - values.sum(axis=1)
    assert np.all(error >= 0) if side == "over" else np.all(error <= 0)
    release = mechanism.run(values[0], seeded(6))
    low, high = release.interval(0.01)
    assert low <= values[0].sum() <= high
    assert release.sum in (low, high)


def test_tight_counts_have_the_least_error_quantile() -> None:
    mechanism = make("counted-messages", "tight", epsilon=1.0).plan(100)
    assert mechanism.radius(0.05) <= 44
    assert mechanism.noise.variance < 45


def test_declared_range_maps_to_the_values_own_units() -> None:
    mechanism = make("laplace", "tight", epsilon=2.0, low=-3.0, high=7.0).plan(200)
    values = np.linspace(-3, 7, 200)
    release = mechanism.run(values, seeded(8))
    assert abs(release.sum - values.sum()) <= release.radius(1e-9)
    assert mechanism.variance == pytest.approx(100 * make("laplace", "tight", epsilon=2.0).plan(200).variance)


def test_clipping_happens_only_when_asked_for() -> None:
    asked = make("laplace", "tight", clip=True).plan(100)
    assert np.array_equal(asked.values.unit([-5, 0.5, 9]), [0, 0.5, 1])
    vectors = make("shuffled-vectors", "tight", clip=True).plan(100)
    assert np.linalg.norm(2 * vectors.values.unit([3.0, 4.0, 0.0]) - 1) == pytest.approx(1)


def test_binary_values_are_the_two_ends_only() -> None:
    mechanism = make("laplace", "tight", binary=True).plan(100)
    assert mechanism.precision == 1
    assert mechanism.rounding_variance == 0
    with pytest.raises(InvalidParameter, match="value = 0.5 .* 0 or 1"):
        mechanism.randomize(0.5, seeded(0))


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.notion == "pure"])
def test_pure_protocols_refuse_a_delta(name: str) -> None:
    with pytest.raises(InvalidParameter, match="delta = 0.1"):
        make(name, "tight", delta=0.1)


def test_central_noise_needs_the_analyzers_source() -> None:
    mechanism = make("central-laplace", "tight").plan(10)
    view = mechanism.collect(mechanism.randomize(np.zeros(10), seeded(1)))
    with pytest.raises(InvalidParameter, match="source"):
        mechanism.analyze(view)


@pytest.mark.parametrize("name", ["laplace", "shuffled-bits", "shuffled-levels", "local-laplace", "shuffled-laplace"])
@pytest.mark.parametrize("users", [32, 10_000, 10**6])
def test_radius_holds_in_law_up_to_a_million_users(name: str, users: int) -> None:
    mechanism = make(name, "tight").plan(users)
    rng = np.random.default_rng(9)
    levels = mechanism.precision
    # Values half-way between two levels round with the largest variance.
    half = not mechanism.values.binary
    unit = 0.5 / levels if half else 0.0
    sums = rng.binomial(users, 0.5, 4_000) if half else np.zeros(4_000, dtype=np.int64)
    error = mechanism.estimate(mechanism.noisy(sums, seeded(10))) - users * unit
    # 4,000 trials at 5 %: more than 310 failures have probability below 1e-12.
    assert (np.abs(error) > mechanism.radius(0.05) * (1 + 1e-9)).sum() <= 310


def test_leaving_noise_out_biases_only_noise_with_a_mean() -> None:
    assert make("shuffled-bits", "tight", honest_fraction=0.8).plan(100).omission_bias == 0
    published = make("shuffled-bits", "published", honest_fraction=0.8).plan(100)
    assert published.omission_bias == pytest.approx(20 * published.share.trials / 2)
