"""One contract for every family: its law, moments, tails and quantiles against closed forms in high precision."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from mpmath import mp

from cases.noise_laws import BITS, exact_cdf, exact_floats, exact_pmf, exact_tail, gauss, table
from cases.noises import MEMBERS
from croupier.checks import InvalidParameter
from croupier.noise import (
    Binomial,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
)

every_member = pytest.mark.parametrize("noise", MEMBERS, ids=repr)

DEEP_MEMBERS = (
    Binomial(1000, 0.9),
    DiscreteLaplace(20),
    Poisson(10_000),
    Polya(30, scale=3),
    PolyaDifference(1.5, 3),
    Skellam(400),
)


def near(found: float, exact: arb, relative: float) -> bool:
    """Whether a double is within a relative distance of a ball."""
    with ctx.workprec(BITS):
        return bool(abs(arb(float(found)) - exact) <= relative * abs(exact))


def spread(noise: Noise, floor: float, count: int = 80) -> list[int]:
    """Points over the range where the exact law is above `floor`."""
    start, masses, _, _ = table(noise)
    inside = [start + i for i, mass in enumerate(masses) if mass > floor]
    return sorted({inside[i] for i in np.linspace(0, len(inside) - 1, count).astype(int)})


@pytest.mark.parametrize("noise", [n for n in MEMBERS if isinstance(n, PolyaDifference)], ids=repr)
@pytest.mark.parametrize("x", [0, 1, 10, 200])
def test_the_reference_of_differences_agrees_with_gauss_series(noise: PolyaDifference, x: int) -> None:
    with ctx.workprec(BITS):
        assert abs(exact_pmf(noise, x) / gauss(noise, x) - 1) < 1e-60


@every_member
def test_the_reference_sums_to_one(noise: Noise) -> None:
    _, _, below, _ = table(noise)
    with ctx.workprec(BITS):
        assert abs(below[-1] - 1) < 1e-100


@every_member
def test_pmf_is_the_closed_form(noise: Noise) -> None:
    points = spread(noise, 1e-35)
    found = noise.pmf(points)
    # Skellam(10^6) multiplies 13,000 ratios and says 3e-9 of itself; its actual error is far smaller.
    wrong = [(x, f) for x, f in zip(points, found, strict=True) if not near(f, exact_pmf(noise, x), 1e-11)]
    assert not wrong


@every_member
def test_pmf_reaches_far_beyond_the_shallow_table(noise: Noise) -> None:
    points = [x for x in spread(noise, 1e-95, 40) if exact_pmf(noise, x) < 1e-45]
    wrong = [x for x in points if not near(noise.pmf(x), exact_pmf(noise, x), 1e-9)]
    assert not wrong


@every_member
def test_pmf_sums_to_one(noise: Noise) -> None:
    start, masses, _, _ = table(noise)
    assert math.fsum(noise.pmf(np.arange(start, start + len(masses)))) == pytest.approx(1.0, abs=1e-11)


@every_member
def test_pmf_of_one_point_and_of_an_array_agree(noise: Noise) -> None:
    points = np.arange(-3, 9).reshape(3, 4)
    together = noise.pmf(points)
    assert together.shape == points.shape
    assert [noise.pmf(int(x)) for x in points.flat] == together.ravel().tolist()
    assert isinstance(noise.pmf(2), float)


@every_member
def test_mean_and_variance_are_those_of_the_pmf(noise: Noise) -> None:
    start, masses, _, _ = table(noise)
    with ctx.workprec(BITS):
        mean = sum(((start + i) * mass for i, mass in enumerate(masses)), arb(0))
        square = sum(((start + i) ** 2 * mass for i, mass in enumerate(masses)), arb(0))
        variance = square - mean**2
    assert noise.mean == pytest.approx(float(mean), rel=1e-12, abs=1e-60)
    assert near(noise.variance, variance, 1e-12)
    assert noise.std == math.sqrt(noise.variance)


@every_member
def test_support_and_symmetry_are_those_of_the_pmf(noise: Noise) -> None:
    low, high = noise.support
    if low is not None:
        assert noise.pmf(low - 1) == 0 < exact_pmf(noise, low)
        assert noise.cdf(low - 1) < 1e-30
    if high is not None:
        assert noise.pmf(high + 1) == 0 < exact_pmf(noise, high)
        assert noise.tail(high) < 1e-30
    if noise.symmetric:
        points = np.arange(30)
        assert noise.pmf(points) == pytest.approx(noise.pmf(-points), rel=1e-13)


@every_member
def test_cdf_and_tail_are_complements(noise: Noise) -> None:
    points = np.asarray(spread(noise, 1e-35))
    assert noise.cdf(points) + noise.tail(points) == pytest.approx(np.ones(len(points)), abs=1e-11)


@every_member
def test_tails_are_accurate_on_both_sides(noise: Noise) -> None:
    points = spread(noise, 1e-27, 40)
    for x in points:
        # The two ends of the law, where a difference from one would be lost.
        if exact_tail(noise, x) > 0:
            assert near(noise.tail(x), exact_tail(noise, x), 1e-6), x
        if exact_cdf(noise, x) > 0:
            assert near(noise.cdf(x), exact_cdf(noise, x), 1e-6), x


@every_member
@pytest.mark.parametrize("level", [1e-10, 1e-30])
def test_tail_is_accurate_far_out(noise: Noise, level: float) -> None:
    start, _, _, above = table(noise)
    x = start + next(i for i in range(len(above)) if above[i] < level) - 1
    if exact_tail(noise, x) > 0:
        # A table down to 1e-40 has a rest that still counts a little here.
        assert near(noise.tail(x), exact_tail(noise, x), 1e-6)
    assert noise.tail([x]) == pytest.approx([noise.tail(x)], rel=1e-6)


@every_member
@pytest.mark.parametrize("probability", [1e-35, 1e-12, 1e-3, 0.1, 0.39, 0.45, 0.7, 0.999])
def test_tail_quantile_is_least(noise: Noise, probability: float, monkeypatch: pytest.MonkeyPatch) -> None:
    _bound_search(monkeypatch)
    found = noise.tail_quantile(probability)
    assert exact_tail(noise, found) <= probability * (1 + 1e-9)
    assert exact_tail(noise, found - 1) > probability * (1 - 1e-9)


@every_member
@pytest.mark.parametrize("probability", [1e-30, 1e-12, 1e-3, 0.1, 0.49, 0.501, 0.9, 0.999])
def test_quantile_is_least(noise: Noise, probability: float) -> None:
    found = noise.quantile(probability)
    assert exact_cdf(noise, found) >= probability * (1 - 1e-9)
    assert exact_cdf(noise, found - 1) < probability * (1 + 1e-9)


@pytest.mark.parametrize("noise", DEEP_MEMBERS, ids=repr)
@pytest.mark.parametrize("probability", [1e-45, 1e-100])
def test_quantiles_reach_any_depth_on_both_sides(
    noise: Noise, probability: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    _bound_search(monkeypatch)
    low = noise.quantile(probability)
    assert exact_cdf(noise, low - 1) < probability * (1 + 1e-9)
    high = noise.tail_quantile(probability)
    assert exact_tail(noise, high) <= probability * (1 + 1e-9)
    assert exact_tail(noise, high - 1) > probability * (1 - 1e-9)


@pytest.mark.parametrize("scale", [0.5, 2, 20, 1000])
@pytest.mark.parametrize("steps", [1, 5, 40])
def test_laplace_quantile_is_on_the_safe_side_of_a_step(scale: float, steps: int) -> None:
    x = round(steps * scale)
    with ctx.workprec(BITS):
        beta = (-1 / arb(scale)).exp()
        tail = float(beta ** (x + 1) / (1 + beta))
    assert DiscreteLaplace(scale).tail_quantile(tail * (1 + 1e-12)) == x
    assert DiscreteLaplace(scale).tail_quantile(tail * (1 - 1e-11)) == x + 1


@every_member
@pytest.mark.parametrize("failure", [1e-9, 0.01, 0.3])
def test_deviation_bounds_the_two_tails_together(noise: Noise, failure: float) -> None:
    reach = noise.deviation(failure)
    low, high = math.ceil(noise.mean - reach), math.floor(noise.mean + reach)
    with ctx.workprec(BITS):
        assert exact_cdf(noise, low - 1) + exact_tail(noise, high) <= failure * (1 + 1e-9)
    if noise.symmetric and reach > 0:
        with ctx.workprec(BITS):
            assert exact_cdf(noise, low) + exact_tail(noise, high - 1) > failure * (1 - 1e-9)


@every_member
@pytest.mark.parametrize("reach", [0, 3, 50, 700])
def test_bulk_is_the_pmf_around_zero(noise: Noise, reach: int) -> None:
    law = noise.bulk(reach)
    assert law.shape == (2 * reach + 1,)
    assert np.abs(law - exact_floats(noise, -reach, reach + 1)).max() <= 1e-14


@pytest.mark.parametrize("noise", [Poisson(1000), Polya(300, beta=0.5), Binomial(2000, 0.5)], ids=repr)
def test_bulk_of_a_law_far_from_zero_is_zero(noise: Noise) -> None:
    assert not noise.bulk(10).any()


@every_member
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_the_log_ratio_holds_and_is_approached(noise: Noise, shift: int) -> None:
    _, masses, _, _ = table(noise)
    bound = noise.log_ratio(shift)
    with ctx.workprec(BITS):
        logs = [abs(float((b / a).log())) for a, b in zip(masses, masses[shift:], strict=False) if a > 0 and b > 0]
    assert max(logs, default=0.0) <= float(bound) * (1 + 1e-12)
    # Sums of Laplace parts approach it only like 1/x; of parts of one it is the ratio at the peak.
    nearest = 1 - 1e-12 if getattr(noise, "r", 1) < 1 else 0.85
    assert math.isinf(bound) or max(logs) >= float(bound) * nearest
    assert math.isfinite(bound) == isinstance(noise, DiscreteLaplace | PolyaDifference)


@pytest.mark.parametrize("shift", [1, 3, 10**6])
def test_the_log_ratio_of_nearly_all_of_laplace_noise_is_that_of_all(shift: int) -> None:
    """The two formulas meet at r = 1, also where no table of the law would fit."""
    near = PolyaDifference(1 - Fraction(1, 10**12), 10**9).log_ratio(shift)
    assert math.isclose(near, DiscreteLaplace(10**9).log_ratio(shift), rel_tol=1e-4)


@pytest.mark.parametrize("r", [Fraction(1, 1000), Fraction(1, 3), 1 - Fraction(1, 10**9)], ids=str)
@pytest.mark.parametrize("far", [1, 20, 55, 70, 200])
def test_the_log_ratio_of_a_part_of_laplace_noise_is_exact_however_far_it_reaches(r: Fraction, far: int) -> None:
    """Against the hypergeometric function of another library, with digits enough for what cancels in it."""
    scale, shift = 10, 10 * far
    with mp.workdps(300):
        rest = mp.exp(-mp.mpf(2) / scale)
        share = mp.mpf(r.numerator) / r.denominator
        masses = [
            mp.exp(-mp.mpf(x) / scale) * mp.rf(share, x) / mp.factorial(x) * mp.hyp2f1(share, share + x, 1 + x, rest)
            for x in (0, shift)
        ]
        exact = float(mp.log(masses[0] / masses[1]))
    found = PolyaDifference(r, scale).log_ratio(shift)
    assert exact * (1 - 1e-15) <= found <= exact * (1 + 1e-14)


@pytest.mark.parametrize("noise", [Poisson(4), PolyaDifference(0.5, 2)], ids=repr)
@pytest.mark.parametrize("x", [2.5, [1, 1.5], math.nan, math.inf])
@pytest.mark.parametrize("look", ["pmf", "cdf", "tail"])
def test_a_point_that_is_no_whole_number_is_refused(noise: Noise, x: object, look: str) -> None:
    with pytest.raises(InvalidParameter, match="whole"):
        getattr(noise, look)(x)


@pytest.mark.parametrize("x", [2**62, 2**63 - 1, 2**63])
def test_a_huge_point_lies_above_everything(x: int) -> None:
    assert DiscreteLaplace(4).cdf(x) == 1.0
    assert DiscreteLaplace(4).tail(x) < 1e-280
    assert DiscreteLaplace(4).pmf(x) == 0.0


@pytest.mark.parametrize(
    "noise", [Poisson(4), DiscreteLaplace(3), PolyaDifference(0.5, 2), Binomial(10**12, 0.5)], ids=repr
)
@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, 1.5, math.nan])
@pytest.mark.parametrize("look", ["quantile", "tail_quantile"])
def test_a_probability_outside_its_range_is_refused(noise: Noise, probability: float, look: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        getattr(noise, look)(probability)
    assert refusal.value.name == "probability"


@pytest.mark.parametrize("probability", [1e-3, 1e-12])
@pytest.mark.parametrize("p", [0.5, 1e-3])
def test_quantiles_of_a_binomial_too_wide_to_tabulate_are_close_upper_bounds(p: float, probability: float) -> None:
    noise = Binomial(10**14, p)
    gap = noise.tail_quantile(probability) - noise.mean
    # Chernoff's bound is above the Gaussian quantile (the law is one to nine digits), by little.
    with ctx.workprec(BITS):
        tail = 0.5 * float((arb(gap) / arb(noise.std) / arb(2).sqrt()).erfc())
    assert probability / 60 < tail < probability
    assert noise.mean - noise.quantile(probability) == pytest.approx(gap, rel=1e-3)


def _bound_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """No law here reaches a million: a search that goes there would not end, or end in memory."""
    plain = PolyaDifference._tail_at

    def bounded(self: PolyaDifference, x: int) -> float:
        assert x < 10**6, "the search for a quantile does not end"
        return plain(self, x)

    monkeypatch.setattr(PolyaDifference, "_tail_at", bounded)


def test_a_quantile_deeper_than_the_table_is_refused_not_guessed() -> None:
    with pytest.raises(InvalidParameter, match="probability = 1e-150"):
        DiscreteGaussianSum(1, 7).tail_quantile(1e-150)
