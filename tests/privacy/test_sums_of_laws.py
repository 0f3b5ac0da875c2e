"""Laws added up by short transforms, against direct sums: what is lost and folded stays within the stated error."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from croupier.noise import Binomial, DiscreteGaussian, DiscreteLaplace, Poisson, Polya
from croupier.noise.likelihoods import Pair, worst_pair
from croupier.privacy.composition import _discounted, _tabulate, _variance
from croupier.privacy.grid import NEGLIGIBLE, SURE, Law, _log_moments, law_of_sum, on_grid, rates_between

STEP, TILT = 1e-3, 3.0
GROUPS = {
    "alike": [DiscreteGaussian(90 + i) for i in range(5)],
    "uneven": [Poisson(40), Poisson(60), Polya(9, 0.7)],
    "wide and narrow": [DiscreteLaplace(400), DiscreteGaussian(30), Binomial(900, 0.5)],
    "two": [DiscreteGaussian(200), DiscreteGaussian(201)],
}
every_group = pytest.mark.parametrize("noises", GROUPS.values(), ids=GROUPS)


def pairs(noises) -> list[Pair]:
    return [worst_pair(noise, (1, -1)) for noise in noises]


def gridded(noises) -> tuple[list[Law], np.ndarray]:
    found = pairs(noises)
    deviations = [math.sqrt(_variance(pair, TILT)) / STEP for pair in found]
    rates = rates_between(min(deviations), math.hypot(*deviations))
    return [on_grid(pair, STEP, TILT, rates)[0] for pair in found], rates


def direct(laws: list[Law]) -> tuple[int, np.ndarray]:
    """The sum over every combination of grid points, without a transform, in long doubles."""
    total = np.ones(1, dtype=np.longdouble)
    for law in laws:
        total = np.convolve(total, law.weights.astype(np.longdouble))
    return sum(law.start for law in laws), total


def distance(law: Law, start: int, weights: np.ndarray) -> float:
    """The total difference between a law and weights from `start` on, also outside of what the law holds."""
    held = weights[law.start - start : law.start - start + len(law.weights)]
    outside = float(weights.sum() - held.sum())
    return outside + float(np.abs(held - law.weights).sum())


@every_group
def test_a_sum_is_within_its_error_of_every_combination_listed(noises) -> None:
    laws, rates = gridded(noises)
    total, (start, weights) = law_of_sum(laws, rates), direct(laws)
    own = total.error - math.fsum(law.error for law in laws)
    assert distance(total, start, weights) <= own <= 2e-11
    assert own >= 4 * NEGLIGIBLE


@every_group
def test_copies_are_the_sum_of_equal_laws(noises) -> None:
    (law, *_), rates = gridded(noises)
    start, weights = direct([law] * 3)
    for total in (law.times(3, rates), law_of_sum((law,), rates, copies=3), law_of_sum((law, law, law), rates)):
        assert distance(total, start, weights) <= total.error - 3 * law.error <= 1e-10


def test_a_sum_is_held_on_less_than_its_range() -> None:
    laws, rates = gridded(GROUPS["alike"])
    start, weights = direct(laws)
    total = law_of_sum(laws, rates)
    assert len(total.weights) < 0.5 * len(weights)
    # What lies outside is real, so the test of the error would notice a bound that is forgotten.
    low, high = total.start - start, total.start - start + len(total.weights)
    assert 0.0 < float(weights[:low].sum()) <= NEGLIGIBLE
    assert 0.0 < float(weights[high:].sum()) <= NEGLIGIBLE


@every_group
def test_moments_bound_how_far_a_law_reaches(noises) -> None:
    laws, rates = gridded(noises)
    for law in laws:
        points = law.start + np.arange(len(law.weights))
        held = law.weights > 0
        for rate, above, below in zip(rates, *np.split(law.log_moments, 2), strict=True):
            for moment, sign in ((above, 1.0), (below, -1.0)):
                exponents = sign * rate * points[held] + np.log(law.weights[held])
                truth = float(np.logaddexp.reduce(exponents))
                assert moment == (pytest.approx(truth, abs=1e-7) if moment < math.inf else math.inf)
                assert moment < math.inf or rate > rates[2]


def test_moments_beyond_a_double_are_infinite() -> None:
    found = _log_moments(np.asarray([-3000.0, 0.0, 3000.0]), np.asarray([0.25, 0.5, 0.25]), np.asarray([0.5, 1.0]))
    assert found.tolist() == [math.inf] * 4


def test_a_law_that_reaches_too_far_for_a_bound_is_kept_whole() -> None:
    far = Law(0, np.asarray([0.5, *[0.0] * 8, 0.5]), 0.0, np.full(2, math.inf))
    total = law_of_sum((far, far), np.ones(1))
    assert total.start == 0
    assert total.weights == pytest.approx(np.convolve(far.weights, far.weights), abs=1e-15)


def test_rates_double_and_hold_the_best_of_everylaw_of_sum() -> None:
    rates = rates_between(10.0, 1000.0)
    assert np.array_equal(rates[1:], 2.0 * rates[:-1])
    for deviation in (10.0, 70.0, 1000.0):
        best = math.sqrt(2.0 * SURE) / deviation
        assert min(abs(math.log2(rate / best)) for rate in rates) <= 0.5 + 1e-9
    assert math.exp(-SURE) < NEGLIGIBLE


def test_what_the_grid_drops_at_the_ends_is_charged() -> None:
    pair = worst_pair(DiscreteGaussian(50), (1,))
    rates = np.ones(1)
    law, log_mass = on_grid(pair, STEP, TILT, rates)
    exact = pair.masses * np.exp(TILT * pair.losses)
    # Splitting upwards raises what is tilted by at most one grid step.
    assert math.log(exact.sum()) - 1e-9 <= log_mass <= math.log(exact.sum()) + TILT * STEP
    first, last = STEP * law.start, STEP * (law.start + len(law.weights) - 1)
    dropped = float(exact[(pair.losses < first) | (pair.losses > last)].sum() / exact.sum())
    assert 0.0 < dropped <= law.error
    assert law.weights.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("tilt", [0.5, 3.0, 40.0])
def test_a_grid_keeps_the_mass_under_both_laws(tilt: float) -> None:
    pair = worst_pair(DiscreteGaussian(50), (1,))
    law, log_mass = on_grid(pair, STEP, tilt, np.ones(1))
    losses = STEP * (law.start + np.arange(len(law.weights)))
    own = law.weights * np.exp(log_mass - tilt * losses)
    held = (pair.losses > losses[0] - STEP) & (pair.losses < losses[-1] + STEP)
    assert own.sum() == pytest.approx(pair.masses[held].sum(), rel=1e-9)
    assert (own * np.exp(-losses)).sum() == pytest.approx((pair.masses * np.exp(-pair.losses))[held].sum(), rel=1e-9)


def test_many_distinct_laws_give_the_table_of_theirlaw_of_sum() -> None:
    """Forty laws go through several levels of groups; the total is a Gaussian law's, whatever the groups."""
    parts = tuple((pair, 1) for pair in pairs(DiscreteGaussian(Fraction(800 + i)) for i in range(40)))
    table = _tabulate(parts, 40, 4.0)
    losses = table.first + table.step * np.arange(len(table.weights))
    own = table.weights * np.exp(table.log_scale - table.tilt * losses)
    # Under P a loss of one release has mean 1/2σ² and variance 1/σ².
    total = math.fsum(1.0 / (800 + i) for i in range(40))
    mean = float(np.dot(own, losses))
    assert own.sum() == pytest.approx(1.0, abs=1e-6)
    assert mean == pytest.approx(total / 2.0, rel=1e-3)
    assert float(np.dot(own, (losses - mean) ** 2)) == pytest.approx(total, rel=1e-3)
    assert table.error < 1e-10


def test_a_discounted_sum_reaches_over_any_range_of_losses() -> None:
    masses = np.random.default_rng(3).random(3000)
    for step in (1e-3, 0.2, 0.9):
        falls = np.exp(-step * np.arange(len(masses)))
        exact = [float(np.dot(masses[i + 1 :], falls[1 : len(masses) - i])) for i in range(len(masses))]
        assert _discounted(masses, step) == pytest.approx(np.asarray(exact), rel=1e-11)
